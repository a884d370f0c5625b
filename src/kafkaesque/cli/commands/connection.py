"""`kafkaesque connection`: who is connected with a cluster's brokers."""

from datetime import UTC, datetime
from typing import Annotated, Final
from urllib.parse import urlencode

import msgspec
import typer

from kafkaesque.cli.arguments import BOOTSTRAP_DEFAULT, BootstrapOption, JsonOption, new_app
from kafkaesque.cli.screen import Screen, Table, counted

app = new_app(help="Clients' connections, of all protocols: list, close.")

_API: Final = "/api/v1/connections"
_PAGE: Final = 1_000
_COLUMNS: Final = ("ID", "CLIENT", "PROTOCOL", "USER", "CLIENT-ID", "SINCE", "IN", "OUT", "IDLE-S")


class _Connected(msgspec.Struct):
    broker: int
    number: int
    protocol: str
    listener: str
    peer: str
    user: str
    client_id: str
    opened_at: int | None
    bytes_in: int
    bytes_out: int
    rate_in: float | None
    rate_out: float | None
    unsent_bytes: int
    idle_ms: int
    is_throttled: bool


class _Source(msgspec.Struct):
    broker: int
    missing: str | None


class _Page(msgspec.Struct):
    items: list[_Connected]
    next: str | None
    sources: list[_Source]


class _Change(msgspec.Struct):
    what: str


@app.command("list")
def list_all(
    protocol: Annotated[
        str, typer.Option("--protocol", metavar="NAME", help="Only kafka, amqp, mqtt, ...")
    ] = "",
    user: Annotated[str, typer.Option("--user", metavar="NAME", help="Only one user's.")] = "",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List clients' connections with all brokers; IN and OUT are bytes.

    Ends with 1 if some are missing, because a broker does not answer.

    \b
    Example:
      kafkaesque connection list
      kafkaesque connection list --protocol mqtt --user app
    """
    found, missing = _read(bootstrap, {"protocol": protocol, "user": user})
    screen = Screen(json=json)
    rows = [
        (
            f"{each.broker}:{each.number}",
            each.peer,
            each.protocol,
            each.user,
            each.client_id,
            _time(each.opened_at),
            each.bytes_in,
            each.bytes_out,
            each.idle_ms // 1000,
        )
        for each in found
    ]
    screen.show(Table(columns=_COLUMNS, rows=rows), [msgspec.structs.asdict(e) for e in found])
    for each in missing:
        screen.note(f"not in here: broker {each.broker}: {each.missing}")
    if missing:
        raise typer.Exit(1)


@app.command()
def close(
    connection: Annotated[
        list[str],
        typer.Argument(
            metavar="ID...", help="As list shows it: BROKER:NUMBER.", show_default=False
        ),
    ],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Close clients' connections. Clients may connect again: `user disable` keeps them away.

    \b
    Example:
      kafkaesque connection close 2:4711
    """
    from kafkaesque.cli.admin_pages import change
    from kafkaesque.cli.alive_brokers import alive_addresses

    places = [_parse(each) for each in connection]
    brokers = alive_addresses(bootstrap)
    done = [
        change(brokers, "DELETE", f"{_API}/{broker}/{number}", _Change).what
        for broker, number in places
    ]
    sentence = done[0] if len(done) == 1 else f"{counted(len(done), 'connection')} are closed"
    Screen(json=json).done(sentence, {"closed": connection})


def _read(bootstrap: str, chosen: dict[str, str]) -> tuple[list[_Connected], list[_Source]]:
    """Return all pages, and the brokers whose part is missing.

    Raises:
        CommandFailed: no admin port answers, or it refuses.
    """
    from kafkaesque.cli.admin_pages import change
    from kafkaesque.cli.alive_brokers import alive_addresses

    brokers = alive_addresses(bootstrap)
    found: list[_Connected] = []
    missing: list[_Source] = []
    after: str | None = ""
    while after is not None:
        query = {**chosen, "limit": str(_PAGE), "after": after}
        asked = urlencode({name: value for name, value in query.items() if value})
        page = change(brokers, "GET", f"{_API}?{asked}", _Page)
        found += page.items
        missing = [each for each in page.sources if each.missing is not None]
        after = page.next
    return found, missing


def _parse(word: str) -> tuple[int, int]:
    from kafkaesque.cli.arguments import wrong_usage

    broker, _, number = word.partition(":")
    if not (broker.isdecimal() and number.isdecimal()):
        raise wrong_usage(f"{word!r} is no connection", "kafkaesque connection list")
    return int(broker), int(number)


def _time(wall_ms: int | None) -> str:
    if wall_ms is None:
        return "-"
    return datetime.fromtimestamp(wall_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
