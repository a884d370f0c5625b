"""`/topics/{topic}/messages`: a page of messages, from one partition or merged from several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, Literal

import msgspec

from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.messages import (
    LISTED_BYTES_MAX,
    SHOWN_BYTES_MAX,
    Form,
    Format,
    Message,
    PassedOver,
    SearchFilter,
)
from kafkaesque.admin.api.numbers import Number, Unsigned
from kafkaesque.admin.api.part_pages import (
    OFFSET_AT,
    PARTITIONS,
    SCAN,
    LedPartition,
    OffsetAtAnswer,
    OffsetAtQuestion,
    PartitionsAnswer,
    PartitionsQuestion,
    ScanAnswer,
    ScanQuestion,
)
from kafkaesque.admin.api.topics import TopicPages
from kafkaesque.admin.api.values import Origin, View
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.model.counted import counted
from kafkaesque.model.ids import NodeId

#: Partitions that are read for one page.
PARTITIONS_MAX: Final = 64
MESSAGES_MAX: Final = 500
#: What a page shows of keys and values together, of all its partitions.
PAGE_BYTES_MAX: Final = 2 * 1024 * 1024
#: The least of it that a partition may use.
SHARE_BYTES_MIN: Final = 32 * 1024


class MessagesQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which messages: the newest ones, those from an offset or a time on, or the oldest ones."""

    #: None: all of them, up to 64.
    partition: Number | None = None
    #: The first offset; needs a partition.
    offset: Unsigned | None = None
    #: The first time, in Unix milliseconds.
    at: Unsigned | None = None
    order: Literal["newest", "oldest"] = "newest"
    limit: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)] = 50
    show: Literal["auto", "text", "hex"] = "auto"
    #: How keys and values are decoded; null: as `show` says.
    key_format: Format | None = None
    value_format: Format | None = None


class Position(msgspec.Struct, frozen=True, kw_only=True):
    """What of a partition is on a page."""

    partition: int
    #: Of the log; null where the leader has not answered, and `missing` says why.
    start_offset: int | None = None
    end_offset: int | None = None
    #: The page shows what lies between; `next` is the `offset` of the page after it.
    first: int | None = None
    next: int | None = None
    missing: str | None = None


class MessagePage(View, frozen=True, kw_only=True):
    """Messages, in the order of their offsets, or the newest first."""

    items: list[Message]
    positions: list[Position]
    #: What lies on the page and could not be read.
    passed_over: list[PassedOver]


class MessagePages:
    """See the module."""

    def __init__(self, context: Context, topics: TopicPages) -> None:
        self._context = context
        self._topics = topics

    def list_messages(self, call: Call[MessagesQuery, None]) -> None:
        """Read a page."""
        topic, query = self._topics.find(call), call.query
        if topic is None:
            return
        partitions: Sequence[PartitionState] = topic.partitions
        if query.partition is not None:
            partitions = partitions[query.partition : query.partition + 1]
        if not partitions:
            count = counted(len(topic.partitions), "partition")
            call.refuse(404, "UnknownPartition", f"topic {topic.name!r} has {count}")
        elif query.offset is not None and query.partition is None:
            call.refuse(400, "InvalidRequest", "an offset is one of a partition: give that, too")
        else:
            _PageRead(self._context, call, partitions[:PARTITIONS_MAX]).start()


