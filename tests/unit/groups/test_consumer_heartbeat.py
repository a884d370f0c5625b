"""KIP-848, heartbeats: joining, reconciling, leaving, and who is fenced."""

from typing import Any

import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.config import ConsumerConfig
from kafkaesque.groups.consumer.states import MemberState
from kafkaesque.groups.consumer.topics import NO_PARTITIONS
from kafkaesque.groups.errors import GroupError
from kafkaesque.model.errors import ConfigError
from kafkaesque.tables.log_table import WriteFailure
from tests.unit.groups.consumers import FLIGHTS, NONE, TRAINS, ConsumerDesk, desk_of, parts
from tests.unit.groups.desk import GROUP

INVALID = GroupError.INVALID_REQUEST
JOIN: dict[str, Any] = {
    "rebalance_timeout_ms": 30_000,
    "topic_names": ("flights",),
    "owned": frozenset(),
}

# -- what is a heartbeat at all


@pytest.mark.parametrize(
    ("member_id", "epoch", "options"),
    [
        ("", 0, JOIN),
        ("", 5, {}),
        ("m", 0, JOIN | {"group_id": ""}),
        ("m", 0, JOIN | {"instance_id": ""}),
        ("m", 0, JOIN | {"rack_id": ""}),
        ("m", 0, JOIN | {"rebalance_timeout_ms": None}),
        ("m", 0, JOIN | {"owned": None}),
        ("m", 0, JOIN | {"owned": parts(FLIGHTS, 0)}),
        ("m", 0, JOIN | {"topic_names": None}),
        ("m", -2, {}),
        ("m", -3, {}),
        ("m" * 16_001, 0, JOIN),
        ("m", 0, JOIN | {"topic_expression": "a" * 16_001}),
        ("m", 0, JOIN | {"topic_names": ("a" * 1_048_577,)}),
    ],
    ids=[
        "no member id",
        "no member id later",
        "no group",
        "empty instance",
        "empty rack",
        "no rebalance timeout",
        "no partitions",
        "owns something already",
        "no subscription",
        "leaves for a while without an instance",
        "impossible epoch",
        "long name",
        "long expression",
        "long subscription",
    ],
)
def test_an_invalid_heartbeat_is_refused_and_changes_nothing(
    member_id: str, epoch: int, options: dict[str, Any]
) -> None:
    desk = desk_of(flights=3)
    assert desk.error(member_id, epoch, **options) is INVALID
    assert desk.table.group_count == 0
    assert not desk.log


def test_before_version_1_a_member_without_an_id_is_given_one() -> None:
    desk = desk_of(flights=3)
    result = desk.enter("", requires_member_id=False, new_member_id="drawn")
    assert (result.error, result.member_id) == (NONE, "drawn")
    assert desk.error("", 1, requires_member_id=False) is INVALID


def test_an_assignor_that_the_coordinator_does_not_have_is_refused_by_name() -> None:
    desk = desk_of(flights=3)
    result = desk.enter("m", assignor="lucky")
    assert result.error is GroupError.UNSUPPORTED_ASSIGNOR
    assert result.message is not None
    assert "lucky" in result.message
    assert "uniform, range" in result.message
    assert desk.table.group_count == 0


def test_members_of_a_large_group_that_come_at_once_share_one_target() -> None:
    desk = desk_of(flights=5_000)
    first = desk.enter("m0")
    assert first.assignment is not None
    assert len(first.assignment) == 5_000
    group = desk.group()
    for number in range(1, 100):
        joined = desk.enter(f"m{number}")
        # It is there, and is told of its share later.
        assert (joined.error, joined.member_epoch, joined.assignment) == (NONE, 1, NO_PARTITIONS)
    assert (group.epoch, group.target_epoch) == (100, 1)
    assert desk.listed()[0].state == "Assigning"
    assert desk.beat("m0", 1).assignment is None
    desk.advance(1_000)
    desk.settle(*group.members)
    assert group.target_epoch == 100
    assert {len(desk.assigned(each)) for each in group.members} == {50}


