"""OffsetCommit, OffsetFetch, OffsetDelete and what time takes, rule by rule."""

import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import DeletedTopic, JoinProtocol, TopicsDeleted
from kafkaesque.tables.log_table import WriteFailure
from tests.unit.groups.desk import GROUP, WALL_MS, Desk, subscription

NONE = GroupError.NONE
WEEK_MS = 7 * 24 * 60 * 60 * 1000
CHECK_MS = 600_000
UUID = bytes(range(16))


def test_a_consumer_without_a_group_commits_and_reads_back() -> None:
    desk = Desk()
    assert desk.commit_errors({("t", 0): 5, ("t", 1): 6}, metadata="m") == [NONE, NONE]
    stored = desk.committed()[("t", 0)]
    assert stored is not None
    assert (stored.offset, stored.leader_epoch, stored.metadata) == (5, 3, "m")
    assert stored.commit_wall_ms == WALL_MS + desk.now_ms
    assert stored.expire_wall_ms == -1
    assert desk.offsets() == {("t", 0): 5, ("t", 1): 6}
    assert desk.describe().state == "Empty"
    assert desk.describe().protocol_type == ""


def test_reading_what_was_never_committed_gives_nothing() -> None:
    desk = Desk()
    desk.commit({("t", 0): 5})
    assert desk.committed(partitions=[("t", 1), ("t", 0)])[("t", 1)] is None
    assert list(desk.committed(partitions=[("t", 1), ("t", 0)])) == [("t", 1), ("t", 0)]
    assert desk.committed("other") == {}
    assert desk.committed("other", [("t", 0)]) == {("t", 0): None}


def test_an_offset_is_seen_only_when_it_is_committed() -> None:
    desk = Desk()
    desk.commit({("t", 0): 5})
    desk.holds_writes = True
    token = desk.commit({("t", 0): 6})
    assert desk.offsets() == {("t", 0): 5}
    assert desk.answer(token) is None
    desk.commit_held()
    assert desk.offsets() == {("t", 0): 6}
    assert desk.answer(token).partitions[0].error is NONE


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (WriteFailure.NOT_LEADER, GroupError.NOT_COORDINATOR),
        (WriteFailure.NOT_ENOUGH_REPLICAS, GroupError.COORDINATOR_NOT_AVAILABLE),
        (WriteFailure.TOO_LARGE, GroupError.INVALID_COMMIT_OFFSET_SIZE),
        (WriteFailure.STORAGE_FAILED, GroupError.NOT_COORDINATOR),
    ],
)
def test_an_offset_that_cannot_be_written_is_not_seen(
    failure: WriteFailure, error: GroupError
) -> None:
    desk = Desk()
    desk.holds_writes = True
    token = desk.commit({("t", 0): 6})
    desk.fail_held(failure)
    assert desk.answer(token).partitions[0].error is error
    assert desk.offsets() == {}


def test_commits_take_effect_in_their_order_whatever_the_order_of_the_reports() -> None:
    desk = Desk()
    desk.holds_writes = True
    first, second, third = (desk.commit({("t", 0): offset}) for offset in (1, 2, 3))
    writes = list(desk.held)
    desk.table.on_appended(writes[1].token, desk.now)
    desk.pump()
    assert desk.answer(second) is None
    assert desk.offsets() == {}
    desk.table.on_append_failed(writes[2].token, WriteFailure.NOT_LEADER, desk.now)
    desk.table.on_appended(writes[0].token, desk.now)
    desk.pump()
    assert desk.offsets() == {("t", 0): 2}
    assert desk.answer(first).partitions[0].error is NONE
    assert desk.answer(second).partitions[0].error is NONE
    assert desk.answer(third).partitions[0].error is GroupError.NOT_COORDINATOR


def test_who_waits_too_long_for_a_commit_is_told_so_and_it_still_counts() -> None:
    desk = Desk()
    desk.holds_writes = True
    token = desk.commit({("t", 0): 6})
    desk.advance(4_999)
    assert desk.answer(token) is None
    desk.advance(1)
    assert desk.answer(token).partitions[0].error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert desk.offsets() == {}
    desk.commit_held()
    assert desk.offsets() == {("t", 0): 6}


