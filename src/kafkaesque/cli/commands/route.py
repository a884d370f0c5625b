"""`kafkaesque route`: create, list, delete and test."""

import json as json_module
from typing import Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
)
from kafkaesque.cli.completion import TopicArgument
from kafkaesque.cli.screen import Cell, Screen, Table

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
    topic: TopicArgument,
    levels: LevelsOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Have messages of these names appended to a topic, too. Succeeds if it is so.

    The record's key is the name, with dots: messages of one name are in order.

    \b
    Example:
      kafkaesque route create house readings
      kafkaesque route create "plant/+/line" lines --levels 2
    """
    from kafkaesque.cli import exchange_requests as requests
    from kafkaesque.cli import routes

    binding = routes.binding_of(names, topic, levels)
    requests.alter_binding(requests.Where(bootstrap, VHOST), binding, requests.CREATE)
    shown = routes.shown_names(binding.key)
    Screen(json=json).done(f"{shown} goes to topic {topic}", {"names": shown, "topic": topic})


@app.command()
def delete(
    names: NamesArgument,
    topic: TopicArgument,
    levels: LevelsOption = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Have these names appended to a topic no more. Succeeds if they are not.

    \b
    Example:
      kafkaesque route delete house readings
    """
    from kafkaesque.cli import exchange_requests as requests
    from kafkaesque.cli import routes

    binding = routes.binding_of(names, topic, levels)
    requests.alter_binding(requests.Where(bootstrap, VHOST), binding, requests.DELETE)
    shown = routes.shown_names(binding.key)
    sentence = f"{shown} goes to topic {topic} no more"
    Screen(json=json).done(sentence, {"names": shown, "topic": topic})


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List which names go to which topics.

    \b
    Example:
      kafkaesque route list
    """
    from kafkaesque.cli import routes
    from kafkaesque.cli.exchange_requests import TOPIC

    rows: list[tuple[Cell, ...]] = [
        (routes.shown_names(key), name, routes.shown_levels(arguments))
        for key, kind, name, arguments in _bindings(bootstrap)
        if kind == TOPIC
    ]
    document = [dict(zip(("names", "topic", "levels"), row, strict=True)) for row in rows]
    Screen(json=json).show(Table(columns=("NAMES", "TOPIC", "LEVELS"), rows=rows), document)


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


def _bindings(bootstrap: str) -> list[tuple[str, int, str, dict[str, object]]]:
    """Return the bindings of the exchange of names: key, kind and name of the place, arguments."""
    from kafkaesque.cli import routes
    from kafkaesque.cli.exchange_requests import describe

    (found,) = describe(bootstrap, VHOST, with_bindings=True)
    return [
        (
            each.routing_key,
            each.destination_type,
            each.destination,
            json_module.loads(each.arguments) if each.arguments else {},
        )
        for each in found.bindings
        if each.source == routes.NAMES_EXCHANGE
    ]
