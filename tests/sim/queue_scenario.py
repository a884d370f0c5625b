"""A simulated cluster with a queue, asked as gateways ask."""

from collections.abc import Mapping
from typing import TypeVar

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.broker.queues.host import QueueHost
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import ControllerCommand, CreateTopic, Done
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues.requests import Claim
from kafkaesque.sim.cluster import GATEWAYS, MakeGateway
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario

TIMEOUT_MS = 10_000
QUEUE = "orders"
PLENTY = 64 * 1024 * 1024

ResultT = TypeVar("ResultT")


class QueueScenario(Scenario):
    """Three brokers and a queue."""

    def __init__(
        self,
        seed: int,
        options: dict[str, str] | None = None,
        *,
        brokers: int = 3,
        sim_options: SimOptions | None = None,
        gateways: Mapping[int, MakeGateway] = GATEWAYS,
    ) -> None:
        super().__init__(seed, sim_options or SimOptions(brokers=brokers), gateways=gateways)
        self.create(QUEUE, options)

    # -- the cluster

    def create(self, name: str, options: dict[str, str] | None = None) -> None:
        self.submit(CreateQueue(vhost=DEFAULT_VHOST, name=name, options=options or {}))
        queue = QueueName(DEFAULT_VHOST, name)
        self.loop.run_until(
            lambda: all(queue in self.broker(each).state.queues for each in self.running()),
            TIMEOUT_MS,
        )

    def make_topic(self, name: str, partitions: int = 1, **configs: str) -> None:
        changes = {key.replace("_", "."): value for key, value in configs.items()}
        command = CreateTopic(
            name=name, partition_count=partitions, replication_factor=3, configs=changes
        )
        self.submit(command)
        self.loop.run_until(
            lambda: all(name in self.broker(each).state.topics for each in self.running()),
            TIMEOUT_MS,
        )

    def records_of(self, topic: str) -> list[Record]:
        """Return all records of a topic, as its leaders have them."""
        found: list[Record] = []
        for state in self.any().state.topic(topic).partitions:
            for name in self.running():
                partition = self.broker(name).partitions.get(state.group)
                if partition is not None and partition.is_leader:
                    for header, data in replay(partition.log, partition.log.start_offset):
                        if not header.is_control:
                            found += decode_batch(data, PLENTY)
        return found

    def submit(self, command: ControllerCommand) -> None:
        done: list[object] = []
        broker = self.broker(self.running()[0])
        broker.controller_client.submit(command, TIMEOUT_MS, done.append)
        self.loop.run_until(lambda: done != [], 2 * TIMEOUT_MS)
        assert not isinstance(done[0], RequestRefused), done

    def queue(self, name: str = QUEUE) -> QueueState:
        return self.any().state.queues[QueueName(DEFAULT_VHOST, name)]

    def any(self) -> Broker:
        return self.broker(self.running()[0])

    def host(self, broker: str, name: str = QUEUE) -> QueueHost | None:
        hosts = self.broker(broker).queue_hosts
        return hosts._hosts.get((self.queue(name).topic_id, 0))

    def hosted(self, broker: str, name: str = QUEUE) -> QueueHost:
        host = self.host(broker, name)
        assert host is not None
        return host

    def leads(self, broker: str, name: str) -> bool:
        host = self.host(broker, name)
        return host is not None and host.queue.is_leading

    def queue_leader(self, name: str = QUEUE) -> str:
        found: list[str] = []

        def is_found() -> bool:
            found[:] = [each for each in self.running() if self.leads(each, name)]
            return len(found) == 1

        self.loop.run_until(is_found, TIMEOUT_MS)
        return found[0]

    def follower(self, name: str = QUEUE) -> str:
        leader = self.queue_leader(name)
        return next(each for each in self.running() if each != leader)

    # -- asking

    def ask(
        self,
        request: q.AnyQueueRequest,
        result_type: type[ResultT],
        broker: str = "",
        timeout_ms: int = TIMEOUT_MS,
    ) -> ResultT:
        outcome = self.try_to(request, result_type, broker, timeout_ms)
        assert isinstance(outcome, result_type), outcome
        return outcome

    def try_to(
        self,
        request: q.AnyQueueRequest,
        result_type: type[ResultT],
        broker: str = "",
        timeout_ms: int = TIMEOUT_MS,
    ) -> ResultT | RequestRefused:
        outcomes: list[ResultT | RequestRefused] = []
        door = self.broker(broker or self.running()[0]).doors.queues
        door.ask(request, result_type, timeout_ms, outcomes.append)
        self.loop.run_until(lambda: outcomes != [], 2 * timeout_ms)
        (outcome,) = outcomes
        return outcome

    def put(self, *messages: NewMessage | bytes, broker: str = "", name: str = QUEUE) -> list[int]:
        outcome = self.try_to_put(*messages, broker=broker, name=name)
        assert isinstance(outcome, q.PutResult), outcome
        return outcome.offsets

    def try_to_put(
        self, *messages: NewMessage | bytes, broker: str = "", name: str = QUEUE
    ) -> q.PutResult | RequestRefused:
        outcomes: list[q.PutResult | RequestRefused] = []
        door = self.broker(broker or self.running()[0]).doors.queues
        new = [NewMessage(each) if isinstance(each, bytes) else each for each in messages]
        door.put(self.queue(name).topic_id, new, TIMEOUT_MS, outcomes.append)
        self.loop.run_until(lambda: outcomes != [], 2 * TIMEOUT_MS)
        (outcome,) = outcomes
        return outcome

    def take(
        self,
        count: int = 1,
        *,
        broker: str = "",
        name: str = QUEUE,
        lock_ms: int | None = None,
        wait_ms: int = 0,
        consumer: q.ConsumerName | None = None,
        bytes_max: int = PLENTY,
    ) -> list[q.QueueMessage]:
        request = q.TakeMessages(
            log_id=self.queue(name).topic_id,
            messages_max=count,
            bytes_max=bytes_max,
            lock_ms=lock_ms,
            wait_ms=wait_ms,
            consumer=consumer,
        )
        return self.ask(request, q.TakenMessages, broker, TIMEOUT_MS + wait_ms).messages

    def done(self, *messages: q.QueueMessage, broker: str = "", name: str = QUEUE) -> list[Claim]:
        claims = [each.claim for each in messages]
        request = q.SettleMessages(log_id=self.queue(name).topic_id, claims=claims)
        return self.ask(request, q.ClaimsResult, broker).stale

    def fail(self, *messages: q.QueueMessage, name: str = QUEUE) -> list[Claim]:
        claims = [each.claim for each in messages]
        log_id = self.queue(name).topic_id
        request = q.ReleaseMessages(log_id=log_id, claims=claims, is_failed=True)
        return self.ask(request, q.ClaimsResult).stale

    def counts(self, name: str = QUEUE) -> q.QueueCounts:
        return self.ask(q.AskQueue(log_id=self.queue(name).topic_id), q.QueueCounts)

    def purge(self) -> None:
        self.ask(q.PurgeQueue(log_id=self.queue().topic_id), Done)


def values(messages: list[q.QueueMessage]) -> list[bytes | None]:
    return [each.value for each in messages]
