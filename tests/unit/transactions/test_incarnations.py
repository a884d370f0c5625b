"""Who may speak for a transactional id: new producers, epochs, connections, time, restarts."""

import pytest

from kafkaesque.model.errors import ConfigError, InvariantBroken
from kafkaesque.tables.core import TableState
from kafkaesque.tables.log_table import LogRecord, WriteFailure, WriteToken
from kafkaesque.tables.timers import TimerQueue
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    NO_CONNECTION,
    MarkerOutcome,
    MarkersToken,
    MarkersWritten,
)
from kafkaesque.transactions.producer_entries import EPOCH_MAX
from kafkaesque.transactions.records import TransactionValue, write_key, write_value
from kafkaesque.transactions.states import TransactionState
from tests.unit.transactions.desk import NONE, OFFSETS, T0, T1, TXN, WALL_MS, Desk

E = TransactionError
TIMEOUT_MS = 60_000
WEEK_MS = 7 * 24 * 60 * 60 * 1000
HOUR_MS = 60 * 60 * 1000


def stored(epoch: int, state: TransactionState = TransactionState.EMPTY) -> list[LogRecord]:
    """A log that knows producer 7 with this epoch."""
    value = TransactionValue(
        producer_id=7,
        producer_epoch=epoch,
        timeout_ms=TIMEOUT_MS,
        state=state,
        update_wall_ms=WALL_MS,
        start_wall_ms=WALL_MS,
    )
    return [LogRecord(write_key(TXN), write_value(value))]


# --- beginning (KIP-98) ---


def test_a_new_incarnation_has_a_higher_epoch_and_shuts_out_the_one_before() -> None:
    desk = Desk()
    first = desk.begun()
    second = desk.begun(connection=2)
    assert (first, second) == ((1000, 0), (1000, 1))
    assert desk.add(first, T0) is E.PRODUCER_FENCED
    assert desk.end_error(first) is E.PRODUCER_FENCED
    assert desk.end_error(first, learns=True) is E.PRODUCER_FENCED
    assert desk.init(first).error is E.PRODUCER_FENCED
    assert desk.add(second, T0, connection=2) is NONE


def test_an_open_transaction_is_aborted_before_somebody_else_begins() -> None:
    desk = Desk()
    first = desk.begun()
    desk.add(first, T0, OFFSETS)
    desk.holds_markers = True
    assert desk.init(connection=2).error is E.CONCURRENT_TRANSACTIONS
    assert desk.state() == "PrepareAbort"
    assert desk.init(connection=2).error is E.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.marked() == [(OFFSETS, 1000, 1, False), (T0, 1000, 1, False)]
    assert desk.begun(connection=2) == (1000, 2)
    assert desk.end_error(first) is E.PRODUCER_FENCED


def test_nobody_gets_the_epoch_with_which_another_one_is_shut_out() -> None:
    desk = Desk()
    first = desk.begun()
    desk.add(first, T0)
    desk.init(connection=2)
    assert desk.end_error(first, commit=False, learns=True) is E.PRODUCER_FENCED
    desk = desk.reopened()
    assert desk.end_error(first, commit=False, learns=True) is E.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_the_time_out_must_be_in_range(timeout_ms: int) -> None:
    assert Desk().init(timeout_ms=timeout_ms).error is E.INVALID_TRANSACTION_TIMEOUT


def test_an_id_must_have_a_length_that_fits_into_a_record() -> None:
    desk = Desk(TransactionConfig(id_bytes_max=4))
    assert desk.init(transactional_id="").error is E.INVALID_REQUEST
    assert desk.init(transactional_id="ééé").error is E.INVALID_REQUEST
    assert desk.init(transactional_id="éé").error is NONE


def test_a_producer_id_without_an_epoch_is_no_request() -> None:
    assert Desk().init((7, -1)).error is E.INVALID_REQUEST
    assert Desk().init((-1, 7)).error is E.INVALID_REQUEST


def test_there_are_at_most_so_many_ids() -> None:
    desk = Desk(TransactionConfig(transactional_ids_max=1))
    desk.begun()
    assert desk.init(transactional_id="two").error is E.OVER_BOUND
    assert desk.begun() == (1000, 1)


