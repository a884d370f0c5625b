"""ListGroups, DescribeGroups, DeleteGroups, and a table's life."""

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    CommitOffsets,
    DeleteGroups,
    DeleteOffsets,
    DescribeGroups,
    FetchOffsets,
    Heartbeat,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    OffsetToCommit,
    Request,
    SyncGroup,
    TopicsDeleted,
)
from kafkaesque.model.errors import ConfigError, InvariantBroken
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.core import TableState
from kafkaesque.tables.log_table import WriteFailure
from tests.unit.groups.desk import GROUP, RANGE, Desk

NONE = GroupError.NONE
PARTITION = TopicPartition("t", 0)


def listed(desk: Desk, **filters: tuple[str, ...]) -> list[tuple[str, str, str, str]]:
    return [tuple(each) for each in desk.ask(ListGroups(token=desk.token(), **filters)).groups]


def test_groups_are_listed_and_filtered() -> None:
    desk = Desk()
    desk.stable_group(1)
    desk.commit({("t", 0): 1}, group_id="alone")
    busy = (GROUP, "consumer", "Stable", "classic")
    alone = ("alone", "", "Empty", "classic")
    assert listed(desk) == [busy, alone]
    assert listed(desk, states=("stable",)) == [busy]
    assert listed(desk, states=("EMPTY", "Dead")) == [alone]
    assert listed(desk, types=("Classic",)) == [busy, alone]
    assert listed(desk, types=("consumer",)) == []


def test_a_stable_group_is_described_with_metadata() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    described = desk.describe()
    assert (described.error, described.state) == (NONE, "Stable")
    assert (described.protocol_type, described.protocol_name) == ("consumer", "range")
    (member,) = described.members
    assert member.member_id == member_id
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    assert member.metadata == RANGE[0].metadata
    assert member.assignment == b"for " + member_id.encode()


def test_a_group_that_rebalances_is_described_without_metadata() -> None:
    desk = Desk()
    desk.stable_group(1)
    desk.join_new()
    described = desk.describe()
    assert described.state == "PreparingRebalance"
    assert described.protocol_name == ""
    assert [member.metadata for member in described.members] == [b"", b""]


def test_a_group_that_does_not_exist_is_dead() -> None:
    described = Desk().describe("none")
    assert (described.state, described.error) == ("Dead", GroupError.GROUP_ID_NOT_FOUND)


def test_groups_are_deleted_with_their_offsets_each_with_its_own_error() -> None:
    desk = Desk(GroupConfig(records_per_write_max=2))
    desk.stable_group(1)
    desk.commit({("t", partition): 1 for partition in range(5)}, group_id="one")
    desk.commit({("t", 0): 1}, group_id="two")
    result = desk.answer(desk.delete_groups("one", GROUP, "none", "two", "one"))
    assert result.groups == (
        ("one", NONE),
        (GROUP, GroupError.NON_EMPTY_GROUP),
        ("none", GroupError.GROUP_ID_NOT_FOUND),
        ("two", NONE),
        ("one", NONE),
    )
    assert desk.offsets("one") == desk.offsets("two") == {}
    again = desk.reopened()
    assert again.state("one") == again.state("two") == "Dead"
    assert again.state() == "Stable"


def test_deleting_is_answered_when_committed() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1})
    desk.holds_writes = True
    token = desk.delete_groups(GROUP)
    assert desk.answer(token) is None
    assert desk.offsets() == {("t", 0): 1}
    desk.commit_held()
    assert desk.answer(token).groups == ((GROUP, NONE),)
    assert desk.offsets() == {}


def test_a_group_that_could_not_be_deleted_is_still_there() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1})
    desk.holds_writes = True
    token = desk.delete_groups(GROUP)
    desk.fail_held()
    assert desk.answer(token).groups == ((GROUP, GroupError.COORDINATOR_NOT_AVAILABLE),)
    assert desk.state() == "Empty"
    assert desk.offsets() == {("t", 0): 1}


