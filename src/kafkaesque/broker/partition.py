"""A partition on this broker: what is produced to it and what is read from it.

Theory of operation. A produced batch is checked, given its offsets and the leader epoch in place,
and proposed to the partition's Raft group. Its answer waits in a queue until the log is durable
here (`acks=1`) or the batch is committed (`acks=all`); both queues are in offset order, so that a
step of either mark answers a prefix. Readers see committed records only; those that wait for more
are woken when the high watermark moves.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkaesque.broker.cluster_state import PartitionState
from kafkaesque.broker.commands import ProduceResult
from kafkaesque.broker.partition_producers import PartitionProducers
from kafkaesque.broker.replica import AppendedBatch
from kafkaesque.broker.topic_config import TopicConfig
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import FileRange
from kafkaesque.model.batch import BatchHeader, check_batches
from kafkaesque.model.errors import (
    FencedLeaderEpoch,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    OffsetOutOfRange,
    OverBound,
    RequestRefused,
    RequestTimedOut,
    StorageFailed,
    UnknownLeaderEpoch,
)
from kafkaesque.model.ids import NodeId, Offset
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import decode_columns

if TYPE_CHECKING:
    from kafkaesque.broker.raft_replica import Replica
    from kafkaesque.storage.group_log import GroupLog

#: Produce requests that wait for their acknowledgement, per partition.
WAITING_PRODUCES_MAX = 50_000
#: What one produced batch may decompress to.
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
#: Readers that wait for new records, per partition.
WATCHERS_MAX = 20_000

OnProduced = Callable[[ProduceResult | RequestRefused], None]


class _Waiting(NamedTuple):
    """A produce request that waits; it is done when a mark reaches `next_offset`."""

    next_offset: Offset
    deadline_ms: int
    result: ProduceResult
    on_done: OnProduced


class Partition:
    """One partition's replica on this broker, with all that clients can do to it."""

    def __init__(
        self,
        *,
        state: PartitionState,
        config: TopicConfig,
        clock: Clock,
        producers: PartitionProducers,
        on_leadership: Callable[["Partition"], None],
        report: Callable[[str], None],
    ) -> None:
        self.state = state
        self.config = config
        self.replica: Replica | None = None
        self.high_watermark = Offset(0)
        self.producers = producers
        self.failure: Exception | None = None
        self._clock = clock
        self._on_leadership = on_leadership
        self._report = report
        self._waiting_commit: deque[_Waiting] = deque()
        self._waiting_durable: deque[_Waiting] = deque()
        self._durable_offset = Offset(0)
        self._watchers: dict[int, Callable[[], None]] = {}
        self._watch_ticket = 0

    # -- who we are

    @property
    def is_leader(self) -> bool:
        """Whether clients are to come here."""
        return self.replica is not None and self.replica.is_leader

    @property
    def leader_epoch(self) -> int:
        """The Raft term, which clients call leader epoch."""
        return self._replica().term

    @property
    def log(self) -> "GroupLog":
        """The log below."""
        return self._replica().log

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that can still be read."""
        return self._replica().log.start_offset

    @property
    def settled_offset(self) -> Offset:
        """What is before it is committed, and durable on this broker: it may be given up."""
        return min(self.high_watermark, self._durable_offset)

    @property
    def last_stable_offset(self) -> Offset:
        """Where readers of committed transactions end."""
        return self.high_watermark

    def _replica(self) -> "Replica":
        if self.replica is None:
            raise NotLeader(f"{self.state.topic_partition} is being opened")
        return self.replica

    @property
    def name(self) -> str:
        """Topic and number, for people to read."""
        return str(self.state.topic_partition)

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Refuse a request that should have gone elsewhere.

        Raises:
            StorageFailed: the disk below failed.
            NotLeader: another broker leads.
            FencedLeaderEpoch: the client knows an older epoch.
            UnknownLeaderEpoch: the client knows a newer epoch.
        """
        if self.failure is not None:
            raise StorageFailed(f"{self.state.topic_partition} is offline: {self.failure}")
        replica = self._replica()
        if 0 <= current_leader_epoch != replica.term:
            if current_leader_epoch < replica.term:
                raise FencedLeaderEpoch(f"leader epoch {current_leader_epoch} is over")
            raise UnknownLeaderEpoch(f"leader epoch {current_leader_epoch} is not known here yet")
        if not replica.is_leader:
            raise NotLeader(f"broker leads {self.state.topic_partition} no more", replica.leader)

    def restore(self, log: "GroupLog") -> None:
        """Learn from the log what has to be known before the group is opened; waits."""
        self.producers.restore(log)

    def save(self) -> None:
        """Write down what makes the next start quick."""
        if self.replica is not None and self.failure is None:
            self.producers.save(self.log, self.high_watermark)

    # -- producing

    def produce(
        self,
        records: bytearray | memoryview,
        *,
        acks: int,
        timeout_ms: int,
        on_done: OnProduced,
    ) -> None:
        """Append one batch, which is changed in place.

        With `acks` 1 `on_done` is called when the batch is durable here (synced, or buffered where
        the topic has `write.caching`), with -1 when it is committed, with 0 at once.

        Raises:
            RequestRefused: nothing was appended; the kind of error says why.
        """
        self.check_leader()
        replica = self._replica()
        if acks == -1:
            self._check_in_sync(replica)
        if len(self._waiting_commit) + len(self._waiting_durable) >= WAITING_PRODUCES_MAX:
            raise OverBound(f"{WAITING_PRODUCES_MAX} requests wait for {self.name}")
        batch = self._check_batch(records)
        known = self._known_duplicate(batch)
        if known is not None:
            base_offset, next_offset = known
            append_time_ms = None
        else:
            append_time_ms = self._clock.wall_ms() if self.config.append_time else None
            appended = replica.append(records, batch, append_time_ms)
            base_offset, next_offset, _ = appended
            # At once, not when it is in the log: the next request of the same turn follows on it.
            self.producers.note(batch, base_offset)
        result = ProduceResult(
            base_offset=base_offset,
            log_start_offset=replica.log.start_offset,
            append_time_ms=-1 if append_time_ms is None else append_time_ms,
        )
        self._answer_later(acks, timeout_ms, next_offset, result, on_done)

    @property
    def _min_insync(self) -> int:
        """How many replicas must be in sync; never more than there are (KIP-966)."""
        return min(self.config.min_insync_replicas, len(self.state.replicas))

    def _check_batch(self, records: bytearray | memoryview) -> BatchHeader:
        batches = check_batches(
            records,
            self.config.max_message_bytes,
            decompressed_bytes_max=DECOMPRESSED_BYTES_MAX,
        )
        if len(batches) != 1:
            raise InvalidRecord(f"a request holds one batch per partition, not {len(batches)}")
        if "compact" in self.config.cleanup_policy:
            columns = decode_columns(records, DECOMPRESSED_BYTES_MAX)
            if min(columns.key_lengths) < 0:
                raise InvalidRecord("a record of a compacted topic needs a key")
        return batches[0]

    def _check_in_sync(self, replica: "Replica") -> None:
        wanted = self._min_insync
        if wanted > 1:
            count = len(replica.in_sync())
            if count < wanted:
                raise NotEnoughReplicas(
                    f"{self.state.topic_partition} has {count} replica(s) in sync, "
                    f"min.insync.replicas is {wanted}"
                )

    def _known_duplicate(self, batch: BatchHeader) -> tuple[Offset, Offset] | None:
        """Return where the batch already is, if its producer sends it again."""
        if batch.producer_id < 0:
            return None
        duplicate = self.producers.check(batch)
        if duplicate is None:
            return None
        return duplicate.first_offset, Offset(duplicate.last_offset + 1)

    def _answer_later(
        self,
        acks: int,
        timeout_ms: int,
        next_offset: Offset,
        result: ProduceResult,
        on_done: OnProduced,
    ) -> None:
        if acks == 0:
            on_done(result)
            return
        mark = self.high_watermark if acks == -1 else self._durable_offset
        if next_offset <= mark:
            on_done(result)
            return
        waiting = self._waiting_commit if acks == -1 else self._waiting_durable
        item = _Waiting(next_offset, self._clock.now_ms() + timeout_ms, result, on_done)
        if waiting and waiting[-1].next_offset > next_offset:
            # A repeated batch waits for where it was first: keep the queue in offset order.
            _insert_in_order(waiting, item)
        else:
            waiting.append(item)

    def expire_waiting(self, now_ms: int) -> None:
        """Answer requests whose time is up; called every now and then."""
        for waiting in (self._waiting_commit, self._waiting_durable):
            if not waiting or all(item.deadline_ms > now_ms for item in waiting):
                continue
            expired = [item for item in waiting if item.deadline_ms <= now_ms]
            kept = [item for item in waiting if item.deadline_ms > now_ms]
            waiting.clear()
            waiting.extend(kept)
            for item in expired:
                item.on_done(RequestTimedOut("not acknowledged within the request's timeout"))

    @property
    def has_waiting(self) -> bool:
        """Whether a produce request waits for its acknowledgement."""
        return bool(self._waiting_commit or self._waiting_durable)

    # -- reading

    def check_fetch_offset(self, offset: Offset) -> None:
        """Refuse an offset that this log has not.

        Raises:
            OffsetOutOfRange: before the log's start or after its end.
        """
        replica = self._replica()
        start, end = replica.log.start_offset, replica.next_offset
        if not start <= offset <= end:
            raise OffsetOutOfRange(
                f"{self.state.topic_partition} holds offsets {start} to {end}, not {offset}"
            )

    def read_now(self, offset: Offset, bytes_max: int) -> list[FileRange] | None:
        """Return committed batches from `offset` on, or None if that needs the disk: `read_later`.

        The first batch is returned even if it alone is longer than `bytes_max`.
        """
        if offset >= self.high_watermark:
            return []
        return self.log.locate(offset, bytes_max, self.high_watermark)

    def read_later(
        self,
        offset: Offset,
        bytes_max: int,
        on_done: Callable[[list[FileRange] | Exception], None],
    ) -> None:
        """Do the same off the loop."""
        self.log.locate_async(offset, bytes_max, self.high_watermark, on_done)

    def end_of_epoch(self, epoch: int) -> tuple[int, Offset]:
        """Return the newest leader epoch that is not after `epoch`, and the offset after its end.

        (-1, -1) where this log begins with a later epoch (KIP-101, KIP-320).
        """
        return self.log.end_of_epoch(epoch)

    def watch(self, on_more: Callable[[], None]) -> int:
        """Call once when more is committed or the leader changes; return a ticket for `unwatch`.

        Raises:
            OverBound: too many wait already.
        """
        if len(self._watchers) >= WATCHERS_MAX:
            raise OverBound(f"{WATCHERS_MAX} readers wait at {self.state.topic_partition}")
        self._watch_ticket += 1
        self._watchers[self._watch_ticket] = on_more
        return self._watch_ticket

    def unwatch(self, ticket: int) -> None:
        """Forget a watcher; harmless if it was called."""
        self._watchers.pop(ticket, None)

    def _wake(self) -> None:
        if self._watchers:
            watchers, self._watchers = self._watchers, {}
            for on_more in watchers.values():
                on_more()

    # -- what happens in the group

    def on_leading(self, term: int) -> None:
        """See `ReplicaListener`."""
        self._report(f"{self.name}: this broker leads in epoch {term}")
        self._on_leadership(self)

    def on_following(self, term: int, leader: NodeId | None) -> None:
        """See `ReplicaListener`."""
        self._refuse_waiting(
            lambda: NotLeader(f"{self.state.topic_partition} has another leader", leader)
        )
        self._on_leadership(self)
        self._wake()

    def _refuse_waiting(self, refusal: Callable[[], RequestRefused]) -> None:
        items = [*self._waiting_commit, *self._waiting_durable]
        self._waiting_commit.clear()
        self._waiting_durable.clear()
        for item in items:
            item.on_done(refusal())

    def on_appended(self, batches: Sequence[AppendedBatch]) -> None:
        """See `ReplicaListener`."""
        self.producers.on_appended(batches)

    def on_truncated(self, end_offset: Offset) -> None:
        """See `ReplicaListener`."""
        self._durable_offset = min(self._durable_offset, end_offset)
        self.producers.truncate(end_offset)

    def on_durable(self, end_offset: Offset) -> None:
        """See `ReplicaListener`."""
        self._durable_offset = end_offset
        _answer_until(self._waiting_durable, end_offset)

    def on_committed(self, high_watermark: Offset) -> None:
        """See `ReplicaListener`."""
        if high_watermark <= self.high_watermark:
            # Marks only: a new leader's term is committed, which some wait for.
            self._wake()
            return
        self.high_watermark = high_watermark
        self.producers.on_committed(high_watermark)
        waiting = self._waiting_commit
        if waiting and waiting[0].next_offset <= high_watermark:
            if self._min_insync > 1:
                self._answer_committed(high_watermark)
            else:
                _answer_until(waiting, high_watermark)
        self._wake()

    def _answer_committed(self, high_watermark: Offset) -> None:
        """Answer with what the in-sync set says now, as Kafka does."""
        enough = len(self._replica().in_sync()) >= self._min_insync
        if enough:
            _answer_until(self._waiting_commit, high_watermark)
            return
        while self._waiting_commit and self._waiting_commit[0].next_offset <= high_watermark:
            self._waiting_commit.popleft().on_done(
                NotEnoughReplicasAfterAppend("written, but to fewer replicas than wanted")
            )

    def on_failed(self, error: Exception) -> None:
        """See `ReplicaListener`."""
        self.failure = error
        self._refuse_waiting(
            lambda: StorageFailed(f"{self.state.topic_partition} went offline: {error}")
        )
        self._wake()

    def write_snapshot(self) -> bytes:
        """Return nothing: the batches that are left tell a new replica about their producers."""
        return b""

    def on_snapshot(
        self, payload: bytes, start_offset: Offset, install: Callable[[], None]
    ) -> None:
        """See `ReplicaListener`."""
        self.producers.reset(start_offset)
        self.high_watermark = max(self.high_watermark, start_offset)
        self._durable_offset = start_offset
        install()


def _insert_in_order(waiting: deque[_Waiting], item: _Waiting) -> None:
    position = len(waiting)
    while position > 0 and waiting[position - 1].next_offset > item.next_offset:
        position -= 1
    waiting.insert(position, item)


def _answer_until(waiting: deque[_Waiting], mark: Offset) -> None:
    while waiting and waiting[0].next_offset <= mark:
        item = waiting.popleft()
        item.on_done(item.result)
