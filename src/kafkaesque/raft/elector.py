"""Who leads: terms, votes, timers.

Theory of operation. The base of `RaftCore`, which adds what is done with the log; the rules of
liveness stand there. The hard state (term, vote) goes to the outbox when it changes; a vote that is
asked for or given in it is held back until it is durable. A vote request that is refused because a
leader is heard makes this member ask that leader to show itself: its node being alive does not
prove that it still leads. A member with amnesia (see `follower_log`) takes no part in elections.

A member knows which formation (see `formation`) its group is in. It may be elected if its log has
an entry of that formation, the first of which is the founding one, or if it was named to found it.
"""

from collections.abc import Callable, Iterable, Sequence

from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.config import RaftConfig
from kafkaesque.raft.configuration import (
    Ballot,
    Configuration,
    ConfigurationTable,
    write_configuration,
)
from kafkaesque.raft.entries import EntryKind, EntryMeta, HardState
from kafkaesque.raft.errors import RaftInvariantBroken
from kafkaesque.raft.follower_log import FollowerLog
from kafkaesque.raft.formation import first_term, formation_of
from kafkaesque.raft.leadership import Leadership
from kafkaesque.raft.log_outline import LogOutline
from kafkaesque.raft.messages import AnyMessage, TimeoutNow, VoteRequest, VoteResponse
from kafkaesque.raft.ready import Outbox, Role, RoleChange
from kafkaesque.raft.restored_state import RestoredState

_TRANSITIONS = {
    Role.FOLLOWER: (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE),
    Role.PRE_CANDIDATE: (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE),
    Role.CANDIDATE: (Role.FOLLOWER, Role.PRE_CANDIDATE, Role.CANDIDATE, Role.LEADER),
    Role.LEADER: (Role.FOLLOWER,),
}


