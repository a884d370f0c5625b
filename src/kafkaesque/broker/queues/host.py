"""One queue's table on this broker, and those who ask it while its log is led here.

Messages are appended as a producer's batches; the table follows them. Requests are decided at the
end of the turn and answered at the commit. Bodies are read after that, and what does not fit into
the answer is given back as if it had not been attempted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.metadata.queue_sealing import may_go
from kafkaesque.broker.options.queues import make_policy
from kafkaesque.broker.partitions.batch_checks import BatchChecks
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.partitions.partition_tables import (
    PartitionTableHost,
    PartitionTableKind,
    PartitionTables,
)
from kafkaesque.broker.queues.bodies import KEPT_BYTES_MAX, Bodies, OnRead, locate_here
from kafkaesque.broker.queues.damages import Damages
from kafkaesque.broker.queues.disuse import DisuseClock
from kafkaesque.broker.queues.put_batches import NewestBatches, PutBatch, PutBatches
from kafkaesque.broker.queues.queue_log import QueueLog
from kafkaesque.broker.queues.referenced_bodies import ReferencedBodies, ReferencedLogs
from kafkaesque.broker.queues.way_out import WayOut, way_out_of
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.requests.queue_requests import LINGER_MS, WAIT_MS_MAX, ConsumerName
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    NotLeader,
    OverBound,
    QueueInUse,
    RequestRefused,
    UnknownConsumer,
)
from kafkaesque.model.ids import Offset
from kafkaesque.queues import requests as r
from kafkaesque.queues.arrival import Arrivals
from kafkaesque.queues.policy import Policy
from kafkaesque.queues.sent_before import may_have_been_sent
from kafkaesque.queues.state import Undo
from kafkaesque.queues.table import QueueTable
from kafkaesque.queues.tally import Tally
from kafkaesque.tables.log_table import Instant, RequestToken

#: Of the table on its partition. Logs have it: it never changes.
TABLE_NUMBER = 1

#: What is said of lost messages is said so often at most.
LOST_MS = 60_000

Work = r.Deliver | r.Move | r.Activate
OnAnswer = Callable[[r.Answer], None]

_OVER_BOUND = r.Refused(why=r.Refusal.OVER_BOUND)
_NOT_LEADER = r.Refused(why=r.Refusal.NOT_LEADER)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostParts:
    """What all queues of a broker share."""

    clock: Clock
    disk: Disk
    metadata: MetadataView
    partitions: PartitionTable
    forwarder: Forwarder
    #: Topics that have bodies of queues' messages.
    referenced: ReferencedLogs
    #: Told what is damaged there, and in queues' own logs.
    damages: Damages
    checks: BatchChecks
    #: What is put into queues, for those that get the same, and for those who wait for it.
    batches: PutBatches
    arrivals: Arrivals
    newest: NewestBatches
    #: Told of a message that is to be appended to another queue.
    on_move: Callable[["QueueHost", r.Move], None]
    #: Told when a queue's log has grown, or may have become shorter.
    on_changed: Callable[["QueueHost"], None]
    #: Told when something has begun that the sweep is to look after, see `QueueHosts`.
    on_begun: Callable[["QueueHost"], None]
    #: Counts what clients' queues do while they are led here.
    tally: Tally
    reports: Reports


class QueueHost(PartitionTableHost[r.Request, r.Answer, Work, Undo]):
    """See the module."""

    def __init__(self, state: PartitionState, parts: HostParts) -> None:
        kind: PartitionTableKind[r.Request, r.Answer, Work, Undo] = PartitionTableKind(
            number=TABLE_NUMBER,
            is_for=lambda _: True,
            make_table=self._make_table,
            perform=self._perform,
            not_leader=_NOT_LEADER,
            over_bound=_OVER_BOUND,
        )
        self.state = state
        self._parts = parts
        super().__init__(kind, parts.clock)
        self.bodies = self._make_bodies()
        #: Attached here since this broker leads; who is gone is detached.
        self.consumers: dict[ConsumerName, None] = {}
        #: Leaderships of this broker: what was begun in an earlier one is void.
        self.leadership = 0
        #: When somebody last asked for messages, or this broker began to lead.
        self.wanted_ms = parts.clock.now_ms()
        self._disuse = DisuseClock(
            self.new_token, lambda note: self.ask(note, lambda _: self._disuse.on_noted())
        )
        self._token = 0
        #: The queue's options as they were read last, and the policy that they are.
        self._options: Mapping[str, str] | None = None
        self._policy = Policy()
        #: The table's policy, if it is that of the options.
        self._configured: Policy | None = None
        self._is_configuring = False
        #: Messages without a body of which nothing was said yet, and when something was said last.
        self._lost = 0
        self._lost_ms: int | None = None

    def _make_table(self, number: int) -> QueueTable:
        self.queue = QueueTable(number, tally=self._parts.tally, arrivals=self._parts.arrivals)
        return self.queue

    def _make_bodies(self) -> Bodies:
        return ReferencedBodies(self._locate, self._on_damaged, self._parts.referenced)

    def _on_damaged(self, offset: int) -> bool:
        return self._parts.damages.note(self.state, offset)

    def note_begun(self) -> None:
        """Have the next sweeps look after this queue, until nothing is left to do."""
        self._parts.on_begun(self)

    def _locate(self, offset: int, on_read: OnRead) -> None:
        """Read messages, from an offset on."""
        self.note_begun()  # they are kept for a while
        try:
            partition = self._own_partition()
        except RequestRefused as refusal:
            on_read(refusal)
        else:
            locate_here(self._parts.disk, partition, offset, on_read)

    # -- asking the engine

    def keep_put(self, batch: PutBatch, appended: bytearray, *, has_references: bool) -> None:
        """A batch was appended as it is: keep it, if somebody waits for messages.

        Whoever is given them is given them at the commit.
        """
        # What is encrypted is not in memory longer than it has to be.
        if self.queue.is_waited_for and not self._own_partition().config.is_encrypted:
            header = read_batch_header(appended)
            self.note_begun()
            if has_references and len(appended) <= KEPT_BYTES_MAX:
                # What is read of the log is looked through for references.
                self.bodies.take_piece(header.base_offset, bytes(appended))
            self._parts.newest.keep(self.bodies, batch, header)

    def new_token(self) -> RequestToken:
        """Return a name for a request to the engine."""
        self._token += 1
        return RequestToken(self._token)

    def partition(self) -> QueueLog:
        """Return the log, which this broker leads.

        Raises:
            NotLeader: it does not.
            LeaderNotAvailable: it is about to.
            StorageFailed: the disk below has failed.
        """
        return self._own_partition()

    @property
    def is_led(self) -> bool:
        """Whether this broker leads the log, perhaps since a moment ago."""
        partition = self._parts.partitions.get(self.state.group)
        return partition is not None and partition.is_leader

    def _own_partition(self) -> Partition:
        partition = self._parts.partitions.get(self.state.group)
        if partition is None:
            raise NotLeader(f"the queue's log {self.state.topic} is not on this broker")
        partition.check_leader()
        if not self.queue.is_leading:
            raise LeaderNotAvailable("the queue begins to be served here")
        return partition

    def admit(self, identities: list[bytes], sizes: list[int]) -> list[r.Admission]:
        """Say of messages whether they may be appended, in this turn."""
        return self.queue.admit(identities, sizes, self._instant())

    @property
    def admits_all(self) -> bool:
        """Whether messages may be appended without asking, by the policy that holds.

        Raises:
            LeaderNotAvailable: the queue's policy does not hold yet.
        """
        if not self.queue.is_based or not self._is_configured():
            raise LeaderNotAvailable("the queue begins to be served here")
        return self.queue.admits_all

    @property
    def keeps_refused(self) -> bool:
        """Whether messages for which there is no room become dead letters."""
        return self.queue.state.policy.keeps_refused

    @property
    def policy(self) -> Policy:
        """What the queue's options say, as far as this broker has heard."""
        self._read_policy()
        return self._policy

    def when_options_are_known(self, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        """Call back when this broker has all options that were acknowledged before; False: not."""
        self._parts.metadata.when_current(timeout_ms, on_done)

    @property
    def readable_end(self) -> int:
        """Messages before it can be read.

        Raises:
            NotLeader, LeaderNotAvailable, StorageFailed: see `partition`.
        """
        return self.partition().high_watermark

    def read_to(self) -> int | None:
        """Return up to where a cursor has read its topic beyond its last message, if it has."""
        return None

    def read_on(self) -> None:
        """Find out what of a cursor's topic is wanted, though nobody asks for messages."""

    def seek(self, offset: int) -> None:
        """A cursor is about to go on elsewhere.

        Raises:
            InvalidRequest: it is none.
        """
        raise InvalidRequest("only cursors over topics have a place to be set")

    def on_wanted(self) -> None:
        """Somebody wants messages."""
        self.wanted_ms = self._parts.clock.now_ms()
        self._disuse.note_use(self.wanted_ms)

    def note_use(self) -> None:
        """Somebody uses the queue, or has ceased to."""
        self._disuse.note_use(self._parts.clock.now_ms())

    def disused_in_ms(self, expiry_ms: int) -> int:
        """Return when nobody may have used the queue for so long; to be asked now and then."""
        self.partition()
        return self._disuse.left_ms(self.queue, self.now(), expiry_ms)

    @property
    def unwanted_ms(self) -> int:
        """For how long nobody has asked for messages, as far as this leader knows."""
        if self.queue.is_waited_for:
            return 0
        return self._parts.clock.now_ms() - self.wanted_ms

    def ask_engine(
        self, request: r.Request, on_answer: OnAnswer, *, is_patient: bool = False
    ) -> None:
        """Bring a request to the engine, under the policy that the queue's options say.

        One that is patient may wait for company (`PartitionTableHost.ask`).

        Raises:
            RequestRefused: this broker does not lead.
        """
        self.partition()
        self._is_configured()
        self.ask(request, on_answer, is_patient=is_patient)

    def extend_wait(self, name: ConsumerName, wait_ms: int) -> None:
        """Let somebody who waits for messages wait so long from now, if this broker leads."""
        self.queue.extend_wait(name, min(wait_ms, WAIT_MS_MAX + LINGER_MS), self._instant())
        self.on_wanted()

    def way_out(self) -> WayOut | None:
        """Return what changes messages as they are handed out; None: nothing."""
        return way_out_of(self._parts.metadata.state, self.state.topic_id)

    def give_back(self, offsets: Sequence[int], attempts: dict[int, int], unsent_from: int) -> None:
        """Messages could not be handed out: they are ready again, as if not attempted.

        Nobody had been sent a message from `unsent_from` on before.
        """
        if not self.queue.is_leading:
            return
        claims: dict[bool, list[r.Claim]] = {True: [], False: []}
        for offset in offsets:
            attempt = attempts[offset]
            is_unsent = not may_have_been_sent(offset, attempt, unsent_from)
            claims[is_unsent].append(r.Claim(offset, offset + 1, attempt))
        for is_unsent, each in claims.items():
            if each:
                give_back = r.GiveBack(
                    token=self.new_token(), claims=tuple(each), is_unsent=is_unsent
                )
                self.ask(give_back, lambda _: None)

    def note_lost(self, count: int) -> None:
        """Messages are given up whose bodies are gone: say so, once a minute at most."""
        self._lost += count
        now_ms = self._parts.clock.now_ms()
        if self._lost_ms is not None and now_ms < self._lost_ms + LOST_MS:
            return
        found = self._parts.metadata.state.queues_by_log.get(self.state.topic_id)
        name = self.state.topic if found is None else found.queue
        lost, self._lost, self._lost_ms = self._lost, 0, now_ms
        self._parts.reports.warning(
            f"queue {name} gives up {counted(lost, 'message')}: the log that has the bodies does "
            "not have them any more"
        )

    def check_target(self, name: str) -> None:
        """Refuse to move messages of an encrypted queue to where they would be in the clear.

        Raises:
            InvalidRequest: the other queue is not encrypted.
        """
        state = self._parts.metadata.state
        source = state.queues_by_log.get(self.state.topic_id)
        if source is None or not name:
            return
        target = state.queues.get(QueueName(source.queue.vhost, name))
        if target is not None and not may_go(state, source, target):
            raise InvalidRequest(
                f"queue {source.queue} is encrypted and {target.queue} is not: set encryption of "
                "the other one first"
            )

    # -- the policy

    def configure(self) -> bool:
        """See to it that the queue's options hold; tell whether they do, or need not here."""
        return not self.queue.is_leading or self._is_configured()

    def _read_policy(self) -> None:
        state = self._parts.metadata.state
        found = state.queues_by_log.get(self.state.topic_id)
        if found is None:
            return
        options = effective_options(state, found)
        if options is not self._options:
            self._options, self._policy = options, make_policy(options)
            self._configured = None

    def _is_configured(self) -> bool:
        self._read_policy()
        policy = self.queue.state.policy
        if policy is self._configured:
            return True
        if policy == self._policy:
            self._configured = policy
            return True
        if not self._is_configuring:
            self._is_configuring = True
            request = r.Configure(token=self.new_token(), policy=self._policy)
            self.ask(request, self._on_configured)
        return False

    def _on_configured(self, _: r.Answer) -> None:
        self._is_configuring = False

    # -- see `PartitionTableHost`

    def _perform(self, work: Work) -> None:
        # Those who wait for messages ask for them, here and on other brokers: nobody has credit.
        if isinstance(work, r.Move):
            self._parts.on_move(self, work)

    def on_committed(self, high_watermark: Offset) -> None:
        super().on_committed(high_watermark)
        if self.queue.is_leading:
            self._parts.on_changed(self)

    def cut(self, end_offset: Offset) -> bool:
        self.bodies.forget()
        return super().cut(end_offset)

    def begin_at(self, start_offset: Offset, held_from: Offset | None = None) -> None:
        self.bodies.forget()
        super().begin_at(start_offset, held_from)

    def _begin_to_lead(self, replica: Replica, partition: PartitionTables) -> None:
        is_first = replica.next_offset == 0
        super()._begin_to_lead(replica, partition)
        self._disuse.begin(self.queue, self.now(), is_first=is_first)
        # Its options are to hold, and consumers may not come back.
        self.note_begun()

    def on_following(self) -> None:
        self.leadership += 1
        # What is not committed may never be.
        self.bodies.forget()
        self.wanted_ms = self._parts.clock.now_ms()
        self.consumers = {}
        super().on_following()

    def now(self) -> Instant:
        """Return the time on both clocks."""
        return self._instant()


def refusal_of(answer: r.Refused) -> RequestRefused:
    """Return what clients are told."""
    match answer.why:
        case r.Refusal.NOT_LEADER:
            return NotLeader("the queue has another leader")
        case r.Refusal.NO_SESSION:
            return UnknownConsumer("the consumer is not attached to the queue")
        case r.Refusal.EXCLUSIVE:
            return QueueInUse("another consumer has the queue for itself")
        case r.Refusal.NOT_ATTACHED:
            return QueueInUse(
                "its option sharing lets only attached consumers have messages: use one, such as a "
                "subscription of a client or GET of the text port, or set sharing=all"
            )
        case r.Refusal.OVER_BOUND:
            return OverBound("too much is under way at the queue")
        case r.Refusal.INVALID:
            return InvalidRequest("a number is out of range")
