"""What is told of traced messages, and its bounds."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from kafkaesque.broker import tracer as module
from kafkaesque.broker.tracer import Span, Tracer
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.ids import Offset, TopicPartition
from kafkaesque.model.records import Record

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 1)
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"
WALL_MS = 1_790_000_000_000


class Clock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self.ms = 5

    def now_ms(self) -> int:
        return self.ms

    def now_ns(self) -> int:
        return self.ms * 1_000_000

    def wall_ms(self) -> int:
        return WALL_MS + self.ms


class Dice:
    def __init__(self) -> None:
        self._random = random.Random(1)

    def unique_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)


class Ground:
    def __init__(self) -> None:
        self.clock = Clock()
        self.tracer = Tracer(self.clock, Dice())  # type: ignore[arg-type]

    def append(
        self, offset: int, *flags: str | None, where: TopicPartition = ORDERS, **options: object
    ) -> None:
        """Append a batch with a record for each of these; None: it has no context."""
        records = [
            Record(index, WALL_MS, b"k", b"v" * 100, _headers(each))
            for index, each in enumerate(flags)
        ]
        data = encode_batch(records, BatchOptions(**options))  # type: ignore[arg-type]
        self.tracer.on_appended(where, data, read_batch_header(data), offset)

    def commit(self, end: int, where: TopicPartition = ORDERS) -> None:
        self.tracer.on_committed(where, Offset(end))

    def told(self) -> list[tuple[str, int]]:
        return [(each.operation, each.offset) for each in self.spans()]

    def spans(self) -> Sequence[Span]:
        return self.tracer.take(1_000_000)


def _headers(flags: str | None) -> tuple[tuple[str, bytes], ...]:
    if flags is None:
        return (("plain", b"1"),)
    return (("traceparent", f"00-{TRACE}-{PARENT}-{flags}".encode()),)


@pytest.fixture
def ground() -> Ground:
    return Ground()


def test_a_traced_record_is_told_when_it_is_committed_and_when_it_was_given(
    ground: Ground,
) -> None:
    ground.append(40, None, "01", None)
    ground.clock.ms += 3
    assert ground.told() == []
    ground.commit(43)
    ground.tracer.on_asked(7, ORDERS, 40, "billing-1")
    ground.clock.ms += 10
    ground.tracer.on_asked(7, ORDERS, 43, "billing-1")
    kept, given = ground.spans()
    assert (kept.operation, kept.name, kept.offset) == ("append", "append orders", 41)
    assert (given.operation, given.offset, given.client_id) == ("deliver", 41, "billing-1")
    for each in (kept, given):
        assert each.context.trace_id.hex() == TRACE
        assert each.context.parent_id.hex() == PARENT
        assert len(each.span_id) == 8
    assert kept.span_id != given.span_id
    assert kept.begin_ns == (WALL_MS + 5) * 1_000_000
    assert kept.end_ns - kept.begin_ns == 3_000_000
    assert (given.begin_ns, given.end_ns - given.begin_ns) == (kept.end_ns, 10_000_000)


def test_what_is_not_sampled_or_not_traced_is_not_told(ground: Ground) -> None:
    ground.append(0, "00", None)
    ground.commit(2)
    assert ground.told() == []


def test_each_record_is_told_once_for_its_commit_and_once_for_each_consumer(
    ground: Ground,
) -> None:
    ground.append(0, "01", "01")
    ground.commit(1)
    ground.commit(1)
    ground.commit(2)
    for reader in (1, 2):
        for offset in (0, 1, 1, 2, 2):
            ground.tracer.on_asked(reader, ORDERS, offset, "c")
    told = ground.told()
    assert told.count(("append", 0)) == told.count(("append", 1)) == 1
    assert told.count(("deliver", 0)) == told.count(("deliver", 1)) == 2


def test_a_consumer_that_begins_behind_a_record_was_not_given_it(ground: Ground) -> None:
    ground.append(0, "01")
    ground.commit(1)
    ground.tracer.on_asked(1, ORDERS, 1, "late")
    ground.tracer.on_asked(1, ORDERS, 2, "late")
    assert ground.told() == [("append", 0)]


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD, Codec.LZ4, Codec.SNAPPY])
def test_packed_batches_are_looked_into(ground: Ground, codec: Codec) -> None:
    ground.append(0, None, "01", codec=codec)
    ground.commit(2)
    assert ground.told() == [("append", 1)]


def test_what_another_leader_has_overwritten_is_forgotten(ground: Ground) -> None:
    ground.append(10, "01", "01", "01")
    ground.append(11, "01")
    ground.commit(20)
    assert ground.told() == [("append", 10), ("append", 11)]


def test_only_so_much_is_looked_into_in_a_second(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOKED_INTO_BYTES_MAX", 1_000)
    for offset in range(10):
        ground.append(offset, "01")
    ground.commit(10)
    assert 1 <= len(ground.told()) < 10
    assert ground.tracer.skipped > 0
    # What has no context costs no more than a search, and is not counted.
    before = ground.tracer.skipped
    ground.append(10, *[None] * 50)
    assert ground.tracer.skipped == before
    ground.clock.ms += 1_000
    ground.append(100, "01")
    ground.commit(101)
    assert ground.told() == [("append", 100)]


def test_the_ring_and_the_records_that_wait_are_bounded(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SPANS_MAX", 3)
    monkeypatch.setattr(module, "RECORDS_MAX", 4)
    ground.append(0, "01", "01", where=BILLS)
    ground.append(0, *["01"] * 4)
    ground.commit(2, BILLS)
    assert ground.told() == []
    ground.commit(4)
    assert ground.told() == [("append", 1), ("append", 2), ("append", 3)]
    assert (ground.tracer.made, ground.tracer.lost) == (4, 1)


def test_the_readers_that_are_known_are_bounded(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "READERS_MAX", 2)
    ground.append(0, "01")
    ground.commit(1)
    for reader in (1, 2, 3):
        ground.tracer.on_asked(reader, ORDERS, 0, "c")
    for reader in (3, 2, 1):
        ground.tracer.on_asked(reader, ORDERS, 1, "c")
    assert ground.told() == [("append", 0), ("deliver", 0), ("deliver", 0)]
