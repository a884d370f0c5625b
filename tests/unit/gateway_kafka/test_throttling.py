"""Clients with quotas are answered at once, told how long to wait, and not read from meanwhile."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from types import SimpleNamespace
from typing import Any

import pytest

from kafkaesque.chassis import admission
from kafkaesque.chassis.quota_table import BURST_S
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import SUPPORTED
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.create_partitions_request import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.list_groups_request import ListGroupsRequest
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster, key_of, versions_of
from tests.unit.gateway_kafka.quotas import alter, clear_quotas

RATE = 10_000.0
BURST = int(RATE * BURST_S)
NAMED_BY_ID_FROM = 13
#: Of which the clock and the machine's load may take some.
SLACK_S = 0.05
#: Of the clients whose connections are counted.
ADDRESS = "127.0.0.3"


class Client:
    """A client with an id and a connection of its own."""

    def __init__(self, live: LiveCluster, client_id: str | None) -> None:
        self.live = live
        self.client_id = client_id
        self._number = 0
        address = live.broker.config.kafka_address
        self.reader, self.writer = live.loop.run_until_complete(asyncio.open_connection(*address))

    def send(self, request: Any, version: int | None = None) -> tuple[int, int]:
        """Sends a request; returns what reads the answer."""
        api_key = key_of(request)
        version = SUPPORTED[api_key].last if version is None else version
        self._number += 1
        self.writer.write(write_request(api_key, version, self._number, self.client_id, request))
        return api_key, version

    def receive(self, sent: tuple[int, int]) -> Any:
        async def frame() -> bytes:
            (length,) = struct.unpack(">i", await self.reader.readexactly(4))
            return await self.reader.readexactly(length)

        body = self.live.loop.run_until_complete(asyncio.wait_for(frame(), PATIENCE_S))
        return read_response(memoryview(body), *sent)[1]

    def close(self) -> None:
        self.writer.close()
        with suppress(ConnectionError):
            self.live.loop.run_until_complete(self.writer.wait_closed())

    def ask(self, request: Any, version: int | None = None) -> Any:
        return self.receive(self.send(request, version))


Connect = Callable[[str | None], Client]


@pytest.fixture
def quotas(live: LiveCluster) -> Iterator[LiveCluster]:
    """A broker whose quotas go with the test."""
    yield live
    clear_quotas(live)


@pytest.fixture
def connect(quotas: LiveCluster) -> Iterator[Connect]:
    """Connects clients to it, which go with the test."""
    clients: list[Client] = []

    def make(client_id: str | None) -> Client:
        clients.append(Client(quotas, client_id))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture
def dial(quotas: LiveCluster) -> Iterator[Callable[[], socket.socket]]:
    """Opens connections from one address, which go with the test."""
    with ExitStack() as socks:

        def make() -> socket.socket:
            sock = socks.enter_context(socket.socket())
            sock.bind((ADDRESS, 0))
            sock.connect(quotas.broker.config.kafka_address)
            sock.setblocking(False)
            return sock

        yield make


def stop_metering_clock(quotas: LiveCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nobody gets anything back of what was used, however long the test takes."""
    metered = quotas.nodes[1].gateway.context.quotas
    now_ms = metered.clock.now_ms()
    monkeypatch.setattr(metered, "clock", SimpleNamespace(now_ms=lambda: now_ms))


def produce_request(name: str, size: int, *, acks: int = -1) -> ProduceRequest:
    records = encode_batch([Record(0, 0, None, bytes(size), ())])
    data = PartitionProduceData(0, records)
    return ProduceRequest(None, acks, 5000, [TopicProduceData(name=name, partition_data=[data])])


def fetch_request(
    topic_id: bytes, *, min_bytes: int = 0, max_bytes: int = 2**31 - 1
) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    topic = FetchTopic(topic_id=topic_id, partitions=[partition])
    return FetchRequest(max_wait_ms=0, min_bytes=min_bytes, max_bytes=max_bytes, topics=[topic])


