"""`kafkaesque archive`: topics that pipelines keep in Delta Lake tables."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    wrong_usage,
)
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen, Table, counted

app = new_app(help="Tables of topics: history, offsets, compact, vacuum, expire, backfill.")

TableArgument = Annotated[
    Path, typer.Argument(metavar="TABLE", show_default=False, help="The table's folder.")
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")]
#: Of a topic that has more, `history` shows the sum; `--json` has them all.
_PARTITIONS_SHOWN = 8
_NO_SPARK = 'python -m pip install "kafkaesque-broker[spark]"'


@contextmanager
def _failures_told() -> Iterator[None]:
    """Turn what the block raises of tables into the end of a command."""
    try:
        from kafkaesque.spark.errors import ConnectorError, WrongOption
    except ImportError:
        raise CommandFailed("tables need the extra spark", hint=_NO_SPARK) from None
    try:
        yield
    except ImportError as error:
        raise CommandFailed(f"tables need {error.name}", hint=_NO_SPARK) from None
    except WrongOption as error:
        raise wrong_usage(str(error)) from None
    except ConnectorError as error:
        raise CommandFailed(str(error)) from None


def _time_ms(word: str) -> int:
    from kafkaesque.cli.offset_words import parse_time_ms

    return parse_time_ms(word)


def _age_ms(word: str) -> int:
    return max(0, time.time_ns() // 1_000_000 - _time_ms(word))


def _shown(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reached(topic: str, ends: Mapping[str, int]) -> str:
    if len(ends) > _PARTITIONS_SHOWN:
        return f"{topic} {sum(ends.values())} in {len(ends)} partitions"
    return " ".join([topic, *(f"{partition}:{end}" for partition, end in ends.items())])


@app.command()
def history(
    table: TableArgument,
    limit: Annotated[int, typer.Option(min=1, help="How many versions.")] = 20,
    json: JsonOption = False,
) -> None:
    """Show a table's versions, the newest first, and how far topics were archived in each.

    \b
    Example:
      kafkaesque archive history ./archive/tables/flights
    """
    with _failures_told():
        from kafkaesque.spark.lakehouse.history import read_history

        found = read_history(str(table.absolute()), limit)
    rows = [
        (
            each.version,
            _shown(each.timestamp_ms),
            each.kind,
            each.rows,
            "; ".join(_reached(topic, ends) for topic, ends in (each.offsets or {}).items()),
        )
        for each in found
    ]
    columns = ("VERSION", "TIME", "COMMIT", "ROWS", "ARCHIVED-UNTIL")
    Screen(json=json).show(Table(columns=columns, rows=rows), [asdict(each) for each in found])


@app.command()
def offsets(
    table: TableArgument,
    version: Annotated[int | None, typer.Option(min=0, help="As of a version.")] = None,
    at: Annotated[
        str, typer.Option(metavar="TIME", help="As of a time, or of so long ago (P1D).")
    ] = "",
) -> None:
    """Print how far topics are archived, in the form of the option startingOffsets.

    \b
    Example:
      kafkaesque archive offsets ./archive/tables/flights
      {"flights": {"0": 4100, "1": 3980}}
    """
    if at and version is not None:
        raise wrong_usage("give --version or --at, not both")
    with _failures_told():
        from kafkaesque.spark.lakehouse.table import open_as_of, recorded_offsets
        from kafkaesque.spark.offsets import to_json

        path = str(table.absolute())
        opened = open_as_of(path, version, _time_ms(at) if at else None)
        found = to_json(recorded_offsets(path, opened.version()))
    Screen(json=True).show_json(found)


@app.command()
def compact(
    table: TableArgument,
    file_bytes: Annotated[
        int, typer.Option("--target-size", min=1, metavar="BYTES", help="Of a file.")
    ] = 128 << 20,
    json: JsonOption = False,
) -> None:
    """Merge a table's small files; writers and readers need not stop.

    \b
    Example:
      kafkaesque archive compact ./archive/tables/flights
    """
    with _failures_told():
        from kafkaesque.spark.lakehouse.compaction import compact as join_files

        found = join_files(str(table.absolute()), file_bytes=file_bytes)
    sentence = f"joined {counted(found.files_before, 'file')} to {found.files_after}"
    if found.overtaken:
        sentence += f", and skipped {counted(found.overtaken, 'group')} that had changed meanwhile"
    Screen(json=json).done(sentence, asdict(found))


@app.command()
def vacuum(
    table: TableArgument,
    keep_since: Annotated[
        str,
        typer.Option(
            metavar="TIME",
            help="Versions since then stay readable (P30D: of 30 days); the table's own"
            " historyRetention by default.",
        ),
    ] = "",
    strange_before: Annotated[
        str,
        typer.Option(metavar="TIME", help="Remove files of no commit if they are older than this."),
    ] = "P7D",
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove files that no version needs; writers need not stop.

    \b
    Example:
      kafkaesque archive vacuum ./archive/tables/flights --dry-run
    """
    with _failures_told():
        from kafkaesque.spark.lakehouse.vacuum import vacuum as remove_files

        found = remove_files(
            str(table.absolute()),
            history_ms=_age_ms(keep_since) if keep_since else None,
            strange_age_ms=_age_ms(strange_before),
            dry_run=dry_run,
        )
    count = len(found.old) + len(found.dead) + len(found.strange)
    sentence = (
        f"{'would remove' if dry_run else 'removed'} {counted(count, 'file')},"
        f" {counted(found.size_bytes, 'byte')}: {len(found.old)} of old versions,"
        f" {len(found.dead)} of failed attempts, {len(found.strange)} of unknown origin"
    )
    Screen(json=json).done(sentence, asdict(found))


