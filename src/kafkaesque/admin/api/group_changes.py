"""Where a group is to go on in a topic: told first, and then done.

Theory of operation. The group's coordinator says what is committed and who is a member, the
partitions' leaders say where their logs begin and end. From these comes each partition's new
offset, within what its log holds. Only a group without members is changed: members would commit
over it.
"""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Final, Literal

import msgspec

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.api.authorization import refuse_unknown_group, refuse_unknown_topic
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, Change, DryRun
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.numbers import Int32
from kafkaesque.admin.api.part_pages import (
    GROUP,
    OFFSET_AT,
    PARTITIONS,
    GroupAnswer,
    GroupQuestion,
    LedPartition,
    OffsetAtAnswer,
    OffsetAtQuestion,
    PartitionsAnswer,
    PartitionsQuestion,
)
from kafkaesque.admin.api.values import Origin
from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.metadata.topic_views import find_readable
from kafkaesque.broker.requests.commands import Done, GroupOffset
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import InvalidRequest, LeaderNotAvailable, RequestRefused
from kafkaesque.model.ids import NodeId, TopicPartition
from kafkaesque.model.sink_markers import keeps_sink_marker

#: So many partitions are set at once.
PARTITIONS_MAX: Final = 10_000
_OFFSET_MAX: Final = 2**63 - 1


