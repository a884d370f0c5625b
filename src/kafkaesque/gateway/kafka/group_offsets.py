"""OffsetCommit, OffsetFetch and OffsetDelete: how far groups have consumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import ResourceType
from kafkaesque.broker.coordinators.offset_topics import is_of_topic, when_sure
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_views import find_readable, readable_partition
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.data_changes import tell_parts
from kafkaesque.gateway.kafka.errors import code_of, code_of_group_error
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.groups import error_of
from kafkaesque.gateway.kafka.topics import resolve_topic
from kafkaesque.groups import events
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import (
    CommitResult,
    CommittedOffset,
    DeleteOffsetsResult,
    FetchedOffset,
    FetchResult,
    Result,
)
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import ZERO_TOPIC_ID, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.messages.offset_commit_response import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kafkaesque.protocols.kafka.messages.offset_delete_request import OffsetDeleteRequest
from kafkaesque.protocols.kafka.messages.offset_delete_response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkaesque.protocols.kafka.messages.offset_fetch_response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

#: From this version of OffsetCommit and of OffsetFetch on, topics have their ids in place of names.
_WITH_TOPIC_IDS = 10
#: From this version of OffsetCommit on, clients know that a group can be unknown, and that what
#: they call a generation may be a member's epoch (KIP-848).
_COMMIT_WITH_UNKNOWN_GROUP = 9
#: From this version of OffsetFetch on, there is one error for the whole and not for each partition.
_FETCH_WITH_ERROR = 2
#: From this one on it is for several groups (KIP-709).
_FETCH_WITH_GROUPS = 8

#: What is answered for a partition that nothing was committed for.
_NOT_COMMITTED = CommittedOffset(offset=-1)


# -- OffsetCommit


def on_offset_commit(context: Context, call: Call) -> None:
    """Store offsets; answered when they are committed to the log."""
    request: OffsetCommitRequest = call.read()
    _Commit(context, call, request).start()


class _Commit:
    """An OffsetCommit under way: where the answer of each partition belongs."""

    __slots__ = ("_call", "_context", "_doors", "_offsets", "_places", "_request", "_topics")

    def __init__(self, context: Context, call: Call, request: OffsetCommitRequest) -> None:
        self._context = context
        self._doors = context.doors
        self._call = call
        self._request = request
        self._topics: list[OffsetCommitResponseTopic] = []
        #: The answers that are left open, in the order of the event's offsets.
        self._places: list[OffsetCommitResponsePartition] = []
        self._offsets: list[events.OffsetToCommit] = []

    def start(self) -> None:
        """Refuse what does not exist, bring the rest to the coordinator."""
        request = self._request
        offsets = self._offsets
        for topic in request.topics:
            self._sort_out(topic, offsets)
        if not offsets:
            self._answer()
            return
        coordinators = self._doors.groups
        event = events.CommitOffsets(
            token=coordinators.next_token(),
            group_id=request.group_id,
            generation=request.generation_id_or_member_epoch,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            offsets=tuple(offsets),
            retention_ms=request.retention_time_ms,
            knows_member_epochs=self._call.version >= _COMMIT_WITH_UNKNOWN_GROUP,
        )
        coordinators.step(request.group_id, event, self._on_result)

    def _sort_out(
        self, topic: OffsetCommitRequestTopic, offsets: list[events.OffsetToCommit]
    ) -> None:
        partitions: list[OffsetCommitResponsePartition] = []
        self._topics.append(
            OffsetCommitResponseTopic(
                topic_id=topic.topic_id, name=topic.name, partitions=partitions
            )
        )
        for each in topic.partitions:
            answer = OffsetCommitResponsePartition(partition_index=each.partition_index)
            partitions.append(answer)
            try:
                offsets.append(self._offset(topic, each))
                self._places.append(answer)
            except RequestRefused as refusal:
                answer.error_code = code_of(refusal)

    def _offset(
        self, topic: OffsetCommitRequestTopic, each: OffsetCommitRequestPartition
    ) -> events.OffsetToCommit:
        has_id = self._call.version >= _WITH_TOPIC_IDS
        name = resolve_topic(self._doors, topic.topic_id if has_id else topic.name)
        state = readable_partition(self._doors.cluster.state, name, each.partition_index)
        return events.OffsetToCommit(
            partition=TopicPartition(name, each.partition_index),
            offset=each.committed_offset,
            leader_epoch=each.committed_leader_epoch,
            metadata=each.committed_metadata or "",
            topic_id=state.topic_id,
            is_by_name=not has_id,
        )

    def _on_result(self, result: Result | GroupError) -> None:
        if isinstance(result, CommitResult):
            for place, partition in zip(self._places, result.partitions, strict=True):
                place.error_code = self._code(partition.error)
        else:
            code = self._code(error_of(result))
            for place in self._places:
                place.error_code = code
        if not self._request.member_id and self._request.generation_id_or_member_epoch < 0:
            self._tell()
        self._answer()

    def _tell(self) -> None:
        """Tell the audit log: no member of the group has done it."""
        parts = [
            (place.error_code, f"{each.partition}={each.offset}")
            for place, each in zip(self._places, self._offsets, strict=True)
        ]
        change, group = DataChange.COMMIT_OFFSETS, self._request.group_id
        tell_parts(self._context, self._call, change, ResourceType.GROUP, group, parts)

    def _code(self, error: GroupError) -> ErrorCode:
        is_old = self._call.version < _COMMIT_WITH_UNKNOWN_GROUP
        if error is GroupError.GROUP_ID_NOT_FOUND and is_old:
            return ErrorCode.ILLEGAL_GENERATION
        return code_of_group_error(error)

    def _answer(self) -> None:
        self._call.answer(OffsetCommitResponse(topics=self._topics))


# -- OffsetFetch


def on_offset_fetch(context: Context, call: Call) -> None:
    """Read the committed offsets of one group or of several."""
    request: OffsetFetchRequest = call.read()
    groups = request.groups if call.version >= _FETCH_WITH_GROUPS else [_only_group(request)]
    fetches = [_GroupFetch(context.doors, call.version, each, request) for each in groups]

    def answer() -> None:
        answers = [fetch.answer for fetch in fetches]
        if call.version >= _FETCH_WITH_GROUPS:
            call.answer(OffsetFetchResponse(groups=answers))
        else:
            call.answer(_answer_of_one(answers[0]))

    Queue(context.doors.clock, [fetch.start for fetch in fetches], answer).start()


def _only_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = request.topics
    return OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
            for each in topics
        ],
    )


def _answer_of_one(answer: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=each.partition_index,
                    committed_offset=each.committed_offset,
                    committed_leader_epoch=each.committed_leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error_code,
                )
                for each in topic.partitions
            ],
        )
        for topic in answer.topics
    ]
    return OffsetFetchResponse(topics=topics, error_code=answer.error_code)


class _GroupFetch:
    """One group's part of an OffsetFetch; `answer` is there when `start` has called back."""

    __slots__ = ("_asked", "_doors", "_is_stable_only", "_names", "_version", "answer")

    def __init__(
        self,
        doors: Doors,
        version: int,
        asked: OffsetFetchRequestGroup,
        request: OffsetFetchRequest,
    ) -> None:
        self._doors = doors
        self._version = version
        self._asked = asked
        self._is_stable_only = request.require_stable
        #: Of the topics that are asked for; None where there is no such topic.
        self._names = [self._name(topic) for topic in asked.topics or ()]
        self.answer = OffsetFetchResponseGroup(group_id=asked.group_id)

    def start(self, on_done: Callable[[], None]) -> None:
        """Ask the coordinator."""
        topics = self._asked.topics
        coordinators = self._doors.groups
        event = events.FetchOffsets(
            token=coordinators.next_token(),
            group_id=self._asked.group_id,
            partitions=None
            if topics is None
            else tuple(
                TopicPartition(name, index)
                for name, topic in zip(self._names, topics, strict=True)
                if name is not None
                for index in topic.partition_indexes
            ),
            require_stable=self._is_stable_only,
            member_id=self._asked.member_id,
            member_epoch=self._asked.member_epoch,
        )

        def on_result(result: Result | GroupError) -> None:
            if not isinstance(result, FetchResult):
                result = FetchResult(error=error_of(result))
            found = result

            def on_sure(is_sure: bool) -> None:
                error = GroupError.COORDINATOR_LOAD_IN_PROGRESS
                self._take(found if is_sure else FetchResult(error=error))
                on_done()

            when_sure(self._doors.cluster, found.offsets, on_sure)

        coordinators.step(self._asked.group_id, event, on_result)

    def _name(self, topic: OffsetFetchRequestTopics) -> str | None:
        if self._version < _WITH_TOPIC_IDS:
            return topic.name
        try:
            return resolve_topic(self._doors, topic.topic_id)
        except RequestRefused:
            return None

    def _take(self, result: FetchResult) -> None:
        if result.error is not GroupError.NONE:
            self._refuse(code_of_group_error(result.error))
        elif self._asked.topics is None:
            self.answer.topics = self._all_topics(result.offsets)
        else:
            self.answer.topics = self._asked_topics(self._asked.topics, result.offsets)

    def _refuse(self, code: ErrorCode) -> None:
        if self._version >= _FETCH_WITH_ERROR:
            self.answer.error_code = code
            return
        self.answer.topics = [_refused(topic, code) for topic in self._asked.topics or ()]

    def _asked_topics(
        self, topics: Sequence[OffsetFetchRequestTopics], offsets: Sequence[FetchedOffset]
    ) -> list[OffsetFetchResponseTopics]:
        answers = []
        fetched = iter(offsets)
        for name, topic in zip(self._names, topics, strict=True):
            if name is None:
                answers.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            partitions = [self._partition(next(fetched)) for _ in topic.partition_indexes]
            if self._name(topic) != name:
                # Deleted meanwhile; what was found may be its namesake's.
                answers.append(_refused(topic, ErrorCode.UNKNOWN_TOPIC_ID))
                continue
            answers.append(
                OffsetFetchResponseTopics(
                    topic_id=topic.topic_id, name=topic.name, partitions=partitions
                )
            )
        return answers

    def _all_topics(self, offsets: Sequence[FetchedOffset]) -> list[OffsetFetchResponseTopics]:
        """Return every topic that the group has offsets for; by id only those that have one."""
        by_name: dict[str, list[OffsetFetchResponsePartitions]] = {}
        for each in offsets:
            if is_of_topic(self._doors.cluster.state, each):
                by_name.setdefault(each.partition.topic, []).append(self._partition(each))
        cluster = self._doors.cluster.state
        known = {name: topic for name in by_name if (topic := find_readable(cluster, name))}
        needs_id = self._version >= _WITH_TOPIC_IDS
        return [
            OffsetFetchResponseTopics(
                topic_id=known[name].topic_id if name in known else ZERO_TOPIC_ID,
                name=name,
                partitions=partitions,
            )
            for name, partitions in by_name.items()
            if name in known or not needs_id
        ]

    def _partition(self, each: FetchedOffset) -> OffsetFetchResponsePartitions:
        committed = each.committed
        is_current = is_of_topic(self._doors.cluster.state, each)
        if committed is None or each.is_unstable or not is_current:
            committed = _NOT_COMMITTED
        return OffsetFetchResponsePartitions(
            partition_index=each.partition.partition,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
            error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT if each.is_unstable else ErrorCode.NONE,
        )


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        topic_id=topic.topic_id,
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index,
                committed_offset=_NOT_COMMITTED.offset,
                error_code=code,
            )
            for index in topic.partition_indexes
        ],
    )


