"""A transaction from beginning to end, rule by rule: KIP-98, KIP-890 and Kafka's answers."""

from itertools import product

import pytest

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import WriteFailure
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    NO_CONNECTION,
    AddedPartitions,
    AddPartitions,
    MarkerOutcome,
)
from kafkaesque.transactions.states import (
    PREPARED,
    STORED,
    TRANSITIONS,
    TransactionState,
    check_transitions,
)
from tests.unit.transactions.desk import NONE, OFFSETS, T0, T1, TXN, WALL_MS, Desk

E = TransactionError


def open_transaction(desk: Desk, *partitions: TopicPartition, **options: int) -> tuple[int, int]:
    """A producer with an open transaction in these partitions."""
    producer = desk.begun(**options)
    assert desk.add(producer, *(partitions or (T0,))) is NONE
    return producer


# --- the states ---


def test_an_unlisted_transition_is_our_defect() -> None:
    for before, after in product(TransactionState, TransactionState):
        if after in TRANSITIONS[before]:
            check_transitions(before, after)
        else:
            with pytest.raises(InvariantBroken):
                check_transitions(before, after)


def test_a_decided_transaction_can_only_be_completed_as_decided() -> None:
    for state in PREPARED:
        (after,) = TRANSITIONS[state]
        assert after.title == state.title.replace("Prepare", "Complete")
    assert not TRANSITIONS[TransactionState.DEAD]
    assert sorted(STORED) == [0, 1, 2, 3, 4, 5]


# --- the way of a transaction ---


def test_a_commit_writes_its_markers_into_exactly_the_added_partitions() -> None:
    desk = Desk()
    producer = desk.begun()
    assert producer == (1000, 0)
    assert desk.add(producer, T0, T1) is NONE
    assert desk.add_offsets(producer) is NONE
    assert desk.state() == "Ongoing"
    assert desk.end_error(producer) is NONE
    assert desk.marked() == [(each, 1000, 0, True) for each in (OFFSETS, T0, T1)]
    assert desk.state() == "CompleteCommit"
    assert desk.describe().partitions == ()


def test_an_abort_says_so_in_its_markers() -> None:
    desk = Desk()
    producer = open_transaction(desk)
    assert desk.end_error(producer, commit=False) is NONE
    assert desk.marked() == [(T0, 1000, 0, False)]
    assert desk.state() == "CompleteAbort"


def test_the_next_transaction_has_only_its_own_partitions() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0)
    desk.end(producer)
    assert desk.add(producer, T1) is NONE
    desk.end(producer, commit=False)
    assert desk.marked() == [(T0, 1000, 0, True), (T1, 1000, 0, False)]


def test_the_decision_is_answered_when_committed_and_not_when_the_markers_are_written() -> None:
    desk = Desk()
    producer = open_transaction(desk)
    desk.holds_writes = desk.holds_markers = True
    assert desk.end(producer) is None
    assert desk.markers == []
    desk.commit_held()
    assert desk.answers[desk.asked[-1]].error is NONE
    assert [each.partitions for each in desk.markers] == [(T0,)]
    assert desk.state() == "PrepareCommit"


def test_all_markers_have_to_be_written_before_the_next_transaction() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0, T1)
    desk.holds_markers = True
    desk.end(producer)
    (work,) = desk.markers
    desk.write_marker(work, T1)
    assert desk.state() == "PrepareCommit"
    assert desk.init().error is E.CONCURRENT_TRANSACTIONS
    assert desk.force_abort() is E.CONCURRENT_TRANSACTIONS
    desk.write_marker(work, T1)
    assert desk.state() == "PrepareCommit"
    desk.write_marker(work, T0, MarkerOutcome.PARTITION_GONE)
    assert desk.state() == "CompleteCommit"
    assert desk.add(producer, T0) is NONE


