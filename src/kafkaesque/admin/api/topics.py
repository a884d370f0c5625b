"""`/topics` and what belongs to one topic, but for its messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import msgspec

from kafkaesque.access.operations import ResourceType
from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.numbers import Int32
from kafkaesque.admin.api.paging import ListQuery, PageOf, sort_field, take_page, wants
from kafkaesque.admin.api.part_pages import (
    PARTITIONS,
    TOPIC_GROUPS,
    TOPICS,
    LedPartition,
    PartitionsAnswer,
    PartitionsQuestion,
    TopicGroupsAnswer,
    TopicGroupsQuestion,
    TopicsAnswer,
    TopicsQuestion,
)
from kafkaesque.admin.api.values import (
    Partition,
    Topic,
    TopicGroups,
    TopicList,
    TopicOption,
    TopicOptions,
    TopicView,
)
from kafkaesque.broker.metadata.cluster_state import PartitionState, TopicState
from kafkaesque.broker.options.tables import TOPIC_OPTIONS
from kafkaesque.broker.options.topic_config import resolve_option
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId
from kafkaesque.model.options import write_value

_PARTITIONS_MAX = 1_000

#: Topic -> [partitions whose leaders have answered, messages, bytes, under-replicated,
#: offsets].
Sizes = dict[str, list[int]]

_KEYS: dict[str, Callable[[Topic], Any]] = {
    "name": lambda each: each.name,
    "partitions": lambda each: each.partitions,
    "created_at": lambda each: each.created_at,
    "messages": lambda each: each.messages,
    "bytes": lambda each: each.bytes,
    "under_replicated": lambda each: each.under_replicated,
}
#: What leaders have to be asked for before it can be sorted.
_KEYS_OF_LEADERS = frozenset({"messages", "bytes", "under_replicated"})
_GROUP_KEYS: dict[str, Callable[[Any], Any]] = {
    "group": lambda each: each.group,
    "lag": lambda each: each.lag,
    "state": lambda each: each.state,
}


class TopicsQuery(ListQuery, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which topics."""

    #: Also the brokers' own ones.
    internal: bool = False


class PartitionsQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which partitions of a topic."""

    #: `next` of the page before.
    after: Int32 = -1
    limit: Annotated[int, msgspec.Meta(ge=1, le=_PARTITIONS_MAX)] = 100


class TopicPages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    # -- /topics

    def list_topics(self, call: Call[TopicsQuery, None]) -> None:
        """List topics; leaders are asked only for those of the page, unless that is sorted by."""
        query, state = call.query, self._context.doors.cluster.state
        found = [
            topic
            for name, topic in state.topics.items()
            if wants(query, name)
            and (query.internal or not topic.is_internal)
            and call.sees(ResourceType.TOPIC, name)
        ]
        ask_all = self._context.fan_out.ask_all
        if sort_field(query, _KEYS, "name") in _KEYS_OF_LEADERS:

            def show_all(gathered: Gathered[TopicsAnswer]) -> None:
                sizes = _sizes_of(gathered)
                page = take_page([self._topic(e, sizes) for e in found], query, _KEYS, "name")
                call.answer(self._context.page_view(TopicList, page, gathered.sources))

            ask_all(
                TOPICS, TopicsQuestion(), lambda gathered: call.guard(lambda: show_all(gathered))
            )
            return
        page = take_page([self._topic(each, {}) for each in found], query, _KEYS, "name")
        names = [each.name for each in page.items]

        def on_page(gathered: Gathered[TopicsAnswer]) -> None:
            sizes = _sizes_of(gathered)
            items = [
                self._topic(state.topics[name], sizes) for name in names if name in state.topics
            ]
            shown = PageOf(items, page.total, page.next)
            call.answer(self._context.page_view(TopicList, shown, gathered.sources))

        ask_all(TOPICS, TopicsQuestion(names=names), on_page)

    def _topic(self, topic: TopicState, sizes: Mapping[str, list[int]]) -> Topic:
        leaders = self._context.doors.cluster.leaders
        led, messages, size_bytes, lagging, offsets = sizes.get(topic.name, (0, 0, 0, 0, 0))
        is_known = led > 0
        return Topic(
            name=topic.name,
            id=topic.topic_id.hex(),
            is_internal=topic.is_internal,
            created_at=topic.created_ms or None,
            partitions=len(topic.partitions),
            replication_factor=max((len(each.wanted) for each in topic.partitions), default=0),
            leaderless=sum(leaders.leader(each.group) is None for each in topic.partitions),
            messages=messages if is_known else None,
            bytes=size_bytes if is_known else None,
            offsets=offsets if is_known and offsets >= 0 else None,
            under_replicated=lagging if is_known else None,
            unknown=max(0, len(topic.partitions) - led),
        )

    # -- /topics/{topic}

    def show_topic(self, call: Call[PartitionsQuery, None]) -> None:
        """Show a topic and a page of its partitions."""
        topic = self.find(call)
        if topic is None:
            return
        begin = call.query.after + 1
        page = topic.partitions[begin : begin + call.query.limit]
        by_leader: dict[NodeId, list[int]] = {}
        for each in topic.partitions:
            leader = self._context.doors.cluster.leaders.leader(each.group)
            if leader is not None:
                by_leader.setdefault(leader, []).append(each.partition)
        questions = {
            node: PartitionsQuestion(partitions={topic.name: numbers})
            for node, numbers in sorted(by_leader.items())
        }

        def on_gathered(gathered: Gathered[PartitionsAnswer]) -> None:
            led = {
                e.partition: e for answer in gathered.answers.values() for e in answer.partitions
            }
            call.answer(self._view(topic, page, led, gathered))

        self._context.fan_out.ask(PARTITIONS, questions, on_gathered)

    def _view(
        self,
        topic: TopicState,
        page: list[PartitionState],
        led: Mapping[int, LedPartition],
        gathered: Gathered[PartitionsAnswer],
    ) -> TopicView:
        context = self._context
        live = context.doors.configuration.live.values
        min_in_sync, _ = resolve_option("min.insync.replicas", topic.configs, live)
        lagging = sum(
            not set(led[each.partition].in_sync).issuperset(each.serving)
            for each in topic.partitions
            if each.partition in led
        )
        sizes = [
            len(led),
            sum(max(0, each.end_offset - each.start_offset) for each in led.values()),
            sum(each.bytes for each in led.values()),
            lagging,
            sum(each.end_offset for each in led.values()),
        ]
        last = page[-1].partition if page else -1
        return TopicView(
            as_of=context.now(),
            seen_by=context.node,
            sources=gathered.sources,
            topic=self._topic(topic, {topic.name: sizes}),
            min_in_sync=int(min_in_sync),
            partitions=[self._partition(each, led.get(each.partition)) for each in page],
            next=str(last) if 0 <= last < len(topic.partitions) - 1 else None,
        )

    def _partition(self, state: PartitionState, led: LedPartition | None) -> Partition:
        cluster = self._context.doors.cluster
        hint = cluster.leaders.leader_and_term(state.group)
        recovery = cluster.state.recoveries.get(state.group)
        return Partition(
            partition=state.partition,
            leader=cluster.leaders.leader(state.group),
            epoch=led.epoch if led is not None else None if hint is None else int(hint.term),
            replicas=list(state.replicas),
            adding=list(state.adding),
            removing=list(state.removing),
            is_recovering=recovery is not None and recovery.is_open,
            start_offset=None if led is None else led.start_offset,
            end_offset=None if led is None else led.end_offset,
            stable_offset=None if led is None else led.stable_offset,
            in_sync=None if led is None else led.in_sync,
            bytes=None if led is None else led.bytes,
        )

    # -- /topics/{topic}/options, /topics/{topic}/groups

    def show_options(self, call: Call[NoQuery, None]) -> None:
        """Show all options in force."""
        topic = self.find(call)
        if topic is not None:
            call.answer(self.options_of(topic))

    def options_of(self, topic: TopicState) -> TopicOptions:
        """Return a topic's options, each with its default and what it means."""
        live = self._context.doors.configuration.live.values
        options = [
            TopicOption(
                name=option.name,
                value=write_value(resolve_option(option.name, topic.configs, live)[0]),
                default=write_value(resolve_option(option.name, {}, live)[0]),
                is_own=option.name in topic.configs,
                allowed=option.allowed,
                doc=option.meaning,
            )
            for option in TOPIC_OPTIONS
        ]
        return TopicOptions(
            as_of=self._context.now(),
            seen_by=self._context.node,
            topic=topic.name,
            options=options,
        )

    def list_groups(self, call: Call[ListQuery, None]) -> None:
        """List the groups that have offsets in a topic."""
        topic, query = self.find(call), call.query
        if topic is None:
            return
        sort_field(query, _GROUP_KEYS, "group")

        def show(gathered: Gathered[TopicGroupsAnswer]) -> None:
            told = [each for answer in gathered.answers.values() for each in answer.groups]
            found = [
                each
                for each in told
                if wants(query, each.group) and call.sees(ResourceType.GROUP, each.group)
            ]
            page = take_page(found, query, _GROUP_KEYS, "group")
            call.answer(self._context.page_view(TopicGroups, page, gathered.sources))

        question = TopicGroupsQuestion(topic=topic.name)
        self._context.fan_out.ask_all(
            TOPIC_GROUPS, question, lambda gathered: call.guard(lambda: show(gathered))
        )

    def find(self, call: Call[Any, Any]) -> TopicState | None:
        """Return the topic of a call's path; None, and the call is answered, if there is none."""
        try:
            return self._context.doors.cluster.state.topic(call.params["topic"])
        except RequestRefused as refusal:
            call.refuse_with(refusal)
            return None


def _sizes_of(gathered: Gathered[TopicsAnswer]) -> Sizes:
    sizes: Sizes = {}
    for answer in gathered.answers.values():
        for each in answer.topics:
            found = sizes.setdefault(each.name, [0, 0, 0, 0, 0])
            for place, number in enumerate(
                (each.led, each.messages, each.bytes, each.under_replicated, each.offsets)
            ):
                found[place] += number
    return sizes
