"""One group on this broker: its consensus core, its log, and the state machine that it feeds."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.replication.confirmations import Confirmations
from kafkaesque.broker.replication.decisions import Decisions, committed_lost
from kafkaesque.broker.replication.log_entries import is_damaged, meta_of, restored_state
from kafkaesque.broker.replication.replica import Appended, AppendedBatch, ReplicaListener
from kafkaesque.broker.replication.throttle import ReplicationThrottle
from kafkaesque.env import Env
from kafkaesque.model.batch import BatchHeader, assign_offsets
from kafkaesque.model.errors import DiskFailed, InvariantBroken, StorageFailed
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId, NodeId, Offset
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import (
    Configuration,
    write_configuration,
)
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState, Proposal
from kafkaesque.raft.errors import TransferRefused
from kafkaesque.raft.messages import SnapshotRequest
from kafkaesque.raft.ready import Ready, Replicate, Role, SendSnapshot
from kafkaesque.storage.entries import EntryLike
from kafkaesque.storage.errors import EntriesGone, StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore

_DATA = EntryKind.DATA


#: What cannot be read is reported once in this time, however many ask for it.
REPORT_AGAIN_MS = 10_000
#: A replica that has handed over because of its disk keeps what it leads for this long after that,
#: and twice as long each time, up to the maximum: where all disks are hurt, leadership rests.
KEEP_LEADING_MS = 10_000
KEEP_LEADING_MS_MAX = 300_000
#: Rounds of "perform, then see what that has caused" in one go; the rest waits for the next round.
PASSES_MAX = 4


class SnapshotPayload(msgspec.Struct, frozen=True, array_like=True):
    """What travels in place of a log that a peer cannot have any more."""

    #: The first offset that clients may read.
    start_offset: int
    #: How many records there were up to the snapshot's index.
    base_offset: int
    state: bytes


class ReplicaHost(ABC):
    """Whatever drives replicas, as they see it."""

    env: Env
    node: NodeId
    store: LogStore
    peers: PeerNetwork
    activity: Activity
    decisions: Decisions
    throttle: ReplicationThrottle
    report: Callable[[str], None]
    report_error: Callable[[str], None]
    #: Told of a replica that has begun to lead, or does so no more.
    on_leadership: "Callable[[Replica], None]"
    #: Told of a group whose log holds something else here than was written.
    on_damaged: Callable[[GroupId, Exception], None]

    @abstractmethod
    def touch(self, replica: "Replica") -> None:
        """See to it that the replica is performed at the end of this turn."""

    @abstractmethod
    def before_turn(self, work: Callable[[], None]) -> None:
        """Call this at the end of this turn, before replicas are performed: it may append."""

    @abstractmethod
    def transfer_leadership(self, group: GroupId, to: NodeId) -> None:
        """Let another voter lead.

        Raises:
            NotLeader: this broker does not lead.
            TransferRefused: the other cannot, or another one is asked already.
        """

    @abstractmethod
    def perform_now(self, replica: "Replica") -> None:
        """Perform one replica within the turn, because its next step builds on it."""

    @abstractmethod
    def introduce(self, replica: "Replica") -> None:
        """Tell a core which of its members are alive: at its start, and when members are new."""

    @abstractmethod
    def send(self, replica: "Replica", node: NodeId, message: object) -> None:
        """Hand a core's message to the link; it leaves at the end of the turn, or is dropped."""

    @abstractmethod
    def note_written(
        self,
        replica: "Replica",
        hard_state: HardState | None,
        last_index: int | None,
        generation: int,
    ) -> None:
        """Remember what a core has to be told when this turn's group commit is synced."""


