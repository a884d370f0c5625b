"""Batches that are checked off the loop: order, and what may change until they are checked."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from kafkaesque.broker.partitions.batch_checks import QUICK_BYTES_MAX
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from tests.unit.gateway_kafka.live import PATIENCE_S, LiveCluster

VERSION = 9
TOPIC = "checked"
LONG, SHORT = QUICK_BYTES_MAX + 1, 10


class Gate:
    """A broker's disk, where work waits until the gate is opened."""

    def __init__(self, live: LiveCluster, node: int = 1) -> None:
        self._checks = live.nodes[node].broker.batch_checks
        self._disk = self._checks._disk
        self.waiting: list[Callable[[], None]] = []
        self._checks._disk = self  # type: ignore[assignment]

    def remove(self) -> None:
        """Let work be done at once again."""
        self._checks._disk = self._disk

    def run(
        self, work: Callable[[], object], on_done: Callable[[object, Exception | None], None]
    ) -> None:
        self.waiting.append(lambda: self._disk.run(work, on_done))

    def open(self) -> None:
        """Let what waits here be done."""
        while self.waiting:
            self.waiting.pop(0)()


class Client:
    """A connection on which requests are sent without waiting for answers."""

    def __init__(self, live: LiveCluster, node: int = 1) -> None:
        self._live = live
        address = live.nodes[node].broker.config.kafka_address
        self._reader, self._writer = live.loop.run_until_complete(asyncio.open_connection(*address))
        self._sent = 0

    def send(self, *batches: tuple[int, bytes], acks: int = -1) -> None:
        """Send a request with these batches, each with its partition."""
        self._sent += 1
        data = [PartitionProduceData(index, records) for index, records in batches]
        topics = [TopicProduceData(name=TOPIC, partition_data=data)]
        request = ProduceRequest(None, acks, 5000, topics)
        self._writer.write(write_request(ApiKey.PRODUCE, VERSION, self._sent, "test", request))

    def answer(self) -> list[tuple[int, int]]:
        """Return the next answer: code and offset for each partition."""

        async def read() -> bytes:
            size = int.from_bytes(await self._reader.readexactly(4), "big")
            return await self._reader.readexactly(size)

        frame = self._live.loop.run_until_complete(asyncio.wait_for(read(), PATIENCE_S))
        _, answer = read_response(memoryview(frame), ApiKey.PRODUCE, VERSION)
        (topic,) = answer.responses
        return [(each.error_code, each.base_offset) for each in topic.partition_responses]

    def reset(self) -> None:
        """Go without a good-bye."""
        sock = self._writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()

    def close(self) -> None:
        self._writer.close()


def batch(size: int, sequence: int | None = None, codec: Codec = Codec.ZSTD) -> bytes:
    options = BatchOptions(codec=codec)
    if sequence is not None:
        options = BatchOptions(
            codec=codec, producer_id=4711, producer_epoch=0, base_sequence=sequence
        )
    return bytes(encode_batch([Record(0, 0, None, bytes(size), ())], options))


@pytest.fixture
def gate(live: LiveCluster) -> Iterator[Gate]:
    live.create_topic(TOPIC, 3)
    gate = Gate(live)
    yield gate
    gate.remove()


@pytest.fixture
def client(live: LiveCluster, gate: Gate) -> Iterator[Client]:
    made = Client(live)
    yield made
    made.close()


def end(live: LiveCluster, index: int = 0) -> int:
    return live.partition(TOPIC, index).high_watermark


def test_what_follows_on_the_connection_waits_and_others_do_not(
    live: LiveCluster, gate: Gate, client: Client
) -> None:
    client.send((0, batch(LONG, 0)))
    for sequence in range(1, 10):
        client.send((0, batch(SHORT, sequence)))
    live.wait(lambda: len(gate.waiting) == 1, "the batch waits for its check")
    other = Client(live)
    other.send((0, batch(SHORT)))
    assert other.answer() == [(0, 0)]
    live.run_for(0.02)
    assert end(live) == 1
    gate.open()
    # Sequence numbers would be out of order otherwise.
    assert [client.answer() for _ in range(10)] == [[(0, offset)] for offset in range(1, 11)]
    other.close()


def test_a_request_with_several_partitions_keeps_their_order(
    live: LiveCluster, gate: Gate, client: Client
) -> None:
    client.send((0, batch(SHORT)), (1, batch(LONG)), (2, batch(SHORT)), (1, batch(LONG)))
    client.send((2, batch(SHORT)))
    live.wait(lambda: len(gate.waiting) == 1, "the first long one waits")
    live.wait(lambda: end(live) == 1, "what came before it")
    live.run_for(0.02)
    assert [end(live, index) for index in range(3)] == [1, 0, 0]
    gate.open()
    live.wait(lambda: len(gate.waiting) == 1, "the second long one waits")
    live.wait(lambda: end(live, 2) == 1, "what came before it")
    live.run_for(0.02)
    assert [end(live, index) for index in range(3)] == [1, 1, 1]
    gate.open()
    assert client.answer() == [(0, 0), (0, 0), (0, 0), (0, 1)]
    assert client.answer() == [(0, 1)]


@pytest.mark.parametrize("count", [1, 2])
def test_a_bomb_is_refused_and_what_follows_is_not(
    live: LiveCluster, gate: Gate, client: Client, count: int
) -> None:
    client.send(*[(index, batch(70_000_000)) for index in range(count)])
    client.send((0, batch(SHORT)))
    for _ in range(count):
        live.wait(lambda: len(gate.waiting) == 1, "it waits")
        gate.open()
    assert client.answer() == [(ErrorCode.MESSAGE_TOO_LARGE, -1)] * count
    assert client.answer() == [(0, 0)]


