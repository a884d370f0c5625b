"""The files in which a partition keeps its producers' state.

Theory of operation. Both hold the same, as of some committed offset; what came after it, the log
says. `producer-state` makes the next start quick: it is written now and then, its sync is left to
the kernel, and if a power cut tears it nothing is lost but time. `producer-state.synced` says what
the log cannot say any more: it is written and synced, with its name, before the log's start moves
past what the one before it covers, and never replaced by anything that is not synced. A start takes
the newer one that is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import Offset
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.transactions.producer_snapshot import BadProducerSnapshot, Snapshot, read_snapshot
from kafkaesque.transactions.producer_state import ProducerStateConfig

#: Behind a state that was adopted: a magic word, and the formation of the leader that told it.
_TOLD = struct.Struct(">4sI")
_TOLD_MAGIC = b"KQPF"
_FILE = "producer-state"
_SYNCED = "producer-state.synced"


class Stored(NamedTuple):
    """What was found of a partition's producers."""

    snapshot: Snapshot
    data: bytes
    #: Whether a power cut could not have taken it.
    is_covered: bool
    #: The formation of the leader that told it; 0 also where this replica has found it itself.
    formation: int


class ProducerFiles:
    """One partition's files."""

    __slots__ = ("_disk", "_newest")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        #: Counts what was begun to be synced: the newest counts.
        self._newest = 0

    def load(self, config: ProducerStateConfig, directory: str, start: Offset) -> Stored | None:
        """Return the newest whole state of a log that begins at an offset; waits."""
        found: Stored | None = None
        is_covered = False
        for name in (_SYNCED, _FILE):
            read = self._read(config, f"{directory}/{name}")
            if read is None or read[0].table.end_offset < start:
                continue
            is_covered = is_covered or name == _SYNCED
            if found is None or read[0].table.end_offset > found.snapshot.table.end_offset:
                found = Stored(read[0], read[1], is_covered, read[2])
        return found

    def _read(self, config: ProducerStateConfig, path: str) -> tuple[Snapshot, bytes, int] | None:
        if not self._disk.exists(path):
            return None
        file = self._disk.open(path)
        try:
            data = file.read_blocking(0, file.size())
            data, formation = _split(data)
            return read_snapshot(config, data), data, formation
        except BadProducerSnapshot:
            return None
        finally:
            file.close()

    def write(self, directory: str, data: bytes) -> None:
        """Write `producer-state`, buffered.

        Raises:
            DiskFailed: the device refused.
        """
        path = f"{directory}/{_FILE}"
        file = self._disk.open(f"{path}.new", create=True)
        try:
            file.truncate(0)
            file.write_at(0, [data])
        finally:
            file.close()
        self._disk.rename(f"{path}.new", path)

    def write_synced(
        self,
        log: GroupLog,
        data: bytes,
        on_done: Callable[[DiskFailed | None], None],
        formation: int = 0,
    ) -> None:
        """Write `producer-state.synced`; `on_done(None)` when it is durable, in a later turn.

        What was begun earlier and is not done yet fails.

        Raises:
            DiskFailed: the device refused; `on_done` is not called.
        """
        disk, directory = self._disk, log.identity.directory
        temporary = f"{directory}/{_SYNCED}.new"
        self._newest += 1
        number = self._newest
        # A file anew each time: what a sync has failed on is not to be used again.
        disk.remove(temporary)
        file = disk.open(temporary, create=True)
        try:
            told = _TOLD.pack(_TOLD_MAGIC, formation) if formation else b""
            file.write_at(0, [data + told])
        except DiskFailed:
            file.close()
            disk.remove(temporary)
            raise

        def on_written(error: DiskFailed | None) -> None:
            file.close()
            if error is None and (log.is_deleted or number != self._newest):
                error = DiskFailed(f"{temporary} was overtaken")
            if error is None:
                try:
                    disk.rename(temporary, f"{directory}/{_SYNCED}")
                except DiskFailed as failed:
                    error = failed
            if error is not None:
                on_done(error)
            else:
                disk.sync([], on_done, [directory])

        disk.sync([file], on_written)

    def forget(self, directory: str) -> None:
        """Remove both: they tell of batches that were lost."""
        self._newest += 1
        for name in (_FILE, _SYNCED):
            self._disk.remove(f"{directory}/{name}")
        self._disk.sync([], lambda _: None, [directory])


def _split(data: bytes) -> tuple[bytes, int]:
    """Return a state, and the formation of the leader that told it."""
    if len(data) >= _TOLD.size:
        magic, formation = _TOLD.unpack_from(data, len(data) - _TOLD.size)
        if magic == _TOLD_MAGIC:
            return data[: -_TOLD.size], formation
    return data, 0
