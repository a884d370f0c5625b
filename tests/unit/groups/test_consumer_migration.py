"""KIP-848: a group that changes its protocol while it works."""

from typing import Any

import pytest

from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.consumer.classic_protocol import (
    read_assignment,
    read_subscription,
    write_assignment,
)
from kafkaesque.groups.consumer.config import ConsumerConfig, MigrationPolicy
from kafkaesque.groups.consumer.topics import NO_PARTITIONS
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.results import JoinResult, SyncResult
from kafkaesque.model.ids import TopicPartition
from tests.unit.groups.consumers import FLIGHTS, NONE, ConsumerDesk, desk_of, parts
from tests.unit.groups.desk import GROUP, subscription

BUSY = GroupError.REBALANCE_IN_PROGRESS


def flights(*partitions: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("flights", each) for each in partitions)


def offer(*owned: int, name: str = "cooperative-sticky") -> tuple[JoinProtocol, ...]:
    """What a consumer says of itself, with the partitions that it goes on consuming."""
    head = subscription("flights")[:-4]
    tail = b"\x00\x00\x00\x00"
    if owned:
        tail = b"\x00\x00\x00\x01\x00\x07flights" + len(owned).to_bytes(4, "big")
        tail += b"".join(each.to_bytes(4, "big") for each in owned)
    return (JoinProtocol(name, head + tail),)


def classic_group(desk: ConsumerDesk, *shares: tuple[int, ...], **options: Any) -> list[str]:
    """Make a stable classic group whose members have these partitions; return their ids."""
    options.setdefault("protocols", offer())
    is_static = "instance_id" in options
    joined = [("", desk.join(**options)) if is_static else desk.join_new(**options) for _ in shares]
    desk.advance(4 * desk.config.initial_rebalance_delay_ms)
    joined = [(desk.answer(token).member_id, token) for _, token in joined]
    given = {
        member_id: write_assignment(flights(*share))
        for (member_id, _), share in zip(joined, shares, strict=True)
    }
    for position, (member_id, _) in enumerate(reversed(joined)):
        is_leader = position == len(joined) - 1
        name = options["protocols"][0].name
        desk.sync(member_id, 1, given if is_leader else {}, protocol_name=name)
    assert desk.state() == "Stable"
    return [member_id for member_id, _ in joined]


def join(desk: ConsumerDesk, member_id: str, *owned: int, **options: Any) -> JoinResult:
    options.setdefault("protocols", offer(*owned))
    result = desk.answer(desk.join(member_id, **options))
    assert isinstance(result, JoinResult)
    return result


def synced(desk: ConsumerDesk, member_id: str, generation: int) -> frozenset[TopicPartition]:
    result = desk.answer(desk.sync(member_id, generation, protocol_name="cooperative-sticky"))
    assert isinstance(result, SyncResult)
    assert result.error is NONE
    assignment = read_assignment(result.assignment)
    assert assignment is not None
    return assignment


# -- to the new kind


def test_the_first_heartbeat_makes_a_classic_group_one_of_the_new_kind() -> None:
    desk = desk_of(flights=4)
    one, two = classic_group(desk, (0, 1), (2, 3))
    desk.commit({("flights", 0): 7}, member_id=one, generation=1)
    joined = desk.enter("new")
    assert (joined.error, joined.member_epoch, joined.assignment) == (NONE, 2, NO_PARTITIONS)
    group = desk.group()
    assert set(group.members) == {one, two, "new"}
    assert desk.assigned(one) == parts(FLIGHTS, 0, 1)
    assert desk.assigned(two) == parts(FLIGHTS, 2, 3)
    assert desk.offsets() == {("flights", 0): 7}
    assert [each.group_type for each in desk.listed()] == ["consumer"]
    types = {each.member_id: each.is_classic for each in desk.described().members}
    assert types == {one: True, two: True, "new": False}


def test_only_the_classic_member_that_has_to_give_something_up_is_told_to_join_again() -> None:
    desk = desk_of(flights=4)
    one, two = classic_group(desk, (0, 1), (2, 3))
    desk.enter("new")
    told = [each for each in (one, two) if desk.heartbeat(each, 1) is BUSY]
    assert len(told) == 1
    (giver,) = told
    owned = sorted(each.partition for each in desk.assigned(giver))

    joined = join(desk, giver, *owned)
    assert (joined.error, joined.generation, joined.leader_id) == (NONE, 1, "")
    assert joined.protocol_name == "cooperative-sticky"
    kept = synced(desk, giver, 1)
    assert len(kept) == 1
    assert desk.beat("new", 2).assignment is None, "it has not given it up yet"
    assert desk.heartbeat(giver, 1) is BUSY
    again = join(desk, giver, *(each.partition for each in kept))
    assert again.generation == 2
    assert synced(desk, giver, 2) == kept
    assert desk.heartbeat(giver, 2) is NONE
    got = desk.beat("new", 2).assignment
    assert got is not None
    assert len(got) == 1
    assert desk.group().state.value == "Stable"


