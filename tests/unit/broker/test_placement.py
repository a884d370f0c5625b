"""Placement: different brokers, different racks, an even spread."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.broker.placement import place_partitions
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
