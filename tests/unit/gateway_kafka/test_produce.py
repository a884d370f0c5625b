"""Produce, asked of real brokers: a request with one partition is answered like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kafkaesque.broker.partitions.batch_checks import RECORDS_NAMED_MAX
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.ids import NodeId
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import write_request
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.protocols.kafka.produce_path import RECORD_ERRORS_FROM, TOPIC_ID_FROM
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster, versions_of

VERSIONS = versions_of(ApiKey.PRODUCE)
UNKNOWN_ID = b"n" * 16


def batch(size: int = 3) -> bytes:
    return bytes(encode_batch([Record(0, 1_700_000_000_000, None, b"v" * size, ())]))


def damaged() -> bytes:
    data = bytearray(batch())
    data[-1] ^= 1
    return bytes(data)


def request(
    name: str, topic_id: bytes, parts: list[tuple[int, bytes | None]], acks: int = -1
) -> ProduceRequest:
    data = [PartitionProduceData(index, records) for index, records in parts]
    topic = TopicProduceData(name=name, topic_id=topic_id, partition_data=data)
    return ProduceRequest(None, acks, 5000, [topic])


def answered(live: LiveCluster, asked: ProduceRequest, version: int) -> list[Any]:
    """Returns the answers of all partitions of the only topic, which is named as it was."""
    (topic,) = live.ask(asked, version).responses
    if version >= TOPIC_ID_FROM:
        assert topic.topic_id == asked.topic_data[0].topic_id
    else:
        assert topic.name == asked.topic_data[0].name
    return list(topic.partition_responses)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("acks", [-1, 1])
def test_batches_follow_one_another(live: LiveCluster, version: int, acks: int) -> None:
    topic_id = live.create_topic("orders", 2)
    for number in range(3):
        (alone,) = answered(live, request("orders", topic_id, [(0, batch())], acks), version)
        both = answered(
            live, request("orders", topic_id, [(0, batch()), (1, batch())], acks), version
        )
        assert (alone.index, alone.error_code, alone.base_offset) == (0, 0, 2 * number)
        assert [(p.index, p.error_code, p.base_offset) for p in both] == [
            (0, 0, 2 * number + 1),
            (1, 0, number),
        ]
        alone.base_offset += 1
        assert alone == both[0]


def test_the_time_of_the_append_is_told(live: LiveCluster) -> None:
    configs = {"message.timestamp.type": "LogAppendTime"}
    topic_id = live.create_topic("orders", 2, configs=configs)
    (alone,) = answered(live, request("orders", topic_id, [(0, batch())]), VERSIONS[-1])
    both = answered(live, request("orders", topic_id, [(0, batch()), (1, batch())]), VERSIONS[-1])
    assert 0 < alone.log_append_time_ms <= both[0].log_append_time_ms


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("name", "index", "records", "code"),
    [
        ("orders", 0, None, ErrorCode.INVALID_RECORD),
        ("orders", 0, b"", ErrorCode.INVALID_RECORD),
        ("orders", 0, batch() + batch(), ErrorCode.INVALID_RECORD),
        ("orders", 0, damaged(), ErrorCode.CORRUPT_MESSAGE),
        ("orders", 0, batch(2_000_000), ErrorCode.MESSAGE_TOO_LARGE),
        ("orders", 7, batch(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", -1, batch(), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("nowhere", 0, batch(), None),
    ],
    ids=["null", "empty", "two", "damaged", "large", "no partition", "negative", "no topic"],
)
def test_refusals_are_told_alike(
    live: LiveCluster,
    version: int,
    name: str,
    index: int,
    records: bytes | None,
    code: ErrorCode | None,
) -> None:
    topic_id = live.create_topic("orders", 2)
    if name != "orders":
        topic_id = UNKNOWN_ID
    by_id = version >= TOPIC_ID_FROM
    code = code or (ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for acks in (-1, 1):
        (alone,) = answered(live, request(name, topic_id, [(index, records)], acks), version)
        parts = [(index, records), (1, batch())]
        first, _ = answered(live, request(name, topic_id, parts, acks), version)
        assert alone.error_code == code
        assert alone == first


def keyless(faulty: Sequence[int], count: int, codec: Codec = Codec.NONE) -> bytes:
    """Return a batch of which some records have no key."""
    records = [Record(n, 5, None if n in faulty else b"k", b"v", ()) for n in range(count)]
    return bytes(encode_batch(records, BatchOptions(codec=codec)))


def named(produced: Any) -> list[tuple[int, str]]:
    return [(each.batch_index, each.batch_index_error_message) for each in produced.record_errors]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
@pytest.mark.parametrize("version", VERSIONS)
def test_records_without_a_key_are_named_one_by_one(
    live: LiveCluster, version: int, codec: Codec
) -> None:
    topic_id = live.create_topic("compacted", 2, configs={"cleanup.policy": "compact"})
    faulty = range(5, 95, 9)
    parts: list[tuple[int, bytes | None]] = [(0, keyless(faulty, 100, codec)), (1, keyless((), 1))]
    first, good = answered(live, request("compacted", topic_id, parts), version)
    (alone,) = answered(live, request("compacted", topic_id, parts[:1]), version)
    assert (first.index, first.error_code, first.base_offset) == (0, ErrorCode.INVALID_RECORD, -1)
    assert (good.error_code, good.error_message, named(good)) == (0, None, [])
    assert alone == first
    if version >= RECORD_ERRORS_FROM:
        reason = "a record of a compacted topic needs a key"
        assert named(first) == [(place, reason) for place in faulty]
        assert first.error_message == "10 of 100 records have no key; the topic is compacted"


def test_an_answer_names_a_bounded_number_of_records(live: LiveCluster) -> None:
    topic_id = live.create_topic("compacted", 3, configs={"cleanup.policy": "compact"})
    count = RECORDS_NAMED_MAX // 2 + 10
    records = keyless(range(count), count)
    parts: list[tuple[int, bytes | None]] = [(0, records), (1, records), (2, records)]
    produced = answered(live, request("compacted", topic_id, parts), VERSIONS[-1])
    assert [each.error_code for each in produced] == [ErrorCode.INVALID_RECORD] * 3
    assert [len(each.record_errors) for each in produced] == [count, RECORDS_NAMED_MAX - count, 0]


def test_who_does_not_lead_says_who_does(live_trio: LiveCluster) -> None:
    topic_id = live_trio.create_topic("orders", 2, 3)
    leader = live_trio.leader("orders")
    other = next(node for node in (1, 2, 3) if node != leader)
    asked = request("orders", topic_id, [(0, batch())])
    answer = live_trio.ask(asked, node=other).responses[0].partition_responses[0]
    parts: list[tuple[int, bytes | None]] = [(0, batch()), (1, batch())]
    both = request("orders", topic_id, parts)
    first = live_trio.ask(both, node=other).responses[0].partition_responses[0]
    assert answer.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert answer.current_leader.leader_id == leader
    assert answer == first


@pytest.mark.parametrize("records", [batch(), None, damaged()], ids=["good", "null", "damaged"])
@pytest.mark.parametrize("partitions", [1, 2])
def test_without_acknowledgement_only_a_failure_shows(
    live: LiveCluster, records: bytes | None, partitions: int
) -> None:
    topic_id = live.create_topic("orders", 2)
    version = VERSIONS[-1]
    parts: list[tuple[int, bytes | None]] = [(0, records), (1, batch())][:partitions]
    silent = write_request(
        ApiKey.PRODUCE, version, 1, "test", request("orders", topic_id, parts, 0)
    )
    loud = write_request(
        ApiKey.PRODUCE, version, 2, "test", request("orders", topic_id, [(0, batch())])
    )

    async def exchange() -> bytes:
        address = live.nodes[1].gateway.context.doors.configuration.file.kafka_address
        reader, writer = await asyncio.open_connection(*address)
        writer.write(silent + loud)
        try:
            return await reader.read(8)
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    head = live.loop.run_until_complete(asyncio.wait_for(exchange(), PATIENCE_S))
    # The second answer comes first, or the connection is closed, which tells of the failure.
    assert head[4:] == ((2).to_bytes(4) if records == batch() else b"")


def test_who_was_wrong_to_ask_a_broker_is_not_sent_to_it_again(live: LiveCluster) -> None:
    """A leader that hands over refuses what it is sent, and may not know yet to whom."""
    topic_id = live.create_topic("orders")
    replica = live.partition("orders").replica
    assert replica is not None
    leadership = replica.core._leadership
    assert leadership is not None
    leadership.transferee = NodeId(2)
    (refused,) = answered(live, request("orders", topic_id, [(0, batch())]), VERSIONS[-1])
    assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert refused.current_leader is None
