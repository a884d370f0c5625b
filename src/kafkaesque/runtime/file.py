"""An open file on the real machine."""

import errno
import os
from collections.abc import Callable, Sequence
from typing import Final

from kafkaesque.env.disk import Buffer
from kafkaesque.model.errors import DiskFailed, DiskFull, ReadFailed
from kafkaesque.runtime.ports import Socket

#: The kernel takes no more buffers in one call.
BUFFERS_PER_WRITE_MAX: Final = 1024
TOUCH_STEP_BYTES: Final = 128 * 1024

_FULL = (errno.ENOSPC, errno.EDQUOT)
#: Bad sectors, and what file systems with checksums say of theirs.
_UNREADABLE = (errno.EIO, errno.EBADMSG, getattr(errno, "EUCLEAN", errno.EIO), errno.ENODATA)
_NOT_SUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)


def disk_error(error: OSError, doing: str, path: str) -> DiskFailed:
    """Return what the rest of the broker is told about an error of the operating system."""
    kind = DiskFull if error.errno in _FULL else DiskFailed
    return kind(f"{doing} {path}: {error.strerror or error}")


def read_error(error: OSError, doing: str, path: str) -> DiskFailed:
    """Return the same of a call that only reads: `ReadFailed` if it is the device that failed."""
    kind = ReadFailed if error.errno in _UNREADABLE else DiskFailed
    return kind(f"{doing} {path}: {error.strerror or error}")


