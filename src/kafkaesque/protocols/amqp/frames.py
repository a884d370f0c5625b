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
#: The least that peers may agree on: the specification's `frame-min-size`.
FRAME_BYTES_AGREED_MIN: Final = 4096
#: What both sides keep to before they have agreed on another limit; as much as every peer can take.
FRAME_BYTES_MIN: Final = 8192
FRAME_BYTES_MAX_DEFAULT: Final = 131_072

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
    """One connection's bytes that are not consumed yet.

    What was read at once stays as it came, and is sliced once. Only a frame that has not come as a
    whole is gathered, until all of it is there, so that its bytes are copied a bounded number of
    times however they were cut.
    """

    __slots__ = ("_gathered", "_wanted", "at", "data", "frame_bytes_max")

    def __init__(self) -> None:
        #: What has come, and how much of it is consumed.
        self.data = b""
        self.at = 0
        #: The beginning of a frame, and how many bytes it takes to go on.
        self._gathered = bytearray()
        self._wanted = 0
        #: The longest frame, with its overhead.
        self.frame_bytes_max = FRAME_BYTES_MIN

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in what has come."""
        gathered = self._gathered
        if self.at < len(self.data):
            gathered += self.data[self.at :]
            self._wanted = 0
        if not gathered:
            self.data, self.at = bytes(data), 0
            return
        self.data, self.at = b"", 0
        gathered += data
        if len(gathered) >= self._wanted:
            self.data = bytes(gathered)
            gathered.clear()

    def take_header(self) -> bool | None:
        """Consume the protocol header; say whether it is ours, or None if more has to come."""
        found = self.data[:8]
        if not PROTOCOL_HEADER.startswith(found):
            # What does not even begin like it will not become it.
            is_decided = len(found) == 8 or not b"AMQP".startswith(found[:4])
            return False if is_decided else None
        if len(found) < 8:
            return None
        self.at = 8
        return True

    def next_frame(self) -> Frame | None:
        """Return the next frame; None if more has to come.

        Raises:
            AmqpError: the bytes are no frame, or one that is too long.
        """
        data, at = self.data, self.at
        available = len(data) - at
        if available < _HEAD_BYTES:
            if available:
                self._gather(_HEAD_BYTES)
            return None
        kind, channel, size = _HEAD.unpack_from(data, at)
        if kind not in _KINDS:
            raise AmqpError(ReplyCode.FRAME_ERROR, f"unknown frame type {kind}")
        if size > self.frame_bytes_max - OVERHEAD_BYTES:
            what = f"frame of {size} bytes is above frame_max {self.frame_bytes_max}"
            raise AmqpError(ReplyCode.FRAME_ERROR, what)
        end = at + _HEAD_BYTES + size
        if len(data) <= end:
            self._gather(size + OVERHEAD_BYTES)
            return None
        if data[end] != FRAME_END:
            raise AmqpError(ReplyCode.FRAME_ERROR, f"frame ends with {data[end]:#04x}, not 0xce")
        self.at = end + 1
        return Frame(kind, channel, data[at + _HEAD_BYTES : end])

    def _gather(self, wanted: int) -> None:
        """Keep what is left until there are so many bytes of it."""
        self._gathered += self.data[self.at :]
        self._wanted = wanted
        self.data, self.at = b"", 0
