"""The lines of `kafkaesque log dump`: batches, their messages, records of the write-ahead log."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafkaesque.cli.message_format import json_bytes

if TYPE_CHECKING:
    from kafkaesque.cli.sealed_records import SealedRecords
    from kafkaesque.env.disk import Disk
    from kafkaesque.storage.entries import LogIdentity
    from kafkaesque.storage.offline import DumpedBatch

#: What one batch may take when it is decompressed.
DECOMPRESSED_BYTES_MAX = 1 << 30
_NOT_OPENED = "its batches are sealed: --keeper-file FILE, key.keeper.file of a broker, opens them"
SEGMENT_SUFFIX = ".log"

Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What of a dump is wanted."""

    offset_min: int
    count_max: int | None
    records: bool
    #: Opens what is sealed; None: nobody has named the keeper's file.
    sealed: "SealedRecords | None" = None


def dump_partition(disk: "Disk", name: str, choice: Choice, write: Callable[[Line], None]) -> bool:
    """Write a partition's lines; return whether the dump ended at something that is damaged."""
    from kafkaesque.storage.directory import read_partition_metadata
    from kafkaesque.storage.offline import Finding, dump_segment

    written = 0
    reasons: set[str] = set()
    identity = read_partition_metadata(disk, name)
    segments = [each for each in disk.list_dir(name) if each.endswith(SEGMENT_SUFFIX)]
    for segment in _from_offset(segments, choice.offset_min):
        for item in dump_segment(disk, f"{name}/{segment}"):
            if isinstance(item, Finding):
                sys.stderr.write(f"{item}\n")
                return True
            if item.header.last_offset < choice.offset_min:
                continue
            if choice.records:
                lines = _record_lines(name, identity, item, choice, reasons)
            else:
                lines = iter([_batch_line(name, segment, item)])
            for line in lines:
                write(line)
                written += 1
                if written == choice.count_max:
                    return False
    return False


def dump_wal_files(disk: "Disk", write: Callable[[Line], None]) -> bool:
    """Write the records of the write-ahead log; return whether something in it is damaged."""
    from kafkaesque.storage.offline import Finding, dump_wal
    from kafkaesque.storage.wal import list_wal_numbers
    from kafkaesque.storage.wal_format import RecordKind

    damaged = False
    for number in list_wal_numbers(disk):
        for item in dump_wal(disk, number):
            if isinstance(item, Finding):
                sys.stderr.write(f"{item}\n")
                damaged = True
                continue
            record = item.record
            write(
                {
                    "file": number,
                    "byte": item.position,
                    "block": item.block,
                    "group": record.group,
                    "kind": RecordKind(record.kind).name.lower(),
                    "term": record.term,
                    "first_index": record.first_index,
                    "last_index": record.last_index,
                    "previous_index": record.prev_index,
                    "bytes": len(record.payload),
                }
            )
    return damaged


def _record_lines(
    name: str,
    identity: "LogIdentity | None",
    batch: "DumpedBatch",
    choice: Choice,
    reasons: set[str],
) -> Iterator[Line]:
    """Yield a batch's messages, or a line for one that stays sealed.

    Why it does is said once on standard error; `reasons` are those that have been said.
    """
    from kafkaesque.model.records import decode_batch
    from kafkaesque.model.sealed_batch import key_version

    header, data = batch.header, batch.data
    if header.is_control:
        return  # the end of a transaction, and no message
    if header.is_sealed:
        version = key_version(data, header._replace(at=0))
        opened = choice.sealed.open(identity, batch, version) if choice.sealed else _NOT_OPENED
        if isinstance(opened, str):
            if opened not in reasons:
                reasons.add(opened)
                sys.stderr.write(f"{name}: {opened}\n")
            yield _sealed_line(name, identity, batch, version)
            return
        data = bytes(opened)
    for record in decode_batch(data, DECOMPRESSED_BYTES_MAX):
        if record.offset >= choice.offset_min:
            yield {
                "topic": name if identity is None else identity.topic,
                "partition": None if identity is None else identity.partition,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "key": json_bytes(record.key),
                "value": json_bytes(record.value),
                "headers": [[header, json_bytes(value)] for header, value in record.headers],
            }


def _sealed_line(
    name: str, identity: "LogIdentity | None", batch: "DumpedBatch", version: int
) -> Line:
    header = batch.header
    return {
        "topic": name if identity is None else identity.topic,
        "partition": None if identity is None else identity.partition,
        "offset": header.base_offset,
        "last_offset": header.last_offset,
        "timestamp_ms": header.max_timestamp_ms,
        "records": header.record_count,
        "sealed_by_version": version,
    }


def _batch_line(name: str, segment: str, batch: "DumpedBatch") -> Line:
    header = batch.header
    return {
        "partition": name,
        "segment": segment,
        "byte": batch.position,
        "bytes": header.size_bytes,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "epoch": header.partition_leader_epoch,
        "codec": header.codec.name.lower(),
        "max_timestamp_ms": header.max_timestamp_ms,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
    }


def _from_offset(segments: list[str], offset: int) -> list[str]:
    """Return the segments from the one on that may hold the offset; names are base offsets."""
    bases = [int(name.removesuffix(SEGMENT_SUFFIX)) for name in segments]
    first = max((at for at, base in enumerate(bases) if base <= offset), default=0)
    return segments[first:]