class Elector:
    """One member's part in elections; see the module's theory of operation."""

    __slots__ = (
        "_alive",
        "_ballot",
        "_config",
        "_configurations",
        "_elapsed_ticks",
        "_follower_log",
        "_founding",
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
        "_timeout_ticks",
        "_told_in_sync",
        "_told_term",
        "_undecided_term",
        "_vote",
        "_wanted_voters",
        "formation",
        "group",
        "node",
        "term",
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
        is_volatile: bool = False,
        wanted_voters: Sequence[NodeId] = (),
        formation: int = 0,
    ) -> None:
        """Make a follower.

        `jitter(n)` gives a number from 0 to n - 1. `alive` are the peers that live: to others
        nothing but votes and answers is sent until `on_peer_seen`. With `is_volatile` what is
        reported as synced may still be lost (`write.caching`), and the commit index may go back.
        Learners among `wanted_voters` are made voters when this member leads and they can be.
        `formation` is the newest that is known of; see `enter_formation`.
        """
        self.group = group
        self.node = node
        self._config = config
        self._jitter = jitter
        self._alive = set(alive)
        self._min_insync = min_insync
        self._wanted_voters = wanted_voters
        self._log = _outline(group, restored)
        self._configurations = ConfigurationTable(restored.configurations)
        self._outbox = Outbox()
        #: The current term; to be read only.
        self.term: Term
        self.term, self._vote = restored.hard_state
        #: The newest formation that this member knows of; to be read only.
        self.formation = max(formation, formation_of(self.term))
        #: The first term of formations of which it is not known here how they were decided.
        self._undecided_term = first_term(formation_of(self._log.last_term) + 1)
        #: What this member is to found the formation with.
        self._founding: Configuration | None = None
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
            is_volatile=is_volatile,
            amnesia=restored.amnesia,
        )
        #: Whom the leader of `_told_term` last called in sync, without those lost since.
        self._told_in_sync: set[NodeId] = set()
        self._told_term = Term(0)
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
    def leader(self) -> NodeId | None:
        """Who leads in this term, as far as known."""
        return self._leader

    @property
    def is_leader(self) -> bool:
        """Whether this member leads."""
        return self._leadership is not None

    @property
    def configuration(self) -> Configuration:
        """The configuration in force, committed or not."""
        return self._configurations.effective

    @property
    def amnesia(self) -> int:
        """The number of the loss of which this member is not over; 0: none."""
        return self._follower_log.amnesia

    @property
    def is_installing(self) -> bool:
        """Whether a snapshot is about to take the log's place."""
        return self._follower_log.is_installing

    @property
    def end_to_be(self) -> tuple[int, Term]:
        """Index and term of the log's end; of the snapshot's that is about to take its place."""
        return self._follower_log.end_to_be

    @property
    def is_quiet(self) -> bool:
        """Whether ticks would change nothing; valid until the next event."""
        if self._leadership is not None:
            return self._leadership.is_quiet
        if self._role is not Role.FOLLOWER:
            return False
        return self._is_leader_alive() or (self._leader is None and not self._may_campaign())

    # --- formations -------------------------------------------------------------------------

    @property
    def is_founded(self) -> bool:
        """Whether the log has an entry of the newest formation that is known of."""
        return formation_of(self._log.last_term) >= self.formation

    @property
    def has_entered(self) -> bool:
        """Whether this member durably takes part in no formation before the newest known one."""
        return formation_of(self.term) >= self.formation and self._is_hard_state_synced

    def enter_formation(self, formation: int, *, is_decided: bool) -> None:
        """Refuse from now on what is of an earlier formation.

        That is promised as soon as `has_entered`. Harmless if it was done. Nobody's log is taken
        over before it is known here that the formation is decided: if that was done uncleanly and
        without this member, what is committed here may not be in it.
        """
        self.know_formation(formation, is_decided=is_decided)
        if self.term < first_term(formation):
            self._become_follower(first_term(formation), None)

    def know_formation(self, formation: int, *, is_decided: bool) -> None:
        """Take messages of a formation, too; without promising anything."""
        if formation > self.formation:
            self.formation = formation
            # That was how an earlier one began.
            self._founding = None
        if is_decided:
            self._undecided_term = max(self._undecided_term, first_term(formation + 1))

    def found(self, formation: int, configuration: Configuration) -> None:
        """Be elected by these voters, and found the formation; its arbiter names one member.

        Harmless if that formation was founded here, or is not the newest any more.
        """
        if formation == self.formation and not self.is_founded:
            self._founding = configuration
            self.campaign()

    @property
    def _pending_founding(self) -> Configuration | None:
        return None if self._founding is None or self.is_founded else self._founding

    @property
    def _electorate(self) -> Configuration:
        return self._pending_founding or self.configuration

    def _append_mark(self, kind: EntryKind, data: bytes) -> int:
        index = self._log.last_index + 1
        self._log.extend(self.term, index, index)
        self._outbox.append_mark(EntryMeta(index, index, self.term, kind, len(data), data))
        if self._leadership is not None:
            self._leadership.on_appended()
        return index

    def on_hard_state_synced(self, term: Term, vote: NodeId | None) -> None:
        """This hard state is durable, and so is everything handed out before it."""
        if self._is_hard_state_synced or term != self.term or vote != self._vote:
            return
        self._is_hard_state_synced = True
        for message in self._held:
            self._outbox.send(message)
        self._held.clear()
        if self._role is Role.CANDIDATE:
            self._on_vote(self.node, True)

    def _accept_leader(self, sender: NodeId) -> None:
        """An append or a snapshot of the current term comes from this term's leader."""
        if self._role is not Role.FOLLOWER or self._leader != sender:
            if self._role is Role.LEADER or self._leader not in (None, sender):
                raise RaftInvariantBroken(
                    f"group {self.group}: nodes {self._leader} and {sender} both lead in term"
                    f" {self.term}"
                )
            self._become_follower(self.term, sender)
        self._is_leader_confirmed = True
        self._elapsed_ticks = 0
        self._silence_ticks = 0

    # --- elections --------------------------------------------------------------------------

    def campaign(self) -> None:
        """Ask for votes now, without waiting for the timer; harmless unless a voting follower."""
        if self._role is not Role.LEADER and self._may_campaign():
            self._pre_campaign()

    def _pre_campaign(self) -> None:
        self._turn(Role.PRE_CANDIDATE)
        self._set_leader(None)
        ballot = self._ballot = Ballot(self._electorate)
        ballot.record(self.node, True)
        if ballot.is_won:
            self._campaign(is_transfer=False)
            return
        self._restart_timer()
        self._ask_for_votes(pre=True, is_transfer=False)

    def _campaign(self, *, is_transfer: bool) -> None:
        self._turn(Role.CANDIDATE)
        self._set_leader(None)
        self._set_hard_state(Term(self.term + 1), self.node)
        self._ballot = Ballot(self._electorate)  # its own vote counts once it is durable
        self._restart_timer()
        self._ask_for_votes(pre=False, is_transfer=is_transfer)

    def _ask_for_votes(self, *, pre: bool, is_transfer: bool) -> None:
        electorate = self._electorate
        for node in electorate.members:
            if node != self.node and electorate.is_voter(node):
                self._ask_for_vote(node, pre=pre, is_transfer=is_transfer)

    def _ask_for_vote(self, node: NodeId, *, pre: bool, is_transfer: bool) -> None:
        log = self._log
        term = Term(self.term + 1) if pre else self.term
        message = VoteRequest(
            self.group, self.node, node, term, log.last_index, log.last_term, pre, is_transfer
        )
        if pre or self._is_hard_state_synced:
            self._outbox.send(message)
        else:
            self._held.append(message)

    def _on_vote_request(self, message: VoteRequest) -> None:
        if message.sender == self._leader and message.term > self.term:
            self._forget_leader()  # it would not ask if it still led
        if not message.is_transfer and self._hears_leader():
            if self._leadership is not None:
                self._leadership.contact(message.sender)
            else:
                self._doubt_leader()
            if message.pre:
                self._answer_vote(message, granted=False)
            return  # a real vote is ignored: taking over its term would depose a leader that lives
        is_up_to_date = not self.amnesia and self._log.is_at_least(
            message.last_index, message.last_term
        )
        if message.pre:
            self._answer_vote(message, granted=is_up_to_date and message.term > self.term)
            return
        if message.term > self.term:
            self._become_follower(message.term, None)
        is_free = self._vote == message.sender or (self._vote is None and self._leader is None)
        if not is_free or not is_up_to_date:
            self._answer_vote(message, granted=False)
            return
        if self._role is Role.PRE_CANDIDATE:
            self._become_follower(self.term, None)
        if self._vote is None:
            self._set_hard_state(self.term, message.sender)
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
        term = request.term if request.pre and granted else self.term
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
            if not message.granted or message.term == self.term + 1:
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
            self._become_follower(self.term, None)

    def _become_leader(self) -> None:
        founding = self._pending_founding
        self._turn(Role.LEADER)
        self._set_leader(self.node)
        self._leadership = Leadership(
            group=self.group,
            node=self.node,
            term=self.term,
            log=self._log,
            outbox=self._outbox,
            config=self._config,
            configuration=founding or self.configuration,
            min_insync=self._min_insync,
            alive=self._alive,
            wanted_voters=self._wanted_voters,
            in_sync=self._known_in_sync(),
        )
        self._configurations.is_settled = False  # has other consequences for a leader
        voters = self.configuration.voters if founding is None else founding.voters
        self._leadership.is_astray = bool(
            founding is not None or self._strangers() or set(self._wanted_voters) - set(voters)
        )
        if founding is None:
            self._append_mark(EntryKind.NOOP, b"")
            return
        index = self._append_mark(EntryKind.CONFIG, write_configuration(founding))
        self._configurations.add(index, founding)
        self._outbox.configuration = founding

    def _known_in_sync(self) -> set[NodeId]:
        """Return who is known to be in sync at the beginning of this member's leadership."""
        if self._log.last_index == 0:
            return self._alive  # nobody lacks anything
        # Entries of a later leader than the one that told it: much may have changed since.
        return self._told_in_sync if self._told_term >= self._log.last_term else set()

    def _become_follower(self, term: Term, leader: NodeId | None) -> None:
        self._turn(Role.FOLLOWER)
        if term > self.term:
            self._set_hard_state(term, None)
        self._set_leader(leader)
        self._follower_log.on_new_leader()
        self._restart_timer()

    def _turn(self, role: Role) -> None:
        if role not in _TRANSITIONS[self._role]:
            raise RaftInvariantBroken(f"group {self.group}: {self._role} -> {role}")
        if self._leadership is not None:
            self._told_in_sync, self._told_term = set(self._leadership.in_sync), self.term
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
        if term < self.term:
            raise RaftInvariantBroken(f"group {self.group}: term {self.term} -> {term}")
        self.term = term
        self._vote = vote
        self._is_hard_state_synced = False
        self._held.clear()  # of an earlier term: nobody waits for it
        self._outbox.hard_state = HardState(term, vote)
        self._announce_role()

    def _announce_role(self) -> None:
        self._outbox.role_change = RoleChange(self._role, self.term, self._leader)
        self._outbox.touch()

    # --- time and liveness ------------------------------------------------------------------

    def tick(self) -> None:
        """One tick of the driver's clock."""
        if self._leadership is not None:
            if self._leadership.tick():
                self._become_follower(self.term, None)
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

    def set_wanted_voters(self, wanted: Sequence[NodeId]) -> None:
        """Bring the group to these voters from now on, where this member leads."""
        self._wanted_voters = wanted
        if self._leadership is not None:
            self._leadership.wanted_voters = wanted
            self._leadership.is_astray = True

    @property
    def is_wanted(self) -> bool:
        """Whether this member is to be a voter."""
        return self.node in self._wanted_voters

    @property
    def concerned(self) -> tuple[NodeId, ...]:
        """The nodes of whose life this member is to be told: its fellows, and who is to be one."""
        return tuple(dict.fromkeys((*self.configuration.members, *self._wanted_voters)))

    def concerns(self, node: NodeId) -> bool:
        """Tell whether this member is to be told of a node's life."""
        return node in self.configuration.members or node in self._wanted_voters

    def _strangers(self) -> tuple[NodeId, ...]:
        """Return the wanted voters that live and are no members at all.

        Only a formation leaves any out; whoever was moved away is not to be taken in again by a
        leader that has not heard of it. Where somebody votes who is not wanted, there is a move:
        who carries that out takes them in.
        """
        wanted = self._wanted_voters
        if not self.formation or any(node not in wanted for node in self.configuration.voters):
            return ()
        members = self.configuration.members
        return tuple(node for node in wanted if node in self._alive and node not in members)

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
        self._told_in_sync.discard(node)
        if self._leadership is not None:
            self._leadership.on_peer_lost(node)
        elif node == self._leader:
            self._is_leader_confirmed = False
            self._silence_ticks = self._config.election_ticks
            self._elapsed_ticks = 0
            # Not by lot: of hundreds of groups that lost their leaders at once, many would have two
            # candidates that take the votes from each other, and begin again much later.
            self._timeout_ticks = 1 + self._place_in_line() * self._config.lost_leader_step_ticks

    def _place_in_line(self) -> int:
        """Return how many of the voters that live come before this member when a leader is gone."""
        configuration = self.configuration
        voters = sorted(
            node
            for node in configuration.members
            if configuration.is_voter(node) and (node in self._alive or node == self.node)
        )
        if self.node not in voters:
            return len(voters)
        return (voters.index(self.node) - self.group) % len(voters)

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
        if self.amnesia or self.is_installing or formation_of(self.term + 1) != self.formation:
            return False
        if self._pending_founding is not None:
            return True
        return self.is_founded and self._configurations.may_be_voter(self.node)


def _outline(group: GroupId, restored: RestoredState) -> LogOutline:
    log = LogOutline(
        start=restored.log_start,
        term_starts=restored.term_starts,
        last_index=restored.last_index,
        commit_index=restored.commit_index,
    )
    if restored.hard_state.term < log.last_term:
        raise RaftInvariantBroken(
            f"group {group}: the log ends with term {log.last_term}, but the hard state has term"
            f" {restored.hard_state.term}"
        )
    return log
