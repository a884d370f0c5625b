"""What a connection still has to send: buffers and file ranges, in order.

`flush` sends as much as the socket takes and tells why it ended. Large buffers go out without a
copy, small ones are joined, file ranges go from the page cache to the socket by `sendfile`. Pages
that are not in the cache are not waited for: `flush` returns `COLD`, a worker brings in what
`cold_read` says, and `warmed` tells that it is done.
"""

import socket
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Final, cast

from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.model.errors import DiskFailed
from kafkaesque.runtime.ports import RangeFile, Socket

#: A turn of the loop sends no more than this for one connection.
FLUSH_BYTES_MAX: Final = 4 * 1024 * 1024
#: Buffers of up to this size together are joined; above, the kernel gathers them.
JOINED_BYTES_MAX: Final = 32 * 1024
#: Buffers for one system call.
GATHERED_BUFFERS_MAX: Final = 64
#: Shorter ranges are read and joined with what stands around them.
SENDFILE_BYTES_MIN: Final = 64 * 1024
#: A long range is probed, warmed and sent in windows of this size.
WINDOW_BYTES: Final = 1024 * 1024
#: Distance of the probes in a window; the kernel's read-ahead works in pieces of this size.
PROBE_STEP_BYTES: Final = 128 * 1024

_SEND_MORE: Final = socket.MSG_MORE if hasattr(socket, "MSG_MORE") else 0


class Flushed(Enum):
    """Why a flush ended."""

    #: Everything has been sent.
    EMPTY = "empty"
    #: The socket takes no more at the moment.
    BLOCKED = "blocked"
    #: The next bytes are not in memory: call `cold_read` in a worker, then `warmed`.
    COLD = "cold"
    #: It was enough for one turn.
    MORE = "more"


# To look a member up in its class takes as long as three calls.
_EMPTY: Final = Flushed.EMPTY


class QueuedRange:
    """The rest of a file range that is being sent."""

    __slots__ = ("file", "length", "position", "warm_end")

    def __init__(self, file: RangeFile, position: int, length: int) -> None:
        self.file: Final = file
        self.position = position
        self.length = length
        #: Up to here the pages are in memory, as far as is known.
        self.warm_end = position


