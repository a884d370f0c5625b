"""Whole frames, answers that are encoded once, and what is imported when."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkaesque.protocols.kafka import frames
from kafkaesque.protocols.kafka.api import ADVERTISED, ApiKey, read_request_header
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.api_versions_response import ApiVersion
from kafkaesque.protocols.kafka.messages.join_group_request import JoinGroupRequest
from kafkaesque.protocols.kafka.messages.metadata_response import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponseTopic,
)

METADATA = MetadataResponse(brokers=[MetadataResponseBroker(1, "localhost", 9092)])


def body(frame: bytes) -> memoryview:
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return memoryview(frame)[4:]


@pytest.mark.parametrize("version", [0, 5, 9])
def test_requests_come_back_from_their_frames(version: int) -> None:
    request = JoinGroupRequest(group_id="g", member_id="m", protocol_type="consumer")
    frame = body(frames.write_request(ApiKey.JOIN_GROUP, version, 3, "me", request))
    header = read_request_header(frame)
    assert (header.correlation_id, header.client_id) == (3, "me")
    assert frames.read_request(header, frame).group_id == "g"


@pytest.mark.parametrize("version", [8, 9, 13])
def test_responses_come_back_from_their_frames(version: int) -> None:
    frame = frames.write_response(ApiKey.METADATA, version, 3, METADATA)
    correlation_id, message = frames.read_response(body(frame), ApiKey.METADATA, version)
    assert (correlation_id, message.brokers) == (3, METADATA.brokers)


@pytest.mark.parametrize("version", [8, 13])
def test_a_cached_response_differs_in_its_correlation_id_only(version: int) -> None:
    cached = frames.CachedResponse(ApiKey.METADATA, version, METADATA)
    for correlation_id in (0, 7, -1, 2**31 - 1):
        frame = cached.frame(correlation_id)
        assert frame == frames.write_response(ApiKey.METADATA, version, correlation_id, METADATA)
        assert b"".join(cached.parts(correlation_id)) == frame
        assert len(cached) == len(frame)


def test_an_unknown_version_of_api_versions_is_answered_in_version_0() -> None:
    frame = body(frames.unsupported_api_versions_frame(5))
    correlation_id, message = frames.read_response(frame, ApiKey.API_VERSIONS, 0)
    assert correlation_id == 5
    assert message.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert message.api_keys == [ApiVersion(18, 0, 4)]


@pytest.mark.parametrize("version", range(5))
def test_api_versions_names_every_api_once(version: int) -> None:
    frame = frames.write_response(ApiKey.API_VERSIONS, version, 1, frames.api_versions_response())
    _, message = frames.read_response(body(frame), ApiKey.API_VERSIONS, version)
    rows = {row.api_key: (row.min_version, row.max_version) for row in message.api_keys}
    assert rows == {key: tuple(versions) for key, versions in ADVERTISED.items()}
    assert len(message.api_keys) == len(rows)


def test_a_version_that_the_codec_has_not_is_our_own_mistake() -> None:
    with pytest.raises(KeyError):
        frames.request_reader(ApiKey.PRODUCE, 2)


def test_null_where_a_version_has_none_is_our_own_mistake() -> None:
    nameless = MetadataResponse(topics=[MetadataResponseTopic(name=None)])
    frames.write_response(ApiKey.METADATA, 12, 1, nameless)
    with pytest.raises(ValueError, match="must not be null"):
        frames.write_response(ApiKey.METADATA, 9, 1, nameless)


def test_trailing_bytes_are_malformed() -> None:
    frame = frames.write_response(ApiKey.METADATA, 9, 3, METADATA)[4:] + b"\0"
    with pytest.raises(MalformedRequest):
        frames.read_response(memoryview(frame), ApiKey.METADATA, 9)


def test_messages_are_imported_when_first_used() -> None:
    script = """
import sys
from kafkaesque.protocols.kafka import api, fetch_path, frames, produce_path
loaded = [m for m in sys.modules if m.startswith("kafkaesque.protocols.kafka.messages.")]
assert loaded == ["kafkaesque.protocols.kafka.messages.api_versions_response"], loaded
frames.request_reader(api.ApiKey.METADATA, 9)
assert "kafkaesque.protocols.kafka.messages.metadata_request" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=90)
