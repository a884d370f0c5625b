"""How long a client was throttled stands in an answer as if it had been encoded with it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest

from kafkaesque.protocols.kafka.api import SUPPORTED, ApiKey
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS
from kafkaesque.protocols.kafka.fetch_path import PartitionFetched, write_fetch_response
from kafkaesque.protocols.kafka.frames import CachedResponse, read_response, write_response
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponse
from kafkaesque.protocols.kafka.produce_path import (
    TOPIC_ID_FROM,
    PartitionProduced,
    write_one_produced,
    write_produce_response,
)
from kafkaesque.protocols.kafka.throttle_time import with_throttle_time

TIME_MS = 0x01020304
WITHOUT = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.WRITE_TXN_MARKERS,
    ApiKey.DESCRIBE_QUORUM,
}


def versions(api_key: int) -> range:
    return range(SUPPORTED[api_key].first, SUPPORTED[api_key].last + 1)


def topic_of(version: int) -> Any:
    return b"0123456789abcdef" if version >= TOPIC_ID_FROM else "a-topic"


@pytest.mark.parametrize("version", versions(ApiKey.PRODUCE))
def test_produce(version: int) -> None:
    topic = topic_of(version)
    plain = write_one_produced(version, 77, topic, 3, 10, -1, 0)
    topics = [(topic, [PartitionProduced(3, 0, 10, -1, 0)])]
    wanted = write_produce_response(version, 77, topics, TIME_MS)
    parts = with_throttle_time(ApiKey.PRODUCE, version, (plain,), TIME_MS)
    assert b"".join(parts) == wanted
    refused = [(topic, [PartitionProduced(1, 6, -1, error_message="no", leader=(2, 5))])]
    plain = write_produce_response(version, 77, refused)
    parts = with_throttle_time(ApiKey.PRODUCE, version, (plain,), TIME_MS)
    assert b"".join(parts) == write_produce_response(version, 77, refused, TIME_MS)


def test_a_produce_without_an_answer_stays_without() -> None:
    assert with_throttle_time(ApiKey.PRODUCE, 9, (), TIME_MS) == ()


@pytest.mark.parametrize("version", versions(ApiKey.FETCH))
def test_fetch(version: int) -> None:
    fetched = PartitionFetched(1, 0, 50, 50, 0, b"records", 7, None)
    topics = [(topic_of(version), [fetched, fetched])]
    plain, _ = write_fetch_response(version, 5, topics, session_id=9)
    before = list(plain)
    wanted, _ = write_fetch_response(version, 5, topics, session_id=9, throttle_time_ms=TIME_MS)
    parts = with_throttle_time(ApiKey.FETCH, version, plain, TIME_MS)
    assert b"".join(parts) == b"".join(wanted)
    assert plain == before, "what is shared stays as it is"


@pytest.mark.parametrize("version", versions(ApiKey.METADATA))
def test_metadata_that_is_cached(version: int) -> None:
    cached = CachedResponse(ApiKey.METADATA, version, MetadataResponse(cluster_id="c"))
    answer = MetadataResponse(cluster_id="c", throttle_time_ms=TIME_MS)
    wanted = write_response(ApiKey.METADATA, version, 5, answer)
    parts = with_throttle_time(ApiKey.METADATA, version, cached.parts(5), TIME_MS)
    assert b"".join(parts) == wanted
    assert b"".join(cached.parts(6))[8:] != wanted[8:] or version < 3


@pytest.mark.parametrize("api_key", sorted(SUPPORTED))
def test_every_other_answer_is_encoded_with_it_or_has_no_place_for_it(api_key: int) -> None:
    name = CODEC_VERSIONS[api_key][3]
    module = import_module(f"kafkaesque.protocols.kafka.messages.{name}_response")
    kind = getattr(module, "".join(word.title() for word in name.split("_")) + "Response")
    if api_key in WITHOUT:
        assert not hasattr(kind(), "throttle_time_ms")
        return
    told = []
    for version in versions(api_key):
        frame = write_response(api_key, version, 1, kind(throttle_time_ms=TIME_MS))
        _, answer = read_response(memoryview(frame)[4:], api_key, version)
        told.append(answer.throttle_time_ms == TIME_MS)
    assert told[-1]
    assert told == sorted(told), "a later version does not lose it"
