"""A producer with a transactional id that a rival has as well: each takes the other for dead.

Theory of operation. It begins (InitProducerId), which shuts out the rival, and runs transactions:
some batches to some partitions, then commit or abort, everything repeated until there is an answer.
Now and then it is away for a while, also with a transaction open; when it comes back it goes on as
if nothing had happened, whether its time is up, or its rival has taken over: then it is a zombie.
When it is told that it is shut out, it waits, and begins again.

There are two kinds: see `transactional_producer`.
"""

from collections.abc import Callable
from typing import Final

from kafkaesque.sim.clients.kafka_client import KafkaClient
from kafkaesque.sim.clients.transaction_history import SimTransaction, TransactionHistory, Who
from kafkaesque.sim.clients.transactional_producer import Step, TransactionalProducer

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
        self._partitions: Final = partitions
        self._history: Final = history
        self._may_act: Final = may_act or (lambda: True)
        self._producer: Final = TransactionalProducer(
            client,
            who,
            history,
            learns_epoch=learns_epoch,
            timeout_ms=TRANSACTION_TIMEOUT_MS,
            is_patient=True,
        )
        self._number = 0
        #: Partitions of the transaction that are still written to.
        self._left = 0
        self._has_failed = False
        #: Begin no transaction any more.
        self.is_stopped = False
        #: Whether it has ended what it had begun.
        self.is_idle = False
        client.later(self._begin)

    # -- beginning

    def _begin(self) -> None:
        if self.is_stopped:
            self.is_idle = True
            return
        if not self._may_act():
            self._client.later(self._begin)
            return
        self._producer.begin(self._next, self._begin_later)

    def _begin_later(self) -> None:
        self._client.later(self._begin, SHUT_OUT_MS)

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
        transaction = self._producer.open(self._number)
        self._number += 1
        chosen = [each for each in range(self._partitions) if below(3)]
        chosen = chosen or [below(self._partitions)]

        def go_on(step: Step) -> None:
            if step is Step.DONE:
                self._write_all(transaction, chosen)
            else:
                self._begin_later()

        self._producer.add(transaction, chosen, go_on)

    def _is_away(self) -> bool:
        return self._client.env.dice.below(AWAY_ONE_IN) == 0

    def _away_ms(self) -> int:
        return 1 + self._client.env.dice.below(AWAY_MS_MAX)

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
        sent = sum(each == partition for each, _ in transaction.values)
        count = 1 + self._client.env.dice.below(RECORDS_MAX)
        values = [
            f"{transaction}/{partition}/{number}".encode() for number in range(sent, sent + count)
        ]

        def go_on(step: Step) -> None:
            self._has_failed = self._has_failed or step is Step.OVER
            self._write(transaction, partition, batches_left - 1)

        self._producer.write(transaction, partition, values, go_on)

    def _on_written(self, transaction: SimTransaction) -> None:
        self._left -= 1
        if self._left:
            return
        below = self._client.env.dice.below
        if not self._has_failed:
            is_commit = below(ABORT_ONE_IN) != 0
            wait_ms = self._away_ms() if self._is_away() else PAUSE_MS
            self._client.later(lambda: self._end(transaction, is_commit=is_commit), wait_ms)
        elif self._producer.learns_epoch and below(2):
            self._end(transaction, is_commit=False)
        else:
            # Sequence numbers have a gap now: going on with this epoch would not do.
            self._history.note_refused(transaction, is_unsure=False)
            self._begin_later()

    # -- ending

    def _end(self, transaction: SimTransaction, *, is_commit: bool) -> None:
        def go_on(step: Step) -> None:
            if step is Step.DONE:
                self._client.rest(self._next, PAUSE_MS)
            else:
                self._begin_later()

        self._producer.end(transaction, is_commit=is_commit, on_step=go_on)