def test_metadata_has_a_bound_in_utf16_code_units() -> None:
    desk = Desk()
    assert desk.commit_errors({("t", 0): 5}, metadata="x" * 4096) == [NONE]
    too_large = [GroupError.OFFSET_METADATA_TOO_LARGE]
    assert desk.commit_errors({("t", 0): 6}, metadata="x" * 4097) == too_large
    assert desk.commit_errors({("t", 0): 7}, metadata="\N{GRINNING FACE}" * 2048) == [NONE]
    assert desk.commit_errors({("t", 0): 8}, metadata="\N{GRINNING FACE}" * 2049) == too_large
    assert desk.offsets() == {("t", 0): 7}


def test_a_members_commit_needs_its_generation() -> None:
    desk = Desk()
    leader, _ = desk.stable_group()

    def errors(**options: object) -> list[GroupError]:
        return desk.commit_errors({("t", 0): 5}, **options)

    assert errors(member_id=leader, generation=1) == [NONE]
    assert errors(member_id=leader, generation=0) == [GroupError.ILLEGAL_GENERATION]
    assert errors(member_id=leader, generation=2) == [GroupError.ILLEGAL_GENERATION]
    assert errors(member_id=leader, generation=-1) == [GroupError.ILLEGAL_GENERATION]
    assert errors(member_id="ghost", generation=1) == [GroupError.UNKNOWN_MEMBER_ID]
    assert errors() == [GroupError.UNKNOWN_MEMBER_ID], "the group is managed by others"
    unknown = errors(member_id="x", generation=1, group_id="other")
    assert unknown == [GroupError.GROUP_ID_NOT_FOUND]


def test_a_member_cannot_commit_to_an_empty_group() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    desk.leave((member_id, None))
    errors = desk.commit_errors({("t", 0): 5}, member_id=member_id, generation=1)
    assert errors == [GroupError.UNKNOWN_MEMBER_ID]
    assert desk.commit_errors({("t", 0): 5}) == [NONE], "but somebody who reads alone can"


def test_commits_are_fine_while_members_are_to_rejoin() -> None:
    desk = Desk()
    leader, _ = desk.stable_group()
    desk.join_new()
    assert desk.commit_errors({("t", 0): 5}, member_id=leader, generation=1) == [NONE]


def test_commits_are_refused_while_the_leader_assigns() -> None:
    desk = Desk()
    leader, follower = desk.stable_group()
    desk.join(leader)
    desk.join(follower)
    assert desk.state() == "CompletingRebalance"
    errors = desk.commit_errors({("t", 0): 5}, member_id=leader, generation=2)
    assert errors == [GroupError.REBALANCE_IN_PROGRESS]


def test_a_commit_keeps_the_session() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1, session_timeout_ms=10_000)
    for offset in range(5):
        desk.advance(9_000)
        errors = desk.commit_errors({("t", 0): offset}, member_id=member_id, generation=1)
        assert errors == [NONE]


def test_one_bad_partition_does_not_spoil_the_others() -> None:
    desk = Desk(GroupConfig(offsets_per_group_max=2))
    errors = desk.commit_errors({("t", 0): 1, ("t", 1): 2, ("t", 2): 3})
    assert errors == [NONE, NONE, GroupError.INVALID_COMMIT_OFFSET_SIZE]
    assert desk.offsets() == {("t", 0): 1, ("t", 1): 2}
    assert desk.commit_errors({("t", 1): 9}) == [NONE]


def test_an_empty_commit_is_answered() -> None:
    desk = Desk()
    assert desk.commit_errors({}) == []


def test_writes_in_flight_are_bounded() -> None:
    desk = Desk(GroupConfig(writes_in_flight_max=2))
    desk.holds_writes = True
    tokens = [desk.commit({("t", 0): offset}) for offset in range(3)]
    refused = desk.answer(tokens[2]).partitions[0].error
    assert refused is GroupError.COORDINATOR_NOT_AVAILABLE
    desk.commit_held()
    assert desk.offsets() == {("t", 0): 1}


def test_offsets_of_a_topic_that_is_consumed_cannot_be_deleted() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    desk.commit({("flights", 0): 1, ("old", 0): 2}, member_id=member_id, generation=1)
    result = desk.answer(desk.delete_offsets(("flights", 0), ("old", 0), ("never", 0)))
    assert result.error is NONE
    errors = [each.error for each in result.partitions]
    assert errors == [GroupError.GROUP_SUBSCRIBED_TO_TOPIC, NONE, NONE]
    assert desk.offsets() == {("flights", 0): 1}


