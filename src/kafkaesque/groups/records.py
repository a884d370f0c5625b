"""The records of `__consumer_offsets`, in Apache Kafka's own form.

A key begins with an int16 that says what it is the key of: 0 or 1 a committed offset, 2 a group. A
value begins with an int16 version. Source: the schemas OffsetCommitKey, OffsetCommitValue,
GroupMetadataKey and GroupMetadataValue of Apache Kafka's group coordinator; versions 4 of the
values are flexible ones (KIP-482). We write version 3 of both; version 1 of an offset that carries
its own expiry, and version 4 of one that knows its topic's id.

Reading believes nothing: whatever is too short, too long or negative raises `BadGroupRecord`.
"""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from kafkaesque.groups.errors import BadGroupRecord
from kafkaesque.groups.events import NOT_GIVEN
from kafkaesque.groups.results import CommittedOffset
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.record_reader import RecordReader, varint

OFFSET_KEY_VERSION_OLD = 0
OFFSET_KEY_VERSION = 1
GROUP_KEY_VERSION = 2
VALUE_VERSION_MAX = 4
_FLEXIBLE_VERSION = 4
_TOPIC_ID_TAG = 0
#: Ours, of no bytes, far from what Kafka may use: who reads it without knowing it skips it.
_BY_NAME_TAG = 10_000
_STRING_BYTES_MAX = 32_767

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
_OFFSET_AND_EPOCH = Struct(">hqi")


class OffsetKey(NamedTuple):
    """The key of a committed offset."""

    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    """The key of a group."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberRecord:
    """A member as it is stored with its group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A generation of a group as it is stored."""

    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    #: Unix time since which the group is in its state; -1 in old records.
    state_since_wall_ms: int
    members: tuple[MemberRecord, ...] = ()


def write_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the key of a committed offset."""
    return b"".join(
        (
            _INT16.pack(OFFSET_KEY_VERSION),
            _string(group_id),
            _string(topic),
            _INT32.pack(partition),
        )
    )


def write_group_key(group_id: str) -> bytes:
    """Return the key of a group."""
    return _INT16.pack(GROUP_KEY_VERSION) + _string(group_id)


def write_offset_value(committed: CommittedOffset) -> bytes:
    """Return the value of a committed offset, in the version that can carry it."""
    if committed.expire_wall_ms != NOT_GIVEN:
        return b"".join(
            (
                _INT16.pack(1),
                _INT64.pack(committed.offset),
                _string(committed.metadata),
                _INT64.pack(committed.commit_wall_ms),
                _INT64.pack(committed.expire_wall_ms),
            )
        )
    if committed.topic_id is None:
        return b"".join(
            (
                _OFFSET_AND_EPOCH.pack(3, committed.offset, committed.leader_epoch),
                _string(committed.metadata),
                _INT64.pack(committed.commit_wall_ms),
            )
        )
    if len(committed.topic_id) != 16:
        raise InvariantBroken(f"a topic id has 16 bytes, not {len(committed.topic_id)}")
    metadata = committed.metadata.encode()
    return b"".join(
        (
            _OFFSET_AND_EPOCH.pack(4, committed.offset, committed.leader_epoch),
            varint(len(metadata) + 1),
            metadata,
            _INT64.pack(committed.commit_wall_ms),
            # How many tagged fields; each is its tag, its size, its bytes.
            bytes((1 + committed.is_by_name, _TOPIC_ID_TAG, 16)),
            committed.topic_id,
            varint(_BY_NAME_TAG) + bytes(1) if committed.is_by_name else b"",
        )
    )


