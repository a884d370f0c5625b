"""Where the replicas of new partitions go.

Replicas of one partition are on different brokers and, as far as there are enough, on different
racks. Leaders (the first replica) and replicas are spread evenly, those of one topic first, because
its load is alike, then those of all: every choice goes to the broker that leads, or holds, the
fewest so far. Equals are taken in turn from a starting point that the caller draws, so that topics
of one partition do not all land on broker 1.
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
    balance = _Balance(order)
    for replicas in existing:
        balance.count(replicas)
    balance.begin_topic()
    placed: list[tuple[NodeId, ...]] = []
    for number in range(partition_count):
        tie = {node: (turn[node] - number) % len(order) for node in order}
        replicas = _place_one(order, racks, balance, tie, replication_factor)
        balance.count(replicas)
        placed.append(replicas)
    return placed


class _Balance:
    """How much each broker leads and holds: of all topics, and of the one being placed."""

    def __init__(self, nodes: Sequence[NodeId]) -> None:
        self.leads = dict.fromkeys(nodes, 0)
        self.holds = dict.fromkeys(nodes, 0)
        self.topic_leads = dict.fromkeys(nodes, 0)
        self.topic_holds = dict.fromkeys(nodes, 0)

    def begin_topic(self) -> None:
        """What is counted from here on is the new topic's."""
        self.topic_leads = dict.fromkeys(self.topic_leads, 0)
        self.topic_holds = dict.fromkeys(self.topic_holds, 0)

    def count(self, replicas: Sequence[NodeId]) -> None:
        """Take note of one partition's replicas."""
        for position, node in enumerate(replicas):
            if node not in self.holds:
                continue
            self.holds[node] += 1
            self.topic_holds[node] += 1
            if position == 0:
                self.leads[node] += 1
                self.topic_leads[node] += 1


def _place_one(
    order: Sequence[NodeId],
    racks: Mapping[NodeId, str | None],
    balance: _Balance,
    tie: Mapping[NodeId, int],
    replication_factor: int,
) -> tuple[NodeId, ...]:
    leader = min(
        order,
        key=lambda node: (
            balance.topic_leads[node],
            balance.leads[node],
            balance.holds[node],
            tie[node],
        ),
    )
    chosen = [leader]
    while len(chosen) < replication_factor:
        used_racks = [racks[node] for node in chosen]

        def cost(node: NodeId, used: list[str | None] = used_racks) -> tuple[int, int, int, int]:
            rack = racks[node]
            return (
                used.count(rack) if rack is not None else 0,
                balance.topic_holds[node],
                balance.holds[node],
                tie[node],
            )

        chosen.append(min((node for node in order if node not in chosen), key=cost))
    return tuple(chosen)