class _PageRead:
    """One page under way: the logs' ends, for a time the offsets, then the records."""

    def __init__(
        self,
        context: Context,
        call: Call[MessagesQuery, None],
        partitions: Sequence[PartitionState],
    ) -> None:
        self._context = context
        self._call = call
        self._topic = partitions[0].topic
        self._positions = {
            each.partition: Position(
                partition=each.partition, missing="the partition has no leader at the moment"
            )
            for each in partitions
        }
        leaders = context.doors.cluster.leaders
        self._leaders = {
            each.partition: leader
            for each in partitions
            if (leader := leaders.leader(each.group)) is not None
        }
        self._sources: list[Origin] = []
        self._messages: list[Message] = []
        self._passed_over: list[PassedOver] = []
        self._left = 0

    def start(self) -> None:
        """Ask the leaders where their logs begin and end."""
        by_leader: dict[NodeId, list[int]] = {}
        for partition, leader in self._leaders.items():
            by_leader.setdefault(leader, []).append(partition)
        questions = {
            node: PartitionsQuestion(partitions={self._topic: found})
            for node, found in by_leader.items()
        }
        self._context.fan_out.ask(PARTITIONS, questions, self._on_ends)

    def _on_ends(self, gathered: Gathered[PartitionsAnswer]) -> None:
        self._sources = gathered.sources
        reasons = {each.broker: each.missing for each in gathered.sources if each.missing}
        for partition, leader in self._leaders.items():
            missing = reasons.get(leader) or f"broker {leader} does not lead it any more"
            self._positions[partition] = Position(partition=partition, missing=missing)
        led = [each for answer in gathered.answers.values() for each in answer.partitions]
        self._left = len(led) + 1
        for each in led:
            self._begin(each, max(1, len(led)))
        self._done_one()

    def _begin(self, led: LedPartition, count: int) -> None:
        query = self._call.query
        if query.offset is not None:
            self._scan(led, query.offset, count)
        elif query.at is not None:
            question = OffsetAtQuestion(topic=self._topic, partition=led.partition, at_ms=query.at)

            def on_offset(answer: OffsetAtAnswer | Origin) -> None:
                if isinstance(answer, Origin):
                    self._fail(led, answer)
                else:
                    found = answer.offset
                    self._scan(led, led.stable_offset if found is None else found, count)

            leader = self._leaders[led.partition]
            self._context.fan_out.ask_one(OFFSET_AT, leader, question, on_offset)
        elif query.order == "newest":
            self._scan(led, led.stable_offset - query.limit, count)
        else:
            self._scan(led, led.start_offset, count)

    def _scan(self, led: LedPartition, offset: int, count: int) -> None:
        query = self._call.query
        first = min(max(offset, led.start_offset), led.stable_offset)
        is_one = query.limit == 1
        question = ScanQuestion(
            topic=self._topic,
            partition=led.partition,
            offset=first,
            until=led.stable_offset,
            filter=SearchFilter(),
            form=Form(
                kind=query.show,
                bytes_max=SHOWN_BYTES_MAX if is_one else LISTED_BYTES_MAX,
                key=query.key_format or query.show,
                value=query.value_format or query.show,
            ),
            matches_max=query.limit,
            bytes_max=max(PAGE_BYTES_MAX // count, SHARE_BYTES_MIN),
            client=self._call.client,
        )

        def on_scanned(answer: ScanAnswer | Origin) -> None:
            if isinstance(answer, Origin):
                self._fail(led, answer)
                return
            self._messages += answer.matches
            self._passed_over += answer.passed_over
            self._positions[led.partition] = Position(
                partition=led.partition,
                start_offset=led.start_offset,
                end_offset=led.stable_offset,
                first=first,
                next=answer.next,
            )
            self._done_one()

        self._context.fan_out.ask_one(SCAN, self._leaders[led.partition], question, on_scanned)

    def _fail(self, led: LedPartition, why: Origin) -> None:
        self._positions[led.partition] = Position(
            partition=led.partition,
            start_offset=led.start_offset,
            end_offset=led.stable_offset,
            missing=why.missing,
        )
        self._done_one()

    def _done_one(self) -> None:
        self._left -= 1
        if self._left == 0:
            self._answer()

    def _answer(self) -> None:
        query = self._call.query
        is_newest = query.order == "newest" and query.offset is None and query.at is None

        def place(message: Message) -> tuple[int, int, int]:
            return (message.timestamp or 0, message.partition, message.offset)

        found = sorted(self._messages, key=place, reverse=is_newest)[: query.limit]
        positions = {key: self._shown(each, found) for key, each in self._positions.items()}
        self._call.answer(
            MessagePage(
                as_of=self._context.now(),
                seen_by=self._context.node,
                sources=self._sources,
                items=found,
                positions=list(positions.values()),
                passed_over=[
                    each for each in self._passed_over if _is_on(each, positions[each.partition])
                ],
            )
        )

    def _shown(self, position: Position, found: Sequence[Message]) -> Position:
        """Return a position as it is when only these messages of all are shown."""
        if position.first is None:
            return position
        offsets = [each.offset for each in found if each.partition == position.partition]
        count = sum(each.partition == position.partition for each in self._messages)
        if len(offsets) == count:
            return position
        is_newest = self._call.query.order == "newest" and self._call.query.at is None
        if is_newest:
            first = min(offsets, default=position.next)
            return msgspec.structs.replace(position, first=first)
        upto = max(offsets) + 1 if offsets else position.first
        return msgspec.structs.replace(position, next=upto)


def _is_on(each: PassedOver, position: Position) -> bool:
    """Tell whether a range lies on a page, and not on the next one."""
    first, end = position.first, position.next
    return first is None or end is None or (each.first < end and each.next > first)
