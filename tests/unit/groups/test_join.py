"""JoinGroup, rule by rule as Apache Kafka's classic protocol has it."""

import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.config import ConsumerConfig
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.group import TRANSITIONS, Group, GroupState
from kafkaesque.model.errors import InvariantBroken
from tests.unit.groups.desk import GROUP, RANGE, Desk, subscription

A = JoinProtocol("a", subscription("flights"))
B = JoinProtocol("b", subscription("flights"))
C = JoinProtocol("c", subscription("flights"))


def test_a_transition_that_is_not_in_the_table_raises() -> None:
    for before in GroupState:
        for after in GroupState:
            group = Group(GROUP, 0)
            group.state = before
            if after in TRANSITIONS[before]:
                group.transition(after, 7)
                assert (group.state, group.previous_state) == (after, before)
                assert group.state_since_wall_ms == 7
            else:
                with pytest.raises(InvariantBroken):
                    group.transition(after, 7)


def test_a_dynamic_member_is_given_an_id_first_from_version_4_on() -> None:
    desk = Desk()
    first = desk.answer(desk.join())
    assert first.error is GroupError.MEMBER_ID_REQUIRED
    assert first.member_id == "client-0001"
    assert desk.state() == "Empty"
    assert desk.answer(desk.join(first.member_id)) is None
    assert desk.state() == "PreparingRebalance"


def test_an_old_client_joins_at_once() -> None:
    desk = Desk()
    assert desk.answer(desk.join(requires_known_member_id=False)) is None
    assert desk.state() == "PreparingRebalance"


def test_a_static_member_joins_at_once() -> None:
    desk = Desk()
    token = desk.join(instance_id="one")
    desk.advance(3_000)
    assert desk.answer(token).member_id == "one-0001"


def test_a_pending_member_is_forgotten_after_its_session_timeout() -> None:
    desk = Desk()
    member_id = desk.answer(desk.join(session_timeout_ms=10_000)).member_id
    desk.advance(10_000)
    late = desk.answer(desk.join(member_id))
    assert late.error is GroupError.UNKNOWN_MEMBER_ID


def test_a_pending_member_is_waited_for() -> None:
    desk = Desk()
    (leader,) = desk.stable_group(1)
    pending = desk.answer(desk.join()).member_id
    _, second = desk.join_new()
    rejoin = desk.join(leader)
    assert desk.answer(rejoin) is None, "somebody was promised a place"
    third = desk.join(pending)
    for token in (rejoin, second, third):
        assert desk.answer(token).generation == 2


def test_leaving_while_pending_ends_the_waiting() -> None:
    desk = Desk()
    (leader,) = desk.stable_group(1)
    pending = desk.answer(desk.join()).member_id
    _, second = desk.join_new()
    rejoin = desk.join(leader)
    left = desk.answer(desk.leave((pending, None)))
    assert left.members[0].error is GroupError.NONE
    assert desk.answer(rejoin).generation == desk.answer(second).generation == 2


def test_an_unknown_member_cannot_join_a_group_that_does_not_exist() -> None:
    desk = Desk()
    assert desk.answer(desk.join("ghost")).error is GroupError.UNKNOWN_MEMBER_ID
    assert desk.state() == "Dead"


def test_an_unknown_member_cannot_join_a_group() -> None:
    desk = Desk()
    desk.stable_group(1)
    result = desk.answer(desk.join("ghost"))
    assert result.error is GroupError.UNKNOWN_MEMBER_ID
    assert result.member_id == "ghost"


def test_an_empty_group_id_is_refused() -> None:
    desk = Desk()
    assert desk.answer(desk.join(group_id="")).error is GroupError.INVALID_GROUP_ID


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001, 0, -1])
def test_session_timeouts_have_bounds(timeout_ms: int) -> None:
    desk = Desk()
    token = desk.join(session_timeout_ms=timeout_ms)
    assert desk.answer(token).error is GroupError.INVALID_SESSION_TIMEOUT


@pytest.mark.parametrize("timeout_ms", [6_000, 1_800_000])
def test_session_timeouts_at_their_bounds_are_taken(timeout_ms: int) -> None:
    desk = Desk()
    token = desk.join(session_timeout_ms=timeout_ms)
    assert desk.answer(token).error is GroupError.MEMBER_ID_REQUIRED