def test_a_classic_member_that_stops_before_it_joins_has_given_everything_up() -> None:
    desk = desk_of(flights=4)
    options = {"protocols": offer(name="range")}
    (one,) = classic_group(desk, (0, 1, 2, 3), **options)
    desk.enter("new")
    assert desk.heartbeat(one, 1) is BUSY
    assert join(desk, one, **options).generation == 2
    assert len(desk.beat("new", 2).assignment or ()) == 2


def test_a_classic_member_is_told_when_something_is_free_for_it() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.enter("new")
    join(desk, one, 0, 1)
    kept = synced(desk, one, 1)
    join(desk, one, *(each.partition for each in kept))
    desk.beat("new", 2)
    desk.enter("other")
    assert desk.heartbeat(one, 2) is NONE
    desk.beat("new", -1)
    assert desk.heartbeat(one, 2) is NONE, "other gets it"
    desk.beat("other", 3)
    assert len(desk.assigned("other")) == 1


def test_who_waits_in_the_classic_group_is_told_to_join_again() -> None:
    desk = desk_of(flights=2)
    member_id, token = desk.join_new(protocols=offer())
    desk.enter("new")
    assert desk.answer(token).error is BUSY
    assert join(desk, member_id).error is NONE
    assert set(desk.group().members) == {member_id, "new"}


def test_a_classic_member_may_come_to_a_group_of_the_new_kind() -> None:
    desk = desk_of(flights=2)
    desk.enter("new")
    first = join(desk, "")
    assert first.error is GroupError.MEMBER_ID_REQUIRED
    joined = join(desk, first.member_id)
    assert (joined.error, joined.generation) == (NONE, 2)
    assert synced(desk, first.member_id, 2) == frozenset()
    told = desk.beat("new", 1)
    desk.beat("new", 1, owned=told.assignment)
    assert desk.heartbeat(first.member_id, 2) is BUSY
    again = join(desk, first.member_id)
    assert len(synced(desk, first.member_id, again.generation)) == 1


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"protocol_type": "connect"}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": (JoinProtocol("x", b"?"),)}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": offer(name="other")}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, GroupError.INCONSISTENT_GROUP_PROTOCOL),
        ({"instance_id": "i9", "member_id": "m"}, GroupError.UNKNOWN_MEMBER_ID),
    ],
    ids=["type", "not a subscription", "nothing in common", "nothing", "unknown instance"],
)
def test_a_classic_member_that_does_not_fit_is_refused(
    options: dict[str, Any], error: GroupError
) -> None:
    desk = desk_of(flights=2)
    classic_group(desk, (0, 1))
    desk.enter("new")
    member_id = options.pop("member_id", "")
    assert join(desk, member_id, **options).error is error


@pytest.mark.parametrize(
    ("policy", "upgrades"),
    [
        (MigrationPolicy.DISABLED, False),
        (MigrationPolicy.DOWNGRADE, False),
        (MigrationPolicy.UPGRADE, True),
        (MigrationPolicy.BIDIRECTIONAL, True),
    ],
    ids=lambda value: str(getattr(value, "value", value)),
)
def test_a_group_is_upgraded_only_where_the_policy_says_so(
    policy: MigrationPolicy, upgrades: bool
) -> None:
    desk = ConsumerDesk(GroupConfig(consumer=ConsumerConfig(migration_policy=policy)))
    desk.topics(flights=2)
    (one,) = classic_group(desk, (0, 1))
    error = desk.enter("new").error
    assert error is (NONE if upgrades else GroupError.GROUP_ID_NOT_FOUND)
    assert desk.heartbeat(one, 1) is (BUSY if upgrades else NONE)


@pytest.mark.parametrize("kind", ["connect", "consumer"])
def test_a_group_that_cannot_be_read_stays_what_it_is(kind: str) -> None:
    desk = desk_of(flights=2)
    desk.stable_group(1, protocol_type=kind)
    assert desk.enter("new").error is GroupError.GROUP_ID_NOT_FOUND
    assert [each.group_type for each in desk.listed()] == ["classic"]


