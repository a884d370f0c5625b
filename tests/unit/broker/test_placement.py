"""Placement: different brokers, different racks, an even spread."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.metadata.placement import place_partitions, plan_balance, plan_drain
from kafkaesque.model.errors import InvalidReplicationFactor
from kafkaesque.model.ids import NodeId


def _racks(*racks: str | None) -> dict[NodeId, str | None]:
    return {NodeId(number + 1): rack for number, rack in enumerate(racks)}


@given(
    brokers=st.integers(1, 9),
    factor=st.integers(1, 9),
    count=st.integers(1, 60),
    start=st.integers(0, 1000),
)
def test_replicas_are_on_different_brokers_and_leaders_are_even(
    brokers: int, factor: int, count: int, start: int
) -> None:
    racks = _racks(*[None] * brokers)
    if factor > brokers:
        with pytest.raises(InvalidReplicationFactor):
            place_partitions(
                racks=racks,
                existing=[],
                partition_count=count,
                replication_factor=factor,
                start=start,
            )
        return
    placed = place_partitions(
        racks=racks, existing=[], partition_count=count, replication_factor=factor, start=start
    )
    assert len(placed) == count
    assert all(len(set(replicas)) == factor for replicas in placed)
    leads = Counter(replicas[0] for replicas in placed)
    assert max(leads.values()) - min(leads.get(node, 0) for node in racks) <= 1
    holds = Counter(node for replicas in placed for node in replicas)
    assert max(holds.values()) - min(holds.get(node, 0) for node in racks) <= 2


@given(away=st.sets(st.integers(1, 5), max_size=5), factor=st.integers(1, 6))
def test_brokers_that_are_away_get_replicas_only_where_they_must(
    away: set[int], factor: int
) -> None:
    racks = _racks("a", "b", "a", None, "b")
    running = len(racks) - len(away)

    def place() -> list[tuple[NodeId, ...]]:
        return place_partitions(
            racks=racks,
            existing=[(NodeId(1), NodeId(2))],
            partition_count=7,
            replication_factor=factor,
            start=3,
            away=[NodeId(node) for node in away],
        )

    if factor > len(racks) or running <= factor / 2:
        with pytest.raises(InvalidReplicationFactor, match=f"{running} broker"):
            place()
        return
    for replicas in place():
        assert len(set(replicas)) == factor
        assert replicas[0] not in away
        assert len(away.intersection(replicas)) == max(0, factor - running)


def test_each_partition_spans_all_racks_that_there_are() -> None:
    racks = _racks("a", "a", "b", "b", "c", "c")
    placed = place_partitions(
        racks=racks, existing=[], partition_count=30, replication_factor=3, start=7
    )
    assert all({racks[node] for node in replicas} == {"a", "b", "c"} for replicas in placed)


def test_new_partitions_go_where_there_are_few() -> None:
    racks = _racks(None, None, None)
    existing = [(NodeId(1), NodeId(2))] * 10
    placed = place_partitions(
        racks=racks, existing=existing, partition_count=2, replication_factor=1, start=0
    )
    assert NodeId(1) not in [replicas[0] for replicas in placed]


def test_topics_of_one_partition_do_not_all_begin_at_the_first_broker() -> None:
    racks = _racks(None, None, None)
    leaders = {
        place_partitions(
            racks=racks, existing=[], partition_count=1, replication_factor=1, start=start
        )[0][0]
        for start in range(3)
    }
    assert leaders == set(racks)


_PLACED = st.integers(2, 7).flatmap(
    lambda brokers: st.tuples(
        st.just(brokers),
        st.lists(
            st.lists(st.integers(1, brokers), min_size=1, max_size=3, unique=True), max_size=40
        ),
    )
)


@given(drawn=_PLACED)
def test_a_drained_broker_holds_nothing_and_the_others_keep_their_places(
    drawn: tuple[int, list[list[int]]],
) -> None:
    brokers, lists = drawn
    placed = {number: tuple(map(NodeId, each)) for number, each in enumerate(lists)}
    racks = _racks(*[None] * brokers)
    if any(len(each) == brokers for each in lists):
        if any(1 in each and len(each) == brokers for each in lists):
            with pytest.raises(InvalidReplicationFactor):
                plan_drain(NodeId(1), placed, racks)
        return
    moves = plan_drain(NodeId(1), placed, racks)
    assert set(moves) == {number for number, each in placed.items() if 1 in each}
    for number, target in moves.items():
        assert 1 not in target
        assert len(set(target)) == len(placed[number])
        differing = [at for at, node in enumerate(placed[number]) if target[at] != node]
        assert [placed[number][at] for at in differing] == [1]


def test_what_is_drained_goes_to_another_rack_than_the_rest() -> None:
    racks = _racks("a", "b", "b", "c")
    assert plan_drain(NodeId(1), {"t": (NodeId(1), NodeId(2))}, racks) == {"t": (4, 2)}


@given(drawn=_PLACED)
def test_a_balanced_cluster_is_even_and_stays_as_it_is(drawn: tuple[int, list[list[int]]]) -> None:
    brokers, lists = drawn
    placed = {number: tuple(map(NodeId, each)) for number, each in enumerate(lists)}
    racks = _racks(*[None] * brokers)
    moves = plan_balance(placed, racks, lambda _: 0)
    after = {**placed, **moves}
    assert all(len(set(after[number])) == len(each) for number, each in placed.items())
    holds = Counter(node for replicas in after.values() for node in replicas)
    before = Counter(node for replicas in placed.values() for node in replicas)
    assert max(holds.values(), default=0) <= max(before.values(), default=0)
    if all(len(each) == 1 for each in lists):
        spread = [holds.get(node, 0) for node in racks]
        assert max(spread) - min(spread) <= 1


def test_a_new_broker_gets_its_share_and_leads_it() -> None:
    nodes = [NodeId(1), NodeId(2), NodeId(3)]
    placed = {number: tuple(nodes[(number + at) % 3] for at in range(2)) for number in range(12)}
    after = {**placed, **plan_balance(placed, _racks(None, None, None, None), lambda _: 0)}
    holds = Counter(node for replicas in after.values() for node in replicas)
    leads = Counter(replicas[0] for replicas in after.values())
    assert max(holds.values()) - min(holds.values()) <= 1
    assert max(leads.values()) - min(leads[NodeId(node)] for node in range(1, 5)) <= 1


@pytest.mark.parametrize("first", [("a", 3), ("offsets", 50)])
def test_a_small_topic_stays_spread_beside_a_large_one(first: tuple[str, int]) -> None:
    sizes = dict([first, ("offsets", 50), ("a", 3)])
    placed: dict[tuple[str, int], tuple[NodeId, ...]] = {}
    racks = _racks(None, None, None)
    for topic, count in sizes.items():
        lists = place_partitions(
            racks=racks,
            existing=list(placed.values()),
            partition_count=count,
            replication_factor=3,
            start=0,
        )
        placed.update({(topic, number): each for number, each in enumerate(lists)})
    moves = plan_balance(placed, _racks(None, None, None, None, None), lambda key: key[0])
    after = {**placed, **moves}
    leads = Counter(replicas[0] for replicas in after.values())
    assert max(leads.values()) - min(leads[NodeId(node)] for node in range(1, 6)) <= 1
    assert len({after["a", number][0] for number in range(3)}) == 3
    held = Counter(node for number in range(3) for node in after["a", number])
    assert max(held.values()) <= 2