class RealFile:
    """An open file.

    `close` ends writing. The descriptor itself is given back when nobody holds the file any more:
    ranges, reads and syncs that are on their way each hold it, so none of them can meet a
    descriptor that has become another file's.
    """

    __slots__ = ("__weakref__", "_close_later", "_closed", "_nowait", "_path", "_size",
                 "_writes_back", "fd")  # fmt: skip

    def __init__(
        self,
        path: str,
        fd: int,
        close_later: Callable[[int], None],
        *,
        writes_back: bool = False,
    ) -> None:
        self.fd: Final = fd
        self._path: Final = path
        self._close_later: Final = close_later
        self._size = os.fstat(fd).st_size
        self._closed = False
        #: Whether what is written goes on its way to the device at once.
        self._writes_back: Final = writes_back and hasattr(os, "posix_fadvise")
        self._nowait = os.RWF_NOWAIT if hasattr(os, "RWF_NOWAIT") else 0

    def __del__(self) -> None:
        try:
            if os.fstat(self.fd).st_nlink == 0:
                self._close_later(self.fd)
            else:
                os.close(self.fd)
        except (AttributeError, OSError):  # Half-made, or the device is gone: nothing to give back.
            pass

    def __repr__(self) -> str:
        return f"RealFile({self._path!r})"

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        return self._size

    def write_at(self, position: int, buffers: Sequence[Buffer]) -> int:
        self._require_open()
        at = position
        try:
            if len(buffers) == 1:
                at += os.pwrite(self.fd, buffers[0], at)
                written = at - position
                if written < len(buffers[0]):
                    at += self._write_all(at, [memoryview(buffers[0])[written:]])
            else:
                at += self._write_all(at, list(buffers))
        except OSError as error:
            # What was written before the error may have made it longer.
            self._size = os.fstat(self.fd).st_size
            raise disk_error(error, "cannot write", self._path) from error
        self._size = max(self._size, at)
        if self._writes_back:
            # Linux begins to write back what is dirty; it waits for nothing.
            os.posix_fadvise(self.fd, position, at - position, os.POSIX_FADV_DONTNEED)
        return at - position

    def _write_all(self, position: int, buffers: list[Buffer]) -> int:
        at = position
        while buffers:
            written = os.pwritev(self.fd, buffers[:BUFFERS_PER_WRITE_MAX], at)
            at += written
            done = 0
            while done < len(buffers) and written >= len(buffers[done]):
                written -= len(buffers[done])
                done += 1
            del buffers[:done]
            if written:
                buffers[0] = memoryview(buffers[0])[written:]
        return at - position

    def truncate(self, size_bytes: int) -> None:
        self._require_open()
        try:
            os.ftruncate(self.fd, size_bytes)
        except OSError as error:
            raise disk_error(error, "cannot truncate", self._path) from error
        self._size = size_bytes

    def preallocate(self, size_bytes: int) -> None:
        self._require_open()
        try:
            os.posix_fallocate(self.fd, 0, size_bytes)
        except OSError as error:
            if error.errno not in _NOT_SUPPORTED:
                raise disk_error(error, "cannot reserve space for", self._path) from error
            if self._size < size_bytes:
                os.ftruncate(self.fd, size_bytes)
        self._size = max(self._size, size_bytes)

    def read_blocking(self, position: int, length: int) -> bytes:
        try:
            data = os.pread(self.fd, length, position)
            if len(data) == length or not data:
                return data
            pieces = [data]
            have = len(data)
            while have < length and (data := os.pread(self.fd, length - have, position + have)):
                pieces.append(data)
                have += len(data)
            return b"".join(pieces)
        except OSError as error:
            raise read_error(error, "cannot read", self._path) from error

    def read_cached(self, position: int, length: int) -> bytes | None:
        data = self.read_nowait(position, length)
        return None if data is None else bytes(data)

    def read_nowait(self, position: int, length: int) -> bytearray | None:
        """Do the same as `read_cached` with a copy less."""
        length = min(length, self._size - position)
        if length <= 0:
            return bytearray()
        data = bytearray(length)
        try:
            count = os.preadv(self.fd, [data], position, self._nowait)
        except BlockingIOError:
            return None
        except OSError as error:
            if self._nowait and error.errno in _NOT_SUPPORTED:
                self._nowait = 0
                return self.read_nowait(position, length)
            raise read_error(error, "cannot read", self._path) from error
        return data if count == length else None

    def read_into(self, room: memoryview, position: int, *, may_wait: bool) -> int | None:
        """Read what there is into a buffer; None if the device would be waited for."""
        nowait = 0 if may_wait else self._nowait
        try:
            return os.preadv(self.fd, [room], position, nowait)
        except BlockingIOError:
            return None
        except OSError as error:
            if nowait and error.errno in _NOT_SUPPORTED:
                self._nowait = 0
                return self.read_into(room, position, may_wait=True)
            raise read_error(error, "cannot read", self._path) from error

    def is_cached(self, position: int, length: int, step_bytes: int) -> bool:
        """Probe one byte in every `step_bytes`: is it likely that nothing waits for the device?"""
        if not self._nowait:
            return True
        byte = bytearray(1)
        last = position + length - 1
        try:
            for at in range(position, last, step_bytes):
                os.preadv(self.fd, [byte], at, self._nowait)
            os.preadv(self.fd, [byte], last, self._nowait)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno in _NOT_SUPPORTED:
                self._nowait = 0
        return True

    def touch(self, position: int, end: int) -> None:
        """Read pages for their being in memory only."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self.fd, position, end - position, os.POSIX_FADV_WILLNEED)
        room = bytearray(TOUCH_STEP_BYTES)
        for at in range(position, end, TOUCH_STEP_BYTES):
            os.preadv(self.fd, [room], at)

    def send_to(self, sock: Socket, position: int, length: int) -> int:
        """Send from the page cache to a socket; return how much it took, 0 at the file's end."""
        return os.sendfile(sock.fileno(), self.fd, position, length)

    def close(self) -> None:
        self._closed = True

    def sync_now(self) -> None:
        """Make the content durable; waits, so it is called in a worker.

        Raises:
            DiskFailed: not durable.
        """
        try:
            os.fdatasync(self.fd)
        except OSError as error:
            raise disk_error(error, "cannot sync", self._path) from error

    def _require_open(self) -> None:
        if self._closed:
            raise DiskFailed(f"cannot write {self._path}: it is closed")
