"""Clients that are known by certificate, and rules that are given to them and taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkaesque.broker.broker import Broker
from kafkaesque.env.network import Address
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.create_acls_request import AclCreation, CreateAclsRequest
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_acls_request import (
    DeleteAclsFilter,
    DeleteAclsRequest,
)
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.sim.clients.kafka_client import BrokerLink
from kafkaesque.sim.cluster import KAFKA_PORT, SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.options import SimOptions

USER = "app"
STALE_MS = 5_000
#: Beside the bound: until connections have been looked at, and a request that was sent is answered.
SLACK_MS = 500
#: So long rights stay as they are, and clients wait from one request to the next.
TURN_MS = (1_500, 9_000)
PAUSE_MS = 60
#: A change of which nothing was heard may be made for so long.
DOUBT_MS = 40_000
READ, WRITE, TOPIC_TYPE, LITERAL, ALLOW, ANY = 3, 4, 2, 3, 3, 1


def topic_on(node: int) -> str:
    """A topic whose only replica a broker has: it goes on alone with it when it is cut off."""
    return f"only-on-{node}"


class Guarded:
    """Three brokers, a topic on each of them, an administrator, and a client of each broker."""

    def __init__(self, seed: int, prepare: Callable[[Broker], None] = lambda _: None) -> None:
        self.world = World(seed)
        self.loop = self.world.loop
        self.cluster = SimCluster(
            self.world,
            SimOptions(),
            {KAFKA_PORT: KafkaGateway},
            is_secured=True,
            stale_ms_max=STALE_MS,
        )
        self.cluster.prepare = prepare
        self.cluster.start()
        self.admin = Administrator(self)
        self.loop.run_until(lambda: self.admin.has_made_topics, 60_000)
        machine = self.world.add_machine("client")
        self.tls = self.cluster.show_certificate(machine, USER)
        self.env = machine.boot()
        self.found: list[str] = []
        #: Requests that were answered without an error, and with a refusal.
        self.allowed = self.refused = 0
        self.clients = [
            Client(self, node, operation) for node in (1, 2, 3) for operation in (READ, WRITE)
        ]

    @property
    def now_ms(self) -> int:
        """True time."""
        return self.loop.now_ns // NS_PER_MS

    def note(self, what: str, topic: str, sent_ms: int) -> None:
        """A request has been carried out: it must not have been sent too long after the end."""
        self.allowed += 1
        taken_ms = self.admin.taken_ms
        if taken_ms is not None and sent_ms > taken_ms + STALE_MS + SLACK_MS:
            self.found.append(
                f"{what} of {topic} was sent {sent_ms - taken_ms} ms after the right was taken away"
            )


class Administrator:
    """Makes the topics, and gives and takes rules by an open listener."""

    def __init__(self, run: Guarded) -> None:
        self._run = run
        self._env = run.world.add_machine("admin").boot()
        self.has_made_topics = False
        #: Since when surely nothing is allowed; None where something may be.
        self.taken_ms: int | None = None
        self.is_stopped = True
        self.turns = 0
        self._make_topics()

    def _ask(self, key: int, version: int, request: Any, on_answer: Callable[[Any], None]) -> None:
        addresses = self._run.cluster.addresses
        link = BrokerLink(self._env, addresses[self._env.dice.below(len(addresses))])

        def on_response(answer: Any) -> None:
            on_answer(answer)
            self._env.clock.call_soon(link.close)

        link.send(key, version, request, on_response)

    def _make_topics(self) -> None:
        topics = [
            CreatableTopic(
                topic_on(node),
                -1,
                -1,
                assignments=[CreatableReplicaAssignment(0, [node])],
                # Records are of the year 1970.
                configs=[CreatableTopicConfig("retention.ms", "-1")],
            )
            for node in (1, 2, 3)
        ]

        def on_answer(answer: Any) -> None:
            if answer is not None and all(each.error_code in (0, 36) for each in answer.topics):
                self.has_made_topics = True
            else:
                self._env.clock.call_later(500, self._make_topics)

        self._ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics, 2_000), on_answer)

    def start(self) -> None:
        """Give and take, from now on."""
        self.is_stopped = False
        self.give()

    def give(self, on_done: Callable[[], None] | None = None) -> None:
        """Allow everything on the topics, until that is surely so."""
        self.taken_ms = None
        rules = [
            AclCreation(TOPIC_TYPE, topic_on(node), LITERAL, f"User:{USER}", "*", operation, ALLOW)
            for node in (1, 2, 3)
            for operation in (READ, WRITE)
        ]

        def on_answer(answer: Any) -> None:
            if answer is None or any(each.error_code for each in answer.results):
                # It may come about later than what follows: it must not.
                self._env.clock.call_later(DOUBT_MS, lambda: self.give(on_done))
            else:
                self._then(on_done or self.take)

        self._ask(ApiKey.CREATE_ACLS, 2, CreateAclsRequest(rules), on_answer)

    def take(self, on_done: Callable[[], None] | None = None) -> None:
        """Take all of it away, until that is surely so."""
        wanted = DeleteAclsFilter(ANY, None, ANY, f"User:{USER}", None, ANY, ANY)

        def on_answer(answer: Any) -> None:
            if answer is None or answer.filter_results[0].error_code:
                self._env.clock.call_later(500, lambda: self.take(on_done))
            else:
                self.taken_ms = self._run.now_ms
                self.turns += 1
                self._then(on_done or self.give)

        self._ask(ApiKey.DELETE_ACLS, 2, DeleteAclsRequest([wanted]), on_answer)

    def _then(self, act: Callable[[], None]) -> None:
        low, high = TURN_MS
        if not self.is_stopped:
            self._env.clock.call_later(low + self._env.dice.below(high - low), act)


class Client:
    """Reads or writes a broker's own topic, by one connection for as long as that lasts."""

    def __init__(self, run: Guarded, node: int, operation: int) -> None:
        self._run = run
        self._topic = topic_on(node)
        self._operation = operation
        self._address: Address = run.cluster.secured_addresses[node - 1]
        self._link: BrokerLink | None = None
        #: Of the last answer; None where there was none.
        self.code: int | None = None
        self._act()

    def _act(self) -> None:
        run = self._run
        if self._link is None or self._link.is_closed:
            self._link = BrokerLink(run.env, self._address, run.tls)
        sent_ms = run.now_ms

        def on_answer(answer: Any) -> None:
            self.code = None if answer is None else self._code_of(answer)
            if self.code == 0:
                what = "a fetch" if self._operation == READ else "a write"
                run.note(what, self._topic, sent_ms)
            elif self.code is not None:
                run.refused += 1
            run.env.clock.call_later(PAUSE_MS, self._act)

        if self._operation == READ:
            partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)
            fetch = FetchRequest(
                max_wait_ms=200,
                min_bytes=1,
                topics=[FetchTopic(topic=self._topic, partitions=[partition])],
            )
            self._link.send(ApiKey.FETCH, 12, fetch, on_answer)
        else:
            records = encode_batch([Record(0, 0, None, b"value", ())])
            data = TopicProduceData(
                name=self._topic, partition_data=[PartitionProduceData(0, records)]
            )
            self._link.send(ApiKey.PRODUCE, 9, ProduceRequest(None, -1, 2_000, [data]), on_answer)

    def _code_of(self, answer: Any) -> int:
        part = answer.responses[0]
        parts = part.partitions if self._operation == READ else part.partition_responses
        code: int = parts[0].error_code
        return code
