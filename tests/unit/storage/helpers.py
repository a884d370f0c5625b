"""Entries, stores and worlds for storage tests."""

import random
from collections.abc import Sequence

import pytest

from kafkaesque.env.disk import FileRange
from kafkaesque.model.batch import assign_offsets
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import NodeId, Term, TopicId
from kafkaesque.model.records import Record
from kafkaesque.storage.config import SegmentOptions, StorageConfig
from kafkaesque.storage.entries import EntryKind, LogEntry
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore
from kafkaesque.storage.recovery import RecoveryReport
from tests.unit.storage.memory_disk import ManualClock, MemoryDisk

NODE = NodeId(1)
TOPIC_ID = TopicId(bytes(range(16)))
TIME_MS = 1_700_000_000_000

SMALL = StorageConfig(
    segment_bytes_max=4096,
    index_interval_bytes=256,
    wal_bytes=16 * 1024,
    wal_files_max=3,
    open_files_max=16,
    sync_files_max=4,
    cache_bytes_max=8 * 1024,
    free_bytes_min=0,
)


def batch(
    base_offset: int,
    term: int,
    count: int = 1,
    *,
    value: bytes = b"x",
    timestamp_ms: int = TIME_MS,
    options: BatchOptions | None = None,
) -> bytes:
    """Return a batch that stands at an offset."""
    records = [Record(at, timestamp_ms + at, b"k", value) for at in range(count)]
    data = encode_batch(records, options) if options else encode_batch(records)
    assign_offsets(data, 0, base_offset, term)
    return bytes(data)


def data_entry(log: GroupLog, term: int, count: int = 1, **more: object) -> LogEntry:
    """Return a DATA entry that fits to the end of a log."""
    data = batch(log.end_offset, term, count, **more)  # type: ignore[arg-type]
    first = log.last_index + 1
    return LogEntry(EntryKind.DATA, first, first + count - 1, Term(term), data)


def mark_entry(log: GroupLog, term: int, payload: bytes | None = None) -> LogEntry:
    """Return a no-op, or a configuration if there is a payload."""
    kind = EntryKind.NOOP if payload is None else EntryKind.CONFIG
    index = log.last_index + 1
    return LogEntry(kind, index, index, Term(term), payload or b"")


def add(log: GroupLog, term: int, count: int = 1, **more: object) -> LogEntry:
    """Append a batch."""
    entry = data_entry(log, term, count, **more)
    log.append([entry])
    return entry


def mark(log: GroupLog, term: int, payload: bytes | None = None) -> LogEntry:
    """Append a mark."""
    entry = mark_entry(log, term, payload)
    log.append([entry])
    return entry


class World:
    """A disk, a clock, and one store after another upon them."""

    def __init__(self, config: StorageConfig = SMALL, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.disk = MemoryDisk(self.clock)
        self.config = config
        self.rng = random.Random(seed)
        self.durable = 0
        self.store: LogStore
        self.report: RecoveryReport
        self.failures: list[Exception] = []
        self.open()

    def open(self, cluster_id: str = "cluster", node: NodeId = NODE) -> None:
        self.store = LogStore(
            disk=self.disk,
            clock=self.clock,
            config=self.config,
            cluster_id=cluster_id,
            draw=lambda: 7,
            node=node,
        )
        self.store.on_failed = self.failures.append
        self.report = self.store.open()

    def log(
        self, group: int = 1, *, write_caching: bool = False, options: SegmentOptions | None = None
    ) -> GroupLog:
        return self.store.open_log(
            group=group,
            topic=f"topic{group}",
            partition=0,
            topic_id=TOPIC_ID,
            write_caching=write_caching,
            options=options,
        )

    def commit(self) -> None:
        """Make everything durable, and let the background come to rest."""
        done: list[int] = []
        self.store.submit(lambda: done.append(1))
        self.disk.settle()
        assert done == [1]

    def close(self) -> None:
        done: list[int] = []
        self.store.close(lambda: done.append(1))
        self.disk.settle()
        assert done == [1]
        assert not [file.path for file in self.disk.open_files.values() if not file.is_closed]

    def restart(self) -> None:
        self.close()
        self.disk = self.disk.kill()
        self.open()

    def power_cut(self) -> None:
        self.clock.soon.clear()
        self.disk = self.disk.power_cut(self.rng)
        self.open()

    def kill(self) -> None:
        self.clock.soon.clear()
        self.disk = self.disk.kill()
        self.open()


def read_ranges(ranges: Sequence[FileRange]) -> bytes:
    """Return what ranges hold."""
    return b"".join(r.file.read_blocking(r.position, r.length) for r in ranges)


def read_all(log: GroupLog) -> bytes:
    """Return all batches of a log, through `locate`, checked on the way."""
    found = b""
    offset: int = log.start_offset
    while offset < log.end_offset:
        ranges = log.locate_blocking(offset, 1000, log.end_offset)
        data = read_ranges(ranges)
        assert data, f"nothing at offset {offset} of {log!r}"
        found += data
        at = 0
        while at < len(data):
            length = int.from_bytes(data[at + 8 : at + 12], "big") + 12
            delta = int.from_bytes(data[at + 23 : at + 27], "big")
            offset = int.from_bytes(data[at : at + 8], "big") + delta + 1
            at += length
    return found


def fenced(world: World) -> None:
    """Check that nothing more is promised."""
    log = world.store.logs[0]
    done: list[int] = []
    with pytest.raises(DiskFailed):
        add(log, 1)
    with pytest.raises(DiskFailed):
        log.save_hard_state(Term(99), None)
    with pytest.raises(DiskFailed):
        world.store.submit(lambda: done.append(1))
    world.disk.fail_syncs = world.disk.fail_writes = False
    world.disk.capacity = None
    world.disk.settle()
    assert done == []
    assert len(world.failures) == 1
    assert "restart the broker" in str(world.failures[0])
