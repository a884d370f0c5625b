"""Moves of replicas as the controller decides them: what is taken, refused, and fenced."""

import pytest

from kafkaesque.broker.metadata.cluster_state import ClusterState, PartitionState
from kafkaesque.broker.metadata.features import METADATA
from kafkaesque.broker.requests.commands import (
    ControllerResult,
    CreateTopic,
    DeleteTopic,
    FinishMove,
    MoveReplicas,
    MovesResult,
    RaiseFeature,
    RegisterBroker,
    TakeUpMove,
    WantedReplicas,
)
from kafkaesque.model.errors import FencedLeaderEpoch, InvalidRequest, NoReassignmentInProgress
from tests.unit.broker.test_planner import Cluster


class Moving(Cluster):
    """Five brokers, and a topic of one partition on the first three."""

    def __init__(self) -> None:
        super().__init__(5)
        for node, known in list(self.state.brokers.items()):
            self.do(
                RegisterBroker(
                    node=node,
                    host=known.host,
                    kafka_port=1,
                    text_port=2,
                    peer_host="h",
                    peer_port=3,
                    rack=None,
                    incarnation=9,
                    features={METADATA: (1, 2)},
                )
            )
        self.do(RaiseFeature(name=METADATA, level=2))
        self.do(CreateTopic(name="t", assignments=[[1, 2, 3]]))

    @property
    def partition(self) -> PartitionState:
        return self.state.topic("t").partitions[0]

    def move(self, replicas: list[int] | None, *, may_change_factor: bool = True) -> str | None:
        wanted = [WantedReplicas(topic="t", partition=0, replicas=replicas)]
        found = self.do(MoveReplicas(partitions=wanted, may_change_factor=may_change_factor))
        assert isinstance(found, MovesResult)
        (refusal,) = found.refusals
        return refusal.error if refusal is not None else None

    def take_up(self, term: int, move: int | None = None) -> ControllerResult:
        number = self.partition.move if move is None else move
        return self.do(TakeUpMove(group=self.partition.group, move=number, term=term))

    def finish(self, term: int, move: int | None = None) -> ControllerResult:
        number = self.partition.move if move is None else move
        return self.do(FinishMove(group=self.partition.group, move=number, term=term))


@pytest.fixture
def cluster() -> Moving:
    return Moving()


def test_a_move_adds_what_is_new_and_keeps_what_is_old_until_it_is_done(cluster: Moving) -> None:
    assert cluster.move([4, 2, 5]) is None
    found = cluster.partition
    assert found.replicas == (4, 2, 5, 1, 3)
    assert (found.adding, found.removing) == ((4, 5), (1, 3))
    assert found.first_voters == (1, 2, 3)
    assert found.late == (4, 5)
    assert list(cluster.state.moving) == [found.group]
    cluster.take_up(term=7)
    cluster.finish(term=7)
    found = cluster.partition
    assert found.replicas == found.wanted == found.settled == (4, 2, 5)
    assert cluster.state.moving == {}
    assert found.first_voters == (1, 2, 3), "an empty log begins with the group's first voters"


def test_a_move_that_is_stopped_goes_back_to_where_it_was(cluster: Moving) -> None:
    cluster.move([4, 5])
    assert cluster.move(None) is None
    assert cluster.partition.target == (1, 2, 3)
    assert set(cluster.partition.replicas) == {1, 2, 3, 4, 5}, "4 and 5 may vote already"
    cluster.take_up(term=2)
    cluster.finish(term=2)
    assert cluster.partition.replicas == (1, 2, 3)


def test_a_move_may_be_aimed_elsewhere(cluster: Moving) -> None:
    cluster.move([4, 2, 3])
    cluster.move([5, 2, 3])
    assert cluster.partition.settled == (1, 2, 3)
    assert set(cluster.partition.replicas) == {1, 2, 3, 4, 5}
    assert cluster.partition.adding == (5,)
    assert cluster.partition.removing == (4, 1)


