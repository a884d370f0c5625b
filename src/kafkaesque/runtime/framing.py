"""Cutting what arrives into what the handler gets.

One scratch buffer serves all connections of a loop: a connection that says nothing owns no buffer.
Many small frames of one read are copied out of the scratch buffer without another system call. A
frame whose beginning fills a good part of it gets a buffer of its own, into which the rest is
received directly. What a frame's length *says* allocates nothing: the buffer is at most
`GROWTH` times what has really come. And all such buffers together have a bound: beyond it, the one
that has waited longest for its rest is given up, and its connection with it.
"""

import struct
from typing import Final, Protocol

from kafkaesque.runtime.ports import Socket

SCRATCH_BYTES: Final = 256 * 1024
#: From so many bytes of an incomplete frame on, it has a buffer of its own.
OWN_BUFFER_BYTES_MIN: Final = 16 * 1024
GROWTH: Final = 4
#: Bytes of all buffers of incomplete frames; enough for five hundred clients that send a megabyte
#: at the same time.
INCOMPLETE_BYTES_MAX: Final = 512 * 1024 * 1024
LENGTH_BYTES: Final = 4

#: How a TLS client's first record begins, read as a length: handshake, then a version.
TLS_BEGINNINGS: Final = (0x160301, 0x160302, 0x160303)
TLS_HINT: Final = " (TLS begins like this, and this port speaks in the clear)"

_read_length = struct.Struct(">i").unpack_from


class FrameRefused(ConnectionError):
    """The other end announced a frame of a length that is not allowed."""


class Sink(Protocol):
    """Who gets the pieces."""

    #: Whether it takes more at the moment; asked after every piece.
    reading: bool
    #: What was received for it since the beginning, in bytes.
    received: int

    def deliver(self, data: bytearray) -> None:
        """Take a piece, and own it."""

    def give_up(self, reason: str) -> None:
        """Drop the connection: there is no room for what it sends."""


class Scratch:
    """What all connections of a loop share: the receive buffer, and room for incomplete frames.

    Nothing in the buffer outlives a turn.
    """

    __slots__ = ("_incomplete", "buffer", "incomplete_bytes", "view")

    def __init__(self) -> None:
        self.buffer: Final = bytearray(SCRATCH_BYTES)
        self.view: Final = memoryview(self.buffer)
        #: Whose large frames are incomplete, the one that began first at the front.
        self._incomplete: Final[dict[FrameCutter, Sink]] = {}
        self.incomplete_bytes = 0

    def note_growth(self, cutter: "FrameCutter", sink: Sink, grown_bytes: int) -> None:
        """A frame's buffer was made or has grown; others may have to make room for it."""
        self._incomplete.setdefault(cutter, sink)
        self.incomplete_bytes += grown_bytes
        while self.incomplete_bytes > INCOMPLETE_BYTES_MAX:
            oldest = next(iter(self._incomplete))
            if oldest is cutter:
                return
            self._incomplete[oldest].give_up(
                f"{INCOMPLETE_BYTES_MAX} bytes of incomplete frames wait, its own the longest"
            )

    def note_end(self, cutter: "FrameCutter", size_bytes: int) -> None:
        """A frame is complete, or will never be."""
        if self._incomplete.pop(cutter, None) is not None:
            self.incomplete_bytes -= size_bytes


class Cutter(Protocol):
    """Receives from a socket and cuts."""

    def receive(self, sock: Socket, sink: Sink) -> bool:
        """Receive once and deliver what is complete; False at the end of the stream.

        Raises:
            BlockingIOError: nothing is there.
            FrameRefused: the rest of the stream makes no sense.
            OSError: the connection is broken.
        """

    def deliver_rest(self, sink: Sink) -> None:
        """Deliver what was received before the sink stopped taking."""

    def limit_frames(self, frame_bytes_max: int) -> None:
        """Refuse longer frames, from the next one on."""

    def close(self) -> None:
        """Drop what is incomplete: nothing more will come."""


