"""Members of the classic protocol in groups of the new kind: JoinGroup, SyncGroup, Heartbeat.

Theory of operation. While a group's members are restarted one by one with the new protocol, those
who still speak the classic one stay in the same group. The coordinator assigns to them like to the
others: a JoinGroup is answered at once and reconciles its member (what it owns stands in its
subscription), SyncGroup gives it what it may have, in the form in which a leader would have given
it, and its generation is its member epoch. Nobody leads. A Heartbeat tells a member to join again
when there is something for it to give up or to get; the others' changes do not reach it. Who is
told and does not join, or joins and does not ask for its assignment, is removed after its
rebalance timeout. Source: KIP-848, "Client Compatibility" and "Upgrade/Downgrade".
"""

from kafkaesque.groups.consumer.classic_protocol import (
    ClassicSubscription,
    read_subscription,
    write_assignment,
)
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.heartbeats import Heartbeats, subscription_of
from kafkaesque.groups.consumer.journal import Journal
from kafkaesque.groups.consumer.states import (
    ClassicMember,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from kafkaesque.groups.consumer.topics import NO_PARTITIONS
from kafkaesque.groups.context import Context, TimerKind
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import NO_MEMBER_ID, Heartbeat, JoinGroup, SyncGroup
from kafkaesque.groups.results import HeartbeatResult, JoinResult, SyncResult
from kafkaesque.groups.subscription import CONSUMER_PROTOCOL_TYPE


class ClassicMembers:
    """Handles what classic members of groups of the new kind ask for."""

    __slots__ = ("_context", "_heartbeats", "_journal")

    def __init__(self, context: Context, journal: Journal, heartbeats: Heartbeats) -> None:
        self._context = context
        self._journal = journal
        self._heartbeats = heartbeats

    # --- JoinGroup ---

    def on_join(self, group: ConsumerGroup, join: JoinGroup) -> None:
        """Take a member in, or one step further; it has checked its numbers and names."""
        subscription = read_subscription(join.protocols[0].metadata) if join.protocols else None
        if subscription is None or not _fits(group, join):
            self._refuse(join, GroupError.INCONSISTENT_GROUP_PROTOCOL, join.member_id)
            return
        member = _described(join, subscription)
        error = self._check_member(group, join, member)
        if error is not GroupError.NONE:
            self._refuse(join, error, join.member_id)
            return
        member_id = join.member_id
        if member_id == NO_MEMBER_ID:
            member_id = f"{join.instance_id or join.client_id}-{join.member_id_suffix}"
            if join.instance_id is None and join.requires_known_member_id:
                # Nothing is kept of it: whoever comes with an id is taken in.
                self._refuse(join, GroupError.MEMBER_ID_REQUIRED, member_id)
                return
        self._take_place(group, join, member_id)
        self._reconcile(group, member, member_id, subscription)
        self._journal.cancel_timer(group, TimerKind.CLASSIC_JOIN, member_id)
        self._journal.schedule_rebalance(group, TimerKind.CLASSIC_SYNC, member_id)
        self._journal.renew_session(group, member_id)
        result = JoinResult(
            error=GroupError.NONE,
            member_id=member_id,
            generation=group.currents[member_id].epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=_protocol_name(group),
        )

        def on_error(error: GroupError) -> JoinResult:
            return JoinResult(error=error, member_id=member_id)

        self._journal.answer(group, join.token, result, on_error)

    def _check_member(
        self, group: ConsumerGroup, join: JoinGroup, member: MemberMetadata
    ) -> GroupError:
        known_id = join.member_id if join.member_id in group.members else None
        if join.instance_id is not None:
            known_id = group.static_members.get(join.instance_id)
            if join.member_id != NO_MEMBER_ID and known_id is None:
                return GroupError.UNKNOWN_MEMBER_ID
            if join.member_id not in (NO_MEMBER_ID, known_id):
                return GroupError.FENCED_INSTANCE_ID
        config = self._context.config
        is_full = known_id is None and len(group.members) >= config.consumer.members_max
        if is_full or group.overflow(known_id or "", member, config) is not None:
            return GroupError.GROUP_MAX_SIZE_REACHED
        return GroupError.NONE

    def _take_place(self, group: ConsumerGroup, join: JoinGroup, member_id: str) -> None:
        """Let a restarted static member have what it had; whoever was it has given it up."""
        known_id = member_id
        if join.instance_id is not None:
            known_id = group.static_members.get(join.instance_id, member_id)
        known = group.members.get(known_id)
        if known is None:
            return
        if known_id != member_id:
            self._journal.cancel_timers(group.group_id, known_id)
            group.rename_member(known_id, member_id)
        if known_id != member_id or known.classic is None:
            held = group.currents[member_id].assigned
            group.put_current(member_id, CurrentAssignment(assigned=held))

    def _reconcile(
        self,
        group: ConsumerGroup,
        member: MemberMetadata,
        member_id: str,
        subscription: ClassicSubscription,
    ) -> None:
        known = group.members.get(member_id)
        has_changed = known is None or subscription_of(known) != subscription_of(member)
        if known != member:
            group.put_member(member_id, member)
        self._heartbeats.update_target(group, has_changed=has_changed)
        owned = self._context.topics.ids_of(subscription.owned)
        self._heartbeats.reconcile(group, member_id, owned, has_stopped=True)

    def _refuse(self, join: JoinGroup, error: GroupError, member_id: str) -> None:
        self._context.respond(join.token, JoinResult(error=error, member_id=member_id))

    # --- SyncGroup ---

    def on_sync(self, group: ConsumerGroup, sync: SyncGroup) -> None:
        """Tell a member what it may have."""
        error = _check(group, sync.member_id, sync.instance_id, sync.generation)
        if error is GroupError.NONE:
            error = self._check_sync(group, sync)
        if error is not GroupError.NONE:
            self._context.respond(sync.token, SyncResult(error=error))
            return
        self._journal.cancel_timer(group, TimerKind.CLASSIC_SYNC, sync.member_id)
        self._journal.renew_session(group, sync.member_id)
        assigned = group.currents[sync.member_id].assigned
        result = SyncResult(
            error=GroupError.NONE,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=sync.protocol_name or _protocol_name(group),
            assignment=write_assignment(self._context.topics.names_of(assigned)),
        )
        self._journal.answer(group, sync.token, result, lambda error: SyncResult(error=error))

    def _check_sync(self, group: ConsumerGroup, sync: SyncGroup) -> GroupError:
        is_other_type = sync.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE)
        # Who else is in the group may have changed since it was told which one is taken.
        offered = _offer(group.members[sync.member_id])
        if is_other_type or sync.protocol_name not in (None, *offered):
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        is_told = group.currents[sync.member_id].state is MemberState.UNREVOKED_PARTITIONS
        if not is_told and self._has_to_join(group, sync.member_id):
            return GroupError.REBALANCE_IN_PROGRESS
        return GroupError.NONE

    # --- Heartbeat ---

    def on_heartbeat(self, group: ConsumerGroup, beat: Heartbeat) -> None:
        """Keep a member's session, and tell it to join again if that brings it further."""
        error = _check(group, beat.member_id, beat.instance_id, beat.generation)
        if error is not GroupError.NONE:
            self._context.respond(beat.token, HeartbeatResult(error=error))
            return
        self._journal.renew_session(group, beat.member_id)
        self._heartbeats.update_target(group, has_changed=False)
        if self._has_to_join(group, beat.member_id):
            error = GroupError.REBALANCE_IN_PROGRESS
        self._journal.answer(
            group,
            beat.token,
            HeartbeatResult(error=error),
            lambda error: HeartbeatResult(error=error),
        )

    def _has_to_join(self, group: ConsumerGroup, member_id: str) -> bool:
        """Whether there is something for the member to give up or to get; its time for it runs."""
        current = group.currents[member_id]
        target = group.target.get(member_id, NO_PARTITIONS)
        has_to_join = (
            current.state is MemberState.UNREVOKED_PARTITIONS
            or not current.assigned <= target
            or any(group.holder(each) is None for each in target - current.assigned)
        )
        timer = (group.group_id, TimerKind.CLASSIC_JOIN, member_id)
        if has_to_join and timer not in self._context.timers:
            self._journal.schedule_rebalance(group, TimerKind.CLASSIC_JOIN, member_id)
        return has_to_join


