"""The topics of the cluster, as far as groups need to know them."""

from binascii import crc32
from collections.abc import Iterable
from dataclasses import dataclass
from struct import pack
from typing import NamedTuple

from kafkaesque.model.checksum import crc32c
from kafkaesque.model.ids import TopicId, TopicPartition


class TopicIdPartition(NamedTuple):
    """A partition by its topic's id, which outlives a topic of the same name."""

    topic_id: TopicId
    partition: int


#: A set of partitions: what somebody has, is to have or is to give up.
Partitions = frozenset[TopicIdPartition]

NO_PARTITIONS: Partitions = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """A topic that can be consumed."""

    name: str
    topic_id: TopicId
    partition_count: int
    #: Of each partition, the racks that have a replica of it; empty where brokers have no racks.
    racks: tuple[frozenset[str], ...] = ()
    #: The brokers keep state of their own in it: expressions do not match it, names do.
    is_internal: bool = False

    @property
    def partitions(self) -> list[TopicIdPartition]:
        """All its partitions, in order."""
        return [TopicIdPartition(self.topic_id, each) for each in range(self.partition_count)]

    def racks_of(self, partition: int) -> frozenset[str]:
        """Return where the partition has replicas; nothing if that is not known."""
        return self.racks[partition] if partition < len(self.racks) else frozenset()


class TopicCatalog:
    """All topics at one moment; never changed, so that many tables can share it."""

    __slots__ = ("by_id", "by_name")

    def __init__(self, topics: Iterable[Topic] = ()) -> None:
        self.by_name = {topic.name: topic for topic in topics}
        self.by_id = {topic.topic_id: topic for topic in self.by_name.values()}

    def ids_of(self, partitions: Iterable[TopicPartition]) -> Partitions:
        """Return partitions by their topics' ids, without those of topics that are gone."""
        return frozenset(
            TopicIdPartition(self.by_name[each.topic].topic_id, each.partition)
            for each in partitions
            if each.topic in self.by_name
        )

    def names_of(self, partitions: Partitions) -> list[TopicPartition]:
        """Return partitions by their topics' names, without those of topics that are gone."""
        return [
            TopicPartition(self.by_id[each.topic_id].name, each.partition)
            for each in partitions
            if each.topic_id in self.by_id
        ]


def metadata_hash(topics: Iterable[Topic]) -> int:
    """Return a signed 64-bit number that changes with anything that an assignment depends on.

    It is stored with the group, so that a new coordinator sees what has changed in between. 0,
    which is "not known" in a record, stands for no topics.
    """
    parts = []
    for topic in sorted(topics, key=lambda each: each.name):
        racks = [sorted(each) for each in topic.racks]
        parts.append(repr((topic.name, topic.topic_id, topic.partition_count, racks)).encode())
    if not parts:
        return 0
    # Two checksums that have nothing to do with one another: nobody gains by making them collide.
    data = b"".join(parts)
    return int.from_bytes(pack(">II", crc32(data), crc32c(data)), "big", signed=True) or 1
