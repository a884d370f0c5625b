"""Drives all Raft groups of a broker: performs what their cores return.

Theory of operation. Events (messages, proposals, ticks, news of peers, completed syncs) go into the
cores at once and mark their replicas as dirty. At the end of the loop's turn each dirty replica is
performed: its log is written (buffered), committed offsets are announced, messages are handed to
the peer links; then one group commit covers what all replicas wrote, and one frame per peer leaves.
When the group commit is synced, the cores are told, and what had waited for it follows in the same
way.

Time costs nothing for a quiet group: only replicas whose core is not quiet are ticked. Liveness is
known per peer, from the links, and cores hear only of changes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.peers.link import PeerNetwork
from kafkaesque.broker.peers.messages import LeaderReport
from kafkaesque.broker.replication.decisions import Decisions
from kafkaesque.broker.replication.raft_replica import Replica, ReplicaHost
from kafkaesque.broker.replication.replica import ReplicaListener
from kafkaesque.broker.replication.throttle import ReplicationThrottle
from kafkaesque.env import Env
from kafkaesque.env.clock import Timer
from kafkaesque.env.disk import Buffer
from kafkaesque.env.report_limit import ReportLimit
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import (
    DiskFailed,
    InvariantBroken,
    NotLeader,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId, NodeId, Term
from kafkaesque.model.record_errors import CorruptBatch
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.entries import EntryKind, HardState
from kafkaesque.raft.errors import MalformedRaftMessage, TransferRefused
from kafkaesque.raft.messages import AppendRequest, NotHere, SnapshotRequest
from kafkaesque.raft.wire import read_message, write_message
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore

__all__ = ["RaftDriver", "Replica"]

#: Messages for groups that are not open here yet, kept until they are.
EARLY_MESSAGES_MAX = 4096
#: Rounds of "perform, then see what that has caused" in one turn; the rest waits for the next turn.
ROUNDS_PER_TURN_MAX = 8
#: A broker without space lets a group of two wait so long before it leaves that to the other one.
FULL_MS_MAX = 15_000
#: So much later does each of the next brokers, for it is to see that those before it are gone.
FULL_STEP_MS = 2_000
#: Voters of whom both are needed.
PAIR = 2
#: At shutdown, how long to wait for leadership to be taken over.
HAND_OVER_MS_MAX = 1_000
#: Clients that were told that nobody leads ask again within that (librdkafka: after 100 ms).
ASK_AGAIN_MS = 150


class _Written(NamedTuple):
    """What a replica wrote in a turn; told to its core when it is durable."""

    replica: Replica
    hard_state: HardState | None
    last_index: int | None
    generation: int


class RaftDriver(ReplicaHost):
    """All replicas of a broker."""

    def __init__(
        self,
        *,
        env: Env,
        node: NodeId,
        store: LogStore,
        peers: PeerNetwork,
        config: RaftConfig,
        tick_ms: int,
        on_leadership: Callable[[Replica], None],
        on_failed: Callable[[Exception], None],
        activity: Activity,
        report: Callable[[str], None],
        report_error: Callable[[str], None],
    ) -> None:
        self.env = env
        self.node = node
        self.store = store
        self.peers = peers
        self.config = config
        self.activity = activity
        self.decisions = Decisions(activity, report)
        self.report = report
        self._drops = ReportLimit(report, env.clock.call_later)
        self.report_error = report_error
        self.on_leadership = on_leadership
        self.on_damaged = lambda group, error: None
        self._tick_ms = tick_ms
        self._on_failed = on_failed
        self._replicas: dict[GroupId, Replica] = {}
        self._dirty: dict[GroupId, Replica] = {}
        #: What is to be done at the end of this turn, before that.
        self._before_turn: list[Callable[[], None]] = []
        self._active: dict[GroupId, Replica] = {}
        #: The oldest give way: they may be for groups that are gone.
        self._early: deque[tuple[NodeId, GroupId, bytes]] = deque(maxlen=EARLY_MESSAGES_MAX)
        #: Groups that are to be here and cannot be opened.
        self._offline: set[GroupId] = set()
        self._written: list[_Written] = []
        self._turn_asked = False
        self._ticker: Timer | None = None
        self._started_ms: int | None = None
        self._stopped = False
        #: Of what is sent to replicas that get their copies.
        self.throttle = ReplicationThrottle(env.clock)
        self.failure: Exception | None = None

    # -- groups

    def open(
        self,
        *,
        group: GroupId,
        log: GroupLog,
        configuration: Configuration,
        min_insync: int,
        write_caching: bool,
        listener: ReplicaListener,
        campaign: bool,
        wanted_voters: Sequence[NodeId] | None = None,
    ) -> Replica:
        """Take part in a group; `configuration` is that of an empty log, else the log's counts.

        Whoever has lost its copy votes again when it has it, if it is among `wanted_voters`; that
        are the voters of `configuration` if none are given.

        With `campaign` this replica asks for votes at once instead of waiting for a leader.
        """
        config = self.config
        if group == CONTROLLER_GROUP:
            if log.was_cached:
                raise InvariantBroken("metadata must not be acknowledged before they are synced")
            # Everybody waits for metadata; nobody waits for a follower's high watermark.
            config = replace(config, tell_commit_at_once=True)
        replica = Replica(
            driver=self,
            config=config,
            group=group,
            log=log,
            configuration=configuration,
            wanted_voters=configuration.voters if wanted_voters is None else wanted_voters,
            min_insync=min_insync,
            write_caching=write_caching,
            listener=listener,
        )
        self._replicas[group] = replica
        self._offline.discard(group)
        self.introduce(replica)
        if campaign or replica.core.configuration.voters == (self.node,):
            replica.core.campaign()
        self.touch(replica)
        self._take_early(group)
        return replica

    def set_offline(self, group: GroupId) -> None:
        """The group cannot be opened here (yet): leaders that send for it are told so."""
        self._offline.add(group)
        self._take_early(group)

    def _take_early(self, group: GroupId) -> None:
        early = [item for item in self._early if item[1] == group]
        if early:
            others = [item for item in self._early if item[1] != group]
            self._early = deque(others, maxlen=EARLY_MESSAGES_MAX)
            for node, _, message in early:
                self.on_raft(node, group, memoryview(message))

    def introduce(self, replica: Replica) -> None:
        """See `ReplicaHost`."""
        for node in replica.core.concerned:
            if node != self.node and self.peers.is_alive(node):
                replica.core.on_peer_seen(node)
        self.touch(replica)

    def close_group(self, group: GroupId) -> None:
        """Take part no more; whoever waits is told that this broker does not lead."""
        replica = self._replicas.pop(group, None)
        self._dirty.pop(group, None)
        self._active.pop(group, None)
        self._offline.discard(group)
        if replica is not None:
            replica.close()

    def get(self, group: GroupId) -> Replica | None:
        """Return this broker's replica of a group."""
        return self._replicas.get(group)

    def replicas(self) -> list[Replica]:
        """Return all replicas."""
        return list(self._replicas.values())

    def leader_report(self, group: GroupId) -> LeaderReport | None:
        """Return what other brokers are to know of a group, if this broker leads it."""
        replica = self._replicas.get(group)
        if replica is None or not replica.is_leader:
            return None
        return LeaderReport(
            group,
            replica.term,
            self.node,
            replica.in_sync(),
            replica.log.start_offset,
            replica.core.offline,
            replica.core.is_stuck,
            replica.log.term_before(replica.log.start_offset),
        )

    def transfer_leadership(self, group: GroupId, to: NodeId) -> None:
        """Ask a follower to take over.

        Raises:
            UnknownTopicOrPartition: the group is not here.
            NotLeader: this broker does not lead it.
            TransferRefused: the node cannot lead, or has a damaged copy.
        """
        replica = self._replicas.get(group)
        if replica is None:
            raise UnknownTopicOrPartition(f"group {group} is not on this broker")
        if not replica.is_leader:
            raise NotLeader(f"this broker does not lead group {group}", replica.leader)
        if self.peers.is_damaged(to, group):
            raise TransferRefused(f"the copy of {replica.name} on broker {to} is damaged")
        replica.core.transfer_leadership(to)
        self.touch(replica)

    # -- start and stop

    def start(self) -> None:
        """Begin to tick, from now on, while a replica is not quiet."""
        self.store.on_failed = self.fail
        self._started_ms = self.env.clock.now_ms()
        self._maybe_tick_on()

    def stop(self) -> None:
        """Do nothing more, and take nothing more into a log: the store is about to be closed."""
        self._stopped = True
        if self._ticker is not None:
            self._ticker.cancel()
        for replica in self._replicas.values():
            replica.is_closed = True

    def hand_over_all(self, on_done: Callable[[], None]) -> None:
        """Give leadership to other replicas where one can take it; answered in a good second.

        Until they are known to lead, or that second is over: clients are told who does, then, by
        this broker and by all others, before they lose their connections to this one.
        """
        led = [each for each in self._replicas.values() if each.is_leader]
        led = [each for each in led if self._awaits_successor(each)]
        for replica in led:
            replica.hand_over()
        begun_ms = self.env.clock.now_ms()

        def check(waiting: Sequence[Replica]) -> None:
            waiting = [each for each in waiting if self._awaits_successor(each)]
            passed_ms = self.env.clock.now_ms() - begun_ms
            if not waiting or passed_ms >= HAND_OVER_MS_MAX:
                self.env.clock.call_later(ASK_AGAIN_MS if led else 0, on_done)
                return
            if passed_ms >= HAND_OVER_MS_MAX // 2:
                for replica in waiting:
                    replica.core.resign()
                    self.touch(replica)
            self.env.clock.call_later(10, partial(check, waiting))

        check(led)

    def _awaits_successor(self, replica: Replica) -> bool:
        """Whether nobody else leads it, and another voter is alive."""
        if replica.is_closed or replica.leader not in (None, self.node):
            return False
        configuration = replica.core.configuration
        return any(
            node != self.node and self.peers.is_alive(node)
            for node in configuration.members
            if configuration.is_voter(node)
        )

    # -- events

    def on_raft(self, node: NodeId, group: GroupId, message: memoryview) -> None:
        """Take a peer's message."""
        replica = self._replicas.get(group)
        if replica is None and group in self._offline:
            self._answer_not_here(node, group, message)
            return
        if replica is None:
            self._early.append((node, group, bytes(message)))
            return
        parsed = None
        try:
            parsed = read_message(message)
            has_room = True
            if isinstance(parsed, AppendRequest):
                _check_entries(parsed)
                has_room = group == CONTROLLER_GROUP or self._has_room()
            replica.core.step(parsed, has_room=has_room)
            if not has_room:
                self._maybe_give_way(replica)
            elif replica.refuses_since_ms is not None and isinstance(parsed, AppendRequest):
                replica.refuses_since_ms = None
        except (MalformedRaftMessage, CorruptBatch) as error:
            name = replica.log.identity.directory
            self._drops.say(f"dropping a Raft message from broker {node} for {name}: {error}")
            if isinstance(parsed, AppendRequest):
                # One of the two logs is damaged. Without an answer, its sender and this broker
                # would begin anew with one another as fast as they can.
                self._say_not_here(node, group, parsed.term)
        self.touch(replica)

    def _has_room(self) -> bool:
        """Tell whether a follower can take records.

        Where space has run out this broker takes part without them: it is to get some by that.
        (`_maybe_give_way` says for how long, where others cannot go on meanwhile.)
        """
        self.store.look_for_space()
        return self.store.refusal is None

    def _may_leave(self) -> bool:
        """Tell whether enough controllers are up without this broker to go on."""
        replica = self._replicas.get(CONTROLLER_GROUP)
        if replica is None:
            return True
        return all(
            2 * sum(node != self.node and self.peers.is_alive(node) for node in half) > len(half)
            for half in replica.core.configuration.halves
        )

    def _maybe_give_way(self, replica: Replica) -> None:
        """Fail as a whole if a group of two has long waited for this follower, without space.

        The controller lets the other one go on alone then. Of several brokers one does so first.
        """
        core, refusal = replica.core, self.store.refusal
        configuration = core.configuration
        if (
            refusal is None
            or not core.is_refusing
            or len(configuration.voters) != PAIR
            or not configuration.is_voter(self.node)
        ):
            replica.refuses_since_ms = None
            return
        now_ms = self.env.clock.now_ms()
        if replica.refuses_since_ms is None:
            replica.refuses_since_ms = now_ms
        elif (
            now_ms - replica.refuses_since_ms >= FULL_MS_MAX + FULL_STEP_MS * self._rank()
            and self._may_leave()
        ):
            self.fail(refusal)

    def _rank(self) -> int:
        """Return how many controllers come before this broker."""
        replica = self._replicas.get(CONTROLLER_GROUP)
        voters = () if replica is None else replica.core.configuration.voters
        return sum(node < self.node for node in voters)

    def _answer_not_here(self, node: NodeId, group: GroupId, data: memoryview) -> None:
        try:
            message = read_message(data)
        except MalformedRaftMessage as error:
            self._drops.say(
                f"dropping a Raft message from broker {node} for group {group}: {error}"
            )
            return
        if isinstance(message, AppendRequest | SnapshotRequest):
            self._say_not_here(node, group, message.term)

    def _say_not_here(self, node: NodeId, group: GroupId, term: Term) -> None:
        """Let a leader wait before it asks again, and count on the others meanwhile."""
        answer = NotHere(group, self.node, node, term)
        self.peers.send_raft(node, group, write_message(answer))  # type: ignore[arg-type]

    def on_leader_report(self, report: LeaderReport) -> None:
        """The leader of a group has told who is in sync: whoever leads next begins with that."""
        replica = self._replicas.get(GroupId(report.group))
        if replica is not None and report.leader >= 0:
            in_sync = [NodeId(node) for node in report.in_sync]
            replica.core.on_in_sync_told(Term(report.term), in_sync)

    def on_peer_seen(self, node: NodeId, *, restarted: bool) -> None:
        """A peer is alive (again)."""
        for replica in self._replicas.values():
            if replica.core.concerns(node):
                replica.core.on_peer_seen(node)
                self.touch(replica)

    def on_peer_lost(self, node: NodeId) -> None:
        """A peer is gone."""
        for replica in self._replicas.values():
            if replica.core.concerns(node):
                replica.core.on_peer_lost(node)
                self.touch(replica)

    def _on_tick(self) -> None:
        self._ticker = None
        for replica in list(self._active.values()):
            replica.core.tick()
            self.touch(replica)
        self._maybe_tick_on()

    def _maybe_tick_on(self) -> None:
        """Tick at the next multiple of `tick_ms` since the start if that changes anything."""
        started_ms = self._started_ms
        if started_ms is None or self._stopped or self._ticker is not None or not self._active:
            return
        passed_ms = self.env.clock.now_ms() - started_ms
        wait_ms = self._tick_ms - passed_ms % self._tick_ms
        self._ticker = self.env.clock.call_later(wait_ms, self._on_tick)

    # -- the turn

    def touch(self, replica: Replica) -> None:
        """See `ReplicaHost`."""
        if replica.is_closed:
            return
        self._dirty[replica.group] = replica
        if not self._turn_asked:
            self._turn_asked = True
            self.env.clock.call_soon(self._on_turn)

    def before_turn(self, work: Callable[[], None]) -> None:
        """Call this at the end of this turn, before replicas are performed: it may append."""
        self._before_turn.append(work)
        if not self._turn_asked:
            self._turn_asked = True
            self.env.clock.call_soon(self._on_turn)

    def _on_turn(self) -> None:
        self._turn_asked = False
        if self._stopped:
            return
        self.peers.hold_flush()
        for _ in range(ROUNDS_PER_TURN_MAX):
            if self._before_turn:
                before, self._before_turn = self._before_turn, []
                for work in before:
                    work()
            dirty = self._dirty
            if not dirty:
                break
            self._dirty = {}
            for replica in dirty.values():
                self._perform(replica)
        if (self._dirty or self._before_turn) and not self._turn_asked:
            self._turn_asked = True
            self.env.clock.call_soon(self._on_turn)
        if self._written:
            self._submit()
        self.peers.flush()

    def _perform(self, replica: Replica) -> None:
        if self.failure is not None:
            return
        try:
            replica.perform()
        except DiskFailed as error:
            self.fail(error)
            return
        if replica.is_closed:
            return
        if replica.core.is_quiet:
            self._active.pop(replica.group, None)
        else:
            self._active[replica.group] = replica
            self._maybe_tick_on()

    def perform_now(self, replica: Replica) -> None:
        """See `ReplicaHost`."""
        self._dirty.pop(replica.group, None)
        self._perform(replica)

    def send(self, replica: Replica, node: NodeId, message: object) -> None:
        """See `ReplicaHost`."""
        self.peers.send_raft(node, replica.group, write_message(message))  # type: ignore[arg-type]

    # -- durability

    def note_written(
        self,
        replica: Replica,
        hard_state: HardState | None,
        last_index: int | None,
        generation: int,
    ) -> None:
        """See `ReplicaHost`."""
        self._written.append(_Written(replica, hard_state, last_index, generation))

    def _submit(self) -> None:
        if self.failure is not None:
            return
        written, self._written = self._written, []
        try:
            self.store.submit(lambda: self._on_durable(written))
        except DiskFailed as error:
            self.fail(error)

    def _on_durable(self, written: list[_Written]) -> None:
        if self.failure is not None or self._stopped:
            return
        for replica, hard_state, last_index, generation in written:
            if not replica.is_closed:
                replica.on_durable(hard_state, last_index, generation)
                self._dirty[replica.group] = replica
        # Not in the next turn: everybody waits for this one.
        self._on_turn()

    def fail(self, error: Exception) -> None:
        """The disk failed: nothing is appended, voted or acknowledged here any more."""
        if self.failure is not None:
            return
        self.failure = error
        self.stop()
        for replica in self._replicas.values():
            replica.fail(error)
        self._on_failed(error)


def _check_entries(message: AppendRequest) -> None:
    """Check what a peer sends before it is written: its disk, or the way here, may have hurt it.

    Raises:
        CorruptBatch: a batch is not what its producer sent.
    """
    for entry in message.entries:
        if entry.kind is not EntryKind.DATA:
            continue
        data: Buffer = entry.data  # type: ignore[assignment]
        scan = scan_batches(data)
        if len(scan.batches) != 1 or scan.end != len(data):
            raise CorruptBatch(
                f"the batch at index {entry.first_index} is damaged ({scan.fault.name}); check the "
                "sender's disk"
            )