def _described(join: JoinGroup, subscription: ClassicSubscription) -> MemberMetadata:
    return MemberMetadata(
        instance_id=join.instance_id,
        rack_id=subscription.rack_id,
        client_id=join.client_id,
        client_host=join.client_host,
        topic_names=tuple(sorted(set(subscription.topic_names))),
        rebalance_timeout_ms=join.rebalance_ms,
        classic=ClassicMember(session_timeout_ms=join.session_timeout_ms, protocols=join.protocols),
    )


def _fits(group: ConsumerGroup, join: JoinGroup) -> bool:
    """Whether the member offers something that all classic members support."""
    if join.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return False
    others = (
        _offer(member)
        for member_id, member in group.members.items()
        if member.classic is not None and member_id != join.member_id
    )
    return bool({protocol.name for protocol in join.protocols}.intersection(*others))


def _offer(member: MemberMetadata) -> list[str]:
    """Return the protocols that a member supports, the best one first."""
    return [protocol.name for protocol in member.classic.protocols] if member.classic else []


def _protocol_name(group: ConsumerGroup) -> str:
    """Return the first protocol of the first classic member that all of them support."""
    offers = [_offer(member) for member in group.members.values() if member.classic is not None]
    for name in offers[0]:
        if all(name in offer for offer in offers):
            return name
    return offers[0][0]


def _check(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> GroupError:
    if instance_id is not None:
        known_id = group.static_members.get(instance_id)
        if known_id is None:
            return GroupError.UNKNOWN_MEMBER_ID
        if known_id != member_id:
            return GroupError.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.classic is None:
        return GroupError.UNKNOWN_MEMBER_ID
    is_current = generation == group.currents[member_id].epoch
    return GroupError.NONE if is_current else GroupError.ILLEGAL_GENERATION
