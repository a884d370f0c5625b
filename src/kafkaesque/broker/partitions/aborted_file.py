"""The aborted transactions of a partition, in a file beside its segments.

Theory of operation. The file is written together with `producer-state`, before it: what came since
is appended, and entries of markers that lie before the log's start are dropped now and then, by
writing it anew. Its sync is left to the kernel. `producer-state` says which entry must be there; if
that is missing, both are worth nothing, and the log is replayed from its start.
"""

from collections.abc import Iterator, Sequence

from kafkaesque.env.disk import Disk
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.aborted_index import (
    ENTRY_BYTES,
    FILE_HEADER,
    AbortedIndex,
    AbortedTransaction,
    pack_entry,
    read_entries,
)

_FILE = "aborted-transactions"
#: The file is written anew when more than so many of its entries, and more than half, are of
#: markers that are not in the log any more.
STALE_MAX = 10_000
#: Entries that are written at a time.
_BLOCK_ENTRIES = 10_000


class AbortedFile:
    """One partition's file, and what is known to be in it."""

    __slots__ = ("_count", "_disk", "_is_known", "_last_offset")

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        #: Whether the file is a beginning of what the index says.
        self._is_known = False
        self._count = 0
        #: The marker of its last entry.
        self._last_offset = -1

    def load(self, directory: str, end_offset: Offset) -> list[AbortedTransaction]:
        """Return the good entries of markers before an offset; waits."""
        path = f"{directory}/{_FILE}"
        entries: list[AbortedTransaction] = []
        if self._disk.exists(path):
            file = self._disk.open(path)
            try:
                found = read_entries(file.read_blocking(0, file.size()))
            finally:
                file.close()
            entries = [entry for entry in found if entry.last_offset < end_offset]
        self._is_known = True
        self._note(entries)
        return entries

    def forget(self) -> None:
        """The index has begun anew: the next `save` writes all of it."""
        self._is_known = False

    def save(self, directory: str, index: AbortedIndex, before_offset: Offset) -> None:
        """Bring the entries of markers before an offset into the file, buffered.

        Raises:
            DiskFailed: the device refused.
        """
        path = f"{directory}/{_FILE}"
        if self._is_known and self._count <= 2 * len(index) + STALE_MAX:
            entries = index.entries(self._last_offset, before_offset)
            if entries:
                self._write(path, self._count, entries)
            return
        entries = index.entries(-1, before_offset)
        if entries or self._disk.exists(path):
            self._count, self._last_offset = 0, -1
            self._write(f"{path}.new", 0, entries)
            self._disk.rename(f"{path}.new", path)
        self._is_known = True

    def _write(self, path: str, count: int, entries: Sequence[AbortedTransaction]) -> None:
        position = len(FILE_HEADER) + count * ENTRY_BYTES
        file = self._disk.open(path, create=True)
        try:
            file.truncate(position)
            file.write_at(0, [FILE_HEADER])
            for block in _blocks(entries):
                position += file.write_at(position, [block])
        except BaseException:
            self._is_known = False
            raise
        finally:
            file.close()
        self._count = count
        self._note(entries)

    def _note(self, entries: Sequence[AbortedTransaction]) -> None:
        self._count += len(entries)
        if entries:
            self._last_offset = entries[-1].last_offset


def _blocks(entries: Sequence[AbortedTransaction]) -> Iterator[bytes]:
    for begin in range(0, len(entries), _BLOCK_ENTRIES):
        yield b"".join(map(pack_entry, entries[begin : begin + _BLOCK_ENTRIES]))
