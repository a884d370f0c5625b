"""Producer state as bytes, so that sequence checks survive a restart.

Big-endian: a magic word, version, end offset, number of producers; for each its id, epoch, last
sequence, time of last sign of life, number of remembered batches and these; last the CRC-32C of all
before it. The producers stand in the order of their last batches, so equal states give equal bytes
on every replica.
"""

from struct import Struct

from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import KafkaesqueError
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.producer_state import (
    BATCH,
    BATCHES_REMEMBERED,
    ProducerEntry,
    ProducerStateConfig,
    ProducerStateTable,
)

_MAGIC = b"KQPS"
_VERSION = 1
_HEADER = Struct(">4sHqI")
_PRODUCER = Struct(">qhiqB")
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
    parts = [_HEADER.pack(_MAGIC, _VERSION, offset, len(entries))]
    for producer_id, entry in entries:
        count = len(entry.batches) // BATCH.size
        parts += (
            _PRODUCER.pack(
                producer_id, entry.epoch, entry.last_sequence, entry.seen_wall_ms, count
            ),
            entry.batches,
        )
    body = b"".join(parts)
    return body + _CRC.pack(crc32c(body))


def read_snapshot(config: ProducerStateConfig, data: bytes) -> ProducerStateTable:
    """Return the state; batches from its `end_offset` on are still to be appended to it.

    Raises:
        BadProducerSnapshot: the bytes are not a snapshot.
    """
    if len(data) < _HEADER.size + _CRC.size:
        raise BadProducerSnapshot(f"only {len(data)} bytes")
    body = data[: -_CRC.size]
    if crc32c(body) != _CRC.unpack_from(data, len(body))[0]:
        raise BadProducerSnapshot("the checksum does not match")
    magic, version, end_offset, count = _HEADER.unpack_from(body)
    if magic != _MAGIC or version != _VERSION or end_offset < 0:
        raise BadProducerSnapshot(f"magic {magic!r}, version {version}, end offset {end_offset}")
    table = ProducerStateTable(config, Offset(end_offset))
    table.load(_read_producers(body, count))
    return table


def _read_producers(body: bytes, count: int) -> list[tuple[int, ProducerEntry]]:
    position = _HEADER.size
    entries: list[tuple[int, ProducerEntry]] = []
    for _ in range(count):
        if position + _PRODUCER.size > len(body):
            raise BadProducerSnapshot(f"{count} producers do not fit")
        producer_id, epoch, last_sequence, seen_wall_ms, batches = _PRODUCER.unpack_from(
            body, position
        )
        position += _PRODUCER.size
        end = position + batches * BATCH.size
        if not 1 <= batches <= BATCHES_REMEMBERED or end > len(body):
            raise BadProducerSnapshot(f"producer {producer_id} with {batches} batches")
        entry = ProducerEntry(epoch, last_sequence, seen_wall_ms, body[position:end])
        entries.append((producer_id, entry))
        position = end
    if position != len(body):
        raise BadProducerSnapshot(f"{len(body) - position} bytes left over")
    return entries