def test_what_is_added_early_begins_with_the_end_of_the_transaction_before() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0)
    desk.holds_markers = True
    desk.end(producer)
    assert desk.add(producer, T1) is None
    assert desk.add_offsets(producer) is None
    added, offsets = desk.asked[-2:]
    (work,) = desk.markers
    desk.holds_writes = True
    desk.write_marker(work, T0)
    # One record completes the one and begins the other; nothing is said before it is committed.
    (append,) = desk.held
    assert len(append.records) == 1
    assert desk.state() == "PrepareCommit"
    assert not {added, offsets} & set(desk.answers)
    desk.commit_held()
    assert {added, offsets} <= set(desk.answers)
    assert desk.state() == "Ongoing"
    assert set(desk.describe().partitions) == {T1, OFFSETS}
    assert desk.reopened().state() == "Ongoing"


def test_a_beginning_that_cannot_be_written_leaves_the_end_to_be_completed() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0)
    desk.holds_markers = True
    desk.end(producer)
    desk.add(producer, T1)
    added = desk.asked[-1]
    (work,) = desk.markers
    desk.holds_writes = True
    desk.write_marker(work, T0)
    desk.fail_held()
    ((_, ((_, error),)),) = desk.answers[added].transactions
    assert error is E.COORDINATOR_NOT_AVAILABLE
    assert desk.state() == "PrepareCommit"
    desk.holds_writes = False
    desk.advance(desk.config.retry_backoff_ms)
    assert desk.state() == "CompleteCommit"


def test_what_is_added_early_waits_only_so_long() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0)
    desk.holds_markers = True
    desk.end(producer)
    desk.add(producer, T1)
    added = desk.asked[-1]
    desk.advance(desk.config.addition_wait_ms - 1)
    assert added not in desk.answers
    desk.advance(1)
    ((_, ((_, error),)),) = desk.answers[added].transactions
    assert error is E.CONCURRENT_TRANSACTIONS
    desk.write_markers()
    assert desk.state() == "CompleteCommit"


def test_what_waits_to_be_added_is_judged_when_its_turn_comes() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0)
    desk.holds_markers = True
    desk.end(producer)
    desk.add(producer, T1, connection=1)
    late = desk.asked[-1]
    desk.add(producer, T0, connection=2)
    desk.add((producer[0], producer[1] + 1), T0)
    fenced = desk.asked[-1]
    desk.write_markers()
    errors = [desk.answers[each].transactions[0].partitions[0].error for each in (late, fenced)]
    assert errors == [E.INVALID_PRODUCER_EPOCH, E.PRODUCER_FENCED]
    assert desk.describe().partitions == (T0,)


def test_who_waits_to_be_added_hears_that_the_coordinator_has_gone() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0)
    desk.holds_markers = True
    desk.end(producer)
    desk.add(producer, T1)
    desk.table.unload()
    desk.pump()
    ((_, ((_, error),)),) = desk.answers[desk.asked[-1]].transactions
    assert error is E.NOT_COORDINATOR


def test_leaders_are_told_of_what_clients_add_and_not_of_what_they_have_added_themselves() -> None:
    desk = Desk()
    producer = desk.begun()
    desk.add(producer, T0)
    desk.add(producer, T1, connection=NO_CONNECTION)
    assert desk.confirmed == [(*producer, (T0,))]


def test_a_repeated_report_of_a_marker_does_not_count_for_the_next_transaction() -> None:
    desk = Desk()
    producer = open_transaction(desk)
    desk.end(producer)
    ((earlier, _),) = desk.written
    desk.add(producer, T0)
    desk.holds_markers = True
    desk.end(producer)
    desk.write_marker(earlier, T0)
    assert desk.state() == "PrepareCommit"
    desk.write_marker(desk.markers[0], T0)
    assert desk.state() == "CompleteCommit"


def test_a_marker_that_a_later_coordinator_forbids_completes_nothing_here() -> None:
    desk = Desk()
    producer = open_transaction(desk)
    desk.holds_markers = True
    desk.end(producer)
    desk.write_marker(desk.markers[0], T0, MarkerOutcome.COORDINATOR_FENCED)
    assert desk.state() == "PrepareCommit"


