"""The leaders of a transaction's partitions, here or elsewhere: what a coordinator asks of them.

They write the markers once the transaction is decided. And they are told that it is under way in
their partitions: a leader that gets the first batch of a transaction asks the coordinator whether
that partition takes part (KIP-890). Where the coordinator has just committed that it does, and the
client is told, the leaders are told as well, and seldom have to ask. Nothing depends on it: what
gets lost is asked for.

A word that comes late must not open what has ended meanwhile. From one coordinator it cannot come
after the marker, for the same reason for which no marker can (see `marker_writer`); after a newer
coordinator's marker it is known by its epoch. And it counts for one leadership of the partition, of
the topic that the coordinator means.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.peers.messages import LeaderReport
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import (
    ConfirmTransaction,
    Done,
    LedPartition,
    ProduceResult,
    WriteMarker,
)
from kafkaesque.broker.requests.desk import OnServed, RequestDesk
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.errors import (
    NotEnoughReplicasAfterAppend,
    RequestRefused,
    UnknownTopicId,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import GroupId, NodeId, TopicPartition
from kafkaesque.transactions.results import ConfirmPartitions

#: A leader has so long to commit a marker before it is asked again.
MARKER_TIMEOUT_MS = 5_000
#: After this nobody cares any more whether leaders were told.
CONFIRM_TIMEOUT_MS = 5_000


class TransactionLeaders:
    """See the module; `serve_…` is what another broker's coordinator asks of this one."""

    def __init__(
        self,
        *,
        node: NodeId,
        clock: Clock,
        metadata: MetadataView,
        leaders: LeadersTable,
        caller: RemoteCaller,
        partitions: PartitionTable,
    ) -> None:
        self._node = node
        self._clock = clock
        self._metadata = metadata
        self._leaders = leaders
        self._caller = caller
        self._partitions = partitions

    def register(self, desk: RequestDesk) -> None:
        """Have the requests of other brokers served."""

        def confirm(_: NodeId, request: ConfirmTransaction, on_done: OnServed) -> None:
            self.serve_confirmation(request)
            on_done(Done())

        desk.register(WriteMarker, lambda _, request, done: self.serve_marker(request, done))
        desk.register(ConfirmTransaction, confirm)

    def report(self, group: GroupId) -> LeaderReport | None:
        """Return who leads a group and in which term; None where that broker is not heard of."""
        report = self._leaders.get(group)
        is_heard = report is not None and report.leader == self._leaders.leader(group)
        return report if is_heard else None

    def write_marker(
        self, leader: int, request: WriteMarker, on_outcome: Callable[[object], None]
    ) -> None:
        """Ask a leader for a marker; `on_outcome` gets `Done` once it is committed."""
        if leader == self._node:
            # Not within the table's turn.
            self._clock.call_soon(lambda: self.serve_marker(request, on_outcome))
        else:
            self._caller.ask(NodeId(leader), request, Done, MARKER_TIMEOUT_MS, on_outcome)

    def tell(self, added: ConfirmPartitions, coordinator_epoch: int) -> None:
        """Tell each leader of partitions that were added, as far as leaders are known."""
        by_leader: dict[NodeId, list[LedPartition]] = {}
        for where in added.partitions:
            try:
                state = self._metadata.state.placed(where)
            except UnknownTopicOrPartition:
                continue
            report = self.report(state.group)
            if report is not None:
                by_leader.setdefault(NodeId(report.leader), []).append(
                    LedPartition(
                        topic=where.topic,
                        topic_id=state.topic_id,
                        partition=where.partition,
                        leader_epoch=report.term,
                    )
                )
        for leader, partitions in by_leader.items():
            request = ConfirmTransaction(
                transactional_id=added.transactional_id,
                producer_id=added.producer_id,
                producer_epoch=added.producer_epoch,
                coordinator_epoch=coordinator_epoch,
                partitions=partitions,
            )
            if leader == self._node:
                self.serve_confirmation(request)
            else:
                self._caller.ask(leader, request, Done, CONFIRM_TIMEOUT_MS, lambda _: None)

    def _find(self, where: TopicPartition) -> Partition:
        state = self._metadata.state.placed(where)
        return self._partitions.find_log(state.topic_id, state.partition)

    def serve_confirmation(self, request: ConfirmTransaction) -> None:
        """Take note for the partitions that are led here as the coordinator believes."""
        for each in request.partitions:
            try:
                partition = self._find(TopicPartition(each.topic, each.partition))
                partition.check_leader(each.leader_epoch)
            except RequestRefused:
                continue
            if each.topic_id not in (b"", partition.state.topic_id):
                continue
            partition.producers.confirm_transaction(
                request.producer_id,
                request.producer_epoch,
                request.coordinator_epoch,
                request.transactional_id,
            )

    def serve_marker(self, request: WriteMarker, on_done: Callable[[object], None]) -> None:
        """Write a marker into a partition led here; `on_done` gets `Done` when it is committed."""

        def on_produced(outcome: ProduceResult | RequestRefused) -> None:
            is_written = not isinstance(outcome, RequestRefused)
            is_written = is_written or isinstance(outcome, NotEnoughReplicasAfterAppend)
            on_done(Done() if is_written else outcome)

        try:
            where = TopicPartition(request.topic, request.partition)
            partition = self._find(where)
            if request.topic_id not in (b"", partition.state.topic_id):
                raise UnknownTopicId(f"the marker is for another topic named {request.topic!r}")
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
