"""What consumers of the classic protocol say to one another, as far as a coordinator has to know.

Their subscription and their assignment are bytes that go from client to client: each begins with an
int16 version, and what later versions added stands at the end. Source: the schemas
ConsumerProtocolSubscription (0 to 3) and ConsumerProtocolAssignment of Apache Kafka's clients.
"""

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kafkaesque.groups.errors import BadGroupRecord
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_reader import RecordReader

#: The version of assignments that every client reads.
_ASSIGNMENT_VERSION = b"\x00\x00"
_NO_USER_DATA = b"\xff\xff\xff\xff"
_WITH_OWNED = 1
_WITH_GENERATION = 2
_WITH_RACK = 3

_INT16 = Struct(">h")
_INT32 = Struct(">i")


class ClassicSubscription(NamedTuple):
    """What a member says about itself."""

    topic_names: tuple[str, ...]
    #: What it goes on consuming while it joins; nothing for those who stop first.
    owned: frozenset[TopicPartition]
    rack_id: str | None


def read_subscription(metadata: bytes) -> ClassicSubscription | None:
    """Return a member's subscription, or None if the bytes are not one."""
    reader = RecordReader(metadata, BadGroupRecord, flexible=False)
    try:
        version = reader.int16()
        topics = tuple(reader.string() for _ in range(reader.count()))
        _skip_user_data(reader)
        owned = _read_partitions(reader) if version >= _WITH_OWNED else []
        if version >= _WITH_GENERATION:
            reader.int32()
        rack_id = reader.nullable_string() if version >= _WITH_RACK else None
    except BadGroupRecord:
        return None
    return ClassicSubscription(topics, frozenset(owned), rack_id or None)


def read_assignment(data: bytes) -> frozenset[TopicPartition] | None:
    """Return a member's assignment, which may be empty, or None if the bytes are not one."""
    if not data:
        return frozenset()
    reader = RecordReader(data, BadGroupRecord, flexible=False)
    try:
        reader.int16()
        return frozenset(_read_partitions(reader))
    except BadGroupRecord:
        return None


def write_assignment(partitions: Iterable[TopicPartition]) -> bytes:
    """Return an assignment as every member reads it."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    parts = [_ASSIGNMENT_VERSION, _INT32.pack(len(by_topic))]
    for topic, indexes in by_topic.items():
        name = topic.encode()
        parts += (_INT16.pack(len(name)), name, _INT32.pack(len(indexes)))
        parts += map(_INT32.pack, indexes)
    return b"".join((*parts, _NO_USER_DATA))


def _skip_user_data(reader: RecordReader) -> None:
    length = reader.int32()
    if length > 0:
        reader.take(length)


def _read_partitions(reader: RecordReader) -> list[TopicPartition]:
    found = []
    for _ in range(reader.count()):
        topic = reader.string()
        found += [TopicPartition(topic, reader.int32()) for _ in range(reader.count())]
    return found
