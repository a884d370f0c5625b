"""The producer of a worker: transactions that carry offsets, one step after the other.

As in `transactor`, one kind adds partitions and the group itself and keeps its epoch; the other
leaves that to the brokers and takes a new epoch from each answer to EndTxn (KIP-890 part 2).
"""

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NamedTuple

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
from kafkaesque.protocols.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import (
    Identity,
    SimTransaction,
    TransactionHistory,
    Who,
)
from kafkaesque.sim.pipeline.coordinator_link import BUSY, LOST, CoordinatorLink, KeyType
from kafkaesque.sim.pipeline.ownership import Ownership

INIT_PRODUCER_ID_VERSION: Final = 4
ADD_PARTITIONS_VERSION: Final = 3
ADD_OFFSETS_VERSION: Final = 3
#: Of who keeps its epoch, and of who learns the next one.
PRODUCE_VERSIONS: Final = (9, 12)
OFFSET_COMMIT_VERSIONS: Final = (3, 5)
END_VERSIONS: Final = (3, 5)

#: The producer is shut out, or its transaction is over.
_OVER: Final = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
)
#: The member is none any more, or of another generation.
_NOT_MEMBER: Final = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
)
#: What a broker answers that does not know everything yet.
_PASSING: Final = (
    *BUSY,
    *LOST,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.OPERATION_NOT_ATTEMPTED,
)
#: What a correct broker never answers to a batch that is repeated in order.
_NEVER: Final = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)


class ProducerKind(NamedTuple):
    """What tells one producer from another."""

    learns_epoch: bool
    transaction_timeout_ms: int


class Step(Enum):
    """How a step of a transaction has ended."""

    DONE = auto()
    #: The group does not take the offsets; the transaction is to be aborted.
    NOT_MEMBER = auto()
    #: Somebody else has taken the transactional id, or the coordinator has ended the transaction.
    OVER = auto()


OnStep = Callable[[Step], None]
#: Gets the answer, whether an earlier request may have been done, and whether the producer was shut
#: out before it asked the last time.
_OnAnswer = Callable[[Any, bool, bool], None]


