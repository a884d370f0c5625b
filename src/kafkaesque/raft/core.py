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

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kafkaesque.model.errors import NotLeader
from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import (
    Ballot,
    Configuration,
    ConfigurationTable,
    PlacedConfiguration,
    check_configuration,
    write_configuration,
)
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState, Payload, Proposal, TermStart
from kafkaesque.raft.errors import (
    ConfigurationChangeRefused,
    MalformedRaftMessage,
    RaftInvariantBroken,
)
from kafkaesque.raft.follower_log import FollowerLog
from kafkaesque.raft.leadership import Leadership
from kafkaesque.raft.log_outline import LogOutline
from kafkaesque.raft.messages import (
    AnyMessage,
    AppendRequest,
    AppendResponse,
    SnapshotRequest,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from kafkaesque.raft.progress import PeerProgress
from kafkaesque.raft.ready import Outbox, Ready, Replicate, Role, RoleChange, SendSnapshot

_TRANSITIONS = {
    Role.FOLLOWER: (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE),
    Role.PRE_CANDIDATE: (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE),
    Role.CANDIDATE: (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE, Role.LEADER),
    Role.LEADER: (Role.FOLLOWER,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredState:
    """What a member finds on its disk when it starts; all of it is durable."""

    hard_state: HardState = HardState(Term(0), None)
    #: Everything up to this (index, term) is gone: a snapshot, or the partition's log start.
    log_start: tuple[int, Term] = (0, Term(0))
    term_starts: Sequence[TermStart] = ()
    last_index: int = 0
    #: 0 if unknown.
    commit_index: int = 0
    #: At least the last committed one, and every one in the log after it.
    configurations: Sequence[PlacedConfiguration]


class RaftCore:
    """One member of one group; see the module's theory of operation."""

    __slots__ = (
        "_alive",
        "_ballot",
        "_config",
        "_configurations",
        "_elapsed_ticks",
        "_follower_log",
        "_held",
        "_is_hard_state_synced",
        "_is_leader_confirmed",
        "_jitter",
        "_leader",
        "_leadership",
        "_log",
        "_min_insync",
        "_outbox",
        "_role",
        "_silence_ticks",
        "_term",
        "_timeout_ticks",
        "_vote",
        "group",
        "node",
    )

    def __init__(
        self,
        *,
        group: GroupId,
        node: NodeId,
        restored: RestoredState,
        config: RaftConfig,
        jitter: Callable[[int], int],
        alive: Iterable[NodeId] = (),
        min_insync: int = 1,
    ) -> None:
        """Make a follower. `jitter(n)` gives a number from 0 to n - 1; `alive` are live peers."""
        self.group = group
        self.node = node
        self._config = config
        self._jitter = jitter
        self._alive = set(alive)
        self._min_insync = min_insync
        self._log = LogOutline(
            start=restored.log_start,
            term_starts=restored.term_starts,
            last_index=restored.last_index,
            commit_index=restored.commit_index,
        )
        self._configurations = ConfigurationTable(restored.configurations)
        self._outbox = Outbox()
        self._term, self._vote = restored.hard_state
        if self._term < self._log.last_term:
            raise RaftInvariantBroken(
                f"group {group}: the log ends with term {self._log.last_term}, but the hard state"
                f" has term {self._term}"
            )
        self._is_hard_state_synced = True
        self._held: list[AnyMessage] = []
        self._role = Role.FOLLOWER
        self._leader: NodeId | None = None
        self._is_leader_confirmed = False
        self._leadership: Leadership | None = None
        self._ballot: Ballot | None = None
        self._follower_log = FollowerLog(
            group=group,
            node=node,
            log=self._log,
            outbox=self._outbox,
            configurations=self._configurations,
        )
        self._elapsed_ticks = 0
        self._silence_ticks = config.election_ticks
        self._timeout_ticks = 0
        self._restart_timer()

    # --- what can be asked ------------------------------------------------------------------

    @property
    def role(self) -> Role:
        """What this member is."""
        return self._role

    @property
    def term(self) -> Term:
        """The current term."""
        return self._term

    @property
    def leader(self) -> NodeId | None:
        """Who leads in this term, as far as known."""
        return self._leader

    @property
    def is_leader(self) -> bool:
        """Whether this member leads."""
        return self._leadership is not None

    @property
    def commit_index(self) -> int:
        """Everything up to here is committed."""
        return self._log.commit_index

    @property
    def log(self) -> LogOutline:
        """The outline of the log; to be read only."""
        return self._log

    @property
    def configuration(self) -> Configuration:
        """The configuration in force, committed or not."""
        return self._configurations.effective

    @property
    def in_sync(self) -> tuple[NodeId, ...]:
        """The leader's view of the voters that are in sync; empty on other members."""
        return self._leadership.in_sync if self._leadership is not None else ()

    @property
    def peers(self) -> Sequence[PeerProgress]:
        """The leader's view of its peers, to be read only; empty on other members."""
        return self._leadership.peers if self._leadership is not None else ()

    @property
    def is_quiet(self) -> bool:
        """Whether ticks would change nothing; valid until the next event."""
        if self._leadership is not None:
            return self._leadership.is_quiet
        if self._role is not Role.FOLLOWER:
            return False
        return self._is_leader_alive() or (self._leader is None and not self._may_campaign())

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
        term = self._term
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
                    EntryKind.DATA,
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

    def _append_mark(self, kind: EntryKind, data: bytes) -> int:
        index = self._log.last_index + 1
        self._log.extend(self._term, index, index)
        self._outbox.append((EntryMeta(index, index, self._term, kind, len(data), data),))
        if self._leadership is not None:
            self._leadership.on_appended()
        return index

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
            if self._leader is not None:
                self._follower_log.acknowledge_synced(self._leader, self._term)
        elif self._leadership.on_own_synced():
            self._on_committed()

    def on_hard_state_synced(self, term: Term, vote: NodeId | None) -> None:
        """This hard state is durable, and so is everything handed out before it."""
        if self._is_hard_state_synced or term != self._term or vote != self._vote:
            return
        self._is_hard_state_synced = True
        for message in self._held:
            self._outbox.send(message)
        self._held.clear()
        if self._role is Role.CANDIDATE:
            self._on_vote(self.node, True)

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

    # --- messages ---------------------------------------------------------------------------

    def step(self, message: AnyMessage) -> None:
        """Take a message from a peer.

        Raises:
            MalformedRaftMessage: it is not for this member, or contradicts itself.
        """
        if message.group != self.group or message.to != self.node:
            raise MalformedRaftMessage(
                f"a message for node {message.to}, group {message.group} came to node {self.node},"
                f" group {self.group}"
            )
        if message.term != self._term and not self._settle_term(message):
            return
        match message:
            case AppendRequest():
                self._on_append_request(message)
            case AppendResponse():
                if self._leadership is not None and self._leadership.on_response(message):
                    self._on_committed()
            case VoteRequest():
                self._on_vote_request(message)
            case VoteResponse():
                self._on_vote_response(message)
            case SnapshotRequest():
                self._accept_leader(message.sender)
                self._follower_log.on_snapshot_request(message)
            case TimeoutNow():
                self._on_timeout_now(message)

    def _settle_term(self, message: AnyMessage) -> bool:
        """Bring this member's term in line with a message; tell whether to go on with it."""
        if message.term < self._term:
            self._refuse_old_term(message)
            return False
        match message:
            case VoteRequest():
                return True  # its handler decides whether to move on
            case VoteResponse(pre=True, granted=True):
                return True
            case AppendRequest() | SnapshotRequest():
                self._become_follower(message.term, message.sender)
            case _:
                self._become_follower(message.term, None)
        return True

    def _refuse_old_term(self, message: AnyMessage) -> None:
        match message:
            case AppendRequest():
                self._follower_log.reject(message.sender, self._term, message.prev_index, 0)
            case SnapshotRequest():
                self._follower_log.reject(message.sender, self._term, message.last_index, 0)
            case VoteRequest():
                self._answer_vote(message, granted=False)
            case _:
                pass  # an answer to something that this member no longer is

    def _accept_leader(self, sender: NodeId) -> None:
        """An append or a snapshot of the current term comes from this term's leader."""
        if self._role is not Role.FOLLOWER or self._leader != sender:
            if self._role is Role.LEADER or self._leader not in (None, sender):
                raise RaftInvariantBroken(
                    f"group {self.group}: nodes {self._leader} and {sender} both lead in term"
                    f" {self._term}"
                )
            self._become_follower(self._term, sender)
        self._is_leader_confirmed = True
        self._elapsed_ticks = 0
        self._silence_ticks = 0

    def _on_append_request(self, message: AppendRequest) -> None:
        if self._role is not Role.FOLLOWER or self._leader != message.sender:
            self._accept_leader(message.sender)
        else:
            self._is_leader_confirmed = True
            self._elapsed_ticks = self._silence_ticks = 0
        if self._follower_log.on_append_request(message):
            self._on_committed()

    def fill(self, work: Replicate, entries: Sequence[EntryMeta]) -> AppendRequest | None:
        """Give the entries that a `Replicate` asked for; send what is returned, if anything.

        Every `Replicate` must be filled, with no entries if they could not be read.
        """
        if self._leadership is None or work.term != self._term:
            return None
        return self._leadership.fill(work, entries)

    def fill_snapshot(
        self, work: SendSnapshot, last_index: int, data: Payload
    ) -> SnapshotRequest | None:
        """Give a snapshot of everything up to `last_index`, between the log's start and commit.

        Every `SendSnapshot` must be answered, by this or by `on_snapshot_failed`.
        """
        if self._leadership is None or work.term != self._term:
            return None
        placed = self._configurations.committed_at(self._log.commit_index)
        return self._leadership.fill_snapshot(work, last_index, placed, data)

    def on_snapshot_failed(self, work: SendSnapshot) -> None:
        """The snapshot that was asked for cannot be made or sent now."""
        if self._leadership is not None and work.term == self._term:
            self._leadership.on_snapshot_failed(work)

    def on_snapshot_installed(self, last_index: int, last_term: Term) -> None:
        """The snapshot of a Ready has durably taken the log's place."""
        self._follower_log.on_snapshot_installed(last_index, last_term, self._leader, self._term)

    # --- elections --------------------------------------------------------------------------

    def campaign(self) -> None:
        """Ask for votes now, without waiting for the timer; harmless unless a voting follower."""
        if self._role is not Role.LEADER and self._may_campaign():
            self._pre_campaign()

    def _pre_campaign(self) -> None:
        self._turn(Role.PRE_CANDIDATE)
        self._set_leader(None)
        ballot = self._ballot = Ballot(self.configuration)
        ballot.record(self.node, True)
        if ballot.is_won:
            self._campaign(is_transfer=False)
            return
        self._restart_timer()
        self._ask_for_votes(pre=True, is_transfer=False)

    def _campaign(self, *, is_transfer: bool) -> None:
        self._turn(Role.CANDIDATE)
        self._set_leader(None)
        self._set_hard_state(Term(self._term + 1), self.node)
        self._ballot = Ballot(self.configuration)  # its own vote counts once it is durable
        self._restart_timer()
        self._ask_for_votes(pre=False, is_transfer=is_transfer)

    def _ask_for_votes(self, *, pre: bool, is_transfer: bool) -> None:
        for node in self.configuration.members:
            if node != self.node and self.configuration.is_voter(node):
                self._ask_for_vote(node, pre=pre, is_transfer=is_transfer)

    def _ask_for_vote(self, node: NodeId, *, pre: bool, is_transfer: bool) -> None:
        log = self._log
        term = Term(self._term + 1) if pre else self._term
        message = VoteRequest(
            self.group, self.node, node, term, log.last_index, log.last_term, pre, is_transfer
        )
        if pre or self._is_hard_state_synced:
            self._outbox.send(message)
        else:
            self._held.append(message)

    def _on_vote_request(self, message: VoteRequest) -> None:
        if message.sender == self._leader and message.term > self._term:
            self._forget_leader()  # it would not ask if it still led
        if not message.is_transfer and self._hears_leader():
            if self._leadership is not None:
                self._leadership.contact(message.sender)
            else:
                self._doubt_leader()
            if message.pre:
                self._answer_vote(message, granted=False)
            return  # a real vote is ignored: taking over its term would depose a leader that lives
        is_up_to_date = self._log.is_at_least(message.last_index, message.last_term)
        if message.pre:
            self._answer_vote(message, granted=is_up_to_date and message.term > self._term)
            return
        if message.term > self._term:
            self._become_follower(message.term, None)
        is_free = self._vote == message.sender or (self._vote is None and self._leader is None)
        if not is_free or not is_up_to_date:
            self._answer_vote(message, granted=False)
            return
        if self._role is Role.PRE_CANDIDATE:
            self._become_follower(self._term, None)
        if self._vote is None:
            self._set_hard_state(self._term, message.sender)
        self._restart_timer()
        self._answer_vote(message, granted=True)

    def _doubt_leader(self) -> None:
        """Somebody misses the leader: ask it to show itself, which it does if it leads.

        Its node being alive proves nothing: it may have stepped down, and whoever it asks for votes
        since need not include this member. Without an append the timer now runs out.
        """
        leader = self._leader
        if leader is not None and self._is_leader_confirmed:
            self._is_leader_confirmed = False
            self._silence_ticks = 0
            self._restart_timer()
            self._ask_for_vote(leader, pre=True, is_transfer=False)

    def _answer_vote(self, request: VoteRequest, *, granted: bool) -> None:
        term = request.term if request.pre and granted else self._term
        answer = VoteResponse(self.group, self.node, request.sender, term, request.pre, granted)
        if granted and not request.pre and not self._is_hard_state_synced:
            self._held.append(answer)
        else:
            self._outbox.send(answer)

    def _on_timeout_now(self, message: TimeoutNow) -> None:
        is_from_leader = self._leader in (None, message.sender)
        if is_from_leader and self._role is Role.FOLLOWER and self._may_campaign():
            self._campaign(is_transfer=True)

    def _on_vote_response(self, message: VoteResponse) -> None:
        if self._role is Role.PRE_CANDIDATE and message.pre:
            if not message.granted or message.term == self._term + 1:
                self._on_vote(message.sender, message.granted)
        elif self._role is Role.CANDIDATE and not message.pre:
            self._on_vote(message.sender, message.granted)

    def _on_vote(self, node: NodeId, granted: bool) -> None:
        ballot = self._ballot
        if ballot is None:
            raise RaftInvariantBroken(f"group {self.group}: {self._role} without a ballot")
        ballot.record(node, granted)
        if ballot.is_won:
            if self._role is Role.PRE_CANDIDATE:
                self._campaign(is_transfer=False)
            else:
                self._become_leader()
        elif ballot.is_lost:
            self._become_follower(self._term, None)

    def _become_leader(self) -> None:
        self._turn(Role.LEADER)
        self._set_leader(self.node)
        self._leadership = Leadership(
            group=self.group,
            node=self.node,
            term=self._term,
            log=self._log,
            outbox=self._outbox,
            config=self._config,
            configuration=self.configuration,
            min_insync=self._min_insync,
            alive=self._alive,
        )
        self._append_mark(EntryKind.NOOP, b"")

    def _become_follower(self, term: Term, leader: NodeId | None) -> None:
        self._turn(Role.FOLLOWER)
        if term > self._term:
            self._set_hard_state(term, None)
        self._set_leader(leader)
        self._follower_log.on_new_leader()
        self._restart_timer()

    def _turn(self, role: Role) -> None:
        if role not in _TRANSITIONS[self._role]:
            raise RaftInvariantBroken(f"group {self.group}: {self._role} -> {role}")
        if self._leadership is not None:
            self._leadership = None
            self._outbox.abandon_leadership()
        self._ballot = None
        if role is not self._role:
            self._role = role
            self._announce_role()

    def _set_leader(self, leader: NodeId | None) -> None:
        if leader != self._leader:
            self._leader = leader
            self._is_leader_confirmed = False
            self._announce_role()

    def _forget_leader(self) -> None:
        if self._role is Role.FOLLOWER:
            self._set_leader(None)
            self._follower_log.on_new_leader()

    def _set_hard_state(self, term: Term, vote: NodeId | None) -> None:
        if term < self._term:
            raise RaftInvariantBroken(f"group {self.group}: term {self._term} -> {term}")
        self._term = term
        self._vote = vote
        self._is_hard_state_synced = False
        self._held.clear()  # of an earlier term: nobody waits for it
        self._outbox.hard_state = HardState(term, vote)
        self._announce_role()

    def _announce_role(self) -> None:
        self._outbox.role_change = RoleChange(self._role, self._term, self._leader)
        self._outbox.touch()

    # --- time and liveness ------------------------------------------------------------------

    def tick(self) -> None:
        """One tick of the driver's clock."""
        if self._leadership is not None:
            if self._leadership.tick():
                self._become_follower(self._term, None)
            return
        if self._is_leader_alive():
            self._elapsed_ticks = 0
            return
        self._silence_ticks += 1
        self._elapsed_ticks += 1
        if self._elapsed_ticks < self._timeout_ticks:
            return
        if self._may_campaign():
            self._pre_campaign()
        else:
            self._forget_leader()
            self._restart_timer()

    def on_peer_seen(self, node: NodeId) -> None:
        """A peer's process is alive and can be sent to."""
        self._alive.add(node)
        if self._leadership is not None:
            self._leadership.on_peer_seen(node)
        elif self._ballot is not None and self._ballot.awaits(node):
            self._ask_for_vote(node, pre=self._role is Role.PRE_CANDIDATE, is_transfer=False)

    def on_peer_lost(self, node: NodeId) -> None:
        """A peer's process is gone; all its messages that did arrive have been stepped."""
        self._alive.discard(node)
        if self._leadership is not None:
            self._leadership.on_peer_lost(node)
        elif node == self._leader:
            self._is_leader_confirmed = False
            self._silence_ticks = self._config.election_ticks
            self._elapsed_ticks = 0
            self._timeout_ticks = 1 + self._jitter(self._config.lost_leader_jitter_ticks)

    def _is_leader_alive(self) -> bool:
        leader = self._leader
        return (
            leader is not None
            and self._is_leader_confirmed
            and leader in self._alive
            # One that is on its way out may be gone without a word; only its appends count.
            and self.configuration.is_voter(leader)
        )

    def _hears_leader(self) -> bool:
        if self._leader is None:
            return False
        if self._leadership is not None or self._is_leader_alive():
            return True
        return self._silence_ticks < self._config.election_ticks

    def _restart_timer(self) -> None:
        ticks = self._config.election_ticks
        self._elapsed_ticks = 0
        self._timeout_ticks = ticks + self._jitter(ticks)

    def _may_campaign(self) -> bool:
        # One that an uncommitted configuration removes may be the only one that has this entry, and
        # then only it can be elected (dissertation 4.2.2).
        return self._configurations.may_be_voter(self.node)

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
            self._become_follower(self._term, None)

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
        configurations = self._configurations
        commit_index = self._log.commit_index
        configurations.forget_before(commit_index)
        leadership = self._leadership
        if leadership is None or configurations.effective_index > commit_index:
            return
        if configurations.effective.is_joint:
            self._append_configuration(leadership, configurations.effective.left())
        elif not configurations.effective.is_voter(self.node):
            self.resign()

    # --- work -------------------------------------------------------------------------------

    def take_ready(self) -> Ready | None:
        """Return the work that has come up since the last call, or None."""
        leadership = self._leadership
        if leadership is not None and leadership.has_due:
            leadership.collect()
        return self._outbox.take(self._log.generation)
