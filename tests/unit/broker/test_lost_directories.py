"""The metadata tell which replicas a broker may have had and lost."""

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.records import (
    BrokerRegistered,
    BrokerRemoved,
    PartitionPlacement,
    TopicCreated,
)
from kafkaesque.model.ids import GroupId, NodeId

ONE = NodeId(1)


def register(state: ClusterState, directory_id: str, incarnation: int = 1) -> None:
    state.apply(
        BrokerRegistered(
            node=1,
            host="h",
            kafka_port=1,
            text_port=0,
            peer_host="h",
            peer_port=2,
            incarnation=incarnation,
            directory_id=directory_id,
        )
    )


def create(state: ClusterState, name: str) -> GroupId:
    group = GroupId(state.next_group)
    placement = PartitionPlacement(group=group, replicas=(1,))
    state.apply(TopicCreated(name=name, topic_id=name.encode(), partitions=(placement,)))
    return group


def test_only_what_was_placed_after_the_directory_was_registered_is_new() -> None:
    state = ClusterState()
    assert state.may_have_lost(ONE, "a", GroupId(1)), "not registered"
    register(state, "a")
    first = create(state, "first")
    register(state, "a", incarnation=2)
    assert not state.may_have_lost(ONE, "a", first), "the same directory, started again"
    assert state.may_have_lost(ONE, "b", first), "another one is registered"
    register(state, "b")
    second = create(state, "second")
    assert state.may_have_lost(ONE, "b", first)
    assert not state.may_have_lost(ONE, "b", second)
    assert state.may_have_lost(ONE, "a", second)


def test_snapshots_keep_that_and_old_ones_are_taken_with_care() -> None:
    state = ClusterState()
    register(state, "a")
    first = create(state, "first")
    register(state, "b")
    second = create(state, "second")
    copy = ClusterState.read_snapshot(state.write_snapshot())
    assert copy.may_have_lost(ONE, "b", first)
    assert not copy.may_have_lost(ONE, "b", second)
    state.first_groups.clear()
    old = ClusterState.read_snapshot(state.write_snapshot())
    assert old.may_have_lost(ONE, "b", second)
    assert not old.may_have_lost(ONE, "b", create(old, "third"))


def test_a_removed_broker_begins_anew() -> None:
    state = ClusterState()
    register(state, "a")
    group = create(state, "first")
    state.apply(BrokerRemoved(node=1))
    register(state, "a")
    assert state.may_have_lost(ONE, "a", group)