class WorkerProducer:
    """Runs one transaction after the other; `write` and `commit_offsets` may be repeated."""

    def __init__(
        self,
        client: KafkaClient,
        who: Who,
        group_id: str,
        history: TransactionHistory,
        kind: ProducerKind,
    ) -> None:
        self._client: Final = client
        self._who: Final = who
        self._group_id: Final = group_id
        self._history: Final = history
        self._learns_epoch: Final = kind.learns_epoch
        self._timeout_ms: Final = kind.transaction_timeout_ms
        self._coordinator: Final = CoordinatorLink(
            client, who.transactional_id, KeyType.TRANSACTION
        )
        self._group: Final = CoordinatorLink(client, group_id, KeyType.GROUP)
        self._identity = Identity(-1, -1)
        self._sequences: dict[int, int] = {}
        self._number = 0

    # -- beginning

    def begin(self, on_begun: Callable[[], None]) -> None:
        """Shut out whoever else has this transactional id, and end what was left open."""
        request = InitProducerIdRequest(self._who.transactional_id, self._timeout_ms, -1, -1)

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            if response.error_code:
                self._note_unexpected("InitProducerId", response.error_code)
                self._client.later(lambda: self.begin(on_begun))
                return
            self._take_identity(response)
            on_begun()

        self._repeat(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request, receive)

    def open(self) -> SimTransaction:
        """Begin a transaction."""
        self._number += 1
        return self._history.begin(self._who, self._number, self._identity.epoch)

    def _take_identity(self, response: Any) -> None:
        identity = Identity(response.producer_id, response.producer_epoch)
        if identity != self._identity:
            self._identity = identity
            self._sequences = {}
        self._history.note_identity(self._who, identity)

    # -- writing

    def write(
        self,
        transaction: SimTransaction,
        outputs: Mapping[int, Sequence[bytes]],
        on_step: OnStep,
    ) -> None:
        """Write values to partitions."""
        if self._learns_epoch:
            self._write_all(transaction, outputs, on_step)
            return
        topic = AddPartitionsToTxnTopic(self._client.topic, sorted(outputs))
        request = AddPartitionsToTxnRequest(
            (), self._who.transactional_id, *self._identity, [topic]
        )

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = _code_of_partitions(response)
            if code in _PASSING:
                self._client.later(lambda: self.write(transaction, outputs, on_step))
            elif self._is_done(f"AddPartitionsToTxn of {transaction}", code, was_shut_out):
                self._write_all(transaction, outputs, on_step)
            else:
                self._history.note_refused(transaction, is_unsure=False)
                on_step(Step.OVER)

        self._repeat(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, request, receive)

    def _write_all(
        self,
        transaction: SimTransaction,
        outputs: Mapping[int, Sequence[bytes]],
        on_step: OnStep,
    ) -> None:
        left = set(outputs)
        steps: list[Step] = []

        def receiver(partition: int) -> OnStep:
            def on_written(step: Step) -> None:
                steps.append(step)
                left.discard(partition)
                if not left:
                    is_over = Step.OVER in steps
                    if is_over:
                        self._history.note_refused(transaction, is_unsure=False)
                    on_step(Step.OVER if is_over else Step.DONE)

            return on_written

        for partition, values in outputs.items():
            batch = self._batch(partition, values)
            self._history.note_sent(transaction, partition, list(values))
            self._send(transaction, partition, batch, receiver(partition))

    def _batch(self, partition: int, values: Sequence[bytes]) -> bytes:
        clock = self._client.env.clock
        records = [
            Record(number, clock.wall_ms(), None, value, ()) for number, value in enumerate(values)
        ]
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + len(values)
        options = BatchOptions(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        return bytes(encode_batch(records, options))

    def _send(
        self, transaction: SimTransaction, partition: int, batch: bytes, on_step: OnStep
    ) -> None:
        client = self._client

        def again() -> None:
            client.refresh()
            client.later(lambda: self._send(transaction, partition, batch, on_step))

        link = client.leader_link(partition)
        if link is None:
            again()
            return
        was_shut_out = self._history.is_shut_out(self._who, self._identity)
        data = PartitionProduceData(index=partition, records=batch)
        topic = TopicProduceData(name=client.topic, partition_data=[data])
        request = ProduceRequest(self._who.transactional_id, -1, 2_000, [topic])

        def receive(response: Any) -> None:
            code = None
            if response is not None:
                code = response.responses[0].partition_responses[0].error_code
            if code == ErrorCode.NONE:
                self._history.note_written(transaction, was_shut_out=was_shut_out)
                on_step(Step.DONE)
            elif code in _OVER:
                on_step(Step.OVER)
            else:
                if code in _NEVER:
                    self._note_unexpected(f"a batch of {transaction}", code or 0)
                again()

        link.send(ApiKey.PRODUCE, PRODUCE_VERSIONS[self._learns_epoch], request, receive)

    # -- offsets

    def commit_offsets(
        self,
        transaction: SimTransaction,
        offsets: Mapping[int, int],
        topic: str,
        owner: Ownership,
        on_step: OnStep,
    ) -> None:
        """Commit offsets of a topic as part of the transaction, as the member that `owner` was."""
        commit = TxnOffsetCommitRequest(
            transactional_id=self._who.transactional_id,
            group_id=self._group_id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id=owner.generation,
            member_id=owner.member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic,
                    [
                        TxnOffsetCommitRequestPartition(
                            partition, offset, committed_metadata=str(transaction)
                        )
                        for partition, offset in offsets.items()
                    ],
                )
            ],
        )
        if self._learns_epoch:
            self._send_offsets(transaction, commit, on_step)
            return
        request = AddOffsetsToTxnRequest(
            self._who.transactional_id, *self._identity, self._group_id
        )

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            what = f"AddOffsetsToTxn of {transaction}"
            if self._is_done(what, response.error_code, was_shut_out):
                self._send_offsets(transaction, commit, on_step)
            else:
                self._history.note_refused(transaction, is_unsure=False)
                on_step(Step.OVER)

        self._repeat(ApiKey.ADD_OFFSETS_TO_TXN, ADD_OFFSETS_VERSION, request, receive)

    def _send_offsets(
        self, transaction: SimTransaction, commit: TxnOffsetCommitRequest, on_step: OnStep
    ) -> None:
        was_shut_out = self._history.is_shut_out(self._who, self._identity)

        def receive(response: Any) -> None:
            codes = {ErrorCode.COORDINATOR_NOT_AVAILABLE}
            if response is not None:
                codes = {each.error_code for each in response.topics[0].partitions}
            code = max(codes)
            if code in _PASSING:
                if code in LOST:
                    self._group.forget()
                self._client.later(lambda: self._send_offsets(transaction, commit, on_step))
            elif code in _NOT_MEMBER:
                on_step(Step.NOT_MEMBER)
            elif self._is_done(f"TxnOffsetCommit of {transaction}", code, was_shut_out):
                on_step(Step.DONE)
            else:
                self._history.note_refused(transaction, is_unsure=False)
                on_step(Step.OVER)

        version = OFFSET_COMMIT_VERSIONS[self._learns_epoch]
        self._group.ask(ApiKey.TXN_OFFSET_COMMIT, version, commit, receive)

    # -- ending

    def end(self, transaction: SimTransaction, *, is_commit: bool, on_step: OnStep) -> None:
        """Commit or abort."""
        if is_commit:
            self._history.note_commit_asked(transaction)
        request = EndTxnRequest(self._who.transactional_id, *self._identity, is_commit)

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = response.error_code
            if code:
                if code not in _OVER:
                    self._note_unexpected(f"the end of {transaction}", code)
                self._history.note_refused(transaction, is_unsure=is_unsure)
                on_step(Step.OVER)
                return
            self._history.note_ended(transaction, is_commit=is_commit, was_shut_out=was_shut_out)
            if self._learns_epoch:
                self._take_identity(response)
            on_step(Step.DONE)

        self._repeat(ApiKey.END_TXN, END_VERSIONS[self._learns_epoch], request, receive)

    # -- asking

    def _repeat(
        self, api: ApiKey, version: int, request: Any, on_answer: _OnAnswer, is_unsure: bool = False
    ) -> None:
        """Ask the transaction's coordinator until its answer is one."""
        is_known = self._identity.producer_id >= 0
        was_shut_out = is_known and self._history.is_shut_out(self._who, self._identity)

        def receive(response: Any) -> None:
            code = None if response is None else _code_of(response)
            is_lost = code is None or code in LOST
            if is_lost:
                self._coordinator.forget()
            if not is_lost and code not in BUSY:
                on_answer(response, is_unsure, was_shut_out)
                return
            self._client.later(
                lambda: self._repeat(api, version, request, on_answer, is_unsure or is_lost)
            )

        self._coordinator.ask(api, version, request, receive)

    def _is_done(self, what: str, code: int, was_shut_out: bool) -> bool:
        """Tell whether a step was taken, and note what cannot be."""
        if code == ErrorCode.NONE:
            if was_shut_out:
                self._history.note_anomaly(f"zombie: {what} was accepted")
            return True
        if code not in _OVER:
            self._note_unexpected(what, code)
        return False

    def _note_unexpected(self, what: str, code: int) -> None:
        self._history.note_anomaly(
            f"{self._who.name}: {what} was refused with {ErrorCode(code).name}"
        )


def _code_of(response: Any) -> int:
    if hasattr(response, "results_by_topic_v3_and_below"):
        return _code_of_partitions(response)
    code: int = response.error_code
    return code


def _code_of_partitions(response: Any) -> int:
    """Return of many partitions' errors the first that says why."""
    codes = [
        each.partition_error_code
        for topic in response.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    return next(
        (code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)),
        ErrorCode.NONE,
    )