# --- what is added ---


def test_partitions_that_are_in_already_are_answered_without_a_record() -> None:
    desk = Desk()
    producer = open_transaction(desk, T0, T1)
    size = len(desk.log)
    assert desk.add(producer, T1) is NONE
    assert len(desk.log) == size
    assert desk.add(producer, T1, OFFSETS) is NONE
    assert len(desk.log) == size + 1


def test_adding_no_partition_begins_no_transaction() -> None:
    desk = Desk()
    added = AddedPartitions(TXN, *desk.begun(), ())
    result = desk.ask(AddPartitions(token=desk.token(), connection=1, transactions=(added,)))
    assert result.transactions[0].partitions == ()
    assert desk.state() == "Empty"


def test_who_adds_must_be_the_present_incarnation() -> None:
    desk = Desk()
    producer_id, epoch = desk.begun()
    assert desk.add((producer_id + 1, epoch), T0) is E.INVALID_PRODUCER_ID_MAPPING
    assert desk.add((producer_id, epoch + 1), T0) is E.PRODUCER_FENCED
    assert desk.add((producer_id, epoch), T0, transactional_id="x") is E.INVALID_PRODUCER_ID_MAPPING
    assert desk.add((producer_id, epoch), T0, transactional_id="") is E.INVALID_REQUEST
    assert desk.add_offsets((producer_id, epoch + 1)) is E.PRODUCER_FENCED
    desk.begun()
    assert desk.add((producer_id, epoch), T0) is E.PRODUCER_FENCED


def test_verification_tells_partitions_in_the_transaction_from_others_and_changes_nothing() -> None:
    desk = Desk()
    producer = desk.begun()
    assert desk.add(producer, T0, verify_only=True) is E.TRANSACTION_ABORTABLE
    assert desk.state() == "Empty"
    desk.add(producer, T0)
    size = len(desk.log)
    assert desk.add(producer, T0, verify_only=True) is NONE
    assert desk.add(producer, T0, T1, verify_only=True) == [NONE, E.TRANSACTION_ABORTABLE]
    assert desk.add((producer[0], 5), T0, verify_only=True) is E.PRODUCER_FENCED
    assert desk.add((5, 0), T0, verify_only=True) is E.INVALID_PRODUCER_ID_MAPPING
    unknown = desk.add(producer, T0, verify_only=True, transactional_id="x")
    assert unknown is E.INVALID_PRODUCER_ID_MAPPING
    assert len(desk.log) == size


def test_verification_waits_neither_for_a_change_nor_finds_anything_while_markers_are_written() -> (
    None
):
    desk = Desk()
    producer = open_transaction(desk)
    desk.holds_writes = desk.holds_markers = True
    desk.end(producer)
    assert desk.add(producer, T0, verify_only=True) is NONE
    desk.commit_held()
    assert desk.add(producer, T0, verify_only=True) is E.CONCURRENT_TRANSACTIONS


def test_brokers_ask_for_many_transactions_at_once_and_are_answered_when_all_are_known() -> None:
    desk = Desk()
    one = desk.begun()
    two = desk.begun(transactional_id="two")
    desk.holds_writes = True
    token = desk.token()
    answer = desk.ask(
        AddPartitions(
            token=token,
            connection=NO_CONNECTION,
            transactions=(
                AddedPartitions(TXN, *one, (T0,)),
                AddedPartitions("two", *two, (T1, T0), verify_only=True),
                AddedPartitions("two", *two, (T1,)),
                AddedPartitions("three", *two, (T1,)),
            ),
        )
    )
    assert answer is None
    desk.commit_held(1)
    assert token not in desk.answers
    desk.commit_held()
    results = desk.answers[token].transactions
    assert [each.transactional_id for each in results] == [TXN, "two", "two", "three"]
    assert [[error for _, error in each.partitions] for each in results] == [
        [NONE],
        [E.TRANSACTION_ABORTABLE, E.TRANSACTION_ABORTABLE],
        [NONE],
        [E.INVALID_PRODUCER_ID_MAPPING],
    ]


