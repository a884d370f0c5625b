"""The first batch of a transaction in a partition waits until the coordinator has confirmed it.

A batch that comes late, after its transaction was ended, would open one that nobody ends. So the
leader asks the coordinator first (KIP-890): whether the partition takes part or, for clients that
leave it to the leader, to add it. Whoever produces waits with all that has to come after the batch,
and produces it again.
"""

from collections.abc import Callable

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.partitions.batch_checks import LongCheck
from kafkaesque.broker.requests.commands import AddToTransaction
from kafkaesque.model.errors import RequestRefused, TransactionUnverified
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions.errors import TransactionError

#: A marker that comes between makes an answer void; then it is asked again, so often.
ATTEMPTS_MAX = 3

#: What passes by itself: the client is to come again.
PASSING = (
    TransactionError.CONCURRENT_TRANSACTIONS,
    TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
    TransactionError.COORDINATOR_NOT_AVAILABLE,
    TransactionError.NOT_COORDINATOR,
)


class Confirmation:
    """One question to a coordinator; then its outcome."""

    __slots__ = (
        "_attempt",
        "_doors",
        "_guard",
        "_request",
        "checked",
        "error",
    )

    def __init__(
        self,
        doors: Doors,
        where: TopicPartition,
        transactional_id: str,
        unverified: TransactionUnverified,
        *,
        is_adding: bool,
        checked: LongCheck | None = None,
        before: "Confirmation | None" = None,
    ) -> None:
        """Ask about a batch that was `unverified`, `before` in vain; `checked` is its check.

        With `is_adding` the partition is added to the transaction.
        """
        self._doors = doors
        self._guard = unverified.guard
        self._attempt: int = 1 if before is None else before._attempt + 1
        producer_id, producer_epoch, _ = unverified.guard
        topic = doors.cluster.state.topics.get(where.topic)
        self._request = AddToTransaction(
            transactional_id=transactional_id,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            topic=where.topic,
            topic_id=b"" if topic is None else topic.topic_id,
            partition=where.partition,
            verify_only=not is_adding,
        )
        self.checked = checked
        #: Why the batch cannot be appended; NONE if it may be tried again.
        self.error = TransactionError.NONE

    def run(self, on_done: Callable[[], None]) -> None:
        """Ask; `on_done` is called in a later turn, when there is an outcome."""
        clock = self._doors.clock
        if self._attempt > ATTEMPTS_MAX:
            self.error = TransactionError.CONCURRENT_TRANSACTIONS
            clock.call_soon(on_done)
            return

        def on_error(error: TransactionError) -> None:
            if error is TransactionError.NONE:
                self._confirm()
            else:
                self.error = error
            clock.call_soon(on_done)

        self._doors.transactions.confirm(self._request, on_error)

    def _confirm(self) -> None:
        where = TopicPartition(self._request.topic, self._request.partition)
        try:
            partition = self._doors.reading.partition(where)
        except RequestRefused:
            return  # producing again says what has changed
        if partition.state.topic_id == self._request.topic_id:
            partition.producers.verified(self._guard)
