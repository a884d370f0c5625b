"""What the controller decides of replicas that are to move (ADR 17).

A move is known by its number, which grows with everything that is asked for. The leader that
carries it out first takes it up: that is a record with the leader's term, and from then on leaders
of earlier terms are refused. So of two that both take themselves for the leader only the later one
changes who is in the group, and only it can say that the move is done.
"""

from collections.abc import Sequence

from kafkaesque.broker.metadata.cluster_state import ClusterState, PartitionState
from kafkaesque.broker.metadata.records import PartitionPlacement, ReplicasChanged
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY
from kafkaesque.broker.requests.commands import (
    FinishMove,
    MoveReplicas,
    MovingPartition,
    Refusal,
    TakeUpMove,
    WantedReplicas,
)
from kafkaesque.model.errors import (
    FencedLeaderEpoch,
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    InvalidRequest,
    NoReassignmentInProgress,
    RequestRefused,
)
from kafkaesque.model.ids import GroupId, NodeId, TopicPartition
from kafkaesque.raft.formation import formation_of

#: Partitions that one request may move.
MOVES_PER_REQUEST_MAX = 10_000
#: Replicas of one partition: the members of a group of which half may be on their way.
REPLICAS_MAX = 100


def plan_moves(
    state: ClusterState, command: MoveReplicas
) -> tuple[list[ReplicasChanged], list[Refusal | None]]:
    """Return the records, and why a partition is refused, for each that was named.

    Raises:
        InvalidRequest: too many are named, or one of them twice.
    """
    if len(command.partitions) > MOVES_PER_REQUEST_MAX:
        raise InvalidRequest(f"a request moves at most {MOVES_PER_REQUEST_MAX} partitions")
    named = {(wanted.topic, wanted.partition) for wanted in command.partitions}
    if len(named) < len(command.partitions):
        raise InvalidRequest("the request names a partition twice")
    records: list[ReplicasChanged] = []
    refusals: list[Refusal | None] = []
    for wanted in command.partitions:
        try:
            placement = _plan_one(state, wanted, may_change_factor=command.may_change_factor)
        except RequestRefused as refusal:
            refusals.append(Refusal(error=type(refusal).__name__, message=str(refusal)))
            continue
        refusals.append(None)
        if placement is not None:
            records.append(ReplicasChanged(placement=placement))
    return records, refusals


def _plan_one(
    state: ClusterState, wanted: WantedReplicas, *, may_change_factor: bool
) -> PartitionPlacement | None:
    partition = state.placed(TopicPartition(wanted.topic, wanted.partition))
    recovery = state.recoveries.get(partition.group)
    if recovery is not None and recovery.is_open:
        raise InvalidRequest(
            f"{partition.topic_partition} is being recovered from its surviving replicas: try again"
            " later"
        )
    if wanted.replicas is None:
        if not partition.is_moving:
            raise NoReassignmentInProgress(f"no replica of {partition.topic_partition} moves")
        return _move(partition, partition.origin)
    target = _checked(state, wanted.replicas)
    if not may_change_factor and len(target) != len(partition.settled):
        raise InvalidReplicationFactor(
            f"{partition.topic_partition} has {len(partition.settled)} replica(s), and the request "
            f"names {len(target)} without allowing that to change"
        )
    if target == partition.wanted:
        return None
    return _move(partition, target)


def _checked(state: ClusterState, replicas: Sequence[int]) -> tuple[NodeId, ...]:
    if not replicas:
        raise InvalidReplicaAssignment("the assignment has no replica")
    if len(replicas) > REPLICAS_MAX:
        raise InvalidReplicaAssignment(f"a partition has at most {REPLICAS_MAX} replicas")
    if len(set(replicas)) < len(replicas):
        raise InvalidReplicaAssignment(f"replicas {list(replicas)} name a broker twice")
    unknown = [node for node in replicas if NodeId(node) not in state.brokers]
    if unknown:
        raise InvalidReplicaAssignment(f"there is no broker {unknown[0]}")
    return tuple(NodeId(node) for node in replicas)


