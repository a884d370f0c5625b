"""Static membership (KIP-345), rule by rule."""

from typing import Any

import pytest

from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import JoinProtocol
from tests.unit.groups.desk import RANGE, Desk, subscription

FENCED = GroupError.FENCED_INSTANCE_ID


def static_group(desk: Desk, *instances: str) -> list[str]:
    """Bring static members into a stable group; return their ids, the leader first."""
    tokens = [desk.join(instance_id=instance) for instance in instances]
    desk.advance(12_000)
    desk.assign(tokens)
    return [desk.answer(token).member_id for token in tokens]


def test_a_restarted_follower_takes_its_place_without_a_rebalance() -> None:
    desk = Desk()
    leader, follower = static_group(desk, "one", "two")
    result = desk.answer(desk.join(instance_id="two"))
    assert (result.error, result.generation) == (GroupError.NONE, 1)
    assert result.member_id not in (leader, follower)
    assert result.leader_id == leader
    assert result.members == ()
    assert not result.skip_assignment
    assert desk.state() == "Stable"
    assert desk.heartbeat(leader, 1, instance_id="one") is GroupError.NONE
    synced = desk.answer(desk.sync(result.member_id, 1, instance_id="two"))
    assert synced.assignment == b"for " + follower.encode()


def test_a_restarted_member_has_the_place_that_ties_of_votes_are_decided_by() -> None:
    desk = Desk()
    either = [JoinProtocol(name, subscription("flights")) for name in ("range", "sticky")]
    orders = {"one": tuple(either), "two": tuple(reversed(either))}
    tokens = [desk.join(instance_id=each, protocols=orders[each]) for each in orders]
    desk.advance(12_000)
    desk.assign(tokens)
    result = desk.answer(desk.join(instance_id="one", protocols=orders["one"]))
    assert (result.generation, result.protocol_name) == (1, "range")
    assert desk.state() == "Stable"


def test_a_restarted_leader_is_told_to_assign_nothing() -> None:
    desk = Desk()
    leader, follower = static_group(desk, "one", "two")
    result = desk.answer(desk.join(instance_id="one"))
    assert result.leader_id == result.member_id != leader
    assert result.skip_assignment
    assert [each.member_id for each in result.members] == [result.member_id, follower]
    assert desk.state() == "Stable"


def test_a_restarted_leader_that_does_not_know_skipping_is_not_called_leader() -> None:
    desk = Desk()
    leader, _ = static_group(desk, "one", "two")
    result = desk.answer(desk.join(instance_id="one", supports_skipping_assignment=False))
    assert result.leader_id == leader != result.member_id
    assert result.members == ()
    assert not result.skip_assignment


def test_the_replaced_instance_is_fenced_everywhere() -> None:
    desk = Desk()
    _, old = static_group(desk, "one", "two")
    desk.join(instance_id="two")
    assert desk.heartbeat(old, 1, instance_id="two") is FENCED
    assert desk.heartbeat(old, 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.answer(desk.sync(old, 1, instance_id="two")).error is FENCED
    assert desk.answer(desk.join(old, instance_id="two")).error is FENCED
    errors = desk.commit_errors({("t", 0): 5}, member_id=old, generation=1, instance_id="two")
    assert errors == [FENCED]
    left = desk.answer(desk.leave((old, "two")))
    assert [each.error for each in left.members] == [FENCED]


def test_what_the_replaced_instance_has_parked_is_fenced() -> None:
    desk = Desk()
    tokens = [desk.join(instance_id=instance) for instance in ("one", "two")]
    again = desk.join(instance_id="two")
    assert desk.answer(tokens[1]).error is FENCED
    desk.advance(12_000)
    follower = desk.answer(again).member_id
    waiting = desk.sync(follower, 1, instance_id="two")
    desk.join(instance_id="two")
    assert desk.answer(waiting).error is FENCED


def test_a_restart_while_the_leader_assigns_begins_anew() -> None:
    desk = Desk()
    tokens = [desk.join(instance_id=instance) for instance in ("one", "two")]
    desk.advance(12_000)
    assert desk.state() == "CompletingRebalance"
    desk.join(instance_id="two")
    assert desk.state() == "PreparingRebalance"
    leader = desk.answer(tokens[0]).member_id
    assert desk.answer(desk.join(leader, instance_id="one")).generation == 2


def test_a_restart_with_another_protocol_rebalances() -> None:
    desk = Desk()
    a, b = JoinProtocol("a", b"1"), JoinProtocol("b", b"1")
    tokens = [
        desk.join(instance_id="one", protocols=(a, b)),
        desk.join(instance_id="two", protocols=(a, b)),
    ]
    desk.advance(12_000)
    desk.assign(tokens)
    desk.join(instance_id="two", protocols=(b,))
    assert desk.state() == "PreparingRebalance"


def test_the_new_member_id_is_stored_before_the_answer() -> None:
    desk = Desk()
    leader, _ = static_group(desk, "one", "two")
    desk.holds_writes = True
    token = desk.join(instance_id="two")
    assert desk.answer(token) is None
    desk.commit_held()
    desk.holds_writes = False
    member_id = desk.answer(token).member_id
    again = desk.reopened()
    assert again.heartbeat(member_id, 1, instance_id="two") is GroupError.NONE
    assert again.heartbeat(leader, 1, instance_id="one") is GroupError.NONE


@pytest.mark.parametrize("instance", ["one", "two"])
def test_when_the_new_member_id_cannot_be_stored_the_old_one_is_back(instance: str) -> None:
    desk = Desk()
    members = dict(zip(("one", "two"), static_group(desk, "one", "two"), strict=True))
    desk.holds_writes = True
    other = (JoinProtocol("range", subscription("changed")),)
    token = desk.join(instance_id=instance, protocols=other, session_timeout_ms=20_000)
    desk.fail_held()
    assert desk.answer(token).error is GroupError.COORDINATOR_NOT_AVAILABLE
    for each, member_id in members.items():
        assert desk.heartbeat(member_id, 1, instance_id=each) is GroupError.NONE
    described = {each.instance_id: each for each in desk.describe().members}
    assert described[instance].metadata == RANGE[0].metadata
    desk.advance(10_000)
    assert desk.state() == "Empty", "the old session time-outs are back as well"


def test_a_rebalance_meanwhile_takes_the_restarted_member_along() -> None:
    desk = Desk()
    leader, _ = static_group(desk, "one", "two")
    desk.holds_writes = True
    restarted = desk.join(instance_id="two")
    rejoin = desk.join(leader, instance_id="one")
    assert desk.answer(restarted).generation == desk.answer(rejoin).generation == 2
    desk.commit_held()
    assert desk.state() == "CompletingRebalance"


def test_a_rebalance_meanwhile_answers_when_all_have_joined() -> None:
    desk = Desk()
    leader, _, last = static_group(desk, "one", "two", "three")
    desk.holds_writes = True
    restarted = desk.join(instance_id="two")
    rejoin = desk.join(leader, instance_id="one")
    desk.commit_held()
    assert desk.answer(restarted) is desk.answer(rejoin) is None
    desk.join(last, instance_id="three")
    assert desk.answer(restarted).generation == desk.answer(rejoin).generation == 2


def test_when_that_write_fails_meanwhile_the_rebalance_goes_on() -> None:
    desk = Desk()
    leader, _, last = static_group(desk, "one", "two", "three")
    desk.holds_writes = True
    restarted = desk.join(instance_id="two")
    desk.join(leader, instance_id="one")
    desk.fail_held()
    desk.join(last, instance_id="three")
    assert desk.answer(restarted).error is GroupError.NONE
    assert desk.answer(restarted).generation == 2


def test_a_restarted_member_has_the_time_to_sync_that_was_left() -> None:
    desk = Desk()
    options: dict[str, Any] = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 20_000}
    tokens = [desk.join(instance_id=each, **options) for each in ("one", "two")]
    desk.advance(6_000)
    leader = desk.answer(tokens[0]).member_id
    desk.sync(leader, 1, {}, instance_id="one")
    desk.advance(10_000)
    restarted = desk.answer(desk.join(instance_id="two", **options)).member_id
    desk.advance(9_999)
    assert desk.heartbeat(restarted, 1, instance_id="two") is GroupError.NONE
    desk.advance(1)
    assert desk.heartbeat(restarted, 1, instance_id="two") is GroupError.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(leader, 1, instance_id="one") is GroupError.REBALANCE_IN_PROGRESS


