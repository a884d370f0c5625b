"""Transactions whose topics are deleted and made again, also where their coordinator lags."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.coordinators.transactions import TransactionCoordinators
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.commands import (
    ConfirmTransaction,
    CreateTopic,
    DeleteTopic,
    Done,
    LedPartition,
    WriteMarker,
)
from kafkaesque.env.network import Address
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import RequestRefused, UnknownTopicId
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.sim.clients.kafka_client import BrokerLink
from kafkaesque.sim.cluster import KAFKA_PORT
from tests.sim.scenario import Scenario

NAME = "orders"
EPOCH_BUMP = 5  # the first version of EndTxn that tells a client its next epoch
TRIES_MAX = 100


class Client:
    """A producer, and the brokers: the controller, its transactions' coordinator, and the third."""

    def __init__(self, seed: int, *, bumps_epoch: bool) -> None:
        self.scenario = scenario = Scenario(seed)
        self.loop = scenario.loop
        self.links: dict[str, BrokerLink] = {}
        self.end_version, self.produce_version = (EPOCH_BUMP, 12) if bumps_epoch else (3, 9)
        self.controller = f"b{scenario.broker('b1').controller_client.leader()}"
        self.id, self.producer = "", (-1, -1)
        self.ask("b1", ApiKey.INIT_PRODUCER_ID, 4, InitProducerIdRequest("first", 60_000, -1, -1))
        self.loop.run_for(3_000)
        for number in range(TRIES_MAX):
            self.id = f"id-{number}"
            if self.coordinator != self.controller:
                break
        begun = self.repeat(
            lambda: self.ask(
                self.coordinator,
                ApiKey.INIT_PRODUCER_ID,
                4,
                InitProducerIdRequest(self.id, 60_000, -1, -1),
            )
        )
        self.producer = begun.producer_id, begun.producer_epoch
        others = {"b1", "b2", "b3"} - {self.controller, self.coordinator}
        self.third = others.pop()

    # -- the brokers

    @property
    def coordinator(self) -> str:
        """The broker that coordinates this producer's transactions; empty while none does."""

        def leads(broker: Broker) -> bool:
            where = broker.transaction_coordinators.find(self.id)
            partition = broker.partitions.get(broker.state.partition(where).group)
            return partition is not None and partition.is_leader

        running = self.scenario.running()
        return next((each for each in running if leads(self.scenario.broker(each))), "")

    @property
    def state(self) -> str:
        """The transaction's state at its coordinator; empty while nobody knows it."""
        if not (coordinator := self.coordinator):
            return ""
        hosts = self.scenario.broker(coordinator).transaction_coordinators.all()
        tables = (host.table._context.transactions for host in hosts)
        found = next((table[self.id] for table in tables if self.id in table), None)
        return "" if found is None else found.state.title

    def topic(self, *replicas: str, partition_count: int = 1) -> None:
        """Make the topic."""
        nodes = [int(each[1:]) for each in replicas]
        self.submit(CreateTopic(name=NAME, assignments=[nodes] * partition_count))
        self.loop.run_until(lambda: self.leader() is not None, 20_000)

    def submit(self, command: CreateTopic | DeleteTopic) -> None:
        done: list[object] = []
        self.scenario.broker(self.controller).controller_client.submit(command, 10_000, done.append)
        self.loop.run_until(lambda: done != [], 20_000)
        assert not isinstance(done[0], RequestRefused), done

    def partition(self, name: str, number: int = 0) -> Partition | None:
        """Return a broker's replica of the topic that there is now."""
        topic = self.scenario.broker(self.controller).state.topics[NAME]
        return self.scenario.broker(name).partitions.get(topic.partitions[number].group)

    def leader(self, number: int = 0) -> str | None:
        for name in self.scenario.running():
            partition = self.partition(name, number)
            if partition is not None and partition.is_leader:
                return name
        return None

    @property
    def stable(self) -> tuple[int, int]:
        """The high watermark and the last stable offset, as the leader has them."""
        partition = self.partition(self.leader() or "")
        assert partition is not None
        return partition.high_watermark, partition.last_stable_offset

    def cut(self, name: str) -> None:
        """From now on the coordinator and another broker hear nothing of one another."""
        wire, coordinator = self.scenario.world.wire, self.coordinator
        wire.block(coordinator, name)
        wire.block(name, coordinator)

    # -- what it asks

    def ask(self, name: str, api: ApiKey, version: int, request: Any) -> Any:
        link = self.links.get(name)
        if link is None or link.is_closed:
            address = Address(name, KAFKA_PORT)
            link = self.links[name] = BrokerLink(self.scenario.env, address)
        answers: list[Any] = []
        link.send(api, version, request, answers.append)
        self.loop.run_until(lambda: answers != [], 10_000)
        return answers[0]

    def repeat(
        self, ask: Callable[[], Any], code: Callable[[Any], int] = attrgetter("error_code")
    ) -> Any:
        """Ask until the answer is no error."""
        for _ in range(TRIES_MAX):
            answer = ask()
            if answer is not None and code(answer) == 0:
                return answer
            self.loop.run_for(50)
        raise AssertionError(answer)

    def add(self, number: int = 0) -> None:
        """Add a partition, as clients do that get no new epoch from EndTxn."""

        def ask() -> Any:
            added = AddPartitionsToTxnRequest(
                (), self.id, *self.producer, [AddPartitionsToTxnTopic(NAME, [number])]
            )
            answer = self.ask(self.coordinator, ApiKey.ADD_PARTITIONS_TO_TXN, 3, added)
            (result,) = answer.results_by_topic_v3_and_below[0].results_by_partition
            return result

        self.repeat(ask, attrgetter("partition_error_code"))

    def try_to_write(self, number: int = 0) -> Any:
        """Write one record in the transaction; return the answer for its partition, if any."""
        wall_ms = self.scenario.env.clock.wall_ms()
        batch = encode_batch(
            [Record(0, wall_ms, None, b"x", ())],
            BatchOptions(
                producer_id=self.producer[0],
                producer_epoch=self.producer[1],
                base_sequence=0,
                transactional=True,
            ),
        )

        data = PartitionProduceData(index=number, records=bytes(batch))
        topics = [TopicProduceData(name=NAME, partition_data=[data])]
        request = ProduceRequest(self.id, -1, 2_000, topics)
        leader = self.leader(number) or self.controller
        answer = self.ask(leader, ApiKey.PRODUCE, self.produce_version, request)
        return None if answer is None else answer.responses[0].partition_responses[0]

    def write(self, number: int = 0) -> None:
        """Write one record in the transaction."""
        self.repeat(lambda: self.try_to_write(number))

    def end(self, *, is_commit: bool) -> None:
        request = EndTxnRequest(self.id, *self.producer, is_commit)
        self.repeat(lambda: self.ask(self.coordinator, ApiKey.END_TXN, self.end_version, request))

    def run_until_complete(self, timeout_ms: int) -> None:
        self.loop.run_until(lambda: self.state.startswith("Complete"), timeout_ms)
        assert self.state.startswith("Complete"), self.state


