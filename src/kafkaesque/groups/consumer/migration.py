"""A group that changes its kind while it works (KIP-848, "Upgrade/Downgrade").

The first heartbeat of the new protocol makes a classic group of consumers one of the new kind: its
members keep what they have, and those who wait for an answer are told to join again. When the last
member of the new protocol is gone and classic ones are left, the group becomes a classic one, whose
members rebalance.
"""

from kafkaesque.groups.consumer.classic_protocol import (
    ClassicSubscription,
    read_assignment,
    read_subscription,
    write_assignment,
)
from kafkaesque.groups.consumer.config import MigrationPolicy
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.journal import Journal
from kafkaesque.groups.consumer.records import KeyKind
from kafkaesque.groups.consumer.states import ClassicMember, CurrentAssignment, MemberMetadata
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions, TopicIdPartition
from kafkaesque.groups.context import Context
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.group import Group, GroupState
from kafkaesque.groups.member import Member
from kafkaesque.groups.rebalance import Rebalancer
from kafkaesque.groups.results import JoinResult, SyncResult
from kafkaesque.groups.subscription import CONSUMER_PROTOCOL_TYPE
from kafkaesque.model.ids import TopicPartition
from kafkaesque.tables.log_table import WriteToken

_UPGRADING = (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)
_DOWNGRADING = (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


class Migration:
    """Moves groups from one kind to the other."""

    __slots__ = ("_context", "_journal", "_rebalancer")

    def __init__(self, context: Context, journal: Journal, rebalancer: Rebalancer) -> None:
        self._context = context
        self._journal = journal
        self._rebalancer = rebalancer

    # --- to the new kind ---

    def upgraded(self, classic: Group) -> ConsumerGroup | None:
        """Return what a classic group would be as one of the new kind; None if it cannot be one.

        Nothing is changed by that; `take_over` does.
        """
        config = self._context.config.consumer
        if (
            config.migration_policy not in _UPGRADING
            or not classic.uses_consumer_protocol
            or len(classic.members) >= config.members_max
        ):
            return None
        group = ConsumerGroup(classic.group_id)
        group.epoch = max(classic.generation, 1)
        group.target_epoch = group.epoch
        group.mark(KeyKind.CLASSIC_GROUP)
        group.mark(KeyKind.GROUP)
        group.mark(KeyKind.TARGET)
        held = self._held(classic)
        for member in classic.members.values():
            subscription = _subscription(classic, member)
            if subscription is None or held is None:
                return None
            metadata = _metadata(member, subscription)
            self._add(group, member.member_id, metadata, held[member.member_id])
        return group

    def _held(self, classic: Group) -> dict[str, Partitions] | None:
        """Return what each member may be consuming; None if that cannot be read.

        It is what the member was assigned. While members wait for another assignment, they may also
        go on with what they had said to own when they joined: a rebalance that begins anew, or that
        could not be stored, knows of no assignment.
        """
        claims: list[tuple[str, frozenset[TopicPartition]]] = []
        for member in classic.members.values():
            assigned = read_assignment(member.assignment)
            if assigned is None:
                return None
            claims.append((member.member_id, assigned))
        if classic.state is not GroupState.STABLE:
            for member in classic.members.values():
                subscription = _subscription(classic, member)
                if subscription is not None:
                    claims.append((member.member_id, subscription.owned))
        held = dict.fromkeys(classic.members, NO_PARTITIONS)
        taken: set[TopicIdPartition] = set()
        for member_id, partitions in claims:
            # A leader may have given a partition twice: one of the two has to join again.
            claimed = self._context.topics.ids_of(partitions) - taken
            taken |= claimed
            held[member_id] |= claimed
        return held

    def _add(
        self, group: ConsumerGroup, member_id: str, metadata: MemberMetadata, held: Partitions
    ) -> None:
        group.put_member(member_id, metadata)
        current = CurrentAssignment(epoch=group.epoch, previous_epoch=group.epoch, assigned=held)
        group.put_current(member_id, current)
        group.target[member_id] = held
        group.mark(KeyKind.TARGET_MEMBER, member_id)

    def take_over(self, classic: Group, group: ConsumerGroup) -> None:
        """Put the new group in the place of the classic one; whoever waits is to join again."""
        context = self._context
        error = GroupError.REBALANCE_IN_PROGRESS
        context.cancel_all(classic)
        for member in classic.members.values():
            token = classic.unpark_join(member)
            if token is not None:
                context.respond(token, JoinResult(error=error, member_id=member.member_id))
        for _, token in classic.take_parked_syncs():
            context.respond(token, SyncResult(error=error))
        # What it has still in flight changes nothing any more.
        classic.transition(GroupState.DEAD, context.now.wall_ms)
        del context.groups[classic.group_id]
        context.consumer_groups[group.group_id] = group
        for member_id in group.members:
            self._journal.renew_session(group, member_id)

    # --- to the classic kind ---

    def maybe_downgrade(self, group: ConsumerGroup) -> WriteToken | None:
        """Make a group a classic one if only classic members are left; return the write."""
        offers = [
            set() if member.classic is None else {each.name for each in member.classic.protocols}
            for member in group.members.values()
        ]
        context = self._context
        policy = context.config.consumer.migration_policy
        # Those who came in one after the other have a protocol in common, and only they.
        if policy not in _DOWNGRADING or not offers or not set.intersection(*offers):
            return None
        classic = self._downgraded(group)
        for member_id in group.members:
            self._journal.cancel_timers(group.group_id, member_id)
        del context.consumer_groups[group.group_id]
        context.groups[group.group_id] = classic
        context.leftovers.add(group.group_id, group.stored_keys())
        token = self._rebalancer.store(classic, classic.assignments())
        for member in classic.members.values():
            self._rebalancer.renew_session(classic, member)
        self._rebalancer.prepare(classic)
        return token

    def _downgraded(self, group: ConsumerGroup) -> Group:
        context = self._context
        classic = Group(group.group_id, context.now.wall_ms)
        classic.generation = group.epoch
        for member_id, member in group.members.items():
            if member.classic is None:
                continue
            # Also what it is still to give up: it is told so in the classic way now.
            names = context.topics.names_of(group.currents[member_id].held)
            classic.add(
                Member(
                    member_id=member_id,
                    instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout_ms=member.rebalance_timeout_ms,
                    session_timeout_ms=member.classic.session_timeout_ms,
                    protocols=member.classic.protocols,
                    assignment=write_assignment(names),
                ),
                CONSUMER_PROTOCOL_TYPE,
            )
        classic.state = GroupState.STABLE
        classic.protocol_name = classic.select_protocol()
        classic.refresh_subscribed_topics()
        return classic


def _subscription(classic: Group, member: Member) -> ClassicSubscription | None:
    """Return what a classic member has said about itself; None if that cannot be read."""
    supported = [each for each in member.protocols if each.name == classic.protocol_name]
    chosen = (supported or list(member.protocols))[:1]
    return read_subscription(chosen[0].metadata) if chosen else None


def _metadata(member: Member, subscription: ClassicSubscription) -> MemberMetadata:
    return MemberMetadata(
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(subscription.topic_names))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMember(
            session_timeout_ms=member.session_timeout_ms, protocols=member.protocols
        ),
    )
