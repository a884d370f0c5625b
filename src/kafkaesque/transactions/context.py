"""What the handlers of one table share."""

from collections.abc import Callable, Sequence

from kafkaesque.tables.core import TableContext
from kafkaesque.tables.log_table import Append, LogRecord, RequestToken, Respond
from kafkaesque.tables.timers import TimerQueue
from kafkaesque.tables.waits import Waits
from kafkaesque.tables.write_queue import WriteQueue
from kafkaesque.transactions.additions import WaitingAdditions
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import ProducerIdToken
from kafkaesque.transactions.results import NeedProducerId, Result, Work
from kafkaesque.transactions.transaction import Transaction

#: Takes the outcome.
OnEnd = Callable[[TransactionError], None]
#: Takes the producer id, or None and why there is none.
OnProducerId = Callable[[int | None, TransactionError], None]


class Context(TableContext[TransactionError, Work]):
    """State and ways out of one table."""

    __slots__ = (
        "additions",
        "config",
        "coordinator_epoch",
        "deadlines",
        "producer_ids",
        "transactions",
    )

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        # One change at a time of each id, so nothing depends on the order of the reports.
        late = TransactionError.COORDINATOR_NOT_AVAILABLE
        writes = WriteQueue(timeout_ms=config.write_timeout_ms, late=late, is_ordered=False)
        super().__init__(writes)
        self.config = config
        self.coordinator_epoch = coordinator_epoch
        self.transactions: dict[str, Transaction] = {}
        self.deadlines: TimerQueue[str] = TimerQueue()
        self.producer_ids: Waits[ProducerIdToken, TransactionError, int] = Waits(
            timeout_ms=config.write_timeout_ms, late=late, make_token=ProducerIdToken
        )
        self.additions = WaitingAdditions(config.addition_wait_ms)

    def respond(self, token: RequestToken, result: Result) -> None:
        """Answer a request."""
        self.ready.append(Respond(token, result))

    def append(self, records: Sequence[LogRecord], effect: OnEnd, answer: OnEnd | None) -> None:
        """Have records written, and then do and say what follows."""
        token = self.writes.open(self.now.now_ms)
        self.writes.then(token, effect)
        if answer is not None:
            self.writes.then_answer(token, answer)
        self.ready.append(Append(token, tuple(records)))

    def need_producer_id(self, then: OnProducerId) -> None:
        """Have a producer id fetched."""
        self.ready.append(NeedProducerId(self.producer_ids.open(self.now.now_ms, then)))

    def forget_if_new(self, transaction: Transaction) -> None:
        """Forget an id whose first record will not be."""
        if transaction.value is None:
            self.transactions.pop(transaction.transactional_id, None)

    @property
    def is_over_bound(self) -> bool:
        """Whether no further write may be asked for by choice."""
        waits = len(self.writes) + len(self.producer_ids) + len(self.additions)
        return waits >= self.config.writes_in_flight_max
