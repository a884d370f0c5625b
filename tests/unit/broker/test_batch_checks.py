from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.options.tables import BROKER_OPTIONS
from kafkaesque.broker.options.topic_config import TopicConfig, make_topic_config
from kafkaesque.broker.partitions import batch_checks
from kafkaesque.broker.partitions.batch_checks import (
    DECOMPRESSED_BYTES_MAX,
    QUICK_BYTES_MAX,
    RECORDS_NAMED_MAX,
    RUNNING_MAX,
    BatchChecks,
    LongCheck,
    check_produced,
)
from kafkaesque.model.batch import BatchHeader, check_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import OverBound
from kafkaesque.model.record_errors import (
    CorruptBatch,
    DecompressionTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    KeysMissing,
    RecordError,
)
from kafkaesque.model.records import Record
from kafkaesque.sim.env import World

OWNER = object()
PLAIN = make_topic_config({}, BROKER_OPTIONS.defaults())
COMPACT = make_topic_config({"cleanup.policy": "compact"}, BROKER_OPTIONS.defaults())
CODECS = [codec for codec in Codec if codec is not Codec.NONE]


def batch_of(codec: Codec, size: int, key: bytes | None = None) -> bytearray:
    """Return a batch of zeros, which takes next to nothing when it is compressed."""
    return bytearray(encode_batch([Record(0, 5, key, bytes(size), ())], BatchOptions(codec=codec)))


def outcome(records: bytearray, config: TopicConfig = PLAIN) -> BatchHeader:
    """Check as far as it takes."""
    found = check_produced(OWNER, records, config)
    return found.work().header if isinstance(found, LongCheck) else found


