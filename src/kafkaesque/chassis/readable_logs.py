"""What can be read by a topic's name: the topic's log, or that of a queue which it shows.

Of a topic its readers see all that is committed. Of a queue's log they see messages alone, so that
it ends behind the last of them, whatever the queue decides afterwards.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_names import QUEUE_LOG_PREFIX
from kafkaesque.broker.metadata.topic_views import readable_partition
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import Offset, TopicPartition


class Extent(NamedTuple):
    """Where a view begins and ends."""

    start: Offset
    end: Offset


def readable_replica(doors: Doors, where: TopicPartition) -> Partition:
    """Return the replica here of what can be read by a topic's name, which may show a queue.

    Raises:
        UnknownTopicOrPartition, NotLeader, LeaderNotAvailable: see `PartitionTable.find`.
    """
    if where.topic not in doors.cluster.state.topic_views:
        return doors.reading.partition(where)
    placed = readable_partition(doors.cluster.state, where.topic, where.partition)
    return doors.reading.log_of(placed.topic_id, placed.partition)


def replicas_led(
    doors: Doors, named: Mapping[str, Iterable[int]]
) -> Iterator[tuple[str, Partition]]:
    """Return those of the partitions of topics that this broker leads, each with its topic."""
    for topic, numbers in named.items():
        for number in numbers:
            try:
                partition = readable_replica(doors, TopicPartition(topic, number))
            except RequestRefused:
                continue
            if partition.is_leader:
                yield topic, partition


def is_view(partition: Partition) -> bool:
    """Tell whether a replica is one of a queue's log, which Kafka's clients see as a topic."""
    return partition.state.topic.startswith(QUEUE_LOG_PREFIX)


def extent_of(doors: Doors, partition: Partition) -> Extent:
    """Return where the messages are that readers of a queue's log can get.

    Raises:
        NotLeader: the log is not here.
    """
    start, end = partition.log_start_offset, partition.last_stable_offset
    last = doors.queues.messages_end(partition.state.topic_id, partition.state.partition)
    if last is not None:
        end = min(end, last)
    return Extent(min(start, end), end)


def readable_end(doors: Doors, partition: Partition) -> Offset:
    """Return how far a replica goes that is here, for who reads it by a topic's name.

    That is the high watermark, as lag is measured from it; see `extent_of` of a queue's log.
    """
    return extent_of(doors, partition).end if is_view(partition) else partition.high_watermark
