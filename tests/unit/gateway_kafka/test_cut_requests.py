"""Every API that is served: a request that is cut short closes its connection and nothing else."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.env.report_limit import LINES_MAX
from kafkaesque.gateway.kafka.handlers import HANDLERS
from kafkaesque.protocols.kafka.api import SUPPORTED
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS, ApiKey
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster

CORRELATION_ID = 7


def empty_request(api_key: int) -> Any:
    """Returns a request with nothing but defaults."""
    name = CODEC_VERSIONS[api_key][3]
    module = import_module(f"kafkaesque.protocols.kafka.messages.{name}_request")
    return getattr(module, "".join(word.capitalize() for word in name.split("_")) + "Request")()


def cut(frame: bytes, count: int) -> bytes:
    """Returns a frame that lacks its last bytes, with a length that fits."""
    body = frame[4 : len(frame) - count]
    return len(body).to_bytes(4, "big") + body


async def send(live: LiveCluster, frame: bytes) -> bytes | None:
    """Sends a frame on a connection of its own; returns the answer, None if it is closed."""
    reader, writer = await asyncio.open_connection(*live.broker.config.kafka_address)
    try:
        writer.write(frame)
        length = int.from_bytes(await reader.readexactly(4), "big")
        return await reader.readexactly(length)
    except (asyncio.IncompleteReadError, ConnectionResetError):
        return None
    finally:
        writer.close()


@pytest.mark.parametrize("api_key", sorted(HANDLERS), ids=lambda key: ApiKey(key).name)
def test_a_request_that_is_cut_short(live: LiveCluster, api_key: int) -> None:
    version = SUPPORTED[api_key].last
    frame = write_request(api_key, version, CORRELATION_ID, "test", empty_request(api_key))
    for count in range(1, len(frame) - 4):
        answer = live.loop.run_until_complete(
            asyncio.wait_for(send(live, cut(frame, count)), PATIENCE_S)
        )
        assert answer is None
    assert live.fatal == []


def test_the_log_says_so_a_few_times_and_no_more(tmp_path: Path) -> None:
    frame = cut(write_request(ApiKey.METADATA, 9, 1, "test", MetadataRequest(topics=[])), 1)
    live = LiveCluster(tmp_path)
    try:
        for _ in range(LINES_MAX + 20):
            assert live.loop.run_until_complete(send(live, frame)) is None
        told = [report for report in live.reports if "closing the connection" in report]
    finally:
        live.close()
    assert len(told) == LINES_MAX
