"""Requests and answers as bytes; knows of no socket."""

from struct import Struct
from typing import Any, Final

from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.frames import read_response

#: A longer answer is none of a broker's.
ANSWER_BYTES_MAX: Final = 100 * 1024 * 1024
_LENGTH: Final = Struct(">i")
#: An answer that begins like this is an admin port's, or another server's.
_HTTP: Final = b"HTTP"
SPEAKS_HTTP: Final = "it speaks HTTP, as an admin port does; a broker has another port for Kafka"
#: How an answer begins that is a TLS alert.
_TLS_ALERT: Final = b"\x15\x03"
WANTS_TLS: Final = "it speaks TLS, and the client does not"


class AnswerReader:
    """Collects the bytes of one answer."""

    __slots__ = ("_data", "_size")

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = -1

    @property
    def wanted(self) -> int:
        """How many bytes are still to come, as far as is known; 0: it is all there."""
        if self._size < 0:
            return _LENGTH.size - len(self._data)
        return self._size + _LENGTH.size - len(self._data)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take bytes, at most `wanted`.

        Raises:
            MalformedRequest: it is no answer of a broker.
        """
        self._data += data
        if self._size < 0 and len(self._data) >= _LENGTH.size:
            self._size = _read_size(bytes(self._data[: _LENGTH.size]))

    def message(self, api_key: int, api_version: int) -> Any:
        """Return the answer; bytes in it are views.

        Raises:
            MalformedRequest: it is no answer to such a request.
        """
        return read_response(memoryview(self._data)[_LENGTH.size :], api_key, api_version)[1]


def _read_size(begin: bytes) -> int:
    if begin == _HTTP:
        raise MalformedRequest(SPEAKS_HTTP)
    if begin.startswith(_TLS_ALERT):
        raise MalformedRequest(WANTS_TLS)
    size: int = _LENGTH.unpack(begin)[0]
    if not 0 < size <= ANSWER_BYTES_MAX:
        raise MalformedRequest(f"an answer of {size} bytes")
    return size