def test_a_group_begins_with_a_protocol_type_and_a_protocol() -> None:
    desk = Desk()
    inconsistent = GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert desk.answer(desk.join(protocols=())).error is inconsistent
    assert desk.answer(desk.join(protocol_type="")).error is inconsistent
    assert desk.table.group_count == 0


def test_another_protocol_type_is_refused() -> None:
    desk = Desk()
    desk.stable_group(1)
    result = desk.answer(desk.join(protocol_type="connect"))
    assert result.error is GroupError.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_without_a_common_protocol_is_refused() -> None:
    desk = Desk()
    desk.stable_group(1, protocols=(A, B))
    inconsistent = GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert desk.answer(desk.join(protocols=(C,))).error is inconsistent
    accepted = desk.answer(desk.join(protocols=(C, B)))
    assert accepted.error is GroupError.MEMBER_ID_REQUIRED


def test_the_protocol_with_most_votes_that_all_support_wins() -> None:
    desk = Desk()
    tokens = [desk.join_new(protocols=protocols)[1] for protocols in [(A, B, C), (B, A), (C, B, A)]]
    desk.advance(12_000)
    assert [desk.answer(token).protocol_name for token in tokens] == ["b"] * 3

    desk = Desk()
    tokens = [desk.join_new(protocols=each)[1] for each in [(A, B), (B, A)]]
    desk.advance(12_000)
    assert [desk.answer(token).protocol_name for token in tokens] == ["a"] * 2

    desk = Desk()
    tokens = [desk.join_new(protocols=each)[1] for each in [(A, B), (B, A), (B, A)]]
    desk.advance(12_000)
    assert [desk.answer(token).protocol_name for token in tokens] == ["b"] * 3

    desk = Desk()
    tokens = [desk.join_new(protocols=each)[1] for each in [(A, B), (A, B), (B,)]]
    desk.advance(12_000)
    assert [desk.answer(token).protocol_name for token in tokens] == ["b"] * 3


def test_only_the_leader_gets_the_members_with_their_metadata() -> None:
    desk = Desk()
    mine = JoinProtocol("range", subscription("mine"))
    first_id, first = desk.join_new()
    second_id, second = desk.join_new(protocols=(mine,))
    desk.advance(12_000)
    leading, following = desk.answer(first), desk.answer(second)
    assert leading.leader_id == following.leader_id == first_id
    assert following.members == ()
    assert [(each.member_id, each.metadata) for each in leading.members] == [
        (first_id, RANGE[0].metadata),
        (second_id, mine.metadata),
    ]
    assert not leading.skip_assignment
    assert leading.protocol_type == "consumer"


def test_the_first_members_gather_for_the_initial_delay() -> None:
    desk = Desk()
    _, token = desk.join_new()
    desk.advance(2_999)
    assert desk.answer(token) is None
    desk.advance(1)
    assert desk.answer(token).generation == 1


def test_each_newcomer_extends_the_initial_delay_up_to_the_rebalance_timeout() -> None:
    desk = Desk()
    tokens = [desk.join_new(rebalance_timeout_ms=10_000)[1]]
    while desk.answer(tokens[0]) is None:
        desk.advance(1_000)
        if desk.answer(tokens[0]) is None:
            tokens.append(desk.join_new(rebalance_timeout_ms=10_000)[1])
    assert desk.now_ms == 5_000 + 10_000
    assert {desk.answer(token).generation for token in tokens} == {1}


def test_without_an_initial_delay_the_first_member_hardly_waits() -> None:
    desk = Desk(GroupConfig(initial_rebalance_delay_ms=0))
    _, token = desk.join_new()
    desk.advance(1)
    assert desk.answer(token).generation == 1


def test_a_rebalance_ends_when_all_have_joined() -> None:
    desk = Desk()
    leader, follower = desk.stable_group()
    newcomer, third = desk.join_new()
    assert desk.state() == "PreparingRebalance"
    assert desk.heartbeat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS
    first, second = desk.join(leader), desk.join(follower)
    assert [desk.answer(each).generation for each in (first, second, third)] == [2, 2, 2]
    members = [each.member_id for each in desk.answer(first).members]
    assert members == [leader, follower, newcomer]


