"""The door to files.

A write is *buffered* when the call returns: it survives the death of the process, not a power cut.
It is *synced* when a `sync` that was asked for after it has reported success. A name (a created,
renamed or removed file) is durable only after `sync_dir` of its directory.

Calls that touch what is surely in memory (writes, sizes, names) answer at once. Calls that may wait
for the device take `on_done` and answer in a later turn of the loop. `read_blocking` waits, and is
for start-up and offline tools only.

After a `sync` has failed, what it covered must be taken as lost (the kernel may have dropped the
dirty pages): nobody may acknowledge it, and the file is not to be used any more.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kafkaesque.model.errors import DiskFailed

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """An open file."""

    @property
    def path(self) -> str:
        """Where it was opened, relative to the disk's root."""

    def size(self) -> int:
        """Return its length in bytes."""

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        """Write all buffers one after the other; buffered. Return the number of bytes.

        Raises:
            DiskFull: no space; nothing or a part may have been written.
            DiskFailed: the device refused.
        """

    def truncate(self, size_bytes: int) -> None:
        """Cut or extend with zeros; buffered."""

    def preallocate(self, size_bytes: int) -> None:
        """Reserve space so that a later sync need not write metadata; raises `DiskFull`."""

    def read_blocking(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes, fewer only at the end; may wait for the device."""

    def read_cached(self, position: int, length: int) -> bytes | None:
        """Return the bytes if they can be had without waiting for the device, else None."""

    def close(self) -> None:
        """Give the handle back; ranges that are on their way stay readable."""


@dataclass(frozen=True, slots=True)
class FileRange:
    """Bytes of a file, to be sent or read later, without a copy until then."""

    file: File
    position: int
    length: int

    def __len__(self) -> int:
        return self.length


class Disk(Protocol):
    """One broker's data directory; paths are relative to it, with `/`."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; with `create` make it if missing.

        Raises:
            FileNotFoundError: missing, and not to be created.
            DiskFailed: the device refused.
        """

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory has this name."""

    def list_dir(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; empty if there is no such directory."""

    def make_dir(self, path: str) -> None:
        """Make a directory and its parents; harmless if they exist."""

    def remove(self, path: str) -> None:
        """Remove a file; harmless if missing. Its open ranges stay readable."""

    def remove_tree(self, path: str) -> None:
        """Remove a directory and all in it; harmless if missing."""

    def rename(self, old: str, new: str) -> None:
        """Give a file or directory another name, replacing a file in one step."""

    def free_bytes(self) -> int:
        """Return how many bytes can still be written."""

    def sync_blocking(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        """Make files and directory entries durable; waits. For start-up only.

        Raises:
            DiskFailed: not durable.
        """

    def sync(
        self,
        files: Sequence[File],
        on_done: Callable[[DiskFailed | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        """Make everything written so far durable, off the loop; `on_done(None)` is success."""

    def read(
        self, file: File, position: int, length: int, on_done: Callable[[bytes | DiskFailed], None]
    ) -> None:
        """Read off the loop."""

    def run(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        """Run blocking or heavy work off the loop: `on_done(result, None)` or `(None, error)`.

        The work must touch nothing that the loop touches.
        """