def test_a_new_id_is_unknown_until_its_record_is_committed() -> None:
    desk = Desk()
    desk.holds_ids = desk.holds_writes = True
    assert desk.init() is None
    assert desk.init().error is E.CONCURRENT_TRANSACTIONS
    desk.give_ids()
    assert desk.init().error is E.CONCURRENT_TRANSACTIONS
    assert desk.describe().error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.listed() == set()
    assert desk.add((1000, 0), T0) is E.INVALID_PRODUCER_ID_MAPPING
    assert desk.end_error((1000, 0)) is E.INVALID_PRODUCER_ID_MAPPING
    assert desk.force_abort() is E.TRANSACTIONAL_ID_NOT_FOUND
    desk.commit_held()
    assert desk.state() == "Empty"


def test_a_new_id_whose_record_fails_is_forgotten() -> None:
    desk = Desk()
    desk.holds_writes = True
    desk.init()
    desk.fail_held()
    assert desk.answers[desk.asked[-1]].error is E.COORDINATOR_NOT_AVAILABLE
    assert desk.table.transactional_id_count == 0
    desk.holds_writes = False
    assert desk.begun() == (1001, 0)


def test_without_a_producer_id_the_client_is_told_to_come_again() -> None:
    desk = Desk()
    desk.holds_ids = True
    desk.init()
    desk.refuse_id()
    assert desk.answers[desk.asked[-1]].error is E.COORDINATOR_NOT_AVAILABLE
    assert desk.table.transactional_id_count == 0


def test_a_producer_id_that_comes_too_late_is_given_to_nobody() -> None:
    desk = Desk()
    desk.holds_ids = True
    desk.init()
    desk.advance(desk.config.write_timeout_ms)
    assert desk.answers[desk.asked[-1]].error is E.COORDINATOR_NOT_AVAILABLE
    desk.give_ids()
    assert desk.log == []
    desk.holds_ids = False
    assert desk.begun() == (1001, 0)


# --- going on after an error (KIP-360) ---


def test_a_producer_goes_on_with_the_next_epoch() -> None:
    desk = Desk()
    producer = desk.begun()
    assert desk.begun(producer=producer) == (1000, 1)


def test_a_lost_answer_is_given_again_without_another_epoch() -> None:
    desk = Desk()
    producer = desk.begun()
    assert [desk.begun(producer=producer) for _ in range(3)] == [(1000, 1)] * 3


def test_after_somebody_else_has_begun_nobody_goes_on() -> None:
    desk = Desk()
    producer = desk.begun()
    desk.begun(producer=producer)
    desk.begun()
    for epoch in (0, 1, 3):
        assert desk.init((1000, epoch)).error is E.PRODUCER_FENCED
    assert desk.init((999, 2)).error is E.PRODUCER_FENCED


def test_who_is_shut_out_aborts_nothing() -> None:
    desk = Desk()
    first = desk.begun()
    second = desk.begun()
    desk.add(second, T0)
    assert desk.init(first).error is E.PRODUCER_FENCED
    assert desk.state() == "Ongoing"


def test_a_lost_answer_is_not_asked_for_again_once_its_epoch_is_at_work() -> None:
    desk = Desk()
    before = desk.begun()
    producer = desk.begun(producer=before)
    desk.add(producer, T0)
    assert desk.init(before).error is E.PRODUCER_FENCED
    assert desk.state() == "Ongoing"


def test_a_producer_that_aborts_its_own_transaction_by_beginning_again_is_not_shut_out() -> None:
    desk = Desk()
    producer = desk.begun()
    desk.add(producer, T0)
    assert desk.init(producer).error is E.CONCURRENT_TRANSACTIONS
    assert desk.marked() == [(T0, 1000, 1, False)]
    assert desk.begun(producer=producer) == (1000, 1)


def test_an_id_that_is_not_known_begins_anew_whatever_is_given() -> None:
    assert Desk().begun(producer=(7, 3)) == (1000, 0)


