"""Client quotas with real clients: who sends or reads more than its share gets it, later."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from kafkaesque.cli.kafka_request import ask
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.alter_client_quotas_request import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from kafkaesque.protocols.kafka.messages.describe_client_quotas_request import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.clients.kafka_helpers import TopicMaker, read, unique
from tests.waiting import DEADLINE_S, eventually

RATE = 250_000
#: Kafka lets ten seconds' worth through at once.
BURST = 10 * RATE
RECORD_BYTES = 10_000
EXACT = 0
#: How much sooner, and how much later on a busy machine, than the rate says is still the rate: it
#: is no measurement.
SLACK, LATER = 0.7, 10.0


class Quotas:
    """Sets quotas of client ids in the messages of Kafka."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._set: list[tuple[str, str]] = []

    def set(self, client_id: str, quota: str, value: float) -> None:
        self._alter(client_id, quota, value)
        self._set.append((client_id, quota))
        for server in self.bootstrap_servers.split(","):
            eventually(lambda one=server: self._is_known(one, client_id), "the quota is known")  # type: ignore[misc]

    def _alter(self, client_id: str, quota: str, value: float | None) -> None:
        entry = EntryData(
            [EntityData("client-id", client_id)], [OpData(quota, value or 0.0, value is None)]
        )
        request = AlterClientQuotasRequest([entry])
        answer = ask(self.bootstrap_servers, ApiKey.ALTER_CLIENT_QUOTAS, 1, request)
        assert [each.error_code for each in answer.entries] == [0]

    def _is_known(self, server: str, client_id: str) -> bool:
        component = ComponentData("client-id", EXACT, client_id)
        request = DescribeClientQuotasRequest([component], True)
        return bool(ask(server, ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, request).entries)

    def clear(self) -> None:
        for client_id, quota in self._set:
            self._alter(client_id, quota, None)


@pytest.fixture
def quotas(bootstrap_servers: str) -> Iterator[Quotas]:
    """Quotas that go with the test."""
    made = Quotas(bootstrap_servers)
    yield made
    made.clear()


def send(bootstrap_servers: str, topic: str, size: int, client_id: str) -> tuple[float, list[int]]:
    """Sends so many bytes; returns how long that took and what the client was told to wait."""
    told_ms: list[int] = []

    def on_statistics(text: str) -> None:
        brokers: dict[str, Any] = json.loads(text)["brokers"]
        told_ms.extend(each["throttle"]["max"] for each in brokers.values())

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": client_id,
            "compression.type": "none",
            "batch.size": 100_000,
            "statistics.interval.ms": 100,
            "stats_cb": on_statistics,
        }
    )
    failed: list[object] = []
    begun = time.monotonic()
    for _ in range(size // RECORD_BYTES):
        producer.produce(
            topic,
            value=bytes(RECORD_BYTES),
            on_delivery=lambda error, _: failed.append(error) if error else None,
        )
        producer.poll(0)
    assert producer.flush(DEADLINE_S) == 0
    took_s = time.monotonic() - begun
    # Statistics that were made when all was answered.
    before = len(told_ms)
    eventually(lambda: bool(producer.poll(0.1)) and len(told_ms) > before, "statistics")
    assert not failed
    return took_s, told_ms


def test_a_producer_sends_at_its_rate_and_others_at_theirs(
    bootstrap_servers: str, make_topic: TopicMaker, quotas: Quotas
) -> None:
    topic = make_topic(partitions=1)
    slow, free = unique("slow"), unique("free")
    quotas.set(slow, "producer_byte_rate", RATE)
    beyond_s = 4.0
    size = BURST + int(beyond_s * RATE)
    took_s, told_ms = send(bootstrap_servers, topic, size, slow)
    assert beyond_s * SLACK < took_s < beyond_s * LATER
    assert max(told_ms) > 0
    _, told_ms = send(bootstrap_servers, topic, size, free)
    assert max(told_ms) == 0


def test_a_consumer_reads_at_its_rate_and_misses_nothing(
    bootstrap_servers: str, make_topic: TopicMaker, quotas: Quotas
) -> None:
    topic = make_topic(partitions=1)
    beyond_s = 4.0
    size = BURST + int(beyond_s * RATE)
    send(bootstrap_servers, topic, size, unique("writer"))
    client_id = unique("reader")
    quotas.set(client_id, "consumer_byte_rate", RATE)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": client_id,
            "group.id": client_id,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        begun = time.monotonic()
        messages = read(consumer, size // RECORD_BYTES)
        took_s = time.monotonic() - begun
    finally:
        consumer.close()
    assert [each.offset() for each in messages] == list(range(size // RECORD_BYTES))
    # What lies in the last fetch is there before it is waited for: a burst's worth at most.
    assert took_s < beyond_s * LATER
    assert took_s > 1


def test_who_keeps_a_broker_busy_gets_through_with_less(
    bootstrap_servers: str, make_topic: TopicMaker, quotas: Quotas
) -> None:
    topic = make_topic(partitions=1)
    client_id = unique("busy")
    quotas.set(client_id, "request_percentage", 0.0005)
    _, told_ms = send(bootstrap_servers, topic, 20 * RECORD_BYTES, client_id)
    assert 0 < max(told_ms) <= 1000, "one window at a time, as in Kafka"
