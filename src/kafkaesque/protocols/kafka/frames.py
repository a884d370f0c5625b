"""Whole frames: length prefix, header and message; codecs are imported when first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from struct import Struct
from typing import Any, Final

from kafkaesque.protocols.kafka.api import (
    ADVERTISED,
    ApiKey,
    RequestHeader,
    VersionRange,
    read_response_header,
    response_header_version,
    write_request_header,
)
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.api_versions_response import (
    ApiVersion,
    ApiVersionsResponse,
)
from kafkaesque.protocols.kafka.wire import Buffer, Message

Reader = Callable[[memoryview, int], Any]
Writer = Callable[[Any, list[Buffer]], None]

#: Bytes of the length prefix, which counts everything but itself.
LENGTH_BYTES: Final = 4

_LENGTH: Final = Struct(">i")
_LENGTH_AND_CORRELATION_ID: Final = Struct(">ii")

#: (API key, version) -> codec, filled as they are used; bounded by the number of versions.
_request_readers: dict[tuple[int, int], Reader] = {}
_request_writers: dict[tuple[int, int], Writer] = {}
_response_readers: dict[tuple[int, int], Reader] = {}
_response_writers: dict[tuple[int, int], Writer] = {}


def _codec(api_key: int, api_version: int, kind: str, verb: str) -> Any:
    name = CODEC_VERSIONS[api_key][3]
    module = import_module(f"kafkaesque.protocols.kafka.messages.{name}_{kind}")
    return getattr(module, verb)[api_version]


def request_reader(api_key: int, api_version: int) -> Reader:
    """Returns `read(frame, body_offset) -> message`.

    Raises:
        KeyError: the codec has no such API or version.
    """
    reader = _request_readers.get((api_key, api_version))
    if reader is None:
        reader = _codec(api_key, api_version, "request", "READ")
        _request_readers[api_key, api_version] = reader
    return reader


def request_writer(api_key: int, api_version: int) -> Writer:
    """Returns `write(message, parts)`; raises KeyError like `request_reader`."""
    writer = _request_writers.get((api_key, api_version))
    if writer is None:
        writer = _codec(api_key, api_version, "request", "WRITE")
        _request_writers[api_key, api_version] = writer
    return writer


def response_reader(api_key: int, api_version: int) -> Reader:
    """Returns `read(frame, body_offset) -> message`; raises KeyError like `request_reader`."""
    reader = _response_readers.get((api_key, api_version))
    if reader is None:
        reader = _codec(api_key, api_version, "response", "READ")
        _response_readers[api_key, api_version] = reader
    return reader


def response_writer(api_key: int, api_version: int) -> Writer:
    """Returns `write(message, parts)`; raises KeyError like `request_reader`."""
    writer = _response_writers.get((api_key, api_version))
    if writer is None:
        writer = _codec(api_key, api_version, "response", "WRITE")
        _response_writers[api_key, api_version] = writer
    return writer


def read_request(header: RequestHeader, frame: memoryview) -> Any:
    """Returns the message behind a header; bytes in it are slices of `frame`.

    Raises:
        MalformedRequest: the body is not what the header says.
    """
    return request_reader(header.api_key, header.api_version)(frame, header.body_offset)


def write_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Message
) -> bytes:
    """Returns a request as one frame, with its length prefix."""
    header = write_request_header(api_key, api_version, correlation_id, client_id)
    parts: list[Buffer] = [b"", header]
    request_writer(api_key, api_version)(message, parts)
    parts[0] = _LENGTH.pack(sum(map(len, parts)))
    return b"".join(parts)


def read_response(frame: memoryview, api_key: int, api_version: int) -> tuple[int, Any]:
    """Returns (correlation id, message) of a frame without its length prefix.

    Raises:
        MalformedRequest: the frame is not a response of this kind.
    """
    correlation_id, pos = read_response_header(frame, api_key, api_version)
    return correlation_id, response_reader(api_key, api_version)(frame, pos)


def write_response(api_key: int, api_version: int, correlation_id: int, message: Message) -> bytes:
    """Returns a response as one frame, with its length prefix."""
    return CachedResponse(api_key, api_version, message).frame(correlation_id)


class CachedResponse:
    """A response that is encoded once and sent many times, such as Metadata.

    Only the correlation id differs between two answers to the same question.
    """

    __slots__ = ("_rest",)

    def __init__(self, api_key: int, api_version: int, message: Message) -> None:
        parts: list[Buffer] = [b"\0" if response_header_version(api_key, api_version) else b""]
        response_writer(api_key, api_version)(message, parts)
        self._rest = b"".join(parts)

    def frame(self, correlation_id: int) -> bytes:
        """Returns the whole frame, with its length prefix."""
        rest = self._rest
        return _LENGTH_AND_CORRELATION_ID.pack(len(rest) + 4, correlation_id) + rest

    def parts(self, correlation_id: int) -> tuple[bytes, bytes]:
        """Returns the frame as a fresh head and the shared rest, for writers that gather."""
        rest = self._rest
        return _LENGTH_AND_CORRELATION_ID.pack(len(rest) + 4, correlation_id), rest

    def __len__(self) -> int:
        """Bytes of the frame, its length prefix included."""
        return len(self._rest) + LENGTH_BYTES + 4


def api_versions_response(
    advertised: Mapping[int, VersionRange] = ADVERTISED, throttle_time_ms: int = 0
) -> ApiVersionsResponse:
    """Returns the answer to ApiVersions, in the order of the API keys."""
    return ApiVersionsResponse(
        api_keys=[ApiVersion(key, *advertised[key]) for key in sorted(advertised)],
        throttle_time_ms=throttle_time_ms,
    )


def unsupported_api_versions_frame(
    correlation_id: int, advertised: Mapping[int, VersionRange] = ADVERTISED
) -> bytes:
    """Returns the answer to ApiVersions of a version that is not known here.

    It is in version 0, which every client reads, says error 35 and names the versions of
    ApiVersions that the client may ask with instead (KIP-511).
    """
    own = advertised[ApiKey.API_VERSIONS]
    message = ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(ApiKey.API_VERSIONS, own.first, own.last)],
    )
    return write_response(ApiKey.API_VERSIONS, 0, correlation_id, message)
