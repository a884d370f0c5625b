"""The records of groups of the new kind, in Apache Kafka's own form.

A key begins with an int16 that says what it is the key of: 3 a group's epoch, 5 a member, 6 the
epoch of the target, 7 a member's target, 8 where a member is, 16 an expression. (4 was the
partitions of a group's topics, before Kafka 4.1; it is passed over.) A value begins with int16 0
and is a flexible one (KIP-482); tags that we do not know are passed over. Source: the schemas
ConsumerGroup*Key and ConsumerGroup*Value of Apache Kafka's group coordinator.

Reading believes nothing: whatever is too short, too long or negative raises `BadGroupRecord`.
"""

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from msgspec.structs import replace

from kafkaesque.groups.consumer.states import (
    ClassicMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
    ResolvedExpression,
)
from kafkaesque.groups.consumer.topics import Partitions, TopicIdPartition
from kafkaesque.groups.errors import BadGroupRecord
from kafkaesque.groups.events import JoinProtocol
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import TopicId
from kafkaesque.model.record_reader import RecordReader, varint

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_VERSION = b"\x00\x00"
_NO_TAGS = b"\x00"
_IS_THERE = b"\x01"
_METADATA_HASH_TAG = 0
_CLASSIC_MEMBER_TAG = 0
_STRING_BYTES_MAX = 32_767
_TOPIC_ID_BYTES = 16


class KeyKind(IntEnum):
    """What a key is the key of, in the order in which records are written.

    A long write may end after any of them, with the coordinator. The group's epoch comes before
    what follows from it: should the rest be missing, the target is older than the group and is
    computed again. The classic group goes when its successor is there with all that members hold.
    """

    GROUP = 3
    MEMBER = 5
    TARGET_MEMBER = 7
    TARGET = 6
    CURRENT = 8
    EXPRESSION = 16
    #: The classic group that had the name before; here only ever without a value.
    CLASSIC_GROUP = 2


class ConsumerGroupKey(NamedTuple):
    """The key of a record, without its group."""

    kind: KeyKind
    #: The member's id or the expression, where there is one of them to each group.
    name: str = ""


#: Where a record of this kind stands in a write.
KEY_ORDER = {kind: position for position, kind in enumerate(KeyKind)}

_KINDS = {int(kind): kind for kind in KeyKind if kind is not KeyKind.CLASSIC_GROUP}
_STATES = {int(state): state for state in MemberState}
_NAMED_KINDS = (KeyKind.MEMBER, KeyKind.TARGET_MEMBER, KeyKind.CURRENT, KeyKind.EXPRESSION)


class GroupEpoch(NamedTuple):
    """The value of a group."""

    epoch: int
    #: Of the topics that it was assigned; 0: not known.
    metadata_hash: int = 0


# -- keys


def write_consumer_key(group_id: str, key: ConsumerGroupKey) -> bytes:
    """Return a record's key."""
    parts = [_INT16.pack(key.kind), _key_string(group_id)]
    if key.kind in _NAMED_KINDS:
        parts.append(_key_string(key.name))
    return b"".join(parts)


def read_consumer_key(data: bytes) -> tuple[str, ConsumerGroupKey] | None:
    """Return a group's id and the key in it, or None for one that belongs to another kind.

    Raises:
        BadGroupRecord: not what its version promises.
    """
    reader = RecordReader(data, BadGroupRecord, flexible=False)
    kind = _KINDS.get(reader.int16())
    if kind is None:
        return None
    group_id = reader.string()
    key = ConsumerGroupKey(kind, reader.string() if kind in _NAMED_KINDS else "")
    reader.end()
    return group_id, key


# -- values


def write_group_epoch(group: GroupEpoch) -> bytes:
    """Return the value of a group."""
    tags = _NO_TAGS
    if group.metadata_hash:
        # One tagged field: its tag, its size, its eight bytes.
        tags = bytes((1, _METADATA_HASH_TAG, 8)) + _INT64.pack(group.metadata_hash)
    return _VERSION + _INT32.pack(group.epoch) + tags


def read_group_epoch(data: bytes) -> GroupEpoch:
    """Return the value of a group.

    Raises:
        BadGroupRecord: an unknown version, or not what the version promises.
    """
    reader = _value(data)
    epoch = reader.int32()
    stored = reader.tags().get(_METADATA_HASH_TAG, bytes(8))
    if len(stored) != 8:
        raise BadGroupRecord(f"a hash of {len(stored)} bytes")
    reader.end()
    return GroupEpoch(epoch, int.from_bytes(stored, "big", signed=True))


def write_target_epoch(epoch: int) -> bytes:
    """Return the value of a target's epoch."""
    return _VERSION + _INT32.pack(epoch) + _NO_TAGS


def read_target_epoch(data: bytes) -> int:
    """Return a target's epoch.

    Raises:
        BadGroupRecord: an unknown version, or not what the version promises.
    """
    reader = _value(data)
    epoch = reader.int32()
    _end(reader)
    return epoch


def write_member(member: MemberMetadata) -> bytes:
    """Return the value of a member."""
    return b"".join(
        (
            _VERSION,
            _nullable_string(member.instance_id),
            _nullable_string(member.rack_id),
            _string(member.client_id),
            _string(member.client_host),
            _strings(member.topic_names),
            _nullable_string(member.topic_expression),
            _INT32.pack(member.rebalance_timeout_ms),
            _nullable_string(member.assignor),
            _NO_TAGS if member.classic is None else _classic_tags(member.classic),
        )
    )


