"""`kafkaesque txn`: transactional ids, what they have open, and ending what hangs."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    AGE_S_MAX,
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    number_option,
    wrong_usage,
)
from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table
from kafkaesque.cli.topic_name import check_name

if TYPE_CHECKING:
    from kafkaesque.cli.transaction_requests import (
        DescribedTransaction,
        Partition,
        ProducerRow,
        Transactions,
    )

app = new_app(help="Transactions: list, describe, producers, abort.")

#: The states of a transaction, as Kafka names them.
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
    "Dead",
)
#: A transaction is open, or its end is decided and not everywhere written.
_OPEN = ("Ongoing", "PrepareCommit", "PrepareAbort", "PrepareEpochFence")

_PRODUCER_COLUMNS = (
    "TOPIC",
    "PARTITION",
    "LEADER",
    "PRODUCER",
    "EPOCH",
    "SEQUENCE",
    "LAST-WRITE",
    "COORDINATOR-EPOCH",
    "OPEN-SINCE-OFFSET",
)

IdArgument = Annotated[str, typer.Argument(metavar="TRANSACTIONAL_ID", show_default=False)]


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state", metavar="STATE", help="Only this state, such as Ongoing. May be repeated."
        ),
    ] = None,
    open_for: Annotated[
        float | None,
        number_option(
            "--open-for",
            least=0,
            most=AGE_S_MAX,
            metavar="SECONDS",
            help="Only transactions that are open for longer.",
        ),
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """List transactional ids.

    \b
    Example:
      kafkaesque txn list
      kafkaesque txn list --state Ongoing --open-for 60
    """
    states = _states(state or [])
    from kafkaesque.cli.transaction_requests import ANY_DURATION, Transactions

    duration_ms = ANY_DURATION if open_for is None else int(open_for * 1000)
    found, problems = Transactions(bootstrap).find(states, (), duration_ms)
    rows = [
        (each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found
    ]
    screen = Screen(json=json)
    screen.show(
        Table(columns=("TRANSACTIONAL-ID", "STATE", "PRODUCER", "COORDINATOR"), rows=rows),
        [asdict(each) for each in found],
    )
    for problem in problems:
        screen.note(problem)
    if problems:
        raise typer.Exit(FAILED)


@app.command()
def describe(
    transactional_id: IdArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show a transactional id, and its open transaction in each partition.

    \b
    Example:
      kafkaesque txn describe billing-1
    """
    from kafkaesque.cli.transaction_requests import Transactions

    transactions = Transactions(bootstrap)
    found = transactions.describe(transactional_id)
    rows = [
        each
        for each in transactions.producers(found.partitions)
        if each.producer_id == found.producer_id
    ]
    cells = {(each.topic, each.partition): _cells(each) for each in rows}
    missing = sorted({(each.topic, each.number) for each in found.partitions} - set(cells))
    cells.update((each, (*each, *[None] * 7)) for each in missing)
    facts: list[tuple[Cell, ...]] = [
        ("transactional-id", found.transactional_id),
        ("state", found.state),
        ("coordinator", found.coordinator),
        ("producer", found.producer_id),
        ("epoch", found.producer_epoch),
        ("timeout-ms", found.timeout_ms),
        ("begun", _time(found.start_ms)),
    ]
    document = {
        **asdict(found),
        "partitions": [asdict(each) for each in rows],
        "unwritten": [{"topic": topic, "partition": number} for topic, number in missing],
    }
    tables = [
        Table(title="transaction", columns=("FACT", "VALUE"), rows=facts),
        Table(
            title="partitions",
            columns=_PRODUCER_COLUMNS,
            rows=[cells[each] for each in sorted(cells)],
        ),
    ]
    Screen(json=json).show(tables, document)


