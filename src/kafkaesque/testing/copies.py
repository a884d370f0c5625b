"""Whether all copies in a cluster may vote and have what is committed, seen from inside."""

from collections.abc import Collection, Iterator, Sequence

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.controller_planner import wanted_controllers
from kafkaesque.broker.raft_replica import Replica
from kafkaesque.model.ids import NodeId


def are_copies_whole(brokers: Sequence[Broker]) -> bool:
    """Tell whether every group, the controllers' too, has a leader and all its copies back."""
    deciding = next((each for each in brokers if each.controller.is_leader), None)
    if deciding is None:
        return False
    return all(_is_whole(replicas, wanted) for wanted, replicas in _groups(deciding, brokers))


def _groups(
    deciding: Broker, brokers: Sequence[Broker]
) -> Iterator[tuple[Collection[NodeId], dict[NodeId, Replica | None]]]:
    """Yield, for each group, who is to vote and the replicas that there are."""
    founders = deciding.controller_voters.facts().founders
    wanted = wanted_controllers(deciding.state, founders)
    yield wanted, {each.node: each.controller_voters.replica for each in brokers}
    for state in deciding.state.partitions_by_group.values():
        found = {each.node: each.partitions.get(state.group) for each in brokers}
        yield (
            state.wanted,
            {node: each.replica if each is not None else None for node, each in found.items()},
        )


def _is_whole(replicas: dict[NodeId, Replica | None], wanted: Collection[NodeId]) -> bool:
    cores = [each.core for each in map(replicas.get, wanted) if each is not None]
    leader = next((core for core in cores if core.is_leader), None)
    if leader is None or len(cores) < len(wanted):
        return False
    return (
        leader.is_settled
        and set(leader.configuration.voters) == set(wanted)
        and set(leader.in_sync) >= set(wanted)
        and all(
            not core.amnesia
            and core.term == leader.term
            and core.log.last_index >= leader.commit_index
            for core in cores
        )
    )
