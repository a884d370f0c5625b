"""A cluster in virtual time: nothing happens but what a test lets happen, the same every time.

Each call lets time pass until it has its answer, or its time is up; a minute takes milliseconds.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Self, TypeVar

from kafkaesque.env import Env
from kafkaesque.env.network import Address
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.options import OptionValue
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.create_topics_request import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.sim.clients.kafka_client import BrokerLink, KafkaClient
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import NS_PER_MS, SimStuck
from kafkaesque.testing import arguments
from kafkaesque.testing.brokers import TestedCluster, start_cluster
from kafkaesque.testing.faults import Faults

#: Virtual time that a call may take, unless it says otherwise.
TIMEOUT_MS: Final = 30_000
#: A partition of two that has lost a disk is without a leader for four session timeouts, of 9 s.
WHOLE_TIMEOUT_MS: Final = 90_000
AGAIN_MS: Final = 50
_CREATE, _INIT, _PRODUCE, _FETCH = 5, 4, 13, 13
_FETCH_BYTES = 4 * 1024 * 1024
_BATCH_BYTES_MAX = 64 * 1024 * 1024

Result = TypeVar("Result")


class TimedOut(Exception):
    """What was asked for did not happen in its virtual time."""


class Refused(Exception):
    """A broker refuses for good; `code` is Kafka's name of the reason."""

    def __init__(self, code: str, message: str | None = None) -> None:
        super().__init__(f"{code}: {message}" if message else code)
        self.code = code