def test_consumers_whose_topics_are_not_known_keep_all_their_offsets() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1, protocols=(JoinProtocol("range", b"\x00"),))
    desk.commit({("old", 0): 2}, member_id=member_id, generation=1)
    result = desk.answer(desk.delete_offsets(("old", 0)))
    assert result.partitions[0].error is GroupError.GROUP_SUBSCRIBED_TO_TOPIC


def test_offsets_of_a_busy_group_of_another_kind_cannot_be_deleted() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1, protocol_type="connect")
    assert desk.answer(desk.delete_offsets(("t", 0))).error is GroupError.NON_EMPTY_GROUP
    desk.leave((member_id, None))
    assert desk.answer(desk.delete_offsets(("t", 0))).error is NONE


def test_offsets_of_a_group_that_does_not_exist_cannot_be_deleted() -> None:
    desk = Desk()
    assert desk.answer(desk.delete_offsets(("t", 0))).error is GroupError.GROUP_ID_NOT_FOUND


def test_deleting_offsets_is_answered_when_committed() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1})
    desk.holds_writes = True
    token = desk.delete_offsets(("t", 0))
    assert desk.answer(token) is None
    assert desk.offsets() == {("t", 0): 1}
    desk.commit_held()
    assert desk.answer(token).error is NONE
    assert desk.offsets() == {}
    desk.holds_writes = False
    desk.commit({("t", 0): 1})
    desk.holds_writes = True
    token = desk.delete_offsets(("t", 0))
    desk.fail_held()
    assert desk.answer(token).error is GroupError.COORDINATOR_NOT_AVAILABLE
    assert desk.offsets() == {("t", 0): 1}


def test_deleted_topics_take_their_offsets_along() -> None:
    desk = Desk(GroupConfig(records_per_write_max=2))
    for group_id in ("g1", "g2"):
        desk.commit({("gone", 0): 1, ("gone", 1): 2, ("kept", 0): 3}, group_id=group_id)
    desk.holds_writes = True
    desk.commit({("gone", 7): 1}, group_id="g3")
    desk.ask(TopicsDeleted(topics=(DeletedTopic("gone"),)))
    assert max(len(each.records) for each in desk.held) == 2
    desk.commit_held()
    assert desk.offsets("g1") == desk.offsets("g2") == {("kept", 0): 3}
    assert desk.offsets("g3") == {}
    desk.holds_writes = False
    again = desk.reopened()
    assert again.offsets("g1") == {("kept", 0): 3}
    assert again.offsets("g3") == {}


def test_a_namesake_of_a_deleted_topic_keeps_its_offsets() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1}, topic_id=UUID)
    desk.commit({("t", 1): 1}, topic_id=bytes(16))
    desk.commit({("t", 2): 1})
    desk.ask(TopicsDeleted(topics=(DeletedTopic("t", bytes(16)),)))
    assert desk.offsets() == {("t", 0): 1}
    desk.ask(TopicsDeleted(topics=(DeletedTopic("t", UUID),)))
    assert desk.offsets() == {}


def test_what_was_committed_by_name_after_the_deletion_was_of_the_namesake() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1, ("t", 1): 1}, topic_id=UUID, is_by_name=True)
    desk.advance(1_000)
    deleted_ms = desk.now.wall_ms
    desk.commit({("t", 0): 2}, topic_id=UUID, is_by_name=True)
    desk.commit({("t", 2): 2}, topic_id=UUID)  # by id: of the topic that is gone
    again = desk.reopened()
    for each in (desk, again):
        each.ask(TopicsDeleted(topics=(DeletedTopic("t", UUID, deleted_ms),)))
        assert each.offsets() == {("t", 0): 2}
    desk.ask(TopicsDeleted(topics=(DeletedTopic("t", UUID),)))  # nobody knows when that was
    assert desk.offsets() == {}


def test_offsets_of_a_lone_consumer_expire_a_retention_after_the_commit() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1})
    desk.advance(CHECK_MS)
    desk.commit({("t", 1): 1})
    desk.advance(WEEK_MS - CHECK_MS)
    assert desk.offsets() == {("t", 1): 1}
    assert desk.state() == "Empty"
    desk.advance(CHECK_MS)
    assert desk.offsets() == {}
    assert desk.state() == "Dead"
    assert desk.reopened().table.group_count == 0