def test_a_request_about_no_transaction_is_answered() -> None:
    desk = Desk()
    result = desk.ask(AddPartitions(token=desk.token(), connection=-1, transactions=()))
    assert result.transactions == ()


def test_a_second_request_while_a_record_is_on_its_way_comes_again() -> None:
    desk = Desk()
    producer = desk.begun()
    desk.holds_writes = True
    assert desk.add(producer, T0) is None
    assert desk.end_error(producer) is E.CONCURRENT_TRANSACTIONS
    assert desk.init().error is E.CONCURRENT_TRANSACTIONS
    assert desk.state() == "Empty"
    desk.commit_held()
    assert desk.state() == "Ongoing"


# --- ends, of clients whose epoch stays ---


@pytest.mark.parametrize(
    ("state", "commit", "error"),
    [
        ("Empty", True, E.INVALID_TXN_STATE),
        ("Empty", False, E.INVALID_TXN_STATE),
        ("CompleteCommit", True, NONE),
        ("CompleteCommit", False, E.INVALID_TXN_STATE),
        ("CompleteAbort", True, E.INVALID_TXN_STATE),
        ("CompleteAbort", False, NONE),
        ("PrepareCommit", True, E.CONCURRENT_TRANSACTIONS),
        ("PrepareCommit", False, E.INVALID_TXN_STATE),
        ("PrepareAbort", True, E.INVALID_TXN_STATE),
        ("PrepareAbort", False, E.CONCURRENT_TRANSACTIONS),
    ],
)
def test_an_end_that_is_asked_for_again_is_answered_by_what_is_decided(
    state: str, commit: bool, error: TransactionError
) -> None:
    desk = Desk()
    producer = desk.begun()
    desk.holds_markers = state.startswith("Prepare")
    if state != "Empty":
        desk.add(producer, T0)
        desk.end(producer, commit=state.endswith("Commit"))
    assert desk.state() == state
    size = len(desk.log)
    result = desk.end(producer, commit=commit)
    assert (result.error, result.producer_id, result.producer_epoch) == (error, -1, -1)
    assert (desk.state(), len(desk.log)) == (state, size)


def test_who_ends_must_be_the_present_incarnation() -> None:
    desk = Desk()
    producer_id, epoch = open_transaction(desk)
    for learns in (False, True):
        wrong_id = desk.end_error((producer_id + 1, epoch), learns=learns)
        assert wrong_id is E.INVALID_PRODUCER_ID_MAPPING
        assert desk.end_error((producer_id, epoch + 1), learns=learns) is E.PRODUCER_FENCED
        unknown = desk.end_error((producer_id, epoch), learns=learns, transactional_id="x")
        assert unknown is E.INVALID_PRODUCER_ID_MAPPING
        nobody = desk.end_error((producer_id, epoch), learns=learns, transactional_id="")
        assert nobody is E.INVALID_REQUEST
    assert desk.state() == "Ongoing"


# --- ends, of clients that learn their next epoch (KIP-890 part 2) ---


def test_the_marker_carries_the_bumped_epoch_and_the_client_learns_it() -> None:
    desk = Desk()
    producer = open_transaction(desk)
    assert desk.ended(producer) == (1000, 1)
    assert desk.marked() == [(T0, 1000, 1, True)]
    assert desk.add(producer, T0) is E.PRODUCER_FENCED
    assert desk.add((1000, 1), T0) is NONE