class Message(NamedTuple):
    """A record that was read."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


class SimulatedCluster(Faults):
    """Brokers, and a client of theirs, in one simulated world."""

    def __init__(
        self, seed: int = 0, *, brokers: int = 3, options: Mapping[str, OptionValue] | None = None
    ) -> None:
        """Start a cluster that is ready.

        Raises:
            ConfigError: an option is none, or has no such value.
            TypeError, ValueError: there cannot be so many brokers.
        """
        self.world: Final = World(seed)
        self._cluster = TestedCluster(self.world, brokers, options or {})
        start_cluster(self._cluster)
        self._env: Final = self.world.add_machine("client").boot()
        self._clients: dict[str, KafkaClient] = {}
        #: Producer id and epoch, and the next sequence number in each partition.
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[tuple[str, int], int] = {}
        #: Why the last attempt at something came to nothing.
        self._obstacle = ""

    def __enter__(self) -> Self:
        """Let a test be written alike for both kinds of clusters."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: no thread and no port is held, and what is there can still be looked at."""

    # -- time and history

    @property
    def seed(self) -> int:
        """What decides on everything that is left to chance."""
        return self.world.loop.seed

    @property
    def now_ms(self) -> float:
        """Virtual time since the cluster was made."""
        return self.world.loop.now_ns / NS_PER_MS

    @property
    def addresses(self) -> Sequence[Address]:
        """Where simulated clients find the brokers."""
        return self._cluster.addresses

    def run_for(self, ms: float) -> None:
        """Let so much time pass."""
        arguments.number("a time in ms", ms)
        self.world.loop.run_for(ms)

    def run_until(self, condition: Callable[[], bool], timeout_ms: float = TIMEOUT_MS) -> None:
        """Let time pass until something holds.

        Raises:
            TimedOut: it does not within that time.
        """
        try:
            self.world.loop.run_until(condition, timeout_ms)
        except SimStuck as stuck:
            raise TimedOut(f"seed {self.seed}: {stuck}") from None

    def wait_until_whole(self, timeout_ms: float = WHOLE_TIMEOUT_MS) -> None:
        """Let time pass until all brokers are up, and every copy votes and is in sync again.

        Then any broker may be the next to go: nothing hangs on the one that came back last.

        Raises:
            TimedOut: they are not within that time.
        """
        try:
            self.world.loop.run_until(self._cluster.is_whole, timeout_ms)
        except SimStuck:
            raise TimedOut(
                f"seed {self.seed}: not whole within {timeout_ms:g} ms: {self._cluster.lacking()}"
            ) from None

    def history(self) -> list[str]:
        """Return what has happened, as lines with their virtual times."""
        return self.world.loop.history.lines()

    def digest(self) -> str:
        """Return a hash of all that has happened: the same for the same seed and the same test."""
        return self.world.loop.history.digest()

    def new_client(self, name: str) -> Env:
        """Return the doors of a new machine, for client code that is written against them."""
        return self.world.add_machine(name).boot()

    def leader(self, topic: str, partition: int = 0) -> int | None:
        """Return which broker leads a partition; None if none does."""
        return self._cluster.leader(topic, partition)

    # -- a client

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = -1,
        configs: Mapping[str, OptionValue] | None = None,
    ) -> None:
        """Create a topic, and wait until its partitions have leaders.

        Values of `configs` are text, or numbers and bools as options have them.

        Raises:
            TypeError, ValueError: what is asked for cannot be meant.
            Refused: it exists, or cannot be.
            TimedOut: no controller does it.
        """
        partitions = arguments.whole("the number of partitions", partitions, 1)
        if replicas != -1:
            replicas = arguments.whole("the number of replicas", replicas, 1)
        texts = arguments.options(configs or {})
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replicas if replicas > 0 else min(3, len(self.addresses)),
            configs=[CreatableTopicConfig(key, each) for key, each in texts.items()],
        )
        request = CreateTopicsRequest(topics=[topic], timeout_ms=5_000)
        client = self._client(name)

        attempts = 0

        def attempt() -> bool:
            nonlocal attempts
            attempts += 1
            response = self._ask(client.any_link(), ApiKey.CREATE_TOPICS, _CREATE, request)
            if response is None:
                return False
            code, message = response.topics[0].error_code, response.topics[0].error_message
            if code == ErrorCode.TOPIC_ALREADY_EXISTS and attempts > 1:
                return True  # An earlier attempt, whose answer was lost, has made it.
            return self._is_done(code, message)

        self._until(attempt, TIMEOUT_MS)
        self.run_until(lambda: all(self.leader(name, each) for each in range(partitions)))

    def produce(
        self,
        topic: str,
        *values: bytes,
        key: bytes | None = None,
        partition: int = 0,
        timeout_ms: float = TIMEOUT_MS,
    ) -> int:
        """Append one batch, exactly once, with acks=all; return its first offset.

        Raises:
            Refused: for good; there is no such topic or partition.
            TimedOut: not acknowledged in time; it may be there, or come to be.
        """
        arguments.values(values, key)
        self._check_partition(topic, partition)
        deadline_ms = self.now_ms + timeout_ms
        producer_id, epoch = self._producer_id(timeout_ms)
        sequence = self._sequences.get((topic, partition), 0)
        wall_ms = self._env.clock.wall_ms()
        records = [Record(n, wall_ms, key, value, ()) for n, value in enumerate(values)]
        self._sequences[topic, partition] = sequence + len(records)
        batch = bytes(
            encode_batch(
                records,
                BatchOptions(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence),
            )
        )
        client, offsets = self._client(topic), [-1]

        def attempt() -> bool:
            link = self._leader_link(client, partition)
            if link is None:
                return False
            data = TopicProduceData(
                topic_id=client.topic_id,
                partition_data=[PartitionProduceData(index=partition, records=batch)],
            )
            request = ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=[data])
            response = self._ask(link, ApiKey.PRODUCE, _PRODUCE, request)
            if response is None:
                return False
            found = response.responses[0].partition_responses[0]
            offsets[0] = found.base_offset
            return self._is_done(found.error_code, found.error_message)

        self._until(attempt, deadline_ms - self.now_ms, client)
        return offsets[0]

    def read(
        self,
        topic: str,
        *,
        partition: int = 0,
        offset: int = 0,
        count: int = 0,
        timeout_ms: float = TIMEOUT_MS,
    ) -> list[Message]:
        """Return what is committed from an offset on: to the end, and at least `count` messages.

        Raises:
            Refused: for good: there is no such topic, partition or offset.
            TimedOut: there were not as many in time.
        """
        arguments.whole("an offset", offset, 0)
        arguments.whole("a count of messages", count, 0)
        self._check_partition(topic, partition)
        client, found = self._client(topic), list[Message]()

        def attempt() -> bool:
            link = self._leader_link(client, partition)
            if link is None:
                return False
            begin = found[-1].offset + 1 if found else offset
            request = FetchRequest(
                max_wait_ms=100,
                min_bytes=1,
                max_bytes=_FETCH_BYTES,
                session_epoch=-1,
                topics=[
                    FetchTopic(
                        topic_id=client.topic_id,
                        partitions=[
                            FetchPartition(
                                partition=partition,
                                current_leader_epoch=client.leader_epoch(partition),
                                fetch_offset=begin,
                                partition_max_bytes=_FETCH_BYTES,
                            )
                        ],
                    )
                ],
            )
            response = self._ask(link, ApiKey.FETCH, _FETCH, request)
            if response is None or not response.responses:
                return False
            got = response.responses[0].partitions[0]
            if not self._is_done(got.error_code, None):
                return False
            found.extend(_messages(bytes(got.records or b""), begin))
            end = found[-1].offset + 1 if found else offset
            self._obstacle = f"{len(found)} of {count} messages are there"
            return len(found) >= count and end >= got.high_watermark

        self._until(attempt, timeout_ms, client)
        return found

    def _producer_id(self, timeout_ms: float) -> tuple[int, int]:
        client = self._client("")

        def attempt() -> bool:
            request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
            response = self._ask(client.any_link(), ApiKey.INIT_PRODUCER_ID, _INIT, request)
            if response is None or not self._is_done(response.error_code, None):
                return False
            self._producer = response.producer_id, response.producer_epoch
            return True

        if self._producer is None:
            self._until(attempt, timeout_ms)
        if self._producer is None:
            raise TimedOut(f"seed {self.seed}: no producer id was given")
        return self._producer

    def _client(self, topic: str) -> KafkaClient:
        client = self._clients.get(topic)
        if client is None:
            client = self._clients[topic] = KafkaClient(self._env, self.addresses, topic)
        return client

    def _check_partition(self, topic: str, partition: int) -> None:
        """Refuse what no broker knows: to wait for it would not help."""
        arguments.whole("a partition", partition, 0)
        counts = self._cluster.partition_counts()
        if counts is None or partition < counts.get(topic, 0):
            return
        sentence = f"the partitions of topic {topic} are 0 to {counts.get(topic, 0) - 1}"
        if topic not in counts:
            there = ", ".join(sorted(counts)) or "none"
            sentence = f"there is no topic {topic!r}; there are: {there}"
        raise Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.name, sentence)

    def _leader_link(self, client: KafkaClient, partition: int) -> BrokerLink | None:
        link = client.leader_link(partition)
        if link is None:
            self._check_partition(client.topic, partition)
            self._obstacle = f"nobody is known to lead {client.topic}-{partition}"
        return link

    def _ask(self, link: BrokerLink, api_key: int, version: int, request: Any) -> Any:
        """Return the response; None if there is none."""
        answers: list[Any] = []
        link.send(api_key, version, request, answers.append)
        self.run_until(lambda: bool(answers))
        if answers[0] is None:
            self._obstacle = f"{link.address.host} does not answer"
        return answers[0]

    def _is_done(self, code: int, message: str | None) -> bool:
        """Tell whether a request was done; False where it is to be repeated.

        Raises:
            Refused: it will never be.
        """
        if code and not ErrorCode(code).retriable:
            raise Refused(ErrorCode(code).name, message)
        if code:
            self._obstacle = str(Refused(ErrorCode(code).name, message))
        return not code

    def _until(
        self, attempt: Callable[[], bool], timeout_ms: float, client: KafkaClient | None = None
    ) -> None:
        arguments.number("a time in ms", timeout_ms)
        deadline_ms, self._obstacle = self.now_ms + timeout_ms, ""
        while not attempt():
            if self.now_ms >= deadline_ms:
                raise TimedOut(
                    f"seed {self.seed}: not done within {timeout_ms:g} ms: {self._why_not()}"
                )
            if client is not None:
                client.refresh()
            self.run_for(AGAIN_MS)

    def _why_not(self) -> str:
        stopped = ", ".join(map(str, self._cluster.stopped()))
        return self._obstacle + (f"; brokers that do not run: {stopped}" if stopped else "")

    def _do(self, act: Callable[[], Result]) -> Result:
        return act()


def _messages(data: bytes, begin: int) -> list[Message]:
    return [
        Message(each.offset, each.key, each.value, each.timestamp_ms)
        for header in scan_batches(data).batches
        if not header.is_control
        for each in decode_batch(data, _BATCH_BYTES_MAX, at=header.at)
        if each.offset >= begin
    ]