def test_a_static_member_that_is_silent_too_long_is_removed() -> None:
    desk = Desk()
    leader, _ = static_group(desk, "one", "two")
    for _ in range(3):
        desk.advance(4_000)
        desk.heartbeat(leader, 1, instance_id="one")
    assert desk.state() == "PreparingRebalance"
    result = desk.answer(desk.join(leader, instance_id="one"))
    assert [each.instance_id for each in result.members] == ["one"]


def test_an_absent_static_member_stays_in_the_next_generation() -> None:
    desk = Desk()
    options: dict[str, Any] = {"session_timeout_ms": 1_000_000, "rebalance_timeout_ms": 20_000}
    tokens = [desk.join(instance_id=each, **options) for each in ("one", "two")]
    desk.advance(12_000)
    desk.assign(tokens)
    leader = desk.answer(tokens[0]).member_id
    rejoin = desk.join(leader, instance_id="one", **options)
    desk.advance(20_000)
    assert [each.instance_id for each in desk.answer(rejoin).members] == ["one", "two"]


def test_a_rebalance_does_not_end_with_absent_members_only() -> None:
    desk = Desk()
    options: dict[str, Any] = {"session_timeout_ms": 100_000, "rebalance_timeout_ms": 20_000}
    tokens = [desk.join(instance_id=each, **options) for each in ("one", "two")]
    desk.advance(12_000)
    desk.assign(tokens)
    newcomer_id, newcomer = desk.join_new(**options)
    desk.leave((newcomer_id, None))
    assert desk.answer(newcomer).error is GroupError.UNKNOWN_MEMBER_ID
    desk.advance(20_000)
    assert desk.state() == "PreparingRebalance"
    desk.advance(80_000)
    assert desk.state() == "Empty", "their sessions are over"


def test_an_administrator_removes_a_static_member_by_its_instance() -> None:
    desk = Desk()
    leader, _ = static_group(desk, "one", "two")
    result = desk.answer(desk.leave(("", "two"), ("", "three")))
    errors = [each.error for each in result.members]
    assert errors == [GroupError.NONE, GroupError.UNKNOWN_MEMBER_ID]
    assert desk.heartbeat(leader, 1, instance_id="one") is GroupError.REBALANCE_IN_PROGRESS
    assert [each.instance_id for each in desk.describe().members] == ["one"]


def test_an_instance_that_left_comes_back_as_a_new_member() -> None:
    desk = Desk()
    leader, _ = static_group(desk, "one", "two")
    desk.leave(("", "two"))
    back = desk.join(instance_id="two")
    assert desk.answer(back) is None
    assert desk.answer(desk.join(leader, instance_id="one")).generation == 2
    assert desk.answer(back).generation == 2


def test_a_pending_id_cannot_be_taken_as_an_instance() -> None:
    desk = Desk()
    pending = desk.answer(desk.join()).member_id
    result = desk.answer(desk.join(pending, instance_id="one"))
    assert result.error is GroupError.UNKNOWN_MEMBER_ID