class FrameCutter:
    """Cuts frames with a big-endian int32 length before them."""

    __slots__ = ("_bytes_max", "_filled", "_length", "_own", "_rest", "_scratch")

    def __init__(self, scratch: Scratch, frame_bytes_max: int) -> None:
        self._scratch: Final = scratch
        self._bytes_max = frame_bytes_max
        #: Received, and not delivered: the start of a frame, or anything if the sink is paused.
        self._rest: bytearray | None = None
        #: The buffer of a large frame, how much of it is there, and how long the frame is.
        self._own: bytearray | None = None
        self._filled = 0
        self._length = 0

    def receive(self, sock: Socket, sink: Sink) -> bool:
        if self._own is not None:
            return self._receive_own(sock, sink)
        scratch = self._scratch
        start = 0
        if self._rest is not None:
            start = len(self._rest)
            scratch.buffer[:start] = self._rest
        count = sock.recv_into(scratch.view[start:] if start else scratch.view)
        if count == 0:
            return False
        self._rest = None
        sink.received += count
        self._cut(start + count, sink)
        return True

    def deliver_rest(self, sink: Sink) -> None:
        rest = self._rest
        if rest is not None:
            self._rest = None
            self._scratch.buffer[: len(rest)] = rest
            self._cut(len(rest), sink)

    def limit_frames(self, frame_bytes_max: int) -> None:
        self._bytes_max = frame_bytes_max

    def _cut(self, end: int, sink: Sink) -> None:
        buffer = self._scratch.buffer
        at = 0
        while end - at >= LENGTH_BYTES and sink.reading:
            (length,) = _read_length(buffer, at)
            if not 0 <= length <= self._bytes_max:
                raise FrameRefused(
                    f"a frame of {length} bytes; 0 to {self._bytes_max} are allowed"
                    + (TLS_HINT if length >> 8 in TLS_BEGINNINGS else "")
                )
            start = at + LENGTH_BYTES
            if start + length > end:
                if end - start >= OWN_BUFFER_BYTES_MIN:
                    self._begin_own(start, end, length, sink)
                    return
                break
            at = start + length
            sink.deliver(buffer[start:at])
        if at < end:
            self._rest = buffer[at:end]

    def _begin_own(self, start: int, end: int, length: int, sink: Sink) -> None:
        self._filled = end - start
        self._length = length
        self._own = bytearray(min(length, GROWTH * self._filled))
        self._scratch.note_growth(self, sink, len(self._own))
        self._own[: self._filled] = self._scratch.view[start:end]

    def _receive_own(self, sock: Socket, sink: Sink) -> bool:
        own = self._own
        assert own is not None
        if self._filled == len(own):
            own = bytearray(min(self._length, GROWTH * self._filled))
            own[: self._filled] = memoryview(self._own or b"")
            self._own = own
            self._scratch.note_growth(self, sink, len(own) - self._filled)
        with memoryview(own) as view, view[self._filled :] as room:
            count = sock.recv_into(room)
        if count == 0:
            return False
        self._filled += count
        sink.received += count
        if self._filled == self._length:
            self.close()
            sink.deliver(own)
        return True

    def close(self) -> None:
        if self._own is not None:
            self._scratch.note_end(self, len(self._own))
            self._own = None
        self._rest = None


class StreamCutter:
    """Delivers whatever comes."""

    __slots__ = ("_scratch",)

    def __init__(self, scratch: Scratch) -> None:
        self._scratch: Final = scratch

    def receive(self, sock: Socket, sink: Sink) -> bool:
        count = sock.recv_into(self._scratch.view)
        if count == 0:
            return False
        sink.received += count
        sink.deliver(self._scratch.buffer[:count])
        return True

    def deliver_rest(self, sink: Sink) -> None:
        """Nothing is ever left over: one read is one piece."""

    def limit_frames(self, frame_bytes_max: int) -> None:
        """There are no frames."""

    def close(self) -> None:
        """Nothing is ever incomplete."""
