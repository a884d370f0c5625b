"""Transactions in a partition's producer state, rule by rule as Apache Kafka has them.

But for one: a batch with the numbers of one whose transaction has ended is no duplicate of it.
"""

from struct import Struct

import pytest

from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.aborted_index import AbortedIndex, AbortedTransaction
from kafkaesque.transactions.open_transactions import NEVER, STALE_MAX, OpenTransactions
from kafkaesque.transactions.producer_snapshot import (
    BadProducerSnapshot,
    read_snapshot,
    write_snapshot,
)
from kafkaesque.transactions.producer_state import ProducerStateConfig, ProducerStateTable
from kafkaesque.transactions.producer_verdicts import (
    AlreadyEnded,
    Duplicate,
    NeedsVerification,
    SequencedBatch,
    Verdict,
)
from kafkaesque.transactions.verification_guards import Guard, VerificationGuards

ACCEPT = Verdict.ACCEPT
P = 1_000
WALL_MS = 1_700_000_000_000
COMMIT, ABORT = MarkerType.COMMIT, MarkerType.ABORT


class Log:
    """A partition whose appends are checked first, and whose coordinator confirms everything."""

    def __init__(self, **options: int) -> None:
        self.config = ProducerStateConfig(**options)
        self.table = ProducerStateTable(self.config)
        self.wall_ms = WALL_MS

    def check(
        self, first: int, epoch: int = 0, producer_id: int = P, plain: bool = False
    ) -> Verdict | Duplicate | NeedsVerification:
        return self.table.check(producer_id, epoch, first, 1, not plain)

    def put(
        self, first: int, *, epoch: int = 0, producer_id: int = P, plain: bool = False
    ) -> Verdict | Duplicate | NeedsVerification:
        verdict = self.check(first, epoch, producer_id, plain)
        if isinstance(verdict, NeedsVerification):
            assert self.table.verified(verdict.guard)
            verdict = self.check(first, epoch, producer_id, plain)
        if verdict is ACCEPT:
            end = self.table.end_offset
            batch = SequencedBatch(producer_id, epoch, first, 1, end, WALL_MS, not plain)
            self.table.append(batch, self.wall_ms)
        return verdict

    def end(
        self,
        kind: MarkerType,
        *,
        epoch: int = 0,
        producer_id: int = P,
        coordinator_epoch: int = 0,
        bumped: bool = False,
    ) -> Verdict | AlreadyEnded:
        verdict = self.table.check_marker(
            producer_id, epoch, coordinator_epoch, is_epoch_bumped=bumped
        )
        if verdict is ACCEPT:
            marker = EndMarker(type=kind, coordinator_epoch=coordinator_epoch)
            end = self.table.end_offset
            batch = SequencedBatch(producer_id, epoch, -1, 1, end, WALL_MS, True, marker)
            self.table.append(batch, self.wall_ms)
        return verdict

    def commit(self, offset: int | None = None) -> None:
        end = self.table.end_offset if offset is None else offset
        self.table.on_committed(Offset(end))

    def stable(self, high_watermark: int) -> int:
        return min(high_watermark, self.table.first_unstable_offset)


def guard_of(verdict: object) -> Guard:
    assert isinstance(verdict, NeedsVerification), verdict
    return verdict.guard


# -- verification


def test_the_first_batch_of_a_transaction_waits_for_the_coordinator() -> None:
    log = Log()
    guard = guard_of(log.check(0))
    assert guard_of(log.check(0)) == guard, "asked once"
    assert log.table.verified(guard)
    assert log.check(0) is ACCEPT
    assert log.put(0) is ACCEPT
    assert log.check(1) is ACCEPT, "the transaction is known to be open"


@pytest.mark.parametrize("kind", [COMMIT, ABORT])
def test_a_batch_numbered_like_one_of_an_ended_transaction_is_no_duplicate(
    kind: MarkerType,
) -> None:
    """Found by scripts/chaos: librdkafka aborts, and gives the next records the same numbers."""
    log = Log()
    assert [log.put(0), log.put(1)] == [ACCEPT, ACCEPT]
    assert isinstance(log.check(1), Duplicate)
    assert log.end(kind) is ACCEPT
    assert [log.check(0), log.check(1)] == [Verdict.OUT_OF_ORDER_SEQUENCE] * 2
    assert log.put(2) is ACCEPT
    assert isinstance(log.check(2), Duplicate)
    assert log.check(1) is Verdict.OUT_OF_ORDER_SEQUENCE


