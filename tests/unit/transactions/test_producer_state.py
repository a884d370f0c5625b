"""Sequence checks, rule by rule as Apache Kafka has them."""

import pytest

from kafkaesque.model.errors import ConfigError, InvariantBroken
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.producer_entries import SEQUENCE_MAX
from kafkaesque.transactions.producer_snapshot import (
    BadProducerSnapshot,
    read_snapshot,
    write_snapshot,
)
from kafkaesque.transactions.producer_state import ProducerStateConfig, ProducerStateTable
from kafkaesque.transactions.producer_verdicts import (
    Duplicate,
    NeedsVerification,
    SequencedBatch,
    Verdict,
)

ACCEPT = Verdict.ACCEPT
OUT_OF_ORDER = Verdict.OUT_OF_ORDER_SEQUENCE
FENCED = Verdict.INVALID_PRODUCER_EPOCH
P = 1_000
WALL_MS = 1_700_000_000_000
DAY_MS = 86_400_000


class Log:
    """A partition whose appends are checked first."""

    def __init__(self, **options: int) -> None:
        self.config = ProducerStateConfig(**options)
        self.table = ProducerStateTable(self.config)
        self.wall_ms = WALL_MS
        self.timestamp_ms = WALL_MS

    def put(
        self, first_sequence: int, count: int = 1, *, epoch: int = 0, producer_id: int = P
    ) -> Verdict | Duplicate | NeedsVerification:
        verdict = self.table.check(producer_id, epoch, first_sequence, count)
        if verdict is ACCEPT:
            batch = SequencedBatch(
                producer_id,
                epoch,
                first_sequence,
                count,
                self.table.end_offset,
                self.timestamp_ms,
            )
            self.table.append(batch, self.wall_ms)
        return verdict

    def commit(self) -> None:
        self.table.on_committed(self.table.end_offset)


def test_a_batch_that_follows_is_accepted() -> None:
    log = Log()
    assert [log.put(0, 3), log.put(3, 2), log.put(5)] == [ACCEPT] * 3
    assert log.table.end_offset == 6


def test_checking_changes_nothing() -> None:
    log = Log()
    assert [log.table.check(P, 0, 0, 1) for _ in range(3)] == [ACCEPT] * 3
    assert len(log.table) == 0


def test_a_gap_is_out_of_order() -> None:
    log = Log()
    log.put(0, 3)
    assert log.put(4) is OUT_OF_ORDER


def test_an_unknown_producer_may_begin_anywhere() -> None:
    assert Log().put(17) is ACCEPT


def test_the_last_five_batches_are_recognised() -> None:
    log = Log()
    for number in range(6):
        log.timestamp_ms = WALL_MS + number
        log.put(2 * number, 2)
    assert log.put(0, 2) is OUT_OF_ORDER, "the sixth but last is forgotten"
    for number in range(1, 6):
        expected = Duplicate(Offset(2 * number), Offset(2 * number + 1), WALL_MS + number)
        assert log.put(2 * number, 2) == expected
    assert log.table.end_offset == 12


def test_an_overlapping_batch_is_no_duplicate() -> None:
    log = Log()
    log.put(0, 4)
    assert log.put(0, 3) is OUT_OF_ORDER
    assert log.put(1, 3) is OUT_OF_ORDER
    assert log.put(0, 5) is OUT_OF_ORDER


def test_a_duplicate_is_recognised_before_it_is_committed() -> None:
    log = Log()
    log.put(0, 2)
    assert log.put(0, 2) == Duplicate(Offset(0), Offset(1), WALL_MS)


def test_a_new_epoch_begins_at_zero() -> None:
    log = Log()
    log.put(0, 2)
    assert log.put(2, epoch=1) is OUT_OF_ORDER
    assert log.put(0, epoch=1) is ACCEPT
    assert log.put(1, epoch=1) is ACCEPT


def test_an_old_epoch_is_fenced_duplicates_too() -> None:
    log = Log()
    log.put(0, 2)
    log.put(0, 2, epoch=1)
    assert log.put(2, epoch=0) is FENCED
    assert log.put(0, 2, epoch=0) is FENCED