def test_while_markers_are_written_whoever_goes_on_comes_again() -> None:
    desk = Desk()
    producer = desk.begun()
    desk.add(producer, T0)
    desk.holds_markers = True
    bumped = desk.ended(producer)
    assert desk.init(producer).error is E.CONCURRENT_TRANSACTIONS
    assert desk.init(bumped).error is E.CONCURRENT_TRANSACTIONS
    assert desk.init((5, 0)).error is E.PRODUCER_FENCED
    desk.write_markers()
    assert desk.begun(producer=producer) == bumped


# --- epochs that are used up ---


def test_the_last_epoch_of_a_client_is_followed_by_a_new_producer_id() -> None:
    desk = Desk(log=stored(EPOCH_MAX - 2))
    last = desk.begun()
    assert last == (7, EPOCH_MAX - 1)
    assert desk.begun() == (1000, 0)
    assert desk.add(last, T0) is E.INVALID_PRODUCER_ID_MAPPING


def test_a_producer_goes_on_with_a_new_id_and_may_lose_the_answer() -> None:
    desk = Desk(log=stored(EPOCH_MAX - 1))
    last = (7, EPOCH_MAX - 1)
    assert desk.begun(producer=last) == (1000, 0)
    assert desk.begun(producer=last) == (1000, 0)
    assert desk.begun(producer=last) == (1000, 0)


def test_shutting_out_the_last_epoch_needs_one_more_which_no_client_gets() -> None:
    for begins_again in ((-1, -1), (7, EPOCH_MAX - 1)):
        desk = Desk(log=stored(EPOCH_MAX - 1))
        last = (7, EPOCH_MAX - 1)
        desk.add(last, T0)
        assert desk.init(begins_again).error is E.CONCURRENT_TRANSACTIONS
        assert desk.marked() == [(T0, 7, EPOCH_MAX, False)]
        for producer in (last, (7, EPOCH_MAX)):
            assert desk.add(producer, T0) is E.PRODUCER_FENCED
            assert desk.end_error(producer, commit=False, learns=True) is E.PRODUCER_FENCED
        assert desk.init((7, EPOCH_MAX)).error is E.PRODUCER_FENCED
        assert desk.begun(producer=begins_again) == (1000, 0)


def test_time_is_up_in_the_last_epoch() -> None:
    desk = Desk(log=stored(EPOCH_MAX - 1))
    last = (7, EPOCH_MAX - 1)
    desk.add(last, T0)
    desk.advance(TIMEOUT_MS)
    assert desk.marked() == [(T0, 7, EPOCH_MAX, False)]
    assert desk.end_error(last, commit=False, learns=True) is E.PRODUCER_FENCED
    assert desk.begun() == (1000, 0)


def test_a_client_that_learns_its_epochs_learns_its_next_producer_id_too() -> None:
    desk = Desk(log=stored(EPOCH_MAX - 1))
    last = (7, EPOCH_MAX - 1)
    desk.add(last, T0)
    desk.holds_markers = True
    following = desk.ended(last)
    assert following == (1000, 0)
    assert desk.markers[0].producer_epoch == EPOCH_MAX
    assert desk.markers[0].producer_id == 7
    # It comes again with the next one before the markers are written.
    assert desk.add(following, T0) is None
    assert desk.end_error(following, commit=False, learns=True) is E.CONCURRENT_TRANSACTIONS
    assert desk.init(following).error is E.CONCURRENT_TRANSACTIONS
    assert desk.end_error(last, learns=True) is E.CONCURRENT_TRANSACTIONS
    desk.advance(desk.config.addition_wait_ms)
    desk.write_markers()
    assert desk.ended(last) == following
    assert desk.end_error(last, commit=False, learns=True) is E.INVALID_TXN_STATE
    assert desk.reopened().ended(last) == following
    assert desk.add(following, T0) is NONE
    assert desk.end_error(last, learns=True) is E.INVALID_PRODUCER_ID_MAPPING


