"""An idempotent producer that repeats each batch until it is acknowledged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.observations import key_of

#: The one names topics by name, the other by id.
PRODUCE_VERSIONS = (9, 13)
INIT_PRODUCER_ID_VERSION = 4
BATCH_RECORDS_MAX = 8
PAUSE_MS = 40

#: What a correct broker never answers to a producer that repeats its batches in order.
NEVER = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


@dataclass(slots=True)
class Batch:
    """Something that was sent, or is to be."""

    data: bytes
    values: list[bytes]


class ProducerNotes(Protocol):
    """What a producer says of what it does; see `Observations`."""

    @property
    def compacts(self) -> bool:
        """Whether records have keys."""

    def note_producer_id(self, name: str, producer_id: int) -> None:
        """A producer got its id."""

    def note_sent(self, partition: int, values: list[bytes]) -> None:
        """Values are on their way."""

    def note_acknowledged(self, partition: int, base_offset: int, values: list[bytes]) -> None:
        """A batch was acknowledged with acks=all."""

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""


class SimProducer:
    """Writes numbered records into all partitions: some batches, and more when all are there.

    Batches follow one another without waiting for answers. As librdkafka does, it waits for all
    answers before it sends anything again, and sends those that have failed in their order.
    """

    def __init__(
        self,
        client: KafkaClient,
        name: str,
        partitions: int,
        observations: ProducerNotes,
        pause_ms: int = PAUSE_MS,
        in_flight: int = 1,
        padding_bytes: int = 0,
    ) -> None:
        """`pause_ms` is about how long it waits after each batch for one partition.

        At most so many batches for one partition are `in_flight`; brokers know the last five again.
        """
        self._headers = (("padding", bytes(padding_bytes)),) if padding_bytes else ()
        self._pause_ms = pause_ms
        self._in_flight = in_flight
        self._client = client
        self._name = name
        self._partitions = partitions
        self._observations = observations
        self._producer_id = -1
        self._epoch = -1
        self._sequences = [0] * partitions
        self._numbers = [0] * partitions
        #: What is not acknowledged, by partition and in order, and how many answers are due.
        self._batches: list[list[Batch]] = [[] for _ in range(partitions)]
        self._due = [0] * partitions
        self._version = PRODUCE_VERSIONS[client.env.dice.below(len(PRODUCE_VERSIONS))]
        self.is_stopped = False
        client.env.clock.call_soon(self._begin)

    @property
    def is_idle(self) -> bool:
        """Whether nothing that was sent waits for its acknowledgement."""
        return not any(self._batches)

    def use_ids(self) -> None:
        """Name topics by id from now on: needed where a name is used again and again."""
        self._version = PRODUCE_VERSIONS[-1]

    def _begin(self) -> None:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
        link = self._client.any_link()
        link.send(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request, self._on_id)

    def _on_id(self, response: Any) -> None:
        if response is None or response.error_code:
            self._client.later(self._begin)
            return
        self._producer_id = response.producer_id
        self._epoch = response.producer_epoch
        self._observations.note_producer_id(self._name, response.producer_id)
        for partition in range(self._partitions):
            self._next(partition)

    def _next(self, partition: int) -> None:
        if self.is_stopped or self._batches[partition]:
            return
        more = 0 if self._in_flight == 1 else self._client.env.dice.below(self._in_flight)
        for _ in range(1 + more):
            self._batches[partition].append(self._make_batch(partition))
        self._send(partition)

    def _make_batch(self, partition: int) -> Batch:
        count = 1 + self._client.env.dice.below(BATCH_RECORDS_MAX)
        first = self._numbers[partition]
        values = [
            f"{self._name}/{partition}/{number}".encode() for number in range(first, first + count)
        ]
        self._numbers[partition] += count
        records = [
            Record(number, self._client.env.clock.wall_ms(), self._key(value), value, self._headers)
            for number, value in enumerate(values)
        ]
        options = BatchOptions(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[partition],
        )
        self._sequences[partition] += count
        self._observations.note_sent(partition, values)
        return Batch(bytes(encode_batch(records, options)), values)

    def _key(self, value: bytes) -> bytes | None:
        return key_of(value) if self._observations.compacts else None

    def _send(self, partition: int) -> None:
        """Send all that is not acknowledged; no answer is due."""
        client = self._client
        link = client.leader_link(partition)
        if link is None:
            client.refresh()
            client.later(lambda: self._send(partition))
            return
        batches = list(self._batches[partition])
        self._due[partition] = len(batches)
        count = len(batches)
        for batch in batches:
            data = PartitionProduceData(index=partition, records=batch.data)
            topic = TopicProduceData(
                name=client.topic, topic_id=client.topic_id, partition_data=[data]
            )
            request = ProduceRequest(acks=-1, timeout_ms=2_000, topic_data=[topic])
            receive = self._receiver(partition, batch, count)
            link.send(ApiKey.PRODUCE, self._version, request, receive)

    def _receiver(self, partition: int, batch: Batch, count: int) -> Callable[[Any], None]:
        def receive(response: Any) -> None:
            outcome = None
            if response is not None:
                outcome = response.responses[0].partition_responses[0]
            if outcome is not None and outcome.error_code == 0:
                self._batches[partition].remove(batch)
                self._observations.note_acknowledged(partition, outcome.base_offset, batch.values)
            elif outcome is not None and outcome.error_code in NEVER:
                self._observations.note_anomaly(
                    f"producer {self._name}, partition {partition}: refused with "
                    f"{ErrorCode(outcome.error_code).name}: {outcome.error_message}"
                )
            self._due[partition] -= 1
            if self._due[partition] == 0:
                self._go_on(partition, count)

        return receive

    def _go_on(self, partition: int, count: int) -> None:
        client = self._client
        if self._batches[partition]:
            client.refresh()
            client.later(lambda: self._send(partition))
        else:
            client.rest(lambda: self._next(partition), count * self._pause_ms)
