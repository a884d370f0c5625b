"""A simulated cluster whose brokers all serve the admin API, and clients that speak JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import urlencode

import h11

from kafkaesque.admin.gateway import AdminGateway
from kafkaesque.admin.health import reasons_against
from kafkaesque.admin.hosts import CHANGE_HEADER
from kafkaesque.broker.config import BrokerConfig
from kafkaesque.broker.doors.queues import NewMessage as NewQueueMessage
from kafkaesque.broker.listeners import ADMIN, default_listener
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests.commands import CreateTopic, ProduceResult
from kafkaesque.broker.requests.queue_commands import CreateQueue, QueueResult
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    AskQueue,
    PutResult,
    QueueCounts,
)
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.console.pages import ConsolePages
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions
from kafkaesque.gateway.chassis_of import make_chassis
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.sim.cluster import KAFKA_PORT, MakeGateway, SimCluster
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.options import SimOptions
from tests.unit.admin.told import Told

T = TypeVar("T")

PORT = 8080
CHANGE = {CHANGE_HEADER: "1"}
KAFKA_ONLY: Mapping[int, MakeGateway] = {KAFKA_PORT: KafkaGateway}


class Browser:
    """One connection, over which requests go one after the other."""

    def __init__(self, world: World, machine: Machine, host: str, port: int = PORT) -> None:
        self.is_closed = False
        self.connection: Connection | None = None
        self.http = h11.Connection(h11.CLIENT)
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""
        self.is_done = False
        #: What requests say that they ask.
        self.host = host
        self._world = world
        env = machine.boot()
        options = ListenOptions(framing=Framing.STREAM)
        env.network.connect(Address(host, port), options, self, lambda _: self.on_close(None))
        world.loop.run_until(lambda: self.connection is not None or self.is_closed)

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        self.http.receive_data(bytes(data))
        while True:
            event = self.http.next_event()
            if isinstance(event, h11.Response):
                self.status = event.status_code
                self.headers = {k.decode(): v.decode() for k, v in event.headers}
            elif isinstance(event, h11.Data):
                self.body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.is_done = True
                if self.http.states[h11.CLIENT] is h11.DONE is self.http.states[h11.SERVER]:
                    self.http.start_next_cycle()
                return
            elif not isinstance(event, h11.InformationalResponse):
                return

    def on_writable(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.is_closed = True

    def begin(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None
    ) -> None:
        assert self.connection is not None
        self.is_done, self.body = False, b""
        all_headers = {"Host": f"{self.host}:{PORT}", **headers}
        if body is not None:
            all_headers["Content-Length"] = str(len(body))
        request = h11.Request(method=method, target=target, headers=list(all_headers.items()))
        parts = [self.http.send(request)]
        if body is not None:
            parts.append(self.http.send(h11.Data(data=body)))
        parts.append(self.http.send(h11.EndOfMessage()))
        self.connection.write([part for part in parts if part])

    def ask(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Told:
        self.begin(method, target, headers or {}, body)
        self._world.loop.run_until(lambda: self.is_done or self.is_closed, 120_000)
        return Told(status=self.status, headers=self.headers, body=self.body)


class ClusterWithPorts(SimCluster):
    """Every broker has an admin port, as it says at its registration."""

    def _config(self, name: str) -> BrokerConfig:
        config = super()._config(name)
        if self._is_secured:
            # Beside such a port no other may be open to everybody; this one is, unannounced.
            return config
        admin = default_listener(ADMIN, Address(name, PORT))
        return replace(config, listeners=[*config.listeners, admin])


class ApiGround:
    """Three simulated brokers, each with the API."""

    def __init__(
        self,
        seed: int = 1,
        serving: Sequence[str] = ("b1", "b2", "b3"),
        *,
        options: SimOptions | None = None,
        gateways: Mapping[int, MakeGateway] = KAFKA_ONLY,
        is_secured: bool = False,
    ) -> None:
        """`gateways` are those beside the API; see `SimCluster` for what `is_secured` adds."""
        self.world = World(seed)
        self.cluster = ClusterWithPorts(
            self.world, options, gateways=gateways, is_secured=is_secured
        )
        self.lines: list[str] = []
        self._count = 0
        self._is_secured = is_secured
        self._browsers: dict[str, Browser] = {}
        self.gateways: dict[str, AdminGateway] = {}
        self.cluster.start()
        self.run_until(lambda: len(self.cluster.brokers) == 3)
        for name in serving:
            self.serve(name)
        self.run_until(
            lambda: not any(reasons_against(each.doors) for each in self.cluster.brokers.values())
        )

    def serve(self, name: str) -> None:
        """Open the admin port of a broker."""
        doors = self.cluster.brokers[name].doors
        chassis = self.chassis(name)
        gateway = AdminGateway(doors, chassis, "1.2.3", ConsolePages())
        gateway.start(default_listener(ADMIN, Address(name, PORT)))
        self.gateways[name] = gateway

    def chassis(self, name: str) -> Chassis:
        """Return what the admin port of a broker shares with its other ports; here nothing."""
        return make_chassis(self.cluster.brokers[name].doors, self.lines.append)

    def run_until(self, condition: Callable[[], bool], ms: int = 60_000) -> None:
        self.world.loop.run_until(condition, ms)

    def browser(self, host: str = "b1") -> Browser:
        self._count += 1
        machine = self.world.add_machine(f"browser{self._count}")
        browser = Browser(self.world, machine, host)
        if self._is_secured:
            # Its port is not announced; see `ClusterWithPorts`.
            browser.host = "localhost"
        return browser

    def ask(
        self, method: str, path: str, body: object = None, host: str = "b1", **query: object
    ) -> Told:
        """Send a request as the console does."""
        browser = self._browsers.get(host)
        if browser is None or browser.is_closed:
            browser = self._browsers[host] = self.browser(host)
        target = f"/api/v1{path}"
        if query:
            target += f"?{urlencode(query)}"
        headers = {} if method == "GET" else dict(CHANGE)
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body).encode()
        return browser.ask(method, target, headers, data)

    def get(self, path: str, host: str = "b1", **query: object) -> Any:
        """Return what is at a path; it has to be there."""
        told = self.ask("GET", path, None, host, **query)
        assert told.status == 200, told.body
        return told.json

    # -- things to look at

    def create(self, name: str, partitions: int = 1, factor: int = 3, **options: str) -> None:
        """Create a topic and wait for its leaders."""
        doors = self.cluster.brokers["b1"].doors
        done: list[object] = []
        doors.cluster.submit(
            CreateTopic(
                name=name,
                partition_count=partitions,
                replication_factor=factor,
                configs={key.replace("_", "."): value for key, value in options.items()},
            ),
            10_000,
            done.append,
        )
        self.run_until(lambda: bool(done))
        assert not isinstance(done[0], RequestRefused), done
        led: list[object] = []
        doors.topics.when_led(name, 10_000, lambda: led.append(None))
        self.run_until(lambda: bool(led))

    def create_queue(self, name: str, **options: str) -> QueueState:
        """Create a queue and wait until it has a leader."""
        done: list[object] = []
        doors = self.cluster.brokers["b1"].doors
        given = {key.replace("_", "."): value for key, value in options.items()}
        doors.cluster.submit(CreateQueue(vhost="/", name=name, options=given), 10_000, done.append)
        self.run_until(lambda: bool(done))
        assert isinstance(done[0], QueueResult), done
        counts = self.ask_queue(name, AskQueue, QueueCounts)
        assert isinstance(counts, QueueCounts), counts
        return doors.queues.find(QueueName("/", name))

    def put(self, queue: str, *values: str) -> None:
        """Put messages into a queue."""
        done: list[object] = []
        queues = self.cluster.brokers["b1"].doors.queues
        messages = [NewQueueMessage(each.encode()) for each in values]
        log_id = queues.find(QueueName("/", queue)).topic_id
        queues.put(log_id, messages, 10_000, done.append)
        self.run_until(lambda: bool(done))
        assert isinstance(done[0], PutResult), done

    def ask_queue(
        self, queue: str, kind: Callable[..., AnyQueueRequest], result: type[T], **fields: Any
    ) -> T:
        """Ask a queue's leader; it has to answer."""
        done: list[T | RequestRefused] = []
        queues = self.cluster.brokers["b1"].doors.queues
        self.run_until(lambda: QueueName("/", queue) in queues_of(self.cluster))
        request = kind(log_id=queues.find(QueueName("/", queue)).topic_id, **fields)
        queues.ask(request, result, 10_000, done.append)
        self.run_until(lambda: bool(done))
        (answer,) = done
        assert not isinstance(answer, RequestRefused), answer
        return answer

    def publish(
        self, topic: str, partition: int, *records: Record, codec: Codec = Codec.NONE
    ) -> int:
        """Append records; return the first one's offset."""
        done: list[object] = []
        placed = [each._replace(offset=at) for at, each in enumerate(records)]
        self.cluster.brokers["b1"].doors.publishing.publish(
            TopicPartition(topic, partition),
            bytes(encode_batch(placed, BatchOptions(codec=codec))),
            acks=-1,
            timeout_ms=10_000,
            on_done=done.append,
            is_wanted=lambda: True,
        )
        self.run_until(lambda: bool(done))
        (outcome,) = done
        assert isinstance(outcome, ProduceResult), outcome
        return outcome.base_offset

    def kill(self, name: str) -> None:
        """Kill a broker, and wait until the first one has noticed."""
        node = self.cluster.brokers[name].config.node
        self.world.machines[name].kill()
        peers = self.cluster.brokers["b1"].peers
        self.run_until(lambda: not peers.is_alive(node))


def queues_of(cluster: SimCluster) -> Mapping[QueueName, QueueState]:
    """Return the queues that the first broker knows."""
    return cluster.brokers["b1"].doors.cluster.state.queues


def text(value: str | bytes, key: bytes | None = None, at_ms: int = 1_790_000_000_000) -> Record:
    """Return a record."""
    data = value.encode() if isinstance(value, str) else value
    return Record(0, at_ms, key, data)
