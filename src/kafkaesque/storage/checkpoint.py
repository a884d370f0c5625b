"""The checkpoint file: what is known of every log at one moment of the write-ahead log.

It is lines of JSON: a header, one line per log, and the checksum of all before. It is always
replaced as a whole, by renaming, so there is either the old or the new one.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from kafkaesque.env.disk import Disk, File
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import DiskFailed
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.log_snapshot import LogSnapshot, read_snapshot

ROOT = "."
CHECKPOINT = "checkpoint"
CHECKPOINT_NEW = "checkpoint.new"
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointHeader:
    """What a checkpoint says of itself."""

    #: The first file of the write-ahead log that is not covered.
    wal_first: int
    #: Written by `close`: nothing has followed unless that file exists.
    is_clean: bool
    #: That file was durable before this was written. Without it, it may never have been made.
    has_wal: bool
    log_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A checkpoint as it was read."""

    header: CheckpointHeader
    logs: list[LogSnapshot]
    #: The same as they stand in the file.
    lines: list[bytes]


def write_checkpoint(
    *, wal_first: int, is_clean: bool = False, has_wal: bool = False, lines: Sequence[bytes]
) -> bytes:
    """Return the file's content."""
    header = {
        "format": FORMAT,
        "wal_first": wal_first,
        "clean": is_clean,
        "wal": has_wal,
        "logs": len(lines),
    }
    body = json.dumps(header).encode() + b"\n" + b"".join(lines)
    return body + json.dumps({"crc32c": crc32c(body)}).encode() + b"\n"


def read_checkpoint(data: bytes) -> Checkpoint:
    """Return what `write_checkpoint` wrote.

    Raises:
        StorageCorrupt: it is anything else.
    """
    end = data.rfind(b"\n", 0, len(data) - 1) + 1
    try:
        stated = json.loads(data[end:])["crc32c"]
        if crc32c(data[:end]) != stated:
            raise StorageCorrupt(_damaged("its checksum is wrong"))
        first, *lines = data[:end].splitlines(keepends=True)
        fields = json.loads(first)
        if fields["format"] != FORMAT:
            raise StorageCorrupt(_damaged(f"its format is {fields['format']}, not {FORMAT}"))
        header = CheckpointHeader(
            wal_first=int(fields["wal_first"]),
            is_clean=bool(fields["clean"]),
            # Releases before this wrote it when the file was still to be made.
            has_wal=bool(fields.get("wal", False)),
            log_count=int(fields["logs"]),
        )
        if header.log_count != len(lines):
            raise StorageCorrupt(_damaged("logs are missing in it"))
        logs = [read_snapshot(line) for line in lines]
        return Checkpoint(header=header, logs=logs, lines=lines)
    except (ValueError, KeyError, TypeError) as error:
        raise StorageCorrupt(_damaged(repr(error))) from error


def _damaged(what: str) -> str:
    return (
        f"the file {CHECKPOINT!r} is damaged: {what}; without it this broker cannot know what it"
        " has promised: check the disk, then start it with an empty directory,"
        " so that its replicas are copied from the other brokers"
    )


def load_checkpoint(disk: Disk) -> Checkpoint:
    """Read the file; waits.

    Raises:
        StorageCorrupt: it is missing or damaged.
    """
    if not disk.exists(CHECKPOINT):
        raise StorageCorrupt(_damaged("it is missing"))
    file = disk.open(CHECKPOINT)
    data = file.read_blocking(0, file.size())
    file.close()
    return read_checkpoint(data)


def put_new_checkpoint(disk: Disk, content: bytes) -> File:
    """Write the content under the new name; buffered. It has to be synced and renamed."""
    file = disk.open(CHECKPOINT_NEW, create=True)
    try:
        file.truncate(0)
        file.write_at(0, [content])
    except DiskFailed:
        file.close()
        raise
    return file


def save_checkpoint_blocking(disk: Disk, content: bytes) -> None:
    """Replace the checkpoint durably; waits."""
    file = put_new_checkpoint(disk, content)
    disk.sync_blocking([file])
    file.close()
    disk.rename(CHECKPOINT_NEW, CHECKPOINT)
    disk.sync_blocking([], [ROOT])
