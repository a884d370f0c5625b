"""What a coordinator says of groups: the parts `groups`, `topic-groups` and `group`."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.part_pages import (
    GROUP,
    GROUPS,
    TOPIC_GROUPS,
    CommittedOffset,
    GroupAnswer,
    GroupQuestion,
    GroupsAnswer,
    TopicGroupsAnswer,
    TopicGroupsQuestion,
)
from kafkaesque.admin.api.values import Group, Member, TopicGroup, TopicPartitions
from kafkaesque.admin.lag import lag_of
from kafkaesque.admin.turns import walk
from kafkaesque.broker.metadata.topic_views import find_readable
from kafkaesque.chassis.readable_logs import readable_end
from kafkaesque.groups import events
from kafkaesque.groups.consumer.events import ConsumerGroupDescribe
from kafkaesque.groups.consumer.results import ConsumerDescribeResult, DescribedConsumerGroup
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import (
    DescribedGroup,
    DescribeResult,
    FetchResult,
    ListedGroup,
    ListResult,
)
from kafkaesque.groups.share.group import ShareGroup
from kafkaesque.model.errors import LeaderNotAvailable
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages.consumer_protocol_assignment import (
    read_consumer_protocol_assignment_v0,
)

#: Group -> topic -> [lag, partitions, partitions of which there is no copy here].
Lags = dict[str, dict[str, list[int]]]


def register(context: Context, server: PartServer) -> None:
    """Have these parts served."""
    server.register(GROUPS, lambda _, done: _answer_groups(context, done))
    server.register(
        TOPIC_GROUPS, lambda question, done: _answer_topic_groups(context, question, done)
    )
    server.register(GROUP, lambda question, done: _Description(context, question, done).start())


def _with_lags(
    context: Context, on_done: Callable[[tuple[ListedGroup, ...], Lags], None], on_fail: OnAnswer
) -> None:
    def on_listed(result: ListResult) -> None:
        if result.error is not GroupError.NONE:
            on_fail(LeaderNotAvailable(f"groups are being loaded: {result.error.name}"))
            return
        lags: Lags = {}
        walk(
            context.doors.clock,
            _measure(context, lags),
            lambda: on_done(result.groups, lags),
        )

    context.doors.groups.list_groups((), (), on_listed)


def _measure(context: Context, lags: Lags) -> Iterator[None]:
    state = context.doors.cluster.state
    partitions = context.doors.condition.partitions
    for host in context.doors.groups.coordinators.all():
        if not host.is_loaded:
            continue
        for group in host.table.groups_with_offsets():
            topics = lags.setdefault(group, {})
            for where, offset in host.table.committed_positions(group):
                yield
                found = topics.setdefault(where.topic, [0, 0, 0])
                found[1] += 1
                topic = find_readable(state, where.topic)
                if topic is None or where.partition >= len(topic.partitions):
                    continue
                partition = partitions.get(topic.partitions[where.partition].group)
                if partition is None or partition.replica is None:
                    found[2] += 1
                else:
                    found[0] += lag_of(readable_end(context.doors, partition), offset)


def _answer_groups(context: Context, on_done: OnAnswer) -> None:
    def on_measured(listed: tuple[ListedGroup, ...], lags: Lags) -> None:
        groups = []
        for each in listed:
            found = lags.get(each.group_id, {}).values()
            groups.append(
                Group(
                    group=each.group_id,
                    state=each.state,
                    kind=each.group_type,
                    protocol_type=each.protocol_type,
                    coordinator=context.node,
                    topics=len(found),
                    lag=sum(numbers[0] for numbers in found),
                    unknown=sum(numbers[2] for numbers in found),
                )
            )
        on_done(GroupsAnswer(groups=groups))

    _with_lags(context, on_measured, on_done)


def _answer_topic_groups(
    context: Context, question: TopicGroupsQuestion, on_done: OnAnswer
) -> None:
    def on_measured(listed: tuple[ListedGroup, ...], lags: Lags) -> None:
        groups = []
        for each in listed:
            numbers = lags.get(each.group_id, {}).get(question.topic)
            if numbers is not None:
                groups.append(
                    TopicGroup(
                        group=each.group_id,
                        state=each.state,
                        partitions=numbers[1],
                        lag=numbers[0],
                        unknown=numbers[2],
                        coordinator=context.node,
                    )
                )
        on_done(TopicGroupsAnswer(groups=groups))

    _with_lags(context, on_measured, on_done)


class _Description:
    """One group: first as one of the new kind, then as a classic one, then its offsets."""

    def __init__(self, context: Context, question: GroupQuestion, on_done: OnAnswer) -> None:
        self._groups = context.doors.groups
        self._group = question.group
        self._with_share = question.with_share
        self._on_done = on_done

    def start(self) -> None:
        """Ask the coordinator, which is here."""
        event = ConsumerGroupDescribe(token=self._groups.next_token(), group_ids=(self._group,))
        self._groups.step(self._group, event, self._on_consumers)

    def _on_consumers(self, result: object) -> None:
        if isinstance(result, ConsumerDescribeResult):
            (found,) = result.groups
            if found.error is GroupError.NONE:
                self._ask_offsets(_of_consumers(found))
                return
            if found.error is GroupError.GROUP_ID_NOT_FOUND:
                event = events.DescribeGroups(
                    token=self._groups.next_token(), group_ids=(self._group,)
                )
                self._groups.step(self._group, event, self._on_classic)
                return
            result = found.error
        self._refuse(result)

    def _on_classic(self, result: object) -> None:
        if not isinstance(result, DescribeResult):
            self._refuse(result)
            return
        (found,) = result.groups
        if found.error is GroupError.GROUP_ID_NOT_FOUND:
            self._on_no_other_kind()
        elif found.error is not GroupError.NONE:
            self._refuse(found.error)
        else:
            self._ask_offsets(_of_classic(found))

    def _on_no_other_kind(self) -> None:
        share = self._groups.share.find(self._group) if self._with_share else None
        if isinstance(share, ShareGroup):
            self._on_done(_of_share(share, len(self._groups.share.cursors(self._group))))
        elif share in (None, GroupError.GROUP_ID_NOT_FOUND):
            self._on_done(GroupAnswer(state=""))
        else:
            self._refuse(share)

    def _ask_offsets(self, described: GroupAnswer) -> None:
        def on_offsets(result: object) -> None:
            if not isinstance(result, FetchResult) or result.error is not GroupError.NONE:
                self._refuse(result)
                return
            offsets = [
                CommittedOffset(
                    each.partition.topic,
                    each.partition.partition,
                    each.committed.offset,
                    each.committed.metadata,
                    each.committed.commit_wall_ms,
                )
                for each in result.offsets
                if each.committed is not None
            ]
            self._on_done(_with_offsets(described, offsets))

        event = events.FetchOffsets(
            token=self._groups.next_token(), group_id=self._group, partitions=None
        )
        self._groups.step(self._group, event, on_offsets)

    def _refuse(self, result: object) -> None:
        why = result.name if isinstance(result, GroupError) else type(result).__name__
        self._on_done(LeaderNotAvailable(f"the coordinator says {why}: try again"))


def _with_offsets(described: GroupAnswer, offsets: list[CommittedOffset]) -> GroupAnswer:
    return GroupAnswer(
        state=described.state,
        kind=described.kind,
        protocol_type=described.protocol_type,
        protocol=described.protocol,
        members=described.members,
        offsets=offsets,
    )


def _of_share(found: ShareGroup, cursors: int) -> GroupAnswer:
    members = [
        Member(
            member=each.member_id,
            instance=None,
            client_id=each.client_id,
            host=each.client_host,
            assignment=[],
        )
        for each in found.members.values()
    ]
    return GroupAnswer(
        state=found.state, kind="share", protocol_type="share", members=members, cursors=cursors
    )


def _of_consumers(found: DescribedConsumerGroup) -> GroupAnswer:
    members = [
        Member(
            member=each.member_id,
            instance=each.instance_id,
            client_id=each.client_id,
            host=each.client_host,
            assignment=[
                TopicPartitions(topic=named.topic_name, partitions=list(named.partitions))
                for named in each.assignment
            ],
        )
        for each in found.members
    ]
    return GroupAnswer(
        state=found.state,
        kind="consumer",
        protocol_type="consumer",
        protocol=found.assignor,
        members=members,
    )


def _of_classic(found: DescribedGroup) -> GroupAnswer:
    is_consumers = found.protocol_type == "consumer"
    members = [
        Member(
            member=each.member_id,
            instance=each.instance_id,
            client_id=each.client_id,
            host=each.client_host,
            assignment=_read_assignment(each.assignment) if is_consumers else [],
        )
        for each in found.members
    ]
    return GroupAnswer(
        state=found.state,
        kind="classic",
        protocol_type=found.protocol_type,
        protocol=found.protocol_name,
        members=members,
    )


def _read_assignment(data: bytes) -> list[TopicPartitions]:
    """Return what a classic member was given; clients write that, so it may be anything."""
    try:
        # After a version, of which every one begins so.
        found = read_consumer_protocol_assignment_v0(memoryview(data), 2)
    except (MalformedRequest, IndexError, ValueError):
        return []
    return [
        TopicPartitions(topic=each.topic, partitions=list(each.partitions))
        for each in found.assigned_partitions
    ]