def test_batches_of_an_old_epoch_are_forgotten() -> None:
    log = Log()
    log.put(0, 2)
    log.put(2, 2)
    log.put(0, 1, epoch=1)
    assert log.put(2, 2, epoch=1) is OUT_OF_ORDER


def test_sequences_wrap() -> None:
    log = Log()
    log.put(SEQUENCE_MAX - 1, 2)
    assert log.put(0, 3) is ACCEPT
    assert log.put(3) is ACCEPT
    assert log.put(SEQUENCE_MAX - 1, 2) == Duplicate(Offset(0), Offset(1), WALL_MS)


def test_a_batch_may_wrap_in_its_middle() -> None:
    log = Log()
    log.put(SEQUENCE_MAX - 1, 4)
    assert log.put(1) is OUT_OF_ORDER
    assert log.put(2) is ACCEPT
    assert log.put(SEQUENCE_MAX - 1, 4) == Duplicate(Offset(0), Offset(3), WALL_MS)


def test_producers_do_not_mix() -> None:
    log = Log()
    log.put(0, 2, producer_id=1)
    assert log.put(5, producer_id=2) is ACCEPT
    assert log.put(2, producer_id=1) is ACCEPT


def test_without_a_producer_id_nothing_is_checked_or_remembered() -> None:
    log = Log()
    for _ in range(2):
        assert log.put(-1, 3, epoch=-1, producer_id=-1) is ACCEPT
    assert len(log.table) == 0
    assert log.table.end_offset == 6


@pytest.mark.parametrize(
    ("producer_id", "epoch", "first_sequence", "count"),
    [
        (-2, 0, 0, 1),
        (P, -1, 0, 1),
        (P, 2**15, 0, 1),
        (P, 0, -1, 1),
        (P, 0, 2**31, 1),
        (P, 0, 0, 0),
    ],
)
def test_numbers_that_no_producer_can_mean(
    producer_id: int, epoch: int, first_sequence: int, count: int
) -> None:
    verdict = Log().table.check(producer_id, epoch, first_sequence, count)
    assert verdict is Verdict.INVALID_RECORD


def test_what_is_cut_off_can_be_sent_again() -> None:
    log = Log()
    log.put(0, 2)
    log.commit()
    log.put(2, 2)
    log.table.truncate(Offset(2))
    assert log.put(0, 2) == Duplicate(Offset(0), Offset(1), WALL_MS)
    assert log.put(2, 3) is ACCEPT
    assert log.table.end_offset == 5


def test_cutting_off_brings_back_what_was_pushed_out() -> None:
    log = Log()
    for number in range(5):
        log.put(number)
    log.commit()
    for number in range(5, 15):
        log.put(number)
    log.put(0, epoch=1)
    log.table.truncate(Offset(5))
    for number in range(5):
        assert log.put(number) == Duplicate(Offset(number), Offset(number), WALL_MS)
    assert log.put(5) is ACCEPT


def test_cutting_off_forgets_a_producer_that_was_new() -> None:
    log = Log()
    log.put(0)
    log.table.truncate(Offset(0))
    assert len(log.table) == 0
    assert log.put(7) is ACCEPT


def test_a_batch_that_reaches_over_the_cut_goes_as_a_whole() -> None:
    log = Log()
    log.put(0, 4)
    log.table.truncate(Offset(2))
    assert log.table.end_offset == 0
    assert log.put(0, 4) is ACCEPT


def test_what_is_committed_cannot_be_cut_off() -> None:
    log = Log()
    log.put(0, 4)
    log.commit()
    with pytest.raises(InvariantBroken):
        log.table.truncate(Offset(3))


def test_an_append_behind_the_end_is_our_own_mistake() -> None:
    log = Log()
    log.put(0, 4)
    with pytest.raises(InvariantBroken):
        log.table.append(SequencedBatch(P, 0, 4, 1, Offset(3), WALL_MS), WALL_MS)


def test_holes_in_the_log_do_no_harm() -> None:
    log = Log()
    log.put(0)
    log.table.append(SequencedBatch(P, 0, 1, 1, Offset(40), WALL_MS), WALL_MS)
    assert log.table.end_offset == 41
    assert log.put(2) is ACCEPT