def test_while_a_large_group_waits_for_its_target_members_may_go_and_come_back() -> None:
    desk = desk_of(flights=5_000)
    desk.enter("m0")
    desk.enter("m1")
    desk.beat("m0", -1)
    joined = desk.enter("m0")
    assert (joined.member_epoch, joined.assignment) == (1, NO_PARTITIONS)
    later = desk.next_desk()
    # The next coordinator has not computed one yet, so that it may at once.
    later.topics(flights=5_000)
    later.settle("m0", "m1")
    assert {len(later.assigned(each)) for each in ("m0", "m1")} == {2_500}


def test_a_small_group_has_its_target_at_once() -> None:
    desk = desk_of(flights=100)
    for number in range(50):
        desk.enter(f"m{number}")
        assert desk.group().target_epoch == number + 1


def test_a_group_that_is_full_takes_nobody_new_but_keeps_whom_it_has() -> None:
    desk = ConsumerDesk(GroupConfig(consumer=ConsumerConfig(members_max=1)))
    desk.topics(flights=3)
    assert desk.enter("m1").error is NONE
    assert desk.enter("m2").error is GroupError.GROUP_MAX_SIZE_REACHED
    assert desk.error("m1", 1) is NONE
    assert desk.enter("m1").error is NONE


@pytest.mark.parametrize(
    ("bound", "names", "message"),
    [
        ({"group_subscriptions_bytes_max": 19}, ("flights", "trains"), "19 bytes"),
        ({"different_topics_max": 2}, ("flights", "trains"), "2 topics"),
    ],
    ids=["bytes", "topics"],
)
def test_what_members_subscribe_to_is_bounded_for_the_group_as_a_whole(
    bound: dict[str, int], names: tuple[str, ...], message: str
) -> None:
    topics_max = bound.pop("different_topics_max", 100)
    consumer = ConsumerConfig(subscription_bytes_max=19, different_topics_max=topics_max)
    config = GroupConfig(member_metadata_bytes_max=19, consumer=consumer, **bound)
    desk = ConsumerDesk(config)
    desk.topics(flights=3, trains=3)
    assert desk.enter("m1").error is NONE
    assert desk.enter("m2").error is NONE
    refused = desk.enter("m3", names)
    assert refused.error is GroupError.GROUP_MAX_SIZE_REACHED
    assert message in (refused.message or "")
    epoch = desk.group().epoch
    assert desk.error("m2", desk.group().currents["m2"].epoch, topic_names=names) is not NONE
    assert desk.group().epoch == epoch, "nothing has changed"
    assert desk.beat("m2", desk.group().currents["m2"].epoch, topic_names=()).error is NONE
    desk.beat("m1", -1)
    assert desk.enter("m3", names).error is NONE


def test_expressions_of_a_group_are_bounded() -> None:
    desk = ConsumerDesk(GroupConfig(consumer=ConsumerConfig(different_expressions_max=1)))
    desk.topics(flights=1)
    assert desk.enter("m1", (), topic_expression="f.*").error is NONE
    refused = desk.enter("m2", (), topic_expression="t.*")
    assert refused.error is GroupError.GROUP_MAX_SIZE_REACHED
    assert "1 different expressions" in (refused.message or "")
    assert desk.enter("m2", (), topic_expression="f.*").error is NONE


# -- joining


def test_the_first_member_gets_everything_with_its_first_heartbeat() -> None:
    desk = desk_of(flights=3, trains=2)
    result = desk.enter("m", ["flights"])
    assert result.error is NONE
    assert (result.member_id, result.member_epoch) == ("m", 1)
    assert result.assignment == parts(FLIGHTS, 0, 1, 2)
    assert result.heartbeat_interval_ms == 5_000
    group = desk.group()
    assert (group.epoch, group.target_epoch, group.state.value) == (1, 1, "Stable")


