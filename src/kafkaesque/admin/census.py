"""A walk over all partitions and groups, a bounded number in each turn of the loop."""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final

from kafkaesque.admin.lag import lag_of
from kafkaesque.admin.metric_table import GROUPS_MAX, QUEUES_MAX
from kafkaesque.admin.turns import walk
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.queues import LedQueue
from kafkaesque.broker.metadata.topic_views import find_readable
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.chassis.readable_logs import readable_end

#: Where messages are, by what `QueueCounts` calls their numbers.
PLACES: Final = {
    "ready": "ready",
    "delayed": "delayed",
    "in-flight": "in_flight",
    "parked": "parked",
    "moving": "moving",
}


@dataclass(slots=True)
class QueueCensus:
    """What queues have whose logs are led here."""

    led: int = 0
    #: Of the whole cluster, logs of queues without a leader.
    leaderless: int = 0
    log_bytes: int = 0
    #: By the place where they are.
    messages: dict[str, int] = field(default_factory=lambda: dict.fromkeys(PLACES, 0))
    #: Those with the oldest messages, the oldest first.
    oldest: list[LedQueue] = field(default_factory=list)


@dataclass(slots=True)
class Census:
    """What was counted."""

    replicas: int = 0
    led: int = 0
    under_replicated: int = 0
    under_min_isr: int = 0
    leaderless: int = 0
    log_bytes: int = 0
    groups: int = 0
    partitions_elsewhere: int = 0
    #: The groups that are furthest behind, with by how many messages.
    lags: list[tuple[int, str]] = field(default_factory=list)
    queues: QueueCensus = field(default_factory=QueueCensus)


def take_census(doors: Doors, on_done: Callable[[Census], None]) -> None:
    """Count; `on_done` comes in this turn if there is little to count, else in a later one."""
    census = Census()
    walk(doors.clock, _count(doors, census), lambda: on_done(census))


def _count(doors: Doors, census: Census) -> Iterator[None]:
    """Yield after each partition and each committed offset."""
    for group, state in list(doors.cluster.state.partitions_by_group.items()):
        if doors.cluster.leaders.leader(group) is None:
            census.leaderless += 1
        if doors.cluster.node in state.replicas:
            census.replicas += 1
            partition = doors.condition.partitions.get(group)
            if partition is not None and partition.replica is not None:
                _count_partition(partition, census)
        yield
    yield from _count_groups(doors, census)
    yield from _count_queues(doors, census.queues)


def _count_partition(partition: Partition, census: Census) -> None:
    replica = partition.replica
    if replica is None:
        return
    census.log_bytes += partition.log.size_bytes
    if replica.is_leader:
        census.led += 1
        in_sync, state = replica.in_sync(), partition.state
        # While replicas move, the old ones count until all the new ones are in sync.
        is_whole = any(set(in_sync).issuperset(each) for each in (state.wanted, state.serving))
        census.under_replicated += not is_whole
        needed = min(partition.config.min_insync_replicas, len(state.replicas))
        census.under_min_isr += len(in_sync) < needed


def _count_groups(doors: Doors, census: Census) -> Iterator[None]:
    lags: list[tuple[int, str]] = []
    for host in doors.groups.coordinators.all():
        if not host.is_loaded:
            continue
        census.groups += host.table.group_count
        for group in host.table.groups_with_offsets():
            lag, is_known = 0, False
            for where, offset in host.table.committed_positions(group):
                yield
                state = find_readable(doors.cluster.state, where.topic)
                if state is None or where.partition >= len(state.partitions):
                    continue
                found = doors.condition.partitions.get(state.partitions[where.partition].group)
                if found is None:
                    census.partitions_elsewhere += 1
                else:
                    is_known = True
                    lag += lag_of(readable_end(doors, found), offset)
            if is_known:
                _keep(lags, (lag, group))
    census.lags = sorted(lags, reverse=True)


def _count_queues(doors: Doors, census: QueueCensus) -> Iterator[None]:
    for state in doors.queues.all():
        if state.home is not None:
            continue  # it has no log; it goes with its broker
        for part in state.partitions:
            census.leaderless += doors.cluster.leaders.leader(part.group) is None
            yield
    oldest: list[tuple[int, int, LedQueue]] = []
    for number, found in enumerate(doors.queues.led_here()):
        yield
        census.led += 1
        if found is None:
            continue
        counts = found.counts
        if found.queue.home is None:
            census.log_bytes += counts.log_bytes
        for place, name in PLACES.items():
            census.messages[place] += getattr(counts, name)
        if counts.oldest_ms:
            entry = (-counts.oldest_ms, number, found)
            if len(oldest) < QUEUES_MAX:
                heapq.heappush(oldest, entry)
            else:
                heapq.heappushpop(oldest, entry)
    census.oldest = [found for _, _, found in sorted(oldest, reverse=True)]


def _keep(lags: list[tuple[int, str]], found: tuple[int, str]) -> None:
    if len(lags) < GROUPS_MAX:
        heapq.heappush(lags, found)
    else:
        heapq.heappushpop(lags, found)