def test_offsets_of_a_group_expire_a_retention_after_it_became_empty() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1, session_timeout_ms=1_000_000)
    desk.commit({("flights", 0): 1}, member_id=member_id, generation=1)
    for _ in range(2 * WEEK_MS // 900_000):
        desk.advance(900_000)
        assert desk.heartbeat(member_id, 1) is NONE
    assert desk.offsets() == {("flights", 0): 1}
    desk.leave((member_id, None))
    desk.advance(WEEK_MS - 1)
    assert desk.offsets() == {("flights", 0): 1}
    desk.advance(CHECK_MS)
    assert desk.offsets() == {}
    assert desk.state() == "Dead"


def test_offsets_of_topics_that_consumers_turned_away_from_expire() -> None:
    desk = Desk(GroupConfig(offsets_retention_ms=2 * CHECK_MS))
    (member_id,) = desk.stable_group(1, session_timeout_ms=1_000_000)
    desk.commit({("flights", 0): 1, ("old", 0): 1}, member_id=member_id, generation=1)
    for _ in range(4):
        desk.advance(CHECK_MS)
        desk.heartbeat(member_id, 1)
    assert desk.offsets() == {("flights", 0): 1}
    assert desk.state() == "Stable"


def test_nothing_of_a_busy_group_of_another_kind_expires() -> None:
    desk = Desk(GroupConfig(offsets_retention_ms=CHECK_MS))
    (member_id,) = desk.stable_group(1, protocol_type="connect", session_timeout_ms=1_000_000)
    desk.commit({("t", 0): 1}, member_id=member_id, generation=1, retention_ms=1)
    for _ in range(4):
        desk.advance(CHECK_MS)
        desk.heartbeat(member_id, 1)
    assert desk.offsets() == {("t", 0): 1}


def test_a_retention_that_the_client_gave_goes_first() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1}, retention_ms=2 * CHECK_MS)
    stored = desk.committed()[("t", 0)]
    assert stored is not None
    assert stored.expire_wall_ms == stored.commit_wall_ms + 2 * CHECK_MS
    again = desk.reopened()
    again.advance(CHECK_MS)
    assert again.offsets() == {("t", 0): 1}
    again.advance(CHECK_MS)
    assert again.offsets() == {}


def test_an_empty_group_without_offsets_goes_at_the_next_check() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    desk.leave((member_id, None))
    desk.advance(CHECK_MS)
    assert desk.state() == "Dead"
    assert desk.reopened().table.group_count == 0


def test_a_group_that_somebody_is_about_to_join_does_not_go() -> None:
    desk = Desk()
    desk.advance(CHECK_MS - 1_000)
    member_id = desk.answer(desk.join()).member_id
    desk.advance(1_000)
    assert desk.answer(desk.join(member_id)) is None


def test_what_is_being_committed_does_not_expire() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1})
    desk.advance(WEEK_MS - CHECK_MS)
    desk.holds_writes = True
    desk.commit({("t", 0): 2})
    desk.advance(CHECK_MS)
    desk.commit_held()
    assert desk.offsets() == {("t", 0): 2}
    assert desk.state(GROUP) == "Empty"


def test_a_group_that_could_not_be_removed_is_still_there() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1})
    desk.holds_writes = True
    desk.advance(WEEK_MS + CHECK_MS)
    desk.fail_held()
    assert desk.state() == "Empty"
    assert desk.offsets() == {("t", 0): 1}
    desk.advance(CHECK_MS)
    desk.commit_held()
    assert desk.state() == "Dead"


def test_groups_of_several_topics_can_be_consumed() -> None:
    desk = Desk()
    mine = (JoinProtocol("range", subscription("a", "b")),)
    (member_id,) = desk.stable_group(1, protocols=mine)
    desk.commit({("a", 0): 1, ("b", 0): 1, ("c", 0): 1}, member_id=member_id, generation=1)
    desk.delete_offsets(("a", 0), ("b", 0), ("c", 0))
    assert desk.offsets() == {("a", 0): 1, ("b", 0): 1}
