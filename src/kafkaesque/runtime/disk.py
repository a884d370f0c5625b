"""A broker's data directory on the real machine."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Final

from kafkaesque.env.disk import ArgumentT, BlockingDisk, File, ResultT, StepT
from kafkaesque.model.errors import DiskFailed
from kafkaesque.runtime.directory import LOCK_NAME, TRASH_NAME, RealDirectory, descriptor_of
from kafkaesque.runtime.file import disk_error
from kafkaesque.runtime.freeing import FreeingThread, open_to_free
from kafkaesque.runtime.heavy_work import HeavyRun, HeavyWork
from kafkaesque.runtime.kernel_syncs import KernelSyncs
from kafkaesque.runtime.poller import Poller
from kafkaesque.runtime.workers import Mailbox, WorkerPool

#: A sync of so few files is somebody's latency (the write-ahead log's) and has threads of its own.
URGENT_SYNC_FILES_MAX: Final = 2
URGENT_SYNC_THREADS_MAX: Final = 3
#: As many as a broker that stops has syncs at once; they start when they are first needed.
SYNC_THREADS_MAX: Final = 8
READ_THREADS_MAX: Final = 4
WORK_THREADS_MAX: Final = 2


class RealDisk(RealDirectory):
    """The files below one directory, which belongs to this process alone while it is open."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        loop: asyncio.AbstractEventLoop,
        poller: Poller | None = None,
    ) -> None:
        """Make the directory if it is missing, and lock it; without `poller` threads sync alone.

        Raises:
            DiskFailed: another process has it, or it cannot be used.
        """
        super().__init__(root)
        try:
            os.makedirs(f"{self.root}/{TRASH_NAME}", exist_ok=True)
            self._lock_fd = _lock(self.root)
            #: What the process before has left there, under names that may be ours again.
            self._left_over: Final = frozenset(os.listdir(f"{self.root}/{TRASH_NAME}"))
            self._place: Final = os.stat(self.root)
        except OSError as error:
            raise disk_error(error, "cannot use the directory", self.root) from error
        self._thread: Final = threading.get_ident()
        self._closed = False
        self._mailbox: Final = Mailbox(loop)
        self.readers: Final = WorkerPool("disk-read", READ_THREADS_MAX, self._mailbox)
        self._urgent_syncers: Final = WorkerPool(
            "disk-sync-urgent", URGENT_SYNC_THREADS_MAX, self._mailbox
        )
        self._kernel_syncs: Final = None if poller is None else KernelSyncs.open(poller)
        self._syncers: Final = WorkerPool("disk-sync", SYNC_THREADS_MAX, self._mailbox)
        self._workers: Final = WorkerPool("work", WORK_THREADS_MAX, self._mailbox)
        self._freeing: Final = FreeingThread(self._mailbox)
        self._heavy: Final = HeavyWork(self.root, loop, self._mailbox)
        self._trash_count = 0
        for name in sorted(self._left_over):
            self._freeing.remove(f"{self.root}/{TRASH_NAME}/{name}")

    def close(self) -> None:
        """Wait for the threads and give the directory back; nothing is called any more."""
        if self._closed:
            return
        self._closed = True
        self._mailbox.close()
        self._heavy.close()
        if self._kernel_syncs is not None:
            self._kernel_syncs.close()
        for pool in (self._urgent_syncers, self._syncers, self.readers, self._workers):
            pool.close()
        self._freeing.close()
        os.close(self._lock_fd)

    # Space

    def free_bytes(self) -> int:
        try:
            place = os.stat(self.root)
        except OSError as error:
            raise disk_error(error, "cannot find the data directory", self.root) from error
        if not os.path.samestat(place, self._place):
            raise DiskFailed(f"{self.root} is not the directory any more that was opened")
        return super().free_bytes()

    # Names

    def remove(self, path: str) -> None:
        # To free a large file takes milliseconds; the descriptor that a worker holds while it
        # unlinks moves that off the loop without a moment in which the name still exists.
        fd = open_to_free(self._at(path))
        try:
            super().remove(path)
        finally:
            if fd is not None:
                self._close_later(fd)

    def rename(self, old: str, new: str) -> None:
        # The same for a file that another one takes the place of.
        fd = open_to_free(self._at(new))
        try:
            super().rename(old, new)
        finally:
            if fd is not None:
                self._close_later(fd)

    def remove_tree(self, path: str) -> None:
        grave = f"{self.root}/{TRASH_NAME}/{self._next_trash_name()}"
        try:
            os.rename(self._at(path), grave)
        except FileNotFoundError:
            return
        except OSError as error:
            raise disk_error(error, "cannot remove", path) from error
        self._freeing.remove(grave)

    # What waits for the device

    def sync(
        self,
        files: Sequence[File],
        on_done: Callable[[DiskFailed | None], None],
        directories: Sequence[str] = (),
    ) -> None:
        files, directories = tuple(files), tuple(directories)

        def done(_: object, error: Exception | None) -> None:
            on_done(error if error is None else _as_disk_failed(error, "sync"))

        urgent = len(files) + len(directories) <= URGENT_SYNC_FILES_MAX
        if urgent and not directories and self._sync_in_kernel(files, on_done):
            return
        pool = self._urgent_syncers if urgent else self._syncers
        pool.submit(lambda: self.sync_blocking(files, directories), done)

    def read(
        self, file: File, position: int, length: int, on_done: Callable[[bytes | DiskFailed], None]
    ) -> None:
        def done(data: object, error: Exception | None) -> None:
            if isinstance(data, bytes):
                on_done(data)
            else:
                on_done(_as_disk_failed(error, f"read {file.path}"))

        self.readers.submit(lambda: file.read_blocking(position, length), done)

    def run(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        self._workers.submit(work, on_done)

    def run_steps(
        self,
        work: Callable[[BlockingDisk, ArgumentT], Generator[StepT, None, ResultT]],
        argument: ArgumentT,
        on_step: Callable[[StepT], None],
        on_done: Callable[[ResultT | None, Exception | None], None],
    ) -> HeavyRun[StepT, ResultT]:
        run: HeavyRun[StepT, ResultT] = HeavyRun(self._heavy, on_step, on_done)
        self._heavy.begin(run, work, argument)
        return run

    # Inside

    def _sync_in_kernel(
        self, files: tuple[File, ...], on_done: Callable[[DiskFailed | None], None]
    ) -> bool:
        """Begin a sync that needs no thread; return whether it has begun."""
        if self._kernel_syncs is None:
            return False

        def done(number: int) -> None:
            # Until now the files are held: a descriptor that is closed is another file's soon.
            paths = ", ".join(each.path for each in files)
            error = OSError(number, os.strerror(number)) if number else None
            on_done(None if error is None else disk_error(error, "cannot sync", paths))

        return self._kernel_syncs.submit([descriptor_of(each) for each in files], done)

    def _next_trash_name(self) -> str:
        """Return a name that nothing in the trash has: in a container all processes have one id."""
        while True:
            self._trash_count += 1
            name = f"{os.getpid()}-{self._trash_count}"
            if name not in self._left_over:
                return name

    def _close_later(self, fd: int) -> None:
        # The last holder of a file may be a worker, which can as well wait itself.
        is_elsewhere = self._closed or threading.get_ident() != self._thread
        if is_elsewhere or self._freeing.is_full:
            os.close(fd)
        else:
            self._freeing.close_file(fd)


def _lock(root: str) -> int:
    """Return a descriptor that holds the directory's lock until it is closed."""
    fd = os.open(f"{root}/{LOCK_NAME}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(fd)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        raise DiskFailed(f"{root} is in use by another process (pid {holder})") from error
    os.ftruncate(fd, 0)
    os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    return fd


def _as_disk_failed(error: Exception | None, doing: str) -> DiskFailed:
    if isinstance(error, DiskFailed):
        return error
    failed = DiskFailed(f"cannot {doing}: {error!r}")
    failed.__cause__ = error
    return failed
