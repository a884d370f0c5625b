"""What a connection over TLS still has to send.

File ranges cannot go from the page cache to the socket here: they are read into a buffer of the
loop, together with the small parts around them, and sealed from there. What is sealed counts as
unsent until all of its chunk has been taken by the socket, so that marks and metrics count what has
left, in bytes of the protocol and not of TLS.
"""

from typing import Final

from kafkaesque.runtime.outbound import FLUSH_BYTES_MAX, Flushed, Outbound, QueuedRange
from kafkaesque.runtime.ports import Socket
from kafkaesque.runtime.tls_socket import CHUNK_BYTES, TlsBuffers, TlsSocket

#: A buffer of at least this size is sealed from where it is, without a copy.
DIRECT_BYTES_MIN: Final = 16 * 1024


class SealedOutbound(Outbound):
    """An ordered queue of buffers and file ranges, for one TLS socket."""

    __slots__ = ("_plain_bytes", "_room", "_tls")

    def __init__(self, tls: TlsSocket, buffers: TlsBuffers) -> None:
        super().__init__()
        self._tls: Final = tls
        self._room: Final = buffers.plain
        #: How much of what is unsent is sealed already.
        self._plain_bytes = 0

    def clear(self) -> None:
        super().clear()
        self._plain_bytes = 0

    def flush(self, sock: Socket) -> Flushed:
        """See `Outbound.flush`; what is sent goes to the TLS socket of this queue."""
        tls, queue = self._tls, self._queue
        budget = FLUSH_BYTES_MAX
        try:
            while True:
                if tls.unsent:
                    budget -= tls.send_unsent()
                    continue
                self.unsent_bytes -= self._plain_bytes
                self._plain_bytes = 0
                if tls.has_to_speak():
                    tls.collect()
                    continue
                if not queue:
                    return Flushed.EMPTY
                if budget <= 0:
                    return Flushed.MORE
                if not self._seal():
                    return Flushed.COLD
        except BlockingIOError:
            return Flushed.BLOCKED

    def _seal(self) -> bool:
        """Seal the next chunk; False if the next bytes are not in memory."""
        queue = self._queue
        head = queue[0]
        if not isinstance(head, QueuedRange) and len(head) >= DIRECT_BYTES_MIN:
            chunk = memoryview(head)[:CHUNK_BYTES]
            if len(chunk) < len(head):
                queue[0] = memoryview(head)[CHUNK_BYTES:]
            else:
                queue.popleft()
            self._plain_bytes = len(chunk)
            self._tls.seal(chunk)
            return True
        filled = self._fill()
        if filled:
            self._plain_bytes = filled
            self._tls.seal(self._room[:filled])
        return bool(filled)

    def _fill(self) -> int:
        """Move what comes next into the buffer, as far as it fits and is in memory."""
        queue, room = self._queue, self._room
        filled = 0
        while queue and filled < CHUNK_BYTES:
            head = queue[0]
            if isinstance(head, QueuedRange):
                count = self._read(head, room[filled : filled + head.length])
                if count is None:
                    break
            else:
                count = min(len(head), CHUNK_BYTES - filled)
                room[filled : filled + count] = memoryview(head)[:count]
                if count < len(head):
                    queue[0] = memoryview(head)[count:]
                else:
                    queue.popleft()
            filled += count
        return filled

    def _read(self, head: QueuedRange, room: memoryview) -> int | None:
        count = head.file.read_into(room, head.position, may_wait=head.warm_end > head.position)
        if count == 0:
            self._replace(head, b"")
        if count:
            head.position += count
            head.length -= count
            if head.length == 0:
                self._queue.popleft()
        return count