class Replica:
    """A member of a group, performed by the driver at the end of each turn."""

    __slots__ = (
        "_commit_sample",
        "_confirmations",
        "_durable_index",
        "_in_sync_told",
        "_is_leading",
        "_keep_leading_ms",
        "_keeps_until_ms",
        "_listener",
        "_min_insync",
        "_report_due_ms",
        "_syncs_pending",
        "_write_caching",
        "core",
        "driver",
        "group",
        "is_closed",
        "log",
        "refuses_since_ms",
        "term_committed",
    )

    def __init__(
        self,
        *,
        driver: ReplicaHost,
        config: RaftConfig,
        group: GroupId,
        log: GroupLog,
        configuration: Configuration,
        wanted_voters: Sequence[NodeId],
        min_insync: int,
        write_caching: bool,
        listener: ReplicaListener,
    ) -> None:
        self.driver = driver
        self.group = group
        self.log = log
        self.is_closed = False
        #: Since when the others of a group of two have waited for space here.
        self.refuses_since_ms: int | None = None
        self._listener = listener
        self._write_caching = write_caching
        self._min_insync = min_insync
        self.core = RaftCore(
            group=group,
            node=driver.node,
            restored=restored_state(log, configuration),
            config=config,
            jitter=driver.env.dice.below,
            min_insync=min_insync,
            is_volatile=log.was_cached,
            wanted_voters=wanted_voters,
        )
        self._durable_index: int = log.last_index
        #: An append that is being timed: its last index, and when it was proposed.
        self._commit_sample: tuple[int, int] | None = None
        #: The in-sync set that was last reported, in the term that this broker leads.
        self._in_sync_told: tuple[NodeId, ...] = ()
        self._is_leading = False
        #: Group commits on their way that cover something of this log.
        self._syncs_pending = 0
        #: Until then leadership is not handed over because of the disk, and how long next time.
        self._keeps_until_ms = 0
        self._keep_leading_ms = KEEP_LEADING_MS
        self._report_due_ms = 0
        #: Whether this leader has committed an entry of its own term.
        self.term_committed = False
        #: Those who wait to hear whether this broker leads still, and for which round.
        self._confirmations = Confirmations(driver.env.clock)
        listener.on_durable(log.end_offset)
        if self.core.commit_index > 0:
            listener.on_committed(log.offset_after(self.core.commit_index))

    # -- what state machines ask

    @property
    def is_leader(self) -> bool:
        """Whether this broker leads the group."""
        return self.core.is_leader and not self.is_closed

    @property
    def term(self) -> int:
        """The newest term that this member knows."""
        return self.core.term

    @property
    def leader(self) -> NodeId | None:
        """Who leads, as far as is known."""
        return self.core.leader

    @property
    def next_offset(self) -> Offset:
        """The offset that the next appended record gets."""
        self._settle()
        return self.log.offset_after(self.core.log.last_index)

    @property
    def durable_offset(self) -> Offset:
        """What is before it is as durable here as the topic asks for."""
        return self.log.offset_after(self.core.log.synced_index)

    @property
    def everywhere_offset(self) -> Offset:
        """What is before it all replicas have, synced, as far as this one knows."""
        return self.log.offset_after(self.core.everywhere_index)

    def in_sync(self) -> tuple[NodeId, ...]:
        """The voters that are caught up, as the leader knows."""
        return self.core.in_sync

    def in_sync_expected(self) -> int:
        """How many voters are in sync or, early in this leader's term, may prove it yet."""
        return self.core.in_sync_expected

    def append(
        self,
        data: bytearray | memoryview,
        batch: BatchHeader,
        append_time_ms: int | None = None,
        *,
        gives_back: bool = False,
    ) -> Appended:
        """Give a batch its offsets in place and propose it.

        Nothing is promised yet: the listener hears when it is durable and when it is committed.
        What `gives_back` is little, and lets a full disk become free: it is taken there, too.

        Raises:
            NotLeader: this member does not lead, or is handing over.
            StorageFailed: the disk below failed.
        """
        store = self.driver.store
        # Metadata is little, and all that lets a full disk become free of old records.
        is_let_pass = gives_back or self.group == CONTROLLER_GROUP
        refusal = store.failure if is_let_pass else store.refusal
        if refusal is not None:
            self.hand_over_for_disk()  # another broker may have what is missing here
            raise StorageFailed(str(refusal))
        self._settle()
        width = batch.last_offset_delta + 1
        entry = self.core.propose((Proposal(width, len(data), data),))[0]
        if self._commit_sample is None:
            self._commit_sample = entry.last_index, self.driver.env.clock.now_ns()
        base_offset = self.log.offset_after(entry.first_index - 1)
        latest_ms = batch.latest_timestamp_ms
        assign_offsets(
            data,
            0,
            base_offset,
            entry.term,
            append_time_ms=append_time_ms,
            max_timestamp_ms=None if latest_ms == batch.max_timestamp_ms else latest_ms,
        )
        self.driver.touch(self)
        return Appended(base_offset, Offset(base_offset + width), entry.term)

    def _settle(self) -> None:
        """Bring marks that the core has made into the log: offsets depend on them."""
        if self.core.has_new_marks:
            self.driver.perform_now(self)

    @property
    def min_insync(self) -> int:
        """Nothing is committed with fewer replicas, as far as there are so many."""
        return self._min_insync

    def set_min_insync(self, min_insync: int) -> None:
        """Commit with at least this many replicas from now on."""
        if min_insync != self._min_insync:
            self._min_insync = min_insync
            self.core.set_min_insync(min_insync)
            self.driver.touch(self)

    def set_wanted_voters(self, nodes: Sequence[NodeId]) -> None:
        """Who is to vote again, once it has its copy, after it has lost it."""
        self.core.set_wanted_voters(nodes)
        self.driver.touch(self)

    def set_write_caching(self, write_caching: bool) -> None:
        """Acknowledge from the page cache, or no more."""
        self._write_caching = write_caching
        if write_caching:
            self.core.set_volatile()

    def advance_start(self, start: Offset) -> None:
        """Give up what is before an offset that is committed, and durable here.

        That is durable before the space is freed.
        """
        self.log.advance_start(start)
        start_index = self.log.start_index
        if start_index > self.core.log.start_index:
            self.core.compact(start_index)
        self._syncs_pending += 1
        self.driver.note_written(self, None, None, 0)
        self.driver.touch(self)

    def change_configuration(self, target: Configuration) -> None:
        """Begin to change the members; raises what the core raises."""
        self.core.change_configuration(target)
        self.driver.perform_now(self)
        self.driver.touch(self)

    def confirm(self, on_done: Callable[[bool], None]) -> None:
        """Find out whether this broker leads still; tell it in a later turn, exactly once.

        With True everything that was committed by now, wherever, is committed here. It takes an
        answer from a majority. False also if that cannot be had for long, or too many wait already.
        """
        if not self.is_leader or self._confirmations.is_full:
            self._confirmations.refuse(on_done)
            return
        self._confirmations.add(self.core.confirm(), on_done)
        self.driver.touch(self)

    def hand_over(self) -> None:
        """Let the best live voter lead: when it has all of the log, or at once if it lacks much."""
        successor = self._caught_up_voter()
        if successor is not None:
            with suppress(TransferRefused):  # leadership is being handed over already
                self.core.transfer_leadership(successor)
        else:
            self.core.resign()
        self.driver.touch(self)

    def close(self) -> None:
        """Take part no more."""
        self.is_closed = True
        self._confirmations.drop()
        self._listener.on_following(self.core.term, None)

    def fail(self, error: Exception) -> None:
        """The disk failed."""
        self.is_closed = True
        self._confirmations.drop()
        self._listener.on_failed(error)

    # -- performing what the core returns

    def perform(self) -> None:
        """Do what has come up since the last time; nothing more once it is closed.

        What came before it in the same turn may have closed it: new metadata, without its topic.

        Raises:
            DiskFailed: the log could not be written.
        """
        for _ in range(PASSES_MAX):
            ready = None if self.is_closed else self.core.take_ready()
            if ready is None:
                return
            if ready.role_change is not None and self.group != CONTROLLER_GROUP:
                # Before anything is written in the new term: see `log_starts`.
                if self.log.cap_start():
                    self._listener.on_start_capped(self.log.end_offset)
            cached_index = self._write(ready)
            self._follow(ready)
            if cached_index is not None:
                # In the page cache is as durable as the topic asks for: what follows, follows now.
                self._on_log_durable(cached_index, ready.generation)
        self.driver.touch(self)

    def _follow(self, ready: Ready) -> None:
        """Do what comes after the writing."""
        if ready.install_snapshot is not None:
            # What is written came before it: after it the core takes nothing until it is installed.
            self._install(ready.install_snapshot)
        if ready.configuration is not None:
            self.driver.introduce(self)
        if ready.role_change is not None:
            self._on_role(ready.role_change.role, ready.role_change.term)
        for message in ready.messages:
            self.driver.send(self, message.to, message)
        for work in ready.replicate:
            self._replicate(work)
        for snapshot_work in ready.send_snapshots:
            self._send_snapshot(snapshot_work)
        if ready.commit_index is not None:
            self._on_committed(ready.commit_index)
        if ready.confirmed_round is not None:
            self._confirmations.on_confirmed(ready.confirmed_round)
        if ready.in_sync is not None and self.is_leader:
            before, self._in_sync_told = self._in_sync_told, self.core.in_sync
            voters = len(self.core.configuration.voters)
            self.driver.decisions.on_in_sync(
                self.name, self.core.term, before, self._in_sync_told, voters
            )
            self.driver.on_leadership(self)

    def _write(self, ready: Ready) -> int | None:
        """Write, buffered; return the last index if nothing more is needed to make it durable."""
        hard_state = ready.hard_state
        if hard_state is not None:
            self.log.save_hard_state(hard_state.term, hard_state.vote)
        if ready.is_readmitted:
            self._on_readmitted()
        if ready.truncate_to is not None:
            self._truncate(ready.truncate_to)
        has_marks = False
        last_index = None
        if ready.entries:
            has_marks = self._append(ready.entries)
            last_index = ready.entries[-1].last_index
        if hard_state is None and last_index is None:
            return None
        is_cached = (
            self._write_caching
            and self.log.keeps_cached
            and hard_state is None
            and not has_marks
            and ready.truncate_to is None
            and self._syncs_pending == 0
        )
        if is_cached:
            return last_index
        self._syncs_pending += 1
        self.driver.note_written(self, hard_state, last_index, ready.generation)
        return None

    def _truncate(self, last_index: int) -> None:
        log = self.log
        committed = log.offset_after(min(log.commit_hint, log.last_index))
        log.truncate_to(last_index)
        self._durable_index = min(self._durable_index, last_index)
        end_offset = log.end_offset
        self._listener.on_truncated(end_offset)
        self.driver.decisions.on_truncated(self.name, self.core.term, end_offset)
        if committed > end_offset:
            self.driver.report_error(
                committed_lost(self.name, self.core.term, end_offset, committed - end_offset)
            )

    def _on_readmitted(self) -> None:
        """Remember it; until that is durable a restart would only have it readmitted once more."""
        self.log.save_amnesia(0)
        self._syncs_pending += 1
        self.driver.note_written(self, None, None, 0)
        may_vote = self.core.is_wanted
        self.driver.decisions.on_readmitted(self.name, self.core.term, may_vote=may_vote)

    def _append(self, entries: Sequence[EntryMeta]) -> bool:
        """Write entries to the log, buffered; tell whether marks were among them."""
        log = self.log
        log.release_to(self.core.everywhere_index)
        log.append(entries)
        batches = []
        for entry in entries:
            if entry.kind is _DATA:
                base_offset = log.offset_after(entry.first_index - 1)
                # A batch is all records: its positions are as many offsets.
                next_offset = Offset(base_offset + entry.last_index - entry.first_index + 1)
                batches.append(AppendedBatch(base_offset, next_offset, entry.data))  # type: ignore[arg-type]
        if batches:
            self._listener.on_appended(batches)
        return len(batches) != len(entries)

    def _on_role(self, role: Role, term: int) -> None:
        leading = role is Role.LEADER
        self._confirmations.drop()
        self._commit_sample = None
        self.driver.decisions.on_role(
            self.name, role, term, was_leading=self._is_leading, leader=self.core.leader
        )
        if leading:
            self._is_leading = True
            self._in_sync_told = ()
            self.term_committed = False
            self._listener.on_leading(term)
        elif self._is_leading or role is Role.FOLLOWER:
            self._is_leading = False
            self._listener.on_following(term, self.core.leader)
        self.driver.on_leadership(self)

    def _on_committed(self, commit_index: int) -> None:
        sample = self._commit_sample
        if sample is not None and sample[0] <= commit_index:
            self._commit_sample = None
            waited_ns = self.driver.env.clock.now_ns() - sample[1]
            self.driver.activity.commit_latency.observe_ns(waited_ns)
        if self.core.is_leader:
            self.term_committed = True
        self.log.save_commit_hint(commit_index)
        self._listener.on_committed(self.log.offset_after(commit_index))

    # -- durability

    def on_durable(
        self, hard_state: HardState | None, last_index: int | None, generation: int
    ) -> None:
        """What was written in a turn is synced."""
        self._syncs_pending -= 1
        if hard_state is not None:
            self.core.on_hard_state_synced(hard_state.term, hard_state.vote)
        if last_index is not None:
            self._on_log_durable(last_index, generation)

    def _on_log_durable(self, last_index: int, generation: int) -> None:
        self.core.on_synced(last_index, generation)
        if self.core.is_installing:
            return  # The log is about to go, or has gone: this is none of the one that comes.
        durable_index = self.core.log.synced_index
        if durable_index > self._durable_index:
            self._durable_index = durable_index
            self._listener.on_durable(self.log.offset_after(durable_index))

    # -- replication

    def _replicate(self, work: Replicate) -> None:
        if self.is_closed:
            return
        bytes_max, throttle = work.bytes_max, self.driver.throttle
        if throttle.is_active and self._is_copying(work.to):
            wait_ms = throttle.wait_ms(work.to)
            if wait_ms:
                self.driver.env.clock.call_later(wait_ms, partial(self._replicate, work))
                return
            bytes_max = min(bytes_max, throttle.bytes_max)
        try:
            entries = self.log.entries_from(work.first_index, bytes_max)
        except EntriesGone:
            # They were given up while this waited for its turn: the core turns to a snapshot.
            self._fill(work, [])
            self.driver.touch(self)
            return
        if entries is not None:
            self._fill(work, entries)
            return
        # Not in memory: read off the loop, for a follower that is behind.
        self.log.entries_async(
            work.first_index, bytes_max, lambda found: self._on_read(work, found)
        )

    def _on_read(self, work: Replicate, found: list[EntryLike] | Exception) -> None:
        if self.is_closed:
            return
        if isinstance(found, DiskFailed | StorageCorrupt):
            self.on_unreadable(found)
            found = []
        elif isinstance(found, Exception):
            raise InvariantBroken(f"group {self.group}: reading the log failed") from found
        self._fill(work, found)
        self.driver.touch(self)

    def on_unreadable(self, error: Exception) -> None:
        """A part of the log cannot be read: another replica has it, and is to lead.

        What is appended from now on is as good here as anywhere, so this one follows.
        """
        now_ms = self.driver.env.clock.now_ms()
        if now_ms >= self._report_due_ms:
            self._report_due_ms = now_ms + REPORT_AGAIN_MS
            self.driver.report_error(f"{self.name}: the log cannot be read: {error}")
        if isinstance(error, StorageCorrupt):
            self.driver.on_damaged(self.group, error)
        self.hand_over_for_disk()

    def hand_over_for_disk(self) -> None:
        """Let a voter lead that has all that is committed; keep leading if there is none.

        This one leads until the other has taken over. A replica that lags behind could not serve
        what is missing here, and might not be elected: then nobody would lead. The others may be
        no better off, and hand over in turn: so this one does it seldom.
        """
        now_ms = self.driver.env.clock.now_ms()
        if not self.is_leader or now_ms < self._keeps_until_ms:
            return
        successor = self._caught_up_voter()
        if successor is None:
            return
        self._keeps_until_ms = now_ms + self._keep_leading_ms
        self._keep_leading_ms = min(2 * self._keep_leading_ms, KEEP_LEADING_MS_MAX)
        self.driver.report(f"{self.name}: this broker asks broker {successor} to lead instead")
        with suppress(TransferRefused):  # leadership is being handed over already
            self.core.transfer_leadership(successor)
        self.driver.touch(self)

    @property
    def name(self) -> str:
        """What people know the group by: topic and partition."""
        return self.log.identity.directory

    def on_damaged_at(self, offset: Offset) -> None:
        """Somebody has read a batch here that is not what was written: as `on_unreadable`."""
        self.on_unreadable(StorageCorrupt(self._where_damaged(offset)))

    def _where_damaged(self, offset: Offset) -> str:
        table = self.log.segments
        path = table.segments[table.at_offset(offset)].path
        return f"{path}: the batch at offset {offset} is damaged on the disk"

    def _caught_up_voter(self) -> NodeId | None:
        """Return the live voter that has most of the log, if it has all that is committed.

        One with a damaged copy only for want of others; of such as are as good, not the same one
        for all groups.
        """
        core, is_damaged = self.core, self.driver.peers.is_damaged
        group, count = self.group, len(core.peers)
        found = [
            (not is_damaged(node, group), peer.synced_index, (group + node) % count, node)
            for peer in core.peers
            if core.configuration.is_voter(node := peer.node)
            and peer.is_alive
            and not peer.is_absent
            and not peer.amnesia
            and peer.synced_index >= core.commit_index
        ]
        return max(found)[-1] if found else None

    def _fill(self, work: Replicate, entries: Sequence[EntryLike]) -> None:
        damaged = next((at for at, entry in enumerate(entries) if is_damaged(entry)), None)
        if damaged is not None:
            entry = entries[damaged]
            self.on_damaged_at(self.log.offset_after(entry.first_index - 1))
            entries = entries[:damaged]
        metas = [meta_of(entry) for entry in entries]
        if self.driver.throttle.is_active and self._is_copying(work.to):
            self.driver.throttle.on_sent(work.to, sum(meta.size_bytes for meta in metas))
        message = self.core.fill(work, metas)
        if message is not None:
            self.driver.send(self, message.to, message)
            self.driver.touch(self)

    def _is_copying(self, node: NodeId) -> bool:
        """Tell whether a member gets its copy and has no vote yet, or no more for a lost disk."""
        core = self.core
        if self.group == CONTROLLER_GROUP:
            return False
        if not core.configuration.is_voter(node):
            return True
        # It is about to become a learner, where the others can do without it.
        lost = [peer.node for peer in core.peers if peer.amnesia]
        sound = [voter for voter in core.configuration.voters if voter not in lost]
        return node in lost and len(sound) > len(core.configuration.voters) // 2

    # -- snapshots

    def _send_snapshot(self, work: SendSnapshot) -> None:
        start_offset, state = self._listener.write_snapshot(self.log.start_offset)
        payload = SnapshotPayload(start_offset, self.log.base_offset, state)
        data = msgspec.msgpack.encode(payload)
        message = self.core.fill_snapshot(work, self.core.log.start_index, data)
        if message is not None:
            self.driver.send(self, message.to, message)
            self.driver.touch(self)

    def _install(self, request: SnapshotRequest) -> None:
        payload = msgspec.msgpack.decode(request.data, type=SnapshotPayload)  # type: ignore[arg-type]
        placed = request.configuration
        start_offset = Offset(payload.start_offset)

        def install() -> None:
            if self.is_closed:
                return
            self.log.reset_to(
                start_offset=start_offset,
                base_offset=payload.base_offset,
                index=request.last_index,
                term=request.last_term,
                configuration=(placed.index, write_configuration(placed.configuration)),
            )
            self._durable_index = request.last_index
            self.driver.store.submit(installed)

        def installed() -> None:
            if not self.is_closed:
                self.core.on_snapshot_installed(request.last_index, request.last_term)
                self._listener.on_committed(start_offset)
                self.driver.touch(self)

        self._listener.on_snapshot(payload.state, request.term, start_offset, install)
