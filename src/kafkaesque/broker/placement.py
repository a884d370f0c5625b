"""Where the replicas of new partitions go.

Replicas of one partition are on different brokers and, as far as there are enough, on different
racks. Leaders (the first replica) and replicas are spread evenly: every choice goes to the broker
that leads, or holds, the fewest so far; equals are taken in turn from a starting point that the
caller draws, so that topics of one partition do not all land on broker 1.
"""

from collections.abc import Mapping, Sequence

from kafkaesque.model.errors import InvalidReplicationFactor
from kafkaesque.model.ids import NodeId


def place_partitions(
    *,
    racks: Mapping[NodeId, str | None],
    existing: Sequence[Sequence[NodeId]],
    partition_count: int,
    replication_factor: int,
    start: int,
) -> list[tuple[NodeId, ...]]:
    """Return the replicas of each new partition, the preferred leader first.

    Args:
        racks: the brokers that may be used, each with its rack.
        existing: replica lists that are there already, for the balance.
        partition_count: how many partitions to place.
        replication_factor: replicas of each.
        start: breaks ties; any number.

    Raises:
        InvalidReplicationFactor: fewer brokers than replicas, or less than one replica.
    """
    if not 1 <= replication_factor <= len(racks):
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} is not possible with "
            f"{len(racks)} broker(s) alive"
        )
    order = sorted(racks)
    turn = {node: (position - start) % len(order) for position, node in enumerate(order)}
    leads = dict.fromkeys(order, 0)
    holds = dict.fromkeys(order, 0)
    for replicas in existing:
        _count(replicas, leads, holds)
    placed: list[tuple[NodeId, ...]] = []
    for number in range(partition_count):
        replicas = _place_one(order, racks, leads, holds, turn, number, replication_factor)
        _count(replicas, leads, holds)
        placed.append(replicas)
    return placed


def _count(replicas: Sequence[NodeId], leads: dict[NodeId, int], holds: dict[NodeId, int]) -> None:
    for position, node in enumerate(replicas):
        if node not in holds:
            continue
        holds[node] += 1
        if position == 0:
            leads[node] += 1


def _place_one(
    order: Sequence[NodeId],
    racks: Mapping[NodeId, str | None],
    leads: Mapping[NodeId, int],
    holds: Mapping[NodeId, int],
    turn: Mapping[NodeId, int],
    number: int,
    replication_factor: int,
) -> tuple[NodeId, ...]:
    count = len(order)

    def tie(node: NodeId) -> int:
        return (turn[node] - number) % count

    leader = min(order, key=lambda node: (leads[node], holds[node], tie(node)))
    chosen = [leader]
    while len(chosen) < replication_factor:
        used_racks = [racks[node] for node in chosen]

        def cost(node: NodeId, used: list[str | None] = used_racks) -> tuple[int, int, int]:
            rack = racks[node]
            return (used.count(rack) if rack is not None else 0, holds[node], tie(node))

        chosen.append(min((node for node in order if node not in chosen), key=cost))
    return tuple(chosen)