class OffsetReset(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where a group is to go on in a topic; what lies outside of a log becomes its nearer end."""

    topic: Annotated[str, msgspec.Meta(min_length=1, max_length=249)]
    #: Null: all of the topic's.
    partitions: Annotated[list[Int32], msgspec.Meta(max_length=PARTITIONS_MAX)] | None = None
    #: `earliest` and `latest` are the ends of the log, `offset`, `time` and `shift` need a number.
    to: Literal["earliest", "latest", "offset", "time", "shift"]
    #: An offset; milliseconds since 1970; or so many messages on from what is committed, or back.
    number: Annotated[int, msgspec.Meta(ge=-_OFFSET_MAX, le=_OFFSET_MAX)] | None = None


class MovedOffset(msgspec.Struct, frozen=True, kw_only=True):
    """What a reset changes in one partition."""

    partition: int
    #: Null: nothing was committed.
    before: int | None
    after: int
    #: The first offset of the log, and the one that the next message gets.
    start_offset: int
    end_offset: int


class OffsetsChange(Change, frozen=True, kw_only=True):
    """What a reset has changed, or would change."""

    group: str
    topic: str
    #: While there are any, nothing is changed.
    members: int
    rows: list[MovedOffset]


class GroupChangePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def reset_offsets(self, call: Call[DryRun, OffsetReset]) -> None:
        """Set the offsets at which a group goes on in a topic."""
        topic = _find_topic(self._context, call)
        if topic is not None:
            _Reset(self._context, call, topic).start()


def _find_topic(context: Context, call: Call[DryRun, OffsetReset]) -> TopicState | None:
    """Return the topic that is meant; None, and the call is answered, if it may not be."""
    name = call.body.topic
    topic = find_readable(context.doors.cluster.state, name)
    if topic is None or not call.sees(ResourceType.TOPIC, name):
        refuse_unknown_topic(call, name)
        return None
    if not call.may(Operation.READ, ResourceType.TOPIC, name):
        words = call.refusal(Operation.READ, ResourceType.TOPIC, name)
        call.refuse(403, "Forbidden", words)
        return None
    return topic


class _Reset:
    """One request on its way: the group, its topic's ends, the times, the commit."""

    def __init__(
        self, context: Context, call: Call[DryRun, OffsetReset], topic: TopicState
    ) -> None:
        self._context = context
        self._call = call
        self._topic = topic
        self._group = call.params["group"]
        self._members = 0
        self._before: dict[int, int] = {}
        self._leaders: dict[int, NodeId] = {}
        #: Of a time, by partition: the first offset of it, as far as it was told.
        self._found: dict[int, int] = {}

    def start(self) -> None:
        """Ask the coordinator.

        Raises:
            RequestRefused: what is asked for cannot be, or the group has no coordinator.
        """
        body = self._call.body
        if (body.to in ("offset", "time", "shift")) != (body.number is not None):
            raise InvalidRequest("offset, time and shift take a number, and the others none")
        if body.to in ("offset", "time") and (body.number or 0) < 0:
            raise InvalidRequest(f"there is no {body.to} below 0")
        if keeps_sink_marker(self._group):
            raise InvalidRequest(
                f"{self._group!r} keeps the marker of an exactly-once Spark sink, "
                "and nobody reads by it"
            )
        numbers = self._numbers()
        node = self._context.leader(self._context.doors.groups.find(self._group))

        def on_described(gathered: Gathered[GroupAnswer]) -> None:
            answer = gathered.answers.get(node)
            if answer is None:
                (source,) = gathered.sources
                self._call.refuse(503, "CoordinatorNotAvailable", source.missing or "")
            elif not answer.state:
                refuse_unknown_group(self._call, self._group)
            else:
                self._take_group(answer)
                self._call.guard(lambda: self._ask_ends(numbers))

        self._context.fan_out.ask(GROUP, {node: GroupQuestion(group=self._group)}, on_described)

    def _numbers(self) -> list[int]:
        """Return the partitions that are meant.

        Raises:
            InvalidRequest: the topic has not got one of them, or too many are meant.
        """
        known, given = len(self._topic.partitions), self._call.body.partitions
        if given is not None and not all(0 <= each < known for each in given):
            raise InvalidRequest(f"topic {self._topic.name!r} has partitions 0 to {known - 1}")
        numbers = list(range(known)) if given is None else sorted(set(given))
        if not 0 < len(numbers) <= PARTITIONS_MAX:
            raise InvalidRequest(f"1 to {PARTITIONS_MAX} partitions are set at once")
        return numbers

    def _take_group(self, answer: GroupAnswer) -> None:
        self._members = len(answer.members)
        topic = self._topic.name
        self._before = {e.partition: e.offset for e in answer.offsets if e.topic == topic}

    # -- the ends of the logs

    def _ask_ends(self, numbers: list[int]) -> None:
        name = self._topic.name
        by_leader: dict[NodeId, list[int]] = {}
        for number in numbers:
            leader = self._context.leader(TopicPartition(name, number))
            self._leaders[number] = leader
            by_leader.setdefault(leader, []).append(number)
        questions = {
            node: PartitionsQuestion(partitions={name: each}) for node, each in by_leader.items()
        }

        def on_gathered(gathered: Gathered[PartitionsAnswer]) -> None:
            led = {e.partition: e for a in gathered.answers.values() for e in a.partitions}
            missing = [each for each in numbers if each not in led]
            if missing:
                why = next((each.missing for each in gathered.sources if each.missing), "")
                what = f"partition {missing[0]} of {name} does not say where it ends"
                self._call.refuse_with(LeaderNotAvailable(f"{what}: {why or 'its leader moves'}"))
            elif self._call.body.to == "time":
                self._ask_times([led[each] for each in numbers])
            else:
                self._settle([led[each] for each in numbers])

        self._context.fan_out.ask(PARTITIONS, questions, on_gathered)

    def _ask_times(self, led: list[LedPartition]) -> None:
        """Ask each leader for the first offset of the time; where there is none it is the end."""
        left = len(led)
        at_ms = self._call.body.number or 0

        def on_offset(each: LedPartition, answer: OffsetAtAnswer | Origin) -> None:
            nonlocal left
            left -= 1
            if isinstance(answer, OffsetAtAnswer):
                self._found[each.partition] = (
                    each.end_offset if answer.offset is None else answer.offset
                )
            if left == 0 and len(self._found) < len(led):
                self._call.refuse_with(LeaderNotAvailable("not all leaders know the time's offset"))
            elif left == 0:
                self._settle(led)

        for each in led:
            question = OffsetAtQuestion(
                topic=self._topic.name, partition=each.partition, at_ms=at_ms
            )
            leader = self._leaders[each.partition]
            self._context.fan_out.ask_one(OFFSET_AT, leader, question, partial(on_offset, each))

    # -- the offsets

    def _settle(self, led: list[LedPartition]) -> None:
        rows = [self._row(each) for each in led]
        call, is_dry = self._call, self._call.query.dry_run
        if is_dry:
            self._answer(rows)
        elif self._members:
            call.refuse(409, "GroupNotEmpty", f"{self._at_work()}: stop them first")
        else:
            self._commit(rows)

    def _row(self, led: LedPartition) -> MovedOffset:
        body, before = self._call.body, self._before.get(led.partition)
        first, end = led.start_offset, led.end_offset
        number = body.number or 0
        wanted: Mapping[str, int] = {
            "earliest": first,
            "latest": end,
            "offset": number,
            "time": self._found.get(led.partition, end),
            "shift": (first if before is None else before) + number,
        }
        return MovedOffset(
            partition=led.partition,
            before=before,
            after=min(max(wanted[body.to], first), end),
            start_offset=first,
            end_offset=end,
        )

    def _commit(self, rows: list[MovedOffset]) -> None:
        name = self._topic.name
        offsets = [GroupOffset(topic=name, partition=e.partition, offset=e.after) for e in rows]

        def on_done(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._call.refuse_with(outcome)
                return
            self._context.doors.access.audit.change_of_data(
                self._call.client,
                DataChange.COMMIT_OFFSETS,
                ResourceType.GROUP,
                self._group,
                {name: " ".join(f"{each.partition}={each.offset}" for each in offsets)},
            )
            self._answer(rows)

        self._context.doors.groups.commit(self._group, offsets, CHANGE_MS_MAX, on_done)

    # -- what is said

    def _at_work(self) -> str:
        one = self._members == 1
        return f"group {self._group} has {self._members} member{'' if one else 's'}"

    def _answer(self, rows: list[MovedOffset]) -> None:
        is_dry = self._call.query.dry_run
        moved = sum(each.before != each.after for each in rows)
        would = "would go" if is_dry else "goes"
        what = (
            f"group {self._group} {would} on elsewhere in {moved} of "
            f"{counted(len(rows), 'partition')} of {self._topic.name}"
        )
        if is_dry and self._members:
            what += f"; but {self._at_work()}, who have to be stopped first"
        self._call.answer(
            OffsetsChange(
                as_of=self._context.now(),
                seen_by=self._context.node,
                is_dry_run=is_dry,
                what=what,
                command=self._command(),
                group=self._group,
                topic=self._topic.name,
                members=self._members,
                rows=rows,
            )
        )

    def _command(self) -> str:
        body = self._call.body
        topic = body.topic
        if body.partitions is not None:
            topic += ":" + ",".join(map(str, sorted(set(body.partitions))))
        words = ["kafkaesque", "group", "reset-offsets", self._group, "--topic", topic]
        if body.to == "shift":
            words += ["--shift", str(body.number)]
        elif body.to == "time":
            words += ["--to", _iso(body.number or 0)]
        else:
            words += ["--to", body.to if body.number is None else str(body.number)]
        return shlex.join([*words, "--execute"])


def _iso(wall_ms: int) -> str:
    """Return a time as the command takes it; it may lie beyond what has a name."""
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, ValueError, OSError):
        return "latest"


def group_change_routes(pages: GroupChangePages) -> list[Route]:
    """Return the operations that change groups."""
    return [
        Route(
            method="POST",
            path="/groups/{group}/offsets",
            name="resetOffsets",
            summary="Set where a group without members goes on in a topic",
            handle=pages.reset_offsets,
            query=DryRun,
            body=OffsetReset,
            result=OffsetsChange,
        ),
    ]