@pytest.mark.parametrize("codec", list(Codec))
def test_a_small_batch_is_checked_at_once(codec: Codec) -> None:
    records = batch_of(codec, QUICK_BYTES_MAX // 2)
    expected = check_batches(records, 1 << 20, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    assert [check_produced(OWNER, records, PLAIN)] == expected


def test_a_batch_that_is_not_compressed_is_checked_at_once_however_long_it_is() -> None:
    assert isinstance(check_produced(OWNER, batch_of(Codec.NONE, 1_000_000), PLAIN), BatchHeader)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("size", [QUICK_BYTES_MAX + 1, 5_000_000])
def test_a_batch_of_which_much_comes_is_left_to_be_checked(codec: Codec, size: int) -> None:
    records = batch_of(codec, size)
    check = check_produced(OWNER, records, PLAIN)
    assert isinstance(check, LongCheck)
    expected = check_batches(records, 1 << 20, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)
    assert [check.work().header] == expected


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_of_which_too_much_comes_is_refused(codec: Codec) -> None:
    with pytest.raises(RecordError) as caught:
        outcome(batch_of(codec, DECOMPRESSED_BYTES_MAX + 1))
    # Snappy takes more than a batch may be long.
    assert isinstance(caught.value, DecompressionTooLarge) or codec is Codec.SNAPPY


@given(st.sampled_from(CODECS), st.data())
def test_small_and_long_checks_find_the_same(codec: Codec, data: st.DataObject) -> None:
    from kafkaesque.model.batch import HEADER_BYTES
    from kafkaesque.model.checksum import crc32c

    records = batch_of(codec, 1000)
    at = data.draw(st.integers(HEADER_BYTES, len(records) - 1))
    records[at] ^= data.draw(st.integers(1, 255))
    records[17:21] = crc32c(memoryview(records)[21:]).to_bytes(4, "big")

    def found(check: Callable[[], object]) -> object:
        try:
            return check()
        except RecordError as error:
            return type(error), str(error)

    def thoroughly() -> BatchHeader:
        return check_batches(records, 1 << 20, decompressed_bytes_max=DECOMPRESSED_BYTES_MAX)[0]

    assert found(lambda: outcome(records)) == found(thoroughly)


@pytest.mark.parametrize("size", [10, QUICK_BYTES_MAX + 1])
@pytest.mark.parametrize("codec", CODECS)
def test_a_compacted_topic_needs_keys_in_every_batch(codec: Codec, size: int) -> None:
    assert isinstance(outcome(batch_of(codec, size, b"key"), COMPACT), BatchHeader)
    with pytest.raises(InvalidRecord, match="key"):
        outcome(batch_of(codec, size), COMPACT)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("value_bytes", [3, QUICK_BYTES_MAX // 50])
def test_the_records_without_a_key_are_named(codec: Codec, value_bytes: int) -> None:
    faulty = (0, 7, 8, 50, 99)
    records = [
        Record(n, 5, None if n in faulty else b"k", bytes(value_bytes), ()) for n in range(100)
    ]
    with pytest.raises(KeysMissing) as caught:
        outcome(bytearray(encode_batch(records, BatchOptions(codec=codec))), COMPACT)
    assert caught.value.places == faulty
    assert str(caught.value) == "5 of 100 records have no key; the topic is compacted"


def test_only_so_many_records_are_named() -> None:
    records = [
        Record(n, 5, b"k" if n == 1 else None, b"", ()) for n in range(RECORDS_NAMED_MAX + 9)
    ]
    with pytest.raises(KeysMissing, match="10008 of 10009 records") as caught:
        outcome(bytearray(encode_batch(records)), COMPACT)
    assert caught.value.places == (0, *range(2, RECORDS_NAMED_MAX + 1))


def test_the_records_of_times_that_are_too_early_are_named() -> None:
    records = [Record(n, 1_000 - n, b"k", b"v", ()) for n in range(10)]
    data = bytearray(encode_batch(records))
    with pytest.raises(InvalidTimestamp, match="a record has the timestamp 996") as caught:
        check_produced(None, data, make_topic_config({}, BROKER_OPTIONS.defaults()), 997)
    assert caught.value.places == tuple(range(4, 10))


class HeldDisk:
    """Takes work and leaves it undone until the test says so."""

    def __init__(self) -> None:
        self.waiting: list[Callable[[], None]] = []

    def run(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        def carry_out() -> None:
            try:
                result, error = work(), None
            except Exception as raised:
                result, error = None, raised
            on_done(result, error)

        self.waiting.append(carry_out)


def made(disk: HeldDisk) -> BatchChecks:
    clock = World(1).add_machine("alpha").boot().clock
    return BatchChecks(disk, clock)  # type: ignore[arg-type]


def long_check(size: int = QUICK_BYTES_MAX + 1) -> LongCheck:
    check = check_produced(OWNER, batch_of(Codec.ZSTD, size), PLAIN)
    assert isinstance(check, LongCheck)
    return check


def test_checks_run_in_order_and_a_few_at_a_time() -> None:
    disk = HeldDisk()
    checks = made(disk)
    done: list[int] = []
    for number in range(5):
        checks.run(long_check(), partial(done.append, number))
    most = 0
    while disk.waiting:
        most = max(most, len(disk.waiting))
        disk.waiting.pop(0)()
    assert most == RUNNING_MAX
    assert done == [0, 1, 2, 3, 4]


def test_the_outcome_is_in_the_check_and_holds_nothing() -> None:
    disk = HeldDisk()
    checks = made(disk)
    good, bad = long_check(), long_check(DECOMPRESSED_BYTES_MAX + 1)
    checks.run(good, lambda: None)
    checks.run(bad, lambda: None)
    for carry_out in disk.waiting:
        carry_out()
    assert good.checked is not None
    assert bad.checked is None
    error = bad.take_error()
    assert isinstance(error, DecompressionTooLarge)
    # Frames would keep what was decompressed.
    assert error.__traceback__ is None
    assert error.__context__ is None
    assert bad.take_error() is None


def test_what_no_producer_has_caused_is_a_refusal_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    disk = HeldDisk()
    check = long_check()
    made(disk).run(check, lambda: None)
    monkeypatch.setattr(batch_checks, "read_payload", fail)
    disk.waiting.pop()()
    error = check.take_error()
    assert error is not None
    assert not isinstance(error, CorruptBatch)


def test_more_than_may_wait_are_refused_in_a_later_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_checks, "WAITING_MAX", 1)
    world = World(1)
    checks = BatchChecks(HeldDisk(), world.add_machine("alpha").boot().clock)  # type: ignore[arg-type]
    done: list[int] = []
    checks_made = [long_check() for _ in range(RUNNING_MAX + 2)]
    for number, check in enumerate(checks_made):
        checks.run(check, partial(done.append, number))
    assert done == []
    world.loop.run_for(10)
    assert done == [RUNNING_MAX + 1]
    assert isinstance(checks_made[-1].take_error(), OverBound)


def test_nobody_is_called_after_the_end() -> None:
    disk = HeldDisk()
    checks = made(disk)
    done: list[int] = []
    for number in range(RUNNING_MAX + 1):
        checks.run(long_check(), partial(done.append, number))
    checks.close()
    for carry_out in disk.waiting:
        carry_out()
    assert done == []
    assert len(disk.waiting) == RUNNING_MAX


def test_batches_that_are_made_anew_come_one_after_another_for_each_partition() -> None:
    packed = make_topic_config({"compression.type": "zstd"}, BROKER_OPTIONS.defaults())
    disk = HeldDisk()
    checks = made(disk)
    done: list[str] = []
    for owner in "aabba":
        check = check_produced(owner, batch_of(Codec.NONE, 10), packed)
        assert isinstance(check, LongCheck)
        checks.run(check, partial(done.append, owner))
    # The second of `a` is not begun while the first may end later.
    for running in (2, 2, 1, 1, 1):
        assert len(disk.waiting) == running
        disk.waiting.pop()()
    assert done == ["b", "b", "a", "a", "a"]
