"""ConsumerGroupHeartbeat: members come, tell what they have, are told what to have, and go.

A heartbeat is checked as a whole before it changes anything. What it changes is written at once,
and it is answered when that, and whatever of the group is still on its way, is committed.
"""

from collections.abc import Callable

from msgspec.structs import replace

from kafkaesque.groups.consumer.assigning import assign, refresh_topics, rest_ms
from kafkaesque.groups.consumer.events import ConsumerGroupHeartbeat
from kafkaesque.groups.consumer.expressions import BadExpression
from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.journal import Journal
from kafkaesque.groups.consumer.migration import Migration
from kafkaesque.groups.consumer.reconciliation import reconciled
from kafkaesque.groups.consumer.records import KeyKind
from kafkaesque.groups.consumer.requests import Refused, check_heartbeat
from kafkaesque.groups.consumer.results import ConsumerHeartbeatResult
from kafkaesque.groups.consumer.states import (
    JOINING_EPOCH,
    LEAVING_STATIC_EPOCH,
    CurrentAssignment,
    MemberMetadata,
    MemberState,
)
from kafkaesque.groups.consumer.topics import NO_PARTITIONS, Partitions, TopicIdPartition
from kafkaesque.groups.context import Context, TimerKey, TimerKind
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import LeaveGroup, LeavingMember
from kafkaesque.groups.group import GroupState
from kafkaesque.groups.results import LeaveResult, LeftMember, Result
from kafkaesque.tables.log_table import RequestToken


