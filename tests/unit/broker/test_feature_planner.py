"""Feature levels: a new cluster's, raising one, and brokers that do not know it."""

import pytest

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.features import KNOWN, METADATA
from kafkaesque.broker.requests.commands import (
    CreateTopic,
    MoveReplicas,
    RaiseFeature,
    RegisterBroker,
    WantedReplicas,
)
from kafkaesque.model.errors import FeatureUpdateFailed, InvalidFeatureLevel
from tests.unit.broker.test_planner import Cluster


def register(cluster: Cluster, node: int, features: dict[str, tuple[int, int]]) -> None:
    cluster.do(
        RegisterBroker(
            node=node,
            host="h",
            kafka_port=1,
            text_port=2,
            peer_host="h",
            peer_port=3,
            rack=None,
            incarnation=9,
            features=features,
        )
    )


def test_a_new_cluster_has_the_highest_level_that_its_first_broker_knows() -> None:
    cluster = Cluster(0)
    register(cluster, 1, dict(KNOWN))
    assert cluster.state.level(METADATA) == KNOWN[METADATA][1]
    restored = ClusterState.read_snapshot(cluster.state.write_snapshot())
    assert restored.features == cluster.state.features
    assert restored.features_epoch == cluster.state.features_epoch == 1


def test_a_broker_that_does_not_know_the_level_is_refused() -> None:
    cluster = Cluster(0)
    register(cluster, 1, dict(KNOWN))
    with pytest.raises(FeatureUpdateFailed, match="broker 2 supports levels 1 to 1"):
        register(cluster, 2, {})
    assert 2 not in cluster.state.brokers


def test_two_releases_run_side_by_side_at_the_lower_level() -> None:
    cluster = Cluster(2)  # of a release that says nothing
    register(cluster, 2, dict(KNOWN))
    assert cluster.state.level(METADATA) == 1
    cluster.do(CreateTopic(name="t", assignments=[[1]]))
    wanted = [WantedReplicas(topic="t", partition=0, replicas=[2])]
    with pytest.raises(FeatureUpdateFailed, match="kafkaesque cluster upgrade"):
        cluster.do(MoveReplicas(partitions=wanted))
    with pytest.raises(InvalidFeatureLevel, match="broker 1 supports levels 1 to 1"):
        cluster.do(RaiseFeature(name=METADATA, level=2))
    register(cluster, 1, dict(KNOWN))
    cluster.do(RaiseFeature(name=METADATA, level=2, validate_only=True))
    assert cluster.state.level(METADATA) == 1
    cluster.do(RaiseFeature(name=METADATA, level=2))
    cluster.do(MoveReplicas(partitions=wanted))


def test_a_level_does_not_go_back() -> None:
    cluster = Cluster(0)
    register(cluster, 1, dict(KNOWN))
    with pytest.raises(InvalidFeatureLevel, match="does not go back to 1"):
        cluster.do(RaiseFeature(name=METADATA, level=1))
    with pytest.raises(InvalidFeatureLevel, match="there is no feature 'other'"):
        cluster.do(RaiseFeature(name="other", level=1))