def test_a_client_may_add_with_its_next_producer_id_before_that_is_in_force() -> None:
    desk = Desk(log=stored(EPOCH_MAX - 1))
    last = (7, EPOCH_MAX - 1)
    desk.add(last, T0)
    desk.holds_markers = True
    following = desk.ended(last)
    assert desk.add(following, T1) is None
    added = desk.asked[-1]
    desk.write_markers()
    assert desk.answers[added].transactions[0].partitions[0].error is NONE
    assert desk.describe().producer_id == following[0]
    assert desk.describe().partitions == (T1,)


def test_the_end_waits_for_its_next_producer_id() -> None:
    desk = Desk(log=stored(EPOCH_MAX - 1))
    last = (7, EPOCH_MAX - 1)
    desk.add(last, T0)
    desk.holds_ids = True
    assert desk.end(last, learns=True) is None
    ended = desk.asked[-1]
    assert desk.add(last, T1) is None
    desk.refuse_id()
    assert desk.answers[ended].error is E.COORDINATOR_NOT_AVAILABLE
    assert desk.state() == "Ongoing"
    assert desk.describe().partitions == (T0, T1)
    desk.holds_ids = False
    assert desk.ended(last) == (1000, 0)


# --- connections (ADR 6) ---


def test_a_delayed_end_does_not_end_a_later_transaction() -> None:
    desk = Desk()
    producer = desk.begun(connection=1)
    desk.add(producer, T0, connection=1)
    assert desk.end_error(producer, connection=2) is NONE
    assert desk.add(producer, T1, connection=2) is NONE
    assert desk.end_error(producer, connection=1) is E.INVALID_PRODUCER_EPOCH
    assert desk.state() == "Ongoing"


def test_a_delayed_addition_does_not_join_a_later_transaction() -> None:
    desk = Desk()
    producer = desk.begun(connection=1)
    desk.add(producer, T0, connection=2)
    assert desk.add(producer, T1, connection=1) is E.INVALID_PRODUCER_EPOCH
    assert desk.add_offsets(producer, connection=1) is E.INVALID_PRODUCER_EPOCH
    assert desk.describe().partitions == (T0,)
    assert desk.init(producer, connection=1).error is E.INVALID_PRODUCER_EPOCH


def test_a_connection_counts_even_when_what_it_asks_for_has_to_come_again() -> None:
    desk = Desk()
    producer = desk.begun(connection=1)
    desk.holds_writes = True
    desk.add(producer, T0, connection=1)
    assert desk.end_error(producer, connection=2) is E.CONCURRENT_TRANSACTIONS
    desk.commit_held()
    assert desk.end_error(producer, connection=1) is E.INVALID_PRODUCER_EPOCH


def test_who_is_shut_out_cannot_shut_out_by_a_newer_connection() -> None:
    desk = Desk()
    first = desk.begun(connection=1)
    second = desk.begun(connection=2)
    assert desk.end_error(first, connection=9) is E.PRODUCER_FENCED
    assert desk.add(second, T0, connection=2) is NONE


def test_who_begins_over_one_connection_may_go_on_over_an_older_one() -> None:
    desk = Desk()
    producer = desk.begun(connection=7)  # as aiokafka does
    assert desk.add(producer, T0, connection=6) is NONE
    assert desk.end_error(producer, connection=6) is NONE
    assert desk.add(producer, T0, connection=5) is E.INVALID_PRODUCER_EPOCH


def test_a_stand_by_that_has_connected_long_ago_takes_over() -> None:
    desk = Desk()
    first = desk.begun(connection=5)
    desk.add(first, T0, connection=5)
    desk.init(connection=3)
    second = desk.begun(connection=3)
    assert desk.add(second, T0, connection=3) is NONE


def test_a_stand_by_whose_record_fails_changes_nothing() -> None:
    desk = Desk()
    producer = desk.begun(connection=5)
    desk.add(producer, T0, connection=5)
    desk.end_error(producer, connection=5)
    desk.holds_writes = True
    desk.init(connection=3)
    desk.fail_held()
    assert desk.end_error(producer, connection=4) is E.INVALID_PRODUCER_EPOCH