class Outbound:
    """An ordered queue of buffers and file ranges."""

    __slots__ = ("_queue", "added_bytes", "unsent_bytes")

    def __init__(self) -> None:
        self._queue: Final[deque[Buffer | QueuedRange]] = deque()
        #: How much of what was added has not been taken by the socket.
        self.unsent_bytes = 0
        #: How much was added since the beginning and not dropped.
        self.added_bytes = 0

    def add(self, parts: Sequence[Buffer | FileRange]) -> None:
        """Put all parts at the end."""
        queue = self._queue
        added = 0
        for part in parts:
            if isinstance(part, FileRange):
                if part.length > 0:
                    file = cast(RangeFile, part.file)
                    queue.append(QueuedRange(file, part.position, part.length))
                    added += part.length
                continue
            if isinstance(part, memoryview) and part.itemsize != 1:
                part = part.cast("B")
            if len(part):
                queue.append(part)
                added += len(part)
        self.unsent_bytes += added
        self.added_bytes += added

    def clear(self) -> None:
        """Drop everything, and hold no file any more."""
        self._queue.clear()
        self.added_bytes -= self.unsent_bytes
        self.unsent_bytes = 0

    def flush(self, sock: Socket) -> Flushed:
        """Send what the socket takes.

        Raises:
            OSError: the connection is broken.
            DiskFailed: a range cannot be read, or its file has become shorter.
        """
        queue = self._queue
        budget = FLUSH_BYTES_MAX
        try:
            while queue:
                if budget <= 0:
                    return Flushed.MORE
                head = queue[0]
                if isinstance(head, QueuedRange):
                    if head.length < SENDFILE_BYTES_MIN and head.warm_end == head.position:
                        if not self._load(head):
                            return Flushed.COLD
                        continue
                    if not _is_warm(head):
                        return Flushed.COLD
                    budget -= self._send_range(sock, head)
                else:
                    budget -= self._send_buffers(sock)
        except BlockingIOError:
            return Flushed.BLOCKED
        return _EMPTY

    def cold_read(self) -> Callable[[], object]:
        """Return the work that brings the next bytes into memory; it runs in a worker."""
        head = self._queue[0]
        assert isinstance(head, QueuedRange)
        file, position = head.file, head.position
        if head.length < SENDFILE_BYTES_MIN:
            return lambda: file.read_blocking(position, head.length)
        end = position + min(head.length, WINDOW_BYTES)
        return lambda: file.touch(position, end)

    def warmed(self, result: object) -> None:
        """Take what `cold_read` returned.

        Raises:
            DiskFailed: the file has become shorter.
        """
        head = self._queue[0]
        assert isinstance(head, QueuedRange)
        if isinstance(result, bytes):
            self._replace(head, result)
        else:
            # Believed without another probe: under pressure the pages may be gone again, and then
            # to wait once is better than to try for ever.
            head.warm_end = head.position + min(head.length, WINDOW_BYTES)

    def _load(self, head: QueuedRange) -> bool:
        data = head.file.read_nowait(head.position, head.length)
        if data is None:
            return False
        self._replace(head, data)
        return True

    def _replace(self, head: QueuedRange, data: Buffer) -> None:
        if len(data) < head.length:
            raise DiskFailed(
                f"{head.file.path} ends at {head.position + len(data)}, in the midst of a range "
                f"that was promised up to {head.position + head.length}"
            )
        self._queue[0] = data

    def _send_range(self, sock: Socket, head: QueuedRange) -> int:
        window = min(head.length, head.warm_end - head.position)
        sent = head.file.send_to(sock, head.position, window)
        if sent == 0:
            self._replace(head, b"")
        head.position += sent
        head.length -= sent
        if head.length == 0:
            self._queue.popleft()
        self.unsent_bytes -= sent
        return sent

    def _send_buffers(self, sock: Socket) -> int:
        queue = self._queue
        head = queue[0]
        assert not isinstance(head, QueuedRange)
        if len(queue) == 1:
            sent = sock.send(head)
            if sent == len(head):
                queue.popleft()
                self.unsent_bytes -= sent
            else:
                self._advance([head], sent)
            return sent
        flags = 0
        buffers: list[Buffer] = []
        total = 0
        for part in queue:
            if isinstance(part, QueuedRange):
                if part.length < SENDFILE_BYTES_MIN and buffers:
                    # Small ranges join their neighbours when their turn comes as the head.
                    data = part.file.read_nowait(part.position, part.length)
                    if data is not None and len(data) == part.length:
                        part = data
                if isinstance(part, QueuedRange):
                    flags = _SEND_MORE
                    break
            if total and total + len(part) > FLUSH_BYTES_MAX:
                break
            buffers.append(part)
            total += len(part)
            if len(buffers) == GATHERED_BUFFERS_MAX:
                break
        if total <= JOINED_BYTES_MAX:
            sent = sock.send(b"".join(buffers), flags)
        else:
            sent = sock.sendmsg(buffers, (), flags)
        self._advance(buffers, sent)
        return sent

    def _advance(self, buffers: list[Buffer], sent: int) -> None:
        """Take `sent` bytes of the buffers off the queue, in whose front they stand."""
        self.unsent_bytes -= sent
        queue = self._queue
        for buffer in buffers:
            if sent < len(buffer):
                if sent:
                    queue[0] = memoryview(buffer)[sent:]
                return
            queue.popleft()
            sent -= len(buffer)


def _is_warm(head: QueuedRange) -> bool:
    """Tell whether the next window is in memory; if it is, remember it."""
    if head.warm_end > head.position:
        return True
    window = min(head.length, WINDOW_BYTES)
    if not head.file.is_cached(head.position, window, PROBE_STEP_BYTES):
        return False
    head.warm_end = head.position + window
    return True