def _move(partition: PartitionState, target: tuple[NodeId, ...]) -> PartitionPlacement:
    """Return the placement in which the replicas begin to become `target`."""
    origin = partition.settled
    # Whoever was to get a copy may have one, and may be a voter already.
    replicas = tuple(dict.fromkeys((*target, *partition.replicas)))
    if not partition.is_moving and sorted(target) == sorted(origin):
        # Nothing moves; only another one is preferred for leading.
        return _settled(partition, target)
    new = [node for node in target if node not in partition.replicas]
    return PartitionPlacement(
        group=partition.group,
        replicas=replicas,
        target=target,
        origin=origin,
        founders=partition.first_voters,
        late=tuple(dict.fromkeys((*partition.late, *new))),
        move=partition.move + 1,
        mover_term=partition.mover_term,
    )


def _settled(partition: PartitionState, replicas: tuple[NodeId, ...]) -> PartitionPlacement:
    return PartitionPlacement(
        group=partition.group,
        replicas=replicas,
        founders=partition.first_voters,
        late=partition.late,
        move=partition.move + 1,
        mover_term=partition.mover_term,
    )


def list_moves(state: ClusterState) -> list[MovingPartition]:
    """Return the partitions whose replicas move, by topic and number."""
    moving = [
        MovingPartition(each.topic, each.partition, each.replicas, each.adding, each.removing)
        for each in state.moving.values()
    ]
    return sorted(moving, key=lambda each: (each.topic, each.partition))


def plan_take_up(state: ClusterState, command: TakeUpMove) -> list[ReplicasChanged]:
    """Return the record by which a leader takes up a move.

    There is one even if nothing changes by it: that it is committed proves to the leader that what
    it knows is what counts.

    Raises:
        NoReassignmentInProgress: this move is over, or another has taken its place.
        FencedLeaderEpoch: a later leader has taken up a move of this partition, or the group has
            been recovered since.
    """
    partition = _moving(state, command.group, command.move)
    _check_formation(state, partition, command.term)
    if command.term < partition.mover_term:
        raise FencedLeaderEpoch(
            f"{partition.topic_partition} has had a leader in term {partition.mover_term}"
        )
    placement = partition.placement()
    return [ReplicasChanged(placement=_with_term(placement, command.term))]


def _with_term(placement: PartitionPlacement, term: int) -> PartitionPlacement:
    return PartitionPlacement(
        group=placement.group,
        replicas=placement.replicas,
        target=placement.target,
        origin=placement.origin,
        founders=placement.founders,
        late=placement.late,
        move=placement.move,
        mover_term=term,
    )


def plan_finish(state: ClusterState, command: FinishMove) -> list[ReplicasChanged]:
    """Return the record by which a move is done.

    Raises:
        NoReassignmentInProgress: this move is over, or another has taken its place.
        FencedLeaderEpoch: another leader has taken it up, or the group has been recovered since.
    """
    partition = _moving(state, command.group, command.move)
    _check_formation(state, partition, command.term)
    if command.term != partition.mover_term:
        raise FencedLeaderEpoch(
            f"the move of {partition.topic_partition} was taken up in term {partition.mover_term}"
        )
    return [ReplicasChanged(placement=_settled(partition, partition.target))]


def _moving(state: ClusterState, group: int, move: int) -> PartitionState:
    partition = state.moving.get(GroupId(group))
    if partition is None or partition.move != move:
        raise NoReassignmentInProgress(f"move {move} of group {group} is over")
    return partition


def _check_formation(state: ClusterState, partition: PartitionState, term: int) -> None:
    """Refuse a leader of before the newest formation: what it has changed may not be in that."""
    formation = state.recoveries.get(partition.group, NO_RECOVERY).formation
    if formation_of(term) < formation:
        raise FencedLeaderEpoch(
            f"{partition.topic_partition} was recovered, or is being recovered: term {term} is over"
        )
