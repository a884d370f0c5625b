"""A producer whose transactions write to a topic that passes, and to one that stays.

Theory of operation. A transaction is some steps in an order that dice say: batches to the topic
that passes, batches to the one that stays, offsets of the first for a group; then commit or abort.
Everything is repeated until there is an answer. A batch that names a topic by its id is given up
when that topic's deletion was asked for; the transaction is aborted then, or goes on with what its
next steps find under the name. One by name is repeated until some topic takes it. When all is
healed, and the last topic there, one more transaction is committed, and has to be there as a whole.

As in `transactor`, one kind adds partitions and the group itself and keeps its epoch; the others
leave that to the brokers and take a new epoch from each answer to EndTxn (KIP-890 part 2).
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaesque.sim.clients.coordinator_link import BUSY, LOST, CoordinatorLink, KeyType
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import Outcome
from kafkaesque.sim.clients.transactional_session import (
    ADD_PASSING,
    NEVER,
    OVER,
    TransactionalSession,
    code_of,
)
from kafkaesque.sim.namesakes.history import STAYING, NamesakeHistory, SentBatch, Transaction
from kafkaesque.sim.namesakes.offset_history import OffsetHistory
from kafkaesque.sim.namesakes.topic import NAME, PARTITIONS, Namesake, PassingTopic

#: Short enough to be over in many runs.
TRANSACTION_TIMEOUT_MS: Final = 4_000
PAUSE_MS: Final = 40
AWAY_MS_MAX: Final = 5_000
#: After it was refused.
SHUT_OUT_MS: Final = 200
AWAY_ONE_IN: Final = 60
ABORT_ONE_IN: Final = 3
RECORDS_MAX: Final = 3
#: Longer than any request stays on its way in a network without faults, and so long after the last
#: topic was made all brokers know it.
CONCLUDE_MS: Final = 4_000

#: What a correct broker never answers to a batch that is repeated in order, to topics one of which
#: may have had the batches before.
_NEVER: Final = tuple(each for each in NEVER if each != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

_Step = Callable[["Transaction"], None]


class ProducerKind(NamedTuple):
    """What tells one producer from another: versions of requests, and what follows from them."""

    name: str
    produce_version: int
    offset_commit_version: int
    end_version: int
    keeps_epoch: bool
    #: Whether it names topics by their ids.
    uses_ids: bool


KINDS: Final = (
    ProducerKind("old", 9, 3, 3, keeps_epoch=True, uses_ids=False),
    ProducerKind("newer", 12, 5, 5, keeps_epoch=False, uses_ids=False),
    ProducerKind("newest", 13, 5, 5, keeps_epoch=False, uses_ids=True),
)


class NamesakeTransactor:
    """One producer, with a transactional id and a group of its own."""

    def __init__(
        self,
        client: KafkaClient,
        topic: PassingTopic,
        kind: ProducerKind,
        history: NamesakeHistory,
        offsets: OffsetHistory,
    ) -> None:
        """`client` is one of the topic that stays."""
        self._client: Final = client
        self._topic: Final = topic
        self._kind: Final = kind
        self._history: Final = history
        self._offsets: Final = offsets
        self._id: Final = f"namesakes-{kind.name}"
        #: It numbers topics as `Namesake`s are; by name all of them have the same sequences.
        self._session: Final = TransactionalSession(client, self._id)
        self._group: Final = CoordinatorLink(client, offsets.group_id, KeyType.GROUP)
        #: The topic that passes, and a client that knows it.
        self._passing: tuple[Namesake, KafkaClient] | None = None
        self._number = 0
        self._values = 0
        self._steps: list[_Step] = []
        #: Offsets that the open transaction has sent: their number and topic.
        self._offset: tuple[int, Namesake] | None = None
        self._has_failed = False
        self._is_concluding = False
        #: Begin no transaction any more, but the last one.
        self.is_stopped = False
        #: Whether it has committed the last one.
        self.is_idle = False
        client.later(self._begin)

    def __str__(self) -> str:
        return f"{self._id}: transaction {self._number}, ended: {self.is_idle}"

    def _note_unexpected(self, what: str, code: int) -> None:
        self._history.note_anomaly(f"{self._id}: {what} was refused with {ErrorCode(code).name}")

    # -- beginning

    def _begin(self) -> None:
        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            if response.error_code:
                self._note_unexpected("InitProducerId", response.error_code)
                self._client.later(self._begin, SHUT_OUT_MS)
                return
            self._session.take_identity(response)
            self._next()

        self._session.begin(TRANSACTION_TIMEOUT_MS, receive)

    def _next(self) -> None:
        if self.is_stopped and not self._is_concluding:
            self._await_last()
            return
        if self._topic.current is None:
            self._client.later(self._next, PAUSE_MS)
            return
        self._number += 1
        name = f"{self._id}/{self._number}"
        transaction = self._history.begin(name, keeps_epoch=self._kind.keeps_epoch)
        self._offset = None
        self._has_failed = False
        self._steps = self._draw_steps()
        self._go_on(transaction)

    def _await_last(self) -> None:
        """Conclude when all brokers have had the time to hear of the last topic."""
        if self._topic.last is None:
            self._client.later(self._await_last, PAUSE_MS)
            return

        def conclude() -> None:
            self._is_concluding = True
            self._begin()

        self._client.env.clock.call_later(CONCLUDE_MS, conclude)

    def _draw_steps(self) -> list[_Step]:
        below = self._client.env.dice.below
        partitions = [each for each in range(PARTITIONS) if below(3) or self._is_concluding]
        steps = [self._writer(partition) for partition in partitions]
        if below(2) or not steps:
            steps.append(self._writer(None))
        if below(2):
            steps.append(self._commit_offsets)
        if below(3) == 0:
            steps.append(self._writer(below(PARTITIONS)))
        for last in range(len(steps) - 1, 0, -1):
            other = below(last + 1)
            steps[last], steps[other] = steps[other], steps[last]
        return steps

    def _go_on(self, transaction: Transaction) -> None:
        """Do the next step, or end."""
        below = self._client.env.dice.below
        if self._has_failed:
            self._fail(transaction)
            return
        wait_ms = 0
        if below(AWAY_ONE_IN) == 0 and not self._is_concluding:
            wait_ms = 1 + below(AWAY_MS_MAX)
        if self._steps:
            step = self._steps.pop()
        else:
            is_commit = self._is_concluding or below(ABORT_ONE_IN) != 0

            def step(transaction: Transaction) -> None:
                self._end(transaction, is_commit=is_commit)

            wait_ms += PAUSE_MS
        self._client.env.clock.call_later(wait_ms, lambda: step(transaction))

    def _fail(self, transaction: Transaction) -> None:
        if not self._kind.keeps_epoch and self._client.env.dice.below(2):
            self._end(transaction, is_commit=False)
            return
        # Sequence numbers have a gap now: going on with this epoch would not do.
        self._give_up(transaction, is_unsure=False)

    def _give_up(self, transaction: Transaction, *, is_unsure: bool) -> None:
        transaction.refuse(is_unsure=is_unsure)
        if self._offset is not None and transaction.outcome is Outcome.ABORTED:
            self._offsets.note_aborted(self._offset[0])
        self._client.later(self._begin, SHUT_OUT_MS)

    # -- writing

    def _writer(self, partition: int | None) -> _Step:
        """Return a step that writes to a partition of the topic that passes, or to what stays."""

        def write(transaction: Transaction) -> None:
            topic = self._topic.current
            if partition is None:
                self._write(transaction, self._make_batch(transaction, STAYING, 0), None)
            elif topic is None:
                self._client.later(lambda: write(transaction), PAUSE_MS)
            else:
                is_known = self._kind.uses_ids or self._is_concluding
                place = topic.number if is_known else None
                self._write(transaction, self._make_batch(transaction, place, partition), topic)

        return write

    def _make_batch(self, transaction: Transaction, place: int | None, partition: int) -> SentBatch:
        count = 1 + self._client.env.dice.below(RECORDS_MAX)
        first, self._values = self._values, self._values + count
        values = [f"{transaction}/{number}".encode() for number in range(first, first + count)]
        return SentBatch(transaction, place, partition, values)

    def _write(self, transaction: Transaction, batch: SentBatch, topic: Namesake | None) -> None:
        if self._kind.keeps_epoch:
            self._add(transaction, batch, topic)
        else:
            self._send_new(transaction, batch, topic)

    def _add(self, transaction: Transaction, batch: SentBatch, topic: Namesake | None) -> None:
        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = code_of(response)
            if not code:
                self._send_new(transaction, batch, topic)
            elif code in ADD_PASSING:
                self._client.later(lambda: self._add(transaction, batch, topic))
            else:
                self._refuse(transaction, "AddPartitionsToTxn", code)

        name = self._client.topic if topic is None else NAME
        self._session.add_partitions(name, [batch.partition], receive)

    def _refuse(self, transaction: Transaction, what: str, code: int) -> None:
        if code not in OVER:
            self._note_unexpected(f"{what} of {transaction}", code)
        self._give_up(transaction, is_unsure=False)

    def _send_new(self, transaction: Transaction, batch: SentBatch, topic: Namesake | None) -> None:
        numbered = 0 if topic is None else (topic.number if self._kind.uses_ids else -1)
        data = self._session.make_batch(batch.partition, batch.values, numbered)
        self._history.note_sent(batch)
        self._send(transaction, batch, data, topic)

    def _passing_client(self, topic: Namesake) -> KafkaClient:
        if self._passing is None or self._passing[0] is not topic:
            self._passing = topic, topic.client(self._client.env, self._client.bootstrap)
        return self._passing[1]

    def _send(
        self, transaction: Transaction, batch: SentBatch, data: bytes, topic: Namesake | None
    ) -> None:
        """Send a batch to the leader, again and again; to the next topic, if it is by name."""
        if topic is not None and topic.is_doomed:
            current = self._topic.current
            if self._kind.uses_ids:
                # Whether it was written before, nobody will ask; aborting is what clients do.
                self._has_failed = self._client.env.dice.below(2) == 0
                self._go_on(transaction)
                return
            topic = topic if current is None else current
        client = self._client if topic is None else self._passing_client(topic)

        def again() -> None:
            client.refresh()
            client.later(lambda: self._send(transaction, batch, data, topic))

        def receive(code: int | None) -> None:
            if code == ErrorCode.NONE:
                batch.is_acknowledged = True
                batch.known = self._topic.asked_for
                self._go_on(transaction)
            elif code in OVER or self._is_out_of_order(batch, code):
                self._has_failed = True
                self._go_on(transaction)
            else:
                batch.is_stray = batch.is_stray or code is None
                if code in _NEVER:
                    self._note_unexpected(f"a batch of {transaction}", code or 0)
                again()

        version = self._kind.produce_version
        if not self._session.send(client, version, batch.partition, data, receive):
            again()

    def _is_out_of_order(self, batch: SentBatch, code: int | None) -> bool:
        """Return whether a batch does not follow, as may be where a name was taken otherwise."""
        if code != ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            return False
        if batch.place is not None:
            self._note_unexpected(f"a batch of {batch.transaction}", code)
        return True

    # -- offsets

    def _commit_offsets(self, transaction: Transaction) -> None:
        topic = self._topic.current
        if topic is None or self._offset is not None:
            self._client.later(lambda: self._go_on(transaction), PAUSE_MS)
            return
        number = self._offsets.send(topic, is_transactional=True)
        self._offset = number, topic
        partitions = [
            TxnOffsetCommitRequestPartition(partition, number, committed_metadata=str(transaction))
            for partition in range(PARTITIONS)
        ]
        commit = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=self._offsets.group_id,
            producer_id=self._session.identity.producer_id,
            producer_epoch=self._session.identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(NAME, partitions)],
        )
        if not self._kind.keeps_epoch:
            self._send_offsets(transaction, commit)
            return

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            if response.error_code:
                self._refuse(transaction, "AddOffsetsToTxn", response.error_code)
            else:
                self._send_offsets(transaction, commit)

        self._session.add_offsets(self._offsets.group_id, receive)

    def _send_offsets(self, transaction: Transaction, commit: TxnOffsetCommitRequest) -> None:
        def receive(response: Any) -> None:
            code: int = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if response is not None:
                code = max(each.error_code for each in response.topics[0].partitions)
            if code == ErrorCode.NONE:
                if self._offset is not None:
                    self._offsets.note_stored(*self._offset)
                self._go_on(transaction)
            elif code in (*BUSY, *LOST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                if code in LOST:
                    self._group.forget()
                self._client.later(lambda: self._send_offsets(transaction, commit))
            else:
                self._refuse(transaction, "TxnOffsetCommit", code)

        version = self._kind.offset_commit_version
        self._group.ask(ApiKey.TXN_OFFSET_COMMIT, version, commit, receive)

    # -- ending

    def _end(self, transaction: Transaction, *, is_commit: bool) -> None:
        if is_commit:
            transaction.is_commit_asked = True
            if self._offset is not None:
                self._offsets.note_commit_asked(self._offset[0])
        self._topic.on_end()

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = response.error_code
            if code:
                if code not in OVER:
                    self._note_unexpected(f"the end of {transaction}", code)
                self._give_up(transaction, is_unsure=is_unsure)
                return
            self._on_ended(transaction, is_commit=is_commit)
            if not self._kind.keeps_epoch:
                self._session.take_identity(response)
            if self._is_concluding:
                self.is_idle = True
            else:
                self._client.rest(self._next, PAUSE_MS)

        self._session.end(self._kind.end_version, receive, is_commit=is_commit)

    def _on_ended(self, transaction: Transaction, *, is_commit: bool) -> None:
        transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        if self._offset is None:
            return
        if is_commit:
            self._offsets.note_counts(*self._offset)
        else:
            self._offsets.note_aborted(self._offset[0])
