"""`kafkaesque route`: create, list, delete and test."""

import json as json_module
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    wrong_usage,
)
from kafkaesque.cli.completion import topic_names
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table

if TYPE_CHECKING:
    from kafkaesque.cli.routes import Found

app = new_app(help="Which names of MQTT, NATS and STOMP go to which topics.")

NamesArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAMES",
        show_default=False,
        help="What names begin with, as MQTT writes them; or a filter with + and #.",
    ),
]
NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="As MQTT writes it.")
]
PlaceArgument = Annotated[
    str | None,
    typer.Argument(metavar="[TOPIC]", show_default=False, autocompletion=topic_names),
]
LiveOnlyOption = Annotated[
    bool,
    typer.Option("--live-only", help="Nothing keeps these names; subscribers get them."),
]
BesideOption = Annotated[
    bool,
    typer.Option("--beside", help="Counts beside other routes, however long they are."),
]
LevelsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=256,
        help="So many levels of the name choose the partition; all, if it is not given.",
    ),
]
#: Of MQTT, NATS and STOMP; others are AMQP's.
VHOST = "/"


@app.command()
def create(
    names: NamesArgument,
    topic: PlaceArgument = None,
    live_only: LiveOnlyOption = False,
    levels: LevelsOption = None,
    beside: BesideOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Have messages of these names appended to a topic. Succeeds if it is so.

    The record's key is the name, with dots: messages of one name are in order. Where several routes
    fit a name, the longest one counts. With --live-only nothing keeps these names, though a shorter
    route would.

    \b
    Example:
      kafkaesque route create house readings
      kafkaesque route create "plant/+/line" lines --levels 2
      kafkaesque route create house/debug --live-only
    """
    from kafkaesque.cli import exchange_requests as requests
    from kafkaesque.cli import routes

    _check_place(topic, live_only=live_only)
    if live_only and (beside or levels is not None):
        raise wrong_usage("--live-only goes with neither --beside nor --levels")
    where = requests.Where(bootstrap, VHOST)
    binding = routes.binding_of(names, topic, levels, beside=beside)
    requests.alter_binding(where, binding, requests.CREATE)
    bindings = _bindings(bootstrap)
    # Only now: nothing that is published meanwhile is lost.
    for each in routes.replaced(binding, bindings):
        requests.alter_binding(where, each, requests.DELETE)
    shown = routes.shown_names(binding.key)
    if live_only and (topics := routes.topics_of(binding.key, bindings)):
        raise CommandFailed(
            f"{shown} still goes to topic {topics[0]}: routes of the same names all count",
            hint=f"kafkaesque route delete {shlex.quote(shown)} {topics[0]}",
        )
    sentence = f"{shown} is live only" if topic is None else f"{shown} goes to topic {topic}"
    Screen(json=json).done(sentence, {"names": shown, "topic": topic})


@app.command()
def delete(
    names: NamesArgument,
    topic: PlaceArgument = None,
    live_only: LiveOnlyOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove the route of these names to a topic. Succeeds if there is none.

    \b
    Example:
      kafkaesque route delete house readings
      kafkaesque route delete house/debug --live-only
    """
    from kafkaesque.cli import exchange_requests as requests
    from kafkaesque.cli import routes

    _check_place(topic, live_only=live_only)
    binding = routes.binding_of(names, topic, None, beside=False)
    for each in routes.same_place(binding, _bindings(bootstrap)):
        requests.alter_binding(requests.Where(bootstrap, VHOST), each, requests.DELETE)
    shown = routes.shown_names(binding.key)
    place = "is live only" if topic is None else f"goes to topic {topic}"
    sentence = f"no route says that {shown} {place}"
    Screen(json=json).done(sentence, {"names": shown, "topic": topic})


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List which names go to which topics.

    \b
    Example:
      kafkaesque route list
    """
    from kafkaesque.cli import routes

    rows: list[tuple[Cell, ...]] = []
    document: list[dict[str, object]] = []
    for each in sorted(_bindings(bootstrap), key=lambda found: (found.key, found.topic)):
        if each.is_route:
            shown, levels = routes.shown_names(each.key), routes.shown_levels(each.arguments)
            beside = not each.wants_longest
            rows.append((shown, each.topic, levels, "yes" if beside else "no"))
            topic = None if each.topic == routes.LIVE_ONLY else each.topic
            document.append({"names": shown, "topic": topic, "levels": levels, "beside": beside})
    table = Table(columns=("NAMES", "TOPIC", "LEVELS", "BESIDE"), rows=rows)
    Screen(json=json).show(table, document)


@app.command("test")
def try_name(
    name: NameArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Say to which queues and topics a name goes; nothing is published.

    Who has subscribed by MQTT, NATS or STOMP and is connected is not listed.

    \b
    Example:
      kafkaesque route test house/kitchen/temperature
    """
    from kafkaesque.cli import routes

    found = routes.destinations(routes.read_name(name), _bindings(bootstrap))
    rows: list[tuple[Cell, ...]] = [tuple(each) for each in found]
    document = [each._asdict() for each in found]
    Screen(json=json).show(Table(columns=("TO", "NAME", "BY", "IF"), rows=rows), document)


def _check_place(topic: str | None, *, live_only: bool) -> None:
    if (topic is None) != live_only:
        raise wrong_usage("name a topic, or say --live-only", "kafkaesque route create --help")


def _bindings(bootstrap: str) -> "list[Found]":
    """Return the bindings of the exchange of names."""
    from kafkaesque.cli import routes
    from kafkaesque.cli.exchange_requests import describe

    (found,) = describe(bootstrap, VHOST, with_bindings=True)
    return [
        routes.Found(
            each.routing_key,
            each.destination_type,
            each.destination,
            json_module.loads(each.arguments) if each.arguments else {},
        )
        for each in found.bindings
        if each.source == routes.NAMES_EXCHANGE
    ]
