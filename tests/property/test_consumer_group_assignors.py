"""Assignors: what they promise, for any members, topics and history."""

from collections.abc import Mapping
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.groups.consumer import range_assignor, uniform_assignor
from kafkaesque.groups.consumer.assignors import Assignor, Subscriber, subscribers_by_topic
from kafkaesque.groups.consumer.range_assignor import assign_ranges
from kafkaesque.groups.consumer.topics import Partitions, Topic, TopicIdPartition
from kafkaesque.groups.consumer.uniform_assignor import assign_uniformly
from kafkaesque.model.ids import TopicId

RACKS = ("r1", "r2", "r3")
ASSIGNORS = st.sampled_from([assign_uniformly, assign_ranges])
Members = dict[str, Subscriber]
Topics = dict[TopicId, Topic]


def topic(number: int, count: int, racks: tuple[frozenset[str], ...] = ()) -> Topic:
    topic_id = TopicId(number.to_bytes(16, "big"))
    return Topic(name=f"t{number}", topic_id=topic_id, partition_count=count, racks=racks)


@st.composite
def topics(draw: st.DrawFn) -> Topics:
    found = []
    for number in range(draw(st.integers(0, 4))):
        count = draw(st.integers(1, 9))
        some = st.frozensets(st.sampled_from(RACKS), max_size=2)
        racks = draw(st.just(()) | st.lists(some, min_size=count, max_size=count).map(tuple))
        found.append(topic(number, count, racks))
    return {each.topic_id: each for each in found}


@st.composite
def groups(draw: st.DrawFn, *, is_homogeneous: bool | None = None) -> tuple[Members, Topics]:
    """Members with any previous target, also one that cannot have been, and their topics."""
    known = draw(topics())
    ids = sorted(known)
    some = st.frozensets(st.sampled_from(ids)) if ids else st.just(frozenset())
    equals = draw(st.booleans()) if is_homogeneous is None else is_homogeneous
    common = draw(some)
    previous = (
        st.frozensets(
            st.builds(TopicIdPartition, st.sampled_from(ids), st.integers(0, 10)), max_size=12
        )
        if ids
        else st.just(frozenset())
    )
    return {
        f"m{number}": Subscriber(
            topic_ids=common if equals else draw(some),
            rack_id=draw(st.none() | st.sampled_from(RACKS)),
            instance_id=draw(st.none() | st.just(f"i{number}")),
            previous=draw(previous),
        )
        for number in range(draw(st.integers(0, 6)))
    }, known


def after(
    members: Mapping[str, Subscriber], target: Mapping[str, Partitions]
) -> dict[str, Subscriber]:
    """The members, with what they were given as their history."""
    return {
        member_id: Subscriber(
            topic_ids=each.topic_ids,
            rack_id=each.rack_id,
            instance_id=each.instance_id,
            previous=target.get(member_id, frozenset()),
        )
        for member_id, each in members.items()
    }


@given(ASSIGNORS, groups())
def test_every_partition_of_a_subscribed_topic_has_exactly_one_member_who_subscribes(
    assign: Assignor, group: tuple[Members, Topics]
) -> None:
    members, known = group
    target = assign(members, known)
    assert set(target) == set(members)
    given_out = [each for held in target.values() for each in held]
    assert len(given_out) == len(set(given_out))
    wanted = {topic_id for member in members.values() for topic_id in member.topic_ids}
    assert set(given_out) == {each for topic_id in wanted for each in known[topic_id].partitions}
    for member_id, held in target.items():
        assert {each.topic_id for each in held} <= members[member_id].topic_ids


@given(ASSIGNORS, groups())
def test_the_same_input_gives_the_same_target(
    assign: Assignor, group: tuple[Members, Topics]
) -> None:
    members, known = group
    backwards = dict(reversed(members.items()))
    assert assign(members, known) == assign(backwards, dict(reversed(known.items())))


@given(groups(is_homogeneous=True))
def test_uniform_is_balanced_within_one_where_all_subscribe_to_the_same(
    group: tuple[Members, Topics],
) -> None:
    sizes = [len(held) for held in assign_uniformly(*group).values()]
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(groups())
def test_uniform_leaves_no_single_move_that_makes_two_members_more_equal(
    group: tuple[Members, Topics],
) -> None:
    members, known = group
    target = assign_uniformly(members, known)
    for giver, held in target.items():
        for each in held:
            for taker, member in members.items():
                if each.topic_id in member.topic_ids:
                    assert len(held) - len(target[taker]) <= 1, (giver, taker)