@pytest.mark.parametrize(
    ("state", "commit", "repeated", "error", "bumps"),
    [
        ("Empty", False, False, NONE, True),
        ("Empty", False, True, E.PRODUCER_FENCED, False),
        ("Empty", True, False, E.INVALID_TXN_STATE, False),
        ("Empty", True, True, E.PRODUCER_FENCED, False),
        ("CompleteAbort", False, False, NONE, True),
        ("CompleteAbort", False, True, NONE, False),
        ("CompleteAbort", True, False, E.INVALID_TXN_STATE, False),
        ("CompleteAbort", True, True, E.INVALID_TXN_STATE, False),
        ("CompleteCommit", False, False, NONE, True),
        ("CompleteCommit", False, True, E.INVALID_TXN_STATE, False),
        ("CompleteCommit", True, False, E.INVALID_TXN_STATE, False),
        ("CompleteCommit", True, True, NONE, False),
        ("PrepareAbort", False, True, E.CONCURRENT_TRANSACTIONS, False),
        ("PrepareAbort", False, False, E.CONCURRENT_TRANSACTIONS, False),
        ("PrepareAbort", True, True, E.INVALID_TXN_STATE, False),
        ("PrepareCommit", True, True, E.CONCURRENT_TRANSACTIONS, False),
        ("PrepareCommit", True, False, E.CONCURRENT_TRANSACTIONS, False),
        ("PrepareCommit", False, True, E.INVALID_TXN_STATE, False),
    ],
)
@pytest.mark.parametrize("fails_over", [False, True])
def test_the_epoch_tells_a_repeated_end_from_the_next_one(
    state: str,
    commit: bool,
    repeated: bool,
    error: TransactionError,
    bumps: bool,
    fails_over: bool,
) -> None:
    desk = Desk()
    producer = desk.begun()
    before = producer
    desk.holds_markers = state.startswith("Prepare")
    if state == "Empty":
        producer = desk.begun()
    else:
        desk.add(producer, T0)
        producer = desk.ended(producer, commit=state.endswith("Commit"))
    if fails_over:
        desk = desk.reopened(is_active=False)
        desk.holds_markers = state.startswith("Prepare")
        desk.table.activate(desk.now)
        desk.pump()
    assert desk.state() == state
    result = desk.end(before if repeated else producer, commit=commit, learns=True)
    assert result.error is error
    if error is NONE:
        bumped = (producer[0], producer[1] + bumps)
        assert (result.producer_id, result.producer_epoch) == bumped
    assert desk.describe().producer_epoch == producer[1] + bumps


def test_an_abort_where_nothing_is_open_writes_no_marker() -> None:
    desk = Desk()
    producer = desk.begun()
    assert desk.ended(producer, commit=False) == (1000, 1)
    assert desk.state() == "CompleteAbort"
    assert desk.marked() == []


def test_a_client_whose_epoch_stays_gets_nothing_by_repeating_another_one_s_end() -> None:
    desk = Desk()
    producer = open_transaction(desk)
    desk.ended(producer)
    assert desk.end_error(producer) is E.PRODUCER_FENCED
    other = desk.begun()
    desk.add(other, T0)
    desk.end(other)
    assert desk.end_error((other[0], other[1] - 1), learns=True) is E.PRODUCER_FENCED


# --- failures ---


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (WriteFailure.NOT_LEADER, E.NOT_COORDINATOR),
        (WriteFailure.NOT_ENOUGH_REPLICAS, E.COORDINATOR_NOT_AVAILABLE),
        (WriteFailure.TOO_LARGE, E.UNKNOWN_SERVER_ERROR),
        (WriteFailure.STORAGE_FAILED, E.NOT_COORDINATOR),
    ],
)
def test_what_cannot_be_written_has_not_happened(
    failure: WriteFailure, error: TransactionError
) -> None:
    desk = Desk()
    producer = open_transaction(desk)
    desk.holds_writes = True
    desk.add(producer, T1)
    desk.fail_held(failure)
    assert desk.answers[desk.asked[-1]].transactions[0].partitions[0].error is error
    assert desk.add(producer, T1, verify_only=True) is E.TRANSACTION_ABORTABLE
    desk.end(producer)
    desk.fail_held(failure)
    assert desk.answers[desk.asked[-1]].error is error
    assert desk.state() == "Ongoing"
    desk.holds_writes = False
    assert desk.end_error(producer) is NONE