def test_what_is_being_committed_is_deleted_too() -> None:
    desk = Desk()
    desk.holds_writes = True
    desk.commit({("t", 0): 1})
    token = desk.delete_groups(GROUP)
    desk.commit_held()
    assert desk.answer(token).groups == ((GROUP, NONE),)
    assert desk.offsets() == {}
    assert desk.reopened().table.group_count == 0


def test_a_group_can_be_born_again_while_it_is_deleted() -> None:
    desk = Desk()
    desk.commit({("t", 0): 1})
    desk.holds_writes = True
    desk.delete_groups(GROUP)
    desk.commit({("t", 1): 7})
    desk.commit_held()
    assert desk.state() == "Empty"
    assert desk.offsets() == {("t", 1): 7}
    desk.delete_groups(GROUP)
    member_id = desk.answer(desk.join()).member_id
    desk.fail_held(WriteFailure.NOT_ENOUGH_REPLICAS)
    assert desk.answer(desk.join(member_id)) is None, "the new one stays"
    assert desk.state() == "PreparingRebalance"


# --- a table's life ---


def every_request(desk: Desk) -> list[Callable[[], Request]]:
    member = {"group_id": GROUP, "member_id": "m", "instance_id": None}
    return [
        lambda: desk.join_event(),
        lambda: SyncGroup(
            token=desk.token(),
            generation=1,
            protocol_type=None,
            protocol_name=None,
            assignments=(),
            **member,  # type: ignore[arg-type]
        ),
        lambda: Heartbeat(token=desk.token(), generation=1, **member),  # type: ignore[arg-type]
        lambda: LeaveGroup(token=desk.token(), group_id=GROUP, members=(LeavingMember("m", None),)),
        lambda: CommitOffsets(
            token=desk.token(),
            generation=1,
            offsets=(OffsetToCommit(PARTITION, 1, 1, ""),),
            **member,  # type: ignore[arg-type]
        ),
        lambda: FetchOffsets(token=desk.token(), group_id=GROUP, partitions=None),
        lambda: DeleteOffsets(token=desk.token(), group_id=GROUP, partitions=(PARTITION,)),
        lambda: DescribeGroups(token=desk.token(), group_ids=(GROUP,)),
        lambda: ListGroups(token=desk.token()),
        lambda: DeleteGroups(token=desk.token(), group_ids=(GROUP,)),
    ]


def error_of(result: object) -> object:
    """The error of any answer, wherever it stands."""
    for name in ("error", "partitions", "groups"):
        value = getattr(result, name, None)
        if isinstance(value, GroupError):
            return value
        if value:
            return getattr(value[0], "error", None) or value[0][1]
    return None


@pytest.mark.parametrize("number", range(10))
def test_while_it_loads_a_table_says_so(number: int) -> None:
    desk = Desk(is_active=False)
    event = every_request(desk)[number]()
    expected = NONE if isinstance(event, Heartbeat) else GroupError.COORDINATOR_LOAD_IN_PROGRESS
    assert error_of(desk.ask(event)) is expected
    assert desk.table.next_deadline_ms() is None


@pytest.mark.parametrize("number", range(10))
def test_unloaded_a_table_sends_clients_away(number: int) -> None:
    desk = Desk()
    desk.table.unload()
    assert error_of(desk.ask(every_request(desk)[number]())) is GroupError.NOT_COORDINATOR
    desk.ask(TopicsDeleted(topics=()))
    assert desk.table.next_deadline_ms() is None
    desk.table.tick(desk.now)


def test_unloading_answers_everybody_who_waits() -> None:
    desk = Desk()
    leader, follower = desk.stable_group()
    joining = desk.join(leader)
    others = [desk.join(group_id="completing", instance_id=name) for name in ("one", "two")]
    desk.advance(9_000)
    assert desk.state("completing") == "CompletingRebalance"
    second = desk.answer(others[1]).member_id
    syncing = desk.sync(second, 1, group_id="completing")
    desk.holds_writes = True
    committing = desk.commit({("t", 0): 1}, member_id=follower, generation=1)
    deleting = desk.delete_groups("none")
    desk.table.unload()
    desk.pump()
    gone = GroupError.NOT_COORDINATOR
    assert desk.answer(joining).error is gone
    assert desk.answer(syncing).error is gone
    assert desk.answer(committing).partitions[0].error is gone
    assert set(desk.asked) == set(desk.answers)
    assert desk.answer(deleting).groups == (("none", GroupError.GROUP_ID_NOT_FOUND),)
    desk.commit_held()
    desk.table.unload()
    assert desk.table.state is TableState.UNLOADED