def test_a_marker_makes_a_confirmation_void() -> None:
    log = Log()
    guard = guard_of(log.check(0))
    assert log.end(ABORT) is ACCEPT
    assert not log.table.verified(guard)
    assert guard_of(log.check(0)) != guard


def test_a_marker_makes_it_void_even_if_it_came_already() -> None:
    log = Log()
    log.put(0)
    log.end(COMMIT)
    guard = guard_of(log.check(1))
    assert log.table.verified(guard)
    assert isinstance(log.end(COMMIT), AlreadyEnded)
    assert guard_of(log.check(1)) != guard


def test_a_cut_makes_it_void() -> None:
    log = Log()
    guard = guard_of(log.check(0))
    log.table.truncate(Offset(0))
    assert not log.table.verified(guard)


def test_every_transaction_is_confirmed_anew() -> None:
    log = Log()
    log.put(0)
    log.end(COMMIT)
    assert isinstance(log.check(1), NeedsVerification)


def test_what_the_coordinator_says_unasked_is_good_for_one_transaction() -> None:
    log = Log()
    log.table.confirm(P, 0, 0, "t")
    assert log.put(0) is ACCEPT
    log.end(COMMIT)
    assert isinstance(log.check(1), NeedsVerification)
    log.table.confirm(P, 0, 0, "t")
    assert log.put(1) is ACCEPT


def test_what_the_coordinator_says_unasked_answers_the_question_that_is_open() -> None:
    log = Log()
    guard = guard_of(log.check(0))
    log.table.confirm(P, 0, 0, "t")
    assert log.check(0) is ACCEPT
    assert log.table.verified(guard)


def test_what_is_said_while_a_transaction_is_open_does_not_count_for_the_next() -> None:
    log = Log()
    log.put(0)
    log.table.confirm(P, 0, 0, "t")
    log.end(COMMIT)
    assert isinstance(log.check(1), NeedsVerification)


def test_a_coordinator_that_was_replaced_and_an_old_epoch_confirm_nothing() -> None:
    log = Log()
    log.put(0, epoch=1)
    log.end(ABORT, epoch=1, coordinator_epoch=5)
    log.table.confirm(P, 1, 4, "t")
    assert isinstance(log.check(1, epoch=1), NeedsVerification)
    log.table.confirm(P, 0, 6, "t")
    assert log.check(0, epoch=0) is Verdict.INVALID_PRODUCER_EPOCH
    assert isinstance(log.check(1, epoch=1), NeedsVerification)
    log.table.confirm(P, 1, 5, "t")
    assert log.check(1, epoch=1) is ACCEPT


def test_what_is_said_of_one_transactional_id_does_not_count_for_another() -> None:
    log = Log()
    log.table.confirm(P, 0, 0, "t")
    log.table.expect(P, "t")
    assert log.check(0) is ACCEPT
    log.table.expect(P, "a-stranger")
    assert isinstance(log.check(0), NeedsVerification)


def test_a_new_leader_has_everything_confirmed_anew() -> None:
    log = Log()
    log.table.confirm(P, 0, 0, "t")
    log.table.forget_confirmed()
    assert isinstance(log.check(0), NeedsVerification)


def test_a_higher_epoch_is_confirmed_anew() -> None:
    log = Log()
    first = guard_of(log.check(0))
    assert guard_of(log.check(0, epoch=1)) != first
    assert not log.table.verified(first)
    log.put(0)
    assert isinstance(log.check(0, epoch=1), NeedsVerification)


def test_numbers_come_before_the_question() -> None:
    log = Log()
    log.put(0)
    log.end(COMMIT)
    assert log.check(5) is Verdict.OUT_OF_ORDER_SEQUENCE
    assert isinstance(log.check(1), NeedsVerification)


def test_guards_are_bounded() -> None:
    guards = VerificationGuards(2)
    made = [guards.demand(producer_id, 0) for producer_id in range(3)]
    assert [guards.confirm(guard) for guard in made if guard] == [False, True, True]


# -- what else is refused