class Heartbeats:
    """Handles what members of groups of the new kind ask for, and what time does to them."""

    __slots__ = ("_context", "_journal", "_migration")

    def __init__(self, context: Context, journal: Journal, migration: Migration) -> None:
        self._context = context
        self._journal = journal
        self._migration = migration

    # --- heartbeats ---

    def on_heartbeat(self, beat: ConsumerGroupHeartbeat) -> None:
        """Bring a member one step further, and tell it where it is."""
        try:
            check_heartbeat(beat, self._context.config)
            if beat.member_epoch < JOINING_EPOCH:
                self._leave(beat)
            else:
                self._beat(beat)
        except Refused as refused:
            result = ConsumerHeartbeatResult(error=refused.error, message=refused.message)
            self._context.respond(beat.token, result)

    def _beat(self, beat: ConsumerGroupHeartbeat) -> None:
        context = self._context
        is_join = beat.member_epoch == JOINING_EPOCH
        group = context.consumer_groups.get(beat.group_id)
        if group is None:
            group = self._new_group(beat, is_join=is_join)
        known_id = self._check_member(group, beat)
        if context.is_over_bound:
            self._renew_session(group, known_id)
            raise Refused(GroupError.COORDINATOR_NOT_AVAILABLE)
        if beat.topic_expression is not None:
            try:
                context.expressions.check(beat.topic_expression)
            except BadExpression as error:
                raise Refused(
                    GroupError.INVALID_REGULAR_EXPRESSION,
                    f"SubscribedTopicRegex is not a valid RE2 expression: {error}"[:1_000],
                ) from error
        known = group.members.get(known_id)
        updated = _updated(known, beat)
        overflow = group.overflow(known_id, updated, context.config)
        if overflow is not None:
            raise Refused(
                GroupError.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum of {overflow}.",
            )
        # From here on nothing is refused.
        context.consumer_groups[beat.group_id] = group
        member_id = known_id
        if is_join:
            member_id = self._admit(group, beat, known_id)
        before = group.currents.get(member_id, CurrentAssignment())
        has_changed = False
        if updated != known:
            group.put_member(member_id, updated)
            has_changed = known is None or subscription_of(updated) != subscription_of(known)
        self.update_target(group, has_changed=has_changed)
        self.reconcile(group, member_id, beat.owned, has_stopped=is_join)
        self._renew_session(group, member_id)
        self._answer(group, beat, member_id, before)

    def _new_group(self, beat: ConsumerGroupHeartbeat, *, is_join: bool) -> ConsumerGroup:
        """Return a group that is not in the table yet.

        Raises:
            Refused: there can be none.
        """
        context = self._context
        if not is_join:
            # Kafka has GROUP_ID_NOT_FOUND for it, which KIP-848 does not list and which ends
            # consumers; with this one they join again.
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        group = ConsumerGroup(beat.group_id)
        classic = context.groups.get(beat.group_id)
        if classic is None:
            if context.is_full:
                raise Refused(GroupError.OVER_BOUND)
            return group
        if classic.state is GroupState.EMPTY:
            group.mark(KeyKind.CLASSIC_GROUP)
            return group
        upgraded = self._migration.upgraded(classic)
        if upgraded is None:
            raise Refused(
                GroupError.GROUP_ID_NOT_FOUND, f"Group {beat.group_id} is not a consumer group."
            )
        return upgraded

    def _check_member(self, group: ConsumerGroup, beat: ConsumerGroupHeartbeat) -> str:
        """Return the id under which the member is known; empty if it is not.

        Raises:
            Refused: it may not speak, or not join.
        """
        known_id = beat.member_id if beat.member_id in group.members else ""
        if beat.instance_id is not None:
            known_id = self._check_instance(group, beat)
        if beat.member_epoch != JOINING_EPOCH:
            if not known_id or group.members[known_id].classic is not None:
                raise Refused(GroupError.UNKNOWN_MEMBER_ID)
            _check_epoch(group.currents[known_id], beat)
        elif not known_id and len(group.members) >= self._context.config.consumer.members_max:
            raise Refused(
                GroupError.GROUP_MAX_SIZE_REACHED,
                f"The consumer group has reached its maximum capacity of "
                f"{self._context.config.consumer.members_max} members.",
            )
        return known_id

    def _check_instance(self, group: ConsumerGroup, beat: ConsumerGroupHeartbeat) -> str:
        """Return who has the instance's place, if anybody has and may be spoken for."""
        known_id = group.static_members.get(beat.instance_id or "")
        if beat.member_epoch != JOINING_EPOCH:
            if known_id is None:
                raise Refused(GroupError.UNKNOWN_MEMBER_ID)
            if known_id != beat.member_id:
                raise Refused(
                    GroupError.FENCED_INSTANCE_ID,
                    f"Static member {beat.member_id} with instance id {beat.instance_id} was "
                    f"fenced by member {known_id}."[:1_000],
                )
            return known_id
        if known_id is None:
            return beat.member_id if beat.member_id in group.members else ""
        has_left = group.currents[known_id].epoch == LEAVING_STATIC_EPOCH
        # A member of the classic protocol has no other way to leave for a while than to go.
        is_classic = group.members[known_id].classic is not None
        if known_id != beat.member_id and not has_left and not is_classic:
            raise Refused(
                GroupError.UNRELEASED_INSTANCE_ID,
                f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join "
                f"the group because the instance id is owned by member {known_id}."[:1_000],
            )
        return known_id

    def _admit(self, group: ConsumerGroup, beat: ConsumerGroupHeartbeat, known_id: str) -> str:
        """Let a member begin, or begin again with nothing; return its id."""
        classic = self._context.groups.get(beat.group_id)
        if classic is not None:
            self._migration.take_over(classic, group)
        member_id = beat.member_id or beat.new_member_id
        if not known_id:
            return member_id
        if known_id != member_id:
            self._journal.cancel_timers(group.group_id, known_id)
            if member_id in group.members:
                self._journal.remove(group, member_id)
            group.rename_member(known_id, member_id)
        current = group.currents[member_id]
        # It says that it owns nothing, so whatever it was to give up is free. What it had is kept
        # for it, so that it gets it back at once.
        if current.epoch != JOINING_EPOCH or current.pending_revocation:
            group.put_current(member_id, CurrentAssignment(assigned=current.assigned))
        return member_id

    # --- for members of either protocol ---

    def update_target(self, group: ConsumerGroup, *, has_changed: bool) -> None:
        """Bring the group and its target to the next epoch if something asks for it.

        In a large group the target follows with a heartbeat some time later.
        """
        context = self._context
        now_ms = context.now.now_ms
        if has_changed or group.topics_seen is not context.topics:
            wall_ms = context.now.wall_ms
            found = refresh_topics(group, context.topics, context.expressions, wall_ms)
            if has_changed or found != group.metadata_hash:
                group.bump(found)
        if group.epoch > group.target_epoch and now_ms >= group.target_due_ms:
            work = assign(group, context.topics, context.config.consumer.assignors)
            interval_ms = context.times_of(group.group_id).assignment_interval_ms
            group.target_due_ms = now_ms + max(rest_ms(work), interval_ms)

    def reconcile(
        self,
        group: ConsumerGroup,
        member_id: str,
        owned: Partitions | None,
        *,
        has_stopped: bool,
    ) -> None:
        """Bring a member one step further, now that it has said what it has."""
        current = group.currents[member_id]

        def is_free(partition: TopicIdPartition) -> bool:
            return group.holder(partition) in (None, member_id)

        step = reconciled(
            current,
            target=group.target.get(member_id, NO_PARTITIONS),
            target_epoch=group.target_epoch,
            owned=owned,
            has_stopped=has_stopped,
            is_free=is_free,
        )
        if step == current:
            return
        group.put_current(member_id, step)
        self._journal.watch_revocation(group, member_id)

    # --- answers ---

    def _answer(
        self,
        group: ConsumerGroup,
        beat: ConsumerGroupHeartbeat,
        member_id: str,
        before: CurrentAssignment,
    ) -> None:
        current = group.currents[member_id]
        is_news = (
            beat.is_full
            # It has missed an answer.
            or beat.member_epoch != before.epoch
            or (current is not before and current.assigned != before.assigned)
        )
        result = ConsumerHeartbeatResult(
            error=GroupError.NONE,
            member_id=member_id,
            member_epoch=current.epoch,
            heartbeat_interval_ms=self._context.times_of(group.group_id).heartbeat_interval_ms,
            assignment=current.assigned if is_news else None,
        )
        self._journal.answer(group, beat.token, result, _refused)

    # --- leaving ---

    def _leave(self, beat: ConsumerGroupHeartbeat) -> None:
        group = self._context.consumer_groups.get(beat.group_id)
        if group is None:
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        if self._context.is_over_bound:
            raise Refused(GroupError.COORDINATOR_NOT_AVAILABLE)
        member_id = beat.member_id
        if beat.instance_id is not None:
            member_id = self._check_instance(group, beat)
        member = group.members.get(member_id)
        if member is None or member.classic is not None:
            raise Refused(GroupError.UNKNOWN_MEMBER_ID)
        if beat.member_epoch == LEAVING_STATIC_EPOCH:
            # Its session goes on: if it is not back by its end, it has left for good.
            current = group.currents[member_id]
            group.put_current(
                member_id,
                CurrentAssignment(
                    epoch=LEAVING_STATIC_EPOCH,
                    previous_epoch=current.epoch,
                    assigned=current.assigned,
                ),
            )
            self._journal.watch_revocation(group, member_id)
        else:
            self._journal.remove(group, member_id)
        result = ConsumerHeartbeatResult(
            error=GroupError.NONE, member_id=member_id, member_epoch=beat.member_epoch
        )
        self._answer_leave(group, beat.token, result, _refused)

    def _answer_leave(
        self,
        group: ConsumerGroup,
        request: RequestToken,
        result: Result,
        on_error: Callable[[GroupError], Result],
    ) -> None:
        token = self._migration.maybe_downgrade(group)
        if token is None:
            self._journal.answer(group, request, result, on_error)
            return

        def on_written(error: GroupError) -> None:
            answer = result if error is GroupError.NONE else on_error(error)
            self._context.respond(request, answer)

        self._context.writes.then_answer(token, on_written)

    def on_leave_group(self, group: ConsumerGroup, leave: LeaveGroup) -> None:
        """Let classic members go, and an administrator remove static ones by their instance."""
        left = tuple(LeftMember(*each, self._let_go(group, each)) for each in leave.members)
        result = LeaveResult(error=GroupError.NONE, members=left)
        self._answer_leave(group, leave.token, result, lambda error: LeaveResult(error=error))

    def _let_go(self, group: ConsumerGroup, leaving: LeavingMember) -> GroupError:
        known_id = group.static_members.get(leaving.instance_id or "")
        if leaving.instance_id is not None and known_id is None:
            return GroupError.UNKNOWN_MEMBER_ID
        if leaving.member_id:
            member = group.members.get(leaving.member_id)
            # In the new protocol this is not how one leaves.
            if member is None or member.classic is None:
                return GroupError.UNKNOWN_MEMBER_ID
            if known_id not in (None, leaving.member_id):
                return GroupError.FENCED_INSTANCE_ID
            known_id = leaving.member_id
        if known_id is None:
            return GroupError.UNKNOWN_MEMBER_ID
        self._journal.remove(group, known_id)
        return GroupError.NONE

    # --- time ---

    def on_timer(self, key: TimerKey) -> None:
        """Remove a member that has shown no life, or has not given up what it was to."""
        group_id, kind, member_id = key
        group = self._context.consumer_groups.get(group_id)
        if group is None or member_id not in group.members:
            return
        if not self._context.knows_topics:
            # Nobody could be answered yet, so nobody is late.
            self._journal.put_off(group, kind, member_id)
            return
        state = group.currents[member_id].state
        if kind is TimerKind.REVOCATION and state is not MemberState.UNREVOKED_PARTITIONS:
            return
        self._journal.remove(group, member_id)
        if self._migration.maybe_downgrade(group) is None:
            self._journal.write(group)

    def _renew_session(self, group: ConsumerGroup, member_id: str) -> None:
        if member_id in group.members:
            self._journal.renew_session(group, member_id)


