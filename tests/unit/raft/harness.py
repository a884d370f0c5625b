"""A cluster of cores in memory: disks that lose what is not synced, a network that does anything.

Nothing happens by itself. A test (or a seed, or Hypothesis) says which message arrives, whose disk
syncs, who ticks, who crashes. After every event the checker looks at what came of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import Configuration, PlacedConfiguration
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState, Proposal, TermStart
from kafkaesque.raft.messages import AnyMessage, AppendRequest, SnapshotRequest
from kafkaesque.raft.ready import Ready, Replicate, Role, SendSnapshot
from kafkaesque.raft.wire import read_message, write_message
from tests.unit.raft.checker import Checker, Violation
from tests.unit.raft.disk_image import DiskImage, Write

GROUP = GroupId(7)


@dataclass(slots=True)
class PendingSync:
    """Written, not yet synced: what to report once the journal is durable up to `position`."""

    position: int
    hard_state: tuple[Term, NodeId | None] | None
    synced: tuple[int, int] | None


class Member:
    """One core with its disk; the core is None while the process is down."""

    def __init__(self, node: NodeId, base: PlacedConfiguration) -> None:
        self.node = node
        self.core: RaftCore | None = None
        self.incarnation = 0
        self.live = DiskImage(base)
        self.durable = DiskImage(base)
        #: What stood on disks that this member has lost.
        self.lost: list[DiskImage] = []
        self.journal: list[Write] = []
        self.pending: deque[PendingSync] = deque()
        #: Done by the disk, not yet reported to the core.
        self.reports: deque[PendingSync] = deque()
        self.work: deque[Replicate | SendSnapshot] = deque()
        self.installing: SnapshotRequest | None = None
        self.commit_index = 0
        self.configuration = base.configuration
        self.min_insync = 1
        self.led_term: Term | None = None
        self.confirmed_round = 0

    @property
    def up(self) -> RaftCore:
        if self.core is None:
            raise ValueError(f"node {self.node} is down")
        return self.core


class Cluster:
    """Members, the messages on their way, and what they know of one another's life."""

    def __init__(
        self,
        nodes: int = 3,
        *,
        voters: Sequence[int] | None = None,
        learners: Sequence[int] = (),
        wanted: Sequence[int] = (),
        config: RaftConfig | None = None,
        jitter: Callable[[int], int] = lambda bound: 0,
        via_wire: bool = True,
        is_lazy: bool = False,
        start: bool = True,
    ) -> None:
        self.config = config or RaftConfig()
        self.jitter = jitter
        self.via_wire = via_wire
        #: Leave `Replicate` and `SendSnapshot` work lying until `work` is called.
        self.is_lazy = is_lazy
        self.wanted = tuple(NodeId(n) for n in wanted)
        self.losses = 0
        configuration = Configuration(
            voters=tuple(NodeId(n) for n in (voters or range(1, nodes + 1))),
            learners=tuple(NodeId(n) for n in learners),
        )
        base = PlacedConfiguration(0, configuration)
        self.base = base
        self.members = {NodeId(n): Member(NodeId(n), base) for n in range(1, nodes + 1)}
        self.wire: list[AnyMessage] = []
        self.cuts: set[tuple[NodeId, NodeId]] = set()
        #: Members whose disks have no room for records.
        self.full: set[NodeId] = set()
        #: (observer, node) -> the incarnation that the observer was told is alive.
        self.reported: dict[tuple[NodeId, NodeId], int] = {}
        self.checker = Checker()
        self.proposals = 0
        if start:
            for node in self.members:
                self.start(node)
            self.notice_all()

    # --- processes --------------------------------------------------------------------------

    def __getitem__(self, node: int) -> RaftCore:
        return self.members[NodeId(node)].up

    def start(self, node: int) -> None:
        """Start a process on what its disk holds."""
        member = self.members[NodeId(node)]
        member.incarnation += 1
        member.live = member.durable.copy()
        member.journal = []
        core = RaftCore(
            group=GROUP,
            node=member.node,
            restored=member.live.restored(),
            config=self.config,
            jitter=self.jitter,
            min_insync=member.min_insync,
            wanted_voters=self.wanted,
        )
        member.core = core
        member.commit_index = core.commit_index
        member.configuration = core.configuration
        member.led_term = None
        self.reported = {key: at for key, at in self.reported.items() if key[0] != node}

    def crash(self, node: int) -> None:
        """Kill a process: what was not synced is lost, and so is what the core knew."""
        member = self.members[NodeId(node)]
        member.core = None
        for queue in (member.pending, member.reports, member.work):
            queue.clear()
        member.installing = None

    def lose_disk(self, node: int) -> None:
        """Kill a process for good with its disk; it comes back with an empty one."""
        self.crash(node)
        member = self.members[NodeId(node)]
        member.lost.append(member.durable)
        self.losses += 1
        member.durable = DiskImage(self.base)
        member.durable.amnesia = self.losses
        member.journal = []
        self.checker.forget(member.node)

    def has_enough_without(self, node: NodeId) -> bool:
        """Tell whether one more disk can be lost and a majority of all voters remembers."""
        absent = {n for n, member in self.members.items() if member.durable.amnesia} | {node}
        return all(
            2 * len(absent.intersection(half)) < len(half)
            for member in self.members.values()
            for image in (member.live, member.durable)
            for placed in image.restored().configurations
            for half in placed.configuration.halves
        )

    def cut(self, *nodes: int) -> None:
        """Separate some nodes from all others, both ways."""
        inside = [NodeId(n) for n in nodes]
        for a in self.members:
            for b in inside:
                if a not in inside:
                    self.cuts |= {(a, b), (b, a)}

    def heal(self) -> None:
        self.cuts.clear()

    # --- what members learn of one another ---------------------------------------------------

    def unnoticed(self) -> list[tuple[NodeId, NodeId]]:
        """Return the pairs (observer, node) of which the observer's knowledge is out of date."""
        return [
            (a, b)
            for a, observer in self.members.items()
            if observer.core is not None
            for b in self.members
            if a != b and self._truth(a, b) != self.reported.get((a, b), 0)
        ]

    def _truth(self, observer: NodeId, node: NodeId) -> int:
        peer = self.members[node]
        return 0 if peer.core is None or (observer, node) in self.cuts else peer.incarnation

    def notice(self, observer: int, node: int) -> None:
        """Tell an observer one step of the truth: lost first, then seen."""
        pair = (NodeId(observer), NodeId(node))
        core = self.members[pair[0]].up
        if self.reported.get(pair, 0):
            self.reported[pair] = 0
            # What was on its way on that connection is lost; the driver promises this order.
            self.wire = [m for m in self.wire if (m.to, m.sender) != pair]
            core.on_peer_lost(pair[1])
        else:
            self.reported[pair] = self._truth(*pair)
            core.on_peer_seen(pair[1])
        self.settle(pair[0])

    def notice_all(self) -> None:
        while pairs := self.unnoticed():
            for pair in pairs:
                self.notice(*pair)

    # --- events -----------------------------------------------------------------------------

    def tick(self, *nodes: int, times: int = 1) -> None:
        for _ in range(times):
            for node in nodes or tuple(self.members):
                core = self.members[NodeId(node)].core
                if core is not None:
                    was_quiet = core.is_quiet
                    core.tick()
                    if was_quiet and not (core.is_quiet and core.take_ready() is None):
                        raise Violation(f"node {node} was quiet, but a tick changes something")
                    self.settle(node)

    def propose(self, node: int, width: int = 1, size_bytes: int = 0) -> EntryMeta:
        self.proposals += 1
        data = b"%d" % self.proposals + bytes(size_bytes)
        entry = self[node].propose([Proposal(width, len(data), data)])[0]
        self.settle(node)
        return entry

    def confirm(self, node: int) -> int:
        """Let a leader find out whether it leads still."""
        core = self[node]
        number = core.confirm()
        self.checker.on_asked(NodeId(node), core.term, number)
        self.settle(node)
        return number

    def deliver(self, position: int = 0, *, keep: bool = False) -> None:
        """Let a message arrive (and, with `keep`, arrive once more later)."""
        message = self.wire[position] if keep else self.wire.pop(position)
        if (message.sender, message.to) in self.cuts:
            return
        if self.members[message.to].core is None:
            return
        if self.via_wire:
            message = read_message(b"".join(write_message(message)))  # type: ignore[arg-type]
        self[message.to].step(message, has_room=message.to not in self.full)
        self.settle(message.to)

    def sync(self, node: int) -> None:
        """Make everything durable that a member has written, and tell its core."""
        self.sync_disk(node)
        self.report_synced(node)

    def sync_disk(self, node: int) -> None:
        """Make it durable without telling the core yet."""
        member = self.members[NodeId(node)]
        for write in member.journal:
            member.durable.apply(write)
        member.journal.clear()
        member.reports.extend(member.pending)
        member.pending.clear()

    def report_synced(self, node: int) -> None:
        member = self.members[NodeId(node)]
        while member.reports and member.core is not None:
            report = member.reports.popleft()
            if report.hard_state is not None:
                member.core.on_hard_state_synced(*report.hard_state)
            if report.synced is not None:
                member.core.on_synced(*report.synced)
        if member.core is not None:
            self.settle(node)

    def work(self, node: int) -> None:
        """Perform one piece of reading for a peer."""
        member = self.members[NodeId(node)]
        item = member.work.popleft()
        message: AnyMessage | None
        if isinstance(item, Replicate):
            message = member.up.fill(item, self._read(member, item))
        elif member.commit_index >= member.live.start[0]:
            message = member.up.fill_snapshot(item, member.live.start[0], b"snapshot")
        else:
            member.up.on_snapshot_failed(item)
            message = None
        if message is not None:
            self._send(member, message)
        self.settle(node)

    def _read(self, member: Member, item: Replicate) -> list[EntryMeta]:
        found: list[EntryMeta] = []
        size_bytes = 0
        for entry in member.live.entries_after(item.first_index - 1):
            size_bytes += entry.size_bytes
            if found and size_bytes > item.bytes_max:
                break
            found.append(entry)
        return found

    def install(self, node: int) -> None:
        """Put a snapshot in the place of the log, durably."""
        member = self.members[NodeId(node)]
        request = member.installing
        if request is None:
            raise ValueError("nothing to install")
        member.installing = None
        snapshot = (request.last_index, request.last_term, request.configuration)
        self._write(member, Write(snapshot=snapshot))
        self.sync_disk(node)
        member.up.on_snapshot_installed(request.last_index, request.last_term)
        self.settle(node)
        self.report_synced(node)

    def compact(self, node: int, index: int) -> None:
        """Let a member's log start after a committed entry."""
        member = self.members[NodeId(node)]
        core = member.up
        placed = [PlacedConfiguration(0, member.live.base.configuration)]
        restored = member.live.restored().configurations
        placed += [p for p in restored if p.index <= index]
        term = core.log.term_at(index)
        core.compact(index)
        start_after = (index, term, placed[-1])
        if member.live.base.index > index:
            start_after = (index, term, member.live.base)
        self._write(member, Write(start_after=start_after, term_starts=core.log.term_starts))
        self.settle(node)

    def remove(self, node: int, index: int) -> None:
        """Let compaction take a committed entry out of a member's log."""
        member = self.members[NodeId(node)]
        self._write(member, Write(removed=index, term_starts=member.live.term_starts))

    # --- what came of it --------------------------------------------------------------------

    def settle(self, node: int) -> None:
        """Perform a member's work until nothing more comes of it, and check."""
        member = self.members[NodeId(node)]
        core = member.up
        self._check_leader(member)
        while (ready := core.take_ready()) is not None:
            self._perform(member, ready)
        member.configuration = core.configuration
        log, live = core.log, member.live
        ends = (log.last_index, log.start_index, log.term_starts)
        if member.installing is None and ends != (
            live.last_index,
            live.start[0],
            live.term_starts,
        ):
            raise Violation(
                f"node {node}: the core's log {ends} is not the one on disk,"
                f" {live.last_index, live.start[0], live.term_starts}"
            )
        while member.work and not self.is_lazy:
            self.work(node)

    def _check_leader(self, member: Member) -> None:
        core = member.up
        if core.role is Role.LEADER and member.led_term != core.term:
            member.led_term = core.term
            self.checker.on_leader(member.node, core.term, member.live)

    def _perform(self, member: Member, ready: Ready) -> None:
        core = member.up
        if ready.truncate_to is not None and core.is_leader:
            raise Violation(f"leader append-only: node {member.node} cuts its log")
        if ready.is_readmitted:
            readmitted = Write(is_readmitted=True, term_starts=member.live.term_starts)
            self._write(member, readmitted)
        if ready.hard_state is not None or ready.truncate_to is not None or ready.entries:
            write = Write(
                ready.hard_state,
                ready.truncate_to,
                ready.entries,
                term_starts=core.log.term_starts,
            )
            self._check_append(member, write)
            self._write(member, write)
            synced = (core.log.last_index, ready.generation) if ready.entries else None
            member.pending.append(PendingSync(len(member.journal), ready.hard_state, synced))
        for message in ready.messages:
            self._send(member, message)
        if ready.confirmed_round is not None:
            self.checker.on_confirmed(member.node, core.term, ready.confirmed_round)
            member.confirmed_round = ready.confirmed_round
        member.work.extend(ready.replicate)
        member.work.extend(ready.send_snapshots)
        if ready.install_snapshot is not None:
            member.installing = ready.install_snapshot
            if not self.is_lazy:
                self.install(member.node)
                return
        if ready.commit_index is not None:
            self._check_commit(member, ready.commit_index)

    def _check_append(self, member: Member, write: Write) -> None:
        live = member.live
        last_index = live.last_index
        if write.truncate_to is not None:
            last_index = min(last_index, write.truncate_to)
            if last_index < member.commit_index:
                raise Violation(f"node {member.node} cuts its log below its commit index")
        self.checker.on_appended((last_index, live.term_at(last_index)), write.entries)

    def _write(self, member: Member, write: Write) -> None:
        member.live.apply(write)
        member.journal.append(write)

    def _send(self, member: Member, message: AnyMessage) -> None:
        self.checker.on_sent(message, member.live, member.durable)
        if isinstance(message, AppendRequest) and message.everywhere_index:
            index = message.everywhere_index
            place = (index, member.live.term_at(index))
            held = [self.members[node] for node in member.up.configuration.members]
            self.checker.on_everywhere(place, [[m.durable, *m.lost] for m in held])
        self.wire.append(message)

    def _check_commit(self, member: Member, index: int) -> None:
        is_new = index > self.checker.commit[0]
        self.checker.on_committed(member.node, member.commit_index, index, member.live)
        member.commit_index = index
        if is_new:
            durable = {n: [m.durable, *m.lost] for n, m in self.members.items()}
            place = (index, member.live.term_at(index))
            if not any(
                self.checker.is_on_quorum(place, configuration, member.min_insync, durable)
                for configuration in (member.configuration, member.up.configuration)
            ):
                raise Violation(f"node {member.node} commits {place}, which no quorum has")

    # --- for tests that tell a story ----------------------------------------------------------

    def given_log(self, node: int, *terms: int, term: int | None = None) -> None:
        """Let a node that is not running have a log with these terms, one entry a position."""
        durable = self.members[NodeId(node)].durable
        before = (0, Term(0))
        starts: list[TermStart] = []
        for index, at in enumerate(terms, start=1):
            data = b"%d.%d" % (at, index)
            entry = EntryMeta(index, index, Term(at), EntryKind.DATA, len(data), data)
            if at != before[1]:
                starts.append(TermStart(Term(at), index))
            self.checker.on_appended(before, [entry])
            durable.apply(Write(entries=[entry], term_starts=list(starts)))
            before = (index, Term(at))
        hard_state = HardState(Term(max([0, *terms] if term is None else [term])), None)
        durable.apply(Write(hard_state=hard_state, term_starts=list(starts)))

    def start_all(self) -> None:
        for node, member in self.members.items():
            if member.core is None:
                self.start(node)
        self.notice_all()

    def on_wire(self, kind: type[AnyMessage]) -> list[AnyMessage]:
        """Return the messages of one type that are on their way."""
        return [message for message in self.wire if isinstance(message, kind)]

    def flow(self, rounds: int = 100) -> None:
        """Let everything that is on its way arrive and be synced, in order, until nothing is."""
        for _ in range(rounds):
            busy = False
            for node, member in self.members.items():
                while member.work:
                    self.work(node)
                if member.installing is not None:
                    self.install(node)
                if member.pending or member.reports:
                    busy = True
                    self.sync(node)
            while self.wire:
                busy = True
                self.deliver()
            if not busy:
                return
        raise Violation("messages never come to an end")

    def elect(self, node: int) -> None:
        """Make a node leader of the nodes that it can reach."""
        for _ in range(2):  # the first round may only teach it a newer term
            if not self[node].is_leader:
                self[node].campaign()
                self.settle(node)
                self.flow()
        if not self[node].is_leader:
            raise Violation(f"node {node} was not elected")

    def leads(self, node: int) -> bool:
        return self[node].is_leader

    def is_quiet(self, node: int) -> bool:
        return self[node].is_quiet

    @property
    def leader(self) -> int | None:
        """The leader of the highest term, if there is one."""
        leading = [
            (member.core.term, node)
            for node, member in self.members.items()
            if member.core is not None and member.core.is_leader
        ]
        return max(leading)[1] if leading else None

    def log(self, node: int) -> list[tuple[int, int, str]]:
        """Return a member's log as (last index, term, data) for comparison."""
        return [
            (e.last_index, e.term, bytes(e.data).decode() or e.kind.name.lower())  # type: ignore[arg-type]
            for e in self.members[NodeId(node)].live.entries
            if e.kind is not EntryKind.CONFIG
        ]


def snapshot_to_send(config: RaftConfig | None = None) -> tuple[Cluster, SendSnapshot]:
    """Return a lazy leader, 1, and what it has to do for 3, whose entries it has no more."""
    cluster = Cluster(3, config=config, is_lazy=True)
    cluster.elect(1)
    cluster.crash(3)
    cluster.notice_all()
    last = cluster.propose(1).last_index
    cluster.flow()
    cluster.compact(1, last)
    cluster.start(3)
    cluster.notice_all()
    while not cluster.members[NodeId(1)].work:
        cluster.deliver()
    work = cluster.members[NodeId(1)].work.popleft()
    assert isinstance(work, SendSnapshot)
    return cluster, work
