"""What a member does only while it leads: replicate, commit, watch its quorum, hand over.

Theory of operation. Each peer has a `PeerProgress`. An event that gives a peer something to be sent
makes it *due*; `collect` turns each due peer into at most one message or piece of work per Ready,
so that any number of proposals become one append. Peers that the driver holds for dead get nothing.
An entry is committed when Q = max(majority, `min_insync`) voters of each half of the configuration
have it durably and it is of this leader's own term (§5.4.2); the leader itself counts only with
what it has synced. Appends to peers need not wait for that (dissertation, 10.2.1).

A peer that has lost its log and its votes counts for nothing; `readmission` says how that ends.

In sync is only who is known to be. A term begins with the set that the last leader told, without
those that were lost since (a group's very first term: with all that live, for there is nothing to
lack); others come in by an answer to this leader that shows that they have what is committed. A
peer that has come back, or says that the group is not there, must answer anew. So a living process
whose log is damaged is in nobody's set. Availability does not hang on the set's first moments: a
commit needs Q voters whatever the set says, so whoever asks early in a term whether enough are in
sync goes by `in_sync_expected`, which counts the living that have yet to answer, as long as
a lagging one would be counted. Too few then means a wait for the commit, not a refusal.
"""

from collections.abc import Callable, Collection, Sequence

from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import Configuration, PlacedConfiguration
from kafkaesque.raft.confirmation import Confirmation
from kafkaesque.raft.entries import EntryMeta, Payload
from kafkaesque.raft.errors import RaftInvariantBroken, TransferRefused
from kafkaesque.raft.log_outline import LogOutline
from kafkaesque.raft.messages import (
    AppendRequest,
    AppendResponse,
    ConfirmRequest,
    Readmit,
    SnapshotRequest,
    TimeoutNow,
)
from kafkaesque.raft.progress import NEVER_TICK, PeerProgress, ProgressState
from kafkaesque.raft.readmission import find_readmissions, next_voters
from kafkaesque.raft.ready import Outbox, Replicate, SendSnapshot

_PROBE = ProgressState.PROBE
_REPLICATE = ProgressState.REPLICATE
_SNAPSHOT = ProgressState.SNAPSHOT


