"""Members of share groups: who joins, who is fenced, and who reads what."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.groups.consumer.topics import TopicIdPartition
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.share.assignor import assign
from kafkaesque.groups.share.group import (
    JOINS,
    LEAVES,
    ShareGroup,
    ShareHeartbeat,
    ShareHeartbeatResult,
)
from kafkaesque.model.ids import TopicId

IDS = {name: TopicId(name.encode() * 16) for name in "abc"}
SESSION_MS = 45_000
INTERVAL_MS = 1_000
MEMBERS_MAX = 3


def topics(**counts: int) -> dict[str, tuple[TopicId, int]]:
    return {name: (IDS[name], count) for name, count in counts.items()}


def beat(
    group: ShareGroup,
    member: str,
    epoch: int,
    *names: str,
    now_ms: int = 0,
    there: dict[str, tuple[TopicId, int]] | None = None,
    interval_ms: int = 0,
) -> ShareHeartbeatResult:
    asked = ShareHeartbeat(
        group_id="g",
        member_id=member,
        member_epoch=epoch,
        rack_id=None,
        topic_names=frozenset(names) if names else None,
        client_id="c",
        client_host="/h",
    )
    return group.heartbeat(
        asked,
        topics(a=2) if there is None else there,
        now_ms=now_ms,
        session_ms=SESSION_MS,
        interval_ms=interval_ms,
        members_max=MEMBERS_MAX,
    )


def of_a(*numbers: int) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(IDS["a"], number) for number in numbers)


def test_members_share_partitions_and_are_told_of_changes_once() -> None:
    group = ShareGroup("g")
    joined = beat(group, "m1", JOINS, "a")
    assert (joined.error, joined.assignment) == (GroupError.NONE, of_a(0, 1))
    assert beat(group, "m1", joined.member_epoch).assignment is None
    beat(group, "m2", JOINS, "a")
    changed = beat(group, "m1", joined.member_epoch)
    assert changed.member_epoch > joined.member_epoch
    assert changed.assignment is not None
    assert len(changed.assignment) == 1
    assert beat(group, "m1", changed.member_epoch).assignment is None


def test_more_members_than_partitions_read_one_together() -> None:
    group = ShareGroup("g")
    found = [beat(group, f"m{number}", JOINS, "a", there=topics(a=1)) for number in range(3)]
    assert [each.assignment for each in found] == [of_a(0)] * 3


def test_a_member_that_has_lost_an_answer_is_told_again() -> None:
    group = ShareGroup("g")
    joined = beat(group, "m1", JOINS, "a")
    beat(group, "m2", JOINS, "a")
    lost = beat(group, "m1", joined.member_epoch)
    again = beat(group, "m1", joined.member_epoch)
    assert again == lost


def test_who_is_not_known_or_is_elsewhere_is_told_so() -> None:
    group = ShareGroup("g")
    assert beat(group, "m1", 5).error is GroupError.UNKNOWN_MEMBER_ID
    assert beat(group, "m1", LEAVES).error is GroupError.UNKNOWN_MEMBER_ID
    joined = beat(group, "m1", JOINS, "a")
    assert beat(group, "m1", joined.member_epoch + 7).error is GroupError.FENCED_MEMBER_EPOCH
    for number in range(2, MEMBERS_MAX + 1):
        beat(group, f"m{number}", JOINS, "a")
    assert beat(group, "late", JOINS, "a").error is GroupError.GROUP_MAX_SIZE_REACHED


def test_who_leaves_or_is_silent_loses_its_partitions_to_others() -> None:
    group = ShareGroup("g")
    beat(group, "m1", JOINS, "a")
    second = beat(group, "m2", JOINS, "a")
    assert beat(group, "m1", LEAVES) == ShareHeartbeatResult(GroupError.NONE, LEAVES)
    assert beat(group, "m2", second.member_epoch).assignment == of_a(0, 1)
    assert group.state == "Stable"
    group.expire(SESSION_MS)
    assert group.state == "Empty"


def test_members_that_come_soon_after_an_assignment_wait_for_the_next_one() -> None:
    group = ShareGroup("g")

    def beat_at(now_ms: int, member: str, epoch: int, *names: str) -> ShareHeartbeatResult:
        return beat(group, member, epoch, *names, now_ms=now_ms, interval_ms=INTERVAL_MS)

    first = beat_at(0, "m1", JOINS, "a")
    assert (first.assignment, first.again_ms) == (of_a(0, 1), None)
    second = beat_at(100, "m2", JOINS, "a")
    assert (second.assignment, second.again_ms) == (frozenset(), 900)
    assert second.member_epoch == first.member_epoch
    # Nothing is taken from who is there, until then.
    same = beat_at(999, "m1", first.member_epoch)
    assert (same.assignment, same.again_ms) == (None, 1)
    given = beat_at(1_000, "m2", second.member_epoch)
    assert (given.assignment, given.again_ms) == (of_a(1), None)
    assert beat_at(1_000, "m1", first.member_epoch).assignment == of_a(0)
    # Who has left is considered by the next one, too.
    beat_at(1_500, "m1", LEAVES)
    left = beat_at(1_600, "m2", given.member_epoch)
    assert (left.assignment, left.again_ms) == (None, 400)
    assert beat_at(2_000, "m2", given.member_epoch).assignment == of_a(0, 1)


def test_members_do_not_wait_where_nobody_has_anything_yet() -> None:
    group, none = ShareGroup("g"), topics(a=0)
    for at, member in enumerate(("m1", "m2")):
        joined = beat(group, member, JOINS, "a", there=none, now_ms=at, interval_ms=INTERVAL_MS)
        assert (joined.assignment, joined.again_ms) == (frozenset(), None)
    epoch = joined.member_epoch
    given = beat(group, "m2", epoch, now_ms=2, interval_ms=INTERVAL_MS)
    assert given.assignment == of_a(1)


def test_members_do_not_wait_where_all_that_had_anything_are_gone() -> None:
    group = ShareGroup("g")
    beat(group, "m1", JOINS, "a", interval_ms=INTERVAL_MS)
    second = beat(group, "m2", JOINS, "a", now_ms=100, interval_ms=INTERVAL_MS)
    assert second.assignment == frozenset()
    beat(group, "m1", LEAVES, now_ms=200, interval_ms=INTERVAL_MS)
    given = beat(group, "m2", second.member_epoch, now_ms=300, interval_ms=INTERVAL_MS)
    assert (given.assignment, given.again_ms) == (of_a(0, 1), None)


def test_a_topic_that_grows_is_assigned_anew() -> None:
    group = ShareGroup("g")
    joined = beat(group, "m1", JOINS, "a", there=topics(a=0))
    assert joined.assignment == frozenset()
    grown = beat(group, "m1", joined.member_epoch, there=topics(a=2))
    assert grown.assignment == of_a(0, 1)


@given(
    st.dictionaries(st.text("mn", min_size=1, max_size=4), st.frozensets(st.sampled_from("abcx"))),
    st.dictionaries(st.sampled_from("abc"), st.integers(0, 9)),
)
def test_every_wanted_partition_has_a_member_and_every_member_has_one(
    subscriptions: dict[str, frozenset[str]], counts: dict[str, int]
) -> None:
    there = topics(**counts)
    found = assign(subscriptions, there)
    assert set(found) == set(subscriptions)
    for name, (topic_id, count) in there.items():
        members = [each for each, names in subscriptions.items() if name in names]
        read = [
            each.partition
            for member in members
            for each in found[member]
            if each.topic_id == topic_id
        ]
        if members:
            assert set(read) == set(range(count))
            assert len(read) <= max(len(members), count)
        for member in members:
            assert count == 0 or any(each.topic_id == topic_id for each in found[member])
    for member, partitions in found.items():
        wanted = {IDS[name] for name in subscriptions[member] if name in IDS}
        assert {each.topic_id for each in partitions} <= wanted
