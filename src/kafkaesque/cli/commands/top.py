"""`kafkaesque top`: a cluster in the terminal, again and again."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    number_option,
)
from kafkaesque.cli.screen import Cell, Screen, Table

if TYPE_CHECKING:
    from kafkaesque.cli.topic_sizes import TopicSizes

_CLEAR: Final = "\x1b[H\x1b[2J"
_API: Final = "/api/v1"

app = new_app()


class _Rates(msgspec.Struct):
    messages_in: float
    bytes_in: float
    bytes_out: float
    requests: float


class _State(msgspec.Struct):
    is_ready: bool
    partitions_led: int
    connections: int
    log_bytes: int
    disk_free_bytes: int | None
    disk_total_bytes: int | None
    rates: _Rates


class _Broker(msgspec.Struct):
    id: int
    is_alive: bool
    leads_controllers: bool
    state: _State | None


class _Brokers(msgspec.Struct):
    items: list[_Broker]


class _Group(msgspec.Struct):
    group: str
    state: str
    lag: int


class _Groups(msgspec.Struct):
    items: list[_Group]


@app.command()
def top(
    every: Annotated[
        float, number_option(least=2, most=3_600, help="Seconds between two looks.")
    ] = 2.5,
    rows: Annotated[
        int, typer.Option("--rows", "-n", min=1, max=1_000, help="Topics and groups to show.")
    ] = 10,
    once: Annotated[bool, typer.Option("--once", help="Look twice, show it, and end.")] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show brokers, the busiest topics and the groups that lag most, again and again.

    Rates are those since the look before. Ctrl-C stops. With --json, one line per look.

    \b
    Example:
      kafkaesque top
      kafkaesque top --once --json
    """
    from kafkaesque.cli.admin_pages import no_admin_port
    from kafkaesque.cli.topic_sizes import rated, read_sizes

    screen = Screen(json=json)
    before = read_sizes(bootstrap)
    if before is None:
        raise no_admin_port()
    while True:
        time.sleep(every)
        after = read_sizes(bootstrap)
        if after is None:
            screen.note("no broker answers")
            continue
        brokers, groups = _read(bootstrap, rows)
        found = rated(before, after)
        if json:
            sys.stdout.write(msgspec.json.encode(_document(brokers, found, groups)).decode() + "\n")
            sys.stdout.flush()
        else:
            if screen.is_terminal and not once:
                sys.stdout.write(_CLEAR)
            screen.show(_tables(brokers, found, groups, rows), None)
        if once:
            return
        before = after


def _read(bootstrap: str, rows: int) -> tuple[_Brokers, _Groups]:
    from kafkaesque.cli.admin_pages import read_page
    from kafkaesque.cli.alive_brokers import alive_addresses

    where = alive_addresses(bootstrap)
    brokers = read_page(where, f"{_API}/brokers?limit=1000", _Brokers)
    groups = read_page(where, f"{_API}/groups?sort=-lag&limit={rows}", _Groups)
    return brokers or _Brokers(items=[]), groups or _Groups(items=[])


def _document(brokers: _Brokers, topics: "TopicSizes", groups: _Groups) -> dict[str, object]:
    return {
        "brokers": brokers.items,
        "topics": [{"topic": name, **topics.document(name)} for name in sorted(topics.topics)],
        "groups": groups.items,
    }


def _tables(brokers: _Brokers, topics: "TopicSizes", groups: _Groups, rows: int) -> list[Table]:
    from kafkaesque.cli.topic_sizes import size_cells, size_columns

    rates = topics.rates or {}
    names = [each for each in topics.topics if not each.startswith("__")]
    busiest = sorted(names, key=lambda each: (-rates.get(each, 0), each))[:rows]
    topic_rows: list[tuple[Cell, ...]] = [(each, *size_cells(topics, each)) for each in busiest]
    group_rows: list[tuple[Cell, ...]] = [
        (each.group, each.state, each.lag) for each in groups.items
    ]
    return [
        Table(
            title="brokers",
            columns=("BROKER", "STATE", "LEADS", "CLIENTS", "IN/S", "IN", "OUT", "LOGS", "FREE"),
            rows=[_broker_row(each) for each in brokers.items],
        ),
        Table(title="topics", columns=("TOPIC", *size_columns(topics)), rows=topic_rows),
        Table(title="groups", columns=("GROUP", "STATE", "LAG"), rows=group_rows),
    ]


def _broker_row(broker: _Broker) -> tuple[Cell, ...]:
    from kafkaesque.cli.screen import size_text

    name = f"{broker.id} (controller)" if broker.leads_controllers else str(broker.id)
    state = broker.state
    if state is None:
        return (name, "silent" if broker.is_alive else "down", *(None,) * 7)
    free, total = state.disk_free_bytes, state.disk_total_bytes
    return (
        name,
        "ready" if state.is_ready else "not ready",
        state.partitions_led,
        state.connections,
        f"{state.rates.messages_in:.0f}",
        f"{size_text(state.rates.bytes_in)}/s",
        f"{size_text(state.rates.bytes_out)}/s",
        size_text(state.log_bytes),
        f"{100 * free / total:.0f}%" if free is not None and total else None,
    )
