"""Has the markers of a decided transaction written by the leaders of its partitions.

Theory of operation. Each partition's marker is asked of whoever leads it, again and again until the
leader says that it is committed, the partition is gone, or this coordinator has been replaced. A
copy that is late must not end a later transaction of the same producer, so none is left on its way
when one has succeeded: requests to one broker arrive in order, a broken link's unread requests are
dropped when the next link greets, and every request names the leader epoch that it is meant for.

A partition is gone if this broker's metadata, once they are as new as the decision, do not know it:
before that they may lag behind the topic's creation. A topic of the same name that is there instead
gets the marker, as records of the transaction may be in it. If there are none, it does no harm: the
producer's next transaction begins after that. No topic gets a marker that was meant for the one
before it: requests name the topic's id, too, as leader epochs begin anew in each.
"""

from collections.abc import Callable

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.coordinators.transaction_host import TransactionHost
from kafkaesque.broker.coordinators.transaction_leaders import TransactionLeaders
from kafkaesque.broker.requests.commands import Done, WriteMarker
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.errors import (
    InvalidProducerEpoch,
    TransactionCoordinatorFenced,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions.events import MarkerOutcome, MarkersWritten
from kafkaesque.transactions.results import WriteMarkers

RETRY_MS_MIN = 20
RETRY_MS_MAX = 1_000
#: So long one wait for metadata that are as new as the decision may take; another one follows.
METADATA_TIMEOUT_MS = 5_000


class MarkerWriter:
    """The markers of one transaction; `on_end` is called when nothing is left to be done."""

    def __init__(
        self,
        host: TransactionHost,
        work: WriteMarkers,
        on_end: "Callable[[MarkerWriter], None]",
        *,
        clock: Clock,
        metadata: MetadataView,
        leaders: TransactionLeaders,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._leaders = leaders
        self._host = host
        self._work = work
        self._on_end = on_end
        self._left = len(work.partitions)
        #: Partitions that are tried again when their time has come.
        self._waiting: dict[TopicPartition, Timer] = {}
        #: Whether the metadata have all that was decided before the transaction was.
        self._is_current = False
        #: Partitions that the metadata do not know, while that is being found out; see `_send`.
        self._unknown: list[tuple[TopicPartition, int]] = []

    def start(self) -> None:
        """Ask for every partition's marker; the table is told of each that is written."""
        for where in self._work.partitions:
            self._send(where, RETRY_MS_MIN)

    def on_topic_deleted(self, topic: str) -> None:
        """A topic of this name is gone: see at once what is there instead, if anything."""
        for where in [each for each in self._waiting if each.topic == topic]:
            self._waiting.pop(where).cancel()
            self._send(where, RETRY_MS_MIN)

    def _send(self, where: TopicPartition, retry_ms: int) -> None:
        """Ask for a marker, and after `retry_ms` again if that was in vain."""
        if self._host.is_closed:
            self._drop()
            return

        def on_outcome(outcome: object) -> None:
            done = _outcome_of(outcome)
            if done is None:
                self._send_later(where, retry_ms)
            else:
                self._tell(where, done)

        try:
            state = self._metadata.state.placed(where)
        except UnknownTopicOrPartition:
            if self._is_current:
                self._tell(where, MarkerOutcome.PARTITION_GONE)
            else:
                self._check_metadata(where, retry_ms)
            return
        report = self._leaders.report(state.group)
        if report is None:
            self._send_later(where, retry_ms)
            return
        work = self._work
        request = WriteMarker(
            topic=where.topic,
            topic_id=state.topic_id,
            partition=where.partition,
            leader_epoch=report.term,
            producer_id=work.producer_id,
            producer_epoch=work.producer_epoch,
            is_epoch_bumped=work.is_epoch_bumped,
            coordinator_epoch=work.coordinator_epoch,
            is_commit=work.is_commit,
        )
        self._leaders.write_marker(report.leader, request, on_outcome)

    def _check_metadata(self, where: TopicPartition, retry_ms: int) -> None:
        """Try again when it is known whether the metadata are as new as the decision.

        All partitions share one wait, and for one writer it need succeed only once.
        """
        self._unknown.append((where, retry_ms))
        if len(self._unknown) == 1:
            self._metadata.when_current(METADATA_TIMEOUT_MS, self._on_metadata)

    def _on_metadata(self, is_current: bool) -> None:
        self._is_current = is_current
        unknown, self._unknown = self._unknown, []
        for where, retry_ms in unknown:
            if is_current:
                self._send(where, retry_ms)
            else:
                self._send_later(where, retry_ms)

    def _send_later(self, where: TopicPartition, retry_ms: int) -> None:
        def on_time() -> None:
            del self._waiting[where]
            self._send(where, min(2 * retry_ms, RETRY_MS_MAX))

        self._waiting[where] = self._clock.call_later(retry_ms, on_time)

    def _drop(self) -> None:
        """Nothing more is done for one of the partitions."""
        self._left -= 1
        if self._left == 0:
            self._on_end(self)

    def _tell(self, where: TopicPartition, outcome: MarkerOutcome) -> None:
        self._drop()
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
