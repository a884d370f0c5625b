"""Has the markers of a decided transaction written by the leaders of its partitions.

Theory of operation. Each partition's marker is asked of whoever leads it, again and again until the
leader says that it is committed, the partition is gone, or this coordinator has been replaced. A
copy that is late must not end a later transaction of the same producer, so none is left on its way
when one has succeeded: requests to one broker arrive in order, a broken link's unread requests are
dropped when the next link greets, and every request names the leader epoch that it is meant for.
"""

from typing import TYPE_CHECKING

from kafkaesque.broker.commands import Done, ProduceResult, WriteMarker
from kafkaesque.broker.partition import Partition
from kafkaesque.broker.table_host import TableHost
from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.errors import (
    InvalidProducerEpoch,
    NotEnoughReplicasAfterAppend,
    RequestRefused,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.transactions.events import MarkerOutcome, MarkersWritten
from kafkaesque.transactions.results import WriteMarkers
from kafkaesque.transactions.table import TransactionTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkaesque.broker.broker import Broker

#: A leader has so long to commit a marker before it is asked again.
MARKER_TIMEOUT_MS = 5_000
RETRY_MS_MIN = 20
RETRY_MS_MAX = 1_000
#: A partition that this broker's metadata has not known for so long is gone: metadata may lag.
GONE_MS = 30_000


class MarkerWriter:
    """The markers of one transaction."""

    def __init__(
        self, broker: "Broker", host: TableHost[TransactionTable], work: WriteMarkers
    ) -> None:
        self._broker = broker
        self._clock = broker.env.clock
        self._host = host
        self._work = work
        self._begun_ms = self._clock.now_ms()

    def start(self) -> None:
        """Ask for every partition's marker; the table is told of each that is written."""
        for where in self._work.partitions:
            self._send(where, RETRY_MS_MIN)

    def _send(self, where: TopicPartition, retry_ms: int) -> None:
        if self._host.is_closed:
            return

        def on_outcome(outcome: object) -> None:
            done = _outcome_of(outcome)
            if done is None:
                self._send_later(where, retry_ms)
            else:
                self._tell(where, done)

        try:
            state = self._broker.state.partition(where)
        except UnknownTopicOrPartition:
            if self._clock.now_ms() - self._begun_ms >= GONE_MS:
                self._tell(where, MarkerOutcome.PARTITION_GONE)
            else:
                self._send_later(where, retry_ms)
            return
        report = self._broker.leaders.get(state.group)
        leader = self._broker.leaders.leader(state.group)
        if report is None or leader is None:
            self._send_later(where, retry_ms)
            return
        work = self._work
        request = WriteMarker(
            topic=where.topic,
            partition=where.partition,
            leader_epoch=report.term,
            producer_id=work.producer_id,
            producer_epoch=work.producer_epoch,
            is_epoch_bumped=work.is_epoch_bumped,
            coordinator_epoch=work.coordinator_epoch,
            is_commit=work.is_commit,
        )
        self._ask(leader, request, on_outcome)

    def _ask(
        self, leader: NodeId, request: WriteMarker, on_outcome: "Callable[[object], None]"
    ) -> None:
        broker = self._broker
        if leader == broker.node:
            # Not within the table's turn.
            self._clock.call_soon(lambda: serve_marker(broker, request, on_outcome))
        else:
            broker.caller.ask(leader, request, Done, MARKER_TIMEOUT_MS, on_outcome)

    def _send_later(self, where: TopicPartition, retry_ms: int) -> None:
        self._clock.call_later(retry_ms, lambda: self._send(where, min(2 * retry_ms, RETRY_MS_MAX)))

    def _tell(self, where: TopicPartition, outcome: MarkerOutcome) -> None:
        self._host.notify(
            MarkersWritten(
                token=self._work.token,
                transactional_id=self._work.transactional_id,
                partition=where,
                outcome=outcome,
            )
        )


def _outcome_of(outcome: object) -> MarkerOutcome | None:
    """Return what became of a marker, or None if it is to be asked for again."""
    match outcome:
        case Done():
            return MarkerOutcome.WRITTEN
        case TransactionCoordinatorFenced():
            return MarkerOutcome.COORDINATOR_FENCED
        case InvalidProducerEpoch():
            # The producer has a later epoch there: nothing of this one can be open.
            return MarkerOutcome.WRITTEN
        case _:
            return None


def serve_marker(
    broker: "Broker", request: WriteMarker, on_done: "Callable[[object], None]"
) -> None:
    """Write a marker into a partition led here; `on_done` gets `Done` when it is committed."""

    def on_produced(outcome: ProduceResult | RequestRefused) -> None:
        is_written = not isinstance(outcome, RequestRefused)
        is_written = is_written or isinstance(outcome, NotEnoughReplicasAfterAppend)
        on_done(Done() if is_written else outcome)

    try:
        where = TopicPartition(request.topic, request.partition)
        partition: Partition = broker.partition(where)
        partition.check_leader(request.leader_epoch)
        partition.append_marker(
            EndMarker(
                type=MarkerType.COMMIT if request.is_commit else MarkerType.ABORT,
                coordinator_epoch=request.coordinator_epoch,
            ),
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            is_epoch_bumped=request.is_epoch_bumped,
            timeout_ms=MARKER_TIMEOUT_MS,
            on_done=on_produced,
        )
    except RequestRefused as refusal:
        on_done(refusal)
