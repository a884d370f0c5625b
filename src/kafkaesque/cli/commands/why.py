"""`kafkaesque why`: what holds up a message, a group or a transaction."""

from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import typer

from kafkaesque.cli.arguments import BOOTSTRAP_DEFAULT, BootstrapOption, JsonOption, new_app
from kafkaesque.cli.completion import GroupArgument, QueueArgument, TopicArgument
from kafkaesque.cli.exchange_arguments import HeadersOption, parse_headers
from kafkaesque.cli.screen import Screen

#: As doctor's: 0 is that nothing is held up, 1 that something is, or may be.
IS_HELD_UP: Final = 1
_API: Final = "/api/v1/why"

PrincipalOption = Annotated[
    str,
    typer.Option(
        "--principal", metavar="WHO", help="Who consumes, such as User:app: whether it may."
    ),
]

app = new_app(
    help="Say why a message, a group or a transaction waits: the way it takes, what it has passed, "
    "what blocks it, since when, and what helps.\n\n\b\nExample:\n"
    "  kafkaesque why record orders 0 4711 --group billing\n"
    "  kafkaesque why group billing"
)


class _Link(msgspec.Struct):
    name: str
    state: str
    what: str
    evidence: list[str]
    since: int | None
    command: str | None


class _Chain(msgspec.Struct):
    about: str
    cause: str | None
    is_certain: bool
    links: list[_Link]


@app.command()
def record(
    topic: TopicArgument,
    partition: Annotated[int, typer.Argument(metavar="PARTITION", min=0, show_default=False)],
    offset: Annotated[int, typer.Argument(metavar="OFFSET", min=0, show_default=False)],
    group: Annotated[
        str | None, typer.Option("--group", metavar="NAME", help="Why this group has not read it.")
    ] = None,
    principal: PrincipalOption = "",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Say what has become of a record of a topic, and of a group's way to it.

    \b
    Example:
      kafkaesque why record orders 0 4711
      kafkaesque why record orders 0 4711 --group billing --principal User:app
    """
    more = "" if group is None else f"&group={_quote(group)}"
    more += f"&principal={_quote(principal)}" if principal else ""
    path = f"/topics/{_quote(topic)}/partitions/{partition}?offset={offset}{more}"
    _show(bootstrap, path, json=json)


@app.command()
def group(
    name: GroupArgument,
    principal: PrincipalOption = "",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Say why a consumer group has not read everything.

    \b
    Example:
      kafkaesque why group billing
    """
    more = f"?principal={_quote(principal)}" if principal else ""
    _show(bootstrap, f"/groups/{_quote(name)}{more}", json=json)


@app.command()
def producer(
    name: Annotated[str, typer.Argument(metavar="ID", show_default=False)],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Say what a transaction waits for, by its transactional id or its producer id.

    \b
    Example:
      kafkaesque why producer billing-1
    """
    _show(bootstrap, f"/producers/{_quote(name)}", json=json)


@app.command()
def queue(
    name: QueueArgument,
    message: Annotated[
        int, typer.Argument(metavar="OFFSET", min=0, help="As queue peek shows it.")
    ],
    partition: Annotated[
        int, typer.Option("--partition", "-p", min=0, help="Of a queue with several.")
    ] = 0,
    vhost: Annotated[str, typer.Option("--vhost", metavar="NAME", help="The virtual host.")] = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Say where a message of a queue is, and why.

    \b
    Example:
      kafkaesque why queue work 17
    """
    path = f"/queues/{_quote(name)}?message={message}&vhost={_quote(vhost)}"
    path += f"&partition={partition}" if partition else ""
    _show(bootstrap, path, json=json)


@app.command()
def exchange(
    name: Annotated[str, typer.Argument(metavar="EXCHANGE", show_default=False)],
    key: Annotated[str, typer.Option("--key", "-k", help="The message's routing key.")] = "",
    header: HeadersOption = None,
    vhost: Annotated[str, typer.Option("--vhost", metavar="NAME", help="The virtual host.")] = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Say where a message goes that is published to an exchange, or why nowhere.

    \b
    Example:
      kafkaesque why exchange logs --key db.error
      kafkaesque why exchange orders -H size=7 -H kind=order
    """
    headers = msgspec.json.encode(parse_headers(header)).decode() if header else ""
    query = f"key={_quote(key)}&vhost={_quote(vhost)}&headers={_quote(headers)}"
    _show(bootstrap, f"/exchanges/{_quote(name)}?{query}", json=json)


def _show(bootstrap: str, path: str, *, json: bool) -> None:
    from kafkaesque.cli.admin_pages import read_existing
    from kafkaesque.cli.alive_brokers import alive_addresses

    found = read_existing(alive_addresses(bootstrap), _API + path, _Chain)
    screen = Screen(json=json)
    if json:
        screen.show_json(msgspec.to_builtins(found))
    else:
        for line in _lines(found):
            print(line)
    if found.cause is not None:
        raise typer.Exit(IS_HELD_UP)


def _lines(found: _Chain) -> list[str]:
    lines = [found.about]
    for each in found.links:
        since = f", since {_time(each.since)}" if each.since is not None else ""
        lines.append(f"  {each.state:<8}  {each.what}{since}  [{each.name}]")
        if each.state == "passed":
            continue
        lines += [f"            {line}" for line in each.evidence]
        if each.command is not None:
            lines.append(f"            try: {each.command}")
    if found.cause is None:
        lines.append("nothing holds it up, as far as brokers know")
    else:
        doubt = "" if found.is_certain else ", probably: it is not certain"
        lines.append(f"cause: {found.cause}{doubt}")
    return lines


def _time(wall_ms: int) -> str:
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _quote(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
