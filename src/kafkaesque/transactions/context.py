"""What the handlers of one table share."""

from collections.abc import Sequence

from kafkaesque.model.log_table import Append, Instant, LogRecord, RequestToken, Respond
from kafkaesque.transactions.additions import WaitingAdditions
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.deadlines import Deadlines
from kafkaesque.transactions.results import NeedProducerId, Result, Work
from kafkaesque.transactions.transaction import Transaction
from kafkaesque.transactions.waits import OnEnd, OnProducerId, PendingWrites, ProducerIdWaits


class Context:
    """State and ways out of one table."""

    __slots__ = (
        "additions",
        "config",
        "coordinator_epoch",
        "deadlines",
        "now",
        "producer_ids",
        "ready",
        "transactions",
        "writes",
    )

    def __init__(self, config: TransactionConfig, coordinator_epoch: int) -> None:
        self.config = config
        self.coordinator_epoch = coordinator_epoch
        self.now = Instant(0, 0)
        self.transactions: dict[str, Transaction] = {}
        self.deadlines = Deadlines()
        self.writes = PendingWrites(config.write_timeout_ms)
        self.producer_ids = ProducerIdWaits(config.write_timeout_ms)
        self.additions = WaitingAdditions(config.addition_wait_ms)
        self.ready: list[Work] = []

    def respond(self, token: RequestToken, result: Result) -> None:
        """Answer a request."""
        self.ready.append(Respond(token, result))

    def append(self, records: Sequence[LogRecord], effect: OnEnd, answer: OnEnd | None) -> None:
        """Have records written, and then do and say what follows."""
        token = self.writes.open(self.now.now_ms, effect, answer)
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
