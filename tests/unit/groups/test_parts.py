"""The small parts: hash, subscription, timers, protocol votes of a restored group."""

import pytest

from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.group import GroupState, restored_group
from kafkaesque.groups.member import Member
from kafkaesque.groups.records import GroupRecord, MemberRecord
from kafkaesque.groups.subscription import read_subscribed_topics
from kafkaesque.model.coordinator_partition import coordinator_partition, java_string_hash
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.tables.timers import TimerQueue
from tests.unit.groups.desk import subscription


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99_162_322),
        ("Hello, World!", 1_498_789_909),
        ("polygenelubricants", -(2**31)),
        ("console-consumer", -648_006_740),
        ("Gr\u00fc\u00dfe", 69_215_351),
        ("\N{GRINNING FACE}", 31 * 0xD83D + 0xDE00),
        ("\ud800", 0xD800),
    ],
    ids=range(9),
)
def test_a_string_hashes_as_in_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


def test_a_group_belongs_to_the_partition_of_its_absolute_hash() -> None:
    assert coordinator_partition("hello", 50) == 22
    assert coordinator_partition("polygenelubricants", 50) == 0
    assert coordinator_partition("console-consumer", 50) == 40
    assert coordinator_partition("anything", 1) == 0
    with pytest.raises(ValueError, match="partition_count"):
        coordinator_partition("hello", 0)


def test_subscribed_topics_are_read_from_every_version() -> None:
    assert read_subscribed_topics(subscription("a", "b\u00e9")) == ["a", "b\u00e9"]
    assert read_subscribed_topics(subscription()) == []
    assert read_subscribed_topics(b"\x00\x63" + subscription("a")[2:] + b"later") == ["a"]


def test_what_is_no_subscription_tells_no_topics() -> None:
    whole = subscription("topic", "other")
    needed = len(whole) - 4
    for length in range(needed):
        assert read_subscribed_topics(whole[:length]) is None
    assert read_subscribed_topics(whole[:needed]) == ["topic", "other"]
    assert read_subscribed_topics(b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff") is None
    assert read_subscribed_topics(b"\x00\x00\x7f\xff\xff\xff\x00\x00\x00\x00") is None
    assert read_subscribed_topics(b"\x00\x00\x00\x00\x00\x01\x00\x01\xff\x00\x00\x00\x00") is None
    assert read_subscribed_topics(b"\x00\x00\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00") is None
    assert read_subscribed_topics(b"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x05") is None


def test_timers_come_in_order_and_can_be_put_off_pulled_in_and_cancelled() -> None:
    timers: TimerQueue[str] = TimerQueue()
    for key, deadline_ms in [("a", 10), ("b", 20), ("c", 20), ("d", 30), ("e", 40)]:
        timers.schedule(key, deadline_ms)
    timers.schedule("a", 25)
    timers.schedule("e", 5)
    timers.cancel("c")
    timers.cancel("never")
    assert timers.next_deadline_ms() == 5
    assert timers.pop_due(4) is None
    assert [timers.pop_due(29) for _ in range(4)] == ["e", "b", "a", None]
    assert "d" in timers
    assert "a" not in timers
    assert timers.next_deadline_ms() == 30
    assert timers.pop_due(30) == "d"
    assert timers.next_deadline_ms() is None
    assert len(timers) == 0


def test_cancelled_timers_do_not_pile_up() -> None:
    timers: TimerQueue[int] = TimerQueue()
    timers.schedule(-1, 7)
    for key in range(10_000):
        timers.schedule(key, 1_000_000)
        timers.cancel(key)
    assert len(timers._heap) < 100
    assert timers.pop_due(7) == -1


def member_record(member_id: str, instance_id: str | None = None) -> MemberRecord:
    return MemberRecord(
        member_id=member_id,
        instance_id=instance_id,
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        subscription=subscription("t"),
        assignment=b"",
    )


def record(
    *members: MemberRecord, protocol_name: str | None = "range", leader_id: str | None = None
) -> GroupRecord:
    return GroupRecord(
        protocol_type="consumer",
        generation=3,
        protocol_name=protocol_name,
        leader_id=leader_id,
        state_since_wall_ms=-1,
        members=members,
    )


def test_a_stored_group_is_believed_only_as_far_as_it_can_be() -> None:
    group = restored_group("g", record(member_record("a"), leader_id="ghost"))
    assert (group.state, group.leader_id, group.generation) == (GroupState.STABLE, "a", 3)
    assert group.is_subscribed("t")
    assert not group.is_subscribed("u")
    twice = restored_group("g", record(member_record("a", "i"), member_record("b", "i")))
    assert list(twice.members) == ["a"]
    without = restored_group("g", record(member_record("a"), protocol_name=None))
    assert (without.state, without.leader_id) == (GroupState.EMPTY, None)
    assert without.state_since_wall_ms is None


def test_books_that_do_not_add_up_raise() -> None:
    group = restored_group("g", record(member_record("a", "i")))

    def member(member_id: str, instance_id: str | None) -> Member:
        return Member(
            member_id=member_id,
            instance_id=instance_id,
            client_id="c",
            client_host="h",
            rebalance_timeout_ms=1,
            session_timeout_ms=1,
            protocols=(JoinProtocol("range", b""),),
        )

    with pytest.raises(InvariantBroken):
        group.add(member("a", None), "consumer")
    with pytest.raises(InvariantBroken):
        group.add(member("b", "i"), "consumer")
    with pytest.raises(InvariantBroken):
        member("b", None).metadata("sticky")
    with pytest.raises(InvariantBroken):
        member("b", None).vote({"sticky": 1})
