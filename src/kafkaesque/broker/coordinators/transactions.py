"""The transaction coordinators on this broker, and how partitions' leaders ask them.

One coordinator lives in each partition of the transaction log that this broker leads. Clients come
to it themselves. A leader that gets the first batch of a transaction asks it, wherever it is,
whether that partition takes part, or has it added (KIP-890).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from kafkaesque.broker.controller.producer_ids import ProducerIds
from kafkaesque.broker.coordinators.marker_writer import MarkerWriter
from kafkaesque.broker.coordinators.table_host import TableKind
from kafkaesque.broker.coordinators.table_hosts import TableHosts, TableServices
from kafkaesque.broker.coordinators.transaction_host import Answer, TransactionHost, Wanted
from kafkaesque.broker.coordinators.transaction_leaders import TransactionLeaders
from kafkaesque.broker.metadata.records import TopicDeleted
from kafkaesque.broker.metadata.topic_names import TRANSACTIONS_TOPIC
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import AddedToTransaction, AddToTransaction
from kafkaesque.broker.requests.desk import RequestDesk
from kafkaesque.model.errors import InvariantBroken, LeaderNotAvailable
from kafkaesque.model.ids import NodeId, TopicId, TopicPartition
from kafkaesque.model.log_line import LogLine
from kafkaesque.transactions.config import TransactionConfig
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import (
    NO_CONNECTION,
    AddedPartitions,
    AddPartitions,
    InitProducerId,
    ListTransactions,
    MarkersWritten,
    Request,
)
from kafkaesque.transactions.results import (
    AddOffsetsResult,
    AddPartitionsResult,
    ConfirmPartitions,
    EndResult,
    ForceAbortResult,
    InitResult,
    ListedTransaction,
    ListResult,
    NeedProducerId,
    WriteMarkers,
)
from kafkaesque.transactions.table import TransactionTable

#: A coordinator has so long to confirm a transaction; the client repeats its batch.
CONFIRM_TIMEOUT_MS = 5_000
#: And so long, within that, to hear of the topic.
METADATA_TIMEOUT_MS = 1_000

#: What clients are told who are to come again, perhaps elsewhere.
_PASSING = (
    TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
    TransactionError.COORDINATOR_NOT_AVAILABLE,
    TransactionError.NOT_COORDINATOR,
    TransactionError.CONCURRENT_TRANSACTIONS,
)

OnError = Callable[[TransactionError], None]


class TransactionCoordinators(
    TableHosts[TransactionTable, Request, MarkersWritten, Answer, Wanted]
):
    """All transaction coordinators of a broker."""

    def __init__(
        self,
        services: TableServices,
        *,
        node: NodeId,
        caller: RemoteCaller,
        producer_ids: ProducerIds,
        partition_leaders: TransactionLeaders,
    ) -> None:
        self._node = node
        self._caller = caller
        self._producer_ids = producer_ids
        self._partition_leaders = partition_leaders
        kind: TableKind[TransactionTable, Request, MarkersWritten, Answer, Wanted] = TableKind(
            topic=TRANSACTIONS_TOPIC,
            what="transactions",
            partition_count_option="transaction.state.log.num.partitions",
            replication_factor_option="transaction.state.log.replication.factor",
            segment_bytes_option="transaction.state.log.segment.bytes",
            make_table=lambda partition: TransactionTable(self.config(), partition.leader_epoch),
            step=TransactionTable.step,
            take_ready=TransactionTable.take_ready,
            is_loading=TransactionError.COORDINATOR_LOAD_IN_PROGRESS,
            not_coordinator=TransactionError.NOT_COORDINATOR,
            not_available=TransactionError.COORDINATOR_NOT_AVAILABLE,
            perform=self._perform,
            on_event=lambda _: None,
            is_final=_is_final,
        )
        super().__init__(services, kind)
        #: Those with markers that are not written yet, oldest first.
        self._writers: dict[MarkerWriter, None] = {}

    def list_transactions(
        self, make_event: Callable[[], ListTransactions], on_done: Callable[[ListResult], None]
    ) -> None:
        """List the transactional ids that this broker coordinates."""

        def on_results(results: list[Answer] | None) -> None:
            if results is None:
                on_done(ListResult(error=TransactionError.COORDINATOR_LOAD_IN_PROGRESS))
                return
            found = [result for result in results if isinstance(result, ListResult)]
            on_done(
                ListResult(
                    error=TransactionError.NONE,
                    transactions=tuple(each for result in found for each in result.transactions),
                    unknown_states=found[0].unknown_states if found else (),
                )
            )

        self.ask_all(make_event, on_results)

    def list_whole(
        self,
        make_event: Callable[[], ListTransactions],
        on_done: Callable[[list[ListedTransaction], list[int]], None],
    ) -> None:
        """List them, with the partitions of the transaction log that the list is whole of.

        Those were led here, and loaded, for some time after this was called, as a majority has
        confirmed: what they do not list, they did not coordinate then, and nobody else did.
        """
        hosts = [each for each in self.all() if each.is_loaded]
        listed: list[ListedTransaction] = []
        covers: list[int] = []
        left = len(hosts) + 1

        def on_one() -> None:
            nonlocal left
            left -= 1
            if left == 0:
                on_done(listed, sorted(covers))

        def on_confirmed(host: TransactionHost, is_leader: bool) -> None:
            if is_leader:
                covers.append(host.partition.state.partition)
            on_one()

        def on_result(host: TransactionHost, result: Answer) -> None:
            replica = host.partition.replica
            if not isinstance(result, ListResult) or replica is None:
                on_one()
                return
            listed.extend(result.transactions)
            replica.confirm(partial(on_confirmed, host))

        for host in hosts:
            host.step(make_event(), partial(on_result, host))
        on_one()

    def on_topic_deleted(self, record: TopicDeleted) -> None:
        """A topic is gone: who waits to write a marker there need not wait longer."""

        def tell() -> None:
            for writer in list(self._writers):
                writer.on_topic_deleted(record.name)

        # Not within the controller's turn: tables append to other groups' logs.
        self._clock.call_soon(tell)

    # -- for partitions' leaders

    def register(self, desk: RequestDesk) -> None:
        """Have the requests of other brokers served."""
        desk.register(AddToTransaction, lambda _, request, done: self.serve(request, done))

    def confirm(self, request: AddToTransaction, on_error: OnError) -> None:
        """Ask whether a partition takes part in a transaction, or have it added.

        `on_error` gets NONE for yes. Where the coordinator cannot be asked it gets what clients
        repeat: COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.
        """
        # The first who asks waits until there is a topic to keep transactions in.
        keys = (request.transactional_id,)
        self.when_found(keys, lambda: self._confirm_now(request, on_error))

    def _confirm_now(self, request: AddToTransaction, on_error: OnError) -> None:
        try:
            where = self.find(request.transactional_id)
        except LeaderNotAvailable:
            on_error(TransactionError.COORDINATOR_NOT_AVAILABLE)
            return
        leader = self._leaders.leader(self._metadata.state.partition(where).group)
        if leader is None:
            on_error(TransactionError.COORDINATOR_NOT_AVAILABLE)
        elif leader == self._node:
            self.serve(request, lambda added: on_error(TransactionError[added.error]))
        else:
            self._caller.ask(
                leader,
                request,
                AddedToTransaction,
                CONFIRM_TIMEOUT_MS,
                lambda outcome: on_error(_error_of(outcome)),
            )

    def serve(
        self, request: AddToTransaction, on_done: Callable[[AddedToTransaction], None]
    ) -> None:
        """Answer another broker's `confirm`.

        A topic that this broker does not know yet takes part in nothing: the markers would go to
        an earlier one of its name, if there is a leader that does not know of its end either.
        """

        def on_metadata(_: bool) -> None:
            if self._knows_topic(request):
                self._serve_now(request, on_done)
            else:
                on_done(AddedToTransaction(TransactionError.COORDINATOR_NOT_AVAILABLE.name))

        if self._knows_topic(request):
            self._serve_now(request, on_done)
        else:
            self._metadata.when_current(METADATA_TIMEOUT_MS, on_metadata)

    def _knows_topic(self, request: AddToTransaction) -> bool:
        given = TopicId(request.topic_id)
        return not given or self._metadata.state.owner(given) is not None

    def _serve_now(
        self, request: AddToTransaction, on_done: Callable[[AddedToTransaction], None]
    ) -> None:
        added = AddedPartitions(
            request.transactional_id,
            request.producer_id,
            request.producer_epoch,
            (TopicPartition(request.topic, request.partition),),
            verify_only=request.verify_only,
        )
        event = AddPartitions(
            token=self.next_token(), connection=NO_CONNECTION, transactions=(added,)
        )

        def on_result(result: Answer) -> None:
            if isinstance(result, AddPartitionsResult):
                error = result.transactions[0].partitions[0].error
            elif isinstance(result, TransactionError):
                error = result
            else:
                raise InvariantBroken(f"a confirmation was answered with {result}")
            on_done(AddedToTransaction(error.name))

        self.step(request.transactional_id, event, on_result)

    # -- what the tables want done

    def step(self, key: str, event: Request, on_result: Callable[[Answer], None]) -> None:
        """Bring a request to the coordinator on this broker, and tell whom it shuts out."""
        if isinstance(event, InitProducerId):
            on_result = self._telling(event.transactional_id, on_result)
        super().step(key, event, on_result)

    def _telling(
        self, transactional_id: str, on_result: Callable[[Answer], None]
    ) -> Callable[[Answer], None]:
        def on_begun(result: Answer) -> None:
            if isinstance(result, InitResult) and result.producer_epoch > 0:
                sentence = (
                    f"transactional id {transactional_id}: epoch {result.producer_epoch} begins, "
                    "and producers with earlier epochs are fenced"
                )
                self._reports.info(
                    LogLine(
                        "producer.fenced",
                        sentence,
                        transactional_id=transactional_id,
                        producer_id=result.producer_id,
                        epoch=result.producer_epoch,
                    )
                )
            on_result(result)

        return on_begun

    def _perform(self, host: TransactionHost, item: Wanted) -> None:
        match item:
            case NeedProducerId():
                self._fetch_producer_id(host, item)
            case WriteMarkers():
                writer = MarkerWriter(
                    host,
                    item,
                    self._writers.pop,
                    clock=self._clock,
                    metadata=self._metadata,
                    leaders=self._partition_leaders,
                )
                self._writers[writer] = None
                writer.start()
            case ConfirmPartitions():
                self._partition_leaders.tell(item, host.partition.leader_epoch)

    def _fetch_producer_id(self, host: TransactionHost, need: NeedProducerId) -> None:
        def on_id(outcome: object) -> None:
            producer_id = outcome if isinstance(outcome, int) else None
            # Not within the table's turn.
            self._clock.call_soon(
                lambda: host.run(
                    lambda table, now: table.on_producer_id(need.token, producer_id, now)
                )
            )

        self._producer_ids.allocate(on_id)

    def config(self) -> TransactionConfig:
        """Return the options in force for tables that are made from now on."""
        option = self._options.get
        return TransactionConfig(
            transaction_timeout_ms_max=int(option("transaction.max.timeout.ms")),
            transactional_id_expiration_ms=int(option("transactional.id.expiration.ms")),
            expiration_check_interval_ms=int(
                option("transaction.remove.expired.transaction.cleanup.interval.ms")
            ),
        )


def _is_final(result: Answer) -> bool:
    """Return whether a producer acts upon an answer for good; lists are for people."""
    match result:
        case InitResult() | AddOffsetsResult() | EndResult() | ForceAbortResult():
            return result.error not in _PASSING
        case AddPartitionsResult():
            errors = (part.error for each in result.transactions for part in each.partitions)
            return any(error not in _PASSING for error in errors)
        case _:
            return False


def _error_of(outcome: object) -> TransactionError:
    if isinstance(outcome, AddedToTransaction) and outcome.error in TransactionError.__members__:
        return TransactionError[outcome.error]
    return TransactionError.COORDINATOR_NOT_AVAILABLE