@given(ASSIGNORS, groups())
def test_a_target_is_kept_while_nothing_changes(
    assign: Assignor, group: tuple[Members, Topics]
) -> None:
    members, known = group
    target = assign(members, known)
    assert assign(after(members, target), known) == target


@given(groups(is_homogeneous=True), st.data())
def test_uniform_moves_no_more_than_it_must_when_one_member_comes(
    group: tuple[Members, Topics], data: st.DataObject
) -> None:
    members, known = group
    if not members:
        return
    first = next(iter(members.values()))
    target = assign_uniformly(members, known)
    joined = after(members, target)
    joined["new"] = Subscriber(topic_ids=first.topic_ids, rack_id=data.draw(st.sampled_from(RACKS)))
    later = assign_uniformly(joined, known)
    for member_id in members:
        assert later[member_id] <= target[member_id], "only the newcomer gets anything"


@given(groups(is_homogeneous=True), st.data())
def test_uniform_moves_no_more_than_it_must_when_one_member_goes(
    group: tuple[Members, Topics], data: st.DataObject
) -> None:
    members, known = group
    if not members:
        return
    target = assign_uniformly(members, known)
    left = after(members, target)
    del left[data.draw(st.sampled_from(sorted(left)))]
    later = assign_uniformly(left, known)
    for member_id in left:
        assert later[member_id] >= target[member_id], "only what the other one had is given out"


@given(groups(is_homogeneous=True))
def test_uniform_keeps_all_that_balance_lets_it_keep(group: tuple[Members, Topics]) -> None:
    members, known = group
    if not members:
        return
    target = assign_uniformly(members, known)
    claimed: set[TopicIdPartition] = set()
    before: dict[str, Partitions] = {}
    exist = {each for held in target.values() for each in held}
    for member_id in sorted(members):
        before[member_id] = members[member_id].previous & exist - claimed
        claimed |= before[member_id]
    quota, extra = divmod(len(exist), len(members))
    sizes = [len(held) for held in before.values()]
    most = sum(min(size, quota) for size in sizes) + min(extra, sum(s > quota for s in sizes))
    assert sum(len(target[each] & before[each]) for each in members) == most


def test_uniform_lets_those_who_have_one_more_keep_it() -> None:
    known = {each.topic_id: each for each in [topic(1, 5)]}
    five = topic(1, 5).partitions
    previous = {"a": frozenset(five[:2]), "b": frozenset(five[2:])}
    members = {
        name: Subscriber(topic_ids=frozenset(known), previous=held)
        for name, held in previous.items()
    }
    assert assign_uniformly(members, known) == previous


def test_range_puts_newcomers_at_the_end() -> None:
    known = {each.topic_id: each for each in [topic(1, 6)]}
    old = {name: Subscriber(topic_ids=frozenset(known)) for name in ("b", "c")}
    joined = after(old, assign_ranges(old, known))
    joined["a"] = Subscriber(topic_ids=frozenset(known))
    target = assign_ranges(joined, known)
    held = {name: sorted(each.partition for each in target[name]) for name in "abc"}
    assert held == {"b": [0, 1], "c": [2, 3], "a": [4, 5]}


@given(groups())
def test_range_cuts_each_topic_into_consecutive_pieces_of_nearly_equal_size(
    group: tuple[Members, Topics],
) -> None:
    members, known = group
    target = assign_ranges(members, known)
    for topic_id, each in known.items():
        pieces = [
            sorted(held.partition for held in target[member_id] if held.topic_id == topic_id)
            for member_id, member in members.items()
            if topic_id in member.topic_ids
        ]
        if not pieces:
            continue
        sizes = [len(piece) for piece in pieces]
        assert max(sizes) - min(sizes) <= 1
        assert sum(sizes) == each.partition_count
        for piece in pieces:
            assert not piece or piece == list(range(piece[0], piece[-1] + 1))


@given(groups(is_homogeneous=True))
def test_range_gives_the_same_piece_of_topics_with_as_many_partitions(
    group: tuple[Members, Topics],
) -> None:
    members, known = group
    target = assign_ranges(members, known)
    for held in target.values():
        by_count: dict[int, list[list[int]]] = {}
        for topic_id in {topic_id for each in members.values() for topic_id in each.topic_ids}:
            piece = sorted(each.partition for each in held if each.topic_id == topic_id)
            by_count.setdefault(known[topic_id].partition_count, []).append(piece)
        for pieces in by_count.values():
            assert all(piece == pieces[0] for piece in pieces)


