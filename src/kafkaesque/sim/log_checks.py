"""What brokers' logs of a load's topic have to hold: their starts, their sizes, the last values."""

from __future__ import annotations

from collections.abc import Iterator

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.sim.agreement import read_table
from kafkaesque.sim.clients.topic_load import TopicLoad
from kafkaesque.sim.cluster import SimCluster


def check_kept(broker: Broker, load: TopicLoad) -> None:
    """Check that retention has left what it is to leave in logs that a broker leads."""
    if not load.spec.kept_bytes or load.spec.name not in broker.state.topics:
        return
    for state, partition in _partitions(broker, load):
        if partition.is_leader:
            log = partition.log
            load.observations.check_kept(
                state.partition, log.start_offset, log.size_bytes, load.spec.kept_bytes
            )


def check_starts(cluster: SimCluster, load: TopicLoad) -> None:
    """Check where the logs start."""
    for _, broker in cluster.trusted():
        for state, partition in _partitions(broker, load):
            if partition.is_leader:
                load.observations.check_start(state.partition, partition.log_start_offset)


def check_tables(cluster: SimCluster, load: TopicLoad) -> None:
    """Check that compacted logs have the last value of each key."""
    if not load.spec.compacts:
        return
    with cluster.unhindered():
        for name, broker in cluster.trusted():
            for state, partition in _partitions(broker, load):
                start, table = partition.log_start_offset, read_table(partition)
                load.observations.check_table(name, state.partition, table, start)


def _partitions(broker: Broker, load: TopicLoad) -> Iterator[tuple[PartitionState, Partition]]:
    for state in broker.state.topic(load.spec.name).partitions:
        partition = broker.partitions.get(state.group)
        if partition is not None:
            yield state, partition