def test_that_all_markers_are_written_is_tried_until_it_is_written() -> None:
    desk = Desk()
    producer = open_transaction(desk)
    desk.end(producer)
    desk.add(producer, T0)
    desk.holds_markers = True
    desk.end(producer)
    desk.holds_writes = True
    desk.write_marker(desk.markers[0], T0)
    for _ in range(3):
        desk.fail_held()
        assert desk.state() == "PrepareCommit"
        assert desk.end_error(producer) is E.CONCURRENT_TRANSACTIONS
        desk.advance(desk.config.retry_backoff_ms)
    desk.commit_held()
    assert desk.state() == "CompleteCommit"


def test_a_client_is_answered_when_a_record_takes_too_long_and_the_record_counts_nevertheless() -> (
    None
):
    desk = Desk()
    producer = open_transaction(desk)
    desk.holds_writes = True
    assert desk.end(producer) is None
    desk.advance(desk.config.write_timeout_ms)
    assert desk.answers[desk.asked[-1]].error is E.COORDINATOR_NOT_AVAILABLE
    assert desk.end_error(producer) is E.CONCURRENT_TRANSACTIONS
    desk.commit_held()
    assert desk.end_error(producer) is NONE
    assert desk.marked() == [(T0, 1000, 0, True)]


# --- bounds ---


def test_a_transaction_has_at_most_so_many_partitions() -> None:
    desk = Desk(TransactionConfig(partitions_max=2))
    producer = open_transaction(desk, T0, T1)
    assert desk.add(producer, OFFSETS) is E.OVER_BOUND
    assert desk.add(producer, T0) is NONE
    assert desk.end_error(producer) is NONE


def test_a_transaction_that_fits_into_a_record_can_be_ended_in_one() -> None:
    desk = Desk(TransactionConfig(value_bytes_max=300))
    producer = desk.begun()
    for number in range(100):
        if desk.add(producer, TopicPartition("t", number)) is not NONE:
            break
    assert desk.add(producer, TopicPartition("u", 0)) is E.OVER_BOUND
    desk.ended(producer)
    assert max(len(record.value or b"") for record in desk.log) <= 300


def test_so_many_requests_wait_at_most() -> None:
    desk = Desk(TransactionConfig(writes_in_flight_max=2))
    one = desk.begun()
    desk.begun(transactional_id="two")
    three = desk.begun(transactional_id="three")
    desk.add(three, T0, transactional_id="three")
    desk.holds_writes = desk.holds_ids = True
    assert desk.add(one, T0) is None
    assert desk.init(transactional_id="four") is None
    assert desk.init(transactional_id="two").error is E.COORDINATOR_NOT_AVAILABLE
    end = desk.end_error(three, transactional_id="three")
    assert end is E.COORDINATOR_NOT_AVAILABLE
    add = desk.add(three, T1, transactional_id="three")
    assert add is E.COORDINATOR_NOT_AVAILABLE
    assert desk.add(three, T0, transactional_id="three", verify_only=True) is NONE
    assert desk.force_abort("three") is E.COORDINATOR_NOT_AVAILABLE
    desk.commit_held()
    assert desk.add(three, T1, transactional_id="three") is None


def test_a_request_is_about_at_most_so_many_transactions() -> None:
    desk = Desk(TransactionConfig(transactions_per_request_max=1))
    producer = desk.begun()
    added = AddedPartitions(TXN, *producer, (T0,))
    event = AddPartitions(token=desk.token(), connection=-1, transactions=(added, added))
    errors = [each.partitions[0].error for each in desk.ask(event).transactions]
    assert errors == [NONE, E.OVER_BOUND]


def test_times_are_written_in_calendar_time() -> None:
    desk = Desk()
    producer = desk.begun()
    assert desk.describe().start_wall_ms == -1
    desk.advance(7)
    desk.add(producer, T0)
    begun_wall_ms = WALL_MS + desk.now_ms
    desk.advance(7)
    desk.add(producer, T1)
    described = desk.describe()
    assert described.start_wall_ms == begun_wall_ms
    assert (described.timeout_ms, described.partitions) == (60_000, (T0, T1))
