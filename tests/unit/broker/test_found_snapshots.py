"""Where the replay of a log's tables begins: by the newest snapshots, which are at its end."""

import random
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kafkaesque.broker.partitions import partition_tables
from kafkaesque.broker.partitions.partition_tables import (
    PartitionTableHost,
    PartitionTables,
    find_snapshots,
)
from kafkaesque.broker.replication import stored_batches
from kafkaesque.model.batch import assign_offsets, read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.ids import Offset, Term
from kafkaesque.model.records import Record
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.tables.logged import (
    CONTROL_KEY,
    Logged,
    LoggedKind,
    may_be_snapshot,
    read_logged,
    write_logged,
)
from tests.unit.storage.helpers import World, add
from tests.unit.tables.locks import Given, Lock, LockTable, State

LOCK = Lock("me", 1, 2**50)


def decisions(*said: bytes, table: int = 1, wall_ms: int = 2**40) -> bytearray:
    return write_logged(
        Logged(
            kind=LoggedKind.DECISIONS, table=table, lock_ms=2**40, wall_ms=wall_ms, decisions=said
        )
    )


def part(before: int = 0, left: int = 0, *, table: int = 1, state: bytes = b"s") -> bytearray:
    return write_logged(
        Logged(
            kind=LoggedKind.SNAPSHOT,
            table=table,
            lock_ms=2**40,
            wall_ms=2**40,
            parts_before=before,
            parts_left=left,
            part=state,
        )
    )


def append(world: World, log: GroupLog, data: bytearray) -> Offset:
    base_offset = log.end_offset
    assign_offsets(data, 0, base_offset, 1)
    at = log.last_index + 1
    log.append([LogEntry(EntryKind.DATA, at, at, Term(1), bytes(data))])
    world.commit()
    return Offset(base_offset)


def newest(log: GroupLog, *tables: int) -> Offset:
    return find_snapshots(log, tables)


def test_the_newest_whole_snapshot_of_each_table_is_found() -> None:
    world = World()
    log = world.log()
    assert newest(log, 1) == 0
    append(world, log, part())
    append(world, log, decisions(b"a"))
    second = append(world, log, part(table=2))
    add(log, 1, 3)
    first = append(world, log, part(0, 1))
    append(world, log, part(1, 0))
    append(world, log, part(0, 1))  # begun, and not finished
    append(world, log, decisions(b"b"))
    assert newest(log, 1) == first
    assert newest(log, 1, 2) == second
    assert newest(log, 3) == log.start_offset


@pytest.mark.parametrize("seed", range(20))
def test_it_is_found_wherever_it_is(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_tables, "SEARCHED_OFFSETS", 4)
    rng, world = random.Random(seed), World()
    log, found = world.log(), {1: Offset(0), 2: Offset(0)}
    for _ in range(rng.randrange(200)):
        table = rng.choice((1, 2))
        match rng.randrange(12):
            case 0:
                found[table] = append(world, log, part(table=table))
            case 1 | 2:
                add(log, 1, rng.randrange(1, 9))
            case _:
                append(world, log, decisions(bytes(rng.randrange(300)), table=table))
    assert newest(log, 1) == found[1]
    assert newest(log, 1, 2) == min(found.values())


def test_no_more_of_the_log_is_read_than_has_to_be_replayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A queue's segments are 16 MiB: most of one is of decisions long before the snapshot."""
    world = World()
    log = world.log()
    for _ in range(3_000):
        append(world, log, decisions(b"d"))
    snapshot = append(world, log, part())
    for _ in range(10):
        append(world, log, decisions(b"d"))
    read = []

    def counted(*arguments: Any) -> Any:
        for header, data in stored_batches.replay(*arguments):
            read.append(header.base_offset)
            yield header, data

    monkeypatch.setattr(partition_tables, "replay", counted)
    assert newest(log, 1) == snapshot
    assert len(read) <= partition_tables.SEARCHED_OFFSETS


def test_of_decisions_only_the_first_bytes_are_looked_at() -> None:
    for said in (b"", b"d", bytes(100), bytes(100_000)):
        for wall_ms in (0, 2**40, 2**60):
            data = decisions(said, wall_ms=wall_ms)
            assert not may_be_snapshot(read_batch_header(data), data)
            assert read_logged(read_batch_header(data), data) is not None
        data = part(3, 2, state=said)
        assert may_be_snapshot(read_batch_header(data), data)


def test_other_control_batches_are_left_to_whoever_reads_them() -> None:
    options = BatchOptions(control=True)
    for key in (b"", CONTROL_KEY[:2], b"\0\0\0\1"):
        for value in (None, b"", b"\0", b"\0\1" + bytes(40)):
            data = encode_batch([Record(0, 0, key, value)], options)
            assert may_be_snapshot(read_batch_header(data), data)
    data = encode_batch([Record(0, 0, CONTROL_KEY, b"\0\1")])
    assert not may_be_snapshot(read_batch_header(data), data)


class Loaded:
    """A log with a table of locks, as a broker loads it when it starts."""

    def __init__(self) -> None:
        self.world = World()
        self.log = self.world.log()
        kind: Any = SimpleNamespace(number=1, make_table=LockTable)
        nobody: Any = None
        self.host: PartitionTableHost[Any, Any, Any, Any] = PartitionTableHost(kind, nobody)
        self.tables = PartitionTables([self.host], nobody)

    @property
    def names(self) -> list[str]:
        table: Any = self.host.table
        return sorted(table.state.locks)

    def give(self, *names: str) -> None:
        for name in names:
            append(self.world, self.log, decisions(msgspec.msgpack.encode(Given(name, LOCK))))

    def snapshot(self, *names: str) -> Offset:
        state = State(dict.fromkeys(names, LOCK), dict.fromkeys(names, 1), 0, -1)
        return append(self.world, self.log, part(state=msgspec.msgpack.encode(state)))

    def cut(self, end_offset: Offset) -> None:
        self.log.truncate_to(end_offset)
        self.world.commit()
        self.tables.on_truncated(end_offset)


def loaded(monkeypatch: pytest.MonkeyPatch) -> tuple[Loaded, Offset]:
    """Return a table that was loaded after a kill, and where the snapshot is that it began with."""
    found = Loaded()
    noted, note = [], PartitionTables.note

    def counted(self: PartitionTables, *arguments: Any) -> None:
        noted.append(arguments)
        note(self, *arguments)

    found.snapshot()
    names = [f"lock {number:03}" for number in range(100)]
    found.give(*names)
    at = found.snapshot(*names)
    found.give("last")
    monkeypatch.setattr(PartitionTables, "note", counted)
    # A kill leaves a hint of what is committed that is as old as the last checkpoint.
    assert found.log.commit_hint == 0
    found.tables.restore(found.log)
    assert found.names == ["last", *names]
    assert len(noted) == 2
    return found, at


def test_a_start_replays_what_is_behind_the_newest_snapshot_whatever_it_knows_of_commits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, at = loaded(monkeypatch)
    # It may yet be cut off: until it is committed, what is before it is needed.
    assert found.tables.start_held_at() == found.log.start_offset
    found.tables.on_committed(Offset(at + 1))
    assert found.tables.start_held_at() == at


def test_a_snapshot_that_a_start_began_with_may_be_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, at = loaded(monkeypatch)
    found.cut(Offset(at - 10))
    assert found.host.table.is_based
    assert found.names == [f"lock {number:03}" for number in range(90)]
    assert found.host.table.end_offset == at - 10
