"""Producer state as bytes, so that sequence checks survive a restart.

Big-endian: a magic word, version, end offset, number of producers; then the offset of the last
marker that has aborted a transaction; for each producer its id, epoch, last sequence, time of last
sign of life, number of remembered batches and these; last the CRC-32C of all before it. Where a
producer has had transactions, the highest bit of the number of batches is set, and behind them
stand the first offset of the open one, the last marker's coordinator epoch, and its offset. The
producers stand in the order of their last batches, so equal states give equal bytes on every
replica.

Version 1 has neither the marker's offset nor transactions. Which ones were aborted is in a file of
its own; the marker's offset tells whether that is whole.
"""

import struct
from struct import Struct
from typing import NamedTuple

from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.producer_entries import (
    BATCH,
    BATCHES_REMEMBERED,
    ProducerEntry,
    TransactionEntry,
)
from kafkaesque.transactions.producer_state import ProducerStateConfig, ProducerStateTable

_MAGIC = b"KQPS"
_VERSION = 2
#: The version before transactions, which is still read.
_VERSION_PLAIN = 1
_HEADER = Struct(">4sHqI")
_LAST_ABORTED = Struct(">q")
_PRODUCER = Struct(">qhiqB")
_HAS_TRANSACTIONS = 0x80
_TRANSACTION = Struct(">qiq")
_CRC = Struct(">I")


class BadProducerSnapshot(KafkaesqueError):
    """The bytes are not a snapshot of producer state: torn, flipped or of another version.

    The state can be had by replaying the log from its start instead.
    """


def write_snapshot(table: ProducerStateTable, offset: Offset) -> bytes:
    """Return the state as the log before `offset` has it; not to be taken above what is committed.

    Raises:
        InvariantBroken: the state at `offset` is not known.
    """
    entries = table.entries_before(offset)
    parts = [
        _HEADER.pack(_MAGIC, _VERSION, offset, len(entries)),
        _LAST_ABORTED.pack(table.aborted.last_offset_before(offset)),
    ]
    for producer_id, entry in entries:
        count = len(entry.batches) // BATCH.size
        if entry.transaction is not None:
            count |= _HAS_TRANSACTIONS
        parts += (
            _PRODUCER.pack(
                producer_id, entry.epoch, entry.last_sequence, entry.seen_wall_ms, count
            ),
            entry.batches,
        )
        if entry.transaction is not None:
            parts.append(_TRANSACTION.pack(*entry.transaction))
    body = b"".join(parts)
    return body + _CRC.pack(crc32c(body))


class Snapshot(NamedTuple):
    """What a snapshot holds."""

    #: Batches from its `end_offset` on are still to be appended to it, aborted transactions before
    #: that to be loaded.
    table: ProducerStateTable
    #: The offset of the last marker that has aborted a transaction; -1 if there was none.
    last_aborted_offset: int


def read_snapshot(config: ProducerStateConfig, data: bytes) -> Snapshot:
    """Return the state that was written.

    Raises:
        BadProducerSnapshot: the bytes are not a snapshot.
    """
    if len(data) < _HEADER.size + _CRC.size:
        raise BadProducerSnapshot(f"only {len(data)} bytes")
    body = data[: -_CRC.size]
    if crc32c(body) != _CRC.unpack_from(data, len(body))[0]:
        raise BadProducerSnapshot("the checksum does not match")
    magic, version, end_offset, count = _HEADER.unpack_from(body)
    if magic != _MAGIC or version not in (_VERSION, _VERSION_PLAIN) or end_offset < 0:
        raise BadProducerSnapshot(f"magic {magic!r}, version {version}, end offset {end_offset}")
    table = ProducerStateTable(config, Offset(end_offset))
    last_aborted_offset, position = -1, _HEADER.size
    try:
        if version != _VERSION_PLAIN:
            (last_aborted_offset,) = _LAST_ABORTED.unpack_from(body, position)
            position += _LAST_ABORTED.size
        table.load(_read_producers(body, position, count))
    except struct.error as error:
        raise BadProducerSnapshot(f"{count} producers do not fit") from error
    return Snapshot(table, last_aborted_offset)


def _read_producers(body: bytes, position: int, count: int) -> list[tuple[int, ProducerEntry]]:
    entries: list[tuple[int, ProducerEntry]] = []
    for _ in range(count):
        producer_id, epoch, last_sequence, seen_wall_ms, batches = _PRODUCER.unpack_from(
            body, position
        )
        position += _PRODUCER.size
        has_transactions = batches & _HAS_TRANSACTIONS
        batches &= ~_HAS_TRANSACTIONS
        end = position + batches * BATCH.size
        if not (has_transactions or batches) or batches > BATCHES_REMEMBERED or end > len(body):
            raise BadProducerSnapshot(f"producer {producer_id} with {batches} batches")
        remembered, position = body[position:end], end
        transaction = None
        if has_transactions:
            transaction = TransactionEntry(*_TRANSACTION.unpack_from(body, position))
            position += _TRANSACTION.size
        entry = ProducerEntry(epoch, last_sequence, seen_wall_ms, remembered, transaction)
        entries.append((producer_id, entry))
    if position != len(body):
        raise BadProducerSnapshot(f"{len(body) - position} bytes left over")
    return entries