def test_who_was_removed_and_comes_back_is_late(cluster: Moving) -> None:
    for target in ([1, 2, 4], [1, 2, 3]):
        cluster.move(target)
        cluster.take_up(term=3)
        cluster.finish(term=3)
    assert cluster.partition.late == (4, 3)


def test_another_order_of_the_same_replicas_takes_no_move(cluster: Moving) -> None:
    assert cluster.move([3, 1, 2]) is None
    assert cluster.partition.replicas == (3, 1, 2)
    assert not cluster.state.moving
    assert cluster.partition.first_voters == (1, 2, 3)


@pytest.mark.parametrize(
    ("replicas", "error"),
    [
        (None, "NoReassignmentInProgress"),
        ([], "InvalidReplicaAssignment"),
        ([1, 1], "InvalidReplicaAssignment"),
        ([1, 9], "InvalidReplicaAssignment"),
    ],
)
def test_what_cannot_be_is_refused(cluster: Moving, replicas: list[int] | None, error: str) -> None:
    before = cluster.state.write_snapshot()
    assert cluster.move(replicas) == error
    assert cluster.state.write_snapshot() == before


def test_the_number_of_replicas_stays_where_the_client_does_not_mean_to_change_it(
    cluster: Moving,
) -> None:
    assert cluster.move([4, 5], may_change_factor=False) == "InvalidReplicationFactor"
    assert cluster.move([4, 5, 1], may_change_factor=False) is None


def test_each_partition_is_refused_by_itself(cluster: Moving) -> None:
    wanted = [
        WantedReplicas(topic="other", partition=0, replicas=[1]),
        WantedReplicas(topic="t", partition=0, replicas=[4]),
        WantedReplicas(topic="t", partition=1, replicas=[4]),
    ]
    found = cluster.do(MoveReplicas(partitions=wanted))
    assert isinstance(found, MovesResult)
    errors = [each.error if each is not None else None for each in found.refusals]
    assert errors == ["UnknownTopicOrPartition", None, "UnknownTopicOrPartition"]
    with pytest.raises(InvalidRequest):
        cluster.do(MoveReplicas(partitions=[wanted[1], wanted[1]]))


def test_a_deposed_leader_neither_moves_nor_finishes(cluster: Moving) -> None:
    cluster.move([1, 2, 4])
    cluster.take_up(term=5)
    cluster.take_up(term=6)
    for refused in (cluster.finish, cluster.take_up):
        with pytest.raises(FencedLeaderEpoch):
            refused(5)
    cluster.finish(term=6)


def test_the_word_of_an_earlier_move_does_not_end_a_later_one(cluster: Moving) -> None:
    cluster.move([1, 2, 4])
    cluster.take_up(term=5)
    first = cluster.partition.move
    cluster.move(None)
    cluster.take_up(term=5)
    cluster.move([1, 2, 4])
    cluster.take_up(term=5)
    with pytest.raises(NoReassignmentInProgress):
        cluster.finish(term=5, move=first)
    assert cluster.partition.is_moving


def test_terms_are_remembered_between_moves(cluster: Moving) -> None:
    cluster.move([1, 2, 4])
    cluster.take_up(term=8)
    cluster.finish(term=8)
    cluster.move([1, 2, 3])
    with pytest.raises(FencedLeaderEpoch):
        cluster.take_up(term=7)


def test_a_snapshot_holds_moves_under_way_and_what_they_leave(cluster: Moving) -> None:
    cluster.move([4, 2, 5])
    cluster.take_up(term=7)
    restored = ClusterState.read_snapshot(cluster.state.write_snapshot())
    found = restored.topic("t").partitions[0]
    assert found.placement() == cluster.partition.placement()
    assert list(restored.moving) == [found.group]


def test_a_deleted_topic_does_not_move(cluster: Moving) -> None:
    cluster.move([4, 2, 5])
    cluster.do(DeleteTopic(name="t"))
    assert not cluster.state.moving
