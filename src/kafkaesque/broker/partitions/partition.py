"""A partition on this broker: what is produced to it and what is read from it.

Theory of operation. A produced batch is checked, given its offsets and the leader epoch in place,
and proposed to the partition's Raft group. Its answer waits until the log is durable here
(`acks=1`) or the batch is committed (`acks=all`): see `waiting_produces`. Readers see committed
records only; those that wait for more are woken when the high watermark moves. The last stable
offset, where readers of committed transactions stop, moves with it only.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.options.topic_config import TopicConfig
from kafkaesque.broker.partitions.batch_checks import LongCheck, check_produced, use_check
from kafkaesque.broker.partitions.partition_sealing import Located, PartitionSealing
from kafkaesque.broker.partitions.partition_tables import PartitionTables
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.broker.partitions.record_times import RecordTimes
from kafkaesque.broker.partitions.refused_batches import GAPS_MS, RefusedBatches, is_after
from kafkaesque.broker.partitions.waiting_produces import (
    WAITING_PRODUCES_MAX,
    OnProduced,
    WaitingProduce,
    WaitingProduces,
)
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.replication.replica import AppendedBatch
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch import Attribute, BatchHeader, read_batch_header
from kafkaesque.model.batch_encoder import EndMarker, MarkerType, encode_end_marker
from kafkaesque.model.errors import (
    DiskFailed,
    FencedLeaderEpoch,
    LeaderNotAvailable,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeader,
    OffsetNotAvailable,
    OffsetOutOfRange,
    OutOfOrderSequence,
    OverBound,
    RequestRefused,
    StorageFailed,
    TransactionalIdMissing,
    UnknownLeaderEpoch,
)
from kafkaesque.model.ids import NodeId, Offset
from kafkaesque.raft.formation import formation_of
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog

#: Readers that wait for new records, per partition.
WATCHERS_MAX = 20_000

#: Refusals after which a client sends the same batch again.
_FOR_THE_MOMENT = (LeaderNotAvailable, NotEnoughReplicas, NotLeader, StorageFailed)

_TRANSACTIONAL = int(Attribute.TRANSACTIONAL)


class Partition:
    """One partition's replica on this broker, with all that clients can do to it."""

    def __init__(
        self,
        *,
        state: PartitionState,
        config: TopicConfig,
        clock: Clock,
        producers: PartitionProducers,
        sealing: PartitionSealing,
        on_leadership: Callable[["Partition"], None],
        on_waiting: Callable[["Partition"], None],
        activity: Activity,
    ) -> None:
        self.state = state
        self.config = config
        self.replica: Replica | None = None
        self.high_watermark = Offset(0)
        self.producers = producers
        self.failure: Exception | None = None
        self._clock = clock
        self._on_leadership = on_leadership
        self._activity = activity
        self._waiting = WaitingProduces(lambda: on_waiting(self))
        self._durable_offset = Offset(0)
        self._watchers: dict[int, Callable[[], None]] = {}
        self._watch_ticket = 0
        self._times = RecordTimes(clock.wall_ms)
        #: Until then a gap in a producer's numbers is taken for requests that were refused while
        #: nobody led.
        self._gaps_until_ms = 0
        self._refused = RefusedBatches(clock.now_ms)
        self.sealing = sealing
        #: The same where batches are to be sealed, and where they may have to be opened.
        self._seals: PartitionSealing | None = None
        self._opens: PartitionSealing | None = None
        #: Whether another broker appends to this log, as far as is known.
        self._is_following = True
        self.on_keys_changed()
        #: Those that live on this partition, if there are any.
        self.tables: PartitionTables | None = None
        #: Told of each committed end of a transaction, while this broker leads: producer id, and
        #: whether it was committed; more than once where a marker is asked for again.
        self.on_transaction_ended: Callable[[int, bool], None] | None = None

    def set_config(self, config: TopicConfig) -> None:
        """The topic's options have changed."""
        self.config = config
        self._times.forget()
        self.on_keys_changed()

    def on_keys_changed(self) -> None:
        """The topic's keys, or whether it is encrypted, have changed."""
        self.sealing.on_keys_changed()
        self._seals = self.sealing if self.config.is_encrypted else None
        if self._seals is not None or self.sealing.has_keys:
            self._opens = self.sealing
        if self._seals is not None and self.is_leader:
            self._seals.want_key()

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
    def log(self) -> GroupLog:
        """The log below."""
        return self._replica().log

    @property
    def next_offset(self) -> Offset:
        """The offset that the next appended record gets; what this turn has appended counts."""
        return self._replica().next_offset

    @property
    def log_start_offset(self) -> Offset:
        """The first offset that can still be read."""
        return self._replica().log.start_offset

    @property
    def settled_offset(self) -> Offset:
        """What is before it is committed, and durable on this broker: it may be given up."""
        return min(self.high_watermark, self._durable_offset)

    @property
    def kept_from_offset(self) -> Offset | None:
        """From where on tables need the log; None: they need nothing of it."""
        return None if self.tables is None else self.tables.start_held_at()

    @property
    def everywhere_offset(self) -> Offset:
        """What is before it all replicas have, synced, as far as this one knows."""
        return self._replica().everywhere_offset

    @property
    def last_stable_offset(self) -> Offset:
        """Where readers of committed transactions end."""
        first_unstable = self.producers.first_unstable_offset
        if first_unstable >= self.high_watermark:
            return self.high_watermark
        return max(Offset(first_unstable), self.log_start_offset)

    def _replica(self) -> Replica:
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
            raise NotLeader(
                f"this broker no longer leads {self.state.topic_partition}", replica.leader
            )

    def check_following(self, current_leader_epoch: int, offset: Offset) -> None:
        """Refuse a consumer's request that this replica cannot serve in its leader's place.

        Raises:
            StorageFailed, FencedLeaderEpoch, UnknownLeaderEpoch: see `check_leader`.
            NotLeader: it does not know who leads.
            OffsetNotAvailable: the leader may have this offset; this replica has not.
        """
        with suppress(NotLeader):
            self.check_leader(current_leader_epoch)
        replica = self._replica()
        if replica.leader is None or replica.is_closed:
            raise NotLeader(f"{self.name} has no known leader")
        if offset > self.log.end_offset:
            raise OffsetNotAvailable(f"{self.name} ends at {self.log.end_offset} on this broker")

    def restore(self, log: GroupLog) -> None:
        """Learn from the log what has to be known before the group is opened; waits."""
        self.producers.restore(log, is_compacted=self.config.is_compacted)
        if self.tables is not None:
            self.tables.restore(log)

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
        checked: LongCheck | None = None,
        in_transaction: bool = False,
        transactional_id: str | None = None,
    ) -> LongCheck | None:
        """Append one batch, which is changed in place; unless it takes long to check.

        Then nothing is done, and the check is returned that is to be run before the batch is
        produced again, with `checked`; what has to follow on this batch has to wait.

        Batches of transactions are taken with `in_transaction` only, or for a `transactional_id`.
        `TransactionUnverified` says that its coordinator has to confirm one; then the batch may be
        produced again.

        With `acks` 1 `on_done` is called when the batch is durable here (synced, or buffered where
        the topic has `write.caching`), with -1 when it is committed, with 0 at once.

        Raises:
            RequestRefused: nothing was appended; the kind of error says why.
        """
        try:
            batch = self._check_batch(records, acks, checked)
            if isinstance(batch, LongCheck):
                return batch
            if checked is not None:
                records = checked.records_of(batch)
            if batch.latest_timestamp_ms > self._times.latest_ms_max:
                self._times.check_latest(batch.latest_timestamp_ms, self.config)
            if batch.attributes & _TRANSACTIONAL:
                if transactional_id is not None:
                    self.producers.expect_transaction(batch.producer_id, transactional_id)
                elif not in_transaction:
                    raise TransactionalIdMissing(
                        "a transactional batch, in a request without a transactional id"
                    )
            self._append_checked(batch, records, acks, timeout_ms, on_done)
        except _FOR_THE_MOMENT:
            self.note_refusal(records)
            raise
        return None

    def note_refusal(self, records: bytearray | memoryview) -> None:
        """A batch was not taken and will come again: what was sent after it waits for it."""
        self._refused.note(records)

    def _check_batch(
        self, records: bytearray | memoryview, acks: int, checked: LongCheck | None
    ) -> BatchHeader | LongCheck:
        """Return the header of a batch that may be taken, or what has to be done to know that."""
        self.check_leader()
        replica = self._replica()
        if acks == -1 and self.config.min_insync_replicas > 1:
            self._check_in_sync(replica)
        if self._waiting.is_full:
            raise NotEnoughReplicas(f"{WAITING_PRODUCES_MAX} requests wait for {self.name}")
        if checked is None:
            return check_produced(self, records, self.config, self._times.earliest_ms(self.config))
        earliest_ms = self._times.earliest_ms(self.config)
        return use_check(self, checked, records, self.config, earliest_ms)

    def _append_checked(
        self,
        batch: BatchHeader,
        records: bytearray | memoryview,
        acks: int,
        timeout_ms: int,
        on_done: OnProduced,
    ) -> None:
        replica = self._replica()
        known = self._known_duplicate(batch)
        if known is not None:
            base_offset, next_offset = known
            append_time_ms = None
        else:
            append_time_ms = self._clock.wall_ms() if self.config.append_time else None
            seals, stored = self._seals, records
            if seals is None:
                appended = replica.append(records, batch, append_time_ms)
            else:
                tables = self.tables
                appended, stored = seals.append(replica, records, batch, append_time_ms, tables)
            base_offset, next_offset, _ = appended
            self.producers.note(batch, base_offset)  # the turn's next request follows on it
            if self.tables is not None:  # its offsets and its time were written by the append
                self.tables.note(read_batch_header(stored), stored, base_offset)
            self._activity.note_append(self.state.topic_partition, records, batch, base_offset)
        result = ProduceResult(
            base_offset=base_offset,
            log_start_offset=replica.log.start_offset,
            append_time_ms=-1 if append_time_ms is None else append_time_ms,
        )
        self._answer_later(acks, timeout_ms, next_offset, result, on_done)

    def append_marker(
        self,
        marker: EndMarker,
        *,
        producer_id: int,
        producer_epoch: int,
        is_epoch_bumped: bool,
        timeout_ms: int,
        on_done: OnProduced,
    ) -> None:
        """End a producer's transaction here; `on_done` when that is committed.

        A marker that is there already is not written again. With `is_epoch_bumped` (transaction
        version 2) its epoch is above that of the transaction's batches.

        Raises:
            RequestRefused: nothing was appended; the kind of error says why.
        """
        self.check_leader()
        replica = self._replica()
        self._check_in_sync(replica)
        if self._waiting.is_full:
            raise OverBound(f"{WAITING_PRODUCES_MAX} requests wait for {self.name}")
        offset = self.producers.check_marker(
            producer_id, producer_epoch, marker.coordinator_epoch, is_epoch_bumped=is_epoch_bumped
        )
        if offset is None:
            data = encode_end_marker(
                marker,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                timestamp_ms=self._clock.wall_ms(),
            )
            batch = read_batch_header(data)
            offset = replica.append(data, batch).base_offset
            self.producers.note_control(batch, data, offset)
            if self.tables is not None:
                self.tables.note(batch, data, offset)
        is_commit = marker.type is MarkerType.COMMIT

        def on_written(outcome: ProduceResult | RequestRefused) -> None:
            is_committed = not isinstance(outcome, RequestRefused)
            is_committed = is_committed or isinstance(outcome, NotEnoughReplicasAfterAppend)
            is_told = is_committed and not self._is_following
            if is_told and self.on_transaction_ended is not None:
                self.on_transaction_ended(producer_id, is_commit)
            on_done(outcome)

        result = ProduceResult(base_offset=offset, log_start_offset=replica.log.start_offset)
        self._answer_later(-1, timeout_ms, Offset(offset + 1), result, on_written)

    @property
    def _min_insync(self) -> int:
        """How many replicas must be in sync; never more than there are (KIP-966)."""
        state = self.state
        return min(self.config.min_insync_replicas, len(state.settled), len(state.wanted))

    def _check_in_sync(self, replica: Replica) -> None:
        wanted = self._min_insync
        if wanted > 1:
            count = len(replica.in_sync())
            # Who leads anew may not have heard of all yet: then the batch waits for its commit.
            if count < wanted and replica.in_sync_expected() < wanted:
                raise NotEnoughReplicas(
                    f"{self.state.topic_partition} has {count} replica(s) in sync, "
                    f"min.insync.replicas is {wanted}"
                )

    def _known_duplicate(self, batch: BatchHeader) -> tuple[Offset, Offset] | None:
        """Return where the batch already is, if its producer sends it again."""
        if batch.producer_id < 0:
            return None
        try:
            duplicate = self.producers.check(batch)
        except OutOfOrderSequence:
            expected = self.producers.next_sequence(batch.producer_id, batch.producer_epoch)
            may_be_refused = self._clock.now_ms() < self._gaps_until_ms
            if (may_be_refused and is_after(batch.base_sequence, expected)) or (
                self._refused.keeps_back(batch, expected)
            ):
                raise self._missing_before(batch) from None
            raise
        if duplicate is not None:
            return duplicate.first_offset, Offset(duplicate.last_offset + 1)
        if self._refused:
            # Of a producer that the log does not know yet, any sequence number would do.
            expected = self.producers.next_sequence(batch.producer_id, batch.producer_epoch)
            if self._refused.keeps_back(batch, expected):
                raise self._missing_before(batch)
        return None

    def _missing_before(self, batch: BatchHeader) -> NotLeader:
        return NotLeader(
            f"{self.name} could not append the batch before sequence {batch.base_sequence} of "
            f"producer {batch.producer_id}"
        )

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
        item = WaitingProduce(next_offset, self._clock.now_ms() + timeout_ms, result, on_done)
        self._waiting.add(item, for_commit=acks == -1)

    def expire_waiting(self, now_ms: int) -> None:
        """Answer requests whose time is up; called every now and then."""
        self._waiting.expire(now_ms, self._other_leader)

    @property
    def has_waiting(self) -> bool:
        """Whether a produce request waits for its acknowledgement."""
        return bool(self._waiting)

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

    def is_after_end(self, offset: Offset) -> bool:
        """Whether this replica leads and has not come to an offset; see `confirm_refusal`."""
        return self.is_leader and offset > self.next_offset

    def confirm_refusal(
        self, refusal: OffsetOutOfRange, on_done: Callable[[RequestRefused], None]
    ) -> None:
        """Tell in a later turn, once, what is to be answered for an offset after the log's end.

        A leader that was deposed, and does not know it, has not what the next one has acknowledged
        (ADR 4). Who were told that it is out of range would go on somewhere else.
        """
        self._replica().confirm(
            lambda is_leader: on_done(
                refusal if is_leader else NotLeader(f"{self.name} may have another leader")
            )
        )

    def stable_range(self, offset: Offset) -> tuple[Offset, list[tuple[int, int]]]:
        """Return up to where a reader of committed transactions may read now, and what to skip.

        That is producer ids, and offsets from which their batches are to be skipped up to their
        next marker. The range ends before the last stable offset where there are very many.
        """
        stable_offset = self.last_stable_offset
        if offset >= stable_offset:
            return stable_offset, []
        return self.producers.aborted_between(offset, stable_offset)

    def read_now(
        self, offset: Offset, bytes_max: int, end: Offset | None = None
    ) -> Sequence[Located] | None:
        """Return committed batches from `offset` on, or None if that needs the disk: `read_later`.

        The first batch is returned even if it alone is longer than `bytes_max`. Batches after `end`
        are not, if it is given.
        """
        limit = self._read_limit(end)
        if offset >= limit:
            return []
        if self._opens is not None:
            return self._opens.read_now(self.log, offset, bytes_max, limit)
        return self.log.locate(offset, bytes_max, limit)

    def _read_limit(self, end: Offset | None) -> Offset:
        return self.high_watermark if end is None else min(end, self.high_watermark)

    def read_later(
        self,
        offset: Offset,
        bytes_max: int,
        on_done: Callable[[Sequence[Located] | Exception], None],
        end: Offset | None = None,
    ) -> None:
        """Do the same off the loop."""

        def on_located(found: Sequence[Located] | Exception) -> None:
            if isinstance(found, DiskFailed | StorageCorrupt):
                self._replica().on_unreadable(found)
            on_done(found)

        limit, opens = self._read_limit(end), self._opens
        if opens is not None:
            opens.read_later(self.log, offset, bytes_max, limit, on_located)
        else:
            self.log.locate_async(offset, bytes_max, limit, on_located)

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
        self._is_following = False
        self._waiting.on_leading()
        end_offset = self.log.end_offset
        self.producers.on_leading(end_offset)
        # A log without records had no leader to lose.
        self._gaps_until_ms = self._clock.now_ms() + GAPS_MS if end_offset else 0
        if self.tables is not None:
            self.tables.on_leading(self._replica())
        if self._seals is not None:
            self._seals.begin_leadership()
        self._on_leadership(self)

    def on_following(self, term: int, leader: NodeId | None) -> None:
        """See `ReplicaListener`."""
        self._is_following = True
        self.producers.on_following()
        if self.tables is not None:
            self.tables.on_following()
        self._waiting.on_following(self._clock.now_ms(), self._other_leader)
        if self.replica is None or self.replica.is_closed:
            self._waiting.refuse_after(Offset(0), self._other_leader)
        self._on_leadership(self)
        self._wake()

    def _other_leader(self) -> NotLeader:
        leader = None if self.replica is None else self.replica.leader
        return NotLeader(f"{self.state.topic_partition} has another leader", leader)

    def on_appended(self, batches: Sequence[AppendedBatch]) -> None:
        """See `ReplicaListener`."""
        self.producers.on_appended(batches)
        if self.tables is not None:
            self.tables.on_appended(batches)
        if self._opens is None and self._is_following:
            # The metadata here may be behind, and not say yet that the topic has keys.
            self._opens = self.sealing.if_any_is_sealed(batches)

    def on_truncated(self, end_offset: Offset) -> None:
        """See `ReplicaListener`."""
        self._durable_offset = min(self._durable_offset, end_offset)
        self._waiting.refuse_after(end_offset, self._other_leader)
        self.producers.truncate(end_offset)
        if self.tables is not None:
            self.tables.on_truncated(end_offset)
        if end_offset < self.high_watermark:
            # Only with `write.caching`: a majority has lost what was committed. Whoever has read
            # it hears from the leader that its offset is out of range.
            self.high_watermark = end_offset
            self._wake()

    def on_start_capped(self, end_offset: Offset) -> None:
        """See `ReplicaListener`."""
        self._durable_offset = min(self._durable_offset, end_offset)
        self.high_watermark = min(self.high_watermark, end_offset)
        self._waiting.refuse_after(end_offset, self._other_leader)
        self.producers.begin_at(end_offset)
        if self.tables is not None:
            self.tables.begin_at(end_offset)

    def on_durable(self, end_offset: Offset) -> None:
        """See `ReplicaListener`."""
        self._durable_offset = end_offset
        self._waiting.on_durable(end_offset)

    def on_committed(self, high_watermark: Offset) -> None:
        """See `ReplicaListener`."""
        if high_watermark <= self.high_watermark:
            # Marks only: a new leader's term is committed, which some wait for.
            self._wake()
            return
        self.high_watermark = high_watermark
        if self._activity.tracer is not None:
            self._activity.tracer.on_committed(self.state.topic_partition, high_watermark)
        self.producers.on_committed(high_watermark)
        if self.tables is not None:
            self.tables.on_committed(high_watermark)
        if self._waiting.is_committed(high_watermark):
            if self._is_following:
                self._waiting.on_committed(high_watermark)
            elif self.config.min_insync_replicas > 1 and self._min_insync > 1:
                self._answer_committed(high_watermark)
            else:
                self._waiting.on_committed(high_watermark)
        self._wake()

    def _answer_committed(self, high_watermark: Offset) -> None:
        """Answer with what the in-sync set says now, as Kafka does."""
        refusal = None
        if len(self._replica().in_sync()) < self._min_insync:
            what = "written, but to fewer replicas than min.insync.replicas"
            refusal = NotEnoughReplicasAfterAppend(what)
        self._waiting.on_committed(high_watermark, refusal)

    def on_failed(self, error: Exception) -> None:
        """See `ReplicaListener`."""
        self.failure = error
        if self.tables is not None:
            self.tables.on_following()
        sentence = f"{self.name} went offline: {error}"
        self._waiting.refuse_after(Offset(0), lambda: StorageFailed(sentence))
        self._wake()

    def write_snapshot(self, start_offset: Offset) -> tuple[Offset, bytes]:
        """Return what is known of producers: those whose batches are gone are to be known, too.

        It says itself up to where that is.
        """
        return start_offset, self.producers.write_state(self.high_watermark)

    def on_snapshot(
        self, payload: bytes, term: int, start_offset: Offset, install: Callable[[], None]
    ) -> None:
        """See `ReplicaListener`."""

        def on_durable() -> None:
            # Not before: until then the log is what it was. With `write.caching` more may have
            # been committed here than the group has now.
            self._waiting.refuse_after(Offset(0), self._other_leader)
            self.high_watermark = start_offset
            with suppress(DiskFailed):  # the store has told its driver
                install()
            # It begins at the sender's base, and has yet to grow to where it is to start.
            self._durable_offset = min(start_offset, self.log.end_offset)
            if self.tables is not None:
                self.tables.begin_at(self.log.end_offset)

        self.producers.adopt(payload, start_offset, on_durable, formation_of(term))