def test_outside_of_a_transaction_nothing_is_written_while_one_is_open() -> None:
    log = Log()
    log.put(0)
    assert log.put(1, plain=True) is Verdict.INVALID_TXN_STATE
    assert log.put(0, epoch=1, plain=True) is Verdict.INVALID_TXN_STATE
    log.end(COMMIT)
    assert log.put(1, plain=True) is ACCEPT


def test_open_transactions_are_bounded() -> None:
    log = Log(transactions_open_max=1)
    log.put(0)
    assert log.put(0, producer_id=2) is Verdict.OVER_BOUND
    assert log.put(1) is ACCEPT
    log.end(COMMIT)
    assert log.put(0, producer_id=2) is ACCEPT


def test_aborted_transactions_are_bounded() -> None:
    log = Log(transactions_aborted_max=1)
    log.put(0)
    log.end(ABORT)
    assert log.put(1) is Verdict.OVER_BOUND
    log.table.aborted.forget_before(2)
    assert log.put(1) is ACCEPT


# -- markers


def test_a_marker_of_an_older_epoch_is_refused() -> None:
    log = Log()
    log.put(0, epoch=1)
    assert log.end(COMMIT, epoch=0) is Verdict.INVALID_PRODUCER_EPOCH


def test_a_marker_of_an_older_coordinator_is_refused() -> None:
    log = Log()
    log.put(0)
    log.end(COMMIT, coordinator_epoch=3)
    log.put(1)
    fenced = Verdict.TRANSACTION_COORDINATOR_FENCED
    assert log.end(ABORT, coordinator_epoch=2) is fenced
    assert log.end(ABORT, epoch=1, coordinator_epoch=2) is fenced
    assert log.end(COMMIT, coordinator_epoch=3) is ACCEPT


def test_a_marker_that_comes_again_is_not_written_again() -> None:
    log = Log()
    log.put(0)
    log.end(COMMIT)
    assert log.end(COMMIT) == AlreadyEnded(Offset(1))
    assert log.end(COMMIT, coordinator_epoch=1) is ACCEPT, "it fences the coordinator before"


def test_a_marker_that_comes_again_late_does_not_end_the_next_transaction() -> None:
    log = Log()
    log.put(0)
    assert log.end(COMMIT, epoch=1, bumped=True) is ACCEPT
    assert log.put(0, epoch=1) is ACCEPT
    assert log.end(COMMIT, epoch=1, bumped=True) is Verdict.INVALID_PRODUCER_EPOCH
    assert log.end(COMMIT, epoch=2, bumped=True) is ACCEPT


def test_after_a_marker_of_a_higher_epoch_the_numbers_begin_at_zero() -> None:
    log = Log()
    log.put(0)
    log.put(1)
    log.end(COMMIT, epoch=1, bumped=True)
    assert log.put(2) is Verdict.INVALID_PRODUCER_EPOCH
    assert log.put(2, epoch=1) is Verdict.OUT_OF_ORDER_SEQUENCE
    assert log.put(0, epoch=1) is ACCEPT


def test_after_a_marker_of_the_same_epoch_the_numbers_go_on() -> None:
    log = Log()
    log.put(0)
    log.end(COMMIT)
    assert log.put(1) is ACCEPT


@pytest.mark.parametrize(
    ("producer_id", "epoch", "coordinator"), [(-1, 0, 0), (1, -1, 0), (1, 0, -1)]
)
def test_markers_with_impossible_numbers(producer_id: int, epoch: int, coordinator: int) -> None:
    verdict = Log().table.check_marker(producer_id, epoch, coordinator)
    assert verdict is Verdict.INVALID_RECORD


# -- where readers stop


def test_readers_stop_before_the_oldest_open_transaction() -> None:
    log = Log()
    log.put(0, plain=True)
    assert log.stable(1) == 1
    log.put(1)
    log.put(0, producer_id=2)
    log.commit()
    assert log.stable(3) == 1
    log.end(COMMIT)
    assert log.stable(3) == 1, "the marker is not committed"
    log.commit()
    assert log.stable(4) == 2
    log.end(ABORT, producer_id=2)
    log.commit()
    assert log.stable(5) == 5


