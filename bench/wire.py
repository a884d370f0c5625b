"""Kafka's bytes, laid out by hand: one request to one broker over a plain socket, and its answer.

Client libraries retry, cache and wait by themselves, and our own codec could hide its mistakes at
both ends.
"""

from __future__ import annotations

import socket
import struct

ANSWER_BYTES_MAX = 64 * 1024 * 1024


class Answer:
    """Reads the fields of one answer."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, code: str) -> int:
        value: int
        (value,) = struct.unpack_from(">" + code, self._data, self._at)
        self._at += struct.calcsize(code)
        return value

    def text(self) -> str:
        length = self.number("h")
        if length < 0:
            return ""
        self._at += length
        return self._data[self._at - length : self._at].decode()

    def nodes(self) -> frozenset[int]:
        return frozenset([self.number("i") for _ in range(self.number("i"))])

    def count(self) -> int:
        """Read how many elements, or bytes, follow in a flexible version."""
        value = shift = 0
        while True:
            byte = self.number("B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return max(0, value - 1)

    def compact_text(self) -> str:
        length = self.count()
        self._at += length
        return self._data[self._at - length : self._at].decode()


def write_text(value: str) -> bytes:
    """Return a string as versions that are not flexible have it."""
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def exchange(
    connection: socket.socket, api: int, version: int, body: bytes, client: str, correlation: int
) -> Answer:
    """Send a request and read its answer; raises OSError when there is none, or another one."""
    request = struct.pack(">hhi", api, version, correlation) + write_text(client) + body
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _read_exactly(connection, 4))
    if not 4 <= size <= ANSWER_BYTES_MAX:
        raise ConnectionError(f"an answer of {size} bytes")
    answer = Answer(_read_exactly(connection, size))
    if answer.number("i") != correlation:
        raise ConnectionError("an answer to another question")
    return answer


def _read_exactly(connection: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the broker closed the connection")
        parts += part
    return bytes(parts)
