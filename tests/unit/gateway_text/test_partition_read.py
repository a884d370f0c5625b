"""What one CONS makes of one partition's batches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafkaesque.broker.requests.commands import EARLIEST, LATEST, FetchResult
from kafkaesque.gateway.text.partition_read import FETCHES_MAX, PartitionRead
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch, encode_empty_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import NotLeader, OffsetOutOfRange
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record


def batch(
    first: int, count: int, codec: Codec = Codec.NONE, size: int = 1, writer: int | None = None
) -> bytearray:
    """With `writer`, a producer's id, it is part of a transaction."""
    records = [
        Record(offset, 1000 + offset, None, b"v" * size, ())
        for offset in range(first, first + count)
    ]
    if writer is None:
        return encode_batch(records, BatchOptions(codec=codec))
    options = BatchOptions(
        codec=codec, transactional=True, producer_id=writer, producer_epoch=0, base_sequence=first
    )
    return encode_batch(records, options)


def mark(offset: int, writer: int) -> bytearray:
    options = BatchOptions(
        control=True, transactional=True, producer_id=writer, producer_epoch=0, base_sequence=-1
    )
    return encode_batch([Record(offset, 0, b"\0\0\0\0", b"\0\0\0\0\0\0", ())], options)


def fetched(
    *batches: bytearray, start: int = 0, end: int = 100, aborted: Sequence[tuple[int, int]] = ()
) -> FetchResult:
    return FetchResult(
        records=b"".join(batches),
        aborted=list(aborted),
        last_stable_offset=end,
        log_start_offset=start,
    )


def reading(position: int, **fields: int) -> PartitionRead:
    read = PartitionRead(
        3,
        messages_max=fields.get("messages_max", 100),
        bytes_max=fields.get("bytes_max", 1000),
        is_next=bool(fields.get("is_next", False)),
    )
    read.position = position
    return read


def shown(read: PartitionRead) -> list[int]:
    """Show everything; return the offsets."""
    offsets = []
    while (message := read.show_next()) is not None:
        assert message.partition == 3
        assert message.timestamp_ms == 1000 + message.offset
        assert read.position > message.offset
        offsets.append(message.offset)
    return offsets


@pytest.mark.parametrize("codec", list(Codec))
def test_messages_before_the_position_are_left_out(codec: Codec) -> None:
    read = reading(2)
    assert read.take(fetched(batch(0, 4, codec), batch(4, 2, codec)))
    assert shown(read) == [2, 3, 4, 5]
    assert read.position == 6


def test_no_more_messages_than_asked_for() -> None:
    read = reading(0, messages_max=3)
    read.take(fetched(batch(0, 2), batch(2, 4)))
    assert shown(read) == [0, 1, 2]
    assert read.position == 3


def test_no_more_bytes_than_asked_for_but_one_message_at_least() -> None:
    read = reading(0, bytes_max=25)
    read.take(fetched(batch(0, 4, size=10)))
    assert shown(read) == [0, 1, 2]
    read = reading(0, bytes_max=25)
    read.take(fetched(batch(0, 4, size=1000)))
    assert shown(read) == [0]
    assert read.position == 1


def test_what_was_not_shown_comes_again() -> None:
    read = reading(0)
    read.take(fetched(batch(0, 4)))
    read.show_next()
    assert (read.position, read.has_more) == (1, True)


def test_holes_and_marks_are_passed() -> None:
    read = reading(0)
    read.take(fetched(batch(2, 2), mark(6, 1), encode_empty_batch(7, 11, BatchOptions())))
    assert shown(read) == [2, 3]
    assert read.position == 12


def test_nothing_but_holes_moves_the_position_too() -> None:
    read = reading(3)
    assert read.take(fetched(encode_empty_batch(0, 8, BatchOptions()), end=9))
    assert shown(read) == []
    assert read.position == 9


