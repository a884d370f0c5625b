"""SyncGroup, Heartbeat and sessions, rule by rule."""

import pytest

from kafkaesque.groups.errors import GroupError
from kafkaesque.tables.log_table import WriteFailure
from tests.unit.groups.desk import Desk


def completing(desk: Desk, size: int = 2) -> list[str]:
    """Bring a group to where its leader is to assign; return the members, the leader first."""
    joined = [desk.join_new() for _ in range(size)]
    while desk.state() == "PreparingRebalance":
        desk.advance(1_000)
    assert desk.state() == "CompletingRebalance"
    return [member_id for member_id, _ in joined]


def test_followers_wait_for_the_leader_and_all_get_their_own() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    waiting = desk.sync(follower, 1)
    assert desk.answer(waiting) is None
    leading = desk.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert desk.answer(waiting).assignment == b"F"
    assert desk.answer(leading).assignment == b"L"
    assert desk.answer(leading).protocol_name == "range"
    assert desk.answer(leading).protocol_type == "consumer"
    assert desk.state() == "Stable"


def test_the_assignment_is_told_only_when_it_is_committed() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    waiting = desk.sync(follower, 1)
    desk.holds_writes = True
    leading = desk.sync(leader, 1, {leader: b"L", follower: b"F"})
    assert len(desk.held) == 1
    assert desk.answer(waiting) is None
    assert desk.answer(leading) is None
    assert desk.state() == "CompletingRebalance"
    desk.commit_held()
    assert desk.answer(waiting).assignment == b"F"
    assert desk.answer(leading).assignment == b"L"


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (WriteFailure.NOT_LEADER, GroupError.NOT_COORDINATOR),
        (WriteFailure.NOT_ENOUGH_REPLICAS, GroupError.COORDINATOR_NOT_AVAILABLE),
        (WriteFailure.TOO_LARGE, GroupError.UNKNOWN_SERVER_ERROR),
        (WriteFailure.STORAGE_FAILED, GroupError.NOT_COORDINATOR),
    ],
)
def test_an_assignment_that_cannot_be_written_begins_a_rebalance(
    failure: WriteFailure, error: GroupError
) -> None:
    desk = Desk()
    leader, follower = completing(desk)
    waiting = desk.sync(follower, 1)
    desk.holds_writes = True
    leading = desk.sync(leader, 1, {leader: b"L", follower: b"F"})
    desk.fail_held(failure)
    assert desk.answer(waiting).error is error
    assert desk.answer(leading).error is error
    assert desk.answer(leading).assignment == b""
    assert desk.state() == "PreparingRebalance"


def test_an_assignment_of_a_generation_that_is_over_is_dropped() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    desk.holds_writes = True
    leading = desk.sync(leader, 1, {leader: b"old"})
    desk.join_new()
    assert desk.answer(leading).error is GroupError.REBALANCE_IN_PROGRESS
    desk.commit_held()
    assert desk.state() == "PreparingRebalance"
    for member_id in (leader, follower):
        desk.join(member_id)
    assert desk.state() == "CompletingRebalance"


def test_a_late_write_of_an_old_generation_does_not_end_the_new_one() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    desk.holds_writes = True
    desk.sync(leader, 1, {leader: b"old", follower: b"old"})
    desk.join_new()
    desk.leave((desk.describe().members[2].member_id, None))
    for member_id in (leader, follower):
        desk.join(member_id)
    waiting = desk.sync(follower, 2)
    desk.commit_held()
    assert desk.answer(waiting) is None
    desk.sync(leader, 2, {follower: b"new"})
    desk.commit_held()
    assert desk.answer(waiting).assignment == b"new"


def test_a_member_that_the_leader_forgot_gets_an_empty_assignment() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    desk.sync(leader, 1, {leader: b"L", "stranger": b"S"})
    result = desk.answer(desk.sync(follower, 1))
    assert (result.error, result.assignment) == (GroupError.NONE, b"")


def test_syncing_again_in_a_stable_group_gives_the_same() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    desk.sync(leader, 1, {follower: b"F"})
    assert [desk.answer(desk.sync(follower, 1)).assignment for _ in range(2)] == [b"F", b"F"]


