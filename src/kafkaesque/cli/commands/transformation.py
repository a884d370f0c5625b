"""`kafkaesque transformation`: test, create, list, describe and delete."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    YesOption,
    ask_first,
    check_can_ask,
    new_app,
    parse_pairs,
    wrong_usage,
)
from kafkaesque.cli.exchange_arguments import VhostOption
from kafkaesque.cli.screen import Cell, Screen, Table

if TYPE_CHECKING:
    from kafkaesque.cli.transformation_requests import Stored
    from kafkaesque.routing.transformations.transformation import Transformation

app = new_app(help="Transformations: rules that change messages on their way through bindings.")

RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        "-r",
        metavar="FILE",
        help="A file with the rule, - for standard input, or the rule itself in JSON.",
        show_default=False,
    ),
]
NameArgument = Annotated[str, typer.Argument(metavar="TRANSFORMATION", show_default=False)]


@app.command("test")
def try_out(
    body: Annotated[str, typer.Argument(metavar="[BODY]", show_default=False)] = "",
    rule: RuleOption = "",
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="A transformation of the cluster instead."),
    ] = "",
    header: Annotated[
        list[str] | None,
        typer.Option("--header", "-H", metavar="NAME=VALUE", help="May be repeated."),
    ] = None,
    property_: Annotated[
        list[str] | None,
        typer.Option(
            "--property", "-p", metavar="NAME=VALUE", help="Such as type=order. May be repeated."
        ),
    ] = None,
    queue: Annotated[
        str,
        typer.Option(
            "--queue", "-q", metavar="QUEUE", help="Try it with a message that waits there."
        ),
    ] = "",
    partition: Annotated[int, typer.Option(min=0, help="Of the queue.")] = 0,
    offset: Annotated[
        int, typer.Option(min=0, help="The first message of the queue from there on.")
    ] = 0,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show what a rule makes of a message: nothing is published, no cluster is changed.

    With --rule, and without --queue, no cluster is needed.

    \b
    Example:
      kafkaesque transformation test --rule v2.json '{"total": "12.50"}' -H region=eu
      kafkaesque transformation test --name v2 --queue unconverted
    """
    if bool(rule) == bool(name):
        raise wrong_usage("give one of --rule and --name", "--rule v2.json")
    if queue and (body or header or property_):
        raise wrong_usage("give a message, or --queue: not both")
    if queue:
        found = _tried_with(queue, partition, offset, rule, name, vhost, bootstrap)
    else:
        made = _compiled(rule) if rule else _stored(bootstrap, vhost, name)
        headers = parse_pairs(header or (), "--header", "region=eu")
        properties = parse_pairs(property_ or (), "--property", "type=order")
        found = _tried(made, headers, properties, body.encode(errors="surrogateescape"))
    rows: list[tuple[Cell, ...]] = [
        *(("header", each, _shown(value)) for each, value in found.headers.items()),
        *(("property", each, _shown(value)) for each, value in found.properties.items()),
        ("body", "", found.body),
    ]
    screen = Screen(json=json)
    document = {name: value for name, value in found._asdict().items() if name != "note"}
    screen.show(Table(columns=("PART", "NAME", "VALUE"), rows=rows), document)
    if found.note:
        screen.note(found.note)
    if not found.applies:
        screen.note("the rule is not for this message: it stays as it is")


class _Tried(NamedTuple):
    """What comes out."""

    applies: bool
    headers: Mapping[str, object]
    properties: Mapping[str, object]
    body: str
    #: How the body is shown, if not as it is.
    note: str = ""


def _tried(
    made: "Transformation",
    headers: Mapping[str, str],
    properties: Mapping[str, str],
    body: bytes,
) -> _Tried:
    from kafkaesque.routing.message import RoutedMessage
    from kafkaesque.routing.transformations.errors import TransformationFailed

    message = RoutedMessage(headers=headers, properties=properties, body=body)
    try:
        found = made.apply(message)
    except TransformationFailed as failure:
        raise _rule_fails(str(failure), made.rule.failures) from None
    text = bytes(found.body).decode(errors="replace")
    return _Tried(made.applies_to(message), found.headers, found.properties, text)


def _tried_with(
    queue: str, partition: int, offset: int, rule: str, name: str, vhost: str, bootstrap: str
) -> _Tried:
    from kafkaesque.cli import transformation_requests as requests

    text = requests.read_text(rule) if rule else ""
    told = requests.try_out(bootstrap, vhost, name, text, queue, partition, offset)
    found = told.after
    if found is None:
        raise _rule_fails(told.failure or "nobody says why", told.failures)
    headers, properties = (
        {each.name: each.value for each in several} for several in (found.headers, found.properties)
    )
    how = ["in hexadecimal digits"] if found.body.kind == "hex" else []
    how += ["without its end"] if found.body.is_cut else []
    note = f"the body is shown {' and '.join(how)}" if how else ""
    return _Tried(told.applies, headers, properties, found.body.text, note)


