"""Syncs that the kernel carries out by itself, so that no thread of ours has to.

Theory of operation. A thread that syncs needs Python's lock to begin and once more to tell that it
has ended, and each time waits for an event loop that computes. Linux takes syncs as asynchronous
requests (`io_submit` with `IOCB_CMD_FDSYNC`, since 4.18) and counts those that have ended in a
descriptor, which the poller watches as it watches sockets. So a sync begins within the call, and
its end is an event of the loop's turn.

Where the kernel does not take them (another system, a container that forbids the calls), `open`
returns None, and threads sync. Source: the manual pages io_submit(2) and io_getevents(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import select
import sys
from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.runtime.poller import READABLE, Poller

#: Files that are synced at once; who wants more has to wait in a thread.
SYNCS_MAX: Final = 32

_SETUP, _DESTROY, _EVENTS, _SUBMIT = range(4)
#: The numbers of io_setup, io_destroy, io_getevents and io_submit, which have no function in libc.
_SYSTEM_CALLS: Final = {
    "x86_64": (206, 207, 208, 209),
    "aarch64": (0, 1, 4, 2),
}
_FDSYNC: Final = 3
_TELL_DESCRIPTOR: Final = 1

#: Called with 0, or with the error's number.
OnSynced = Callable[[int], None]


class _Request(ctypes.Structure):
    """`struct iocb`, on little-endian machines."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("key", ctypes.c_uint32),
        ("rw_flags", ctypes.c_int32),
        ("opcode", ctypes.c_uint16),
        ("priority", ctypes.c_int16),
        ("fd", ctypes.c_uint32),
        ("buffer", ctypes.c_uint64),
        ("bytes", ctypes.c_uint64),
        ("offset", ctypes.c_int64),
        ("reserved", ctypes.c_uint64),
        ("flags", ctypes.c_uint32),
        ("told", ctypes.c_uint32),
    )


class _Event(ctypes.Structure):
    """`struct io_event`."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("result", ctypes.c_int64),
        ("result2", ctypes.c_int64),
    )


class _Sync:
    """One call of `submit`, until all its files are synced."""

    __slots__ = ("error", "left", "on_done")

    def __init__(self, files: int, on_done: OnSynced) -> None:
        self.left = files
        self.error = 0
        self.on_done = on_done


class KernelSyncs:
    """The syncs of one process; see the module."""

    __slots__ = ("_call", "_calls", "_context", "_events", "_free", "_poller", "_syncs", "_told")

    def __init__(self, poller: Poller) -> None:
        """Open them.

        Raises:
            OSError: the kernel does not take them.
        """
        self._calls: Final = _system_calls()
        self._call: Final = ctypes.CDLL(None, use_errno=True).syscall
        self._context: Final = ctypes.c_ulong(0)
        self._system(_SETUP, ctypes.c_long(SYNCS_MAX), ctypes.byref(self._context))
        self._told: Final = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._events: Final = (_Event * SYNCS_MAX)()
        self._free: Final = [
            _Request(data=each, opcode=_FDSYNC, flags=_TELL_DESCRIPTOR, told=self._told)
            for each in range(SYNCS_MAX)
        ]
        #: By the number of the request: it, and what it belongs to.
        self._syncs: Final[dict[int, tuple[_Request, _Sync]]] = {}
        self._poller: Final = poller
        poller.add(self._told, READABLE, self._on_told)

    @classmethod
    def open(cls, poller: Poller) -> KernelSyncs | None:
        """Return them, or None where the kernel does not take them."""
        try:
            return cls(poller)
        except OSError:
            return None

    def submit(self, fds: Sequence[int], on_done: OnSynced) -> bool:
        """Begin to make files durable, as fdatasync does; `on_done` is called in a later event.

        Returns False where nothing has begun: as much as possible is under way, or the kernel does
        not take it of such a file.
        """
        if not fds or len(fds) > len(self._free):
            return False
        requests = [self._free.pop() for _ in fds]
        for request, fd in zip(requests, fds, strict=True):
            request.fd = fd
        places = (ctypes.c_void_p * len(fds))(*map(ctypes.addressof, requests))
        try:
            begun = self._system(_SUBMIT, self._context, ctypes.c_long(len(fds)), places)
        except OSError:
            begun = 0
        sync = _Sync(begun, on_done)
        for request in requests[:begun]:
            self._syncs[request.data] = request, sync
        self._free.extend(requests[begun:])
        if 0 < begun < len(fds):
            # What has not begun fails the whole: whoever syncs takes it as the device's failure.
            sync.error = errno.EIO
        return begun > 0

    def close(self) -> None:
        """Wait for what is under way, and tell nobody."""
        while self._syncs:
            self._collect(1)
        self._poller.remove(self._told)
        self._system(_DESTROY, self._context)
        os.close(self._told)

    def _on_told(self, events: int) -> None:
        if events & select.EPOLLIN:
            os.eventfd_read(self._told)
        for sync in self._collect(0):
            sync.on_done(sync.error)

    def _collect(self, least: int) -> list[_Sync]:
        """Return those that are done."""
        count = self._system(
            _EVENTS,
            self._context,
            ctypes.c_long(least),
            ctypes.c_long(SYNCS_MAX),
            self._events,
            None,
        )
        done = []
        for event in self._events[:count]:
            request, sync = self._syncs.pop(event.data)
            self._free.append(request)
            sync.left -= 1
            if event.result < 0:
                sync.error = -event.result
            if not sync.left:
                done.append(sync)
        return done

    def _system(self, call: int, *arguments: object) -> int:
        """Call the kernel.

        Raises:
            OSError: it refuses.
        """
        while True:
            result: int = self._call(ctypes.c_long(self._calls[call]), *arguments)
            if result >= 0:
                return result
            number = ctypes.get_errno()
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number))


def _system_calls() -> tuple[int, int, int, int]:
    found = _SYSTEM_CALLS.get(platform.machine()) if sys.platform == "linux" else None
    if found is None or sys.byteorder != "little":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    return found
