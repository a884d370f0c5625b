"""The process that has a broker's data directory open, whoever started it."""

from __future__ import annotations

import fcntl
import os
import select
import signal
from pathlib import Path
from typing import Self

from kafkaesque.runtime.directory import LOCK_NAME

_PID_BYTES_MAX = 20


class DirectoryHolder:
    """A process, and no later one with its id, until `close`."""

    def __init__(self, pid: int, handle: int) -> None:
        self.pid = pid
        self._handle = handle

    @classmethod
    def find(cls, data: Path) -> Self | None:
        """Return the broker that has `data` open; None if there is none that could be signalled.

        The number in the lock's file may be of long ago: it counts if that process has the file
        open.
        """
        lock = data / LOCK_NAME
        try:
            pid = int(lock.read_bytes()[:_PID_BYTES_MAX])
            handle = os.pidfd_open(pid)
        except (OSError, ValueError, OverflowError, AttributeError):
            return None
        if _has_open(pid, lock):
            return cls(pid, handle)
        os.close(handle)
        return None

    def is_running(self) -> bool:
        return not self.wait(0.0)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal; harmless if the process is gone or another user's."""
        try:
            signal.pidfd_send_signal(self._handle, number)
        except (ProcessLookupError, PermissionError):
            pass

    def wait(self, timeout_s: float) -> bool:
        """Return whether the process is gone, at the latest after the timeout."""
        poller = select.poll()
        poller.register(self._handle, select.POLLIN)
        return bool(poller.poll(max(0.0, timeout_s) * 1000))

    def close(self) -> None:
        os.close(self._handle)


def is_held(data: Path) -> bool:
    """Whether some process has `data` open, also one that cannot be looked at."""
    try:
        with (data / LOCK_NAME).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _has_open(pid: int, file: Path) -> bool:
    try:
        wanted = file.stat()
        for number in os.listdir(f"/proc/{pid}/fd"):
            try:
                found = os.stat(f"/proc/{pid}/fd/{number}")
            except OSError:
                continue
            if (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino):
                return True
    except OSError:
        pass
    return False