@pytest.mark.parametrize("version", [v for v in versions_of(ApiKey.PRODUCE) if v < 13])
def test_a_producer_is_told_and_waits_and_nobody_else(
    quotas: LiveCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    alter(quotas, {"client-id": "fast"}, {"producer_byte_rate": RATE})
    quotas.create_topic("t")
    gateway = quotas.nodes[1].gateway
    before = list(gateway.connections)
    fast, again, other = (connect(name) for name in ("fast", "fast", "other"))
    stop_metering_clock(quotas, monkeypatch)
    first = fast.ask(produce_request("t", BURST // 2), version)
    assert first.throttle_time_ms == 0
    begun = quotas.loop.time()
    answer = fast.ask(produce_request("t", BURST // 2 + 2500), version)
    muted = [each.is_muted for key, each in gateway.connections.items() if key not in before]
    assert muted.count(True) == 1
    assert answer.responses[0].partition_responses[0].error_code == 0, "it is answered all the same"
    throttled_ms = answer.throttle_time_ms
    assert 250 <= throttled_ms <= 320
    fast.ask(MetadataRequest(topics=[]))
    assert quotas.loop.time() - begun >= throttled_ms / 1000 - SLACK_S
    assert other.ask(produce_request("t", BURST // 2), version).throttle_time_ms == 0
    shared = again.ask(produce_request("t", BURST // 2), version)
    assert shared.throttle_time_ms > 1000, "who has the same client id has the same quota"


def test_who_wants_no_answer_waits_as_well(quotas: LiveCluster, connect: Connect) -> None:
    alter(quotas, {"client-id": "fast"}, {"producer_byte_rate": RATE})
    quotas.create_topic("t")
    fast = connect("fast")
    begun = quotas.loop.time()
    fast.send(produce_request("t", BURST + 3000, acks=0), 9)
    fast.ask(MetadataRequest(topics=[]))
    assert quotas.loop.time() - begun > 0.2


def test_requests_that_were_sent_behind_it_wait_and_are_answered_in_order(
    quotas: LiveCluster,
    connect: Connect,
) -> None:
    alter(quotas, {"client-id": "fast"}, {"producer_byte_rate": RATE})
    quotas.create_topic("t")
    fast = connect("fast")
    begun = quotas.loop.time()
    sent = [fast.send(produce_request("t", BURST + 1500), 9)]
    sent += [fast.send(produce_request("t", 500), 9) for _ in range(3)]
    offsets = [fast.receive(each).responses[0].partition_responses[0].base_offset for each in sent]
    assert offsets == [0, 1, 2, 3]
    assert quotas.loop.time() - begun >= 0.2, "each waited for those before it"


def test_a_consumer_is_told_and_waits(
    quotas: LiveCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic_id = quotas.create_topic("t")
    connect("writer").ask(produce_request("t", BURST // 2 + 2500), 9)
    alter(quotas, {"client-id": None}, {"consumer_byte_rate": RATE})
    reader = connect("reader")
    wanted = fetch_request(topic_id)
    stop_metering_clock(quotas, monkeypatch)
    assert reader.ask(wanted).throttle_time_ms == 0
    begun = quotas.loop.time()
    answer = reader.ask(wanted)
    assert len(answer.responses[0].partitions[0].records) > BURST // 2
    assert 500 <= answer.throttle_time_ms <= 600
    reader.ask(MetadataRequest(topics=[]))
    assert quotas.loop.time() - begun >= answer.throttle_time_ms / 1000 - SLACK_S


def test_one_fetch_gives_no_more_than_a_burst_and_waits_for_no_more(
    quotas: LiveCluster, connect: Connect
) -> None:
    topic_id = quotas.create_topic("t")
    writer = connect("writer")
    for _ in range(4):
        writer.ask(produce_request("t", BURST // 2), 9)
    alter(quotas, {"client-id": None}, {"consumer_byte_rate": RATE})
    reader = connect("reader")
    answer = reader.ask(fetch_request(topic_id, min_bytes=2 * BURST, max_bytes=10 * BURST))
    assert BURST // 2 < len(answer.responses[0].partitions[0].records) <= BURST


@pytest.mark.parametrize("version", versions_of(ApiKey.METADATA))
def test_who_keeps_the_loop_busy_waits_whatever_it_asks(
    quotas: LiveCluster, connect: Connect, version: int
) -> None:
    alter(quotas, {"user": None, "client-id": "busy"}, {"request_percentage": 0.001})
    busy = connect("busy")
    told = 0
    for _ in range(100):
        answer = busy.ask(MetadataRequest(topics=[]), version)
        told = answer.throttle_time_ms
        if told or version < 3:
            break
    assert 0 < told <= 1000 or version < 3


def test_what_was_waited_for_before_an_answer_is_not_waited_for_again(
    quotas: LiveCluster, connect: Connect
) -> None:
    """A Fetch that waits for records is throttled meanwhile for the time that it took to begin."""
    topic_id = quotas.create_topic("t")
    alter(quotas, {"client-id": "busy"}, {"request_percentage": 1e-6})
    busy = connect("busy")
    wanted = fetch_request(topic_id, min_bytes=1)
    wanted.max_wait_ms = 1500
    assert busy.ask(wanted).throttle_time_ms < 300
    busy.ask(MetadataRequest(topics=[]))


def test_answers_that_are_encoded_from_messages_tell_it_too(
    quotas: LiveCluster, connect: Connect
) -> None:
    alter(quotas, {"user": "ANONYMOUS", "client-id": "busy"}, {"request_percentage": 1e-6})
    busy = connect("busy")
    busy.ask(ListGroupsRequest(states_filter=[], types_filter=[]))
    answer = busy.ask(ListGroupsRequest(states_filter=[], types_filter=[]))
    assert 500 < answer.throttle_time_ms <= 1000


def creation(name: str, partition_count: int) -> CreateTopicsRequest:
    return CreateTopicsRequest([CreatableTopic(name, partition_count, 1)], 5000)


def test_partitions_are_created_and_deleted_at_a_rate(
    quotas: LiveCluster, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever goes beyond is refused from the versions on that know of it (KIP-599)."""
    stop_metering_clock(quotas, monkeypatch)
    alter(quotas, {"client-id": "admin"}, {"controller_mutation_rate": 1.0})
    first = connect("admin").ask(creation("a", 12))
    assert first.topics[0].error_code == 0
    assert 0 < first.throttle_time_ms <= 1000
    refused = connect("admin").ask(creation("b", 1))
    assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert 0 < refused.throttle_time_ms <= 1000
    growth = CreatePartitionsRequest([CreatePartitionsTopic("a", 13, None)], 5000)
    refused = connect("admin").ask(growth)
    assert refused.results[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    refused = connect("admin").ask(DeleteTopicsRequest([DeleteTopicState("a")], (), 5000))
    assert refused.responses[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
    old = connect("admin").ask(creation("c", 1), 5)
    assert (old.topics[0].error_code, old.throttle_time_ms > 800) == (0, True)
    assert sorted(quotas.broker.state.topics) == ["a", "c"]
    only_asked = CreateTopicsRequest([CreatableTopic("d", 50, 1)], 5000, validate_only=True)
    assert connect("admin").ask(only_asked).throttle_time_ms == 0
    assert connect("other").ask(creation("e", 12)).topics[0].error_code == 0


def test_without_quotas_nobody_is_metered(live: LiveCluster) -> None:
    assert not live.nodes[1].gateway.context.quotas.is_active
    alter(live, {"ip": None}, {"connection_creation_rate": 1000.0})
    assert not live.nodes[1].gateway.context.quotas.is_active
    assert live.nodes[1].gateway.context.quotas.is_active_for_hosts
    clear_quotas(live)
    assert not live.nodes[1].gateway.context.quotas.is_active_for_hosts


def test_who_is_told_to_wait_for_longer_meanwhile_does(
    quotas: LiveCluster, connect: Connect
) -> None:
    gateway = quotas.nodes[1].gateway
    before = list(gateway.connections)
    client = connect("any")
    client.ask(MetadataRequest(topics=[]))
    (connection,) = [each for key, each in gateway.connections.items() if key not in before]
    begun = quotas.loop.time()
    for delay_ms in (100, 400, 200):
        connection.mute(delay_ms)
    client.ask(MetadataRequest(topics=[]))
    assert quotas.loop.time() - begun > 0.35
    assert not connection.is_muted


def test_a_client_that_goes_while_it_waits_leaves_nothing(
    quotas: LiveCluster, connect: Connect
) -> None:
    alter(quotas, {"client-id": "fast"}, {"producer_byte_rate": RATE})
    quotas.create_topic("t")
    gateway = quotas.nodes[1].gateway
    before = list(gateway.connections)
    fast = connect("fast")
    fast.ask(produce_request("t", BURST + 2000), 9)
    (muted,) = [each for key, each in gateway.connections.items() if key not in before]
    assert muted.is_muted
    assert muted.connection is not None
    muted.connection.abort()
    quotas.wait(lambda: id(muted) not in gateway.connections, "it is gone")
    quotas.run_for(0.3)


def test_addresses_open_so_many_connections_a_second(
    quotas: LiveCluster, dial: Callable[[], socket.socket]
) -> None:
    alter(quotas, {"ip": ADDRESS}, {"connection_creation_rate": 1.0})
    gateway = quotas.nodes[1].gateway

    def admitted() -> int:
        return sum(
            each.identity is not None and each.identity.host == ADDRESS
            for each in gateway.connections.values()
        )

    begun = quotas.loop.time()
    socks = [dial() for _ in range(int(BURST_S) + 5)]
    quotas.wait(lambda: admitted() >= int(BURST_S), "ten are in")
    quotas.wait(lambda: is_closed(socks[-1]), "the last is refused")
    took_s = quotas.loop.time() - begun
    assert took_s > 0.5, "and not at once"
    before = admitted()
    assert before <= BURST_S + took_s
    assert not is_closed(socks[0])
    quotas.run_for(1.1)
    dial()
    quotas.wait(lambda: admitted() > before, "one more")
    assert any("connection_creation_rate" in line for line in quotas.reports)


def test_so_many_are_refused_late_and_others_at_once(
    quotas: LiveCluster, dial: Callable[[], socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "LATE_REFUSALS_MAX", 1)
    alter(quotas, {"ip": ADDRESS}, {"connection_creation_rate": 1.0})
    socks = [dial() for _ in range(int(BURST_S) + 3)]
    quotas.wait(lambda: is_closed(socks[-1]) and is_closed(socks[-2]), "two are refused")
    assert not is_closed(socks[-3])
    quotas.wait(lambda: is_closed(socks[-3]), "and the one before them, late")


def is_closed(sock: socket.socket) -> bool:
    try:
        return not sock.recv(1)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
