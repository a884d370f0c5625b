"""Packets in a stream: a byte of type and flags, a length, and the rest.

Theory of operation. A packet is given out as a whole. Its length is compared with the bound before
anything is kept for it; until its bytes have come, nothing but these bytes is kept.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.protocols.mqtt.errors import MqttError, malformed
from kafkaesque.protocols.mqtt.reasons import ReasonCode

#: Type, flags and the longest length.
_HEAD_BYTES_MAX: Final = 5


class FrameReader:
    """One connection's bytes that are not consumed yet.

    What was read at once stays as it came, and is sliced once. Only a packet that has not come as a
    whole is gathered, until all of it is there, so that its bytes are copied a bounded number of
    times however they were cut.
    """

    __slots__ = ("_at", "_data", "_gathered", "_wanted", "is_strict", "packet_bytes_max")

    def __init__(self, packet_bytes_max: int) -> None:
        #: What has come, and how much of it is consumed.
        self._data = b""
        self._at = 0
        #: The beginning of a packet, and how many bytes it takes to go on.
        self._gathered = bytearray()
        self._wanted = 0
        #: The longest packet, with its header.
        self.packet_bytes_max = packet_bytes_max
        #: Whether a length is refused that has more bytes than it needs: only 5.0 does (1.5.5-1).
        self.is_strict = False

    @property
    def kept_bytes(self) -> int:
        """How much has come and is not consumed."""
        return len(self._data) - self._at + len(self._gathered)

    @property
    def first(self) -> int | None:
        """The first byte of the next packet, if it has come."""
        if self._at < len(self._data):
            return self._data[self._at]
        return self._gathered[0] if self._gathered else None

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in what has come."""
        gathered = self._gathered
        if self._at < len(self._data):
            gathered += self._data[self._at :]
            self._wanted = 0
        if not gathered:
            self._data, self._at = bytes(data), 0
            return
        self._data, self._at = b"", 0
        gathered += data
        if len(gathered) >= self._wanted:
            self._data = bytes(gathered)
            gathered.clear()

    def next_packet(self) -> tuple[int, bytes] | None:
        """Return the next packet's first byte and what follows its length; None: it is not whole.

        Raises:
            MqttError: its length is malformed, or above the bound.
        """
        data, at = self._data, self._at
        available = len(data) - at
        if available < 2:
            if available:
                self._gather(2)
            return None
        size = data[at + 1]
        start = at + 2
        if size >= 0x80:
            size &= 0x7F
            shift = 7
            while True:
                if start == len(data):
                    self._gather(available + 1)
                    return None
                byte = data[start]
                start += 1
                size |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                if start - at == _HEAD_BYTES_MAX:
                    raise malformed("a packet's length has more than four bytes")
                shift += 7
            if byte == 0 and self.is_strict:
                raise malformed("a packet's length is longer than it has to be")
        end = start + size
        if end - at > self.packet_bytes_max:
            what = f"a packet of {end - at} bytes is above the maximum of {self.packet_bytes_max}"
            raise MqttError(ReasonCode.PACKET_TOO_LARGE, what)
        if len(data) < end:
            self._gather(end - at)
            return None
        self._at = end
        return data[at], data[start:end]

    def _gather(self, wanted: int) -> None:
        """Keep what is left until there are so many bytes of it."""
        self._gathered += self._data[self._at :]
        self._wanted = wanted
        self._data, self._at = b"", 0
