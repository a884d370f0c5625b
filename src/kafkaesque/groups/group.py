"""One consumer group: its members, its generation and its state.

Theory of operation. A group lives through generations. It is *Empty* until somebody joins, then
*PreparingRebalance* while members gather; when all known ones are there or time is up, a generation
begins: members are told that they are in it, one of them that it is the leader, and the group is
*CompletingRebalance* until the leader has brought everybody's assignment and that is committed to
the log: *Stable*. Whoever comes, goes, fails or changes what it offers takes the group back to
*PreparingRebalance*; when the last one leaves, the next generation is Empty. *Dead* is for groups
that are deleted or whose coordinator has moved; nothing leads out of it.

This class keeps the books and refuses impossible transitions. Who may do what, the clocks and the
answers are `membership.py`'s. Source: Apache Kafka's classic group protocol, with KIP-345 (static
members), KIP-394 (members are given their id first) and KIP-814 (skipped assignments).
"""

from enum import Enum

from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import JoinProtocol
from kafkaesque.groups.member import Member
from kafkaesque.groups.records import GroupRecord
from kafkaesque.groups.results import DescribedGroup, JoinedMember, ListedGroup
from kafkaesque.groups.subscription import CONSUMER_PROTOCOL_TYPE, read_subscribed_topics
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.tables.log_table import RequestToken

GROUP_TYPE = "classic"


