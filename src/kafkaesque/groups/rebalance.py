"""How a group comes to its next generation, and what time does to it.

Functions here return the token of the write that they have asked for, if any, so that whoever is
to be answered after it can wait for it.
"""

from kafkaesque.groups.context import Context, TimerKey, TimerKind
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.group import Group, GroupState
from kafkaesque.groups.member import Member
from kafkaesque.groups.records import write_group_key, write_group_value
from kafkaesque.groups.results import JoinResult, SyncResult
from kafkaesque.tables.log_table import LogRecord, WriteToken

_IN_GENERATION = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class Rebalancer:
    """Moves groups from generation to generation."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    def prepare_or_complete(self, group: Group) -> WriteToken | None:
        """Begin a rebalance, or go on with the one that there is."""
        return self.prepare(group) if group.can_rebalance else self.maybe_complete(group)

    def prepare(self, group: Group) -> WriteToken | None:
        """Begin a rebalance: everybody is to join again."""
        context = self._context
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                member.assignment = b""
            self.answer_syncs(group, GroupError.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        context.cancel(group, TimerKind.SYNC)
        is_initial = group.state is GroupState.EMPTY
        group.transition(GroupState.PREPARING_REBALANCE, context.now.wall_ms)
        if is_initial:
            self._gather_first_members(group)
            return None
        if group.has_all_joined:
            return self.complete(group)
        context.schedule(group, TimerKind.JOIN, group.rebalance_timeout_ms)
        return None

    def maybe_complete(self, group: Group) -> WriteToken | None:
        """Begin the next generation if nobody is left to wait for.

        The first members of a group always get their time to gather.
        """
        if group.state is not GroupState.PREPARING_REBALANCE or group.is_initial_rebalance:
            return None
        return self.complete(group) if group.has_all_joined else None

    def complete(self, group: Group) -> WriteToken | None:
        """Begin the next generation with those who have joined, and absent static members."""
        context = self._context
        context.cancel(group, TimerKind.INITIAL_JOIN)
        context.cancel(group, TimerKind.JOIN)
        for member in list(group.members.values()):
            if member.join_token is None and not member.is_static:
                self.drop_member(group, member)
        if not group.elect_joined_leader() and group.members:
            # Only absent static members are left: their sessions decide, not this rebalance.
            context.schedule(group, TimerKind.JOIN, group.rebalance_timeout_ms)
            return None
        group.begin_generation(context.now.wall_ms)
        if group.state is GroupState.EMPTY:
            return self.store(group, {})
        self._announce_generation(group)
        context.schedule(group, TimerKind.SYNC, group.rebalance_timeout_ms)
        return None

    def store(self, group: Group, assignments: dict[str, bytes]) -> WriteToken:
        """Have the group written as it is, with these assignments.

        What is left of one of the new kind is deleted after that: until the group is in the log,
        the other is all that a new coordinator would know of its members.
        """
        value = write_group_value(group.record(assignments))
        token = self._context.append([LogRecord(write_group_key(group.group_id), value)])
        self._context.write_off(group.group_id, follows=token)
        return token

    def drop_member(self, group: Group, member: Member) -> None:
        """Remove a member, and tell it that it is none any more if it has a request parked."""
        context = self._context
        error = GroupError.UNKNOWN_MEMBER_ID
        join_token = group.unpark_join(member)
        if join_token is not None:
            context.respond(join_token, JoinResult(error=error, member_id=""))
        if member.sync_token is not None:
            context.respond(member.sync_token, SyncResult(error=error))
            member.sync_token = None
        context.cancel(group, TimerKind.SESSION, member.member_id)
        group.remove(member.member_id)

    def answer_syncs(self, group: Group, error: GroupError) -> None:
        """Answer every parked SyncGroup, with the member's assignment if there is no error."""
        is_good = error is GroupError.NONE
        for member, token in group.take_parked_syncs():
            self._context.respond(
                token,
                SyncResult(
                    error=error,
                    protocol_type=group.protocol_type if is_good else None,
                    protocol_name=group.protocol_name if is_good else None,
                    assignment=member.assignment,
                ),
            )
            # While it waited for us its session was not looked at.
            self.renew_session(group, member)

    def renew_session(self, group: Group, member: Member) -> None:
        """Give the member its full session time from now."""
        self._context.schedule(
            group, TimerKind.SESSION, member.session_timeout_ms, member.member_id
        )

    def note_synced(self, group: Group, member_id: str) -> None:
        """Note that a member has asked for its assignment."""
        group.pending_syncs.pop(member_id, None)
        if not group.pending_syncs:
            self._context.cancel(group, TimerKind.SYNC)

    def on_timer(self, key: TimerKey) -> None:
        """Do what a deadline was set for."""
        group_id, kind, member_id = key
        group = self._context.groups.get(group_id)
        if group is None:
            return
        match kind:
            case TimerKind.INITIAL_JOIN:
                self._on_gathered(group)
            case TimerKind.JOIN:
                self.complete(group)
            case TimerKind.SYNC:
                self._on_sync_timeout(group)
            case TimerKind.SESSION:
                self._on_session_timeout(group, member_id)

    def _gather_first_members(self, group: Group) -> None:
        """Wait a little for the group's first members, so that they need one rebalance only."""
        delay_ms = self._context.config.initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delay_ms = delay_ms
        group.initial_remaining_ms = max(group.rebalance_timeout_ms - delay_ms, 0)
        self._context.schedule(group, TimerKind.INITIAL_JOIN, delay_ms)

    def _on_gathered(self, group: Group) -> None:
        if not group.new_member_added or group.initial_remaining_ms == 0:
            self.complete(group)
            return
        group.new_member_added = False
        waited_ms = group.initial_delay_ms
        group.initial_delay_ms = min(
            self._context.config.initial_rebalance_delay_ms, group.initial_remaining_ms
        )
        group.initial_remaining_ms = max(group.initial_remaining_ms - waited_ms, 0)
        self._context.schedule(group, TimerKind.INITIAL_JOIN, group.initial_delay_ms)

    def _announce_generation(self, group: Group) -> None:
        """Answer every parked JoinGroup with the generation that begins."""
        everybody = group.joined_members()
        for member in group.members.values():
            token = group.unpark_join(member)
            if token is not None:
                self._context.respond(
                    token,
                    JoinResult(
                        error=GroupError.NONE,
                        member_id=member.member_id,
                        generation=group.generation,
                        protocol_type=group.protocol_type,
                        protocol_name=group.protocol_name,
                        leader_id=group.leader_id or "",
                        members=everybody if group.is_leader(member.member_id) else (),
                    ),
                )
            self.renew_session(group, member)
            member.is_new = False
            group.pending_syncs[member.member_id] = None

    def _on_sync_timeout(self, group: Group) -> None:
        if group.state not in _IN_GENERATION or not group.pending_syncs:
            return
        for member_id in list(group.pending_syncs):
            self.drop_member(group, group.members[member_id])
        self.prepare(group)

    def _on_session_timeout(self, group: Group, member_id: str) -> None:
        if member_id in group.pending_joins:
            group.remove(member_id)
        else:
            member = group.members.get(member_id)
            if member is None or member.has_satisfied_heartbeat:
                return
            self.drop_member(group, member)
            if group.state in _IN_GENERATION:
                self.prepare(group)
                return
        if group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
            self.complete(group)
