"""How far a group is behind: the oldest record that it has not processed, and its age."""

from __future__ import annotations

import pytest

from kafkaesque.cli.consumer_lag import lag_ms
from kafkaesque.cli.oldest_unread import NOTHING, Oldest, Unread, by_leader, first_record
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.messages.fetch_response import AbortedTransaction

ONE, OTHER = 11, 12


def batch(*offsets: int, time_ms: int = 1000, **options: object) -> bytearray:
    """Returns a batch of records, each of which is as many milliseconds old as its offset says."""
    records = [Record(each, time_ms + each, None, b"value") for each in offsets]
    return encode_batch(records, BatchOptions(**options))  # type: ignore[arg-type]


def of_transaction(*offsets: int, producer: int = ONE) -> bytearray:
    return batch(*offsets, producer_id=producer, producer_epoch=0, transactional=True)


def marker(offset: int, producer: int = ONE) -> bytearray:
    return batch(offset, producer_id=producer, producer_epoch=0, transactional=True, control=True)


def first(records: bytearray, offset: int, *aborted: tuple[int, int]) -> tuple[int | None, int]:
    """Returns the offset of the first record, and the one behind."""
    named = [AbortedTransaction(producer, begin) for producer, begin in aborted]
    record, following = first_record(records, offset, named)
    return None if record is None else record.offset, following


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_it_is_found_within_a_batch(codec: Codec) -> None:
    records = batch(3, 4, 5, codec=codec)
    assert first(records, 3) == (3, 4)
    assert first(records, 5) == (5, 6)
    record, _ = first_record(records, 5, ())
    assert record is not None
    assert record.timestamp_ms == 1005


def test_where_brokers_stamp_records_their_time_counts() -> None:
    record, _ = first_record(batch(3, 4, append_time_ms=77), 4, ())
    assert record is not None
    assert record.timestamp_ms == 77


def test_a_gap_that_compaction_left_is_no_record() -> None:
    assert first(batch(3, 9), 4) == (9, 10)
    assert first(batch(3, last_offset=8) + batch(20), 4) == (20, 21)
    assert first(batch(3, last_offset=8), 4) == (None, 9)


def test_markers_are_no_records() -> None:
    assert first(marker(5) + batch(6), 5) == (6, 7)
    assert first(marker(5), 5) == (None, 6)


def test_aborted_records_are_passed_over_up_to_their_marker() -> None:
    records = of_transaction(5, 6) + marker(7) + of_transaction(8)
    assert first(records, 5) == (5, 6)
    assert first(records, 5, (ONE, 5)) == (8, 9)
    assert first(records, 5, (ONE, 5), (ONE, 8)) == (None, 9)


def test_of_another_producer_and_outside_of_transactions_nothing_is_aborted() -> None:
    others = of_transaction(6, producer=OTHER)
    assert first(of_transaction(5) + others, 5, (ONE, 5)) == (6, 7)
    plain = batch(6, producer_id=ONE, producer_epoch=0)
    assert first(of_transaction(5) + plain, 5, (ONE, 5)) == (6, 7)


def test_a_batch_that_is_cut_or_damaged_is_not_believed() -> None:
    whole = batch(3)
    assert first(batch(1) + whole[:-1], 2) == (None, 2)
    whole[-1] ^= 1
    assert first(whole, 3) == (None, 3)


@pytest.mark.parametrize(
    ("oldest", "expected"),
    [
        (None, None),
        (NOTHING, 0),
        (Oldest(3, 400), 600),
        (Oldest(3, 1000), 0),
        (Oldest(3, 5000), 0),
        (Oldest(3, None), None),
    ],
    ids=["unknown", "nothing left", "older", "as of now", "from the future", "without a time"],
)
def test_a_lag_in_time_is_the_age_of_the_oldest(oldest: Oldest | None, expected: int) -> None:
    assert lag_ms(oldest, now_ms=1000) == expected


def test_each_leader_is_asked_for_its_own() -> None:
    unread = [Unread("t", number, 0, 1) for number in range(4)]
    leaders = {("t", 0): "a:1", ("t", 1): "b:1", ("t", 3): "a:1"}
    assert by_leader(unread, leaders) == {"a:1": [unread[0], unread[3]], "b:1": [unread[1]]}