def test_other_brokers_are_not_judged_by_connection() -> None:
    desk = Desk()
    producer = desk.begun(connection=5)
    assert desk.add(producer, T0, connection=NO_CONNECTION) is NONE
    assert desk.end_error(producer, connection=5) is NONE


# --- time ---


def test_a_transaction_whose_time_is_up_is_aborted_and_its_producer_shut_out() -> None:
    desk = Desk()
    producer = desk.begun(timeout_ms=TIMEOUT_MS)
    desk.add(producer, T0)
    desk.advance(TIMEOUT_MS - 1)
    desk.add(producer, T1)
    assert desk.state() == "Ongoing"
    desk.advance(1)
    assert desk.marked() == [(T0, 1000, 1, False), (T1, 1000, 1, False)]
    assert desk.end_error(producer) is E.PRODUCER_FENCED
    assert desk.init(producer).error is E.PRODUCER_FENCED
    assert desk.begun() == (1000, 2)


def test_a_client_that_learns_its_epochs_goes_on_by_aborting_what_is_aborted() -> None:
    desk = Desk()
    producer = desk.begun(timeout_ms=TIMEOUT_MS)
    desk.add(producer, T0)
    desk.advance(TIMEOUT_MS)
    assert desk.end_error(producer, learns=True) is E.INVALID_TXN_STATE
    assert desk.ended(producer, commit=False) == (1000, 1)
    assert desk.add((1000, 1), T0) is NONE


def test_an_ended_transaction_has_no_time_limit() -> None:
    desk = Desk()
    producer = desk.begun()
    desk.add(producer, T0)
    desk.end(producer)
    desk.advance(HOUR_MS)
    assert desk.state() == "CompleteCommit"
    assert desk.describe().producer_epoch == 0


def test_the_abort_of_a_timed_out_transaction_is_tried_until_it_is_written() -> None:
    desk = Desk()
    producer = desk.begun(timeout_ms=TIMEOUT_MS)
    desk.add(producer, T0)
    desk.holds_writes = True
    desk.advance(TIMEOUT_MS)
    for _ in range(3):
        assert desk.state() == "Ongoing"
        desk.fail_held()
        desk.advance(desk.config.retry_backoff_ms)
    desk.commit_held()
    assert desk.marked() == [(T0, 1000, 1, False)]


def test_time_that_is_up_while_a_record_is_on_its_way_is_looked_at_again() -> None:
    desk = Desk()
    producer = desk.begun(timeout_ms=TIMEOUT_MS)
    desk.add(producer, T0)
    desk.advance(TIMEOUT_MS - 1)
    desk.holds_writes = True
    desk.add(producer, T1)
    desk.advance(1000)
    assert len(desk.held) == 1
    desk.holds_writes = False
    desk.commit_held()
    desk.advance(desk.config.retry_backoff_ms)
    assert desk.state() == "CompleteAbort"


def test_a_commit_that_is_on_its_way_when_time_is_up_wins() -> None:
    desk = Desk()
    producer = desk.begun(timeout_ms=TIMEOUT_MS)
    desk.add(producer, T0)
    desk.holds_writes = True
    desk.end(producer)
    desk.advance(TIMEOUT_MS)
    desk.holds_writes = False
    desk.commit_held()
    desk.advance(TIMEOUT_MS)
    assert desk.marked() == [(T0, 1000, 0, True)]


def test_an_id_that_is_not_used_for_long_is_forgotten() -> None:
    desk = Desk()
    desk.begun(transactional_id="empty")
    producer = desk.begun()
    desk.add(producer, T0)
    desk.end(producer)
    desk.advance(WEEK_MS - HOUR_MS)
    assert desk.listed() == {"empty", TXN}
    desk.begun(transactional_id="young")
    desk.advance(2 * HOUR_MS)
    assert desk.listed() == {"young"}
    assert {record.key for record in desk.log if record.value is None} == {
        write_key("empty"),
        write_key(TXN),
    }
    assert desk.reopened().listed() == {"young"}
    assert desk.add(producer, T0) is E.INVALID_PRODUCER_ID_MAPPING


