"""Which APIs and versions exist, and the headers that stand before every message."""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct
from typing import Final, NamedTuple

from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS, ApiKey
from kafkaesque.protocols.kafka.errors import (
    MalformedRequest,
    UnsupportedApiKey,
    UnsupportedApiVersion,
)
from kafkaesque.protocols.kafka.wire import MALFORMED, skip_tags

__all__ = [
    "ADVERTISED",
    "ADVERTISED_FIRST",
    "OWN_FIRST",
    "SUPPORTED",
    "ApiKey",
    "RequestHeader",
    "VersionRange",
    "is_flexible",
    "read_request_header",
    "read_response_header",
    "request_header_version",
    "response_header_version",
    "write_request_header",
]


class VersionRange(NamedTuple):
    """Versions of one API, both ends included."""

    first: int
    last: int


#: Versions that the released protocol of Kafka 4 has: what is read and answered. The codec also has
#: InitProducerId v6, which Kafka marks unstable and which no client may meet yet, and SaslHandshake
#: v0, after which a mechanism's messages would come without frames.
SUPPORTED: Final[Mapping[int, VersionRange]] = {
    key: VersionRange(
        1 if key == ApiKey.SASL_HANDSHAKE else first, 5 if key == ApiKey.INIT_PRODUCER_ID else last
    )
    for key, (first, last, _, _) in CODEC_VERSIONS.items()
}

#: First versions that ApiVersions names although they are not served. Kafka 4 does the same:
#: librdkafka decides by Produce v0 whether a broker takes compressed batches. A request in such a
#: version is refused like any unsupported one.
#: It also looks for SaslHandshake v0 before it uses v1.
ADVERTISED_FIRST: Final[Mapping[int, int]] = {ApiKey.PRODUCE: 0, ApiKey.SASL_HANDSHAKE: 0}

#: From here on keys are ours: Apache Kafka's are below 100. ApiVersions does not name them, so that
#: no client meets a key that it has never heard of.
OWN_FIRST: Final = 20_000

#: What ApiVersions says.
ADVERTISED: Final[Mapping[int, VersionRange]] = {
    key: VersionRange(ADVERTISED_FIRST.get(key, versions.first), versions.last)
    for key, versions in SUPPORTED.items()
    if key < OWN_FIRST
}

_NEVER: Final = 1 << 15
_FLEXIBLE_FROM: Final = {
    key: _NEVER if flexible_from is None else flexible_from
    for key, (_, _, flexible_from, _) in CODEC_VERSIONS.items()
}

#: api_key, api_version, correlation_id, length of client_id. The client id is never compact, in
#: header v2 neither: brokers have to read it before they know what the client can do.
_HEADER: Final = Struct(">hhih")
_HEADER_BYTES: Final = 10
_CORRELATION_ID: Final = Struct(">i")


class RequestHeader:
    """Header of a request; the body starts at `body_offset` of the frame."""

    __slots__ = ("api_key", "api_version", "body_offset", "client_id", "correlation_id")

    def __init__(
        self,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        body_offset: int,
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.body_offset = body_offset


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether this version has compact lengths and tagged fields.

    Raises:
        KeyError: the API is not one of ours.
    """
    return api_version >= _FLEXIBLE_FROM[api_key]


def request_header_version(api_key: int, api_version: int) -> int:
    """Returns 2 where the header ends with tagged fields, otherwise 1."""
    return 2 if is_flexible(api_key, api_version) else 1


def response_header_version(api_key: int, api_version: int) -> int:
    """Returns 1 where the header ends with tagged fields, otherwise 0.

    ApiVersions has 0 throughout: a client must be able to read the answer of an older broker to a
    version that this broker does not know (KIP-511).
    """
    if api_key == ApiKey.API_VERSIONS:
        return 0
    return 1 if is_flexible(api_key, api_version) else 0


def read_request_header(
    frame: memoryview, supported: Mapping[int, VersionRange] = SUPPORTED
) -> RequestHeader:
    """Returns the header of a frame, its length prefix excluded.

    Raises:
        UnsupportedApiKey: `supported` has no such API.
        UnsupportedApiVersion: it has, but not in this version.
        MalformedRequest: the header is cut short or its client id is not UTF-8.
    """
    try:
        api_key, api_version, correlation_id, n = _HEADER.unpack_from(frame)
        versions = supported.get(api_key)
        if versions is None:
            raise UnsupportedApiKey(api_key, api_version, correlation_id)
        if not versions.first <= api_version <= versions.last:
            raise UnsupportedApiVersion(api_key, api_version, correlation_id)
        pos = _HEADER_BYTES
        if n < -1:
            raise MalformedRequest(f"client id of length {n}")
        client_id = None if n < 0 else str(frame[pos : (pos := pos + n)], "utf-8")
        if api_version >= _FLEXIBLE_FROM[api_key]:
            n = frame[pos]
            pos += 1
            if n:
                pos = skip_tags(frame, pos, n)
    except MALFORMED as error:
        raise MalformedRequest("request header is cut short or not UTF-8") from error
    if pos > len(frame):
        raise MalformedRequest("request header is cut short")
    return RequestHeader(api_key, api_version, correlation_id, client_id, pos)


def write_request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """Returns the header in the version that belongs to this version of the API."""
    tags = b"\0" if is_flexible(api_key, api_version) else b""
    if client_id is None:
        return _HEADER.pack(api_key, api_version, correlation_id, -1) + tags
    text = client_id.encode()
    return _HEADER.pack(api_key, api_version, correlation_id, len(text)) + text + tags


def read_response_header(frame: memoryview, api_key: int, api_version: int) -> tuple[int, int]:
    """Returns (correlation id, offset of the body).

    Raises:
        MalformedRequest: the header is cut short.
    """
    try:
        correlation_id: int = _CORRELATION_ID.unpack_from(frame)[0]
        pos = 4
        if response_header_version(api_key, api_version):
            n = frame[pos]
            pos += 1
            if n:
                pos = skip_tags(frame, pos, n)
    except MALFORMED as error:
        raise MalformedRequest("response header is cut short") from error
    return correlation_id, pos
