"""A producer with a transactional id that a rival has as well: each takes the other for dead.

Theory of operation. It begins (InitProducerId), which shuts out the rival, and runs transactions:
some batches to some partitions, then commit or abort, everything repeated until there is an answer.
Now and then it is away for a while, also with a transaction open; when it comes back it goes on as
if nothing had happened, whether its time is up, or its rival has taken over: then it is a zombie.
When it is told that it is shut out, it waits, and begins again.

One kind adds partitions itself and keeps its epoch; the other leaves that to the partitions'
leaders and takes a new epoch from each answer to EndTxn (KIP-890 part 2).
"""

from collections.abc import Callable
from typing import Any, Final

from kafkaesque.env.network import Address
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from kafkaesque.protocols.kafka.messages.find_coordinator_request import FindCoordinatorRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.sim.clients.kafka_client import BrokerLink, KafkaClient
from kafkaesque.sim.clients.transaction_history import (
    Identity,
    SimTransaction,
    TransactionHistory,
    Who,
)

FIND_COORDINATOR_VERSION: Final = 3
INIT_PRODUCER_ID_VERSION: Final = 4
ADD_PARTITIONS_VERSION: Final = 3
#: Of who keeps its epoch, and of who learns the next one.
PRODUCE_VERSIONS: Final = (9, 12)
END_VERSIONS: Final = (3, 5)

#: Short enough to be over in many runs.
TRANSACTION_TIMEOUT_MS: Final = 4_000
PAUSE_MS: Final = 40
AWAY_MS_MAX: Final = 6_000
#: After it was shut out, so that its rival can do something.
SHUT_OUT_MS: Final = 2_500
AWAY_ONE_IN: Final = 16
ABORT_ONE_IN: Final = 4
BATCHES_MAX: Final = 2
RECORDS_MAX: Final = 3

_TRANSACTION = 1
#: The coordinator is another one, or does not say what has become of the request.
_LOST = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)
#: Nothing has become of it.
_BUSY = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)
#: Of the partitions' errors these say nothing by themselves, or pass by themselves.
_ADD_PASSING = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
#: The producer is shut out, or its transaction is over.
_OVER = (
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.TRANSACTION_ABORTABLE,
)
#: What a correct broker never answers to a batch that is repeated in order.
_NEVER = (
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.CORRUPT_MESSAGE,
    ErrorCode.INVALID_RECORD,
    ErrorCode.MESSAGE_TOO_LARGE,
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ErrorCode.UNKNOWN_SERVER_ERROR,
)

#: Gets the answer, whether an earlier request may have been done, and whether the producer was shut
#: out before it asked the last time.
OnAnswer = Callable[[Any, bool, bool], None]