def test_a_classic_member_does_not_bring_a_group_beyond_its_bound() -> None:
    consumer = ConsumerConfig(subscription_bytes_max=100)
    size = sum(each.size_bytes for each in offer(0, 1))
    desk = ConsumerDesk(
        GroupConfig(
            member_metadata_bytes_max=100,
            group_subscriptions_bytes_max=size + 40,
            consumer=consumer,
        )
    )
    desk.topics(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.enter("new")
    assert join(desk, "", 0).error is GroupError.GROUP_MAX_SIZE_REACHED
    assert join(desk, one, 0, 1).error is NONE


# -- classic members among the others


def test_a_classic_member_must_know_its_generation_and_its_place() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1), instance_id="i")
    desk.enter("new")
    assert desk.heartbeat(one, 2, instance_id="i") is GroupError.ILLEGAL_GENERATION
    assert desk.heartbeat("who", 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("new", 2) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.heartbeat("who", 1, instance_id="i") is GroupError.FENCED_INSTANCE_ID
    assert desk.heartbeat(one, 1, instance_id="j") is GroupError.UNKNOWN_MEMBER_ID
    assert desk.answer(desk.sync(one, 2)).error is GroupError.ILLEGAL_GENERATION
    inconsistent = GroupError.INCONSISTENT_GROUP_PROTOCOL
    assert desk.answer(desk.sync(one, 1, protocol_name="x")).error is inconsistent
    sync = desk.sync(one, 1, protocol_name="cooperative-sticky")
    assert desk.answer(sync).error is BUSY
    at = {("flights", 0): 1}
    assert desk.commit_errors(at, member_id=one, generation=2) == [GroupError.ILLEGAL_GENERATION]
    assert desk.commit_errors(at, member_id=one, generation=1, knows_member_epochs=False) == [NONE]
    assert desk.error(one, 1) is GroupError.UNKNOWN_MEMBER_ID
    assert desk.error(one, -1) is GroupError.UNKNOWN_MEMBER_ID


def test_a_silent_classic_member_is_removed_after_its_own_session() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.enter("new")
    desk.advance(10_000)
    assert set(desk.group().members) == {"new"}
    assert desk.beat("new", 2).assignment == parts(FLIGHTS, 0, 1)
    assert desk.heartbeat(one, 1) is GroupError.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_join_again_in_time_is_removed() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1), rebalance_timeout_ms=15_000)
    desk.enter("new")
    for _ in range(5):
        assert desk.heartbeat(one, 1) is BUSY
        desk.advance(3_000)
    assert desk.heartbeat(one, 1) is GroupError.UNKNOWN_MEMBER_ID


def test_a_classic_member_that_does_not_ask_for_its_assignment_in_time_is_removed() -> None:
    desk = desk_of(flights=2)
    times = {"rebalance_timeout_ms": 20_000, "session_timeout_ms": 30_000}
    (one,) = classic_group(desk, (0, 1), **times)
    desk.enter("new")
    joined = join(desk, one, **times)
    assert joined.error is NONE
    desk.advance(19_999)
    assert one in desk.group().members
    desk.advance(1)
    assert one not in desk.group().members


def test_a_restarted_static_member_of_the_new_protocol_takes_its_own_place_at_once() -> None:
    desk = desk_of(flights=2)
    classic_group(desk, (0, 1), instance_id="i")
    back = desk.enter("new", instance_id="i")
    assert (back.error, back.assignment) == (NONE, parts(FLIGHTS, 0, 1))
    assert set(desk.group().members) == {"new"}


def test_a_restarted_static_classic_member_takes_its_own_place() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1), instance_id="i")
    desk.enter("new")
    back = join(desk, "", instance_id="i")
    assert back.error is NONE
    assert len(synced(desk, back.member_id, back.generation)) == 1
    assert desk.heartbeat(one, 1, instance_id="i") is GroupError.FENCED_INSTANCE_ID


def test_a_new_leader_knows_who_speaks_the_classic_protocol() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.enter("new")
    other = desk.next_desk()
    assert other.group().members == desk.group().members
    other.topics(flights=2)
    assert other.heartbeat(one, 1) is BUSY
    other.advance(10_000)
    assert set(other.group().members) == {"new"}


# -- back to the classic kind


