"""Gives the space of removed files back little by little.

Theory of operation. When the last descriptor of a file without a name is closed, its whole space is
freed at once. Where the file system tells the device at once (`discard`), the device does nothing
else meanwhile: 64 MiB took 20 ms, a small file up to 8 ms, and the write-ahead log's sync, which
every producer waits for, took as long. So a file is freed by a thread, and cut shorter step by step
if it is large, with a rest after each for as long as the step took, unless the thread falls behind.

Only the last holder may cut: somebody may still be reading, in this process or another. The kernel
knows: it grants a write lease to nobody else. Where it grants none, the file is just closed, and
whoever is last frees it.
"""

import fcntl
import os
import signal
import stat
import threading
import time
from contextlib import suppress
from typing import Final

from kafkaesque.runtime.workers import Mailbox, WorkerPool

#: What is freed in one step.
STEP_BYTES: Final = 4 * 1024 * 1024
#: While more files wait than this, which each hold a descriptor, there are no rests.
WAITING_FILES_MAX: Final = 32
#: Beyond this the thread takes no more.
JOBS_MAX: Final = 1_000


class FreeingThread:
    """The thread that frees, one file after another."""

    __slots__ = ("_is_closing", "_pool")

    def __init__(self, mailbox: Mailbox) -> None:
        self._pool: Final = WorkerPool("disk-free", 1, mailbox)
        self._is_closing: Final = threading.Event()

    @property
    def is_full(self) -> bool:
        """Whether so much waits that its descriptors would be missed elsewhere."""
        return self._pool.pending >= JOBS_MAX

    def close_file(self, fd: int) -> None:
        """Close a descriptor, and free what it was the last holder of."""
        self._pool.submit(lambda: self._close(fd), _ignore)

    def remove(self, path: str) -> None:
        """Remove a file or a directory with all that is in it."""
        self._pool.submit(lambda: self._remove(path), _ignore)

    def close(self) -> None:
        """Free without rests what was asked for, and wait for that."""
        self._is_closing.set()
        self._pool.close()

    # In the thread

    def _remove(self, path: str) -> None:
        for directory, _, names in os.walk(path):
            for name in names:
                self._unlink(f"{directory}/{name}")
        if os.path.isdir(path):
            # It loads decompressors, and most brokers never remove a directory.
            import shutil

            shutil.rmtree(path, ignore_errors=True)
        else:
            self._unlink(path)

    def _unlink(self, path: str) -> None:
        fd = open_to_free(path)
        with suppress(OSError):
            os.unlink(path)
        if fd is not None:
            self._close(fd)

    def _close(self, fd: int) -> None:
        with suppress(OSError):
            self._cut(fd)
        os.close(fd)

    def _cut(self, fd: int) -> None:
        size = os.fstat(fd).st_size
        if size <= STEP_BYTES or not _is_last_holder(fd):
            return
        while size > STEP_BYTES and not self._is_closing.is_set():
            begun = time.monotonic()
            size = (size - 1) // STEP_BYTES * STEP_BYTES
            os.ftruncate(fd, size)
            if self._pool.pending <= WAITING_FILES_MAX:
                self._is_closing.wait(time.monotonic() - begun)


def open_to_free(path: str) -> int | None:
    """Return a descriptor of what is about to lose its name; None if there is nothing.

    None also where it cannot be opened: then only time is lost, because it is freed at once.
    """
    try:
        return os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None


def _is_last_holder(fd: int) -> bool:
    """Tell whether nobody else can see a file's content any more."""
    status = os.fstat(fd)
    if status.st_nlink or not stat.S_ISREG(status.st_mode) or not hasattr(fcntl, "F_SETLEASE"):
        return False
    try:
        # Whoever opens it in this moment, by way of /proc, breaks the lease, and we
        # get a signal, which is to be one that does nothing.
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return False
    return True


def _ignore(_: object, __: Exception | None) -> None:
    """Nobody waits for this result."""
