"""Whether all copies in a cluster vote and are in sync, seen from inside."""

from collections.abc import Collection, Mapping, Sequence

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.metadata.controller_planner import wanted_controllers
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.model.ids import NodeId


def find_lacking(brokers: Sequence[Broker]) -> str | None:
    """Return what is not whole: a partition, or the controllers' log; None if all is."""
    deciding = next((each for each in brokers if each.controller.is_leader), None)
    if deciding is None:
        return "the controllers' log"
    founders = deciding.controller_voters.facts().founders
    controllers = wanted_controllers(deciding.state, founders)
    if not _is_whole({e.node: e.controller_voters.replica for e in brokers}, controllers):
        return "the controllers' log"
    for state in deciding.state.partitions_by_group.values():
        found = {each.node: each.partitions.get(state.group) for each in brokers}
        replicas = {node: each.replica for node, each in found.items() if each is not None}
        if not _is_whole(replicas, state.wanted):
            return str(state.topic_partition)
    return None


def _is_whole(replicas: Mapping[NodeId, Replica | None], wanted: Collection[NodeId]) -> bool:
    cores = [each.core for each in map(replicas.get, wanted) if each is not None]
    leader = next((core for core in cores if core.is_leader), None)
    if leader is None or len(cores) < len(wanted):
        return False
    return (
        leader.is_settled
        and set(leader.in_sync) >= set(wanted)
        and all(not core.amnesia and core.term == leader.term for core in cores)
    )
