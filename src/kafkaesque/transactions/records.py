"""The records of `__transaction_state`, in Apache Kafka's own form.

A key is an int16 version, 0, and the transactional id. A value begins with an int16 version.
Version 0 has neither the previous nor the next producer id nor the client's version of the
protocol; version 1 is a flexible one (KIP-482), and has them as tagged fields (KIP-890). Both are
read, 1 is written. Tags that we do not know are passed over. Source: the schemas TransactionLogKey
and TransactionLogValue of Apache Kafka's transaction coordinator.

Reading believes nothing: whatever is too short, too long or negative raises `BadTransactionRecord`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_reader import RecordReader, varint
from kafkaesque.transactions.errors import BadTransactionRecord
from kafkaesque.transactions.producer_entries import NO_PRODUCER_ID
from kafkaesque.transactions.states import STORED, TransactionState

KEY_VERSION = 0
VALUE_VERSION = 1
#: "None", for an epoch and a time, as Kafka writes it.
NO_EPOCH = -1
NO_TIME = -1

_FLEXIBLE_VERSION = 1
_PREVIOUS_PRODUCER_ID_TAG = 0
_NEXT_PRODUCER_ID_TAG = 1
_CLIENT_VERSION_TAG = 2
_STRING_BYTES_MAX = 32_767

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_INT64 = Struct(">q")
#: Value version, producer id, its epoch, time-out, state.
_HEAD = Struct(">hqhib")
#: Last update, start.
_TIMES = Struct(">qq")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionValue:
    """All that the coordinator knows of a transactional id."""

    producer_id: int
    #: The highest that was given away or written into a marker.
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    partitions: frozenset[TopicPartition] = frozenset()
    update_wall_ms: int
    #: When the first partition was added.
    start_wall_ms: int = NO_TIME
    #: The producer id before the last change of any kind.
    previous_producer_id: int = NO_PRODUCER_ID
    #: Takes the place of the present one, with epoch 0, when the markers are written.
    next_producer_id: int = NO_PRODUCER_ID
    #: From 2 on, the one who asked for the last end of a transaction learns its bumped epoch
    #: (KIP-890).
    client_version: int = 0
    #: The epoch that the same producer had before it got the present one (KIP-360). Kafka's
    #: records have no place for it, so a new coordinator does not know it.
    last_epoch: int = NO_EPOCH


def write_key(transactional_id: str) -> bytes:
    """Return the key of a transactional id."""
    return _INT16.pack(KEY_VERSION) + _string(transactional_id)


def write_value(value: TransactionValue) -> bytes:
    """Return the value of a transactional id, version 1."""
    parts = [
        _HEAD.pack(
            VALUE_VERSION,
            value.producer_id,
            value.producer_epoch,
            value.timeout_ms,
            value.state.number,
        ),
        _write_partitions(value),
        _TIMES.pack(value.update_wall_ms, value.start_wall_ms),
    ]
    tags = [
        (tag, packed)
        for tag, packed, is_given in (
            (
                _PREVIOUS_PRODUCER_ID_TAG,
                _INT64.pack(value.previous_producer_id),
                value.previous_producer_id != NO_PRODUCER_ID,
            ),
            (
                _NEXT_PRODUCER_ID_TAG,
                _INT64.pack(value.next_producer_id),
                value.next_producer_id != NO_PRODUCER_ID,
            ),
            (_CLIENT_VERSION_TAG, _INT16.pack(value.client_version), value.client_version != 0),
        )
        if is_given
    ]
    parts.append(bytes((len(tags),)))
    parts += (bytes((tag, len(packed))) + packed for tag, packed in tags)
    return b"".join(parts)


def read_key(data: bytes) -> str | None:
    """Return the transactional id, or None for a key of a version that we do not know.

    Raises:
        BadTransactionRecord: not what its version promises.
    """
    reader = RecordReader(data, BadTransactionRecord, flexible=False)
    version = reader.int16()
    if version < 0:
        raise BadTransactionRecord(f"key version {version}")
    if version != KEY_VERSION:
        return None
    transactional_id = reader.string()
    reader.end()
    return transactional_id


def read_value(data: bytes) -> TransactionValue:
    """Return what a value of version 0 or 1 says.

    Raises:
        BadTransactionRecord: an unknown version, or not what the version promises.
    """
    version = RecordReader(data, BadTransactionRecord, flexible=False).int16()
    if not 0 <= version <= VALUE_VERSION:
        raise BadTransactionRecord(f"value version {version}")
    reader = RecordReader(data, BadTransactionRecord, flexible=version >= _FLEXIBLE_VERSION)
    _, producer_id, producer_epoch, timeout_ms, state_number = _HEAD.unpack(reader.take(_HEAD.size))
    if min(producer_id, producer_epoch, timeout_ms) < 0:
        raise BadTransactionRecord(
            f"producer id {producer_id}, epoch {producer_epoch}, time-out {timeout_ms}"
        )
    state = STORED.get(state_number)
    if state is None:
        raise BadTransactionRecord(f"state {state_number}")
    partitions = _read_partitions(reader)
    if partitions and state is TransactionState.EMPTY:
        raise BadTransactionRecord(f"{len(partitions)} partitions of an empty transaction")
    update_wall_ms, start_wall_ms = _TIMES.unpack(reader.take(_TIMES.size))
    tags = reader.tags() if version >= _FLEXIBLE_VERSION else {}
    reader.end()
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=state,
        partitions=partitions,
        update_wall_ms=update_wall_ms,
        start_wall_ms=start_wall_ms,
        previous_producer_id=_number(tags, _PREVIOUS_PRODUCER_ID_TAG, _INT64, NO_PRODUCER_ID),
        next_producer_id=_number(tags, _NEXT_PRODUCER_ID_TAG, _INT64, NO_PRODUCER_ID),
        client_version=_number(tags, _CLIENT_VERSION_TAG, _INT16, 0),
    )


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions topic by topic, both in order."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return topics


def _write_partitions(value: TransactionValue) -> bytes:
    if value.state is TransactionState.EMPTY:
        if value.partitions:
            raise InvariantBroken("an empty transaction has partitions")
        return varint(0)
    topics = by_topic(value.partitions)
    parts = [varint(len(topics) + 1)]
    for topic, partitions in topics.items():
        name = topic.encode()
        parts += (varint(len(name) + 1), name, varint(len(partitions) + 1))
        parts += map(_INT32.pack, partitions)
        parts.append(varint(0))
    return b"".join(parts)


def _read_partitions(reader: RecordReader) -> frozenset[TopicPartition]:
    found: set[TopicPartition] = set()
    for _ in range(reader.nullable_count()):
        topic = reader.string()
        for _ in range(reader.count()):
            partition = reader.int32()
            if partition < 0:
                raise BadTransactionRecord(f"partition {partition} of {topic!r}")
            found.add(TopicPartition(topic, partition))
        if reader.is_flexible:
            reader.tags()
    return frozenset(found)


def _number(tags: dict[int, bytes], tag: int, form: Struct, default: int) -> int:
    packed = tags.get(tag)
    if packed is None:
        return default
    if len(packed) != form.size:
        raise BadTransactionRecord(f"tag {tag} has {len(packed)} bytes")
    number: int = form.unpack(packed)[0]
    if number < default:
        raise BadTransactionRecord(f"tag {tag} is {number}")
    return number


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > _STRING_BYTES_MAX:
        raise InvariantBroken(f"a string of {len(data)} bytes does not fit into a record")
    return _INT16.pack(len(data)) + data
