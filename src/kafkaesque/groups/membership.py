"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup."""

from msgspec.structs import replace

from kafkaesque.groups.consumer.classic_members import ClassicMembers
from kafkaesque.groups.consumer.config import MigrationPolicy
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.heartbeats import Heartbeats
from kafkaesque.groups.context import Context, TimerKind
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    NO_MEMBER_ID,
    Heartbeat,
    JoinGroup,
    JoinProtocol,
    LeaveGroup,
    LeavingMember,
    SyncGroup,
)
from kafkaesque.groups.group import Group, GroupState
from kafkaesque.groups.member import Member, without_repeats
from kafkaesque.groups.rebalance import Rebalancer
from kafkaesque.groups.results import (
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    LeftMember,
    SyncResult,
)
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.tables.log_table import WriteToken


class Membership:
    """Handles what members ask for."""

    __slots__ = ("_classic_members", "_context", "_heartbeats", "_rebalancer")

    def __init__(
        self,
        context: Context,
        rebalancer: Rebalancer,
        heartbeats: Heartbeats,
        classic_members: ClassicMembers,
    ) -> None:
        self._context = context
        self._rebalancer = rebalancer
        self._heartbeats = heartbeats
        self._classic_members = classic_members

    # --- JoinGroup ---

    def on_join(self, join: JoinGroup) -> None:
        """Take a member into the next generation, or say why not."""
        protocols = without_repeats(join.protocols)
        error = self._check_join(join, protocols)
        if error is not GroupError.NONE:
            self._refuse_join(join, error, join.member_id)
            return
        consumers = self._context.consumer_groups.get(join.group_id)
        if consumers is not None and not consumers.is_empty:
            self._join_consumers(consumers, replace(join, protocols=protocols))
            return
        if consumers is not None:
            self._make_place(consumers, join)
        group = self._context.groups.get(join.group_id)
        if group is None:
            self._join_new_group(join, protocols)
        elif not (self._has_room_for(group, join.member_id) and self._fits(group, join, protocols)):
            self._turn_away(group, join)
        elif join.member_id != NO_MEMBER_ID:
            self._join_again(group, join, protocols)
        elif not group.supports(join.protocol_type, protocols):
            self._refuse_join(join, GroupError.INCONSISTENT_GROUP_PROTOCOL)
        else:
            self._join_newly(group, join, protocols)

    def _check_join(self, join: JoinGroup, protocols: tuple[JoinProtocol, ...]) -> GroupError:
        config = self._context.config
        if not join.group_id:
            return GroupError.INVALID_GROUP_ID
        timeout_ms = join.session_timeout_ms
        if not config.session_timeout_ms_min <= timeout_ms <= config.session_timeout_ms_max:
            return GroupError.INVALID_SESSION_TIMEOUT
        if len(join.group_id.encode()) > config.name_bytes_max:
            return GroupError.INVALID_GROUP_ID
        names = (join.client_id, join.instance_id or "", join.protocol_type)
        size = sum(each.size_bytes for each in protocols)
        if (
            any(len(name.encode()) > config.name_bytes_max for name in names)
            or len(protocols) > config.member_protocols_max
            or size > config.member_metadata_bytes_max
        ):
            # What Kafka says of a group that has become too large for its record: to say that
            # somebody else may do it, or later, would be asked for again for ever.
            return GroupError.UNKNOWN_SERVER_ERROR
        return GroupError.NONE

    def _join_new_group(self, join: JoinGroup, protocols: tuple[JoinProtocol, ...]) -> None:
        context = self._context
        group = Group(join.group_id, context.now.wall_ms)
        if join.member_id != NO_MEMBER_ID:
            self._refuse_join(join, GroupError.UNKNOWN_MEMBER_ID, join.member_id)
        elif not group.supports(join.protocol_type, protocols):
            self._refuse_join(join, GroupError.INCONSISTENT_GROUP_PROTOCOL)
        elif context.is_full:
            self._refuse_join(join, GroupError.OVER_BOUND)
        else:
            context.groups[join.group_id] = group
            self._join_newly(group, join, protocols)

    def _join_consumers(self, group: ConsumerGroup, join: JoinGroup) -> None:
        """Let a member of the classic protocol into a group of the new kind."""
        policy = self._context.config.consumer.migration_policy
        if policy is MigrationPolicy.DISABLED:
            self._refuse_join(join, GroupError.INCONSISTENT_GROUP_PROTOCOL, join.member_id)
        else:
            self._classic_members.on_join(group, join)

    def _make_place(self, group: ConsumerGroup, join: JoinGroup) -> None:
        """Let a group of the new kind that has no members give way; its offsets stay."""
        if join.member_id == NO_MEMBER_ID and join.protocols and join.protocol_type:
            del self._context.consumer_groups[join.group_id]
            self._context.write_off(join.group_id, group.stored_keys())

    def _has_room_for(self, group: Group, member_id: str) -> bool:
        size_max = self._context.config.group_members_max
        match group.state:
            case GroupState.EMPTY | GroupState.DEAD:
                return True
            case GroupState.PREPARING_REBALANCE:
                # Those who have joined count, not those who are known: when the bound was lowered,
                # the first to come stay and the last are turned away.
                member = group.members.get(member_id)
                is_waiting = member is not None and member.join_token is not None
                return is_waiting or group.awaiting_joins < size_max
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member_id in group.members or len(group.members) < size_max

    def _fits(self, group: Group, join: JoinGroup, protocols: tuple[JoinProtocol, ...]) -> bool:
        """Whether the group can take what the member offers, beside what the others do.

        Who offers no more than before may always come again.
        """
        known_id = join.member_id or group.static_members.get(join.instance_id or "", "")
        known = group.members.get(known_id)
        added = sum(each.size_bytes for each in protocols)
        if known is not None:
            added -= sum(each.size_bytes for each in known.protocols)
        size_max = self._context.config.group_subscriptions_bytes_max
        return added <= 0 or group.offered_bytes + added <= size_max

    def _turn_away(self, group: Group, join: JoinGroup) -> None:
        member = group.members.get(join.member_id)
        if member is not None:
            self._rebalancer.drop_member(group, member)
        elif join.member_id in group.pending_joins:
            self._context.cancel(group, TimerKind.SESSION, join.member_id)
            group.remove(join.member_id)
        self._refuse_join(join, GroupError.GROUP_MAX_SIZE_REACHED)
        self._rebalancer.maybe_complete(group)

    def _join_newly(
        self, group: Group, join: JoinGroup, protocols: tuple[JoinProtocol, ...]
    ) -> None:
        """Take in somebody who has no member id."""
        member_id = f"{join.instance_id or join.client_id}-{join.member_id_suffix}"
        if member_id in group.members or member_id in group.pending_joins:
            raise InvariantBroken(f"member id suffix {join.member_id_suffix} is not unique")
        if join.instance_id is not None:
            if join.instance_id in group.static_members:
                self._replace_static(group, join, protocols, member_id)
            else:
                self._add(group, join, protocols, member_id)
        elif not join.requires_known_member_id:
            self._add(group, join, protocols, member_id)
        elif len(group.pending_joins) >= self._context.config.pending_members_max:
            self._refuse_join(join, GroupError.GROUP_MAX_SIZE_REACHED)
        else:
            group.pending_joins[member_id] = None
            self._context.schedule(group, TimerKind.SESSION, join.session_timeout_ms, member_id)
            self._refuse_join(join, GroupError.MEMBER_ID_REQUIRED, member_id)

    def _join_again(
        self, group: Group, join: JoinGroup, protocols: tuple[JoinProtocol, ...]
    ) -> None:
        """Take in somebody who has a member id."""
        member_id = join.member_id
        if not group.supports(join.protocol_type, protocols):
            self._refuse_join(join, GroupError.INCONSISTENT_GROUP_PROTOCOL, member_id)
            return
        if member_id in group.pending_joins and join.instance_id is None:
            self._add(group, join, protocols, member_id)
            return
        error = group.check_member(member_id, join.instance_id)
        if error is not GroupError.NONE:
            self._refuse_join(join, error, member_id)
            return
        member = group.members[member_id]
        is_unchanged = member.protocols == protocols
        match group.state:
            case GroupState.COMPLETING_REBALANCE if is_unchanged:
                # It may not have got our answer.
                self._answer_with_generation(group, join, member)
            case GroupState.STABLE if is_unchanged and not group.is_leader(member_id):
                self._answer_with_generation(group, join, member)
            case _:
                # The leader may always ask for a rebalance: something may have changed that its
                # metadata does not show, such as the number of a topic's partitions.
                self._update(group, join, protocols, member)
                self._rebalancer.prepare_or_complete(group)

    def _add(
        self,
        group: Group,
        join: JoinGroup,
        protocols: tuple[JoinProtocol, ...],
        member_id: str,
    ) -> None:
        member = Member(
            member_id=member_id,
            instance_id=join.instance_id,
            client_id=join.client_id,
            client_host=join.client_host,
            rebalance_timeout_ms=join.rebalance_ms,
            session_timeout_ms=join.session_timeout_ms,
            protocols=protocols,
        )
        member.is_new = True
        if group.is_initial_rebalance:
            group.new_member_added = True
        group.add(member, join.protocol_type)
        group.park_join(member, join.token)
        # It cannot send heartbeats while its JoinGroup is parked, and a client that gave up and
        # came back would be here twice; so its first JoinGroup has a deadline of its own.
        self._context.schedule(
            group,
            TimerKind.SESSION,
            self._context.config.new_member_join_timeout_ms,
            member_id,
        )
        self._rebalancer.prepare_or_complete(group)

    def _update(
        self,
        group: Group,
        join: JoinGroup,
        protocols: tuple[JoinProtocol, ...],
        member: Member,
    ) -> None:
        group.update(member, protocols, join.rebalance_ms, join.session_timeout_ms)
        replaced = group.park_join(member, join.token)
        if replaced is not None:
            self._context.respond(
                replaced,
                JoinResult(error=GroupError.REBALANCE_IN_PROGRESS, member_id=member.member_id),
            )

    # --- static members ---

    def _replace_static(
        self,
        group: Group,
        join: JoinGroup,
        protocols: tuple[JoinProtocol, ...],
        new_member_id: str,
    ) -> None:
        """Let the restarted instance take its own place; whoever still acts for the old is fenced.

        In a stable group whose protocol stays the same this is no reason to rebalance: the new id
        is stored, and then the member is told the generation that it has been in all along.
        """
        leader_before = group.leader_id or ""
        old, member = self._take_place(group, join.instance_id or "", new_member_id)
        group.update(member, protocols, join.rebalance_ms, join.session_timeout_ms)
        group.park_join(member, join.token)
        # With the session time that it asks for now.
        self._rebalancer.renew_session(group, member)
        match group.state:
            case GroupState.STABLE if group.select_protocol() == group.protocol_name:
                self._store_replacement(group, join, old, leader_before)
            case GroupState.STABLE | GroupState.COMPLETING_REBALANCE:
                # Completing: the leader may already be assigning to the old id.
                self._rebalancer.prepare(group)
            case _:
                self._rebalancer.maybe_complete(group)

    def _take_place(
        self, group: Group, instance_id: str, new_member_id: str
    ) -> tuple[Member, Member]:
        context = self._context
        fenced = GroupError.FENCED_INSTANCE_ID
        old = group.members[group.static_members[instance_id]]
        join_token = group.unpark_join(old)
        if join_token is not None:
            context.respond(join_token, JoinResult(error=fenced, member_id=old.member_id))
        if old.sync_token is not None:
            context.respond(old.sync_token, SyncResult(error=fenced))
            old.sync_token = None
        context.cancel(group, TimerKind.SESSION, old.member_id)
        return group.replace_static(instance_id, new_member_id)

    def _store_replacement(
        self, group: Group, join: JoinGroup, old: Member, leader_before: str
    ) -> None:
        instance_id = join.instance_id or ""
        member = group.members[group.static_members[instance_id]]

        def on_written(error: GroupError) -> None:
            # If a rebalance has begun since, the parked JoinGroup is part of that.
            if member.join_token != join.token or group.state is not GroupState.STABLE:
                return
            group.unpark_join(member)
            if error is GroupError.NONE:
                self._answer_replacement(group, join, member, leader_before)
                return
            group.update(member, old.protocols, old.rebalance_timeout_ms, old.session_timeout_ms)
            self._context.cancel(group, TimerKind.SESSION, member.member_id)
            _, reverted = group.replace_static(instance_id, old.member_id)
            self._rebalancer.renew_session(group, reverted)
            self._refuse_join(join, error)

        token = self._rebalancer.store(group, group.assignments())
        self._context.writes.then(token, on_written)

    def _answer_replacement(
        self, group: Group, join: JoinGroup, member: Member, leader_before: str
    ) -> None:
        """Tell the restarted instance its generation, so that it does not assign anew.

        A client that does not know of skipping is kept from it by naming the leader's old id.
        """
        skips = join.supports_skipping_assignment
        is_leader = group.is_leader(member.member_id)
        self._context.respond(
            join.token,
            JoinResult(
                error=GroupError.NONE,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader_id=(group.leader_id or "") if skips else leader_before,
                members=group.joined_members() if skips and is_leader else (),
                skip_assignment=skips and is_leader,
            ),
        )

    def _answer_with_generation(self, group: Group, join: JoinGroup, member: Member) -> None:
        is_leader = group.is_leader(member.member_id)
        self._context.respond(
            join.token,
            JoinResult(
                error=GroupError.NONE,
                member_id=member.member_id,
                generation=group.generation,
                protocol_type=group.protocol_type,
                protocol_name=group.protocol_name,
                leader_id=group.leader_id or "",
                members=group.joined_members() if is_leader else (),
            ),
        )

    def _refuse_join(
        self, join: JoinGroup, error: GroupError, member_id: str = NO_MEMBER_ID
    ) -> None:
        self._context.respond(join.token, JoinResult(error=error, member_id=member_id))

    # --- SyncGroup ---

    def on_sync(self, sync: SyncGroup) -> None:
        """Give a member its assignment as soon as there is one."""
        context = self._context
        consumers = context.consumer_groups.get(sync.group_id)
        if consumers is not None:
            self._classic_members.on_sync(consumers, sync)
            return
        group = context.groups.get(sync.group_id)
        error = self._check_sync(group, sync)
        if group is None or error is not GroupError.NONE:
            context.respond(sync.token, SyncResult(error=error))
            return
        member = group.members[sync.member_id]
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                error = GroupError.REBALANCE_IN_PROGRESS
                context.respond(sync.token, SyncResult(error=error))
            case GroupState.COMPLETING_REBALANCE:
                self._park_sync(group, sync, member)
            case GroupState.STABLE:
                self._rebalancer.note_synced(group, member.member_id)
                context.respond(
                    sync.token,
                    SyncResult(
                        error=GroupError.NONE,
                        protocol_type=group.protocol_type,
                        protocol_name=group.protocol_name,
                        assignment=member.assignment,
                    ),
                )
            case _:
                raise InvariantBroken(f"group {group.group_id!r} has members and is {group.state}")

    def _check_sync(self, group: Group | None, sync: SyncGroup) -> GroupError:
        if not sync.group_id:
            return GroupError.INVALID_GROUP_ID
        if group is None:
            return GroupError.UNKNOWN_MEMBER_ID
        error = group.check_member(sync.member_id, sync.instance_id)
        if error is not GroupError.NONE:
            return error
        if sync.generation != group.generation:
            return GroupError.ILLEGAL_GENERATION
        if sync.protocol_type not in (None, group.protocol_type):
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        if sync.protocol_name not in (None, group.protocol_name or sync.protocol_name):
            return GroupError.INCONSISTENT_GROUP_PROTOCOL
        return GroupError.NONE

    def _park_sync(self, group: Group, sync: SyncGroup, member: Member) -> None:
        if member.sync_token is not None:
            error = GroupError.REBALANCE_IN_PROGRESS
            self._context.respond(member.sync_token, SyncResult(error=error))
        member.sync_token = sync.token
        self._rebalancer.note_synced(group, member.member_id)
        if group.is_leader(member.member_id):
            self._store_assignment(group, sync)

    def _store_assignment(self, group: Group, sync: SyncGroup) -> None:
        """Have the leader's assignment written; members learn it when it is committed."""
        given = dict(sync.assignments)
        assignments = {member_id: given.get(member_id, b"") for member_id in group.members}
        generation = group.generation

        def on_written(error: GroupError) -> None:
            if group.state is not GroupState.COMPLETING_REBALANCE:
                return
            if group.generation != generation:
                return
            is_good = error is GroupError.NONE
            for member in group.members.values():
                member.assignment = assignments.get(member.member_id, b"") if is_good else b""
            self._rebalancer.answer_syncs(group, error)
            if is_good:
                group.transition(GroupState.STABLE, self._context.now.wall_ms)
            else:
                self._rebalancer.prepare(group)

        self._context.writes.then(self._rebalancer.store(group, assignments), on_written)

    # --- Heartbeat ---

    def on_heartbeat(self, beat: Heartbeat) -> None:
        """Keep a member's session, and tell it to join again if it has to."""
        consumers = self._context.consumer_groups.get(beat.group_id)
        if consumers is not None:
            self._classic_members.on_heartbeat(consumers, beat)
            return
        error = self._heartbeat(beat)
        self._context.respond(beat.token, HeartbeatResult(error=error))

    def _heartbeat(self, beat: Heartbeat) -> GroupError:
        if not beat.group_id:
            return GroupError.INVALID_GROUP_ID
        group = self._context.groups.get(beat.group_id)
        if group is None:
            return GroupError.UNKNOWN_MEMBER_ID
        error = group.check_member(beat.member_id, beat.instance_id)
        if error is not GroupError.NONE:
            return error
        if beat.generation != group.generation:
            return GroupError.ILLEGAL_GENERATION
        self._rebalancer.renew_session(group, group.members[beat.member_id])
        if group.state is GroupState.PREPARING_REBALANCE:
            return GroupError.REBALANCE_IN_PROGRESS
        return GroupError.NONE

    # --- LeaveGroup ---

    def on_leave(self, leave: LeaveGroup) -> None:
        """Remove members; answered after the write if that leaves the group empty."""
        context = self._context
        if not leave.group_id:
            error = GroupError.INVALID_GROUP_ID
            context.respond(leave.token, LeaveResult(error=error))
            return
        consumers = context.consumer_groups.get(leave.group_id)
        if consumers is not None:
            self._heartbeats.on_leave_group(consumers, leave)
            return
        group = context.groups.get(leave.group_id)
        if group is None:
            unknown = GroupError.UNKNOWN_MEMBER_ID
            left = tuple(LeftMember(*leaving, unknown) for leaving in leave.members)
            context.respond(leave.token, LeaveResult(error=GroupError.NONE, members=left))
            return
        left = tuple(
            LeftMember(*leaving, self._remove_leaving(group, leaving)) for leaving in leave.members
        )
        write = None
        if any(member.error is GroupError.NONE for member in left):
            write = self._rebalance_after_leave(group)
        result = LeaveResult(error=GroupError.NONE, members=left)
        if write is None:
            context.respond(leave.token, result)
            return

        def on_written(error: GroupError) -> None:
            is_good = error is GroupError.NONE
            context.respond(leave.token, result if is_good else LeaveResult(error=error))

        context.writes.then_answer(write, on_written)

    def _remove_leaving(self, group: Group, leaving: LeavingMember) -> GroupError:
        member_id, instance_id = leaving
        if member_id == NO_MEMBER_ID:
            # An administrator removes a static member by its instance.
            known = None if instance_id is None else group.static_members.get(instance_id)
            if known is None:
                return GroupError.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id in group.pending_joins:
            self._context.cancel(group, TimerKind.SESSION, member_id)
            group.remove(member_id)
            return GroupError.NONE
        else:
            error = group.check_member(member_id, instance_id)
            if error is not GroupError.NONE:
                return error
        self._rebalancer.drop_member(group, group.members[member_id])
        return GroupError.NONE

    def _rebalance_after_leave(self, group: Group) -> WriteToken | None:
        if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
            return self._rebalancer.prepare(group)
        return self._rebalancer.maybe_complete(group)