def write_group_value(group: GroupRecord) -> bytes:
    """Return the value of a group, version 3."""
    parts = [
        _INT16.pack(3),
        _string(group.protocol_type),
        _INT32.pack(group.generation),
        _nullable_string(group.protocol_name),
        _nullable_string(group.leader_id),
        _INT64.pack(group.state_since_wall_ms),
        _INT32.pack(len(group.members)),
    ]
    for member in group.members:
        parts += (
            _string(member.member_id),
            _nullable_string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            _INT32.pack(len(member.subscription)),
            member.subscription,
            _INT32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(parts)


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    """Return the key, or None for one that belongs to another kind of group.

    Raises:
        BadGroupRecord: not what its version promises.
    """
    reader = RecordReader(data, BadGroupRecord, flexible=False)
    version = reader.int16()
    key: OffsetKey | GroupKey
    if version in (OFFSET_KEY_VERSION_OLD, OFFSET_KEY_VERSION):
        key = OffsetKey(reader.string(), reader.string(), reader.int32())
    elif version == GROUP_KEY_VERSION:
        key = GroupKey(reader.string())
    elif version < 0:
        raise BadGroupRecord(f"key version {version}")
    else:
        return None
    reader.end()
    return key


def read_offset_value(data: bytes) -> CommittedOffset:
    """Return a committed offset, of version 0 to 4.

    Raises:
        BadGroupRecord: an unknown version, or not what the version promises.
    """
    version = _value_version(data)
    reader = RecordReader(data, BadGroupRecord, flexible=version >= _FLEXIBLE_VERSION)
    reader.int16()
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else NOT_GIVEN
    metadata = reader.string()
    commit_wall_ms = reader.int64()
    expire_wall_ms = reader.int64() if version == 1 else NOT_GIVEN
    tags = reader.tags() if version >= _FLEXIBLE_VERSION else {}
    topic_id = tags.get(_TOPIC_ID_TAG)
    if topic_id is not None and len(topic_id) != 16:
        raise BadGroupRecord(f"a topic id of {len(topic_id)} bytes")
    reader.end()
    return CommittedOffset(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_wall_ms=commit_wall_ms,
        expire_wall_ms=expire_wall_ms,
        topic_id=topic_id,
        is_by_name=_BY_NAME_TAG in tags,
    )


def read_group_value(data: bytes) -> GroupRecord:
    """Return a group, of version 0 to 4.

    Raises:
        BadGroupRecord: an unknown version, or not what the version promises.
    """
    version = _value_version(data)
    reader = RecordReader(data, BadGroupRecord, flexible=version >= _FLEXIBLE_VERSION)
    reader.int16()
    protocol_type = reader.string()
    generation = reader.int32()
    protocol_name = reader.nullable_string()
    leader_id = reader.nullable_string()
    state_since_wall_ms = reader.int64() if version >= 2 else NOT_GIVEN
    members = tuple(_read_member(reader, version) for _ in range(reader.count()))
    if version >= _FLEXIBLE_VERSION:
        reader.tags()
    reader.end()
    return GroupRecord(
        protocol_type=protocol_type,
        generation=generation,
        protocol_name=protocol_name,
        leader_id=leader_id,
        state_since_wall_ms=state_since_wall_ms,
        members=members,
    )


def _read_member(reader: RecordReader, version: int) -> MemberRecord:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id = reader.string()
    client_host = reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else NOT_GIVEN
    session_timeout_ms = reader.int32()
    subscription = reader.byte_string()
    assignment = reader.byte_string()
    if version >= _FLEXIBLE_VERSION:
        reader.tags()
    return MemberRecord(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        # Version 0 knew but one time-out.
        rebalance_timeout_ms=(
            session_timeout_ms if rebalance_timeout_ms == NOT_GIVEN else rebalance_timeout_ms
        ),
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )


def _value_version(data: bytes) -> int:
    version = RecordReader(data, BadGroupRecord, flexible=False).int16()
    if not 0 <= version <= VALUE_VERSION_MAX:
        raise BadGroupRecord(f"value version {version}")
    return version


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _STRING_BYTES_MAX:
        raise InvariantBroken(f"a string of {len(data)} bytes does not fit into a record")
    return _INT16.pack(len(data)) + data


def _nullable_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else _string(text)