def _updated(known: MemberMetadata | None, beat: ConsumerGroupHeartbeat) -> MemberMetadata:
    """Return what a member has said of itself by now."""
    member = known or MemberMetadata()
    names = beat.topic_names
    return replace(
        member,
        instance_id=member.instance_id if beat.instance_id is None else beat.instance_id,
        rack_id=member.rack_id if beat.rack_id is None else beat.rack_id,
        rebalance_timeout_ms=(
            member.rebalance_timeout_ms
            if beat.rebalance_timeout_ms is None
            else beat.rebalance_timeout_ms
        ),
        topic_names=member.topic_names if names is None else tuple(sorted(set(names))),
        topic_expression=(
            member.topic_expression if beat.topic_expression is None else beat.topic_expression
        ),
        assignor=member.assignor if beat.assignor is None else beat.assignor,
        client_id=beat.client_id,
        client_host=beat.client_host,
        classic=None,
    )


def _refused(error: GroupError) -> ConsumerHeartbeatResult:
    return ConsumerHeartbeatResult(error=error)


def subscription_of(member: MemberMetadata) -> tuple[object, ...]:
    """Return what an assignment depends on."""
    return member.topic_names, member.topic_expression, member.rack_id, member.assignor


def _check_epoch(current: CurrentAssignment, beat: ConsumerGroupHeartbeat) -> None:
    received = beat.member_epoch
    if received == current.epoch:
        return
    # The answer with the present epoch may have been lost: then the member has nothing that it
    # was not given before.
    if (
        received < current.epoch
        and received == current.previous_epoch
        and beat.owned is not None
        and beat.owned <= current.held
    ):
        return
    kind = "greater" if received > current.epoch else "smaller"
    raise Refused(
        GroupError.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {kind} member epoch ({received}) than the one known by "
        f"the group coordinator ({current.epoch}). The member must abandon all its partitions and "
        "rejoin.",
    )