def test_who_does_not_rejoin_in_time_is_kicked() -> None:
    desk = Desk()
    leader, follower = desk.stable_group(rebalance_timeout_ms=20_000, session_timeout_ms=1_000_000)
    rejoin = desk.join(leader, rebalance_timeout_ms=30_000, session_timeout_ms=1_000_000)
    desk.advance(29_999)
    assert desk.answer(rejoin) is None
    desk.advance(1)
    assert [each.member_id for each in desk.answer(rejoin).members] == [leader]
    assert desk.heartbeat(follower, 2) is GroupError.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_rejoin_is_replaced() -> None:
    desk = Desk()
    _, follower = desk.stable_group(session_timeout_ms=1_000_000)
    other = (JoinProtocol("range", subscription("other")),)
    rejoin = desk.join(follower, protocols=other, session_timeout_ms=1_000_000)
    desk.advance(60_000)
    assert desk.answer(rejoin).leader_id == follower
    assert [each.member_id for each in desk.answer(rejoin).members] == [follower]


def test_a_follower_that_rejoins_unchanged_does_not_cause_a_rebalance() -> None:
    desk = Desk()
    _, follower = desk.stable_group()
    result = desk.answer(desk.join(follower))
    assert (result.error, result.generation) == (GroupError.NONE, 1)
    assert result.members == ()
    assert desk.state() == "Stable"


def test_a_follower_that_changed_causes_a_rebalance() -> None:
    desk = Desk()
    _, follower = desk.stable_group()
    desk.join(follower, protocols=(JoinProtocol("range", subscription("else")),))
    assert desk.state() == "PreparingRebalance"


def test_a_leader_that_rejoins_unchanged_causes_a_rebalance() -> None:
    desk = Desk()
    leader, _ = desk.stable_group()
    desk.join(leader)
    assert desk.state() == "PreparingRebalance"


def test_joining_again_unchanged_before_the_assignment_gets_the_same_generation() -> None:
    desk = Desk()
    leader, first = desk.join_new()
    _, second = desk.join_new()
    desk.advance(12_000)
    assert desk.state() == "CompletingRebalance"
    again = desk.answer(desk.join(leader))
    assert again.generation == 1
    assert again.members == desk.answer(first).members
    follower = desk.answer(second).member_id
    assert desk.answer(desk.join(follower)).members == ()
    assert desk.state() == "CompletingRebalance"


def test_joining_again_changed_before_the_assignment_begins_anew() -> None:
    desk = Desk()
    _, first = desk.join_new()
    _, second = desk.join_new()
    desk.advance(12_000)
    follower = desk.answer(second).member_id
    waiting = desk.sync(follower, 1)
    desk.join(desk.answer(first).member_id, protocols=(JoinProtocol("range", b""),))
    assert desk.answer(waiting).error is GroupError.REBALANCE_IN_PROGRESS
    assert desk.state() == "PreparingRebalance"


def test_a_repeated_join_takes_the_place_of_the_first() -> None:
    desk = Desk()
    member_id, first = desk.join_new()
    second = desk.join(member_id)
    assert desk.answer(first).error is GroupError.REBALANCE_IN_PROGRESS
    desk.advance(12_000)
    assert desk.answer(second).generation == 1


def test_a_new_member_that_gave_up_is_forgotten_even_while_it_waits() -> None:
    desk = Desk(GroupConfig(new_member_join_timeout_ms=20_000))
    leader, _ = desk.stable_group(session_timeout_ms=1_000_000, rebalance_timeout_ms=100_000)
    _, newcomer = desk.join_new(rebalance_timeout_ms=100_000)
    desk.advance(20_000)
    assert desk.answer(newcomer).error is GroupError.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS


def test_a_known_member_that_waits_does_not_time_out() -> None:
    desk = Desk()
    leader, follower = desk.stable_group(session_timeout_ms=10_000, rebalance_timeout_ms=60_000)
    rejoin = desk.join(leader, session_timeout_ms=10_000)
    for _ in range(6):
        desk.advance(9_000)
        assert desk.heartbeat(follower, 1) is GroupError.REBALANCE_IN_PROGRESS
    desk.join(follower, session_timeout_ms=10_000)
    assert desk.answer(rejoin).generation == 2


def test_a_full_group_turns_newcomers_away() -> None:
    desk = Desk(GroupConfig(group_members_max=2))
    desk.stable_group(2)
    result = desk.answer(desk.join())
    assert result.error is GroupError.GROUP_MAX_SIZE_REACHED
    assert result.member_id == ""
    assert desk.state() == "Stable"