@pytest.mark.parametrize("how", ["leaves", "is silent", "is removed"])
def test_when_the_last_member_of_the_new_protocol_is_gone_the_group_is_a_classic_one(
    how: str,
) -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1), session_timeout_ms=60_000)
    desk.enter("new", instance_id="i")
    if how == "leaves":
        assert desk.error("new", -1, instance_id="i") is NONE
    elif how == "is silent":
        desk.advance(45_000)
    else:
        assert desk.answer(desk.leave(("", "i"))).members[0].error is NONE
    assert [(each.group_type, each.state) for each in desk.listed()] == [
        ("classic", "PreparingRebalance")
    ]
    again = desk.answer(desk.join(one, protocols=offer(0, 1), session_timeout_ms=60_000))
    assert again.error is NONE
    assert again.leader_id == one
    assert [each.group_type for each in desk.next_desk().listed()] == ["classic"]


def test_a_group_is_not_downgraded_where_the_policy_forbids_it() -> None:
    policy = MigrationPolicy.UPGRADE
    desk = ConsumerDesk(GroupConfig(consumer=ConsumerConfig(migration_policy=policy)))
    desk.topics(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.enter("new")
    desk.beat("new", -1)
    assert [each.group_type for each in desk.listed()] == ["consumer"]
    assert desk.heartbeat(one, 1) is NONE, "it has everything already"


def test_a_classic_member_leaves_and_the_others_share_what_it_had() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.enter("new")
    left = desk.answer(desk.leave((one, None), ("new", None)))
    assert [each.error for each in left.members] == [NONE, GroupError.UNKNOWN_MEMBER_ID]
    assert desk.beat("new", 2).assignment == parts(FLIGHTS, 0, 1)


def test_a_group_that_went_there_and_back_again_has_lost_nothing() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.commit({("flights", 0): 5}, member_id=one, generation=1)
    desk.enter("new")
    desk.beat("new", -1)
    again = desk.answer(desk.join(one, protocols=offer(0, 1)))
    given = {one: write_assignment(flights(0, 1))}
    sync = desk.sync(one, again.generation, given, protocol_name="cooperative-sticky")
    assert desk.answer(sync).error is NONE
    assert desk.enter("newer").error is NONE
    assert desk.offsets() == {("flights", 0): 5}
    assert desk.assigned(one) == parts(FLIGHTS, 0, 1)
    assert [each.group_id for each in desk.next_desk().listed()] == [GROUP]


# -- what a group that is gone leaves in the log


def upgraded_desk() -> tuple[ConsumerDesk, str]:
    """A group of the new kind, of a classic member that is returned and of another."""
    desk = ConsumerDesk(GroupConfig(records_per_write_max=3))
    desk.topics(flights=2)
    (one,) = classic_group(desk, (0, 1), session_timeout_ms=60_000)
    desk.enter("new")
    return desk, one


def rejoin(desk: ConsumerDesk, member_id: str) -> None:
    """Let the only member of a classic group bring it to its next generation."""
    options = {"protocols": offer(0, 1), "session_timeout_ms": 60_000}
    joined = desk.answer(desk.join(member_id, **options))
    given = {member_id: write_assignment(flights(0, 1))}
    desk.sync(member_id, joined.generation, given, protocol_name="cooperative-sticky")


def kinds(desk: ConsumerDesk) -> list[str]:
    return [each.group_type for each in desk.listed()]


def left_over(desk: ConsumerDesk) -> list[str]:
    return desk.table._context.leftovers.group_ids()


def test_a_group_is_downgraded_in_writes_of_bounded_size_what_it_becomes_first() -> None:
    desk, _ = upgraded_desk()
    before = len(desk.written)
    desk.beat("new", -1)
    writes = [write.records for write in desk.written[before:]]
    assert len(writes) > 2
    assert all(len(records) <= 3 for records in writes)
    assert [record.value is None for record in writes[0]] == [False]
    assert all(record.value is None for records in writes[1:] for record in records)


def fail_tombstones(desk: ConsumerDesk) -> None:
    """Of what is held, the group makes it, and what deletes the other one does not."""
    desk.commit_held(1)
    while desk.held:
        desk.fail_held()
    desk.holds_writes = False


@pytest.mark.parametrize("is_stored", [False, True], ids=["deleted at once", "stored before"])
def test_what_a_downgrade_could_not_delete_is_deleted_later(is_stored: bool) -> None:
    desk, one = upgraded_desk()
    desk.holds_writes = True
    token = desk.send("new", -1)
    fail_tombstones(desk)
    assert desk.answer(token).error is NONE, "it is stored that it has left"
    assert kinds(desk.next_desk()) == ["classic"]
    assert left_over(desk) == left_over(desk.next_desk()) == [GROUP]
    if is_stored:
        rejoin(desk, one)
        assert left_over(desk) == left_over(desk.next_desk()) == []
    desk.holds_writes = not is_stored
    desk.leave((one, None))
    fail_tombstones(desk)
    assert desk.state() == "Empty"
    assert left_over(desk) == ([] if is_stored else [GROUP])
    for each in (desk.next_desk(), desk):
        assert each.answer(each.delete_groups(GROUP)).groups == ((GROUP, NONE),)
        assert each.next_desk().listed() == []
        assert left_over(each.next_desk()) == []


def test_a_group_that_is_classic_again_keeps_its_record_when_the_rest_is_deleted() -> None:
    config = GroupConfig(records_per_write_max=3, offsets_retention_check_interval_ms=1_000)
    desk = ConsumerDesk(config)
    desk.topics(flights=2)
    (one,) = classic_group(desk, (0, 1), session_timeout_ms=60_000)
    desk.holds_writes = True
    # It is upgraded and downgraded before any of that is stored.
    desk.send("new", 0, topic_names=("flights",), rebalance_timeout_ms=1, owned=frozenset())
    desk.send("new", -1)
    desk.fail_held()
    fail_tombstones(desk)
    assert left_over(desk) == [GROUP]
    desk.advance(1_000)
    assert left_over(desk) == [GROUP], "it is in a rebalance"
    desk.holds_writes = True
    rejoin(desk, one)
    fail_tombstones(desk)
    desk.advance(1_000)
    assert left_over(desk) == []
    assert kinds(desk.next_desk()) == ["classic"]


def test_what_no_write_takes_along_is_deleted_in_time() -> None:
    desk, _ = upgraded_desk()
    desk.holds_writes = True
    desk.send("new", -1)
    fail_tombstones(desk)
    later = desk.next_desk()
    assert left_over(later) == [GROUP]
    later.advance(later.config.offsets_retention_check_interval_ms)
    assert left_over(later) == left_over(later.next_desk()) == []


def test_members_of_a_group_that_gave_way_do_not_come_back_in_the_next_one() -> None:
    desk = ConsumerDesk(GroupConfig(records_per_write_max=2))
    desk.topics(flights=2)
    desk.enter("old")
    desk.holds_writes = True
    # It is gone before that is written, and a classic one comes, too.
    desk.send("old", -1)
    member_id, _ = desk.join_new(protocols=offer())
    while desk.held:
        desk.fail_held()
    desk.holds_writes = False
    desk.leave((member_id, None))
    desk.advance(10_000)
    assert desk.enter("young").error is NONE
    later = desk.next_desk()
    assert set(later.group().members) == {"young"}
    assert left_over(later) == []


def test_a_classic_group_that_could_not_be_deleted_does_not_replace_its_namesake() -> None:
    desk = desk_of(flights=2)
    (one,) = classic_group(desk, (0, 1))
    desk.leave((one, None))
    desk.advance(60_000)
    desk.holds_writes = True
    desk.delete_groups(GROUP)
    token = desk.send("new", 0, topic_names=("flights",), rebalance_timeout_ms=1, owned=frozenset())
    desk.fail_held()
    desk.holds_writes = False
    desk.commit_held()
    assert desk.answer(token).error is NONE
    desk.enter("newer")
    assert kinds(desk.next_desk()) == ["consumer"]


# -- what classic consumers say to one another


def test_subscriptions_are_read_in_every_version() -> None:
    plain = subscription("flights", "trains")
    assert read_subscription(b"\x00\x00" + plain[2:-4]) == (
        ("flights", "trains"),
        frozenset(),
        None,
    )
    owning = offer(1, 2)[0].metadata
    assert read_subscription(owning) == (("flights",), flights(1, 2), None)
    with_rack = b"\x00\x03" + owning[2:] + b"\x00\x00\x00\x05" + b"\x00\x02r1"
    assert read_subscription(with_rack) == (("flights",), flights(1, 2), "r1")
    later = b"\x00\x09" + with_rack[2:] + b"what comes later"
    assert read_subscription(later) == (("flights",), flights(1, 2), "r1")


def test_what_is_cut_short_is_no_subscription_and_no_assignment() -> None:
    owning = offer(1, 2)[0].metadata
    for length in range(len(owning)):
        assert read_subscription(owning[:length]) is None
    assignment = write_assignment([*flights(0, 3), TopicPartition("trains", 1)])
    assert read_assignment(assignment) == flights(0, 3) | {TopicPartition("trains", 1)}
    for length in range(1, len(assignment) - 4):
        assert read_assignment(assignment[:length]) is None
    assert read_assignment(b"") == frozenset()