def test_an_id_that_is_being_forgotten_can_be_used_again_only_afterwards() -> None:
    desk = Desk(TransactionConfig(records_per_write_max=1))
    desk.begun()
    desk.begun(transactional_id="two")
    desk.holds_writes = True
    desk.advance(WEEK_MS + HOUR_MS)
    assert [len(each.records) for each in desk.held] == [1, 1]
    assert desk.init().error is E.CONCURRENT_TRANSACTIONS
    desk.fail_held()
    assert desk.listed() == {TXN, "two"}
    desk.commit_held()
    assert desk.listed() == {TXN}
    desk.holds_writes = False
    assert desk.begun() == (1000, 1)


def test_open_and_decided_transactions_are_not_forgotten() -> None:
    desk = Desk(TransactionConfig(transactional_id_expiration_ms=1))
    producer = desk.begun()
    desk.add(producer, T0)
    desk.holds_markers = True
    desk.end(producer)
    desk.advance(2 * HOUR_MS)
    assert desk.state() == "PrepareCommit"


# --- administration (KIP-664) ---


def test_an_administrator_ends_an_open_transaction() -> None:
    desk = Desk()
    assert desk.force_abort() is E.TRANSACTIONAL_ID_NOT_FOUND
    producer = desk.begun()
    assert desk.force_abort() is E.INVALID_TXN_STATE
    desk.add(producer, T0)
    desk.holds_writes = True
    assert desk.force_abort() is None
    assert desk.force_abort() is E.CONCURRENT_TRANSACTIONS
    desk.holds_writes = False
    desk.commit_held()
    assert desk.marked() == [(T0, 1000, 1, False)]
    assert desk.end_error(producer) is E.PRODUCER_FENCED


def test_ids_are_described_as_they_are_committed() -> None:
    desk = Desk()
    assert desk.describe().error is E.TRANSACTIONAL_ID_NOT_FOUND
    assert desk.describe("").error is E.INVALID_REQUEST
    producer = desk.begun()
    desk.add(producer, T1, T0)
    described = desk.describe()
    assert (described.producer_id, described.producer_epoch) == producer
    assert (described.state, described.partitions) == ("Ongoing", (T0, T1))


def test_ids_are_listed_by_state_producer_duration_and_name() -> None:
    desk = Desk()
    desk.begun(transactional_id="idle")
    producer = desk.begun(transactional_id="long")
    desk.add(producer, T0, transactional_id="long")
    desk.advance(1000)
    other = desk.begun(transactional_id="short")
    desk.add(other, T0, transactional_id="short")
    assert desk.listed() == {"idle", "long", "short"}
    assert desk.listed(states=("Ongoing", "Empty")) == {"idle", "long", "short"}
    assert desk.listed(states=("Empty",)) == {"idle"}
    assert desk.list_all(states=("Nonsense",)).unknown_states == ("Nonsense",)
    assert desk.listed(states=("Nonsense",)) == set()
    assert desk.listed(producer_ids=(producer[0],)) == {"long"}
    assert desk.listed(duration_ms=500) == {"long"}
    assert desk.listed(duration_ms=1000) == set()
    assert desk.listed(is_wanted_id=lambda name: name.startswith("s")) == {"short"}


# --- the table's life ---


def test_what_is_decided_is_carried_on_by_the_next_coordinator() -> None:
    for commit in (True, False):
        desk = Desk()
        producer = desk.begun()
        desk.add(producer, T0, T1)
        desk.holds_markers = True
        desk.end(producer, commit=commit)
        desk.write_marker(desk.markers[0], T0)
        desk = desk.reopened()
        assert desk.marked() == [(T0, 1000, 0, commit), (T1, 1000, 0, commit)]
        assert {work.coordinator_epoch for work, _ in desk.written} == {2}
        assert desk.state() == ("CompleteCommit" if commit else "CompleteAbort")
        assert desk.end_error(producer, commit=commit) is NONE