class Leadership:
    """The volatile state of one leader in one term."""

    __slots__ = ("_alive", "_config", "_configuration", "_group", "_halves", "_log",
                 "_min_insync", "_node", "_outbox", "_own", "_peers", "_quorum_lost_ticks",
                 "_term", "_term_first_index", "_tick", "_transfer_ticks", "_uncounted",
                 "confirmation", "due", "is_astray", "transferee", "wanted_voters")  # fmt: skip

    def __init__(
        self,
        *,
        group: GroupId,
        node: NodeId,
        term: Term,
        log: LogOutline,
        outbox: Outbox,
        config: RaftConfig,
        configuration: Configuration,
        min_insync: int,
        alive: set[NodeId],
        wanted_voters: Sequence[NodeId],
        in_sync: Collection[NodeId],
    ) -> None:
        self._group = group
        self._node = node
        self._term = term
        self._log = log
        self._outbox = outbox
        self._config = config
        self._alive = alive
        self._min_insync = min_insync
        #: Changed from outside, with `is_astray` set.
        self.wanted_voters = wanted_voters
        self._tick = 0
        self._quorum_lost_ticks = 0
        self._transfer_ticks = 0
        #: Who is to take over; nothing is proposed meanwhile.
        self.transferee: NodeId | None = None
        #: To be asked and read only.
        self.confirmation = Confirmation()
        #: Entries from here on are this term's.
        self._term_first_index = log.last_index + 1
        self._own = PeerProgress(node, 0, 0, is_alive=True)
        self._own.synced_index = log.synced_index
        #: Stands where a peer counts for nothing.
        self._uncounted = PeerProgress(node, 0, 0, is_alive=False)
        #: Somebody should be a voter who is none, or the other way round; to be read only.
        self.is_astray = False
        self._peers: dict[NodeId, PeerProgress] = {}
        #: Those that `collect` would look at; to be read only.
        self.due: list[PeerProgress] = []
        self._halves: list[tuple[list[PeerProgress], int]] = []
        self.reconfigure(configuration)
        self._begin_in_sync(in_sync)

    # --- membership -------------------------------------------------------------------------

    def reconfigure(self, configuration: Configuration) -> None:
        """Take another configuration in force: new peers are probed, others forgotten."""
        known = self._peers
        self._peers = {}
        for node in configuration.members:
            if node == self._node:
                continue
            peer = known.get(node)
            if peer is None:
                peer = PeerProgress(
                    node, self._log.last_index + 1, self._tick, is_alive=node in self._alive
                )
                peer.goal_index = self._log.last_index
            self._peers[node] = peer
            self._make_due(peer)
        for node, peer in known.items():
            if node not in self._peers:
                peer.is_alive = False  # still listed as due, perhaps: nothing is sent to it
        if self.transferee is not None and not configuration.is_voter(self.transferee):
            self.transferee = None
        before = self.in_sync
        self._set_halves(configuration)
        if self.in_sync != before:
            self._announce_in_sync()

    def _set_halves(self, configuration: Configuration) -> None:
        self._configuration = configuration
        progress = {
            node: self._uncounted if peer.amnesia else peer for node, peer in self._peers.items()
        }
        progress[self._node] = self._own
        self._halves = [
            self._with_quorum([progress[node] for node in half]) for half in configuration.halves
        ]

    @property
    def everywhere_index(self) -> int:
        """Up to where all replicas have the log, synced; who has yet to answer has nothing.

        Nor has who is to be a member and is none: it may come back with an old log.
        """
        index, peers = self._own.synced_index, self._peers
        for peer in peers.values():
            index = min(index, peer.synced_index)
        for node in self.wanted_voters:
            if node not in peers and node != self._node:
                return 0
        return index

    @property
    def has_committed(self) -> bool:
        """Whether an entry of this leader's own term is committed."""
        return self._log.commit_index >= self._term_first_index

    def next_voters(self) -> tuple[NodeId, ...]:
        """Return the voters that should be next; to be asked when the configuration is settled."""
        floor_index = max(self._log.commit_index, self._term_first_index)
        return next_voters(self._configuration, self._peers, self.wanted_voters, floor_index)

    def readmit(self, configuration_index: int) -> bool:
        """Readmit who can be; tell whether that needs a newer entry. Asked when settled."""
        found = find_readmissions(
            self._configuration,
            configuration_index,
            self._peers,
            self.wanted_voters,
            last_index=self._log.last_index,
            commit_index=self._log.commit_index,
        )
        for peer, index in found.ready:
            peer.is_readmit_due = False
            self._outbox.send(
                Readmit(self._group, self._node, peer.node, self._term, peer.amnesia, index)
            )
        self.is_astray = found.is_astray
        return found.wants_entry

    def _on_amnesia(self, peer: PeerProgress, amnesia: int) -> None:
        """A peer has lost everything, or is over it."""
        peer.amnesia = amnesia
        peer.readmit_index = self._log.last_index + 1
        self.is_astray = True
        if amnesia:
            peer.synced_index = peer.peer_commit_index = 0
            peer.caught_up_tick = NEVER_TICK
            peer.is_in_sync = False
            if peer.node == self.transferee:
                self.transferee = None
        self._set_halves(self._configuration)
        self._announce_in_sync()

    def _with_quorum(self, half: list[PeerProgress]) -> tuple[list[PeerProgress], int]:
        # With those that do not count the change that leaves them out could never be committed.
        countable = len(half) - half.count(self._uncounted)
        return half, max(len(half) // 2 + 1, min(countable, self._min_insync))

    def set_min_insync(self, min_insync: int) -> None:
        """Let later commits need another number of voters."""
        self._min_insync = min_insync
        self._halves = [self._with_quorum(half) for half, _ in self._halves]

    def _begin_in_sync(self, known: Collection[NodeId]) -> None:
        for peer in self._peers.values():
            if peer.is_alive and peer.node in known:
                peer.caught_up_tick = self._tick
                peer.is_in_sync = True
        self._announce_in_sync()

    # --- what is due ------------------------------------------------------------------------

    def _make_due(self, peer: PeerProgress) -> None:
        if not peer.is_due and peer.is_alive:
            peer.is_due = True
            self.due.append(peer)

    def on_appended(self) -> None:
        """The log has grown: everybody who can take more is due."""
        for peer in self._peers.values():
            if peer.state is _REPLICATE and not peer.is_due and peer.is_alive:
                peer.is_due = True
                self.due.append(peer)

    def collect(self) -> None:
        """Put what is due into the outbox."""
        if self.confirmation.is_due:
            self._ask_round()
        due, self.due = self.due, []
        for peer in due:
            peer.is_due = False
            if peer.is_alive and peer.work is None and peer.state is not _SNAPSHOT:
                self._collect_one(peer)

    def _collect_one(self, peer: PeerProgress) -> None:
        log = self._log
        prev_index = peer.next_index - 1
        is_probing = peer.state is _PROBE
        if prev_index < log.start_index:
            peer.turn(_SNAPSHOT, peer.next_index)
            snapshot = SendSnapshot(peer.node, self._term)
            peer.work = snapshot
            self._outbox.send_snapshots.append(snapshot)
            self._outbox.touch()
        elif is_probing and peer.awaits_answer:
            return
        elif prev_index >= log.last_index or (is_probing and not self._likely_agrees(prev_index)):
            if is_probing or peer.sent_commit_index < log.commit_index:
                self._send_empty(peer)
        elif is_probing or self._window_bytes(peer) > 0:
            bytes_max = min(self._config.append_bytes_max, self._window_bytes(peer))
            replicate = Replicate(peer.node, self._term, peer.next_index, bytes_max)
            peer.work = replicate
            self._outbox.replicate.append(replicate)
            self._outbox.touch()

    def _likely_agrees(self, prev_index: int) -> bool:
        # A first probe from the end of the log takes the new leader's first entries along; later
        # ones, further back, are guesses and travel light.
        return prev_index >= self._term_first_index - 1

    def _window_bytes(self, peer: PeerProgress) -> int:
        if len(peer.inflight) >= self._config.inflight_messages_max:
            return 0
        return self._config.inflight_bytes_max - peer.inflight_bytes

    def _send_empty(self, peer: PeerProgress) -> None:
        if peer.next_index - 1 < self._log.start_index:
            self._make_due(peer)  # the log has been cut meanwhile: `collect` turns to a snapshot
            return
        self._outbox.send(self._append_request(peer, ()))
        peer.awaits_answer = True
        peer.sent_tick = self._tick

    def _append_request(self, peer: PeerProgress, entries: Sequence[EntryMeta]) -> AppendRequest:
        log = self._log
        prev_index = peer.next_index - 1
        last_index = entries[-1].last_index if entries else prev_index
        peer.sent_commit_index = min(log.commit_index, last_index)
        return AppendRequest(
            self._group,
            self._node,
            peer.node,
            self._term,
            prev_index,
            log.term_at(prev_index),
            log.commit_index,
            log.starts_within(prev_index, last_index),
            entries,
            self.everywhere_index,
        )

    def fill(self, work: Replicate, entries: Sequence[EntryMeta]) -> AppendRequest | None:
        """Make the append that `work` asked for, or None if things have changed since."""
        peer = self._peers.get(work.to)
        if peer is None or peer.work is not work:
            return None
        peer.work = None
        prev_index = peer.next_index - 1
        if not peer.is_alive or peer.state is _SNAPSHOT:
            return None
        if peer.next_index != work.first_index or prev_index < self._log.start_index:
            self._make_due(peer)
            return None
        if not entries:
            peer.awaits_answer = True  # nothing could be read: the retry tick asks again
            peer.sent_tick = self._tick
            return None
        last_index = entries[-1].last_index
        if entries[0].last_index < work.first_index or last_index > self._log.last_index:
            raise RaftInvariantBroken(
                f"group {self._group}: asked for entries from {work.first_index} to"
                f" {self._log.last_index}, got {entries[0].last_index} to {last_index}"
            )
        message = self._append_request(peer, entries)
        peer.on_sent(last_index, sum([entry.size_bytes for entry in entries]), self._tick)
        if last_index < self._log.last_index:
            self._make_due(peer)
        return message

    def fill_snapshot(
        self, work: SendSnapshot, last_index: int, placed: PlacedConfiguration, data: Payload
    ) -> SnapshotRequest | None:
        """Make the snapshot message that `work` asked for, or None if things have changed."""
        peer = self._peers.get(work.to)
        if peer is None or peer.work is not work:
            return None
        peer.work = None
        if not peer.is_alive or peer.state is not _SNAPSHOT:
            self._make_due(peer)
            return None
        if not self._log.start_index <= last_index <= self._log.commit_index:
            raise RaftInvariantBroken(
                f"group {self._group}: a snapshot at {last_index} of a log from"
                f" {self._log.start_index}, committed to {self._log.commit_index}"
            )
        peer.awaits_answer = True
        peer.sent_tick = self._tick
        term = self._log.term_at(last_index)
        return SnapshotRequest(
            self._group, self._node, work.to, self._term, last_index, term, placed, data
        )

    def on_snapshot_failed(self, work: SendSnapshot) -> None:
        """The driver could not make or send it: the retry tick asks again."""
        peer = self._peers.get(work.to)
        if peer is not None and peer.work is work:
            peer.work = None
            peer.awaits_answer = True
            peer.sent_tick = self._tick

    # --- answers ----------------------------------------------------------------------------

    def on_response(self, message: AppendResponse) -> bool:
        """Take a peer's answer; tell whether the commit index has advanced."""
        peer = self._peers.get(message.sender)
        if peer is None:
            return False  # left the group
        peer.heard_tick = self._tick
        if peer.is_absent:
            peer.is_absent = False
            self._announce_in_sync()
        if message.amnesia != peer.amnesia:
            self._on_amnesia(peer, message.amnesia)
        peer.is_readmit_due = message.amnesia != 0
        if message.rejected:
            self._on_rejected(peer, message)
            return False
        log = self._log
        if message.matched_index > log.last_index or message.synced_index > message.matched_index:
            raise RaftInvariantBroken(
                f"group {self._group}: node {peer.node} acknowledges {message.matched_index},"
                f" {message.synced_index} synced, of a log that ends at {log.last_index}"
            )
        peer.awaits_answer = False
        peer.peer_commit_index = max(peer.peer_commit_index, message.commit_index)
        has_moved = message.synced_index > peer.synced_index
        peer.on_synced(message.synced_index)
        self._settle(peer, message)
        if peer.inflight:
            peer.awaits_answer = True
            peer.sent_tick = self._tick
        elif self._config.tell_commit_at_once and peer.sent_commit_index < log.commit_index:
            self._make_due(peer)
        if has_moved or not peer.is_in_sync:
            self._note_in_sync(peer)
        if not has_moved:
            return False
        if peer.node == self.transferee:
            self._maybe_hand_over(peer)
        return peer.synced_index > log.commit_index and self.advance_commit()

    def _settle(self, peer: PeerProgress, message: AppendResponse) -> None:
        next_index = max(message.matched_index, peer.synced_index) + 1
        if peer.state is _SNAPSHOT:
            if peer.work is not None or next_index <= self._log.start_index:
                peer.awaits_answer = True
                return
            peer.turn(_PROBE, next_index)
        if peer.state is _PROBE:
            peer.turn(_REPLICATE, next_index)
        elif next_index > peer.next_index:
            peer.next_index = next_index
        if peer.next_index <= self._log.last_index:
            self._make_due(peer)

    def _on_rejected(self, peer: PeerProgress, message: AppendResponse) -> None:
        if peer.state is _SNAPSHOT:
            return
        if not message.prev_index:
            return  # no log disagrees there: it refuses what was sent in an earlier term
        if peer.state is _PROBE:
            if message.prev_index != peer.next_index - 1:
                return  # answers an earlier probe
        elif message.prev_index <= peer.synced_index:
            return  # overtaken by a later acknowledgement
        found = self._log.newest_not_above(message.hint_index, message.hint_term)
        # No common place in what is left of the log: a next index below the start asks for a
        # snapshot.
        next_index = found.first_index + 1 if found is not None else self._log.start_index
        next_index = min(next_index, message.prev_index)
        if next_index < 1:
            raise RaftInvariantBroken(
                f"group {self._group}: node {peer.node} rejects the log's very beginning"
            )
        # A peer that has lost what it had acknowledged (`write.caching`) counts no longer for it.
        peer.synced_index = min(peer.synced_index, next_index - 1)
        peer.turn(_PROBE, next_index)
        self._make_due(peer)

    def on_not_here(self, node: NodeId) -> None:
        """A peer's process lives, but cannot take part: what is sent to it only asks again."""
        peer = self._peers.get(node)
        if peer is None or not peer.is_alive:
            return
        peer.heard_tick = NEVER_TICK
        if peer.state is _REPLICATE:
            peer.turn(_PROBE, peer.synced_index + 1)
            peer.awaits_answer = True
            peer.sent_tick = self._tick
        if not peer.is_absent:
            peer.is_absent = True
            peer.is_in_sync = False
            self._announce_in_sync()
        if node == self.transferee:
            self.transferee = None

    def on_own_synced(self) -> bool:
        """The leader's own log is durable further on; tell whether the commit index advanced."""
        self._own.synced_index = self._log.synced_index
        return self.advance_commit()

    def advance_commit(self) -> bool:
        """Commit what a quorum has, if it is of this term; tell whether anything was."""
        halves = self._halves
        half, quorum = halves[0]
        if len(half) == 1:
            index = half[0].synced_index
        else:
            index = sorted([peer.synced_index for peer in half])[-quorum]
        if len(halves) > 1:
            half, quorum = halves[1]
            index = min(index, sorted([peer.synced_index for peer in half])[-quorum])
        log = self._log
        if index <= log.commit_index or index < self._term_first_index:
            return False
        log.commit_index = index
        self._outbox.commit(index)
        if self._config.tell_commit_at_once:
            for peer in self._peers.values():
                if peer.state is _REPLICATE and not peer.inflight:
                    self._make_due(peer)
        return True

    # --- liveness ---------------------------------------------------------------------------

    def on_peer_seen(self, node: NodeId) -> None:
        """A peer's process is there (again): find out what it has, and let it know its leader."""
        self.is_astray = True  # perhaps it can be made a voter
        peer = self._peers.get(node)
        if peer is None:
            return
        peer.is_alive = True
        if peer.state is not _PROBE:
            peer.turn(_PROBE, peer.synced_index + 1)
        peer.awaits_answer = False
        self._make_due(peer)

    def on_peer_lost(self, node: NodeId) -> None:
        """A peer's process is gone, and with it all that was on its way."""
        peer = self._peers.get(node)
        if peer is None:
            return
        peer.is_alive = False
        peer.heard_tick = NEVER_TICK
        peer.work = None
        next_index = peer.synced_index + 1 if peer.state is _REPLICATE else peer.next_index
        peer.turn(_PROBE, next_index)
        if node == self.transferee:
            self.transferee = None
        if peer.is_in_sync or peer.is_absent:
            # Kafka's controller takes a dead broker out at once, too; the lag is for the living.
            peer.is_in_sync = peer.is_absent = False
            self._announce_in_sync()

    def _ask_round(self) -> None:
        self.confirmation.on_sent(self._tick)
        number = self.confirmation.sent
        for peer in self._peers.values():
            if peer.is_alive:
                self._outbox.send(
                    ConfirmRequest(self._group, self._node, peer.node, self._term, number)
                )
        self._count_answers()

    def on_confirmed(self, node: NodeId, number: int) -> None:
        """A peer has answered a round."""
        self.confirmation.on_answer(node, number)
        self._count_answers()

    def _count_answers(self) -> None:
        if self.confirmation.count([half for half, _ in self._halves], self._own):
            self._outbox.confirm(self.confirmation.confirmed)

    def contact(self, node: NodeId) -> None:
        """A peer asks for votes, so it does not know its leader: answer with a probe."""
        peer = self._peers.get(node)
        if peer is not None and peer.is_alive and peer.state is not _SNAPSHOT:
            self._send_empty(peer)

    def tick(self) -> bool:
        """One tick; tell whether the leader has to step down for want of a live quorum."""
        self._tick += 1
        for peer in self._peers.values():
            self._tick_peer(peer)
        confirmation = self.confirmation
        if confirmation.is_open and self._tick - confirmation.sent_tick >= self._config.retry_ticks:
            self._ask_round()
        if self.transferee is not None:
            self._transfer_ticks += 1
            if self._transfer_ticks >= self._config.election_ticks:
                self.transferee = None
        if self._has_live_quorum():
            self._quorum_lost_ticks = 0
            return False
        self._quorum_lost_ticks += 1
        return self._quorum_lost_ticks >= self._config.election_ticks

    def _tick_peer(self, peer: PeerProgress) -> None:
        if peer.is_alive:
            config = self._config
            silence = self._tick - peer.sent_tick
            if peer.awaits_answer:
                if peer.state is _SNAPSHOT:
                    if silence >= config.snapshot_retry_ticks:
                        peer.turn(_PROBE, peer.next_index)
                        self._make_due(peer)
                elif silence >= config.retry_ticks and peer.work is None:
                    self._send_empty(peer)
            elif peer.state is _REPLICATE and peer.work is None and not peer.is_due:
                is_untold = peer.peer_commit_index < self._log.commit_index and silence > 0
                is_behind = peer.synced_index < self._log.last_index or peer.amnesia
                if is_untold or (is_behind and silence >= config.retry_ticks):
                    self._send_empty(peer)
        self._note_in_sync(peer)

    def _has_live_quorum(self) -> bool:
        recent = self._tick - self._config.election_ticks
        return self._is_quorum(lambda peer: peer.is_alive or peer.heard_tick > recent)

    def _is_quorum(self, counts: Callable[[PeerProgress], bool]) -> bool:
        return all(sum(map(counts, half)) > len(half) // 2 for half, _ in self._halves)

    # --- in sync ----------------------------------------------------------------------------

    def _note_in_sync(self, peer: PeerProgress) -> None:
        if peer.is_alive and peer.heard_tick != NEVER_TICK:
            peer.note_caught_up(self._log.last_index, self._tick)
        is_recent = self._tick - peer.caught_up_tick <= self._config.in_sync_lag_ticks
        if peer.is_in_sync:
            is_in_sync = is_recent
        else:
            # To come back it must also have all that is committed (and this term's beginning).
            floor = max(self._log.commit_index, self._term_first_index)
            has_answered = peer.is_alive and peer.heard_tick != NEVER_TICK
            is_in_sync = is_recent and has_answered and peer.synced_index >= floor
        if is_in_sync is not peer.is_in_sync:
            peer.is_in_sync = is_in_sync
            self._announce_in_sync()

    @property
    def in_sync(self) -> tuple[NodeId, ...]:
        """The voters that were caught up within `in_sync_lag_ticks`, the leader first if one."""
        found: dict[NodeId, None] = {}
        for half, _ in self._halves:
            for peer in half:
                if peer.is_in_sync or peer is self._own:
                    found[peer.node] = None
        return tuple(found)

    @property
    def in_sync_expected(self) -> int:
        """How many voters are in sync or, early in this term, may prove it yet."""
        in_sync = self.in_sync
        if self._tick > self._config.in_sync_lag_ticks:
            return len(in_sync)
        hoped = {
            peer.node
            for half, _ in self._halves
            for peer in half
            if peer.is_alive and not peer.is_absent
        }
        return len(hoped.union(in_sync))

    @property
    def offline(self) -> tuple[NodeId, ...]:
        """The peers whose nodes live and have told that the group is not there."""
        return tuple(peer.node for peer in self._peers.values() if peer.is_absent)

    @property
    def is_stuck(self) -> bool:
        """Whether too few voters take part for a commit, though enough of their nodes live."""
        return not self._is_quorum(lambda peer: peer.is_alive and not peer.is_absent)

    def _announce_in_sync(self) -> None:
        self._outbox.in_sync = self.in_sync
        self._outbox.touch()

    # --- handing over -----------------------------------------------------------------------

    def transfer_to(self, node: NodeId) -> None:
        """Let a caught-up voter take over, as soon as it is one.

        Raises:
            TransferRefused: it is not a live voter, or another transfer is under way.
        """
        peer = self._peers.get(node)
        is_voter = any(peer is voter for half, _ in self._halves for voter in half)
        if peer is None or not is_voter or not peer.is_alive or peer.is_absent:
            raise TransferRefused(f"node {node} is not a live voter of group {self._group}")
        if self.transferee is not None and self.transferee != node:
            raise TransferRefused(f"leadership is already being handed to node {self.transferee}")
        if self.transferee is None:
            self.transferee = node
            self._transfer_ticks = 0
        self._maybe_hand_over(peer)

    def _maybe_hand_over(self, peer: PeerProgress) -> None:
        if peer.synced_index == self._log.last_index:
            self._outbox.send(TimeoutNow(self._group, self._node, peer.node, self._term))

    def hand_over_at_once(self) -> None:
        """Ask the voter that has most of the log to take over; the leader is about to leave."""
        best: PeerProgress | None = None
        for peer in self._halves[0][0]:
            if peer is self._own or not peer.is_alive or peer.is_absent:
                continue
            if peer.state is _REPLICATE:
                self._send_empty(peer)  # with the commit index
            if best is None or peer.synced_index > best.synced_index:
                best = peer
        if best is not None:
            self._outbox.send(TimeoutNow(self._group, self._node, best.node, self._term))

    # --- for the driver ---------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Whether nothing would come of a tick."""
        if self.due or self.transferee is not None or self.is_astray or self.confirmation.is_open:
            return False
        if not self._peers:
            return True
        log = self._log
        for peer in self._peers.values():
            if not peer.is_alive:
                if peer.is_in_sync:
                    return False
            elif (
                peer.synced_index != log.last_index
                or peer.peer_commit_index < log.commit_index
                or peer.state is not _REPLICATE
                or peer.work is not None
                or peer.awaits_answer
                or not peer.is_in_sync
                or peer.amnesia
            ):
                return False
        return self._is_quorum(lambda peer: peer.is_alive)

    @property
    def peers(self) -> Sequence[PeerProgress]:
        """What is known of each peer; to be read only."""
        return list(self._peers.values())
