"""The door to files.

A write is *buffered* when the call returns: it survives the death of the process, not a power cut.
It is *synced* when a `sync` that was asked for after it has reported success. A name (a created,
renamed or removed file) is durable only after `sync_dir` of its directory.

Calls that touch what is surely in memory (writes, sizes, names) answer at once. Calls that may wait
for the device take `on_done` and answer in a later turn of the loop. `read_blocking` waits, and is
for start-up and offline tools only.

After a `sync` has failed, what it covered must be taken as lost (the kernel may have dropped the
dirty pages): nobody may acknowledge it, and the file is not to be used any more.

What would keep a core busy for seconds is work in steps (`run_steps`): on the real machine it has a
process of its own, because a thread would take the interpreter's lock from the loop.
"""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from kafkaesque.model.errors import DiskFailed

Buffer = bytes | bytearray | memoryview

ArgumentT = TypeVar("ArgumentT")
StepT = TypeVar("StepT")
ResultT = TypeVar("ResultT")


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


class StepRun(Protocol):
    """Work in steps that goes on elsewhere. After each step it waits for one of these calls."""

    def go_on(self) -> None:
        """Let it make its next step; once for each step that was reported."""

    def stop(self) -> None:
        """Let it end where it is: after the step that is under way, if one is."""


class BlockingDisk(Protocol):
    """A data directory, for who may wait; paths are relative to it, with `/`, and `.` is itself."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and writing; with `create` make it if missing.

        Raises:
            FileNotFoundError: missing, and not to be created, or its directory is missing.
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
        """Return how many bytes can still be written.

        Raises:
            DiskFailed: the device refused, or this data directory has gone or been replaced.
        """

    def total_bytes(self) -> int:
        """Return how many bytes the volume has, in use or not, whoever uses them.

        Raises:
            DiskFailed: the device refused.
        """

    def sync_blocking(self, files: Sequence[File], directories: Sequence[str] = ()) -> None:
        """Make files and directory entries durable; waits. For start-up and work in steps only.

        Raises:
            DiskFailed: not durable.
        """


class Disk(BlockingDisk, Protocol):
    """One broker's data directory, as the broker's loop uses it."""

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

    def run_steps(
        self,
        work: Callable[[BlockingDisk, ArgumentT], Generator[StepT, None, ResultT]],
        argument: ArgumentT,
        on_step: Callable[[StepT], None],
        on_done: Callable[[ResultT | None, Exception | None], None],
    ) -> StepRun:
        """Begin work that yields after each bounded step; one at a time, where nobody is disturbed.

        What is begun while other work is under way waits until that has ended. `OverBound` is
        raised where too much waits.

        `on_step` gets what each step yields, and the work waits for `go_on`. At its end comes
        `on_done(result, None)` or `(None, error)`; `(None, None)` where it was stopped. From then
        on it touches nothing any more. `WorkerLost` is the error where its process has died.

        It may happen in another process: `work` has to be a module's function, and `argument`, the
        steps and the result plain values. Should this process be killed, the work ends, too, before
        another can begin in the same directory.
        """