@app.command()
def expire(
    table: TableArgument,
    before: Annotated[
        str,
        typer.Option(
            metavar="TIME", show_default=False, help="A time, or how long ago (P365D: a year)."
        ),
    ],
    dry_run: DryRunOption = False,
    json: JsonOption = False,
) -> None:
    """Remove old records from a table: files in which all records are older than a time.

    Files that also have later records stay. Older versions still have the removed records, until
    `vacuum` removes the files.

    \b
    Example:
      kafkaesque archive expire ./archive/tables/flights --before P365D
    """
    with _failures_told():
        from kafkaesque.spark.lakehouse.vacuum import expire as take_out

        found = take_out(str(table.absolute()), before_ms=_time_ms(before), dry_run=dry_run)
    verb = "would take" if dry_run else "took"
    rows, files = counted(found.rows, "row"), counted(len(found.files), "file")
    Screen(json=json).done(f"{verb} {rows} in {files} out of the table", asdict(found))


@app.command()
def backfill(
    table: TableArgument,
    topic: Annotated[
        str, typer.Option(help="The topic whose records are sent.", show_default=False)
    ],
    to: Annotated[
        str, typer.Option(metavar="TOPIC", help="The topic to send them to.", show_default=False)
    ],
    start: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Records since this time.")
    ] = "",
    end: Annotated[
        str, typer.Option("--until", metavar="TIME", help="Records before this time.")
    ] = "",
    version: Annotated[int | None, typer.Option(min=0, help="As of a version.")] = None,
    at: Annotated[str, typer.Option(metavar="TIME", help="As of a time.")] = "",
    by_key: Annotated[
        bool, typer.Option("--by-key", help="Choose partitions by key; do not keep the old ones.")
    ] = False,
    name: Annotated[
        str, typer.Option(help="With another name, the same request is another backfill.")
    ] = "",
    batch: Annotated[
        int,
        typer.Option(min=1, metavar="RECORDS", help="Records in one transaction; kept in memory."),
    ] = 200_000,
    master: Annotated[str, typer.Option(help="Spark's.")] = "local[*]",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Send records of a table to a topic, once: keys, values, headers and times as they were.

    If it is killed, the same command continues where it stopped.

    \b
    Example:
      kafkaesque archive backfill ./archive/tables/flights --topic flights --to flights-again
    """
    from kafkaesque.cli.archive_backfill import BackfillWords, run_backfill

    words = BackfillWords(
        table=str(table.absolute()),
        topic=topic,
        to_topic=to,
        start=start,
        end=end,
        version=version,
        at=at,
        by_key=by_key,
        name=name,
        batch_offsets=batch,
        master=master,
    )
    screen = Screen(json=json)
    with _failures_told():
        sent = run_backfill(words, bootstrap, screen)
    screen.done(f"sent {counted(sent.rows, 'record')} to {to} (backfill {sent.name})", asdict(sent))