def test_what_was_aborted_is_passed() -> None:
    read = reading(1)
    batches = [batch(0, 2, writer=7), batch(2, 2, writer=8), batch(4, 1), batch(5, 1, writer=7)]
    batches += [mark(6, 7), batch(7, 2, writer=7), mark(9, 8), mark(10, 7)]
    assert read.take(fetched(*batches, end=11, aborted=[(7, 0)]))
    assert shown(read) == [2, 3, 4, 7, 8]
    assert read.position == 11


def test_a_transaction_that_is_aborted_later_begins_later() -> None:
    read = reading(0)
    batches = [batch(0, 1, writer=7), mark(1, 7), batch(2, 1, writer=7), mark(3, 7)]
    assert read.take(fetched(*batches, end=4, aborted=[(7, 2)]))
    assert shown(read) == [0]
    assert read.position == 4


def test_where_all_was_aborted_it_goes_on_for_so_long() -> None:
    read = reading(EARLIEST)
    assert not read.take(fetched(batch(20, 5, writer=7), start=20, aborted=[(7, 20)]))
    assert read.asked == 25
    assert read.take(fetched(mark(25, 7), batch(26, 1), start=20, aborted=[(7, 20)]))
    assert shown(read) == [26]
    read = reading(0)
    count = 1
    while not read.take(fetched(batch(read.asked, 1, writer=7), aborted=[(7, 0)])):
        count += 1
    assert count == FETCHES_MAX
    assert shown(read) == []
    assert read.position == FETCHES_MAX


@pytest.mark.parametrize(
    ("position", "settled"), [(EARLIEST, 20), (LATEST, 100), (5, 20), (20, 20), (50, 50)]
)
def test_places_become_offsets(position: int, settled: int) -> None:
    read = reading(position)
    assert read.asked == position
    read.take(fetched(start=20))
    assert read.position == settled
    assert shown(read) == []
    assert read.position == settled


def test_before_the_start_means_the_start() -> None:
    read = reading(5)
    assert not read.take(OffsetOutOfRange("no"))
    assert read.asked == EARLIEST
    assert read.take(fetched(batch(20, 2), start=20))
    assert shown(read) == [20, 21]


def test_beyond_the_end_is_waited_for() -> None:
    read = reading(500)
    assert not read.take(OffsetOutOfRange("no"))
    assert read.take(fetched(batch(0, 100)))
    assert shown(read) == []
    assert read.position == 500


def test_a_group_beyond_the_end_goes_on_at_the_end() -> None:
    read = reading(500, is_next=1)
    assert not read.take(OffsetOutOfRange("no"))
    assert read.take(fetched(batch(0, 100)))
    assert shown(read) == []
    assert read.position == 100


def test_a_refusal_is_kept_and_the_position_stays() -> None:
    for refusal in (NotLeader("elsewhere"), "nonsense"):
        read = reading(7)
        assert read.take(refusal)
        assert read.failure is not None
        assert shown(read) == []
        assert read.position == 7
    read = reading(7)
    read.take(OffsetOutOfRange("no"))
    assert read.take(OffsetOutOfRange("still not"))
    assert isinstance(read.failure, OffsetOutOfRange)


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
@pytest.mark.parametrize("spoilt", [8, 16, 30, 61, 75])
def test_what_is_good_before_the_damage_is_shown_and_nothing_after_it(
    spoilt: int, codec: Codec
) -> None:
    """Kafka's clients check what they get; whoever reads text cannot."""
    broken = batch(2, 2, codec)
    broken[spoilt] ^= 0x55
    read = reading(0)
    assert read.take(fetched(batch(0, 2), broken))
    assert shown(read) == [0, 1]
    assert read.position == 2
    for _ in range(2):
        read = reading(2)
        assert read.take(fetched(broken, batch(4, 2)))
        assert isinstance(read.failure, RecordError)
        assert shown(read) == []
        assert read.position == 2


def test_ends_alone() -> None:
    read = reading(EARLIEST, messages_max=0)
    assert read.take(fetched(batch(20, 2), start=20))
    assert shown(read) == []
    assert read.position == 20