# -- OffsetDelete


def on_offset_delete(context: Context, call: Call) -> None:
    """Remove committed offsets of topics that the group does not consume."""
    request: OffsetDeleteRequest = call.read()
    if not request.group_id:
        call.answer(OffsetDeleteResponse(error_code=ErrorCode.INVALID_GROUP_ID))
        return
    topics: list[OffsetDeleteResponseTopic] = []
    places: list[OffsetDeleteResponsePartition] = []
    wanted: list[TopicPartition] = []
    for topic in request.topics:
        answers: list[OffsetDeleteResponsePartition] = []
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=answers))
        for each in topic.partitions:
            answer = OffsetDeleteResponsePartition(partition_index=each.partition_index)
            answers.append(answer)
            where = TopicPartition(topic.name, each.partition_index)
            try:
                readable_partition(context.doors.cluster.state, *where)
                wanted.append(where)
                places.append(answer)
            except RequestRefused as refusal:
                answer.error_code = code_of(refusal)
    if not wanted:
        call.answer(OffsetDeleteResponse(topics=topics))
        return

    def on_result(result: Result | GroupError) -> None:
        if not isinstance(result, DeleteOffsetsResult):
            result = DeleteOffsetsResult(error=error_of(result))
        if result.error is not GroupError.NONE:
            call.answer(OffsetDeleteResponse(error_code=code_of_group_error(result.error)))
            return
        for place, partition in zip(places, result.partitions, strict=True):
            place.error_code = code_of_group_error(partition.error)
        parts = [
            (place.error_code, str(where)) for place, where in zip(places, wanted, strict=True)
        ]
        change, group = DataChange.DELETE_OFFSETS, request.group_id
        tell_parts(context, call, change, ResourceType.GROUP, group, parts)
        call.answer(OffsetDeleteResponse(topics=topics))

    coordinators = context.doors.groups
    event = events.DeleteOffsets(
        token=coordinators.next_token(), group_id=request.group_id, partitions=tuple(wanted)
    )
    coordinators.step(request.group_id, event, on_result)
