"""Committed offsets for clients that cannot find a group's coordinator themselves.

A gateway whose protocol knows no coordinators asks here; the request is done on this broker or
passed to the coordinator's. `serve` is the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.coordinators.groups import GroupCoordinators
from kafkaesque.broker.coordinators.offset_topics import is_of_topic, when_sure
from kafkaesque.broker.metadata.topic_views import readable_partition
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.caller import RemoteCaller, refused_where_unreachable
from kafkaesque.broker.requests.commands import (
    Done,
    ForwardCommitOffsets,
    ForwardFetchOffsets,
    GroupOffset,
    GroupOffsets,
)
from kafkaesque.broker.requests.desk import RequestDesk
from kafkaesque.broker.requests.retries import retry
from kafkaesque.env.clock import Clock
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.events import (
    NO_MEMBER_ID,
    NOT_GIVEN,
    CommitOffsets,
    FetchOffsets,
    OffsetToCommit,
)
from kafkaesque.groups.results import CommitResult, FetchedOffset, FetchResult, Result
from kafkaesque.model.errors import (
    InvalidRequest,
    InvariantBroken,
    LeaderNotAvailable,
    NotLeader,
    OverBound,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import NodeId, TopicPartition

ResultT = TypeVar("ResultT", Done, GroupOffsets)
#: Told how it went, or an attempt of it.
OnOutcome = Callable[[ResultT | RequestRefused], None]

#: What a write is told of which nobody knows whether it will be in the log.
_UNKNOWN = (GroupError.NOT_COORDINATOR, GroupError.COORDINATOR_NOT_AVAILABLE)

#: Errors that pass with time, when the group has a coordinator again.
_PASSING = (GroupError.COORDINATOR_NOT_AVAILABLE, GroupError.COORDINATOR_LOAD_IN_PROGRESS)


class GroupOffsetsClient:
    """Brings commits and questions about them to the group's coordinator."""

    def __init__(
        self,
        *,
        caller: RemoteCaller,
        node: NodeId,
        clock: Clock,
        metadata: MetadataView,
        coordinators: GroupCoordinators,
        leaders: LeadersTable,
    ) -> None:
        self._caller = caller
        self._node = node
        self._clock = clock
        self._metadata = metadata
        self._coordinators = coordinators
        self._leaders = leaders

    def commit(
        self,
        group_id: str,
        offsets: Sequence[GroupOffset],
        timeout_ms: int,
        on_done: OnOutcome[Done],
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        """Commit offsets as somebody who is no member; `on_done` gets `Done` or a refusal.

        It is tried again while the coordinator is unknown or has moved, and somebody waits for it.
        It is not when it may have been done, or when the coordinator cannot be reached from here:
        meanwhile another broker may bring a newer commit there. `RequestTimedOut` says so.
        """
        request = ForwardCommitOffsets(group_id=group_id, offsets=list(offsets))

        def attempt(left_ms: int, on_outcome: OnOutcome[Done]) -> None:
            if not is_wanted():
                raise RequestTimedOut("nobody waits for the commit any more")
            coordinator = self._coordinator(group_id)
            if coordinator == self._node:
                self._serve_commit(request, on_outcome)
                return
            settle = refused_where_unreachable(RequestTimedOut, on_outcome)
            self._caller.ask(coordinator, request, Done, left_ms, settle)

        self._retry(attempt, timeout_ms, on_done)

    def fetch(
        self,
        group_id: str,
        topic: str,
        partitions: Sequence[int],
        timeout_ms: int,
        on_done: OnOutcome[GroupOffsets],
    ) -> None:
        """Read what is committed; `on_done` gets `GroupOffsets` or a refusal."""
        request = ForwardFetchOffsets(group_id=group_id, topic=topic, partitions=list(partitions))

        def attempt(left_ms: int, on_outcome: OnOutcome[GroupOffsets]) -> None:
            coordinator = self._coordinator(group_id)
            if coordinator == self._node:
                self._serve_fetch(request, on_outcome)
                return
            settle = refused_where_unreachable(LeaderNotAvailable, on_outcome)
            self._caller.ask(coordinator, request, GroupOffsets, left_ms, settle)

        self._retry(attempt, timeout_ms, on_done)

    def _retry(
        self,
        attempt: Callable[[int, OnOutcome[ResultT]], None],
        timeout_ms: int,
        on_done: OnOutcome[ResultT],
    ) -> None:
        def too_late(_: object) -> RequestRefused:
            return RequestTimedOut("the group's coordinator could not be reached in time")

        retry(self._clock, timeout_ms, attempt, on_done, too_late)

    def _coordinator(self, group_id: str) -> NodeId:
        where = self._coordinators.find(group_id)
        leader = self._leaders.leader(self._metadata.state.partition(where).group)
        if leader is None:
            raise LeaderNotAvailable(f"{where} has no leader at the moment")
        return leader

    # -- the coordinator's end

    def register(self, desk: RequestDesk) -> None:
        """Have the requests of other brokers served."""
        desk.register(
            ForwardCommitOffsets, lambda _, request, done: self._serve_commit(request, done)
        )
        desk.register(
            ForwardFetchOffsets, lambda _, request, done: self._serve_fetch(request, done)
        )

    def _serve_commit(
        self,
        request: ForwardCommitOffsets,
        on_done: Callable[[Done | RequestRefused], None],
    ) -> None:
        coordinators = self._coordinators
        try:
            offsets = tuple(map(self._to_commit, request.offsets))
        except RequestRefused as refusal:
            on_done(refusal)
            return
        event = CommitOffsets(
            token=coordinators.next_token(),
            group_id=request.group_id,
            generation=NOT_GIVEN,
            member_id=NO_MEMBER_ID,
            instance_id=None,
            offsets=offsets,
        )

        def on_result(result: Result | GroupError) -> None:
            error = _error_of(result)
            if isinstance(result, CommitResult) and error in _UNKNOWN:
                sentence = f"offsets of group {request.group_id!r} were not committed in time"
                on_done(RequestTimedOut(sentence))
            else:
                on_done(_refusal(request.group_id, error) or Done())

        coordinators.step(request.group_id, event, on_result)

    def _to_commit(self, each: GroupOffset) -> OffsetToCommit:
        state = readable_partition(self._metadata.state, each.topic, each.partition)
        return OffsetToCommit(
            # A queue that is shown as a topic has a log by another name.
            partition=TopicPartition(each.topic, each.partition),
            offset=each.offset,
            leader_epoch=NOT_GIVEN,
            metadata="",
            topic_id=state.topic_id,
            is_by_name=True,
        )

    def _serve_fetch(
        self,
        request: ForwardFetchOffsets,
        on_done: Callable[[GroupOffsets | RequestRefused], None],
    ) -> None:
        coordinators = self._coordinators
        event = FetchOffsets(
            token=coordinators.next_token(),
            group_id=request.group_id,
            partitions=tuple(TopicPartition(request.topic, each) for each in request.partitions),
        )

        def on_result(result: Result | GroupError) -> None:
            refusal = _refusal(request.group_id, _error_of(result))
            if refusal is not None:
                on_done(refusal)
                return
            if not isinstance(result, FetchResult):
                raise InvariantBroken(f"a question about offsets was answered with {result}")
            found = result.offsets

            def on_sure(is_sure: bool) -> None:
                if is_sure:
                    on_done(GroupOffsets(offsets=self._current(found)))
                else:
                    on_done(LeaderNotAvailable("the coordinator does not know the topic's id"))

            when_sure(self._metadata, found, on_sure)

        coordinators.step(request.group_id, event, on_result)

    def _current(self, fetched: Sequence[FetchedOffset]) -> list[GroupOffset]:
        """Return what is committed for the topic that is there now, not for a namesake."""
        state = self._metadata.state
        return [
            GroupOffset(topic=topic, partition=partition, offset=each.committed.offset)
            for each in fetched
            for topic, partition in (each.partition,)
            if each.committed is not None and topic in state.topics and is_of_topic(state, each)
        ]


def _error_of(result: Result | GroupError) -> GroupError:
    """Return how it went: one error for all, because a commit here is one piece."""
    match result:
        case GroupError():
            return result
        case CommitResult():
            errors = (partition.error for partition in result.partitions)
            return next((each for each in errors if each is not GroupError.NONE), GroupError.NONE)
        case FetchResult():
            return result.error
        case _:
            return GroupError.UNKNOWN_SERVER_ERROR


def _refusal(group_id: str, error: GroupError) -> RequestRefused | None:
    if error is GroupError.NONE:
        return None
    if error is GroupError.NOT_COORDINATOR:
        return NotLeader(f"group {group_id!r} is coordinated elsewhere")
    if error in _PASSING:
        return LeaderNotAvailable(f"group {group_id!r} has no coordinator at the moment")
    if error is GroupError.OVER_BOUND:
        return OverBound(f"the coordinator of group {group_id!r} has its maximum number of groups")
    if error is GroupError.UNKNOWN_MEMBER_ID:
        return InvalidRequest(f"group {group_id!r} has members; only they commit its offsets")
    return InvalidRequest(f"group {group_id!r}: {error.name.lower().replace('_', ' ')}")