def _rule_fails(failure: str, queue: str) -> Exception:
    where = f"queue {queue}" if queue else "where it was to go"
    return _failed(f"the rule fails: {failure}; the message goes unchanged to {where}")


def _compiled(text: str) -> "Transformation":
    from kafkaesque.cli.transformation_requests import read_text
    from kafkaesque.model.errors import RequestRefused
    from kafkaesque.routing.exchanges.transformation_planner import check_rule
    from kafkaesque.routing.transformations.rules import read_rule

    raw = read_text(text).encode(errors="surrogateescape")
    try:
        return check_rule(read_rule(raw))
    except RequestRefused as refusal:
        raise wrong_usage(str(refusal)) from None


def _stored(bootstrap: str, vhost: str, name: str) -> "Transformation":
    from kafkaesque.cli import transformation_requests as requests

    return _compiled(requests.show(bootstrap, vhost, name).rule)


def _failed(message: str) -> Exception:
    from kafkaesque.cli.failure import CommandFailed

    return CommandFailed(message)


def _shown(value: object) -> str:
    import json

    return value if isinstance(value, str) else json.dumps(value, default=str)


@app.command()
def create(
    name: NameArgument,
    rule: RuleOption,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Create a transformation, or change the one of the name: bindings that name it go by it.

    \b
    Example:
      kafkaesque transformation create v2 --rule v2.json
      kafkaesque binding create orders --queue new-shop -a x-transformation=v2
    """
    from kafkaesque.cli import transformation_requests as requests

    text = requests.read_text(rule)
    _compiled(text)
    requests.put(bootstrap, vhost, name, text)
    document = {"transformation": name, "vhost": vhost}
    Screen(json=json).done(f"created transformation {name}", document)


@app.command("list")
def list_all(
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List the transformations of a virtual host.

    \b
    Example:
      kafkaesque transformation list
    """
    from kafkaesque.cli import transformation_requests as requests

    found = requests.list_all(bootstrap, vhost)
    rows: list[tuple[Cell, ...]] = [(each.name, each.bindings, each.rule) for each in found]
    columns = ("TRANSFORMATION", "BINDINGS", "RULE")
    Screen(json=json).show(Table(columns=columns, rows=rows), [_document(each) for each in found])


@app.command()
def describe(
    name: NameArgument,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show a transformation: how many bindings name it, and its steps, one a line.

    \b
    Example:
      kafkaesque transformation describe v2
    """
    import msgspec

    from kafkaesque.cli import transformation_requests as requests
    from kafkaesque.routing.transformations.rules import read_rule

    found = requests.show(bootstrap, vhost, name)
    rule = read_rule(found.rule.encode())
    rows: list[tuple[Cell, ...]] = [
        ("bindings", found.bindings),
        ("when", rule.when or ""),
        ("failures", rule.failures),
    ]
    rows += [
        (f"step {number}", msgspec.json.encode(step).decode())
        for number, step in enumerate(rule.steps, 1)
    ]
    Screen(json=json).show(Table(columns=("FACT", "VALUE"), rows=rows), _document(found))


@app.command()
def delete(
    name: NameArgument,
    if_exists: Annotated[
        bool, typer.Option("--if-exists", help="Succeed if the transformation does not exist.")
    ] = False,
    yes: YesOption = False,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete a transformation that no binding names.

    \b
    Example:
      kafkaesque transformation delete v2 --yes
    """
    from kafkaesque.cli import transformation_requests as requests

    check_can_ask("transformation delete", yes=yes)
    screen, document = Screen(json=json), {"transformation": name, "vhost": vhost}
    there = [each.name for each in requests.list_all(bootstrap, vhost)]
    if name not in there:
        if not if_exists:
            raise requests.unknown(name, there)
        screen.done("deleted nothing", document)
        return
    ask_first("transformation delete", f"Delete transformation {name}?", yes=yes)
    requests.delete(bootstrap, vhost, name)
    screen.done(f"deleted transformation {name}", document)


def _document(found: "Stored") -> dict[str, object]:
    import json

    return {
        "transformation": found.name,
        "vhost": found.vhost,
        "bindings": found.bindings,
        "rule": json.loads(found.rule),
    }