def test_uniform_gives_partitions_to_members_in_their_racks_where_balance_allows() -> None:
    racks = tuple(frozenset({RACKS[each // 3]}) for each in range(9))
    known = {each.topic_id: each for each in [topic(1, 9, racks)]}
    members = {f"m{rack}": Subscriber(topic_ids=frozenset(known), rack_id=rack) for rack in RACKS}
    target = assign_uniformly(members, known)
    for rack in RACKS:
        assert all(racks[each.partition] == {rack} for each in target[f"m{rack}"])
        assert len(target[f"m{rack}"]) == 3


def test_uniform_gives_up_what_is_far_away_first() -> None:
    racks = tuple(frozenset({RACKS[each % 2]}) for each in range(6))
    known = {each.topic_id: each for each in [topic(1, 6, racks)]}
    old = Subscriber(
        topic_ids=frozenset(known), rack_id="r1", previous=frozenset(topic(1, 6).partitions)
    )
    new = Subscriber(topic_ids=frozenset(known), rack_id="r2")
    target = assign_uniformly({"old": old, "new": new}, known)
    assert sorted(each.partition for each in target["old"]) == [0, 2, 4]


@pytest.mark.parametrize(
    "racks", [(), tuple(frozenset({RACKS[each % 3]}) for each in range(1_000))]
)
def test_uniform_looks_at_what_a_member_is_to_give_up_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch, racks: tuple[frozenset[str], ...]
) -> None:
    """A newcomer gets half of what the other one has; subscriptions differ."""
    looks = 0
    is_near = uniform_assignor._Pool.is_near

    def counted(pool: Any, member_id: str, partition: TopicIdPartition) -> bool:
        nonlocal looks
        looks += 1
        return is_near(pool, member_id, partition)

    monkeypatch.setattr(uniform_assignor._Pool, "is_near", counted)
    large, small = topic(1, 1_000, racks), topic(2, 1)
    known = {each.topic_id: each for each in (large, small)}
    members = {
        "old": Subscriber(
            topic_ids=frozenset(known), rack_id="r1", previous=frozenset(large.partitions)
        ),
        "new": Subscriber(topic_ids=frozenset({large.topic_id}), rack_id="r2"),
    }
    target = assign_uniformly(members, known)
    assert sorted(map(len, target.values())) == [500, 501]
    # Each partition once for who holds it; the few others for whom there is one at the beginning.
    assert looks <= 1_010
    if racks:
        near = [each for each in target["new"] if racks[each.partition] == {"r2"}]
        assert len(near) == 333, "all of its rack"


def test_topics_with_the_same_subscribers_share_one_list() -> None:
    known = {each.topic_id: each for each in (topic(1, 1), topic(2, 1), topic(3, 1))}
    ids = sorted(known)
    members = {
        "b": Subscriber(topic_ids=frozenset(ids)),
        "a": Subscriber(topic_ids=frozenset(ids[:2])),
        "c": Subscriber(topic_ids=frozenset(ids[:2])),
    }
    found = subscribers_by_topic(["c", "b", "a"], members, known)
    assert found == {ids[0]: ["c", "b", "a"], ids[1]: ["c", "b", "a"], ids[2]: ["b"]}
    assert found[ids[0]] is found[ids[1]]


@given(ASSIGNORS, groups())
def test_bounds_of_work_cost_no_partition(assign: Assignor, group: tuple[Members, Topics]) -> None:
    members, known = group
    with (
        mock.patch.object(uniform_assignor, "_EVENING_WORK_MAX", 0),
        mock.patch.object(range_assignor, "_CONSTRAINTS_MAX", 0),
    ):
        target = assign(members, known)
    given_out = [each for held in target.values() for each in held]
    assert len(given_out) == len(set(given_out))
    whole = [each for held in assign(members, known).values() for each in held]
    assert set(given_out) == set(whole)


def test_range_goes_by_names_where_the_order_would_take_too_long_to_find() -> None:
    known = {each.topic_id: each for each in [topic(1, 2)]}
    two = topic(1, 2).partitions
    members = {
        "a": Subscriber(topic_ids=frozenset(known), previous=frozenset(two[1:])),
        "b": Subscriber(topic_ids=frozenset(known), previous=frozenset(two[:1])),
    }
    assert assign_ranges(members, known)["a"] == frozenset(two[1:])
    with mock.patch.object(range_assignor, "_CONSTRAINTS_MAX", 1):
        assert assign_ranges(members, known)["a"] == frozenset(two[:1])
