"""Cuts a stream of bytes into the protocol header and frames, within bounds.

A frame is believed to be as long as it says only after that has been compared with the bound: until
its bytes have come, nothing but these bytes is kept.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode

METHOD: Final = 1
HEADER: Final = 2
BODY: Final = 3
HEARTBEAT: Final = 8
_KINDS = frozenset((METHOD, HEADER, BODY, HEARTBEAT))

PROTOCOL_HEADER: Final = b"AMQP\0\0\x09\x01"
FRAME_END: Final = 0xCE
FRAME_END_BYTE: Final = b"\xce"
#: Frame header and end.
OVERHEAD_BYTES: Final = 8
#: What both sides keep to before they have agreed on another limit; as much as every peer can take.
FRAME_BYTES_MIN: Final = 8192
FRAME_BYTES_MAX_DEFAULT: Final = 131_072
#: Content that is consumed is removed from the buffer in pieces of at least so many bytes.
_COMPACT_BYTES: Final = 64 * 1024

_HEAD: Final = Struct(">BHI")
_HEAD_BYTES: Final = 7

HEARTBEAT_FRAME: Final = _HEAD.pack(HEARTBEAT, 0, 0) + FRAME_END_BYTE


class Frame(NamedTuple):
    """One frame."""

    kind: int
    channel: int
    payload: bytes


def write_frame(kind: int, channel: int, payload: bytes) -> bytes:
    """Return a frame."""
    return _HEAD.pack(kind, channel, len(payload)) + payload + FRAME_END_BYTE


class FrameReader:
    """One connection's bytes that are not consumed yet."""

    __slots__ = ("_at", "_buffer", "frame_bytes_max")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        #: The longest frame, with its overhead.
        self.frame_bytes_max = FRAME_BYTES_MIN

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in what has come."""
        self._buffer += data

    def take_header(self) -> bool | None:
        """Consume the protocol header; say whether it is ours, or None if more has to come."""
        found = bytes(self._buffer[:8])
        if not PROTOCOL_HEADER.startswith(found):
            # What does not even begin like it will not become it.
            is_decided = len(found) == 8 or not b"AMQP".startswith(found[:4])
            return False if is_decided else None
        if len(found) < 8:
            return None
        self._at = 8
        return True

    def next_frame(self) -> Frame | None:
        """Return the next frame; None if more has to come.

        Raises:
            AmqpError: the bytes are no frame, or one that is too long.
        """
        buffer, at = self._buffer, self._at
        available = len(buffer) - at
        if available < _HEAD_BYTES:
            self._compact()
            return None
        kind, channel, size = _HEAD.unpack_from(buffer, at)
        if kind not in _KINDS:
            raise AmqpError(ReplyCode.FRAME_ERROR, f"unknown frame type {kind}")
        if size > self.frame_bytes_max - OVERHEAD_BYTES:
            what = f"frame of {size} bytes is above frame_max {self.frame_bytes_max}"
            raise AmqpError(ReplyCode.FRAME_ERROR, what)
        end = at + _HEAD_BYTES + size
        if len(buffer) <= end:
            self._compact()
            return None
        if buffer[end] != FRAME_END:
            raise AmqpError(ReplyCode.FRAME_ERROR, f"frame ends with {buffer[end]:#04x}, not 0xce")
        self._at = end + 1
        return Frame(kind, channel, bytes(buffer[at + _HEAD_BYTES : end]))

    def _compact(self) -> None:
        """Remove what is consumed, if that is all or much."""
        if self._at == len(self._buffer):
            self._buffer.clear()
            self._at = 0
        elif self._at > _COMPACT_BYTES:
            del self._buffer[: self._at]
            self._at = 0