def test_a_topic_that_is_deleted_and_made_anew_meanwhile_gets_nothing(
    live: LiveCluster, gate: Gate, client: Client
) -> None:
    client.send((0, batch(LONG)))
    client.send((0, batch(SHORT)))
    live.wait(lambda: len(gate.waiting) == 1, "it waits")
    live.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], (), 5000))
    live.create_topic(TOPIC)
    gate.open()
    assert client.answer() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert client.answer() == [(0, 0)]


def test_a_topic_that_is_deleted_meanwhile_is_not_there(
    live: LiveCluster, gate: Gate, client: Client
) -> None:
    client.send((0, batch(LONG)))
    live.wait(lambda: len(gate.waiting) == 1, "it waits")
    live.ask(DeleteTopicsRequest([DeleteTopicState(TOPIC)], (), 5000))
    gate.open()
    assert client.answer() == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)]


def test_rules_that_change_meanwhile_are_those_that_count(
    live: LiveCluster, gate: Gate, client: Client
) -> None:
    from kafkaesque.protocols.kafka.messages.incremental_alter_configs_request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )

    client.send((0, batch(LONG)))
    live.wait(lambda: len(gate.waiting) == 1, "it waits")
    change = AlterableConfig("cleanup.policy", 0, "compact")
    live.ask(IncrementalAlterConfigsRequest([AlterConfigsResource(2, TOPIC, [change])]))
    live.wait(lambda: "compact" in live.partition(TOPIC).config.cleanup_policy, "it is compacted")
    gate.open()
    live.wait(lambda: len(gate.waiting) == 1, "it waits once more")
    gate.open()
    assert client.answer() == [(ErrorCode.INVALID_RECORD, -1)]


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_of_a_client_that_has_gone_is_appended(
    live: LiveCluster, gate: Gate, count: int
) -> None:
    client = Client(live)
    client.send(*[(index, batch(LONG)) for index in range(count)])
    live.wait(lambda: len(gate.waiting) == 1, "it waits")
    gateway = live.nodes[1].gateway
    before = len(gateway.connections)
    client.reset()
    live.wait(lambda: len(gateway.connections) < before, "it is gone")
    again = Client(live)
    again.send((0, batch(SHORT)))
    assert again.answer() == [(0, 0)]
    gate.open()
    live.run_for(0.05)
    assert end(live) == 1
    again.close()


def test_whoever_wants_no_answer_may_hang_up(live: LiveCluster, gate: Gate) -> None:
    client = Client(live)
    client.send((0, batch(LONG)), acks=0)
    client.send((0, batch(SHORT)), acks=0)
    client.close()
    live.wait(lambda: len(gate.waiting) == 1, "it waits")
    live.run_for(0.02)
    gate.open()
    live.wait(lambda: end(live) == 2, "both are appended")


def test_a_leader_that_has_lost_the_partition_meanwhile_says_so(live_trio: LiveCluster) -> None:
    live = live_trio
    live.create_topic(TOPIC, 1, 3)
    leader = live.leader(TOPIC)
    gate, client = Gate(live, leader), Client(live, leader)
    client.send((0, batch(LONG, 0)))
    client.send((0, batch(SHORT, 1)))
    live.wait(lambda: len(gate.waiting) == 1, "it waits")
    partition = live.partition(TOPIC, node=leader)
    other = next(node for node in live.nodes if node != leader)
    live.nodes[leader].broker.driver.transfer_leadership(partition.state.group, other)  # type: ignore[arg-type]
    live.wait(lambda: not partition.is_leader, "another one leads")
    gate.open()
    assert client.answer() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    assert client.answer() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
    live.wait(lambda: live.partition(TOPIC, node=other).is_leader, "it leads")
    assert live.partition(TOPIC, node=other).high_watermark == 0
    client.close()


def test_a_broker_that_has_stopped_appends_nothing_any_more(
    live_trio: LiveCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = live_trio
    live.create_topic(TOPIC, 1, 1)
    leader = live.leader(TOPIC)
    node, gate, client = live.nodes[leader], Gate(live, leader), Client(live, leader)
    client.send((0, batch(LONG)))
    live.wait(lambda: len(gate.waiting) == 1, "it waits")
    replica = live.partition(TOPIC, node=leader).replica
    assert replica is not None
    before = replica.next_offset
    # As in a server: clients are sent away when all is on the disk.
    close_port = node.gateway.stop
    monkeypatch.setattr(node.gateway, "stop", lambda: None)
    stop_driver = node.broker.driver.stop

    def stop_and_open() -> None:
        stop_driver()
        assert replica.core.is_leader, "nobody else can lead"
        gate.open()

    # While it hands others over, it appends to what nobody else can lead; that is synced later.
    monkeypatch.setattr(node.broker.driver, "stop", stop_and_open)
    node.stop(close_port)
    live.wait(lambda: node.is_stopped, "it has stopped")
    assert not gate.waiting
    live.run_for(0.05)
    assert replica.next_offset == before
    client.close()


def test_what_is_forwarded_is_checked_the_same_way(live: LiveCluster, gate: Gate) -> None:
    done: list[object] = []
    for size in (LONG, 70_000_000):
        live.broker.forwarder.produce(
            TopicPartition(TOPIC, 0), batch(size), -1, 5000, done.append, lambda: True
        )
    live.wait(lambda: len(gate.waiting) == 2, "they wait")
    gate.open()
    live.wait(lambda: len(done) == 2, "they are answered")
    assert [isinstance(each, RequestRefused) for each in done] in ([False, True], [True, False])
    assert end(live) == 1