def test_the_last_to_rejoin_is_turned_away_when_the_bound_was_lowered() -> None:
    desk = Desk()
    members = desk.stable_group(3)
    smaller = desk.reopened(GroupConfig(group_members_max=2))
    assert smaller.state() == "PreparingRebalance"
    tokens = [smaller.join(member_id) for member_id in members]
    results = [smaller.answer(token) for token in tokens]
    assert [result.error for result in results] == [
        GroupError.NONE,
        GroupError.NONE,
        GroupError.GROUP_MAX_SIZE_REACHED,
    ]
    assert results[0].generation == 2


def test_what_members_offer_is_bounded_for_the_group_as_a_whole() -> None:
    def offer(size: int) -> tuple[JoinProtocol, ...]:
        return (JoinProtocol("p", bytes(size - 1)),)

    config = GroupConfig(
        member_metadata_bytes_max=100,
        group_subscriptions_bytes_max=250,
        consumer=ConsumerConfig(subscription_bytes_max=100),
    )
    desk = Desk(config)
    full = GroupError.GROUP_MAX_SIZE_REACHED
    one, two = desk.stable_group(2, protocols=offer(100))
    assert desk.answer(desk.join(protocols=offer(51))).error is full
    assert desk.state() == "Stable", "nobody else is disturbed"
    three, _ = desk.join_new(protocols=offer(50))
    # Who has its place keeps it, unless it wants more.
    assert desk.answer(desk.join(one, protocols=offer(100))) is None
    assert desk.answer(desk.join(two, protocols=offer(99))).error is GroupError.NONE
    assert desk.answer(desk.join(three, protocols=offer(52))).error is full
    (group,) = desk.table._context.groups.values()
    assert set(group.members) == {one, two}
    assert group.offered_bytes == 199


def test_groups_pending_ids_names_and_metadata_are_bounded() -> None:
    config = GroupConfig(
        groups_max=2,
        pending_members_max=1,
        member_protocols_max=2,
        member_metadata_bytes_max=100,
        name_bytes_max=20,
    )
    desk = Desk(config)
    over = GroupError.UNKNOWN_SERVER_ERROR
    assert desk.answer(desk.join()).error is GroupError.MEMBER_ID_REQUIRED
    assert desk.answer(desk.join()).error is GroupError.GROUP_MAX_SIZE_REACHED
    assert desk.answer(desk.join(group_id="x" * 21)).error is GroupError.INVALID_GROUP_ID
    assert desk.answer(desk.join(client_id="x" * 21)).error is over
    assert desk.answer(desk.join(instance_id="x" * 21)).error is over
    assert desk.answer(desk.join(protocols=(A, B, C))).error is over
    assert desk.answer(desk.join(protocols=(JoinProtocol("a", bytes(100)),))).error is over
    desk.join(group_id="second")
    assert desk.table.is_full
    full = GroupError.OVER_BOUND
    assert desk.answer(desk.join(group_id="third")).error is full
    assert desk.commit_errors({("t", 0): 1}, group_id="third") == [full]


def test_a_suffix_that_is_not_unique_is_our_own_mistake() -> None:
    desk = Desk()
    event = desk.join_event()
    desk.ask(event)
    with pytest.raises(InvariantBroken):
        desk.table.step(event, desk.now)


def test_the_first_of_protocols_with_the_same_name_counts() -> None:
    desk = Desk()
    _, token = desk.join_new(protocols=(A, JoinProtocol("a", b"again")))
    desk.advance(12_000)
    assert desk.answer(token).members[0].metadata == A.metadata


def test_a_member_without_a_rebalance_timeout_has_its_session_timeout() -> None:
    desk = Desk()
    (leader,) = desk.stable_group(1, rebalance_timeout_ms=-1, session_timeout_ms=20_000)
    _, newcomer = desk.join_new(rebalance_timeout_ms=-1, session_timeout_ms=10_000)
    desk.advance(10_000)
    assert desk.heartbeat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS
    desk.advance(9_999)
    assert desk.answer(newcomer) is None
    desk.advance(1)
    assert desk.answer(newcomer).generation == 2


def test_time_outs_of_zero_do_not_stop_the_clock() -> None:
    desk = Desk()
    token = desk.join(instance_id="one", rebalance_timeout_ms=0)
    desk.advance(3_000)
    member_id = desk.answer(token).member_id
    desk.assign([token])
    _, newcomer = desk.join_new(rebalance_timeout_ms=0)
    desk.advance(1)
    assert desk.answer(newcomer).generation == 2
    assert desk.heartbeat(member_id, 2) is GroupError.NONE
    desk.advance(1)
    assert desk.state() == "Empty", "nobody synced within zero milliseconds"
