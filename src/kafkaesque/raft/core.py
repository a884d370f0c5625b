"""The consensus core of one group.

Theory of operation. Raft (Ongaro and Ousterhout 2014; sections are given as §), with pre-vote and
check-quorum (dissertation 9.6, 6.2), leadership transfer (3.10), learners and joint consensus
(4.3).

- **Who does what.** Events come in as method calls, work goes out through `take_ready`. The core
  knows neither time nor bytes: ticks and jitter are given to it, entries pass through it on their
  way to the disk or to a peer.
- **Durability.** A vote counts and is given only after `on_hard_state_synced`; a follower
  acknowledges, and a leader counts itself, only after `on_synced`. Until then the core keeps the
  message, so every message of a Ready may leave at once.
- **Liveness.** There are no heartbeats within a group. The driver exchanges one heartbeat per peer
  node and reports `on_peer_seen` and `on_peer_lost`, in order with the messages of that peer. A
  follower's election timer stands still while its leader's node is alive *and* the leader has
  shown itself by an append since it was last lost; it runs as soon as the node is lost, when there
  is no leader, or when that node asks for votes and so evidently leads no more.
- **Quiet.** `is_quiet` says that ticks would change nothing; the driver then stops ticking until an
  event makes it False.

    FOLLOWER -- timeout --> PRE_CANDIDATE -- pre-votes --> CANDIDATE -- votes --> LEADER
    any role -- higher term, or a leader of this term --> FOLLOWER
"""