@pytest.fixture
def leaders_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leaders not tell coordinators which topic they mean, as in earlier releases."""
    monkeypatch.setattr(TransactionCoordinators, "_knows_topic", lambda *_: True)


@pytest.mark.usefixtures("leaders_of_before")
def test_a_commit_reaches_a_topic_that_its_coordinator_does_not_know_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    client = Client(1, bumps_epoch=True)
    client.cut(client.controller)
    client.loop.run_for(3_000)
    client.topic(client.third)
    coordinator = client.scenario.broker(client.coordinator)
    assert NAME not in coordinator.state.topics
    questions: list[int] = []
    ask = MetadataView.when_current

    def count(view: MetadataView, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        if view is coordinator.metadata:
            questions.append(timeout_ms)
        ask(view, timeout_ms, on_done)

    monkeypatch.setattr(MetadataView, "when_current", count)
    client.write()
    client.end(is_commit=True)
    client.loop.run_for(40_000)
    assert 1 <= len(questions) <= 16, "it neither gives up, nor asks all the time"
    client.scenario.world.wire.heal()
    client.run_until_complete(20_000)
    assert client.stable == (2, 2)


@pytest.mark.usefixtures("leaders_of_before")
@pytest.mark.parametrize("bumps_epoch", [True, False])
def test_a_late_word_of_a_topics_end_does_not_take_the_marker_of_its_namesake(
    bumps_epoch: bool,
) -> None:
    client = Client(1, bumps_epoch=bumps_epoch)
    client.topic(client.controller, client.coordinator)
    client.loop.run_for(2_000)
    client.cut(client.controller)
    client.loop.run_for(500)
    client.submit(DeleteTopic(name=NAME))
    client.topic(client.third)
    coordinator = client.scenario.broker(client.coordinator)
    assert coordinator.state.topics[NAME].topic_id != topic_id(client)
    if not bumps_epoch:
        client.add()
    client.write()
    client.end(is_commit=True)
    client.scenario.world.wire.heal()
    client.run_until_complete(60_000)
    assert client.stable == (2, 2), "all that was committed is there to be read"


@pytest.mark.parametrize("bumps_epoch", [True, False])
def test_markers_do_not_go_to_an_earlier_topic_that_only_its_leader_and_the_coordinator_know(
    bumps_epoch: bool,
) -> None:
    client = Client(1, bumps_epoch=bumps_epoch)
    client.topic(client.coordinator)
    client.loop.run_for(2_000)
    client.cut(client.controller)
    client.loop.run_for(500)
    client.submit(DeleteTopic(name=NAME))
    client.topic(client.third)
    if not bumps_epoch:
        client.add()
    answer = client.try_to_write()
    assert answer.error_code == ErrorCode.NOT_ENOUGH_REPLICAS, "clients come again"
    client.scenario.world.wire.heal()
    client.write()
    client.end(is_commit=True)
    client.run_until_complete(60_000)
    assert client.stable == (2, 2), "all that was committed is there to be read"


def test_a_new_topic_takes_part_at_once() -> None:
    client = Client(1, bumps_epoch=True)
    client.topic(client.third)
    assert client.try_to_write().error_code == ErrorCode.NONE


def topic_id(client: Client) -> bytes:
    return client.scenario.broker(client.controller).state.topics[NAME].topic_id


def begin_in_a_lost_topic(client: Client, *, partition_count: int = 1) -> None:
    """Decide a transaction in the last partition of a topic that has lost its only broker."""
    client.topic(client.third, partition_count=partition_count)
    client.loop.run_for(2_000)
    client.add(partition_count - 1)
    client.write(partition_count - 1)
    client.scenario.kill(client.third)
    client.end(is_commit=True)
    client.loop.run_for(5_000)
    assert client.state == "PrepareCommit"


def test_a_marker_of_a_deleted_topic_does_not_end_the_next_transaction_in_its_namesake() -> None:
    client = Client(1, bumps_epoch=False)
    begin_in_a_lost_topic(client)
    client.submit(DeleteTopic(name=NAME))
    client.topic(client.controller)
    client.add()
    client.write()
    client.loop.run_for(2_000)
    assert client.state == "Ongoing"
    high_watermark, stable = client.stable
    assert stable == high_watermark - 1, "readers do not get what is not decided"
    client.end(is_commit=False)
    client.run_until_complete(5_000)
    partition = client.partition(client.controller)
    assert partition is not None
    (aborted,) = partition.producers._table.aborted
    assert aborted.first_offset == high_watermark - 1


@pytest.mark.parametrize("is_made_again", [False, True])
def test_a_transaction_is_complete_as_soon_as_the_topic_that_keeps_it_is_deleted(
    is_made_again: bool,
) -> None:
    client = Client(1, bumps_epoch=False)
    begin_in_a_lost_topic(client, partition_count=2)
    client.submit(DeleteTopic(name=NAME))
    if is_made_again:
        client.topic(client.controller)  # with fewer partitions
    client.run_until_complete(100)
    assert client.scenario.broker(client.coordinator).transaction_coordinators._writers == {}


def test_a_new_coordinator_does_not_wait_for_a_topic_that_is_gone() -> None:
    client = Client(1, bumps_epoch=False)
    client.topic(client.third)
    client.loop.run_for(2_000)
    client.add()
    client.write()
    before = client.coordinator
    client.cut(client.third)
    client.end(is_commit=True)
    client.scenario.kill(before)
    client.submit(DeleteTopic(name=NAME))
    client.loop.run_until(lambda: client.state != "", 20_000)
    assert client.coordinator != before
    client.run_until_complete(200)


def test_a_marker_for_the_topic_before_is_refused_by_its_namesake() -> None:
    client = Client(1, bumps_epoch=False)
    client.topic(client.controller)
    leader = client.scenario.broker(client.controller)
    state = leader.state.partition(TopicPartition(NAME, 0))
    for given, kind in ((bytes(16), UnknownTopicId), (state.topic_id, Done), (b"", Done)):
        request = WriteMarker(
            topic=NAME,
            topic_id=given,
            partition=0,
            leader_epoch=leader.partitions.find(TopicPartition(NAME, 0)).leader_epoch,
            producer_id=1,
            producer_epoch=0,
            is_epoch_bumped=False,
            coordinator_epoch=1,
            is_commit=True,
        )
        outcomes: list[object] = []
        leader.transaction_leaders.serve_marker(request, outcomes.append)
        client.loop.run_for(1_000)
        assert isinstance(outcomes[0], kind), outcomes


def test_a_coordinators_word_for_the_topic_before_opens_nothing_in_its_namesake() -> None:
    client = Client(1, bumps_epoch=False)
    client.topic(client.controller)
    leader = client.scenario.broker(client.controller)
    partition = leader.partitions.find(TopicPartition(NAME, 0))
    guards = partition.producers._table._guards
    for given, is_taken in ((bytes(16), False), (partition.state.topic_id, True)):
        led = LedPartition(
            topic=NAME, topic_id=given, partition=0, leader_epoch=partition.leader_epoch
        )
        word = ConfirmTransaction(
            transactional_id="x",
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=1,
            partitions=[led],
        )
        leader.transaction_leaders.serve_confirmation(word)
        assert (guards.demand(1, 0) is None) is is_taken