def test_a_member_that_subscribes_to_what_does_not_exist_is_in_the_group_with_nothing() -> None:
    desk = desk_of()
    result = desk.enter("m", ["flights"])
    assert (result.error, result.member_epoch, result.assignment) == (NONE, 1, NO_PARTITIONS)


def test_the_answer_has_an_assignment_only_when_it_changed_or_everything_was_asked() -> None:
    desk = desk_of(flights=2)
    desk.enter("m")
    assert desk.beat("m", 1).assignment is None
    assert desk.beat("m", 1, owned=parts(FLIGHTS, 0, 1)).assignment is None
    full = desk.beat("m", 1, **JOIN | {"owned": parts(FLIGHTS, 0, 1)})
    assert full.assignment == parts(FLIGHTS, 0, 1)
    assert len(desk.log) == len(desk.next_desk().log), "nothing was written for it"


def test_heartbeats_that_change_nothing_write_nothing() -> None:
    desk = desk_of(flights=2)
    desk.enter("m")
    written = len(desk.log)
    for _ in range(5):
        desk.beat("m", 1)
        desk.beat("m", 1, **JOIN | {"owned": parts(FLIGHTS, 0, 1)})
    assert len(desk.log) == written


# -- reconciling


def test_a_partition_is_given_only_after_its_owner_has_said_that_it_gave_it_up() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    late = desk.enter("m2")
    assert (late.error, late.member_epoch, late.assignment) == (NONE, 2, NO_PARTITIONS)
    assert desk.group().currents["m2"].state is MemberState.UNRELEASED_PARTITIONS
    assert desk.group().state.value == "Reconciling"

    told = desk.beat("m1", 1)
    assert told.assignment is not None
    assert len(told.assignment) == 1
    assert told.member_epoch == 1, "it stays in its epoch until it has given up"
    assert desk.group().currents["m1"].state is MemberState.UNREVOKED_PARTITIONS
    # It is still at it: nothing moves.
    assert desk.beat("m1", 1).assignment is None
    assert desk.beat("m1", 1, owned=parts(FLIGHTS, 0, 1)).member_epoch == 1
    assert desk.beat("m2", 2).assignment is None

    done = desk.beat("m1", 1, owned=told.assignment)
    assert done.member_epoch == 2
    got = desk.beat("m2", 2)
    assert got.assignment == parts(FLIGHTS, 0, 1) - told.assignment
    assert desk.group().state.value == "Stable"


def test_a_heartbeat_is_not_taken_for_giving_up_what_its_member_was_just_offered() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    desk.enter("m2")
    # It may be about to take up what it was offered with its first heartbeat.
    told = desk.beat("m1", 1, **JOIN)
    assert told.member_epoch == 1
    assert told.assignment is not None
    assert len(told.assignment) == 1
    assert desk.beat("m2", 2).assignment is None
    assert desk.beat("m1", 1, owned=told.assignment).member_epoch == 2
    assert desk.beat("m2", 2).assignment is not None


def test_a_member_whose_target_does_not_change_learns_only_a_new_epoch() -> None:
    desk = desk_of(flights=4, trains=2)
    desk.enter("m1", ["flights"])
    before = desk.assigned("m1")
    desk.enter("m2", ["trains"])
    result = desk.beat("m1", 1)
    assert (result.member_epoch, result.assignment) == (2, None)
    assert desk.assigned("m1") == before


