"""Which APIs there are: every version that is advertised is answered, everything else refused."""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import pytest

from kafkaesque.gateway.kafka.handlers import (
    DIFFERENCES,
    HANDLERS,
    NOT_CARRIED_OUT,
    OWN_APIS,
)
from kafkaesque.protocols.kafka.api import SUPPORTED, ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.api_versions_request import ApiVersionsRequest
from kafkaesque.protocols.kafka.messages.produce_request import ProduceRequest
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster
from tests.unit.gateway_kafka.test_cut_requests import empty_request, send

CORRELATION_ID = 7
#: Of Kafka's first releases, and beyond its last one.
GONE, TO_COME = (4, 5, 6, 7), 200
#: APIs of Kafka's controllers alone.
OF_CONTROLLERS = (52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82)


def ask_raw(live: LiveCluster, frame: bytes) -> bytes | None:
    """Sends a frame on a connection of its own; returns the answer, None if it is closed."""
    return live.loop.run_until_complete(asyncio.wait_for(send(live, frame), PATIENCE_S))


def frame_of(api_key: int, version: int) -> bytes:
    """Returns a request whose body is nothing but zeros: the header alone decides."""
    body = struct.pack(">hhih", api_key, version, CORRELATION_ID, -1) + bytes(64)
    return struct.pack(">i", len(body)) + body


def minimal_request(api_key: int) -> Any:
    """Returns the least that is answered: a Produce that wants no answer gets none."""
    return ProduceRequest(acks=1) if api_key == ApiKey.PRODUCE else empty_request(api_key)


def advertised(live: LiveCluster) -> dict[int, tuple[int, int]]:
    """Returns what the broker says of itself."""
    answer = live.ask(ApiVersionsRequest("test", "1"))
    return {row.api_key: (row.min_version, row.max_version) for row in answer.api_keys}


KAFKAS = sorted(HANDLERS.keys() - OWN_APIS.keys())


def test_our_own_apis_are_answered_and_not_advertised(live: LiveCluster) -> None:
    assert not advertised(live).keys() & OWN_APIS.keys()
    for api_key in OWN_APIS:
        answer = ask_raw(
            live, write_request(api_key, 0, CORRELATION_ID, "test", minimal_request(api_key))
        )
        assert answer is not None
        assert read_response(memoryview(answer), api_key, 0)[0] == CORRELATION_ID
    assert live.fatal == []


@pytest.mark.parametrize("api_key", KAFKAS, ids=lambda key: ApiKey(key).name)
def test_every_version_that_is_advertised_is_answered(live: LiveCluster, api_key: int) -> None:
    first, last = advertised(live)[api_key]
    if api_key == ApiKey.PRODUCE:
        # Named for librdkafka alone, as Kafka does.
        assert first == 0
        assert [ask_raw(live, frame_of(api_key, version)) for version in range(3)] == [None] * 3
        first = 3
    if api_key == ApiKey.SASL_HANDSHAKE:
        # The same: what would follow it are bytes without frames.
        assert first == 0
        assert ask_raw(live, frame_of(api_key, 0)) is None
        first = 1
    for version in range(first, last + 1):
        request = minimal_request(api_key)
        frame = write_request(api_key, version, CORRELATION_ID, "test", request)
        answer = ask_raw(live, frame)
        assert answer is not None, version
        correlation_id, _ = read_response(memoryview(answer), api_key, version)
        assert correlation_id == CORRELATION_ID
    assert live.fatal == []


@pytest.mark.parametrize(
    "api_key",
    [key for key in sorted(HANDLERS) if key != ApiKey.API_VERSIONS],
    ids=lambda key: ApiKey(key).name,
)
def test_any_other_version_closes_its_connection(live: LiveCluster, api_key: int) -> None:
    versions = SUPPORTED[api_key]
    for version in (-1, versions.first - 1, versions.last + 1, 32_767):
        assert ask_raw(live, frame_of(api_key, version)) is None


@pytest.mark.parametrize("version", [-1, SUPPORTED[ApiKey.API_VERSIONS].last + 1, 32_767])
def test_another_version_of_api_versions_is_told_which_there_are(
    live: LiveCluster, version: int
) -> None:
    answer = ask_raw(live, frame_of(ApiKey.API_VERSIONS, version))
    assert answer is not None
    correlation_id, told = read_response(memoryview(answer), ApiKey.API_VERSIONS, 0)
    assert correlation_id == CORRELATION_ID
    assert told.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.min_version, each.max_version) for each in told.api_keys] == [
        (ApiKey.API_VERSIONS, *SUPPORTED[ApiKey.API_VERSIONS])
    ]


@pytest.mark.parametrize("api_key", [*NOT_CARRIED_OUT, *OF_CONTROLLERS, *GONE, TO_COME, -1])
def test_what_is_not_carried_out_is_neither_advertised_nor_answered(
    live: LiveCluster, api_key: int
) -> None:
    assert api_key not in advertised(live)
    for version in (0, 1):
        assert ask_raw(live, frame_of(api_key, version)) is None


def test_what_is_carried_out_has_no_reason_not_to_be() -> None:
    assert not HANDLERS.keys() & NOT_CARRIED_OUT.keys()
    assert DIFFERENCES.keys() <= HANDLERS.keys()
