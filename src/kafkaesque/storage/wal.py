"""The write-ahead log: what every log of the broker has queued leaves in one write.

Theory of operation. Records gather in a queue; `write` turns the queue into one block of the
current file (buffered) and names what has to be synced for it. The caller syncs, and does not call
`write` again before that. A file that has reached its size is left for a new one if there is room
(`has_room_to_roll`): the next one is made beside a block of the current one and synced with it
(`prepare`), a later block says that it follows (`roll`), and what comes after goes there. Old files
are numbered on and reused once a checkpoint covers them (`release_before`).

Space that is reserved and was never written makes each sync wait for the file system's journal,
which notes what was written; measured, that is a third of a sync. So where a file is new, zeros go
ahead of the blocks, and that happens once for many syncs.
"""

from collections.abc import Sequence
from contextlib import suppress

from kafkaesque.env.disk import Buffer, Disk, File
from kafkaesque.model.errors import DiskFull, InvariantBroken
from kafkaesque.storage.config import KIB, StorageConfig
from kafkaesque.storage.statistics import StorageStatistics
from kafkaesque.storage.wal_format import PREPARED_BLOCK, RECORD, RecordKind, write_block

WAL_DIRECTORY = "wal"
#: Files kept for reuse.
SPARE_FILES_MAX = 2
#: The same where the disk has little space.
SPARE_FILES_MIN = 1
#: So far ahead of the blocks a new file is written.
AHEAD_BYTES = 256 * KIB

_ZEROS = bytes(AHEAD_BYTES)

_pack = RECORD.pack


def wal_path(number: int) -> str:
    """Return a file's path."""
    return f"{WAL_DIRECTORY}/{number:010d}.wal"


def list_wal_numbers(disk: Disk) -> list[int]:
    """Return the numbers of the files that are there, in order."""
    if not disk.exists(WAL_DIRECTORY):
        return []
    stems = [name[:-4] for name in disk.list_dir(WAL_DIRECTORY) if name.endswith(".wal")]
    return sorted(int(stem) for stem in stems if stem.isdigit())