def test_a_marker_that_is_cut_off_leaves_the_transaction_open() -> None:
    log = Log()
    log.put(0)
    log.commit()
    log.end(ABORT)
    log.table.truncate(Offset(1))
    assert log.stable(1) == 0
    assert len(log.table.aborted) == 0
    log.end(COMMIT)
    log.commit()
    assert log.stable(2) == 2


def test_a_transaction_that_hangs_does_not_make_the_others_pile_up() -> None:
    transactions = OpenTransactions()
    transactions.open(0)
    for offset in range(1, 10 * STALE_MAX, 2):
        transactions.open(offset)
        transactions.end(offset, offset + 1)
        transactions.on_committed(offset + 2)
    assert len(transactions._heap) <= STALE_MAX + 4
    assert transactions.first_unstable == 0
    transactions.end(0, 10 * STALE_MAX)
    transactions.on_committed(10 * STALE_MAX + 1)
    assert transactions.first_unstable == NEVER


def test_what_is_not_open_cannot_end() -> None:
    with pytest.raises(InvariantBroken):
        OpenTransactions().end(0, 1)


# -- who is remembered


def test_an_open_transaction_is_remembered_however_silent_its_producer() -> None:
    log = Log(producers_max=2)
    log.put(0, producer_id=1)
    for producer_id in range(2, 9):
        log.put(0, producer_id=producer_id, plain=True)
    assert len(log.table) == 2
    log.wall_ms += 10 * 86_400_000
    log.table.remove_expired(log.wall_ms)
    assert [producer_id for producer_id, _ in log.table.entries()] == [1]
    assert log.end(COMMIT, producer_id=1) is ACCEPT
    log.put(0, producer_id=9, plain=True)
    log.put(0, producer_id=10, plain=True)
    assert len(log.table) == 2


# -- which were aborted


def test_readers_are_told_what_was_aborted_where_they_read() -> None:
    log = Log()
    log.put(0)  # 0
    log.put(0, producer_id=2)  # 1
    log.end(ABORT)  # 2
    log.put(1)  # 3
    log.end(COMMIT)  # 4
    log.end(ABORT, producer_id=2)  # 5
    first, second = AbortedTransaction(P, 0, 2, 1), AbortedTransaction(2, 1, 5, 6)
    find = log.table.aborted.overlapping
    assert find(0, 1) == [first]
    assert find(0, 6) == [first, second]
    assert find(3, 4) == [second]
    assert find(6, 9) == []


def test_the_markers_of_a_range_are_bounded() -> None:
    index = AbortedIndex()
    for number in range(5):
        index.append(AbortedTransaction(P, 10 * number, 10 * number + 9, 10 * number + 10))
    assert index.range_end(0, 100, 2) == 20
    assert index.range_end(15, 100, 2) == 30
    assert index.range_end(15, 25, 2) == 25
    assert index.range_end(30, 100, 2) == 100
    assert index.forget_before(20) == 2
    assert index.range_end(20, 100, 3) == 100
    with pytest.raises(InvariantBroken):
        index.append(AbortedTransaction(P, 0, 49, 50))


# -- snapshots


def test_a_snapshot_of_the_version_before_is_read() -> None:
    log = Log()
    for number in range(3):
        log.put(number, plain=True)
    log.commit()
    data = write_snapshot(log.table, Offset(3))
    head, rest = data[:18], data[26:-4]
    old = head[:4] + b"\x00\x01" + head[6:] + rest
    table, last_aborted = read_snapshot(log.config, old + Struct(">I").pack(crc32c(old)))
    assert last_aborted == -1
    assert table.entries() == log.table.entries()
    assert write_snapshot(table, Offset(3)) == data


def test_a_snapshot_keeps_transactions_and_tells_the_last_that_was_aborted() -> None:
    log = Log()
    log.put(0)
    log.end(ABORT, epoch=1)
    log.put(0, producer_id=2)
    log.end(COMMIT, producer_id=3, coordinator_epoch=7)
    log.commit()
    data = write_snapshot(log.table, Offset(4))
    table, last_aborted = read_snapshot(log.config, data)
    assert last_aborted == 1
    assert table.entries() == log.table.entries()
    assert table.first_unstable_offset == 2
    for length in range(len(data)):
        with pytest.raises(BadProducerSnapshot):
            read_snapshot(log.config, data[:length])