def test_a_table_lives_once() -> None:
    desk = Desk()
    with pytest.raises(InvariantBroken):
        desk.table.activate(desk.now)
    with pytest.raises(InvariantBroken):
        desk.table.restore([])


def test_a_report_of_a_write_that_is_not_in_flight_is_our_own_mistake() -> None:
    desk = Desk()
    desk.holds_writes = True
    desk.commit({("t", 0): 1})
    desk.commit({("t", 0): 2})
    later = desk.held[1].token
    desk.table.on_appended(later, desk.now)
    with pytest.raises(InvariantBroken):
        desk.table.on_appended(later, desk.now)
    desk.commit_held(1)
    with pytest.raises(InvariantBroken):
        desk.table.on_appended(later, desk.now)


# --- from the log ---


def test_after_a_failover_members_go_on_with_fresh_sessions() -> None:
    desk = Desk()
    leader, follower = desk.stable_group(session_timeout_ms=10_000)
    desk.commit({("t", 0): 5}, member_id=leader, generation=1)
    again = desk.reopened()
    assert again.state() == "Stable"
    assert again.offsets() == {("t", 0): 5}
    again.advance(9_999)
    assert again.heartbeat(leader, 1) is NONE
    again.advance(1)
    assert again.heartbeat(leader, 1) is GroupError.REBALANCE_IN_PROGRESS
    assert again.heartbeat(follower, 1) is GroupError.UNKNOWN_MEMBER_ID


def test_after_a_failover_assignments_and_leader_are_known() -> None:
    desk = Desk()
    leader, follower = desk.stable_group()
    again = desk.reopened()
    assert again.answer(again.sync(follower, 1)).assignment == b"for " + follower.encode()
    assert again.answer(again.join(follower)).leader_id == leader
    described = again.describe()
    assert described == desk.describe()


def test_after_a_failover_the_next_generation_is_a_higher_one() -> None:
    desk = Desk()
    (member_id,) = desk.stable_group(1)
    desk.leave((member_id, None))
    again = desk.reopened()
    assert again.state() == "Empty"
    _, join = again.join_new()
    again.advance(3_000)
    assert again.answer(join).generation == 3


def test_offsets_without_a_group_are_those_of_a_lone_consumer() -> None:
    desk = Desk()
    desk.commit({("t", 0): 5})
    again = desk.reopened()
    assert again.state() == "Empty"
    assert again.commit_errors({("t", 0): 6}) == [NONE]


def test_records_that_cannot_be_read_are_skipped_and_counted() -> None:
    desk = Desk()
    desk.commit({("t", 0): 5})
    desk.stable_group(1)
    offset_key, group_key = desk.log[0].key, desk.log[1].key
    table = Desk(is_active=False).table
    table.restore(desk.log)
    table.restore([(None, b"x"), (b"", b"x"), (b"\x00\x09other kind", b"x")])
    table.restore([(offset_key, b"\x00\x03"), (group_key, b"\x00\x09")])
    assert table.records_skipped == 4
    table.activate(desk.now)
    assert table.group_count == 1


def test_tombstones_delete() -> None:
    desk = Desk()
    desk.commit({("t", 0): 5})
    desk.stable_group(1)
    tombstones = [(record.key, None) for record in desk.log]
    table = Desk(is_active=False).table
    table.restore(desk.log)
    table.restore(tombstones)
    table.activate(desk.now)
    assert table.group_count == 0


@pytest.mark.parametrize(
    "options",
    [
        {"group_members_max": 0},
        {"session_timeout_ms_min": 10, "session_timeout_ms_max": 9},
        {"name_bytes_max": 16_384},
        {"offset_metadata_length_max": 10_923},
        {"initial_rebalance_delay_ms": -1},
    ],
    ids=["zero", "contradiction", "name", "metadata", "negative"],
)
def test_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        GroupConfig(**options)