class SimTransactor:
    """One of two producers with the same transactional id."""

    def __init__(
        self,
        client: KafkaClient,
        who: Who,
        partitions: int,
        history: TransactionHistory,
        *,
        learns_epoch: bool,
        may_act: Callable[[], bool] | None = None,
    ) -> None:
        """Where `may_act` says no it begins nothing, and takes its identity anew before it does."""
        self._client: Final = client
        self._who: Final = who
        self._partitions: Final = partitions
        self._history: Final = history
        self._learns_epoch: Final = learns_epoch
        self._may_act: Final = may_act or (lambda: True)
        self._coordinator: Address | None = None
        self._identity = Identity(-1, -1)
        self._sequences: dict[int, int] = {}
        self._number = 0
        #: Partitions of the transaction that are still written to.
        self._left = 0
        self._has_failed = False
        #: Begin no transaction any more.
        self.is_stopped = False
        #: Whether it has ended what it had begun.
        self.is_idle = False
        client.later(self._begin)

    # -- asking the coordinator

    def _repeat(
        self, api: ApiKey, version: int, request: Any, on_answer: OnAnswer, is_unsure: bool = False
    ) -> None:
        """Ask the coordinator, again and again, until its answer is one."""

        def ask(link: BrokerLink) -> None:
            is_known = self._identity.producer_id >= 0
            was_shut_out = is_known and self._history.is_shut_out(self._who, self._identity)

            def receive(response: Any) -> None:
                code = None if response is None else _code_of(response)
                is_lost = code is None or code in _LOST
                if is_lost:
                    self._coordinator = None
                if not is_lost and code not in _BUSY:
                    on_answer(response, is_unsure, was_shut_out)
                    return
                self._client.later(
                    lambda: self._repeat(api, version, request, on_answer, is_unsure or is_lost)
                )

            link.send(api, version, request, receive)

        self._with_coordinator(ask)

    def _with_coordinator(self, act: Callable[[BrokerLink], None]) -> None:
        client = self._client
        if self._coordinator is not None:
            act(client.link(self._coordinator))
            return

        def receive(response: Any) -> None:
            if response is not None and not response.error_code:
                self._coordinator = Address(response.host, response.port)
            client.later(lambda: self._with_coordinator(act))

        request = FindCoordinatorRequest(key=self._who.transactional_id, key_type=_TRANSACTION)
        link = client.any_link()
        link.send(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, request, receive)

    # -- beginning

    def _begin(self) -> None:
        if self.is_stopped:
            self.is_idle = True
            return
        if not self._may_act():
            self._client.later(self._begin)
            return
        request = InitProducerIdRequest(self._who.transactional_id, TRANSACTION_TIMEOUT_MS, -1, -1)
        self._repeat(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, request, self._on_begun)

    def _on_begun(self, response: Any, is_unsure: bool, was_shut_out: bool) -> None:
        if response.error_code:
            self._note_unexpected("InitProducerId", response.error_code)
            self._begin_later()
            return
        self._take_identity(response)
        self._next()

    def _take_identity(self, response: Any) -> None:
        identity = Identity(response.producer_id, response.producer_epoch)
        if identity != self._identity:
            self._identity = identity
            self._sequences = {}
        self._history.note_identity(self._who, identity)

    def _begin_later(self) -> None:
        self._client.later(self._begin, SHUT_OUT_MS)

    def _note_unexpected(self, what: str, code: int) -> None:
        self._history.note_anomaly(
            f"{self._who.name}: {what} was refused with {ErrorCode(code).name}"
        )

    # -- one transaction after the other

    def _next(self) -> None:
        if self.is_stopped:
            self.is_idle = True
            return
        if not self._may_act():
            self._begin()
            return
        if self._is_away():
            self._client.later(self._next, self._away_ms())
            return
        below = self._client.env.dice.below
        transaction = self._history.begin(self._who, self._number, self._identity.epoch)
        self._number += 1
        chosen = [each for each in range(self._partitions) if below(3)]
        chosen = chosen or [below(self._partitions)]
        if self._learns_epoch:
            self._write_all(transaction, chosen)
        else:
            self._add(transaction, chosen)

    def _is_away(self) -> bool:
        return self._client.env.dice.below(AWAY_ONE_IN) == 0

    def _away_ms(self) -> int:
        return 1 + self._client.env.dice.below(AWAY_MS_MAX)

    def _add(self, transaction: SimTransaction, chosen: list[int]) -> None:
        topic = AddPartitionsToTxnTopic(self._client.topic, chosen)
        request = AddPartitionsToTxnRequest(
            (), self._who.transactional_id, *self._identity, [topic]
        )

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = _code_of(response)
            if not code:
                self._history.note_written(transaction, was_shut_out=was_shut_out)
                self._write_all(transaction, chosen)
            elif code in _ADD_PASSING:
                self._client.later(lambda: self._add(transaction, chosen))
            else:
                if code not in _OVER:
                    self._note_unexpected("AddPartitionsToTxn", code)
                self._history.note_refused(transaction, is_unsure=False)
                self._begin_later()

        self._repeat(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_PARTITIONS_VERSION, request, receive)

    # -- writing

    def _write_all(self, transaction: SimTransaction, chosen: list[int]) -> None:
        self._left = len(chosen)
        self._has_failed = False
        for partition in chosen:
            count = 1 + self._client.env.dice.below(BATCHES_MAX)
            self._write(transaction, partition, count)

    def _write(self, transaction: SimTransaction, partition: int, batches_left: int) -> None:
        if not batches_left or self._has_failed:
            self._on_written(transaction)
            return
        clock = self._client.env.clock
        sent = sum(each == partition for each, _ in transaction.values)
        count = 1 + self._client.env.dice.below(RECORDS_MAX)
        values = [
            f"{transaction}/{partition}/{number}".encode() for number in range(sent, sent + count)
        ]
        records = [
            Record(number, clock.wall_ms(), None, value, ()) for number, value in enumerate(values)
        ]
        sequence = self._sequences.get(partition, 0)
        self._sequences[partition] = sequence + count
        options = BatchOptions(
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            base_sequence=sequence,
            transactional=True,
        )
        batch = bytes(encode_batch(records, options))
        self._history.note_sent(transaction, partition, values)

        def go_on() -> None:
            self._write(transaction, partition, batches_left - 1)

        self._send(transaction, partition, batch, go_on)

    def _send(
        self, transaction: SimTransaction, partition: int, batch: bytes, go_on: Callable[[], None]
    ) -> None:
        client = self._client
        link = client.leader_link(partition)
        if link is None:
            client.refresh()
            client.later(lambda: self._send(transaction, partition, batch, go_on))
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
                go_on()
            elif code in _OVER:
                self._has_failed = True
                go_on()
            else:
                if code in _NEVER:
                    self._note_unexpected(f"a batch of {transaction}", code or 0)
                client.refresh()
                client.later(lambda: self._send(transaction, partition, batch, go_on))

        link.send(ApiKey.PRODUCE, PRODUCE_VERSIONS[self._learns_epoch], request, receive)

    def _on_written(self, transaction: SimTransaction) -> None:
        self._left -= 1
        if self._left:
            return
        below = self._client.env.dice.below
        if not self._has_failed:
            is_commit = below(ABORT_ONE_IN) != 0
            wait_ms = self._away_ms() if self._is_away() else PAUSE_MS
            self._client.later(lambda: self._end(transaction, is_commit=is_commit), wait_ms)
        elif self._learns_epoch and below(2):
            self._end(transaction, is_commit=False)
        else:
            # Sequence numbers have a gap now: going on with this epoch would not do.
            self._history.note_refused(transaction, is_unsure=False)
            self._begin_later()

    # -- ending

    def _end(self, transaction: SimTransaction, *, is_commit: bool) -> None:
        if is_commit:
            self._history.note_commit_asked(transaction)
        request = EndTxnRequest(self._who.transactional_id, *self._identity, is_commit)

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = response.error_code
            if code:
                if code not in _OVER:
                    self._note_unexpected(f"the end of {transaction}", code)
                self._history.note_refused(transaction, is_unsure=is_unsure)
                self._begin_later()
                return
            self._history.note_ended(transaction, is_commit=is_commit, was_shut_out=was_shut_out)
            if self._learns_epoch:
                self._take_identity(response)
            self._client.rest(self._next, PAUSE_MS)

        self._repeat(ApiKey.END_TXN, END_VERSIONS[self._learns_epoch], request, receive)


def _code_of(response: Any) -> int:
    """Return a response's error; of many partitions' errors the first that says why."""
    topics = getattr(response, "results_by_topic_v3_and_below", None)
    if topics is None:
        code: int = response.error_code
        return code
    codes = [each.partition_error_code for topic in topics for each in topic.results_by_partition]
    return next(
        (code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)),
        ErrorCode.NONE,
    )