from collections.abc import Collection, Sequence

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.configuration import Configuration, check_configuration, write_configuration
from kafkaesque.raft.elector import Elector
from kafkaesque.raft.entries import EntryKind, EntryMeta, Payload, Proposal
from kafkaesque.raft.errors import (
    ConfigurationChangeRefused,
    MalformedRaftMessage,
    RaftInvariantBroken,
)
from kafkaesque.raft.formation import formation_of
from kafkaesque.raft.leadership import Leadership
from kafkaesque.raft.log_outline import LogOutline
from kafkaesque.raft.messages import (
    AnyMessage,
    AppendRequest,
    AppendResponse,
    ConfirmRequest,
    ConfirmResponse,
    NotHere,
    Readmit,
    SnapshotRequest,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from kafkaesque.raft.progress import PeerProgress
from kafkaesque.raft.ready import Ready, Replicate, Role, SendSnapshot

_DATA = EntryKind.DATA


class RaftCore(Elector):
    """One member of one group; see the module's theory of operation."""

    __slots__ = ()

    # --- what can be asked ------------------------------------------------------------------

    @property
    def commit_index(self) -> int:
        """Everything up to here is committed."""
        return self._log.commit_index

    @property
    def log(self) -> LogOutline:
        """The outline of the log; to be read only."""
        return self._log

    @property
    def is_refusing(self) -> bool:
        """Whether its leader has more than this follower, which has no room for that."""
        return self._follower_log.is_refusing

    @property
    def is_settled(self) -> bool:
        """Whether the configuration in force is committed and not joint; asked of a leader."""
        table = self._configurations
        return not table.effective.is_joint and table.effective_index <= self._log.commit_index

    @property
    def in_sync(self) -> tuple[NodeId, ...]:
        """The leader's view of the voters that are in sync; empty on other members."""
        return self._leadership.in_sync if self._leadership is not None else ()

    @property
    def everywhere_index(self) -> int:
        """Up to where all replicas have the log, as far as this one knows; less after a while."""
        leadership = self._leadership
        return (self._follower_log if leadership is None else leadership).everywhere_index

    @property
    def in_sync_expected(self) -> int:
        """How many voters are in sync or, early in a term, may prove it yet; 0 on non-leaders."""
        return self._leadership.in_sync_expected if self._leadership is not None else 0

    @property
    def offline(self) -> tuple[NodeId, ...]:
        """The members whose nodes live and have told this leader that the group is not there."""
        return self._leadership.offline if self._leadership is not None else ()

    @property
    def is_stuck(self) -> bool:
        """Whether this member leads, and too few voters take part for a commit."""
        return self._leadership is not None and self._leadership.is_stuck

    @property
    def peers(self) -> Sequence[PeerProgress]:
        """The leader's view of its peers, to be read only; empty on other members."""
        return self._leadership.peers if self._leadership is not None else ()

    # --- the log ----------------------------------------------------------------------------

    def propose(self, proposals: Sequence[Proposal]) -> list[EntryMeta]:
        """Put entries at the end of the leader's log and return them with index and term.

        They also come out in the next Ready, to be written; nothing is promised until the commit
        index reaches their last index in the same term.

        Raises:
            NotLeader: this member does not lead, or is handing leadership over.
        """
        leadership = self._leadership
        if leadership is None:
            raise NotLeader(leader=self._leader)
        if leadership.transferee is not None:
            raise NotLeader("leadership is being handed over")
        first_index = self._log.last_index + 1
        term = self.term
        entries = []
        for proposal in proposals:
            width = proposal.width
            if width < 1:
                raise RaftInvariantBroken(f"group {self.group}: an entry of width {width}")
            last_index = first_index + width - 1
            entries.append(
                EntryMeta(
                    first_index,
                    last_index,
                    term,
                    _DATA,
                    proposal.size_bytes,
                    proposal.data,
                )
            )
            first_index = last_index + 1
        if entries:
            self._log.extend(term, entries[0].first_index, entries[-1].last_index)
            self._outbox.append(entries)
            leadership.on_appended()
        return entries

    def on_synced(self, last_index: int, generation: int) -> None:
        """The log is durable here up to `last_index`, as handed out by a Ready of `generation`."""
        log = self._log
        if generation != log.generation or last_index <= log.synced_index:
            return  # truncated since, or known
        if last_index > log.last_index:
            raise RaftInvariantBroken(
                f"group {self.group}: synced up to {last_index}, but the log ends at"
                f" {log.last_index}"
            )
        log.synced_index = last_index
        if self._leadership is None:
            self._follower_log.on_synced()
        elif self._leadership.on_own_synced():
            self._on_committed()

    def compact(self, start_index: int) -> None:
        """Everything up to this index, the last of a committed and synced entry, is gone."""
        self._log.compact(start_index)
        self._configurations.forget_before(start_index)

    def set_min_insync(self, min_insync: int) -> None:
        """Commit from now on with max(majority, `min_insync`) voters, or all if there are fewer."""
        self._min_insync = min_insync
        if self._leadership is not None:
            self._leadership.set_min_insync(min_insync)
            if self._leadership.advance_commit():
                self._on_committed()

    def set_volatile(self) -> None:
        """What is reported as synced from now on may still be lost; not to be taken back."""
        self._follower_log.set_volatile()

    def on_in_sync_told(self, term: Term, nodes: Collection[NodeId]) -> None:
        """The leader of a term has told its driver's peers who is in sync."""
        if self._leadership is None and term >= self._told_term:
            self._told_term = term
            self._told_in_sync = {node for node in nodes if node in self._alive}

    def confirm(self) -> int:
        """Begin to find out whether this member leads still; return the number of the round.

        Once a Ready tells this round or a later one as confirmed, nobody led in a later term when
        it was asked for: what was committed by then is in this log. A round that is overtaken by
        the end of this leadership is never confirmed.

        Raises:
            NotLeader: this member does not lead.
        """
        if self._leadership is None:
            raise NotLeader(leader=self._leader)
        return self._leadership.confirmation.ask()

    # --- messages ---------------------------------------------------------------------------

    def step(self, message: AnyMessage, *, has_room: bool = True) -> None:
        """Take a message from a peer; without room for records, of an append only what is none.

        Raises:
            MalformedRaftMessage: it is not for this member, or contradicts itself.
        """
        if message.group != self.group or message.to != self.node:
            raise MalformedRaftMessage(
                f"a message for node {message.to}, group {message.group} came to node {self.node},"
                f" group {self.group}"
            )
        if message.term >= self._undecided_term:
            if isinstance(message, AppendRequest | SnapshotRequest):
                self._on_later_formation()
                return  # it is sent again
        if message.term != self.term:
            if formation_of(message.term) > self.formation:
                self._on_later_formation()
                return
            if not self._settle_term(message):
                return
        match message:
            case AppendRequest():
                self._on_append_request(message, has_room=has_room)
            case AppendResponse():
                self._on_append_response(message)
            case VoteRequest():
                self._on_vote_request(message)
            case VoteResponse():
                self._on_vote_response(message)
            case SnapshotRequest():
                self._accept_leader(message.sender)
                self._follower_log.on_snapshot_request(message)
            case TimeoutNow():
                self._on_timeout_now(message)
            case NotHere():
                if self._leadership is not None:
                    self._leadership.on_not_here(message.sender)
            case Readmit():
                self._follower_log.on_readmit(message)
            case ConfirmRequest():
                self._on_confirm_request(message)
            case ConfirmResponse():
                if self._leadership is not None:
                    self._leadership.on_confirmed(message.sender, message.round)

    def _on_later_formation(self) -> None:
        """The group has a new formation that this member does not know: it decides nothing."""
        if self._role is not Role.FOLLOWER:
            self._become_follower(self.term, None)

    def _settle_term(self, message: AnyMessage) -> bool:
        """Bring this member's term in line with a message; tell whether to go on with it."""
        if message.term < self.term:
            self._refuse_old_term(message)
            return False
        match message:
            case VoteRequest():
                return True  # its handler decides whether to move on
            case VoteResponse(pre=True, granted=True):
                return True
            case AppendRequest() | SnapshotRequest() | ConfirmRequest():
                self._become_follower(message.term, message.sender)
            case _:
                self._become_follower(message.term, None)
        return True

    def _refuse_old_term(self, message: AnyMessage) -> None:
        match message:
            case AppendRequest():
                self._follower_log.reject(message.sender, self.term, message.prev_index, 0)
            case SnapshotRequest():
                self._follower_log.reject(message.sender, self.term, message.last_index, 0)
            case ConfirmRequest():
                self._follower_log.reject(message.sender, self.term, 0, 0)
            case VoteRequest():
                self._answer_vote(message, granted=False)
            case _:
                pass  # an answer to something that this member no longer is

    def _on_append_request(self, message: AppendRequest, *, has_room: bool) -> None:
        self._accept_leader(message.sender)
        if self._follower_log.on_append_request(message, has_room=has_room):
            self._on_committed()

    def _on_confirm_request(self, message: ConfirmRequest) -> None:
        self._accept_leader(message.sender)
        if not self.amnesia:  # else it may have forgotten a later term
            self._outbox.send(
                ConfirmResponse(self.group, self.node, message.sender, self.term, message.round)
            )

    def _on_append_response(self, message: AppendResponse) -> None:
        leadership = self._leadership
        if leadership is None:
            return
        if self._follower_log.is_volatile and message.matched_index > self._log.last_index:
            # Its broker has not heard of `write.caching` yet, and goes by what it had committed.
            return
        if leadership.on_response(message):
            self._on_committed()
        elif leadership.is_astray:
            self._steer(leadership)

    def tick(self) -> None:
        """One tick of the driver's clock."""
        super().tick()
        if self._leadership is not None and self._leadership.is_astray:
            self._steer(self._leadership)

    def fill(self, work: Replicate, entries: Sequence[EntryMeta]) -> AppendRequest | None:
        """Give the entries that a `Replicate` asked for; send what is returned, if anything.

        Every `Replicate` must be filled, with no entries if they could not be read, unless its
        peer was lost since.
        """
        if self._leadership is None or work.term != self.term:
            return None
        return self._leadership.fill(work, entries)

    def fill_snapshot(
        self, work: SendSnapshot, last_index: int, data: Payload
    ) -> SnapshotRequest | None:
        """Give a snapshot of everything up to `last_index`, between the log's start and commit.

        Every `SendSnapshot` must be answered, by this or by `on_snapshot_failed`, unless its peer
        was lost since.
        """
        if self._leadership is None or work.term != self.term:
            return None
        placed = self._configurations.committed_at(self._log.commit_index)
        return self._leadership.fill_snapshot(work, last_index, placed, data)

    def on_snapshot_failed(self, work: SendSnapshot) -> None:
        """The snapshot that was asked for cannot be made or sent now."""
        if self._leadership is not None and work.term == self.term:
            self._leadership.on_snapshot_failed(work)

    def on_snapshot_installed(self, last_index: int, last_term: Term) -> None:
        """The snapshot of a Ready has durably taken the log's place."""
        self._follower_log.on_snapshot_installed(last_index, last_term)

    # --- leadership and membership ----------------------------------------------------------

    def transfer_leadership(self, to: NodeId) -> None:
        """Hand leadership to a voter once it has the whole log; given up after an election timeout.

        Meanwhile `propose` raises `NotLeader`.

        Raises:
            NotLeader: this member does not lead.
            TransferRefused: `to` is not a live voter, or another transfer is under way.
        """
        if self._leadership is None:
            raise NotLeader(leader=self._leader)
        if to != self.node:
            self._leadership.transfer_to(to)

    def resign(self) -> None:
        """Stop leading at once and ask the best live voter to take over; harmless elsewhere."""
        if self._leadership is not None:
            self._leadership.hand_over_at_once()
            self._become_follower(self.term, None)

    def change_configuration(self, target: Configuration) -> None:
        """Begin to change the members to `target`; done when it is in force and committed.

        A change of voters goes through a joint configuration, which is left by itself.

        Raises:
            NotLeader: this member does not lead.
            ConfigurationChangeRefused: `target` is not possible, or a change is under way.
        """
        if self._leadership is None:
            raise NotLeader(leader=self._leader)
        wrong = check_configuration(target)
        if wrong is not None or target.is_joint:
            raise ConfigurationChangeRefused(wrong or "the target of a change cannot be joint")
        current = self._configurations
        if current.effective.is_joint or current.effective_index > self._log.commit_index:
            raise ConfigurationChangeRefused("a change of the configuration is under way")
        if target != current.effective:
            self._append_configuration(self._leadership, current.effective.joined_with(target))

    def _append_configuration(self, leadership: Leadership, configuration: Configuration) -> None:
        index = self._append_mark(EntryKind.CONFIG, write_configuration(configuration))
        self._configurations.add(index, configuration)
        leadership.reconfigure(configuration)
        self._outbox.configuration = configuration
        if leadership.advance_commit():
            self._on_committed()

    def _on_committed(self) -> None:
        """The commit index has advanced: a committed configuration has consequences."""
        if not self._configurations.is_settled:
            self._settle_configuration()
        leadership = self._leadership
        if leadership is not None and leadership.is_astray:
            self._steer(leadership)

    def _settle_configuration(self) -> None:
        configurations = self._configurations
        commit_index = self._log.commit_index
        configurations.forget_before(commit_index)
        if configurations.effective_index > commit_index:
            return
        configurations.is_settled = True
        leadership = self._leadership
        if leadership is None:
            return
        if configurations.effective.is_joint:
            self._append_configuration(leadership, configurations.effective.left())
        elif not configurations.effective.is_voter(self.node):
            self.resign()

    def _steer(self, leadership: Leadership) -> None:
        """Take the next step towards the voters that there should be, one change at a time."""
        effective = self._configurations.effective
        is_changing = effective.is_joint or not self._configurations.is_settled
        if is_changing or not leadership.has_committed or leadership.transferee is not None:
            return  # asked again when that is over
        voters, strangers = leadership.next_voters(), self._strangers()
        if voters != effective.voters or strangers:
            others = [node for node in effective.members if node not in voters]
            target = Configuration(voters=voters, learners=(*others, *strangers))
            self._append_configuration(leadership, effective.joined_with(target))
        elif leadership.readmit(self._configurations.effective_index):
            self._append_mark(EntryKind.NOOP, b"")

    # --- work -------------------------------------------------------------------------------

    @property
    def has_new_marks(self) -> bool:
        """Whether the next Ready has entries without records, which move offsets."""
        return self._outbox.has_marks

    def take_ready(self) -> Ready | None:
        """Return the work that has come up since the last call, or None."""
        leadership = self._leadership
        if leadership is not None:
            if leadership.due or leadership.confirmation.is_due:
                leadership.collect()
        elif self._follower_log.owes_answer and self._leader is not None:
            self._follower_log.answer(self._leader, self.term)
        outbox = self._outbox
        return outbox.take(self._log.generation) if outbox.has_work else None
