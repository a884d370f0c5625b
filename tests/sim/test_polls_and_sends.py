"""Jepsen's anomalies of polls and sends: for each a broker with a planted bug that is found out."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.batch import BatchHeader, read_batch_header, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed

READ_NOW = Partition.read_now
PRODUCE = Partition.produce
KNOWN_DUPLICATE = Partition._known_duplicate
CALM = SimOptions(kinds=("delay",), between_ms=500, duration_ms=4_000)
#: Answers are lost, so that batches are sent again.
LOSSY = SimOptions(kinds=("reset", "kill"), between_ms=400, duration_ms=6_000)


def _found(options: SimOptions, seeds: range = range(5)) -> list[str]:
    for seed in seeds:
        found = run_seed(seed, options).anomalies
        if found:
            return found
    return []


def _plant_read(
    monkeypatch: pytest.MonkeyPatch,
    choose: Callable[[Partition, int, Sequence[Any]], Sequence[Any]],
) -> None:
    """Let brokers give out other ranges of a client's topic than they should."""

    def read(
        self: Partition, offset: Offset, bytes_max: int, end: Offset | None = None
    ) -> Sequence[Any] | None:
        right = READ_NOW(self, offset, bytes_max, end)
        if not right or self.state.topic_partition.topic != "events":
            return right
        return choose(self, offset, right)

    monkeypatch.setattr(Partition, "read_now", read)


def _starts(ranges: Sequence[Any]) -> list[Offset]:
    """Return where the batches of an answer begin."""
    data = b"".join(each.file.read_blocking(each.position, each.length) for each in ranges)
    return [Offset(header.base_offset) for header in scan_batches(data).batches]


def test_a_broker_that_answers_from_a_later_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    def later(self: Partition, offset: int, right: Sequence[Any]) -> Sequence[Any]:
        starts = _starts(right)
        return (READ_NOW(self, starts[1], 4_000) or right) if len(starts) > 1 else right

    _plant_read(monkeypatch, later)
    found = _found(CALM)
    assert any(what.startswith("events: poll skip") for what in found), found


@pytest.mark.extended
def test_a_broker_that_leaves_something_out_of_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def holed(self: Partition, offset: int, right: Sequence[Any]) -> Sequence[Any]:
        starts = _starts(right)
        if len(starts) < 3:
            return right
        return [*(READ_NOW(self, starts[0], 1) or []), *(READ_NOW(self, starts[2], 1) or [])]

    _plant_read(monkeypatch, holed)
    found = _found(CALM)
    assert any(what.startswith("events: internal poll skip") for what in found), found


def test_a_broker_that_answers_from_an_earlier_offset(monkeypatch: pytest.MonkeyPatch) -> None:
    hit: set[int] = set()

    def earlier(self: Partition, offset: int, right: Sequence[Any]) -> Sequence[Any]:
        # Once at each place, or a reader would never get on.
        if offset < 60 or offset in hit:
            return right
        hit.add(offset)
        return READ_NOW(self, Offset(offset - 40), 1) or right

    _plant_read(monkeypatch, earlier)
    found = _found(CALM)
    assert any(what.startswith("events: non-monotonic poll") for what in found), found


def test_a_broker_that_repeats_itself_within_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(self: Partition, offset: int, right: Sequence[Any]) -> Sequence[Any]:
        return [*right, *right]

    _plant_read(monkeypatch, twice)
    found = _found(CALM)
    assert any(what.startswith("events: internal non-monotonic poll") for what in found), found


def test_a_broker_that_keeps_the_end_to_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def short(self: Partition, offset: int, right: Sequence[Any]) -> Sequence[Any]:
        return right if offset < 100 else []

    _plant_read(monkeypatch, short)
    found = _found(CALM)
    assert any(what.startswith("stuck client: readers") for what in found), found
    assert any(what.startswith("events: unseen") for what in found), found


@pytest.mark.parametrize(
    ("wrong", "anomaly"),
    [
        (lambda known: (Offset(0), known[1]), "events: spurious zero offset"),
        (lambda known: (Offset(max(1, known[0] - 60)), known[1]), "events: non-monotonic send"),
    ],
)
def test_a_broker_that_answers_a_repeated_batch_with_another_offset(
    monkeypatch: pytest.MonkeyPatch, wrong: Callable[[Any], Any], anomaly: str
) -> None:
    def known(self: Partition, batch: Any) -> Any:
        right = KNOWN_DUPLICATE(self, batch)
        return None if right is None else wrong(right)

    monkeypatch.setattr(Partition, "_known_duplicate", known)
    found = _found(LOSSY, range(20))
    assert any(what.startswith(anomaly) for what in found), found


def test_a_broker_that_counts_one_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    answer_later = Partition._answer_later

    def one_more(
        self: Partition, acks: int, timeout_ms: int, next_offset: Offset, result: Any, on_done: Any
    ) -> None:
        if self.state.topic_partition.topic == "events":
            result = replace(result, base_offset=result.base_offset + 1)
        answer_later(self, acks, timeout_ms, next_offset, result, on_done)

    monkeypatch.setattr(Partition, "_answer_later", one_more)
    found = _found(CALM)
    assert any(what.startswith("events: inconsistent offsets") for what in found), found


def _encode(header: BatchHeader, records: Sequence[Any], skipped: int = 0) -> bytearray:
    """Return a producer's batch with other records, of which so many come before."""
    options = BatchOptions(
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence + skipped,
    )
    plain = [Record(n, r.timestamp_ms, r.key, r.value, ()) for n, r in enumerate(records)]
    return encode_batch(plain, options)


def test_a_broker_that_takes_a_batch_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    #: By partition: whose batch it was, and what appends its second part; once in each.
    held: dict[Partition, tuple[int, Callable[[], Any]]] = {}
    appended: set[Partition] = set()

    def produce(
        self: Partition, records: Any, *, on_done: Callable[[Any], None], **options: Any
    ) -> Any:
        header = read_batch_header(records)
        content = decode_batch(records, 1 << 20)
        if header.producer_id < 0 or self in held or len(content) < 2:
            done = PRODUCE(self, records, on_done=on_done, **options)
            if self in held and held[self][0] != header.producer_id and self not in appended:
                appended.add(self)
                held[self][1]()
            return done

        def answer(result: Any) -> None:
            if isinstance(result, ProduceResult):
                result = replace(result, base_offset=result.base_offset - 1)
            on_done(result)

        rest = _encode(header, content[1:], 1)
        held[self] = header.producer_id, lambda: PRODUCE(self, rest, on_done=answer, **options)
        return PRODUCE(self, _encode(header, content[:1]), on_done=lambda _: None, **options)

    monkeypatch.setattr(Partition, "produce", produce)
    found = _found(CALM)
    assert any(what.startswith("events: internal send skip") for what in found), found


def test_a_broker_that_writes_what_nobody_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def produce(self: Partition, records: Any, **options: Any) -> Any:
        header = read_batch_header(records)
        if header.producer_id >= 0 and 50 <= header.base_sequence < 60:
            content = decode_batch(records, 1 << 20)
            records = _encode(
                header, [r._replace(value=b"x" + bytes(r.value or b"")) for r in content]
            )
        return PRODUCE(self, records, **options)

    monkeypatch.setattr(Partition, "produce", produce)
    found = _found(CALM)
    assert any(what.startswith("events: unsent") for what in found), found
