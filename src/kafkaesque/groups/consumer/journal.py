"""Having a group's changes written, answering after that, and the deadlines of its members."""

from collections.abc import Callable

from kafkaesque.groups.consumer.group import ConsumerGroup
from kafkaesque.groups.consumer.records import ConsumerGroupKey
from kafkaesque.groups.consumer.states import MemberState
from kafkaesque.groups.context import CONSUMER_TIMERS, Context, TimerKind
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import Result
from kafkaesque.tables.log_table import LogRecord, RequestToken, WriteToken


class Journal:
    """What all handlers of groups of the new kind do at their end."""

    __slots__ = ("_context",)

    def __init__(self, context: Context) -> None:
        self._context = context

    # --- writing ---

    def write(self, group: ConsumerGroup) -> None:
        """Have written what has changed: at once, or when the group's write in flight has ended.

        One at a time: so each write builds upon what is in the log, and holds all that has changed
        since. Its parts are asked for in one go, and each fails with the one before it.
        """
        if group.in_flight:
            return
        # What a group of its name has left in the log is overwritten, or deleted.
        group.dirty.update(self._context.leftovers.take(group.group_id))
        if not group.dirty:
            return
        group.writes_begun += 1
        keys = group.take_dirty()
        records = [group.record(key) for key in keys]
        token: WriteToken | None = None
        for part in self._context.parts(records):
            token = self._append(group, keys[part], records[part], token)

    def _append(
        self,
        group: ConsumerGroup,
        keys: list[ConsumerGroupKey],
        records: list[LogRecord],
        follows: WriteToken | None,
    ) -> WriteToken:
        token = self._context.append(records, follows)
        group.in_flight[token] = tuple(keys)

        def on_written(error: GroupError) -> None:
            self._end_write(group, token, error)

        self._context.writes.then(token, on_written)
        return token

    def _end_write(self, group: ConsumerGroup, token: WriteToken, error: GroupError) -> None:
        keys = group.in_flight.pop(token)
        if error is not GroupError.NONE:
            # The next write brings them, and everything else that has changed.
            group.dirty.update(dict.fromkeys(keys))
            group.has_failed = True
        if group.in_flight:
            return
        if not group.has_failed:
            group.writes_done = group.writes_begun
        group.has_failed = False
        is_there = self._context.consumer_groups.get(group.group_id) is group
        if error is GroupError.NONE and is_there:
            self.write(group)

    def answer(
        self,
        group: ConsumerGroup,
        request: RequestToken,
        result: Result,
        on_error: Callable[[GroupError], Result],
    ) -> None:
        """Answer when everything that the group has become by now is committed.

        `on_error` makes the answer of a write that failed.
        """
        self.write(group)
        awaited = group.writes_begun + bool(group.dirty)
        self._answer_after(group, awaited, request, result, on_error)

    def _answer_after(
        self,
        group: ConsumerGroup,
        awaited: int,
        request: RequestToken,
        result: Result,
        on_error: Callable[[GroupError], Result],
    ) -> None:
        token = next(reversed(group.in_flight), None)
        if token is None:
            self._context.respond(request, result)
            return
        if self._context.writes.is_overdue(token, self._context.now.now_ms):
            self._context.respond(request, on_error(GroupError.COORDINATOR_NOT_AVAILABLE))
            return

        def on_written(error: GroupError) -> None:
            if error is GroupError.NONE and group.writes_done < awaited:
                if group.in_flight:
                    self._answer_after(group, awaited, request, result, on_error)
                    return
                error = GroupError.COORDINATOR_NOT_AVAILABLE
            is_good = error is GroupError.NONE
            self._context.respond(request, result if is_good else on_error(error))

        self._context.writes.then_answer(token, on_written)

    # --- members ---

    def remove(self, group: ConsumerGroup, member_id: str) -> None:
        """Remove a member; the others share what it had with their next heartbeats."""
        self.cancel_timers(group.group_id, member_id)
        group.remove_member(member_id)
        group.bump()

    def renew_session(self, group: ConsumerGroup, member_id: str) -> None:
        """Give the member its full session time from now."""
        timeout_ms = self._context.times_of(group.group_id).session_timeout_ms
        classic = group.members[member_id].classic
        if classic is not None:
            timeout_ms = classic.session_timeout_ms
        self._schedule(group, TimerKind.CONSUMER_SESSION, member_id, timeout_ms)

    def watch_revocation(self, group: ConsumerGroup, member_id: str) -> None:
        """Give a member that is to give something up its rebalance time for it.

        One of the classic protocol has it from when it is told to join again.
        """
        is_revoking = group.currents[member_id].state is MemberState.UNREVOKED_PARTITIONS
        if not is_revoking or group.members[member_id].classic is not None:
            self._context.timers.cancel((group.group_id, TimerKind.REVOCATION, member_id))
            return
        self.schedule_rebalance(group, TimerKind.REVOCATION, member_id)

    def schedule_rebalance(self, group: ConsumerGroup, kind: TimerKind, member_id: str) -> None:
        """Give a member its rebalance time for something."""
        timeout_ms = group.members[member_id].rebalance_timeout_ms
        if timeout_ms < 0:
            timeout_ms = self._context.config.consumer.rebalance_timeout_ms
        self._schedule(group, kind, member_id, timeout_ms)

    def put_off(self, group: ConsumerGroup, kind: TimerKind, member_id: str) -> None:
        """Give a member its time for something once more."""
        if kind is TimerKind.CONSUMER_SESSION:
            self.renew_session(group, member_id)
        else:
            self.schedule_rebalance(group, kind, member_id)

    def cancel_timer(self, group: ConsumerGroup, kind: TimerKind, member_id: str) -> None:
        """Forget one of a member's deadlines."""
        self._context.timers.cancel((group.group_id, kind, member_id))

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        """Forget a member's deadlines."""
        for kind in CONSUMER_TIMERS:
            self._context.timers.cancel((group_id, kind, member_id))

    def _schedule(
        self, group: ConsumerGroup, kind: TimerKind, member_id: str, delay_ms: int
    ) -> None:
        deadline_ms = self._context.now.now_ms + max(delay_ms, 1)
        self._context.timers.schedule((group.group_id, kind, member_id), deadline_ms)