def test_a_member_that_lost_an_answer_may_come_with_its_previous_epoch() -> None:
    desk = desk_of(flights=2, trains=1)
    desk.enter("m1", ["flights"])
    desk.enter("m2", ["trains"])
    assert desk.beat("m1", 1).member_epoch == 2
    for says in (JOIN, {}):
        again = desk.beat("m1", 1, **says | {"owned": parts(FLIGHTS, 0)})
        assert (again.error, again.member_epoch) == (NONE, 2)
        assert again.assignment == parts(FLIGHTS, 0, 1)
    desk.beat("m2", 2, topic_names=())
    assert desk.beat("m1", 2).member_epoch == 3
    older = desk.beat("m1", 1, **JOIN | {"owned": parts(FLIGHTS, 0)})
    assert older.error is GroupError.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("epoch", "owned"),
    [(3, NO_PARTITIONS), (1, None), (1, parts(TRAINS, 0))],
    ids=["ahead", "behind and says nothing", "behind and owns what it was not given"],
)
def test_a_member_in_an_epoch_that_it_cannot_be_in_is_fenced(epoch: int, owned: Any) -> None:
    desk = desk_of(flights=2, trains=1)
    desk.enter("m1", ["flights"])
    desk.enter("m2", ["trains"])
    desk.beat("m1", 1)
    result = desk.beat("m1", epoch, owned=owned)
    assert result.error is GroupError.FENCED_MEMBER_EPOCH
    assert result.message is not None
    assert "rejoin" in result.message


def test_a_fenced_member_that_joins_again_has_at_once_what_it_had() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    assert desk.error("m1", 7) is GroupError.FENCED_MEMBER_EPOCH
    again = desk.enter("m1")
    assert (again.error, again.member_epoch) == (NONE, 1)
    assert again.assignment == parts(FLIGHTS, 0, 1)


def test_a_member_that_joins_again_has_given_up_what_it_was_to_give_up() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    desk.enter("m2")
    desk.beat("m1", 1)
    again = desk.enter("m1")
    assert again.member_epoch == 2
    assert again.assignment is not None
    assert len(again.assignment) == 1
    assert desk.beat("m2", 2).assignment == parts(FLIGHTS, 0, 1) - again.assignment


@pytest.mark.parametrize("epoch", [1, -1])
def test_who_is_no_member_is_told_so(epoch: int) -> None:
    desk = desk_of(flights=2)
    assert desk.error("m1", epoch) is GroupError.UNKNOWN_MEMBER_ID
    desk.enter("m1")
    assert desk.error("m2", epoch) is GroupError.UNKNOWN_MEMBER_ID


def test_a_change_of_subscription_is_a_new_epoch_and_a_new_assignment() -> None:
    desk = desk_of(flights=1, trains=1)
    desk.enter("m", ["flights"])
    told = desk.beat("m", 1, topic_names=("trains",), owned=parts(FLIGHTS, 0))
    assert (told.member_epoch, told.assignment) == (1, NO_PARTITIONS)
    done = desk.beat("m", 1, owned=NO_PARTITIONS)
    assert (done.member_epoch, done.assignment) == (2, parts(TRAINS, 0))


def test_the_same_subscription_in_another_order_changes_nothing() -> None:
    desk = desk_of(flights=1, trains=1)
    desk.enter("m", ["flights", "trains"])
    written = len(desk.log)
    assert desk.beat("m", 1, topic_names=("trains", "flights", "trains")).member_epoch == 1
    assert len(desk.log) == written


# -- leaving and failing


def test_a_member_that_leaves_is_gone_at_once_and_the_others_share_what_it_had() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    desk.enter("m2")
    desk.settle("m1", "m2")
    left = desk.beat("m1", -1)
    assert (left.error, left.member_epoch, left.assignment) == (NONE, -1, None)
    assert desk.error("m1", 2) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.beat("m2", 2).assignment == parts(FLIGHTS, 0, 1)


