"""All queues whose logs are on this broker.

Once a second is looked after those queues in which something has begun: their logs have grown,
messages were read, consumers are attached or awaited, options do not hold yet. A queue is looked
after until nothing of that is left. When the metadata have changed, all are, once: options may be
others. So a queue that nobody uses costs nothing.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, TypeVar

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import ClusterState, PartitionState, QueueState
from kafkaesque.broker.metadata.queue_names import share_group_of
from kafkaesque.broker.metadata.topic_names import QUEUE_LOG_PREFIX
from kafkaesque.broker.partitions.batch_checks import BatchChecks
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.queues import leader
from kafkaesque.broker.queues.counting import count
from kafkaesque.broker.queues.cursor_host import CursorHost
from kafkaesque.broker.queues.damages import Damages
from kafkaesque.broker.queues.host import HostParts, QueueHost
from kafkaesque.broker.queues.memory_log import Memory
from kafkaesque.broker.queues.put_batches import NewestBatches, PutBatches
from kafkaesque.broker.queues.putting import OnPut, Putting
from kafkaesque.broker.queues.referenced_bodies import ReferencedLogs
from kafkaesque.broker.queues.transient_host import TransientHost
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    ConsumerName,
    ExtendWaits,
    PutMessages,
    QueueCounts,
)
from kafkaesque.broker.requests.retries import OnOutcome
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import InvalidRequest, NotLeader, RequestRefused, UnknownQueue
from kafkaesque.model.ids import GroupId, NodeId, Offset, TopicId
from kafkaesque.queues import requests as r
from kafkaesque.queues.arrival import Arrivals
from kafkaesque.queues.tally import Tally

#: How often logs are looked at that may give something up, and consumers that may be gone.
SWEEP_MS: Final = 1_000
#: Consumers of a broker that nobody hears of are gone after this.
LOST_MS: Final = 10_000

ResultT = TypeVar("ResultT")


class Led(NamedTuple):
    """A part of a queue that this broker leads; a queue over a topic has several."""

    queue: QueueState
    partition: int
    #: None: it begins to be served here.
    counts: QueueCounts | None


class QueueHosts:
    """Opens a table for each queue's log, and finds it."""

    def __init__(
        self,
        *,
        node: NodeId,
        incarnation: int,
        clock: Clock,
        disk: Disk,
        metadata: MetadataView,
        peers: PeerNetwork,
        partitions: PartitionTable,
        forwarder: Forwarder,
        checks: BatchChecks,
        on_start_wanted: Callable[[GroupId, Offset], None],
        reports: Reports,
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._clock = clock
        self._metadata = metadata
        self._peers = peers
        self._partitions = partitions
        self._on_start_wanted = on_start_wanted
        self._hosts: dict[tuple[TopicId, int], QueueHost] = {}
        #: Logs that have grown since they were looked at.
        self._changed: dict[QueueHost, None] = {}
        #: Those that the next sweep looks after.
        self._begun: dict[QueueHost, None] = {}
        #: The metadata, and their version, of which all were told.
        self._known: tuple[ClusterState, int] | None = None
        self._swept_ms = clock.now_ms()
        #: Consumers of this broker's that are to be told when another one takes their place.
        self.taken_over: Final[dict[ConsumerName, Callable[[], None]]] = {}
        #: Called with a queue that is led here when a consumer of it is gone with its broker.
        self.on_consumer_lost: Callable[[QueueState], None] = _nobody_cares
        #: What queues in this broker's memory hold together.
        self.memory: Final = Memory()
        #: What clients' queues have done here since the broker's start.
        self.tally: Final = Tally()
        #: Appends dead letters; there once all parts are.
        self.on_move: Callable[[QueueHost, r.Move], None] = _expect_no_move
        damages = Damages(clock, partitions, reports.error)
        self._parts = HostParts(
            clock=clock,
            disk=disk,
            metadata=metadata,
            partitions=partitions,
            forwarder=forwarder,
            referenced=ReferencedLogs(metadata, forwarder, damages),
            damages=damages,
            checks=checks,
            batches=PutBatches(),
            arrivals=Arrivals(),
            newest=NewestBatches(),
            on_move=lambda host, move: self.on_move(host, move),
            on_changed=self._note_changed,
            on_begun=self._note_begun,
            tally=self.tally,
            reports=reports,
        )
        partitions.table_kinds.append(self)

    # -- see `PartitionTableKinds`

    def is_for(self, state: PartitionState) -> bool:
        return state.topic.startswith(QUEUE_LOG_PREFIX)

    def make_host(self, clock: Clock, state: PartitionState) -> QueueHost:
        found = self._metadata.state.queues_by_log.get(state.topic_id)
        is_cursor = found is not None and found.source is not None
        host = CursorHost(state, self._parts) if is_cursor else QueueHost(state, self._parts)
        self._hosts[state.topic_id, state.partition] = host
        return host

    def on_removed(self, partition: Partition) -> None:
        """A partition is here no more."""
        state = partition.state
        host = self._hosts.pop((state.topic_id, state.partition), None)
        if host is not None:
            self._forget(host)

    def on_leadership(self, partition: Partition) -> None:
        """A partition has another leader."""
        host = self._hosts.get((partition.state.topic_id, partition.state.partition))
        if host is not None:
            host.configure()

    # -- requests

    def find(self, log_id: TopicId, partition: int) -> QueueHost | None:
        """Return the table of a queue's log, if the log is on this broker.

        Raises:
            UnknownQueue: it was in this broker's memory, before it was started again.
        """
        host = self._hosts.get((log_id, partition))
        return self._transient(log_id) if host is None and not partition else host

    def _transient(self, log_id: TopicId) -> QueueHost | None:
        """Return a queue that is in this broker's memory, from when it is first asked for."""
        queue = self._metadata.state.queues_by_log.get(log_id)
        if queue is None or queue.home is None or queue.home.node != self._node:
            return None
        if queue.home.incarnation != self._incarnation:
            raise UnknownQueue(
                f"queue {queue.queue} was in the memory of a broker that has stopped"
            )
        host = TransientHost(queue.partitions[0], self._parts, self.memory)
        self._hosts[log_id, 0] = host
        self._begun[host] = None
        return host

    def is_lost(self, queue: QueueState) -> bool:
        """Tell whether a queue was in the memory of a broker that is not heard of any more."""
        home = queue.home
        if home is None or home.node == self._node:
            return False
        return self._peers.is_gone(NodeId(home.node), LOST_MS)

    def serve(self, request: AnyQueueRequest, on_done: Callable[[object], None]) -> None:
        """Do what another broker asks for; `on_done` gets refusals, too."""
        try:
            host = self.find(TopicId(request.log_id), request.partition)
        except RequestRefused as refusal:
            on_done(refusal)
            return
        if host is None:
            on_done(NotLeader("the queue's log is not on this broker"))
        else:
            leader.serve(host, self._parts, request, on_done)

    def put_here(self, request: PutMessages, on_done: OnPut) -> bool:
        """Append messages; tell whether they have their place: what is put next comes behind them.

        Raises:
            RequestRefused: nothing was appended.
        """
        host = self.find(TopicId(request.log_id), request.partition)
        if host is None:
            raise NotLeader("the queue's log is not on this broker")
        return Putting(host, self._parts, request, on_done).begin()

    def serve_here(
        self, request: AnyQueueRequest, result_type: type[ResultT], on_done: OnOutcome[ResultT]
    ) -> None:
        """Do what this broker asks for itself."""

        def on_served(outcome: object) -> None:
            if isinstance(outcome, result_type | RequestRefused):
                on_done(outcome)
            else:
                on_done(InvalidRequest(f"{type(request).__name__} is not answered so"))

        self.serve(request, on_served)

    def extend_waits(self, request: ExtendWaits) -> None:
        """Let those who wait for messages of queues that are led here wait longer."""
        for log_id, name, wait_ms in request.waits:
            host = self._hosts.get((TopicId(log_id), 0))
            if host is not None:
                host.extend_wait(name, wait_ms)

    def take_over(self, consumer: ConsumerName) -> None:
        """Tell a consumer of this broker's that another one takes its place."""
        on_taken_over = self.taken_over.pop(consumer, None)
        if on_taken_over is not None:
            on_taken_over()

    def led(self) -> Iterator[Led]:
        """Return the parts of queues that are led here, with what is there; not share groups'.

        What changes meanwhile may be seen or not.
        """
        queues = self._metadata.state.queues_by_log
        for topic_id, number in list(self._hosts):
            found = queues.get(topic_id)
            if found is not None and share_group_of(found.queue) is None:
                yield from self._led(found, number)

    def led_of(self, queue: QueueState) -> list[Led]:
        """Return the parts of a queue that are led here, with what is there."""
        return [each for part in queue.partitions for each in self._led(queue, part.partition)]

    def messages_end(self, log_id: TopicId, number: int) -> Offset | None:
        """Return the offset after the last message that has come to a part of a queue.

        None where that is not known here. It may not be committed yet.
        """
        host = self._hosts.get((log_id, number))
        is_known = host is not None and host.queue.is_based
        return Offset(host.queue.state.end) if host is not None and is_known else None

    def _led(self, queue: QueueState, number: int) -> list[Led]:
        host = self._hosts.get((queue.topic_id, number))
        if host is None or not host.is_led:
            return []
        try:
            return [Led(queue, number, count(host))]
        except RequestRefused:
            return [Led(queue, number, None)]

    # -- every now and then

    def on_sweep(self, now_ms: int) -> None:
        """Give up what queues do not need; let consumers be gone whose brokers are."""
        if now_ms < self._swept_ms + SWEEP_MS:
            return
        self._swept_ms = now_ms
        self._follow_metadata()
        changed, self._changed = self._changed, {}
        for host in changed:
            self._give_up(host)
        looked_after, self._begun = {**self._begun, **changed}, {}
        gone: dict[tuple[int, int], bool] = {}
        for host in looked_after:
            is_configured = host.configure()
            if host not in changed:
                # Many queues may be idle: they keep nothing for those who come next.
                host.bodies.forget()
            self._detach_gone(host, gone)
            is_awaited = host.consumers or host.queue.absent_sessions
            if host in changed or is_awaited or not is_configured:
                self._begun[host] = None

    def _follow_metadata(self) -> None:
        """Look after all queues once, if the metadata have changed: options may be others."""
        state = self._metadata.state
        if self._known is not None and self._known[0] is state and self._known[1] == state.version:
            return
        self._known = state, state.version
        self._forget_deleted()
        self._begun.update(dict.fromkeys(self._hosts.values()))

    def _detach_gone(self, host: QueueHost, gone: dict[tuple[int, int], bool]) -> None:
        for consumer in [each for each in host.consumers if self._is_gone(each, gone)]:
            self._detach(host, consumer)
        # Those that a broker had which died with the last leader need not be waited for.
        for session in host.queue.absent_sessions:
            absent = leader.consumer_of(session)
            if absent is not None and self._is_gone(absent, gone):
                self._detach(host, absent)

    def _forget_deleted(self) -> None:
        """Let queues go that were in this broker's memory and were deleted."""
        queues = self._metadata.state.queues_by_log
        for key, host in list(self._hosts.items()):
            if isinstance(host, TransientHost) and key[0] not in queues:
                del self._hosts[key]
                self._forget(host)

    def _forget(self, host: QueueHost) -> None:
        host.on_following()
        self._changed.pop(host, None)
        self._begun.pop(host, None)

    def _note_begun(self, host: QueueHost) -> None:
        self._begun[host] = None

    def _note_changed(self, host: QueueHost) -> None:
        self._changed[host] = None

    def _give_up(self, host: QueueHost) -> None:
        partition = self._partitions.get(host.state.group)
        if partition is None or not partition.is_leader:
            return
        kept_from = partition.kept_from_offset
        if kept_from is None:
            return
        # Whole segments only: each step of a log's start is told to all its replicas.
        start = partition.log.retention_candidate(
            self._clock.wall_ms(), 0, -1, min(kept_from, partition.settled_offset)
        )
        if start is not None:
            self._on_start_wanted(host.state.group, start)

    def _is_gone(self, consumer: ConsumerName, gone: dict[tuple[int, int], bool]) -> bool:
        """Whether the broker that a consumer is connected with is another process now, or lost."""
        key = consumer.node, consumer.incarnation
        if key not in gone:
            node = NodeId(consumer.node)
            broker = self._metadata.state.brokers.get(node)
            is_other = broker is None or broker.incarnation != consumer.incarnation
            gone[key] = is_other or self._peers.is_gone(node, LOST_MS)
        return gone[key]

    def _detach(self, host: QueueHost, consumer: ConsumerName) -> None:
        host.consumers.pop(consumer, None)
        host.note_use()
        token, session = host.new_token(), leader.session_of(consumer)
        host.ask(r.Detach(token=token, session=session), lambda _: self._tell_lost(host))

    def _tell_lost(self, host: QueueHost) -> None:
        queue = self._metadata.state.queues_by_log.get(host.state.topic_id)
        if queue is not None:
            self.on_consumer_lost(queue)


def _nobody_cares(_: QueueState) -> None:
    """No gateway has queues that go with their consumers."""


def _expect_no_move(_: QueueHost, __: r.Move) -> None:
    """Nothing is led before all parts are there."""
