"""A simulated cluster in which causes are injected, with clients of its protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, cast

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import ChangeQuotas, QuotaChange
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.sim.clients.kafka_client import BrokerLink
from kafkaesque.sim.cluster import (
    ADMIN_PORT,
    AMQP_PORT,
    KAFKA_PORT,
    MQTT_GATEWAYS,
    MQTT_PORT,
    SECURED_PORT,
    SQS_GATEWAYS,
    SQS_PORT,
    STOMP_GATEWAYS,
    STOMP_PORT,
)
from kafkaesque.sim.env import Machine
from kafkaesque.sim.options import SimOptions
from tests.sim.sqs_scenario import SqsClient
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.gateway_amqp.kit import AmqpClient
from tests.unit.gateway_mqtt import kit as mqtt_kit
from tests.unit.gateway_stomp import kit as stomp_kit

NAMES = ("b1", "b2", "b3")
EVERY = {
    KAFKA_PORT: KafkaGateway,
    AMQP_PORT: MQTT_GATEWAYS[AMQP_PORT],
    MQTT_PORT: MQTT_GATEWAYS[MQTT_PORT],
    SQS_PORT: SQS_GATEWAYS[SQS_PORT],
    STOMP_PORT: STOMP_GATEWAYS[STOMP_PORT],
}
assert ADMIN_PORT not in EVERY, "the ground serves it by itself"


class _StompGround(stomp_kit.Ground):
    """A running cluster, as clients of AMQP and STOMP want it."""

    def __init__(self, ground: CauseGround) -> None:
        self.world, self.loop = ground.world, ground.world.loop
        self.cluster, self.env = ground.cluster, ground.env


class _MqttGround(mqtt_kit.Ground):
    """The same for MQTT."""

    def __init__(self, ground: CauseGround) -> None:
        self.world, self.loop = ground.world, ground.world.loop
        self.cluster, self.env = ground.cluster, ground.env


class CauseGround(ApiGround):
    """Three brokers that serve the API and all that queues are spoken by."""

    def __init__(self, seed: int, *, is_secured: bool = False) -> None:
        options = SimOptions(activities=("compaction",))
        if is_secured:
            super().__init__(seed, options=options, is_secured=True)
        else:
            super().__init__(seed, options=options, gateways=EVERY)
        self.env = self.world.add_machine("client").boot()
        self.stomp = _StompGround(self)
        self.mqtt = _MqttGround(self)
        self._links = 0
        self._names = 0

    def chassis(self, name: str) -> Chassis:
        """Return what all ports of a broker share."""
        return self.cluster._gateways[name][KAFKA_PORT].chassis

    def name(self, of: str) -> str:
        """Return a name that nothing else has."""
        self._names += 1
        return f"{of}-{self._names}"

    def wait(self, ms: int) -> None:
        """Let time go by."""
        self.world.loop.run_for(ms)

    @property
    def now_ms(self) -> float:
        """Virtual time."""
        return self.world.loop.now_ns / 1e6

    def wall_ms(self) -> int:
        """What the first broker's clock says."""
        return self.cluster.brokers["b1"].env.clock.wall_ms()

    # -- changes

    def settle(self, begin: Callable[[Callable[[Any], None]], None], ms: int = 60_000) -> Any:
        """Return what is answered."""
        done: list[Any] = []
        begin(done.append)
        self.run_until(lambda: bool(done), ms)
        return done[0]

    def submit(self, command: Any) -> Any:
        """Have the controller do something."""
        doors = self.cluster.brokers["b1"].doors
        outcome = self.settle(lambda done: doors.cluster.submit(command, 20_000, done))
        assert not isinstance(outcome, RequestRefused), outcome
        return outcome

    def limit(self, entity: tuple[tuple[str, str | None], ...], name: str, value: float) -> None:
        """Set a quota."""
        self.submit(ChangeQuotas(entity=entity, changes=[QuotaChange(name=name, value=value)]))
        self.wait(500)

    def topic(self, of: str, partitions: int = 1, factor: int = 3, **options: str) -> str:
        """Create a topic with leaders, of which all brokers know; return its name."""
        name = self.name(of)
        self.create(name, partitions, factor, **options)
        brokers = self.cluster.brokers
        self.run_until(lambda: all(name in each.state.topics for each in brokers.values()))
        return name

    def solo(self, random: Random, avoid: str = "b1") -> tuple[str, str]:
        """Create a topic with one replica, not on one broker; return its name and its leader's."""
        for _ in range(30):
            name = self.topic("solo", factor=1)
            leader, _ = self.leader(name)
            if leader != avoid:
                return name, leader
        raise AssertionError("all leaders are on one broker")

    def leader(self, topic: str, partition: int = 0) -> tuple[str, Broker]:
        """Return who leads a partition."""
        found: list[tuple[str, Broker]] = []

        def look() -> bool:
            for name, broker in self.cluster.brokers.items():
                if not self.world.machines[name].running or topic not in broker.state.topics:
                    continue
                group = broker.state.topic(topic).partitions[partition].group
                here = broker.partitions.get(group)
                if here is not None and here.replica is not None and here.is_leader:
                    found.append((name, broker))
                    return True
            return False

        self.run_until(look)
        return found[0]

    def in_sync(self, topic: str) -> int:
        """Return how many replicas of a partition are in sync."""
        _, broker = self.leader(topic)
        replica = broker.partitions.find(TopicPartition(topic, 0)).replica
        return 0 if replica is None else len(replica.in_sync())

    def isolate(self, name: str) -> None:
        """Cut a broker off from the others, both ways."""
        for other in NAMES:
            if other != name:
                self.world.wire.block(name, other)
                self.world.wire.block(other, name)

    def begin_publishing(self, topic: str) -> None:
        """Send a record, and wait for nothing."""
        _, broker = self.leader(topic)
        broker.doors.publishing.publish(
            TopicPartition(topic, 0),
            bytes(encode_batch([text("late")])),
            acks=-1,
            timeout_ms=30_000,
            on_done=lambda _: None,
            is_wanted=lambda: True,
        )

    def delete_before(self, topic: str, offset: int) -> None:
        """Delete the records before an offset."""
        _, broker = self.leader(topic)
        partition = broker.doors.topics.deletable(TopicPartition(topic, 0))
        delete = broker.doors.topics.delete_records
        self.settle(lambda done: delete(partition, offset, 10_000, done))

    # -- queues

    def queue(self, of: str, **options: str) -> QueueState:
        """Make a queue."""
        return self._queue(of, -1, options)

    def queue_of_one(self, of: str) -> tuple[QueueState, int]:
        """Make a queue with one replica, not on the first broker; return where it is, too."""
        for _ in range(30):
            queue = self._queue(of, 1, {})
            (node,) = queue.partitions[0].replicas
            if node != 1:
                return queue, int(node)
        raise AssertionError("all are on one broker")

    def _queue(self, of: str, factor: int, options: Mapping[str, str]) -> QueueState:
        name = self.name(of)
        given = {key.replace("_", "."): value for key, value in options.items()}
        command = CreateQueue(
            vhost=DEFAULT_VHOST, name=name, options=given, replication_factor=factor
        )
        self.submit(command)
        self.ask_queue(name, q.AskQueue, q.QueueCounts)
        return self.found(name)

    def found(self, name: str) -> QueueState:
        """Return a queue that somebody has made."""
        where = QueueName(DEFAULT_VHOST, name)
        self.run_until(
            lambda: all(where in each.state.queues for each in self.cluster.brokers.values())
        )
        return self.cluster.brokers["b1"].doors.queues.find(where)

    def send(self, queue: QueueState, *messages: NewMessage) -> list[int]:
        """Put messages; return their offsets."""
        queues = self.cluster.brokers["b1"].doors.queues
        outcome = self.settle(lambda done: queues.put(queue.topic_id, list(messages), 20_000, done))
        assert isinstance(outcome, q.PutResult), outcome
        return outcome.offsets

    def do(self, queue: QueueState, kind: Any, result: Any, **fields: Any) -> Any:
        """Ask a queue's leader, which has to answer."""
        return self.ask_queue(queue.queue.name, kind, result, **fields)

    def take(self, queue: QueueState, count: int = 1, **more: Any) -> list[q.QueueMessage]:
        """Lock messages."""
        taken = self.do(
            queue,
            q.TakeMessages,
            q.TakenMessages,
            bytes_max=1_000_000,
            messages_max=count,
            wait_ms=1_000,
            **more,
        )
        return list(taken.messages)

    def peeked(self, queue: QueueState) -> list[q.PeekedMessage]:
        """Return the messages of a queue."""
        found = self.do(queue, q.PeekMessages, q.PeekedMessages, messages_max=100)
        return list(found.messages)

    # -- clients

    def kafka(self, host: str, user: str = "") -> KafkaPeer:
        """Connect a client of Kafka from a machine of its own; a user shows a certificate."""
        machine = self._new_machine()
        tls = self.cluster.show_certificate(machine, user) if user else ""
        port = SECURED_PORT if user else KAFKA_PORT
        return KafkaPeer(self, BrokerLink(machine.boot(), Address(host, port), tls))

    def kafka_everywhere(self) -> list[KafkaPeer]:
        """Connect one client of Kafka to all brokers."""
        env = self._new_machine().boot()
        return [KafkaPeer(self, BrokerLink(env, Address(host, KAFKA_PORT))) for host in NAMES]

    def _new_machine(self) -> Machine:
        self._links += 1
        return self.world.add_machine(f"app{self._links}")

    def amqp(self, host: str) -> AmqpClient:
        """Connect a client of AMQP, with channel 1."""
        return self.stomp.amqp(NAMES.index(host) + 1)

    def sqs(self, host: str) -> SqsClient:
        """Connect a client of SQS."""
        self._links += 1
        return SqsClient(cast(Any, self.stomp), host, f"sqs{self._links}")


class KafkaPeer:
    """A connection of a client of Kafka, asked one thing after the other."""

    def __init__(self, ground: CauseGround, link: BrokerLink) -> None:
        self._ground = ground
        self.link = link

    def ask(self, api_key: int, version: int, message: Any) -> Any:
        """Return the answer."""
        answer = self._ground.settle(lambda done: self.link.send(api_key, version, message, done))
        assert answer is not None, "the connection has ended"
        return answer