class WriteAheadLog:
    """The files and the queue."""

    __slots__ = (
        "_config",
        "_count",
        "_disk",
        "_durable_to",
        "_file",
        "_first_number",
        "_in_flight_bytes",
        "_is_rolling",
        "_link",
        "_next",
        "_number",
        "_parts",
        "_position",
        "_spares",
        "_statistics",
        "_written_to",
        "queued_bytes",
    )

    def __init__(self, disk: Disk, config: StorageConfig, statistics: StorageStatistics) -> None:
        self._disk = disk
        self._config = config
        self._statistics = statistics
        self._parts: list[Buffer] = []
        self._count = 0
        self.queued_bytes = 0
        self._in_flight_bytes = 0
        self._file: File | None = None
        self._number = 0
        self._first_number = 0
        self._position = 0
        #: Up to where the current file is durable.
        self._durable_to = 0
        #: Up to where it was ever written, as far as that is known; buffered.
        self._written_to = 0
        #: The next file, once it is made, where its first block goes, and `_written_to` of it.
        self._next: tuple[File, int, int] | None = None
        #: The block that is written next is the last of the current file.
        self._is_rolling = False
        self._spares: list[int] = []
        #: What the first record of a new file says: the file before, and where it ended.
        self._link: tuple[int, int] | None = None

    # -- the queue

    def queue(
        self,
        group: int,
        kind: int,
        *,
        term: int = 0,
        first_index: int = 0,
        last_index: int = 0,
        prev_index: int = 0,
        payload: Buffer = b"",
    ) -> None:
        """Add a record to the next block; not even buffered yet."""
        size = len(payload)
        self._parts.append(_pack(group, kind, term, first_index, last_index, prev_index, size))
        if size:
            self._parts.append(payload)
        self._count += 1
        self.queued_bytes += RECORD.size + size

    @property
    def has_queued(self) -> bool:
        """Whether there is anything to write."""
        return self._count > 0

    @property
    def queued_records(self) -> int:
        """How many records that is."""
        return self._count

    @property
    def is_over_bound(self) -> bool:
        """Whether more is queued or being synced, or waits for a checkpoint, than should be."""
        config = self._config
        return (
            self.queued_bytes + self._in_flight_bytes > config.wal_pending_bytes_max
            or self._number - self._first_number >= config.wal_files_max
        )

    # -- the files

    @property
    def number(self) -> int:
        """Number of the file that is written."""
        return self._number

    @property
    def file_count(self) -> int:
        """How many files wait for a checkpoint, the current one included."""
        return self._number - self._first_number + 1

    @property
    def is_full(self) -> bool:
        """Whether the current file has reached its size."""
        return self._position >= self._config.wal_bytes

    @property
    def has_room_to_roll(self) -> bool:
        """Whether there is room for another file beside what is kept free.

        If there is not, the current one is written on beyond its size.
        """
        return self.has_next or self.has_room_for_another

    @property
    def has_room_for_another(self) -> bool:
        """Whether there is room for a file beside the next one, should that be made already."""
        config = self._config
        least = config.wal_bytes + config.free_bytes_min
        return bool(self._spares) or self._disk.free_bytes() >= least

    @property
    def has_room_for_checkpoint(self) -> bool:
        """Whether there is room to roll for a checkpoint.

        Where that gives back no less than the next file takes, it may be a part of what is kept
        free, for a while: otherwise this log would only grow.
        """
        if self.has_room_to_roll:
            return True
        config = self._config
        gives_back = self.file_count > 1 or self._position >= 2 * config.wal_bytes
        least = config.wal_bytes + config.free_bytes_min // 2
        return gives_back and self._disk.free_bytes() >= least

    @property
    def has_next(self) -> bool:
        """Whether the next file is made; it is durable when `write` may be called again."""
        return self._next is not None

    @property
    def unused_number(self) -> int:
        """The first number that no file has."""
        return self._number + (2 if self.has_next else 1)

    def give_up_spares(self) -> None:
        """Keep as few files for reuse as a start and a checkpoint need on a full disk."""
        while len(self._spares) > SPARE_FILES_MIN:
            self._disk.remove(wal_path(self._spares.pop()))

    def start(self, number: int, spares: Sequence[int]) -> None:
        """Begin in a new file; the first `write` makes it. `spares` are reused or removed."""
        self._number = number
        self._first_number = number
        self._position = 0
        self._spares = []
        for spare in spares:
            if self._cut_grown(spare) >= self._config.wal_bytes:
                self._spares.append(spare)
            else:
                # It was being made when the process died, or files were smaller then.
                self._disk.remove(wal_path(spare))
        self._file = None
        self._trim_spares()
        self._link = (0, 0)

    def _cut_grown(self, number: int) -> int:
        """Cut a file that was written on beyond its size to that; return what it has then."""
        file = self._disk.open(wal_path(number))
        try:
            if file.size() > self._config.wal_bytes:
                file.truncate(self._config.wal_bytes)
            return file.size()
        finally:
            file.close()

    def prepare(self) -> tuple[File, tuple[str, ...]]:
        """Make the next file, with all that it needs to be missed when it is not there; buffered.

        Returns the file, and directories, that have to be synced with what `write` has returned.

        Raises:
            DiskFailed: also when full; nothing of the last block may be acknowledged.
        """
        number, size = self._number + 1, self._config.wal_bytes
        file, written_to = self._open_new(number)
        record = _pack(0, RecordKind.PREPARED, 0, self._number, self._durable_to, size, 0)
        buffers, begun = write_block(number, 0, PREPARED_BLOCK, 1, [record])
        file.write_at(0, buffers)
        self._next = file, begun, written_to
        self._statistics.wal_bytes += begun
        self._statistics.wal_records += 1
        return file, (WAL_DIRECTORY,)

    def roll(self) -> None:
        """Let the block that is written next be the last of its file; the next one is prepared."""
        self.queue(0, RecordKind.NEXT, first_index=self._number + 1)
        self._is_rolling = True

    def _go_on_in_next(self) -> None:
        if self._next is None or self._file is None:
            raise InvariantBroken("the next file of the write-ahead log is not prepared")
        self._file.close()
        self._link = (self._number, self._position)
        self._file, self._position, self._written_to = self._next
        self._next = None
        self._number += 1
        self._is_rolling = False

    def write(self, block_number: int) -> tuple[File, tuple[str, ...]]:
        """Write all that is queued as one block (nothing queued is allowed); buffered.

        Returns the file, and directories, that have to be synced.

        Raises:
            DiskFailed: also when full; nothing of it may be acknowledged.
        """
        directories: tuple[str, ...] = ()
        if self._file is None:
            self._file, self._written_to = self._open_new(self._number)
            directories = (WAL_DIRECTORY,)
        parts, count = self._parts, self._count
        self._in_flight_bytes, self.queued_bytes = self.queued_bytes, 0
        self._parts, self._count = [], 0
        if self._link is not None:
            before, ended = self._link
            size = self._config.wal_bytes
            parts.insert(0, _pack(0, RecordKind.FILE, 0, before, ended, size, 0))
            count += 1
            self._link = None
        buffers, size = write_block(self._number, self._position, block_number, count, parts)
        self._file.write_at(self._position, buffers)
        self._position += size
        if self._position > self._written_to:
            self._write_ahead(self._file)
        self._statistics.wal_bytes += size
        self._statistics.wal_records += count
        file = self._file
        if self._is_rolling:
            self._go_on_in_next()
        return file, directories

    def _write_ahead(self, file: File) -> None:
        end = min(self._position + AHEAD_BYTES, self._config.wal_bytes)
        self._written_to = max(end, self._position)
        if end > self._position:
            # A disk that is full has refused more than this does without.
            with suppress(DiskFull):
                file.write_at(self._position, [memoryview(_ZEROS)[: end - self._position]])

    def on_synced(self) -> None:
        """What `write` and `prepare` wrote is durable."""
        self._in_flight_bytes = 0
        self._durable_to = self._position

    def _open_new(self, number: int) -> tuple[File, int]:
        """Return a file, and up to where it was written before."""
        path = wal_path(number)
        if self._spares:
            self._disk.rename(wal_path(self._spares.pop(0)), path)
        file = self._disk.open(path, create=True)
        written_to = self._config.wal_bytes
        if file.size() < written_to:
            self._reserve(file, path)
            written_to = 0
        self._statistics.wal_files += 1
        return file, written_to

    def _reserve(self, file: File, path: str) -> None:
        bytes_wanted = self._config.wal_bytes
        try:
            file.preallocate(bytes_wanted)
        except DiskFull as error:
            raise DiskFull(
                f"the write-ahead log needs {bytes_wanted - file.size()} more bytes for {path}, and"
                f" only {self._disk.free_bytes()} are free on the disk ({error})"
            ) from error

    def release_before(self, number: int) -> None:
        """A checkpoint covers all files below this number: reuse or remove them."""
        for old in range(self._first_number, number):
            self._cut_grown(old)
            self._spares.append(old)
        self._first_number = max(self._first_number, number)
        self._trim_spares()

    def _trim_spares(self) -> None:
        while len(self._spares) > SPARE_FILES_MAX:
            self._disk.remove(wal_path(self._spares.pop()))

    def close(self) -> None:
        """Give the handles back."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._next is not None:
            self._next[0].close()
            self._next = None
