"""The steps of a transaction as a producer takes them that tells a `TransactionHistory` of each.

Each step is repeated until it is known how it ended. One kind of producer adds partitions itself
and keeps its epoch; the other leaves that to the partitions' leaders and takes a new epoch from
each answer to EndTxn (KIP-890 part 2).
"""

from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import Any, Final

from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import (
    Identity,
    SimTransaction,
    TransactionHistory,
    Who,
)
from kafkaesque.sim.clients.transactional_session import (
    ADD_PASSING,
    NEVER,
    OVER,
    TransactionalSession,
    code_of,
)

#: Of who keeps its epoch, and of who learns the next one.
PRODUCE_VERSIONS: Final = (9, 12)
END_VERSIONS: Final = (3, 5)


class Step(Enum):
    """How a step of a transaction has ended."""

    DONE = auto()
    #: The group does not take the offsets; the transaction is to be aborted.
    NOT_MEMBER = auto()
    #: Somebody else has taken the transactional id, or the coordinator has ended the transaction.
    OVER = auto()


OnStep = Callable[[Step], None]


class TransactionalProducer:
    """Takes one step after the other, as it is told."""

    def __init__(
        self,
        client: KafkaClient,
        who: Who,
        history: TransactionHistory,
        *,
        learns_epoch: bool,
        timeout_ms: int,
        is_patient: bool = False,
    ) -> None:
        """`timeout_ms` is the transactions', `is_patient` is the `CoordinatorLink`'s."""
        self.learns_epoch: Final = learns_epoch
        self.client: Final = client
        self.who: Final = who
        self.history: Final = history
        self.session: Final = TransactionalSession(
            client, who.transactional_id, self._is_shut_out, is_patient=is_patient
        )
        self._timeout_ms: Final = timeout_ms

    def _is_shut_out(self, identity: Identity) -> bool:
        return self.history.is_shut_out(self.who, identity)

    @property
    def was_shut_out(self) -> bool:
        """Whether a rival has taken its place already."""
        return self._is_shut_out(self.session.identity)

    def begin(self, on_begun: Callable[[], None], on_refused: Callable[[], None]) -> None:
        """Shut out whoever else has this transactional id, and end what was left open."""

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            if response.error_code:
                self._note_unexpected("InitProducerId", response.error_code)
                on_refused()
                return
            self._take_identity(response)
            on_begun()

        self.session.begin(self._timeout_ms, receive)

    def open(self, number: int) -> SimTransaction:
        """Begin a transaction."""
        return self.history.begin(self.who, number, self.session.identity.epoch)

    def add(self, transaction: SimTransaction, partitions: Sequence[int], on_step: OnStep) -> None:
        """Take partitions into the transaction, unless that is left to their leaders."""
        if self.learns_epoch:
            on_step(Step.DONE)
            return

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = code_of(response)
            if code in ADD_PASSING:
                self.client.later(lambda: self.add(transaction, partitions, on_step))
            else:
                what = f"AddPartitionsToTxn of {transaction}"
                self.end_step(transaction, what, code, on_step, was_shut_out=was_shut_out)

        self.session.add_partitions(self.client.topic, partitions, receive)

    def write(
        self,
        transaction: SimTransaction,
        partition: int,
        values: list[bytes],
        on_step: OnStep,
    ) -> None:
        """Write a batch; if it is over, the transaction is not given up yet."""
        batch = self.session.make_batch(partition, values)
        self.history.note_sent(transaction, partition, values)
        self._send(transaction, partition, batch, on_step)

    def _send(
        self, transaction: SimTransaction, partition: int, batch: bytes, on_step: OnStep
    ) -> None:
        was_shut_out = self.was_shut_out

        def again() -> None:
            self.client.refresh()
            self.client.later(lambda: self._send(transaction, partition, batch, on_step))

        def receive(code: int | None) -> None:
            if code == ErrorCode.NONE:
                self.history.note_written(transaction, was_shut_out=was_shut_out)
                on_step(Step.DONE)
            elif code in OVER:
                on_step(Step.OVER)
            else:
                if code in NEVER:
                    self._note_unexpected(f"a batch of {transaction}", code or 0)
                again()

        version = PRODUCE_VERSIONS[self.learns_epoch]
        if not self.session.send(self.client, version, partition, batch, receive):
            again()

    def end(self, transaction: SimTransaction, *, is_commit: bool, on_step: OnStep) -> None:
        """Commit or abort."""
        if is_commit:
            self.history.note_commit_asked(transaction)

        def receive(response: Any, is_unsure: bool, was_shut_out: bool) -> None:
            code = response.error_code
            if code:
                if code not in OVER:
                    self._note_unexpected(f"the end of {transaction}", code)
                self.history.note_refused(transaction, is_unsure=is_unsure)
                on_step(Step.OVER)
                return
            self.history.note_ended(transaction, is_commit=is_commit, was_shut_out=was_shut_out)
            if self.learns_epoch:
                self._take_identity(response)
            on_step(Step.DONE)

        self.session.end(END_VERSIONS[self.learns_epoch], receive, is_commit=is_commit)

    def end_step(
        self,
        transaction: SimTransaction,
        what: str,
        code: int,
        on_step: OnStep,
        *,
        was_shut_out: bool,
    ) -> None:
        """Go on if a step was taken, give up if it was refused; and note what cannot be."""
        if code == ErrorCode.NONE:
            self.history.note_accepted(what, was_shut_out=was_shut_out)
            on_step(Step.DONE)
            return
        if code not in OVER:
            self._note_unexpected(what, code)
        self.history.note_refused(transaction, is_unsure=False)
        on_step(Step.OVER)

    def _take_identity(self, response: Any) -> None:
        self.session.take_identity(response)
        self.history.note_identity(self.who, self.session.identity)

    def _note_unexpected(self, what: str, code: int) -> None:
        self.history.note_anomaly(
            f"{self.who.name}: {what} was refused with {ErrorCode(code).name}"
        )
