"""Where the replicas of new partitions go.

Replicas of one partition are on different brokers and, as far as there are enough, on different
racks. Leaders (the first replica) and replicas are spread evenly, those of one topic first, because
its load is alike, then those of all: every choice goes to the broker that leads, or holds, the
fewest so far. Equals are taken in turn from a starting point that the caller draws, so that topics
of one partition do not all land on broker 1. A broker that is away gets replicas only where the
others are too few, and less than half of a partition's, so that it can be written to at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import TypeVar

from kafkaesque.model.errors import InvalidReplicationFactor
from kafkaesque.model.ids import NodeId

#: Whatever a caller knows a partition by.
Placed = TypeVar("Placed", bound=Hashable)


def place_partitions(
    *,
    racks: Mapping[NodeId, str | None],
    existing: Sequence[Sequence[NodeId]],
    partition_count: int,
    replication_factor: int,
    start: int,
    away: Collection[NodeId] = (),
) -> list[tuple[NodeId, ...]]:
    """Return the replicas of each new partition, the preferred leader first.

    Args:
        racks: the brokers that may be used, each with its rack.
        existing: replica lists that are there already, for the balance.
        partition_count: how many partitions to place.
        replication_factor: replicas of each.
        start: breaks ties; any number.
        away: those of the brokers that do not run now.

    Raises:
        InvalidReplicationFactor: fewer brokers than replicas, fewer that run than a majority of
            them, or less than one replica.
    """
    running = sum(node not in away for node in racks)
    if not 1 <= replication_factor <= len(racks) or 2 * running <= replication_factor:
        missing = f" ({len(racks) - running} more are away)" if len(racks) > running else ""
        raise InvalidReplicationFactor(
            f"replication factor {replication_factor} is not possible with "
            f"{running} broker(s) alive{missing}"
        )
    if replication_factor <= running:
        racks = {node: rack for node, rack in racks.items() if node not in away}
    order = sorted(racks)
    turn = {node: (position - start) % len(order) for position, node in enumerate(order)}
    balance = _Balance(order)
    # Many partitions have the same replicas, and each new queue counts all that there are.
    for same, times in Counter(map(tuple, existing)).items():
        balance.count(same, times)
    balance.begin_topic()
    placed: list[tuple[NodeId, ...]] = []
    for number in range(partition_count):
        tie = {node: (turn[node] - number) % len(order) for node in order}
        replicas = _place_one(order, racks, balance, tie, replication_factor, away)
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

    def count(self, replicas: Sequence[NodeId], times: int = 1) -> None:
        """Take note of the replicas of one partition, or of so many that have the same."""
        for position, node in enumerate(replicas):
            if node not in self.holds:
                continue
            self.holds[node] += times
            self.topic_holds[node] += times
            if position == 0:
                self.leads[node] += times
                self.topic_leads[node] += times


def _place_one(
    order: Sequence[NodeId],
    racks: Mapping[NodeId, str | None],
    balance: _Balance,
    tie: Mapping[NodeId, int],
    replication_factor: int,
    away: Collection[NodeId],
) -> tuple[NodeId, ...]:
    leader = min(
        order,
        key=lambda node: (
            node in away,
            balance.topic_leads[node],
            balance.leads[node],
            balance.holds[node],
            tie[node],
        ),
    )
    chosen = [leader]
    while len(chosen) < replication_factor:
        used_racks = [racks[node] for node in chosen]

        def cost(node: NodeId, used: list[str | None] = used_racks) -> tuple[int, ...]:
            rack = racks[node]
            return (
                node in away,
                used.count(rack) if rack is not None else 0,
                balance.topic_holds[node],
                balance.holds[node],
                tie[node],
            )

        chosen.append(min((node for node in order if node not in chosen), key=cost))
    return tuple(chosen)


# -- replicas that are placed already


def plan_drain(
    node: NodeId,
    placed: Mapping[Placed, Sequence[NodeId]],
    racks: Mapping[NodeId, str | None],
) -> dict[Placed, tuple[NodeId, ...]]:
    """Return new replicas for all partitions of which a broker holds one.

    Each goes to the broker that holds the fewest, in a rack that the partition is not in where
    there is one, and takes its place among the replicas.

    Args:
        node: the broker that is to hold nothing.
        placed: the replicas of every partition.
        racks: the brokers that may be used, each with its rack.

    Raises:
        InvalidReplicationFactor: a partition has a replica on every other broker already.
    """
    order = sorted(each for each in racks if each != node)
    balance = _Balance(order)
    for replicas in placed.values():
        balance.count(replicas)
    moves: dict[Placed, tuple[NodeId, ...]] = {}
    for key, replicas in placed.items():
        if node not in replicas:
            continue
        kept = [each for each in replicas if each != node]
        free = [each for each in order if each not in kept]
        if not free:
            raise InvalidReplicationFactor(
                f"{key} has {len(replicas)} replica(s), and only {len(order)} other broker(s) are "
                "alive"
            )
        chosen = min(free, key=lambda each: _cost(each, kept, racks, balance))
        target = tuple(chosen if each == node else each for each in replicas)
        balance.holds[chosen] += 1
        balance.leads[chosen] += target[0] == chosen
        moves[key] = target
    return moves


def _cost(
    node: NodeId, others: Sequence[NodeId], racks: Mapping[NodeId, str | None], balance: _Balance
) -> tuple[int, int, int]:
    rack = racks.get(node)
    shared = sum(rack is not None and racks.get(each) == rack for each in others)
    return shared, balance.holds[node], node


def plan_balance(
    placed: Mapping[Placed, Sequence[NodeId]],
    racks: Mapping[NodeId, str | None],
    topic_of: Callable[[Placed], Hashable],
) -> dict[Placed, tuple[NodeId, ...]]:
    """Return new replicas of as few partitions as make all brokers hold and lead about as many.

    Of those that could move, first the ones that make their topic more even, too. No partition
    comes to have more replicas in one rack than it had. Those that have a replica on a broker that
    may not be used are left alone.
    """
    now = {
        key: tuple(replicas)
        for key, replicas in placed.items()
        if all(node in racks for node in replicas)
    }
    before = dict(now)
    for evens_topics in (True, False):
        _even_replicas(now, racks, topic_of, evens_topics=evens_topics)
    for evens_topics in (True, False):
        _even_leaders(now, racks, topic_of, evens_topics=evens_topics)
    return {key: replicas for key, replicas in now.items() if replicas != before[key]}


def _even_replicas(
    now: dict[Placed, tuple[NodeId, ...]],
    racks: Mapping[NodeId, str | None],
    topic_of: Callable[[Placed], Hashable],
    *,
    evens_topics: bool,
) -> None:
    holds = dict.fromkeys(sorted(racks), 0)
    of_topics = Counter[tuple[Hashable, NodeId]]()
    for key, replicas in now.items():
        for node in replicas:
            holds[node] += 1
            of_topics[topic_of(key), node] += 1
    for key, replicas in now.items():
        topic = topic_of(key)
        for node in replicas:
            others = [each for each in now[key] if each != node]
            free = [
                each
                for each in holds
                if each not in now[key]
                and holds[each] + 1 < holds[node]
                and (not evens_topics or of_topics[topic, each] < of_topics[topic, node])
                and _spread([*others, each], racks) >= _spread(now[key], racks)
            ]
            if free:
                chosen = min(free, key=lambda each: (holds[each], of_topics[topic, each], each))
                holds[node] -= 1
                holds[chosen] += 1
                of_topics[topic, node] -= 1
                of_topics[topic, chosen] += 1
                now[key] = tuple(chosen if each == node else each for each in now[key])


def _spread(replicas: Sequence[NodeId], racks: Mapping[NodeId, str | None]) -> int:
    return len({racks.get(node) for node in replicas})


def _even_leaders(
    now: dict[Placed, tuple[NodeId, ...]],
    racks: Mapping[NodeId, str | None],
    topic_of: Callable[[Placed], Hashable],
    *,
    evens_topics: bool,
) -> None:
    leads = dict.fromkeys(sorted(racks), 0)
    of_topics = Counter[tuple[Hashable, NodeId]]()
    for key, replicas in now.items():
        leads[replicas[0]] += 1
        of_topics[topic_of(key), replicas[0]] += 1
    for _ in range(len(leads)):  # leadership may have to be handed on over several brokers
        for key, replicas in now.items():
            first, topic = replicas[0], topic_of(key)
            chosen = min(replicas, key=lambda node: (leads[node], of_topics[topic, node], node))
            is_evener = of_topics[topic, chosen] < of_topics[topic, first]
            if leads[chosen] + 1 < leads[first] and (is_evener or not evens_topics):
                leads[first] -= 1
                leads[chosen] += 1
                of_topics[topic, first] -= 1
                of_topics[topic, chosen] += 1
                others = [node for node in replicas if node != chosen]
                now[key] = (chosen, *others)