class GroupState(Enum):
    """States of a group; the values are the names that clients see."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_EMPTY = GroupState.EMPTY
_PREPARING = GroupState.PREPARING_REBALANCE
_COMPLETING = GroupState.COMPLETING_REBALANCE
_STABLE = GroupState.STABLE
_DEAD = GroupState.DEAD

#: From each state, the states that can follow.
TRANSITIONS: dict[GroupState, tuple[GroupState, ...]] = {
    _EMPTY: (_PREPARING, _DEAD),
    _PREPARING: (_COMPLETING, _EMPTY, _DEAD),
    _COMPLETING: (_STABLE, _PREPARING, _DEAD),
    _STABLE: (_PREPARING, _DEAD),
    _DEAD: (_DEAD,),
}


class Group:
    """The books of one group."""

    __slots__ = (
        "awaiting_joins",
        "generation",
        "group_id",
        "initial_delay_ms",
        "initial_remaining_ms",
        "leader_id",
        "members",
        "new_member_added",
        "offered_bytes",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol_name",
        "protocol_type",
        "state",
        "state_since_wall_ms",
        "static_members",
        "subscribed_topics",
        "support",
    )

    def __init__(self, group_id: str, wall_ms: int) -> None:
        self.group_id = group_id
        self.state = _EMPTY
        self.previous_state = _DEAD
        #: None: stored by somebody who did not say.
        self.state_since_wall_ms: int | None = wall_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, Member] = {}
        #: instance id -> member id
        self.static_members: dict[str, str] = {}
        #: Ids that were given out and not yet joined with.
        self.pending_joins: dict[str, None] = {}
        #: Members of this generation that have not asked for their assignment.
        self.pending_syncs: dict[str, None] = {}
        #: protocol name -> how many members support it
        self.support: dict[str, int] = {}
        #: What all members offer, in all.
        self.offered_bytes = 0
        #: None: not known, because no generation has begun or the metadata is not readable.
        self.subscribed_topics: dict[str, None] | None = None
        #: How many members have a JoinGroup parked.
        self.awaiting_joins = 0
        #: While the very first members gather: somebody came since the last look.
        self.new_member_added = False
        self.initial_delay_ms = 0
        self.initial_remaining_ms = 0

    # --- state ---

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""
        return self.state is _EMPTY

    def transition(self, state: GroupState, wall_ms: int) -> None:
        """Go to another state.

        Raises:
            InvariantBroken: it cannot follow this one.
        """
        if state not in TRANSITIONS[self.state]:
            raise InvariantBroken(
                f"group {self.group_id!r} cannot go from {self.state.value} to {state.value}"
            )
        self.previous_state = self.state
        self.state = state
        self.state_since_wall_ms = wall_ms

    def begin_generation(self, wall_ms: int) -> None:
        """Go to the next generation, with the members that there are."""
        self.generation += 1
        self.protocol_name = self.select_protocol() if self.members else None
        self.refresh_subscribed_topics()
        self.transition(_COMPLETING if self.members else _EMPTY, wall_ms)
        self.pending_syncs.clear()

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance can begin now."""
        return _PREPARING in TRANSITIONS[self.state]

    @property
    def is_initial_rebalance(self) -> bool:
        """Whether the first members of an empty group are gathering."""
        return self.state is _PREPARING and self.previous_state is _EMPTY

    @property
    def has_all_joined(self) -> bool:
        """Whether nobody is left to wait for."""
        return not self.pending_joins and self.awaiting_joins == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest of all members' rebalance time-outs."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def is_leader(self, member_id: str) -> bool:
        """Whether this member leads."""
        return self.leader_id == member_id

    # --- members ---

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first one leads and sets the protocol type."""
        if member.member_id in self.members:
            raise InvariantBroken(f"member {member.member_id} is in {self.group_id!r} already")
        if member.instance_id is not None:
            if member.instance_id in self.static_members:
                raise InvariantBroken(f"instance {member.instance_id} is in {self.group_id!r}")
            self.static_members[member.instance_id] = member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.members[member.member_id] = member
        self._count_support(member, 1)
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member | None:
        """Remove a member, who must have no JoinGroup parked, or a pending id."""
        member = self.members.pop(member_id, None)
        if member is not None:
            self._refuse_parked_join(member)
            self._count_support(member, -1)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next(iter(self.members), None)
        self.pending_joins.pop(member_id, None)
        self.pending_syncs.pop(member_id, None)
        return member

    def replace_static(self, instance_id: str, new_member_id: str) -> tuple[Member, Member]:
        """Give a static member another id; return the old and the new one.

        The old one must have no JoinGroup parked; its SyncGroup is the caller's to answer. The new
        one has its place: behind the others, a tie of votes would end otherwise, and rebalance.
        """
        old = self.members[self.static_members[instance_id]]
        self._refuse_parked_join(old)
        new = old.renamed(new_member_id)
        members = [new if each is old else each for each in self.members.values()]
        self.members.clear()
        self.members.update((each.member_id, each) for each in members)
        if self.leader_id == old.member_id:
            self.leader_id = new_member_id
        if old.member_id in self.pending_syncs:
            del self.pending_syncs[old.member_id]
            self.pending_syncs[new_member_id] = None
        self.static_members[instance_id] = new_member_id
        return old, new

    def update(
        self,
        member: Member,
        protocols: tuple[JoinProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        """Take over what a member says when it joins again."""
        self._count_support(member, -1)
        member.protocols = protocols
        self._count_support(member, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def park_join(self, member: Member, token: RequestToken) -> RequestToken | None:
        """Let a JoinGroup wait; return the one of the same member that it replaces."""
        replaced = self.unpark_join(member)
        member.join_token = token
        self.awaiting_joins += 1
        return replaced

    def unpark_join(self, member: Member) -> RequestToken | None:
        """Return the JoinGroup that the member has parked, which is to be answered now."""
        token = member.join_token
        if token is not None:
            member.join_token = None
            self.awaiting_joins -= 1
        return token

    def _refuse_parked_join(self, member: Member) -> None:
        if member.join_token is not None:
            raise InvariantBroken(f"{member.member_id} leaves with a JoinGroup unanswered")

    def elect_joined_leader(self) -> bool:
        """Make sure that the leader is one who has joined; say whether there is one."""
        if self.leader_id is None:
            return False
        if self.members[self.leader_id].join_token is not None:
            return True
        for member in self.members.values():
            if member.join_token is not None:
                self.leader_id = member.member_id
                return True
        return False

    def check_member(self, member_id: str, instance_id: str | None) -> GroupError:
        """Return what is wrong with who somebody says to be, or NONE."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return GroupError.UNKNOWN_MEMBER_ID
            if known != member_id:
                return GroupError.FENCED_INSTANCE_ID
        return GroupError.NONE if member_id in self.members else GroupError.UNKNOWN_MEMBER_ID

    def take_parked_syncs(self) -> list[tuple[Member, RequestToken]]:
        """Return the members whose SyncGroup is parked, no longer parked now."""
        parked = []
        for member in self.members.values():
            if member.sync_token is not None:
                parked.append((member, member.sync_token))
                member.sync_token = None
        return parked

    # --- protocols ---

    def supports(self, protocol_type: str, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Whether somebody with these protocols can be one of us."""
        if self.state is _EMPTY:
            return bool(protocol_type) and bool(protocols)
        size = len(self.members)
        return self.protocol_type == protocol_type and any(
            self.support.get(protocol.name, 0) == size for protocol in protocols
        )

    def select_protocol(self) -> str:
        """Return the protocol with most votes among those that all members support.

        Each member votes for the first of its own that everybody supports. Between equals the one
        that was voted for first wins.
        """
        size = len(self.members)
        candidates = {name: count for name, count in self.support.items() if count == size}
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=votes.__getitem__)

    def _count_support(self, member: Member, by: int) -> None:
        for protocol in member.protocols:
            self.offered_bytes += by * protocol.size_bytes
            count = self.support.get(protocol.name, 0) + by
            if count:
                self.support[protocol.name] = count
            else:
                del self.support[protocol.name]

    # --- topics ---

    @property
    def uses_consumer_protocol(self) -> bool:
        """Whether the members are Kafka consumers (and not, say, Connect workers)."""
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def refresh_subscribed_topics(self) -> None:
        """Read the members' subscriptions anew."""
        self.subscribed_topics = None
        if not self.uses_consumer_protocol:
            return
        topics: dict[str, None] = {}
        for member in self.members.values():
            read = read_subscribed_topics(member.metadata(self.protocol_name))
            if read is None:
                return
            topics.update(dict.fromkeys(read))
        self.subscribed_topics = topics

    def is_subscribed(self, topic: str) -> bool:
        """Whether the topic is being consumed; where it is not known, consumers count as doing."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol
        return topic in self.subscribed_topics

    # --- views ---

    def joined_members(self) -> tuple[JoinedMember, ...]:
        """Return what the leader is told about everybody."""
        return tuple(member.joined(self.protocol_name) for member in self.members.values())

    def assignments(self) -> dict[str, bytes]:
        """Return every member's assignment."""
        return {member.member_id: member.assignment for member in self.members.values()}

    def record(self, assignments: dict[str, bytes]) -> GroupRecord:
        """Return the group as it is stored, with the assignments that it is to have."""
        since = self.state_since_wall_ms
        return GroupRecord(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol_name=self.protocol_name,
            leader_id=self.leader_id,
            state_since_wall_ms=-1 if since is None else since,
            members=tuple(
                member.record(self.protocol_name, assignments.get(member.member_id, b""))
                for member in self.members.values()
            ),
        )

    def listed(self) -> ListedGroup:
        """Return the group's line in a list."""
        return ListedGroup(self.group_id, self.protocol_type or "", self.state.value, GROUP_TYPE)

    def described(self) -> DescribedGroup:
        """Return the group for people."""
        protocol_name = self.protocol_name if self.state is _STABLE else None
        return DescribedGroup(
            error=GroupError.NONE,
            group_id=self.group_id,
            state=self.state.value,
            protocol_type=self.protocol_type or "",
            protocol_name=protocol_name or "",
            members=tuple(member.described(protocol_name) for member in self.members.values()),
        )


def restored_group(group_id: str, record: GroupRecord) -> Group:
    """Return a group as the log has it: Stable with its members, or Empty.

    What cannot have been written by a coordinator (members without a protocol, an instance twice,
    a leader who is not a member) is left out rather than believed.
    """
    group = Group(group_id, 0)
    since = record.state_since_wall_ms
    group.state_since_wall_ms = None if since == -1 else since
    group.generation = record.generation
    group.protocol_name = record.protocol_name
    for stored in record.members if record.protocol_name is not None else ():
        if stored.member_id in group.members or stored.instance_id in group.static_members:
            continue
        group.add(
            Member(
                member_id=stored.member_id,
                instance_id=stored.instance_id,
                client_id=stored.client_id,
                client_host=stored.client_host,
                rebalance_timeout_ms=stored.rebalance_timeout_ms,
                session_timeout_ms=stored.session_timeout_ms,
                protocols=(JoinProtocol(record.protocol_name or "", stored.subscription),),
                assignment=stored.assignment,
            ),
            record.protocol_type,
        )
    group.protocol_type = record.protocol_type or None
    if group.members:
        group.state = _STABLE
        if record.leader_id in group.members:
            group.leader_id = record.leader_id
    group.refresh_subscribed_topics()
    return group
