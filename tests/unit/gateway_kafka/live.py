"""Real brokers on one loop in this thread, and a client that speaks Kafka's messages to them."""

from __future__ import annotations

import asyncio
import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafkaesque.access.principals import Principal
from kafkaesque.broker.broker import Broker
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.listeners import KAFKA, AccessMode, default_listener
from kafkaesque.broker.metadata.cluster_state import ALL_BROKERS
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.cli.broker_ports import free_ports
from kafkaesque.env.network import Address
from kafkaesque.gateway.chassis_of import make_chassis
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.model.batch_encoder import DEFAULT_OPTIONS, BatchOptions, encode_batch
from kafkaesque.model.ids import NO_NODE, NodeId, TopicPartition
from kafkaesque.model.options import OptionValue
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import SUPPORTED
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.alter_configs_request import (
    AlterConfigsRequest,
    AlterConfigsResource,
)
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_topics_request import (
    DeleteTopicsRequest,
    DeleteTopicState,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.runtime.env import RealEnv
from kafkaesque.runtime.loop import new_loop, report_to
from kafkaesque.runtime.network import RealNetwork
from kafkaesque.storage.config import StorageConfig

PATIENCE_S = 90.0
#: Rounds of deleting topics after a test.
CLEANINGS_MAX = 5
POLL_S = 0.001
BROKER_RESOURCE = 4
GROUP_RESOURCE = 32
#: Little is written: a large file would only take time to be made.
WAL_BYTES = 1024 * 1024
#: Tests write records of the year 1970: they are not to be taken for old ones.
KEPT = {"retention.ms": "-1"}
_LENGTH = struct.Struct(">i")
_API_KEYS = {name: key for key, (_, _, _, name) in CODEC_VERSIONS.items()}


def key_of(request: object) -> int:
    """Returns the API that a request message belongs to."""
    return _API_KEYS[type(request).__module__.rpartition(".")[2].removesuffix("_request")]


def versions_of(api_key: int) -> list[int]:
    """Returns all versions that are served."""
    versions = SUPPORTED[api_key]
    return list(range(versions.first, versions.last + 1))


class LiveBroker:
    """One broker with its Kafka port."""

    def __init__(self, cluster: LiveCluster, config: BrokerConfig, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.world = RealEnv(cluster.loop, root, cluster.on_fatal)
        cluster.teach(self.world.network)
        self.broker = Broker(env=self.world.env, config=config, report=cluster.reports.append)
        self.chassis = make_chassis(self.broker.doors, cluster.reports.append)
        self.gateway = KafkaGateway(self.broker.doors, self.chassis)
        self.is_ready = False
        self.is_stopped = False
        self._link: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._listener = config.listeners[0]
        self._address = config.kafka_address
        self.broker.start(self._on_ready)

    def _on_ready(self) -> None:
        self.gateway.start(self._listener)
        self.is_ready = True

    @property
    def address(self) -> Address:
        """Where its Kafka port is."""
        return self._address

    async def exchange(self, frame: bytes) -> bytes:
        """Sends a request's frame and returns the answer without its length."""
        if self._link is None:
            self._link = await asyncio.open_connection(*self._address)
        reader, writer = self._link
        writer.write(frame)
        (length,) = _LENGTH.unpack(await reader.readexactly(4))
        return await reader.readexactly(length)

    def stop(self, on_stopped: Callable[[], None]) -> None:
        """Closes everything, in good order."""
        if self._link is not None:
            self._link[1].close()
        if self.is_ready:
            self.gateway.stop()

        def done() -> None:
            self.is_stopped = True
            on_stopped()

        self.broker.stop(done)


class LiveCluster:
    """Brokers 1 to `count` with a controller group of all of them."""

    def __init__(
        self,
        root: Path,
        *,
        count: int = 1,
        options: Mapping[str, OptionValue] | None = None,
        racks: Mapping[int, str] | None = None,
        snapshot_records: int = 10_000,
        access: AccessMode = AccessMode.OPEN,
        secrets: Sequence[bytes] = (),
        super_users: Sequence[Principal] = (),
        listening: Mapping[str, Any] | None = None,
        teach: Callable[[RealNetwork], None] = lambda network: None,
        mapping_rules: str = "",
    ) -> None:
        """`listening` changes the listeners, and `teach` tells networks what they need for it."""
        self.loop = new_loop()
        report_to(self.loop, self.on_fatal)
        self.reports: list[str] = []
        self.fatal: list[BaseException] = []
        self.teach = teach
        #: What tests have opened, and `close` closes.
        self.closers: list[Callable[[], None]] = []
        self._correlation_id = 0
        nodes = [NodeId(number) for number in range(1, count + 1)]
        ports = dict(zip(nodes, free_ports(count), strict=True))
        peers = {node: Address("127.0.0.1", ports[node].peer) for node in nodes}
        self.nodes: dict[int, LiveBroker] = {}
        for node in nodes:
            config = BrokerConfig(
                node=node,
                cluster_id="live",
                rack=(racks or {}).get(node),
                peer_address=peers[node],
                listeners=[
                    replace(
                        default_listener(
                            KAFKA, Address("127.0.0.1", ports[node].kafka), access=access
                        ),
                        **(listening or {}),
                    )
                ],
                principal_mapping_rules=mapping_rules,
                secrets=tuple(secrets),
                super_users=tuple(super_users),
                controllers=peers,
                options=dict(options or {}),
                data_dir=str(root / str(node)),
                metadata_snapshot_records=snapshot_records,
                storage=StorageConfig(wal_bytes=WAL_BYTES),
            )
            self.nodes[node] = LiveBroker(self, config, root / str(node))
        self.wait(lambda: all(live.is_ready for live in self.nodes.values()), "brokers are ready")

    def on_fatal(self, error: BaseException) -> None:
        """A defect of a broker's own: the test fails."""
        self.fatal.append(error)

    def _check(self) -> None:
        if self.fatal:
            raise AssertionError("".join(traceback.format_exception(self.fatal[0])))

    @property
    def broker(self) -> Broker:
        """Broker 1."""
        return self.nodes[1].broker

    def wait(self, condition: Callable[[], bool], what: str) -> None:
        """Runs the loop until something holds."""

        async def poll() -> None:
            while not condition():
                self._check()
                await asyncio.sleep(POLL_S)

        try:
            self.loop.run_until_complete(asyncio.wait_for(poll(), PATIENCE_S))
        except TimeoutError:
            report = "\n".join(self.reports[-20:])
            raise AssertionError(f"not within {PATIENCE_S} s: {what}\n{report}") from None

    def ask(self, request: Any, version: int | None = None, *, node: int = 1) -> Any:
        """Returns a broker's answer; the newest version unless told otherwise."""
        api_key = key_of(request)
        version = SUPPORTED[api_key].last if version is None else version
        self._correlation_id += 1
        frame = write_request(api_key, version, self._correlation_id, "test", request)
        exchange = self.nodes[node].exchange(frame)
        body = self.loop.run_until_complete(asyncio.wait_for(exchange, PATIENCE_S))
        self._check()
        correlation_id, answer = read_response(memoryview(body), api_key, version)
        assert correlation_id == self._correlation_id
        return answer

    def ask_until(
        self,
        request: Any,
        accepts: Callable[[Any], bool],
        version: int | None = None,
        *,
        node: int = 1,
    ) -> Any:
        """Asks again and again, as clients do, until the answer is accepted."""
        deadline = self.loop.time() + PATIENCE_S
        while True:
            answer = self.ask(request, version, node=node)
            if accepts(answer):
                return answer
            if self.loop.time() > deadline:
                raise AssertionError(f"the last answer was {answer}")
            self.run_for(POLL_S)

    def create_topic(
        self,
        name: str,
        partition_count: int = 1,
        replication_factor: int = 1,
        configs: Mapping[str, str] = KEPT,
    ) -> bytes:
        """Creates a topic, waits until all brokers know who leads it, and returns its id."""
        topic = CreatableTopic(
            name,
            partition_count,
            replication_factor,
            configs=[CreatableTopicConfig(key, value) for key, value in configs.items()],
        )
        (result,) = self.ask(CreateTopicsRequest([topic])).topics
        assert result.error_code == 0, result
        self.wait(lambda: self._is_led(name), f"{name} is led")
        topic_id: bytes = result.topic_id
        return topic_id

    def _is_led(self, name: str) -> bool:
        for live in self.nodes.values():
            topic = live.broker.state.topics.get(name)
            if topic is None:
                return False
            if any(live.broker.leaders.leader(p.group) is None for p in topic.partitions):
                return False
        return True

    def partition(self, name: str, index: int = 0, *, node: int = 1) -> Partition:
        """Returns a broker's own partition."""
        return self.nodes[node].broker.partitions.find(TopicPartition(name, index))

    def leader(self, name: str, index: int = 0) -> int:
        """Returns who leads a partition, as far as broker 1 knows, else -1."""
        group = self.broker.state.topic(name).partitions[index].group
        leader = self.broker.leaders.leader(group)
        return NO_NODE if leader is None else leader

    def produce(
        self,
        name: str,
        index: int = 0,
        *,
        timestamps_ms: Sequence[int] = (0,),
        node: int = 1,
        options: BatchOptions = DEFAULT_OPTIONS,
    ) -> int:
        """Appends one batch, with a record for each timestamp, and returns its base offset."""
        records = [
            Record(number, timestamp_ms, None, b"value", ())
            for number, timestamp_ms in enumerate(timestamps_ms)
        ]
        data = PartitionProduceData(index, encode_batch(records, options))
        transactional_id = "mine" if options.transactional else None
        request = ProduceRequest(
            transactional_id, -1, 5000, [TopicProduceData(name=name, partition_data=[data])]
        )
        answer = self.ask(request, 9, node=node)
        result = answer.responses[0].partition_responses[0]
        assert result.error_code == 0, result
        base_offset: int = result.base_offset
        return base_offset

    def run_for(self, seconds: float) -> None:
        """Lets the brokers go on."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def clean(self) -> None:
        """Removes all topics and dynamic options, so that the next test finds none."""
        self._check()
        creator = self.nodes[1].gateway.context.topic_creator
        self.wait(lambda: not creator.under_way, "topics are created")
        state = self.broker.state
        for node, configs in state.broker_configs.items():
            if configs:
                resource = AlterConfigsResource(
                    BROKER_RESOURCE, "" if node == ALL_BROKERS else str(node), ()
                )
                self.ask(AlterConfigsRequest([resource]))
        for group in list(state.group_configs):
            self.ask(AlterConfigsRequest([AlterConfigsResource(GROUP_RESOURCE, group, ())]))
        # A topic that a test has asked for, and not waited for, may come late on a busy machine.
        for _ in range(CLEANINGS_MAX):
            found = set(state.topics)
            if found:
                names = [DeleteTopicState(name) for name in found]
                self.ask(DeleteTopicsRequest(names, (), int(PATIENCE_S * 1000)))
            self._wait_until_closed(found)
            if not state.topics:
                break
        assert not state.topics
        assert not any(state.broker_configs.values())
        assert not state.group_configs
        self.reports.clear()

    def _wait_until_closed(self, deleted: set[str]) -> None:
        """Waits until no partition is open, or a topic that is not deleted is there."""
        topics = self.broker.state.topics
        self.wait(
            lambda: not self.broker.partitions or not topics.keys() <= deleted,
            "partitions are closed",
        )

    def close(self) -> None:
        """Stops all brokers and the loop."""
        for close in self.closers:
            close()
        try:
            for live in self.nodes.values():
                if not live.is_stopped:
                    live.stop(lambda: None)
            self.wait(lambda: all(live.is_stopped for live in self.nodes.values()), "stopped")
        finally:
            for live in self.nodes.values():
                live.world.close()
            self.loop.run_until_complete(asyncio.sleep(0))
            self.loop.close()
