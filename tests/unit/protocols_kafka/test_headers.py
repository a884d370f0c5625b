"""Headers of requests and responses, and which versions are spoken."""

from __future__ import annotations

import io

import pytest
from kio.schema.request_header.v1.header import RequestHeader as KioHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioHeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from kafkaesque.protocols.kafka import api
from kafkaesque.protocols.kafka.api import ADVERTISED, SUPPORTED, ApiKey, VersionRange
from kafkaesque.protocols.kafka.errors import (
    MalformedRequest,
    UnsupportedApiKey,
    UnsupportedApiVersion,
)

CLIENT_IDS = [None, "", "rdkafka", "é" * 200]


def kio_header(api_key: int, version: int, client_id: str | None) -> bytes:
    out = io.BytesIO()
    if api.request_header_version(api_key, version) == 2:
        v2 = KioHeaderV2(
            request_api_key=i16(api_key),
            request_api_version=i16(version),
            correlation_id=i32(-5),
            client_id=client_id,
        )
        entity_writer(KioHeaderV2)(out, v2)
    else:
        v1 = KioHeaderV1(
            request_api_key=i16(api_key),
            request_api_version=i16(version),
            correlation_id=i32(-5),
            client_id=client_id,
        )
        entity_writer(KioHeaderV1)(out, v1)
    return out.getvalue()


@pytest.mark.parametrize("client_id", CLIENT_IDS)
def test_request_headers_of_all_versions_are_as_kio_writes_them(client_id: str | None) -> None:
    for key, versions in SUPPORTED.items():
        for version in range(versions.first, versions.last + 1):
            expected = kio_header(key, version, client_id)
            assert api.write_request_header(key, version, -5, client_id) == expected
            header = api.read_request_header(memoryview(expected + b"body"))
            assert (header.api_key, header.api_version) == (key, version)
            assert (header.correlation_id, header.client_id) == (-5, client_id)
            assert header.body_offset == len(expected)


@pytest.mark.parametrize("version", [8, 12])
def test_a_header_cut_at_any_byte_is_malformed(version: int) -> None:
    whole = api.write_request_header(ApiKey.METADATA, version, 1, "client")
    for cut in range(len(whole)):
        with pytest.raises(MalformedRequest):
            api.read_request_header(memoryview(whole[:cut]))


def test_unknown_tagged_fields_in_a_header_are_skipped() -> None:
    head = api.write_request_header(ApiKey.METADATA, 12, 1, "client")[:-1]
    header = api.read_request_header(memoryview(head + b"\x02\x00\x01x\x63\x02yz" + b"body"))
    assert header.body_offset == len(head) + 8


@pytest.mark.parametrize("length", [b"\xff\xfe", b"\x80\x00", b"\x7f\xff"])
def test_a_client_id_of_a_wrong_length_is_malformed(length: bytes) -> None:
    head = api.write_request_header(ApiKey.METADATA, 8, 1, "client")
    with pytest.raises(MalformedRequest):
        api.read_request_header(memoryview(head[:8] + length + head[10:]))


def test_a_client_id_that_is_not_utf8_is_malformed() -> None:
    head = api.write_request_header(ApiKey.METADATA, 8, 1, "client")
    with pytest.raises(MalformedRequest):
        api.read_request_header(memoryview(head[:-1] + b"\xff"))


@pytest.mark.parametrize("key", [-1, 4, 7, 1000, 32767])
def test_an_unknown_api_is_named_with_its_correlation_id(key: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + b"\x00\x03\x00\x00\x00\x09\xff\xff"
    with pytest.raises(UnsupportedApiKey) as caught:
        api.read_request_header(memoryview(frame))
    assert (caught.value.api_key, caught.value.correlation_id) == (key, 9)


@pytest.mark.parametrize(
    ("key", "version"),
    [
        (ApiKey.API_VERSIONS, 5),
        (ApiKey.API_VERSIONS, -1),
        (ApiKey.PRODUCE, 2),
        (ApiKey.INIT_PRODUCER_ID, 6),
        (ApiKey.FETCH, 32767),
    ],
)
def test_an_unknown_version_is_named_with_its_correlation_id(key: ApiKey, version: int) -> None:
    frame = key.to_bytes(2, "big") + version.to_bytes(2, "big", signed=True) + b"\0\0\0\x09\xff\xff"
    with pytest.raises(UnsupportedApiVersion) as caught:
        api.read_request_header(memoryview(frame))
    error = caught.value
    assert (error.api_key, error.api_version, error.correlation_id) == (key, version, 9)


def test_a_listener_may_speak_less_than_the_codec() -> None:
    frame = memoryview(api.write_request_header(ApiKey.SHARE_FETCH, 1, 1, None))
    api.read_request_header(frame)
    with pytest.raises(UnsupportedApiKey):
        api.read_request_header(frame, {ApiKey.FETCH: VersionRange(4, 18)})


def test_versions_are_those_of_kafka_4() -> None:
    assert SUPPORTED[ApiKey.PRODUCE] == (3, 13)
    assert SUPPORTED[ApiKey.FETCH] == (4, 18)
    assert SUPPORTED[ApiKey.LIST_OFFSETS] == (1, 11)
    assert SUPPORTED[ApiKey.OFFSET_COMMIT] == (2, 10)
    assert SUPPORTED[ApiKey.INIT_PRODUCER_ID] == (0, 5)
    assert ADVERTISED[ApiKey.PRODUCE] == (0, 13)
    # Those of our own are not advertised.
    differing = [key for key in ADVERTISED if SUPPORTED[key] != ADVERTISED[key]]
    assert differing == [ApiKey.PRODUCE, ApiKey.SASL_HANDSHAKE]
    assert (SUPPORTED[ApiKey.SASL_HANDSHAKE], ADVERTISED[ApiKey.SASL_HANDSHAKE]) == ((1, 1), (0, 1))


def test_the_header_of_an_api_versions_response_never_has_tagged_fields() -> None:
    assert api.response_header_version(ApiKey.API_VERSIONS, 4) == 0
    assert api.request_header_version(ApiKey.API_VERSIONS, 4) == 2
    assert api.response_header_version(ApiKey.METADATA, 8) == 0
    assert api.response_header_version(ApiKey.METADATA, 9) == 1


def test_response_headers() -> None:
    plain = memoryview(b"\0\0\0\x07body")
    assert api.read_response_header(plain, ApiKey.METADATA, 8) == (7, 4)
    tagged = memoryview(b"\0\0\0\x07\x01\x05\x02abbody")
    assert api.read_response_header(tagged, ApiKey.METADATA, 9) == (7, 9)
    for cut in range(4):
        with pytest.raises(MalformedRequest):
            api.read_response_header(plain[:cut], ApiKey.METADATA, 8)