def test_a_repeated_sync_takes_the_place_of_the_first() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    first = desk.sync(follower, 1)
    second = desk.sync(follower, 1)
    assert desk.answer(first).error is GroupError.REBALANCE_IN_PROGRESS
    desk.sync(leader, 1, {follower: b"F"})
    assert desk.answer(second).assignment == b"F"


def test_a_leader_that_syncs_twice_does_no_harm() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    desk.holds_writes = True
    first = desk.sync(leader, 1, {follower: b"1"})
    second = desk.sync(leader, 1, {follower: b"2"})
    desk.commit_held()
    assert desk.answer(first).error is GroupError.REBALANCE_IN_PROGRESS
    assert desk.answer(second).error is GroupError.NONE
    assert desk.state() == "Stable"
    desk.holds_writes = False
    assert desk.reopened().state() == "Stable"


def test_sync_checks_who_asks() -> None:
    desk = Desk()
    leader, _ = completing(desk)

    def error(*args: object, **options: object) -> object:
        return desk.answer(desk.sync(*args, **options)).error  # type: ignore[arg-type]

    assert error(leader, 1, group_id="") is GroupError.INVALID_GROUP_ID
    assert error(leader, 1, group_id="other") is GroupError.UNKNOWN_MEMBER_ID
    assert error("ghost", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert error(leader, 1, instance_id="ghost") is GroupError.UNKNOWN_MEMBER_ID
    assert error(leader, 0) is GroupError.ILLEGAL_GENERATION
    assert error(leader, 2) is GroupError.ILLEGAL_GENERATION
    inconsistent = GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert error(leader, 1, protocol_type="connect") is inconsistent
    assert error(leader, 1, protocol_name="sticky") is inconsistent
    assert error(leader, 1, protocol_name=None, protocol_type=None) is GroupError.NONE


def test_sync_during_a_rebalance_says_so() -> None:
    desk = Desk()
    leader, _ = desk.stable_group()
    desk.join_new()
    result = desk.answer(desk.sync(leader, 1))
    assert result.error is GroupError.REBALANCE_IN_PROGRESS


def test_who_does_not_sync_in_time_is_kicked() -> None:
    desk = Desk()
    joined = [
        desk.join_new(session_timeout_ms=1_000_000, rebalance_timeout_ms=20_000) for _ in range(2)
    ]
    desk.advance(12_000)
    (leader, first), (follower, _) = joined
    since_ms = desk.now_ms
    desk.sync(leader, 1, {})
    assert desk.state() == "Stable"
    desk.advance(20_000 - (desk.now_ms - since_ms))
    assert desk.answer(first).generation == 1
    assert desk.heartbeat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(follower, 1) is GroupError.UNKNOWN_MEMBER_ID


def test_all_synced_nobody_is_kicked() -> None:
    desk = Desk()
    leader, follower = desk.stable_group(session_timeout_ms=1_000_000)
    desk.advance(900_000)
    assert desk.heartbeat(leader, 1) is desk.heartbeat(follower, 1) is GroupError.NONE


def test_heartbeat_checks_who_asks() -> None:
    desk = Desk()
    leader, _ = desk.stable_group()
    assert desk.heartbeat(leader, 1) is GroupError.NONE
    assert desk.heartbeat(leader, 1, group_id="") is GroupError.INVALID_GROUP_ID
    assert desk.heartbeat(leader, 1, group_id="other") is GroupError.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("ghost", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(leader, 0) is GroupError.ILLEGAL_GENERATION
    assert desk.heartbeat(leader, 2) is GroupError.ILLEGAL_GENERATION


def test_heartbeats_are_fine_while_the_leader_assigns() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    assert desk.heartbeat(leader, 1) is desk.heartbeat(follower, 1) is GroupError.NONE


def test_heartbeats_keep_a_session() -> None:
    desk = Desk()
    leader, _ = desk.stable_group(session_timeout_ms=10_000)
    for _ in range(9):
        desk.advance(9_999)
        error = desk.heartbeat(leader, 1)
        if error is not GroupError.NONE:
            break
    assert error is GroupError.REBALANCE_IN_PROGRESS, "only the silent one is gone"


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    desk = Desk()
    leader, follower = desk.stable_group(session_timeout_ms=10_000)
    desk.advance(6_000)
    assert desk.heartbeat(leader, 1) is GroupError.NONE
    desk.advance(4_000)
    assert desk.heartbeat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS
    rejoin = desk.join(leader)
    assert [each.member_id for each in desk.answer(rejoin).members] == [leader]
    assert desk.heartbeat(follower, 2) is GroupError.UNKNOWN_MEMBER_ID


def test_when_all_fall_silent_the_group_is_empty() -> None:
    desk = Desk()
    desk.stable_group(session_timeout_ms=10_000)
    desk.advance(10_000)
    assert desk.state() == "Empty"
    assert desk.reopened().state() == "Empty"


def test_a_member_that_waits_for_the_leader_does_not_time_out() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    waiting = desk.sync(follower, 1)
    desk.advance(9_000)
    assert desk.heartbeat(leader, 1) is GroupError.NONE
    desk.advance(9_000)
    desk.sync(leader, 1, {follower: b"F"})
    assert desk.answer(waiting).assignment == b"F"
    desk.advance(9_999)
    assert desk.heartbeat(follower, 1) in (GroupError.NONE, GroupError.REBALANCE_IN_PROGRESS)


def test_the_last_one_to_leave_gets_its_answer_when_the_empty_group_is_committed() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    desk.holds_writes = True
    left = desk.leave((member_id, None))
    assert desk.answer(left) is None
    desk.commit_held()
    result = desk.answer(left)
    assert result.error is GroupError.NONE
    assert [each.error for each in result.members] == [GroupError.NONE]
    assert desk.describe().state == "Empty"
    assert desk.describe().protocol_type == "consumer"


def test_leaving_fails_when_it_cannot_be_written() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    desk.holds_writes = True
    left = desk.leave((member_id, None))
    desk.fail_held()
    assert desk.answer(left).error is GroupError.COORDINATOR_NOT_AVAILABLE


def test_others_rebalance_when_one_leaves() -> None:
    desk = Desk()
    leader, follower = desk.stable_group()
    assert desk.answer(desk.leave((leader, None))).error is GroupError.NONE
    assert desk.heartbeat(follower, 1) is GroupError.REBALANCE_IN_PROGRESS
    rejoin = desk.answer(desk.join(follower))
    assert (rejoin.generation, rejoin.leader_id) == (2, follower)


def test_several_leave_at_once_and_each_has_its_own_error() -> None:
    desk = Desk()
    members = desk.stable_group(3)
    result = desk.answer(
        desk.leave(
            (members[0], None), ("ghost", None), (members[1], "x"), ("", None), (members[0], None)
        )
    )
    unknown = GroupError.UNKNOWN_MEMBER_ID
    errors = [each.error for each in result.members]
    assert errors == [GroupError.NONE, unknown, unknown, unknown, unknown]
    assert desk.heartbeat(members[2], 1) is GroupError.REBALANCE_IN_PROGRESS


def test_when_nobody_truly_leaves_nothing_happens() -> None:
    desk = Desk()
    leader, _ = desk.stable_group()
    desk.leave(("ghost", None))
    assert desk.heartbeat(leader, 1) is GroupError.NONE


def test_leaving_a_group_that_does_not_exist() -> None:
    desk = Desk()
    result = desk.answer(desk.leave(("ghost", None), group_id="none"))
    assert result.error is GroupError.NONE
    assert [each.error for each in result.members] == [GroupError.UNKNOWN_MEMBER_ID]
    invalid = desk.answer(desk.leave(("ghost", None), group_id=""))
    assert invalid.error is GroupError.INVALID_GROUP_ID


def test_leaving_answers_what_the_member_has_parked() -> None:
    desk = Desk()
    leader, follower = completing(desk)
    waiting = desk.sync(follower, 1)
    desk.leave((follower, None))
    assert desk.answer(waiting).error is GroupError.UNKNOWN_MEMBER_ID
    newcomer, join = desk.join_new()
    assert desk.answer(join) is None
    desk.leave((newcomer, None))
    assert desk.answer(join).error is GroupError.UNKNOWN_MEMBER_ID
    assert desk.answer(desk.join(leader)).generation == 2


def test_a_group_that_was_left_by_all_can_be_joined_again() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    desk.leave((member_id, None))
    _, join = desk.join_new(protocol_type="connect")
    desk.advance(3_000)
    assert desk.answer(join).generation == 3
    assert desk.describe().protocol_type == "connect"
