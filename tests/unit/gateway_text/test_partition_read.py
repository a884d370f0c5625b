"""What one CONS makes of one partition's batches."""

from __future__ import annotations

import pytest

from kafkaesque.broker.commands import EARLIEST, LATEST, FetchResult
from kafkaesque.gateway.text.partition_read import PartitionRead
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch, encode_empty_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import NotLeader, OffsetOutOfRange
from kafkaesque.model.records import Record


def batch(first: int, count: int, codec: Codec = Codec.NONE, size: int = 1) -> bytearray:
    records = [
        Record(offset, 1000 + offset, None, b"v" * size, ())
        for offset in range(first, first + count)
    ]
    return encode_batch(records, BatchOptions(codec=codec))


def fetched(*batches: bytearray, start: int = 0, high_watermark: int = 100) -> FetchResult:
    return FetchResult(
        records=b"".join(batches), high_watermark=high_watermark, log_start_offset=start
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
    marks = BatchOptions(control=True)
    mark = encode_batch([Record(6, 0, b"\0\0\0\0", b"\0\0\0\0\0\0", ())], marks)
    read = reading(0)
    read.take(fetched(batch(2, 2), mark, encode_empty_batch(7, 11, BatchOptions())))
    assert shown(read) == [2, 3]
    assert read.position == 12


def test_nothing_but_holes_moves_the_position_too() -> None:
    read = reading(3)
    read.take(fetched(encode_empty_batch(0, 8, BatchOptions())))
    assert shown(read) == []
    assert read.position == 9


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


@pytest.mark.parametrize("spoilt", [8, 16, 61])
def test_bytes_that_are_no_batch_show_nothing(spoilt: int) -> None:
    broken = batch(2, 2, Codec.GZIP)
    broken[spoilt] ^= 0x55
    read = reading(0)
    assert read.take(fetched(batch(0, 2), broken))
    assert read.failure is not None
    assert shown(read) == []
    assert read.position == 0


def test_ends_alone() -> None:
    read = reading(EARLIEST, messages_max=0)
    assert read.take(fetched(batch(20, 2), start=20))
    assert shown(read) == []
    assert read.position == 20
