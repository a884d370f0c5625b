"""What all producers with a transactional id do: ask its coordinator, and number their batches."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
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
from kafkaesque.sim.clients.coordinator_link import BUSY, CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import BrokerLink, KafkaClient
from kafkaesque.sim.clients.transaction_history import Identity

INIT_PRODUCER_ID_VERSION: Final = 4
ADD_PARTITIONS_VERSION: Final = 3
ADD_OFFSETS_VERSION: Final = 3
PRODUCE_TIMEOUT_MS: Final = 2_000

#: The producer is shut out, or its transaction is over.
OVER: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
)
#: What a correct broker never answers to a batch that is repeated in order.
NEVER: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)
#: Errors of added partitions that say nothing by themselves, or pass by themselves.
ADD_PASSING: Final = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
#: The coordinator is another one, or does not say what has become of the request.
_LOST: Final = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)

#: Gets the answer, whether an earlier request may have been done, and whether the producer was shut
#: out before it asked the last time.
OnAnswer = Callable[[Any, bool, bool], None]


class TransactionalSession:
    """One producer's way to its coordinator, and what it calls itself."""

    def __init__(
        self,
        client: KafkaClient,
        transactional_id: str,
        is_shut_out: Callable[[Identity], bool] | None = None,
        *,
        is_patient: bool = False,
    ) -> None:
        """`is_patient` is the `CoordinatorLink`'s."""
        self.identity = Identity(-1, -1)
        self._client: Final = client
        self._id: Final = transactional_id
        self._is_shut_out: Final = is_shut_out or (lambda _: False)
        self._coordinator: Final = CoordinatorLink(
            client, transactional_id, KeyType.TRANSACTION, is_patient=is_patient
        )
        #: By topic and partition.
        self._sequences: dict[tuple[int, int], int] = {}

    # -- asking the coordinator, again and again, until its answer is one

    def begin(self, timeout_ms: int, on_answer: OnAnswer) -> None:
        """Shut out whoever else has this transactional id; `take_identity` takes the answer."""
        request = InitProducerIdRequest(self._id, timeout_ms, -1, -1)
        self._repeat(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request, on_answer)

    def add_partitions(self, topic: str, partitions: Sequence[int], on_answer: OnAnswer) -> None:
        """Take partitions into the transaction."""
        added = AddPartitionsToTxnTopic(topic, [*partitions])
        request = AddPartitionsToTxnRequest((), self._id, *self.identity, [added])
        self._repeat(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, request, on_answer)

    def add_offsets(self, group_id: str, on_answer: OnAnswer) -> None:
        """Take a group's offsets into the transaction."""
        request = AddOffsetsToTxnRequest(self._id, *self.identity, group_id)
        self._repeat(ApiKey.ADD_OFFSETS_TO_TXN, ADD_OFFSETS_VERSION, request, on_answer)

    def end(self, version: int, on_answer: OnAnswer, *, is_commit: bool) -> None:
        """Commit or abort."""
        request = EndTxnRequest(self._id, *self.identity, is_commit)
        self._repeat(ApiKey.END_TXN, version, request, on_answer)

    def _repeat(
        self, api: ApiKey, version: int, request: Any, on_answer: OnAnswer, is_unsure: bool = False
    ) -> None:
        def act(link: BrokerLink | None) -> None:
            is_known = self.identity.producer_id >= 0
            was_shut_out = is_known and self._is_shut_out(self.identity)

            def receive(response: Any) -> None:
                code = None if response is None else code_of(response)
                is_lost = code is None or code in _LOST
                if is_lost:
                    self._coordinator.forget()
                if not is_lost and code not in BUSY:
                    on_answer(response, is_unsure, was_shut_out)
                    return
                self._client.later(
                    lambda: self._repeat(api, version, request, on_answer, is_unsure or is_lost)
                )

            if link is None:
                receive(None)
            else:
                link.send(api, version, request, receive)

        self._coordinator.reach(act)

    def take_identity(self, response: Any) -> None:
        """Go on as the answer says; sequence numbers begin anew with each epoch."""
        identity = Identity(response.producer_id, response.producer_epoch)
        if identity != self.identity:
            self.identity = identity
            self._sequences = {}

    # -- writing

    def make_batch(self, partition: int, values: Sequence[bytes], topic: int = 0) -> bytes:
        """Return the next batch for a partition; `topic` is a number for each that it writes to."""
        clock = self._client.env.clock
        records = [
            Record(number, clock.wall_ms(), None, value, ()) for number, value in enumerate(values)
        ]
        sequence = self._sequences.get((topic, partition), 0)
        self._sequences[topic, partition] = sequence + len(records)
        options = BatchOptions(
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return bytes(encode_batch(records, options))

    def send(
        self,
        client: KafkaClient,
        version: int,
        partition: int,
        batch: bytes,
        on_code: Callable[[int | None], None],
    ) -> bool:
        """Send a batch to the topic that `client` is of, once; False if no leader is known.

        `on_code` gets None if nobody answers.
        """
        link = client.leader_link(partition)
        if link is None:
            return False
        data = PartitionProduceData(index=partition, records=batch)
        topic = TopicProduceData(name=client.topic, topic_id=client.topic_id, partition_data=[data])
        request = ProduceRequest(self._id, -1, PRODUCE_TIMEOUT_MS, [topic])

        def receive(response: Any) -> None:
            code: int | None = None
            if response is not None:
                code = response.responses[0].partition_responses[0].error_code
            on_code(code)

        link.send(ApiKey.PRODUCE, version, request, receive)
        return True


def code_of(response: Any) -> int:
    """Return a response's error; of many partitions' errors the first that says why."""
    topics = getattr(response, "results_by_topic_v3_and_below", None)
    if topics is None:
        code: int = response.error_code
        return code
    codes = [each.partition_error_code for topic in topics for each in topic.results_by_partition]
    found = [each for each in codes if each]
    telling = [each for each in found if each != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return next(iter((*telling, *found)), ErrorCode.NONE)