def test_what_is_open_has_the_rest_of_its_time_with_the_next_coordinator() -> None:
    desk = Desk()
    producer = desk.begun(timeout_ms=TIMEOUT_MS)
    desk.add(producer, T0)
    desk.advance(TIMEOUT_MS - 10)
    desk = desk.reopened()
    desk.advance(9)
    assert desk.state() == "Ongoing"
    desk.advance(1)
    assert desk.state() == "CompleteAbort"


def test_an_old_coordinator_answers_everybody_and_takes_no_more_reports() -> None:
    desk = Desk()
    producer = desk.begun()
    desk.add(producer, T0)
    desk.holds_writes = desk.holds_ids = True
    desk.end(producer)
    desk.init(transactional_id="two")
    desk.table.unload()
    desk.table.unload()
    desk.pump()
    assert [desk.answers[each].error for each in desk.asked[-2:]] == [E.NOT_COORDINATOR] * 2
    desk.commit_held()
    desk.give_ids()
    assert (desk.markers, desk.held) == ([], [])
    assert desk.table.next_deadline_ms() is None
    desk.table.tick(desk.now)
    assert desk.init().error is E.NOT_COORDINATOR
    assert desk.table.state is TableState.UNLOADED


def test_a_coordinator_that_loads_says_so() -> None:
    desk = Desk(is_active=False)
    error = E.COORDINATOR_LOAD_IN_PROGRESS
    assert desk.init().error is error
    assert desk.add((1, 0), T0, T1) is error
    assert desk.add_offsets((1, 0)) is error
    assert desk.end_error((1, 0)) is error
    assert desk.force_abort() is error
    assert desk.describe().error is error
    assert desk.list_all().error is error
    desk.ask(
        MarkersWritten(
            token=MarkersToken(1),
            transactional_id=TXN,
            partition=T0,
            outcome=MarkerOutcome.WRITTEN,
        )
    )
    assert desk.table.next_deadline_ms() is None


def test_records_that_cannot_be_read_are_skipped_and_counted() -> None:
    desk = Desk(is_active=False)
    good = stored(3)[0]
    desk.table.restore(
        [good, (None, b""), (b"\x00", b""), (write_key("x"), b"\x00"), (b"\x00\x05new", b"")]
    )
    desk.table.restore([(write_key("y"), good.value), (write_key("y"), None)])
    desk.table.activate(desk.now)
    assert desk.table.records_skipped == 3
    assert desk.listed() == {TXN}
    with pytest.raises(InvariantBroken):
        desk.table.restore([])
    with pytest.raises(InvariantBroken):
        desk.table.activate(desk.now)


def test_a_report_of_what_was_not_asked_for_is_our_defect() -> None:
    desk = Desk()
    with pytest.raises(InvariantBroken):
        desk.table.on_appended(WriteToken(1), desk.now)
    with pytest.raises(InvariantBroken):
        desk.table.on_append_failed(WriteToken(1), WriteFailure.NOT_LEADER, desk.now)
    desk.holds_ids = True
    desk.init()
    token = desk.held_ids[0].token
    with pytest.raises(InvariantBroken):
        desk.table.on_producer_id(type(token)(token + 1), 7, desk.now)


# --- parts ---


@pytest.mark.parametrize(
    "options",
    [{"partitions_max": 0}, {"transaction_timeout_ms_max": 2**31}, {"id_bytes_max": 32_768}],
)
def test_an_option_out_of_range_is_refused(options: dict[str, int]) -> None:
    with pytest.raises(ConfigError):
        TransactionConfig(**options)


def test_deadlines_come_in_their_order_and_what_is_replaced_takes_no_room() -> None:
    deadlines: TimerQueue[str] = TimerQueue()
    for turn in range(1000):
        deadlines.schedule("a", 5000 - turn)
        deadlines.schedule("b", 1000 + turn)
        deadlines.schedule("gone", turn)
        deadlines.cancel("gone")
    assert len(deadlines._heap) < 100
    assert deadlines.next_deadline_ms() == 1999
    assert deadlines.pop_due(1998) is None
    assert deadlines.pop_due(9999) == "b"
    assert "b" not in deadlines
    assert deadlines.pop_due(9999) == "a"
    assert deadlines.pop_due(9999) is None