@app.command()
def producers(
    topic: Annotated[str, typer.Argument(metavar="TOPIC[:PARTITION,...]", show_default=False)],
    is_open: Annotated[
        bool, typer.Option("--open", help="Only those with a transaction open there.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show the producers that partitions of a topic know.

    \b
    Example:
      kafkaesque txn producers orders
      kafkaesque txn producers orders:0 --open
    """
    name, numbers = _named_partitions(topic)
    from kafkaesque.cli.transaction_requests import Partition, Transactions

    transactions = Transactions(bootstrap)
    chosen = numbers or transactions.partitions_of(name)
    rows = transactions.producers([Partition(name, each) for each in chosen])
    if is_open:
        rows = [each for each in rows if each.start_offset is not None]
    Screen(json=json).show(
        Table(columns=_PRODUCER_COLUMNS, rows=list(map(_cells, rows))),
        [asdict(each) for each in rows],
    )


@app.command()
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="TRANSACTIONAL_ID", show_default=False)
    ] = None,
    topic: Annotated[str | None, typer.Option(help="With --partition and --start-offset.")] = None,
    partition: Annotated[int | None, typer.Option(min=0)] = None,
    start_offset: Annotated[
        int | None, typer.Option(min=0, help="Its first offset, as `txn producers` shows it.")
    ] = None,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Abort the open transaction of an id, and fence its producer.

    Or, with topic, partition and offset, abort a transaction that hangs in one partition and that
    no coordinator knows any more: consumers with read_committed wait for it.

    \b
    Example:
      kafkaesque txn abort billing-1
      kafkaesque txn abort --topic orders --partition 0 --start-offset 4711
    """
    place = (topic, partition, start_offset)
    is_complete = topic is not None and partition is not None and start_offset is not None
    if (transactional_id is None) == (place == (None, None, None)) or not (
        transactional_id or is_complete
    ):
        raise wrong_usage(
            "give a transactional id, or --topic, --partition and --start-offset",
            "kafkaesque txn abort billing-1",
        )
    from kafkaesque.cli.transaction_requests import Partition, Transactions

    transactions = Transactions(bootstrap)
    screen = Screen(json=json)
    if transactional_id is not None:
        found = _abort_id(transactions, transactional_id)
        screen.done(
            f"aborted the transaction of {transactional_id} and fenced its producer",
            {**asdict(found), "partitions": [each._asdict() for each in found.partitions]},
        )
    elif topic is not None and partition is not None and start_offset is not None:
        where = Partition(topic, partition)
        row = _abort_hanging(transactions, where, start_offset)
        screen.done(
            f"aborted the transaction of producer {row.producer_id} in {where} that began at"
            f" offset {start_offset}",
            asdict(row),
        )


def _abort_id(transactions: "Transactions", transactional_id: str) -> "DescribedTransaction":
    found = transactions.describe(transactional_id)
    if found.state not in _OPEN:
        raise CommandFailed(
            f"transactional id {transactional_id} has no transaction open (it is {found.state})"
        )
    transactions.fence(transactional_id, found.timeout_ms)
    return found


def _abort_hanging(
    transactions: "Transactions", where: "Partition", start_offset: int
) -> "ProducerRow":
    check_name(where.topic)
    rows = [each for each in transactions.producers([where]) if each.start_offset == start_offset]
    if not rows:
        raise CommandFailed(
            f"{where} has no open transaction that begins at offset {start_offset}",
            hint=f"kafkaesque txn producers {where.topic}:{where.number} --open",
        )
    (row,) = rows
    known, problems = transactions.find(_OPEN, [row.producer_id])
    if problems:
        # Else a transaction might be torn that somebody is about to commit.
        raise CommandFailed("it is not known whether the transaction hangs: " + "; ".join(problems))
    for each in known:
        if where in transactions.describe(each.transactional_id).partitions:
            raise CommandFailed(
                f"it is part of the transaction of {each.transactional_id}, which does not hang",
                hint=f"kafkaesque txn abort {each.transactional_id}",
            )
    transactions.write_abort(where, row)
    return row


def _states(words: Sequence[str]) -> list[str]:
    """Return states as Kafka writes them.

    Raises:
        CommandFailed: there is no such state.
    """
    titles = {each.lower(): each for each in STATES}
    for word in words:
        if word.lower() not in titles:
            raise wrong_usage(
                f"--state {word} is not one of {', '.join(STATES)}", "--state Ongoing"
            )
    return [titles[word.lower()] for word in words]


def _named_partitions(word: str) -> tuple[str, list[int]]:
    name, colon, numbers = word.partition(":")
    check_name(name)
    if colon and not all(each.isdecimal() for each in numbers.split(",")):
        raise wrong_usage(f"{word!r} is not a topic with partitions", "orders:0,3")
    return name, [int(each) for each in numbers.split(",")] if colon else []


def _cells(row: "ProducerRow") -> tuple[Cell, ...]:
    return (
        row.topic,
        row.partition,
        row.leader,
        row.producer_id,
        row.producer_epoch,
        row.last_sequence,
        _time(row.last_write_ms),
        row.coordinator_epoch,
        row.start_offset,
    )


def _time(time_ms: int | None) -> str | None:
    if time_ms is None:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