def test_a_member_that_is_silent_for_its_session_is_removed() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    desk.advance(44_999)
    assert desk.error("m1", 1) is NONE
    desk.advance(45_000)
    assert desk.error("m1", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.group().is_empty
    assert desk.group().state.value == "Empty"


def test_a_member_that_does_not_give_up_in_its_rebalance_timeout_is_removed() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", rebalance_timeout_ms=10_000)
    desk.enter("m2")
    desk.beat("m1", 1)
    for _ in range(3):
        desk.advance(3_000)
        assert desk.error("m1", 1) is NONE
        desk.beat("m2", 2)
    desk.advance(1_000)
    assert desk.error("m1", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.beat("m2", 2).assignment == parts(FLIGHTS, 0, 1)


def test_a_member_that_gives_up_in_time_is_left_alone() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", rebalance_timeout_ms=10_000)
    desk.enter("m2")
    told = desk.beat("m1", 1)
    desk.advance(9_000)
    desk.beat("m1", 1, owned=told.assignment)
    desk.advance(20_000)
    assert desk.error("m1", 2) is NONE


# -- static members


def test_a_static_member_that_leaves_for_a_while_keeps_its_partitions() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", instance_id="i1")
    desk.enter("m2")
    desk.settle("m1", "m2")
    had = desk.assigned("m1")
    away = desk.beat("m1", -2, instance_id="i1")
    assert (away.error, away.member_epoch) == (NONE, -2)
    epoch = desk.group().epoch
    assert desk.beat("m2", 2).assignment is None
    back = desk.enter("m3", instance_id="i1")
    assert (back.error, back.assignment) == (NONE, had)
    assert desk.group().epoch == epoch, "nobody else is disturbed"
    assert set(desk.group().members) == {"m2", "m3"}
    assert desk.error("m1", 2, instance_id="i1") is GroupError.FENCED_INSTANCE_ID


def test_a_static_member_that_does_not_come_back_is_removed_after_its_session() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", instance_id="i1")
    desk.enter("m2")
    desk.settle("m1", "m2")
    desk.beat("m1", -2, instance_id="i1")
    for _ in range(5):
        desk.advance(9_000)
        desk.beat("m2", desk.group().currents["m2"].epoch)
    assert set(desk.group().members) == {"m2"}
    assert desk.assigned("m2") == parts(FLIGHTS, 0, 1)


def test_an_instance_that_is_in_use_is_not_given_away() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", instance_id="i1")
    assert desk.enter("m2", instance_id="i1").error is GroupError.UNRELEASED_INSTANCE_ID
    assert desk.error("m1", 1, instance_id="i1") is NONE


def test_a_static_member_may_join_again_under_its_own_id() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", instance_id="i1")
    again = desk.enter("m1", instance_id="i1")
    assert (again.error, again.assignment) == (NONE, parts(FLIGHTS, 0, 1))


def test_an_unknown_instance_is_no_member() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    assert desk.error("m1", 1, instance_id="i9") is GroupError.UNKNOWN_MEMBER_ID
    assert desk.error("m1", -2, instance_id="i9") is GroupError.UNKNOWN_MEMBER_ID


def test_a_static_member_can_leave_for_good() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", instance_id="i1")
    assert desk.error("m1", -1, instance_id="i1") is NONE
    assert desk.group().is_empty
    assert desk.enter("m2", instance_id="i1").error is NONE


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", instance_id="i1")
    desk.enter("m2")
    answer = desk.answer(desk.leave(("", "i1"), ("", "i9"), ("m2", None)))
    unknown = GroupError.UNKNOWN_MEMBER_ID
    assert [each.error for each in answer.members] == [NONE, unknown, unknown]
    assert set(desk.group().members) == {"m2"}


# -- topics and assignors


def test_members_get_a_topic_that_comes_and_one_that_grows_with_their_next_heartbeats() -> None:
    desk = desk_of()
    desk.enter("m", ["flights"])
    desk.topics(flights=1)
    assert desk.beat("m", 1).assignment == parts(FLIGHTS, 0)
    desk.topics(flights=3)
    grown = desk.beat("m", 2)
    assert (grown.member_epoch, grown.assignment) == (3, parts(FLIGHTS, 0, 1, 2))


def test_topics_that_nobody_subscribes_to_disturb_nobody() -> None:
    desk = desk_of(flights=1)
    desk.enter("m", ["flights"])
    written = len(desk.log)
    desk.topics(flights=1, trains=4)
    assert desk.beat("m", 1).member_epoch == 1
    assert len(desk.log) == written


def test_a_deleted_topic_is_taken_from_its_owner() -> None:
    desk = desk_of(flights=1, trains=1)
    desk.enter("m", ["flights", "trains"])
    desk.topics(flights=1)
    assert desk.beat("m", 1).assignment == parts(FLIGHTS, 0)
    assert desk.beat("m", 1, owned=parts(FLIGHTS, 0)).member_epoch == 2


def test_the_assignor_that_most_members_ask_for_is_taken() -> None:
    desk = desk_of(flights=4)
    desk.enter("m1", assignor="range")
    assert desk.group().assignor == "range"
    desk.enter("m2", assignor="uniform")
    assert desk.group().assignor == "uniform", "between equals the coordinator's first"
    desk.enter("m3", assignor="range")
    assert desk.group().assignor == "range"


# -- writes


def test_nothing_is_answered_before_it_is_committed() -> None:
    desk = desk_of(flights=1)
    desk.holds_writes = True
    first = desk.send("m", 0, **JOIN)
    again = desk.send("m", 0, **JOIN)
    assert desk.answer(first) is None
    assert desk.answer(again) is None, "it would tell what the first one is waiting for"
    desk.commit_held()
    assert desk.answer(first).assignment == parts(FLIGHTS, 0)
    assert desk.answer(again).assignment == parts(FLIGHTS, 0)


def test_what_a_failed_write_said_is_said_again_by_the_next() -> None:
    desk = desk_of(flights=1)
    desk.holds_writes = True
    token = desk.send("m", 0, **JOIN)
    desk.fail_held(WriteFailure.NOT_ENOUGH_REPLICAS)
    assert desk.answer(token).error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert not desk.log
    desk.holds_writes = False
    assert desk.enter("m").error is NONE
    assert desk.next_desk().assigned("m") == parts(FLIGHTS, 0)


def test_nobody_is_told_what_builds_upon_a_write_that_failed() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1")
    desk.enter("m2")
    told = desk.beat("m1", 1)
    desk.holds_writes = True
    gave_up = desk.send("m1", 1, owned=told.assignment)
    takes = desk.send("m2", 2)
    desk.fail_held()
    desk.commit_held()
    assert desk.answer(gave_up).error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert desk.answer(takes).error is GroupError.COORDINATOR_NOT_AVAILABLE
    # Another coordinator would find it with its old owner.
    assert desk.next_desk().group().currents["m1"].held == parts(FLIGHTS, 0, 1)
    assert desk.next_desk().assigned("m2") == NO_PARTITIONS
    desk.holds_writes = False
    again = desk.beat("m2", 2, **JOIN)
    assert again.assignment == parts(FLIGHTS, 0, 1) - (told.assignment or NO_PARTITIONS)
    assert desk.next_desk().group().currents["m1"].held == told.assignment


def test_a_group_has_one_write_in_flight_and_the_next_one_brings_all_that_came_meanwhile() -> None:
    desk = desk_of(flights=3)
    desk.holds_writes = True
    tokens = [desk.send(member_id, 0, **JOIN) for member_id in ("m1", "m2", "m3")]
    assert len(desk.held) == 1
    desk.commit_held(1)
    assert desk.answer(tokens[0]).error is NONE
    assert desk.answer(tokens[1]) is None
    assert len(desk.held) == 1
    desk.commit_held(1)
    assert all(desk.answer(token).error is NONE for token in tokens)
    assert not desk.held


def test_who_waits_for_a_write_that_fails_is_told_and_so_is_who_waits_behind() -> None:
    desk = desk_of(flights=3)
    desk.holds_writes = True
    tokens = [desk.send(member_id, 0, **JOIN) for member_id in ("m1", "m2")]
    desk.fail_held()
    not_available = GroupError.COORDINATOR_NOT_AVAILABLE
    assert [desk.answer(token).error for token in tokens] == [not_available] * 2
    assert not desk.held
    token = desk.send("m2", 0, **JOIN)
    desk.commit_held()
    assert desk.answer(token).error is NONE
    assert set(desk.next_desk().group().members) == {"m1", "m2"}


def test_a_write_that_takes_too_long_is_answered_and_still_counts_when_it_ends() -> None:
    desk = desk_of(flights=1)
    desk.holds_writes = True
    token = desk.send("m", 0, **JOIN)
    desk.advance(5_000)
    assert desk.answer(token).error is GroupError.COORDINATOR_NOT_AVAILABLE
    # Nobody is made to wait for it any more.
    assert desk.error("m", 0, **JOIN) is GroupError.COORDINATOR_NOT_AVAILABLE
    desk.commit_held()
    assert desk.assigned("m") == parts(FLIGHTS, 0)
    assert desk.next_desk().assigned("m") == parts(FLIGHTS, 0)


def test_a_member_removed_by_time_during_a_write_is_written_off_after_it() -> None:
    desk = desk_of(flights=1)
    desk.enter("m1")
    desk.advance(44_000)
    desk.holds_writes = True
    desk.send("m2", 0, **JOIN)
    desk.advance(2_000)
    assert set(desk.group().members) == {"m2"}
    assert len(desk.held) == 1
    desk.commit_held()
    assert set(desk.next_desk().group().members) == {"m2"}


def test_a_large_change_is_cut_into_writes_of_bounded_size() -> None:
    config = GroupConfig(records_per_write_max=3)
    desk = ConsumerDesk(config)
    desk.topics(flights=6)
    desk.holds_writes = True
    token = desk.send("m", 0, **JOIN)
    assert len(desk.held) > 1
    assert all(len(each.records) <= 3 for each in desk.held)
    desk.commit_held(1)
    assert desk.answer(token) is None
    desk.commit_held()
    assert desk.answer(token).error is NONE


def test_a_coordinator_with_too_many_writes_says_so_and_keeps_the_session() -> None:
    desk = ConsumerDesk(GroupConfig(writes_in_flight_max=1))
    desk.topics(flights=1)
    desk.enter("m")
    desk.holds_writes = True
    desk.commit({("flights", 0): 1}, group_id="another")
    desk.advance(40_000)
    assert desk.error("m", 1) is GroupError.COORDINATOR_NOT_AVAILABLE
    assert desk.error("m", -1) is GroupError.COORDINATOR_NOT_AVAILABLE
    desk.advance(40_000)
    desk.commit_held()
    assert desk.error("m", 1) is NONE


# -- options


@pytest.mark.parametrize(
    "options",
    [
        {"heartbeat_interval_ms": 45_000},
        {"members_max": 0},
        {"assignors": ()},
        {"assignors": ("lucky",)},
    ],
    ids=["interval", "zero", "no assignor", "unknown assignor"],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        ConsumerConfig(**options)


def test_a_group_is_described_with_its_epochs_members_and_targets() -> None:
    desk = desk_of(flights=2)
    desk.enter("m1", rack_id="r1", client_id="c", client_host="/h", instance_id="i1")
    desk.enter("m2")
    found = desk.described()
    assert (found.error, found.state, found.assignor) == (NONE, "Reconciling", "uniform")
    assert (found.group_epoch, found.target_epoch) == (2, 2)
    first, second = found.members
    assert (first.member_id, first.instance_id, first.rack_id) == ("m1", "i1", "r1")
    assert (first.client_id, first.client_host, first.member_epoch) == ("c", "/h", 1)
    assert first.topic_names == ("flights",)
    ((_, name, held),) = first.assignment
    assert (name, held) == ("flights", (0, 1))
    ((_, _, wanted),) = first.target_assignment
    assert len(wanted) == 1
    assert second.assignment == ()


def test_what_is_not_a_group_of_this_kind_is_not_described() -> None:
    desk = desk_of(flights=2)
    desk.commit({("flights", 0): 1}, group_id="classic")
    assert desk.described("classic").error is GroupError.GROUP_ID_NOT_FOUND
    message = desk.described("classic").message
    assert message is not None
    assert "is not a consumer group" in message
    assert desk.described("nobody").error is GroupError.GROUP_ID_NOT_FOUND
    desk.enter("m")
    assert desk.describe(GROUP).error is GroupError.GROUP_ID_NOT_FOUND