def read_member(data: bytes) -> MemberMetadata:
    """Return a member.

    Raises:
        BadGroupRecord: an unknown version, or not what the version promises.
    """
    reader = _value(data)
    member = MemberMetadata(
        instance_id=reader.nullable_string(),
        rack_id=reader.nullable_string(),
        client_id=reader.string(),
        client_host=reader.string(),
        topic_names=tuple(reader.string() for _ in range(reader.count())),
        topic_expression=reader.nullable_string(),
        rebalance_timeout_ms=reader.int32(),
        assignor=reader.nullable_string(),
    )
    classic = reader.tags().get(_CLASSIC_MEMBER_TAG)
    reader.end()
    return member if classic is None else replace(member, classic=_read_classic(classic))


def write_partitions(partitions: Partitions) -> bytes:
    """Return the value of a member's target."""
    return _VERSION + _partitions(partitions) + _NO_TAGS


def read_partitions(data: bytes) -> Partitions:
    """Return a member's target.

    Raises:
        BadGroupRecord: an unknown version, or not what the version promises.
    """
    reader = _value(data)
    partitions = _read_partitions(reader)
    _end(reader)
    return partitions


def write_current(current: CurrentAssignment) -> bytes:
    """Return the value of where a member is."""
    return b"".join(
        (
            _VERSION,
            _INT32.pack(current.epoch),
            _INT32.pack(current.previous_epoch),
            bytes((current.state,)),
            _partitions(current.assigned),
            _partitions(current.pending_revocation),
            _NO_TAGS,
        )
    )


def read_current(data: bytes) -> CurrentAssignment:
    """Return where a member is.

    Raises:
        BadGroupRecord: an unknown version or state, or not what the version promises.
    """
    reader = _value(data)
    epoch = reader.int32()
    previous_epoch = reader.int32()
    state = _STATES.get(number := reader.int8())
    if state is None:
        raise BadGroupRecord(f"a member in state {number}")
    assigned = _read_partitions(reader)
    pending_revocation = _read_partitions(reader)
    _end(reader)
    return CurrentAssignment(
        epoch=epoch,
        previous_epoch=previous_epoch,
        state=state,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def write_expression(resolved: ResolvedExpression) -> bytes:
    """Return the value of an expression."""
    return b"".join(
        (
            _VERSION,
            _strings(resolved.topic_names),
            _INT64.pack(resolved.version),
            _INT64.pack(resolved.wall_ms),
            _NO_TAGS,
        )
    )


def read_expression(data: bytes) -> ResolvedExpression:
    """Return what an expression matched.

    Raises:
        BadGroupRecord: an unknown version, or not what the version promises.
    """
    reader = _value(data)
    resolved = ResolvedExpression(
        topic_names=tuple(reader.string() for _ in range(reader.count())),
        version=reader.int64(),
        wall_ms=reader.int64(),
    )
    _end(reader)
    return resolved


# -- parts


def _classic_tags(classic: ClassicMember) -> bytes:
    parts = [
        _IS_THERE,
        _INT32.pack(classic.session_timeout_ms),
        varint(len(classic.protocols) + 1),
    ]
    for name, metadata in classic.protocols:
        parts += (_string(name), varint(len(metadata) + 1), metadata, _NO_TAGS)
    parts.append(_NO_TAGS)
    field = b"".join(parts)
    return bytes((1, _CLASSIC_MEMBER_TAG)) + varint(len(field)) + field


def _read_classic(data: bytes) -> ClassicMember | None:
    reader = RecordReader(data, BadGroupRecord, flexible=True)
    # A nullable structure begins with a byte that says whether it is there.
    if reader.take(1) != _IS_THERE:
        return None
    session_timeout_ms = reader.int32()
    protocols = []
    for _ in range(reader.count()):
        protocols.append(JoinProtocol(reader.string(), reader.byte_string()))
        reader.tags()
    _end(reader)
    return ClassicMember(session_timeout_ms=session_timeout_ms, protocols=tuple(protocols))


def _value(data: bytes) -> RecordReader:
    reader = RecordReader(data, BadGroupRecord, flexible=True)
    version = reader.int16()
    if version != 0:
        raise BadGroupRecord(f"value version {version}")
    return reader


def _end(reader: RecordReader) -> None:
    reader.tags()
    reader.end()


def _key_string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _STRING_BYTES_MAX:
        raise InvariantBroken(f"a string of {len(data)} bytes does not fit into a key")
    return _INT16.pack(len(data)) + data


def _string(text: str) -> bytes:
    data = text.encode()
    return varint(len(data) + 1) + data


def _nullable_string(text: str | None) -> bytes:
    return b"\x00" if text is None else _string(text)


def _strings(texts: Iterable[str]) -> bytes:
    parts = [_string(text) for text in texts]
    return b"".join((varint(len(parts) + 1), *parts))


def _partitions(partitions: Partitions) -> bytes:
    by_topic: dict[TopicId, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    parts = [varint(len(by_topic) + 1)]
    for topic_id, indexes in by_topic.items():
        parts += (
            topic_id,
            varint(len(indexes) + 1),
            *map(_INT32.pack, indexes),
            _NO_TAGS,
        )
    return b"".join(parts)


def _read_partitions(reader: RecordReader) -> Partitions:
    found = []
    for _ in range(reader.count()):
        topic_id = TopicId(reader.take(_TOPIC_ID_BYTES))
        found += [TopicIdPartition(topic_id, reader.int32()) for _ in range(reader.count())]
        reader.tags()
    return frozenset(found)
