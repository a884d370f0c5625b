"""Commits of staged files: each micro-batch is part of a table once, whoever brings it how often.

A commit is compare-and-set: it is made of what the newest version says, and takes place as the
version after that one or not at all. Whatever it was decided by (the query's last micro-batch, the
offsets, the columns) is therefore true at the moment of the commit; if somebody else was faster, it
is decided anew.

    version n:  query q at micro-batch 6, flights-0 until 500
    staged:     query q,   micro-batch 7, flights-0 from 500 to 599
    version n+1 = files + (q, 7) + (flights-0, 600)          one file in the log, made by link(2)

The query's number and the partitions' offsets are Delta Lake's application transactions, so the
log's checkpoints keep them. Nothing is ever deleted here: only `vacuum` does, by looking at what no
version needs.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import unquote

from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, CommitProperties, RemoveAction, Transaction

from kafkaesque.spark.lakehouse.commit_log import read_commit_info, sync_commit
from kafkaesque.spark.lakehouse.errors import Busy, NotRepeated, Overlap, TableError
from kafkaesque.spark.lakehouse.layout import Layout, check_partitioning, new_columns
from kafkaesque.spark.lakehouse.staging import Staged, StagedFile
from kafkaesque.spark.lakehouse.table import (
    BATCH,
    KIND,
    OFFSETS,
    QUERY,
    ROWS,
    FileEntry,
    archived_until,
    maybe_open,
    offset_app_id,
    open_table,
    partition_columns,
    recorded_offsets,
    schema_fields,
)
from kafkaesque.spark.offsets import Offsets, Partition, to_json

_ATTEMPTS_MAX = 200
_WAIT_S = 0.02
_COMMITS_LOOKED_AT_MAX = 1000
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """What a writer wants of the table."""

    path: str
    may_add_columns: bool = False
    #: Take rows whose offsets are before what is archived already.
    may_overlap: bool = False
    #: Of a table that is made: how long old versions can be read.
    history_ms: int = 30 * 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """All that the tasks of a micro-batch have staged."""

    query: str
    batch_id: int
    staged: Staged


@dataclass(frozen=True, slots=True)
class Published:
    """Where a micro-batch is."""

    version: int
    was_there: bool = False


def join(parts: Iterable[Staged]) -> Staged:
    """Return what several tasks have staged as one."""
    files: list[StagedFile] = []
    rows = 0
    spans: dict[Partition, tuple[int, int]] = {}
    for part in parts:
        files += part.files
        rows += part.rows
        for each, (first, last) in part.spans.items():
            before = spans.get(each, (first, last))
            spans[each] = (min(first, before[0]), max(last, before[1]))
    return Staged(tuple(files), rows, spans)


def publish(options: TableOptions, layout: Layout, batch: MicroBatch) -> Published:
    """Make staged files part of the table, unless their micro-batch is; the commit is synced.

    Raises:
        NotRepeated: the micro-batch is there and was another. Overlap: its offsets are there.
        TableError: the table cannot take the rows. Busy: others commit all the time.
    """

    def attempt() -> Published | None:
        table = maybe_open(options.path)
        if table is None:
            _create(options, layout)
            return None
        found = _find(options.path, table, batch)
        if found is not None:
            return found
        check_partitioning(layout, partition_columns(table))
        missing = new_columns(layout, schema_fields(table), may_add=options.may_add_columns)
        if missing:
            _add_columns(options.path, table, missing)
            return None
        ends = _ends(options, table, batch)
        words = {
            KIND: "append",
            QUERY: batch.query,
            BATCH: batch.batch_id,
            ROWS: batch.staged.rows,
            OFFSETS: to_json({**recorded_offsets(options.path, table.version()), **ends}),
        }
        numbers = [Transaction(batch.query, batch.batch_id)]
        numbers += [Transaction(offset_app_id(each), end) for each, end in ends.items()]
        adds = [_add_action(each, is_new=True) for each in batch.staged.files]
        return Published(_commit(options.path, table, adds, words, numbers))

    return _until_done(f"micro-batch {batch.batch_id} of {batch.query}", attempt)


def replace_files(
    path: str, old: Iterable[FileEntry], new: Iterable[StagedFile], words: Mapping[str, Any]
) -> int | None:
    """Put files in the place of others with the same rows; return the version.

    None: some of the old files are part of the table no more, so nothing was done.

    Raises:
        Busy: others commit all the time.
    """
    old, new = list(old), list(new)

    def attempt() -> int | None:
        table = open_table(path)
        active = active_paths(table)
        if not {each.path for each in old} <= active:
            # Either somebody else did it, or it took place and we were told that it had not.
            is_done = new and {each.path for each in new} <= active
            return int(table.version()) if is_done else -1
        now_ms = time.time_ns() // 1_000_000
        actions: list[Any] = [_remove_action(each, now_ms, is_new=False) for each in old]
        actions += [_add_action(each, is_new=False) for each in new]
        recorded = to_json(recorded_offsets(path, table.version()))
        return _commit(path, table, actions, {**words, OFFSETS: recorded}, [])

    found = _until_done("replacing files", attempt)
    return None if found < 0 else found


def remove_files(path: str, old: Iterable[FileEntry], words: Mapping[str, Any]) -> int | None:
    """Take files with their rows out of the table; return the version, None if others did."""
    old = list(old)

    def attempt() -> int | None:
        table = open_table(path)
        if not {each.path for each in old} <= active_paths(table):
            return -1
        now_ms = time.time_ns() // 1_000_000
        actions = [_remove_action(each, now_ms, is_new=True) for each in old]
        recorded = to_json(recorded_offsets(path, table.version()))
        return _commit(path, table, actions, {**words, OFFSETS: recorded}, [])

    found = _until_done("removing files", attempt)
    return None if found < 0 else found


def active_paths(table: DeltaTable) -> set[str]:
    """Return the paths of a version's files, in the table's folder."""
    return {unquote(path) for path in table.get_add_actions().column("path").to_pylist()}


def _until_done(what: str, attempt: Callable[[], Result | None]) -> Result:
    """Return what an attempt returns that has not been overtaken."""
    for _ in range(_ATTEMPTS_MAX):
        try:
            found = attempt()
        except CommitFailedError:
            # Somebody was faster, or it has taken place and the answer is lost: look again.
            time.sleep(random.uniform(0, _WAIT_S))
            continue
        except DeltaError as error:
            raise TableError(f"{what} cannot be committed: {error}") from error
        if found is not None:
            return found
    raise Busy(f"{what} cannot be committed: other commits came first {_ATTEMPTS_MAX} times")


def _commit(
    path: str,
    table: DeltaTable,
    actions: list[Any],
    words: dict[str, Any],
    numbers: list[Transaction],
) -> int:
    """Commit as the version after the table's, or not at all.

    Raises:
        CommitFailedError: there is such a version already.
    """
    properties = CommitProperties(
        custom_metadata=words, max_commit_retries=0, app_transactions=numbers
    )
    table.create_write_transaction(
        actions,
        "append",
        table.schema(),
        list(partition_columns(table)),
        commit_properties=properties,
    )
    sync_commit(path, table.version() + 1)
    return int(table.version()) + 1


def _create(options: TableOptions, layout: Layout) -> None:
    history = f"interval {max(1, options.history_ms // 1000)} seconds"
    DeltaTable.create(
        options.path,
        Schema.from_json(layout.json()),
        mode="ignore",
        partition_by=list(layout.partition_by),
        configuration={
            "delta.logRetentionDuration": history,
            "delta.deletedFileRetentionDuration": history,
        },
        commit_properties=CommitProperties(custom_metadata={KIND: "create", OFFSETS: {}}),
    )


def _add_columns(path: str, table: DeltaTable, columns: list[dict[str, Any]]) -> None:
    fields = Schema.from_json(json.dumps({"type": "struct", "fields": columns})).fields
    recorded = to_json(recorded_offsets(path, table.version()))
    table.alter.add_columns(
        fields,
        commit_properties=CommitProperties(
            custom_metadata={KIND: "add columns", OFFSETS: recorded}, max_commit_retries=0
        ),
    )


def _find(path: str, table: DeltaTable, batch: MicroBatch) -> Published | None:
    """Return where a micro-batch is that the table has already."""
    newest = table.transaction_version(batch.query)
    if newest is None or newest < batch.batch_id:
        return None
    version = table.version()
    for number in range(version, max(-1, version - _COMMITS_LOOKED_AT_MAX), -1):
        info = read_commit_info(path, number)
        if info is None:
            break
        if (info.words.get(QUERY), info.words.get(BATCH)) == (batch.query, batch.batch_id):
            rows = info.words.get(ROWS)
            if rows != batch.staged.rows:
                raise NotRepeated(
                    f"micro-batch {batch.batch_id} of {batch.query} is in version {number} of the"
                    f" table with {rows} rows, and comes again with {batch.staged.rows}: the query"
                    " does not repeat a micro-batch as it was"
                )
            return Published(number, was_there=True)
    return Published(version, was_there=True)


def _ends(options: TableOptions, table: DeltaTable, batch: MicroBatch) -> Offsets:
    """Return how far the partitions are archived with this micro-batch.

    Raises:
        Overlap: it begins before what is archived.
    """
    spans = batch.staged.spans
    there = archived_until(table, spans)
    for each in sorted(there):
        first, topic, number = spans[each][0], *each
        if first < there[each] and not options.may_overlap:
            raise Overlap(
                f"{topic}-{number} is archived until offset {there[each]}, and query {batch.query}"
                f" would archive it again from {first} on: another query has archived it, or this"
                " one has lost its checkpoint; start it with the startingOffsets that `kafkaesque"
                " archive offsets` shows, or allow rows to be there twice by allowOverlap=true"
            )
    return {each: max(last + 1, there.get(each, 0)) for each, (_, last) in spans.items()}


def _add_action(file: StagedFile, *, is_new: bool) -> AddAction:
    return AddAction(
        file.path,
        file.size_bytes,
        file.partition_values,
        file.modified_ms,
        is_new,
        file.stats_json,
    )


def _remove_action(file: FileEntry, now_ms: int, *, is_new: bool) -> RemoveAction:
    return RemoveAction(file.path, is_new, now_ms, file.size_bytes, dict(file.partition_values))
