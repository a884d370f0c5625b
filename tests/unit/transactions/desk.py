"""Stands in for the driver of a transaction table: its clock, log, partitions and clients."""

from collections.abc import Sequence
from typing import Any

from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import (
    Append,
    Instant,
    LogRecord,
    RequestToken,
    Respond,
    WriteFailure,
)
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    AddedPartitions,
    AddOffsets,
    AddPartitions,
    DescribeTransactions,
    EndTransaction,
    Event,
    ForceAbort,
    InitProducerId,
    ListTransactions,
    MarkerOutcome,
    MarkersWritten,
)
from kafkaesque.transactions.results import (
    ConfirmPartitions,
    DescribedTransaction,
    EndResult,
    InitResult,
    ListResult,
    NeedProducerId,
    Result,
    WriteMarkers,
)
from kafkaesque.transactions.table import TransactionTable

TXN = "payments"
WALL_MS = 1_700_000_000_000
NONE = TransactionError.NONE
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
OFFSETS = TopicPartition("__consumer_offsets", 7)


class Desk:
    """One table, driven as a broker would, with everything that it wants done noted."""

    def __init__(
        self,
        config: TransactionConfig | None = None,
        *,
        log: Sequence[LogRecord] = (),
        is_active: bool = True,
        coordinator_epoch: int = 1,
        now_ms: int = 5_000,
        first_producer_id: int = 1000,
    ) -> None:
        self.config = config or TransactionConfig()
        self.coordinator_epoch = coordinator_epoch
        self.table = TransactionTable(self.config, coordinator_epoch)
        self.now_ms = now_ms
        self.log: list[LogRecord] = list(log)
        self.asked: list[RequestToken] = []
        self.answers: dict[RequestToken, Any] = {}
        self.holds_writes = False
        self.held: list[Append] = []
        self.holds_markers = False
        self.markers: list[WriteMarkers] = []
        self.written: list[tuple[WriteMarkers, TopicPartition]] = []
        #: What leaders were told: whose transaction, and which partitions.
        self.confirmed: list[tuple[int, int, tuple[TopicPartition, ...]]] = []
        self.holds_ids = False
        self.held_ids: list[NeedProducerId] = []
        self.next_producer_id = first_producer_id
        self.table.restore(log)
        if is_active:
            self.table.activate(self.now)
            self.pump()

    @property
    def now(self) -> Instant:
        return Instant(self.now_ms, WALL_MS + self.now_ms)

    def reopened(self, config: TransactionConfig | None = None, **options: Any) -> "Desk":
        """The next leader's table, from the log."""
        return Desk(
            config or self.config,
            log=self.log,
            coordinator_epoch=self.coordinator_epoch + 1,
            now_ms=self.now_ms,
            first_producer_id=self.next_producer_id,
            **options,
        )

    # --- driving ---

    def ask(self, event: Event) -> Any:
        """Send an event; return the answer, or None while there is none."""
        self.table.step(event, self.now)
        self.pump()
        return self.answers.get(getattr(event, "token", RequestToken(-1)))

    def pump(self) -> None:
        while ready := self.table.take_ready():
            for work in ready:
                match work:
                    case Respond():
                        self._note(work.token, work.result)
                    case Append():
                        self.held.append(work)
                    case NeedProducerId():
                        self.held_ids.append(work)
                    case ConfirmPartitions():
                        self.confirmed.append(
                            (work.producer_id, work.producer_epoch, work.partitions)
                        )
                    case WriteMarkers():
                        assert work.partitions
                        assert work.coordinator_epoch == self.coordinator_epoch
                        self.markers.append(work)
            if not self.holds_ids:
                self.give_ids()
            if not self.holds_writes:
                self.commit_held()
            if not self.holds_markers:
                self.write_markers()

    def commit_held(self, count: int | None = None) -> None:
        while self.held and count != 0:
            append = self.held.pop(0)
            self.log += append.records
            self.table.on_appended(append.token, self.now)
            self.pump()
            count = None if count is None else count - 1

    def fail_held(
        self, failure: WriteFailure = WriteFailure.NOT_ENOUGH_REPLICAS, position: int = 0
    ) -> None:
        self.table.on_append_failed(self.held.pop(position).token, failure, self.now)
        self.pump()

    def give_ids(self) -> None:
        while self.held_ids:
            self.table.on_producer_id(self.held_ids.pop(0).token, self.next_producer_id, self.now)
            self.next_producer_id += 1
            self.pump()

    def refuse_id(self) -> None:
        self.table.on_producer_id(self.held_ids.pop(0).token, None, self.now)
        self.pump()

    def write_markers(self) -> None:
        while self.markers:
            work = self.markers.pop(0)
            for partition in work.partitions:
                self.write_marker(work, partition)

    def write_marker(
        self,
        work: WriteMarkers,
        partition: TopicPartition,
        outcome: MarkerOutcome = MarkerOutcome.WRITTEN,
    ) -> None:
        if outcome is MarkerOutcome.WRITTEN:
            self.written.append((work, partition))
        self.ask(
            MarkersWritten(
                token=work.token,
                transactional_id=work.transactional_id,
                partition=partition,
                outcome=outcome,
            )
        )

    def advance(self, by_ms: int) -> None:
        """Let time pass, with a tick whenever the table wants one."""
        end_ms = self.now_ms + by_ms
        while (deadline_ms := self.table.next_deadline_ms()) is not None and deadline_ms <= end_ms:
            assert deadline_ms >= self.now_ms
            self.now_ms = deadline_ms
            self.table.tick(self.now)
            self.pump()
            assert self.table.next_deadline_ms() != deadline_ms, "the tick did not help"
        self.now_ms = end_ms

    def _note(self, token: RequestToken, result: Result) -> None:
        assert token in self.asked, "an answer that nobody asked for"
        assert token not in self.answers, "a second answer"
        self.answers[token] = result

    def token(self) -> RequestToken:
        token = RequestToken(len(self.asked) + 1)
        self.asked.append(token)
        return token

    # --- clients; each returns the answer, or None while there is none ---

    def init(
        self,
        producer: tuple[int, int] = (-1, -1),
        *,
        transactional_id: str = TXN,
        timeout_ms: int = 60_000,
        connection: int = 1,
    ) -> Any:
        return self.ask(
            InitProducerId(
                token=self.token(),
                connection=connection,
                transactional_id=transactional_id,
                timeout_ms=timeout_ms,
                producer_id=producer[0],
                producer_epoch=producer[1],
            )
        )

    def begun(self, **options: Any) -> tuple[int, int]:
        """Return the producer id and epoch of a producer that has begun."""
        result = self.init(**options)
        assert isinstance(result, InitResult)
        assert result.error is NONE
        return result.producer_id, result.producer_epoch

    def add(
        self,
        producer: tuple[int, int],
        *partitions: TopicPartition,
        transactional_id: str = TXN,
        connection: int = 1,
        verify_only: bool = False,
    ) -> Any:
        """Return the one error of all partitions, or a list of different ones."""
        added = AddedPartitions(transactional_id, *producer, partitions, verify_only)
        result = self.ask(
            AddPartitions(token=self.token(), connection=connection, transactions=(added,))
        )
        if result is None:
            return None
        assert [each.partition for each in result.transactions[0].partitions] == list(partitions)
        errors = [each.error for each in result.transactions[0].partitions]
        return errors[0] if len(set(errors)) == 1 else errors

    def add_offsets(
        self,
        producer: tuple[int, int],
        partition: TopicPartition = OFFSETS,
        *,
        transactional_id: str = TXN,
        connection: int = 1,
    ) -> Any:
        result = self.ask(
            AddOffsets(
                token=self.token(),
                connection=connection,
                transactional_id=transactional_id,
                producer_id=producer[0],
                producer_epoch=producer[1],
                partition=partition,
            )
        )
        return None if result is None else result.error

    def end(
        self,
        producer: tuple[int, int],
        *,
        commit: bool = True,
        learns: bool = False,
        transactional_id: str = TXN,
        connection: int = 1,
    ) -> Any:
        return self.ask(
            EndTransaction(
                token=self.token(),
                connection=connection,
                transactional_id=transactional_id,
                producer_id=producer[0],
                producer_epoch=producer[1],
                is_commit=commit,
                learns_epoch=learns,
            )
        )

    def end_error(self, producer: tuple[int, int], **options: Any) -> TransactionError:
        result = self.end(producer, **options)
        assert isinstance(result, EndResult)
        return result.error

    def ended(self, producer: tuple[int, int], **options: Any) -> tuple[int, int]:
        """Return what the next transaction begins with, of a client that learns it."""
        result = self.end(producer, learns=True, **options)
        assert isinstance(result, EndResult)
        assert result.error is NONE
        return result.producer_id, result.producer_epoch

    def force_abort(self, transactional_id: str = TXN) -> Any:
        result = self.ask(ForceAbort(token=self.token(), transactional_id=transactional_id))
        return None if result is None else result.error

    def describe(self, transactional_id: str = TXN) -> DescribedTransaction:
        event = DescribeTransactions(token=self.token(), transactional_ids=(transactional_id,))
        described = self.ask(event).transactions[0]
        assert isinstance(described, DescribedTransaction)
        return described

    def state(self, transactional_id: str = TXN) -> str:
        return self.describe(transactional_id).state

    def list_all(self, **options: Any) -> ListResult:
        result = self.ask(ListTransactions(token=self.token(), **options))
        assert isinstance(result, ListResult)
        return result

    def listed(self, **options: Any) -> set[str]:
        return {each.transactional_id for each in self.list_all(**options).transactions}

    # --- what has become of it ---

    def marked(self) -> list[tuple[TopicPartition, int, int, bool]]:
        """The markers that are written: where, whose, with which epoch, whether of a commit."""
        return [
            (partition, work.producer_id, work.producer_epoch, work.is_commit)
            for work, partition in self.written
        ]