def test_the_producer_that_is_silent_for_longest_gives_way() -> None:
    log = Log(producers_max=2)
    log.put(0, producer_id=1)
    log.put(0, producer_id=2)
    log.put(1, producer_id=1)
    log.put(0, producer_id=3)
    assert len(log.table) == 2
    assert log.put(9, producer_id=1) is OUT_OF_ORDER, "still known"
    assert log.put(9, producer_id=3) is OUT_OF_ORDER, "still known"
    log.table.truncate(Offset(3))
    assert log.put(9, producer_id=2) is OUT_OF_ORDER, "known again"


def test_silent_producers_expire() -> None:
    log = Log()
    log.put(0, producer_id=1)
    log.wall_ms += 1
    log.put(0, producer_id=2)
    assert log.table.remove_expired(WALL_MS + DAY_MS - 1) == 0
    assert log.table.remove_expired(WALL_MS + DAY_MS) == 1
    assert log.put(5, producer_id=1) is ACCEPT
    assert log.put(5, producer_id=2) is OUT_OF_ORDER


def test_records_of_long_ago_do_not_make_their_producer_old() -> None:
    log = Log()
    log.timestamp_ms = 0
    log.put(0)
    assert log.table.remove_expired(WALL_MS + 1) == 0


def test_appends_in_flight_are_bounded() -> None:
    log = Log(appends_in_flight_max=2)
    log.put(0)
    log.put(1)
    with pytest.raises(InvariantBroken):
        log.put(2)


def test_options_are_checked() -> None:
    with pytest.raises(ConfigError):
        ProducerStateConfig(producers_max=0)


def test_a_snapshot_and_a_replay_give_the_same_state() -> None:
    log = Log()
    for number in range(7):
        log.put(number, producer_id=1)
        log.put(3 * number, 3, producer_id=2)
    log.table.on_committed(Offset(12))
    data = write_snapshot(log.table, Offset(12))
    log.commit()
    again = read_snapshot(log.config, data).table
    assert again.end_offset == 12
    # From offset 12 on: producer 1 wrote 3, 12..: as above, four records a round.
    for number in range(3, 7):
        offset = Offset(4 * number)
        again.append(SequencedBatch(1, 0, number, 1, offset, WALL_MS), WALL_MS)
        again.append(SequencedBatch(2, 0, 3 * number, 3, Offset(offset + 1), WALL_MS), WALL_MS)
    again.on_committed(again.end_offset)
    end = log.table.end_offset
    assert write_snapshot(again, end) == write_snapshot(log.table, end)
    assert again.check(1, 0, 6, 1) == Duplicate(Offset(24), Offset(24), WALL_MS)


def test_a_snapshot_leaves_out_what_lies_above_it() -> None:
    log = Log()
    log.put(0, 2)
    log.commit()
    data = write_snapshot(log.table, Offset(2))
    log.put(2, 2)
    log.put(0, producer_id=7)
    assert write_snapshot(log.table, Offset(2)) == data
    assert read_snapshot(log.config, data).table.check(P, 0, 2, 2) is ACCEPT


def test_a_snapshot_of_what_is_not_known_any_more_is_refused() -> None:
    log = Log()
    log.put(0, 2)
    log.put(2, 2)
    log.commit()
    for offset in (0, 2, 5):
        with pytest.raises(InvariantBroken):
            write_snapshot(log.table, Offset(offset))


def test_a_snapshot_is_believed_only_when_whole() -> None:
    log = Log()
    log.put(0, 2, producer_id=1)
    log.put(0, 2, producer_id=2)
    log.commit()
    data = write_snapshot(log.table, Offset(4))
    for length in range(len(data)):
        with pytest.raises(BadProducerSnapshot):
            read_snapshot(log.config, data[:length])
    for position in range(len(data)):
        flipped = bytearray(data)
        flipped[position] ^= 0x10
        with pytest.raises(BadProducerSnapshot):
            read_snapshot(log.config, bytes(flipped))
    with pytest.raises(BadProducerSnapshot):
        read_snapshot(log.config, data + b"\x00")


def test_a_snapshot_goes_into_an_empty_state_only() -> None:
    log = Log()
    log.put(0)
    with pytest.raises(InvariantBroken):
        log.table.load([])
