"""Where replicas of a topic are to be: what a move would copy, and how long that takes; then done.

The plan is the controller's own, made of this broker's copy of the metadata; the sizes are those
that leaders say. A leader copies to each new replica what it has. Its rate is the broker's
`leader.replication.throttled.rate`; where that is no limit, the time is what it would take at
`ASSUMED_RATE`, and the answer says so.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.changes import CHANGE_MS_MAX, Change, DryRun
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered
from kafkaesque.admin.api.numbers import Int32
from kafkaesque.admin.api.part_pages import PARTITIONS, PartitionsAnswer, PartitionsQuestion
from kafkaesque.admin.api.topics import TopicPages
from kafkaesque.broker.metadata.cluster_state import TopicState
from kafkaesque.broker.metadata.move_planner import plan_moves
from kafkaesque.broker.options.replication import LEADER_RATE, UNLIMITED
from kafkaesque.broker.requests.commands import (
    ControllerResult,
    MoveReplicas,
    MovesResult,
    Refusal,
    WantedReplicas,
)
from kafkaesque.model.counted import counted
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.model.ids import NodeId

#: Bytes that a leader sends in a second, if nothing limits it: a guess for one disk and one link.
ASSUMED_RATE: Final = 50 * 1024 * 1024


class Reassignment(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Where replicas are to be."""

    #: Brokers, the preferred leader first; null: stop what moves.
    replicas: Annotated[list[Int32], msgspec.Meta(min_length=1, max_length=100)] | None
    #: Null: all of the topic's.
    partitions: Annotated[list[Int32], msgspec.Meta(min_length=1, max_length=10_000)] | None = None


class PlannedMove(msgspec.Struct, frozen=True, kw_only=True):
    """What becomes of one partition."""

    partition: int
    before: list[int]
    after: list[int]
    #: Brokers that get a copy.
    adding: list[int]
    #: Of the partition's log, once for each broker that gets a copy; null: its leader did not say.
    bytes: int | None
    #: Why it is not moved; null: it is, or there is nothing to move.
    refusal: str | None


class ReassignmentChange(Change, frozen=True, kw_only=True):
    """What is moved, or would be."""

    topic: str
    rows: list[PlannedMove]
    #: To be copied; without the partitions whose leaders did not say.
    bytes: int
    unknown: int
    #: Of the leader that has most to send.
    duration_ms: int
    rate: int
    #: `limit`: what `leader.replication.throttled.rate` says; `assumed`: there is no limit.
    rate_is: Literal["limit", "assumed"]


class ReassigningPages:
    """See the module."""

    def __init__(self, context: Context, topics: TopicPages) -> None:
        self._context = context
        self._topics = topics

    def reassign(self, call: Call[DryRun, Reassignment]) -> None:
        """Move replicas of a topic, or stop that; answered when it is decided, not when done."""
        topic = self._topics.find(call)
        if topic is None:
            return
        numbers = self._numbers(call, topic)
        wanted = [
            WantedReplicas(topic=topic.name, partition=each, replicas=call.body.replicas)
            for each in numbers
        ]
        command = MoveReplicas(partitions=wanted)
        _, refusals = plan_moves(self._context.doors.cluster.state, command)
        leaders = self._context.doors.cluster.leaders
        by_leader: dict[NodeId, dict[str, list[int]]] = {}
        for each in numbers:
            leader = leaders.leader(topic.partitions[each].group)
            if leader is not None:
                by_leader.setdefault(leader, {}).setdefault(topic.name, []).append(each)

        def on_sizes(gathered: Gathered[PartitionsAnswer]) -> None:
            sizes = {
                led.partition: (node, led.bytes)
                for node, answer in gathered.answers.items()
                for led in answer.partitions
            }
            if call.query.dry_run:
                self._answer(call, topic, numbers, refusals, sizes)
                return

            def on_outcome(outcome: ControllerResult | RequestRefused) -> None:
                if isinstance(outcome, MovesResult):
                    self._answer(call, topic, numbers, outcome.refusals, sizes)
                elif isinstance(outcome, RequestRefused):
                    call.refuse_with(outcome)

            cluster = self._context.doors.cluster
            cluster.submit(call.sign(command), CHANGE_MS_MAX, on_outcome)

        questions = {node: PartitionsQuestion(partitions=e) for node, e in by_leader.items()}
        self._context.fan_out.ask(
            PARTITIONS, questions, lambda told: call.guard(lambda: on_sizes(told))
        )

    def _numbers(self, call: Call[DryRun, Reassignment], topic: TopicState) -> list[int]:
        known, given = len(topic.partitions), call.body.partitions
        if given is not None and not all(0 <= each < known for each in given):
            raise InvalidRequest(f"topic {topic.name!r} has partitions 0 to {known - 1}")
        return list(range(known)) if given is None else sorted(set(given))

    def _answer(
        self,
        call: Call[DryRun, Reassignment],
        topic: TopicState,
        numbers: list[int],
        refusals: list[Refusal | None],
        sizes: dict[int, tuple[NodeId, int]],
    ) -> None:
        rows = [
            _row(topic, number, call.body.replicas, refusal, sizes.get(number))
            for number, refusal in zip(numbers, refusals, strict=True)
        ]
        sent: dict[NodeId, int] = {}
        for row in rows:
            if row.bytes and row.partition in sizes:
                node = sizes[row.partition][0]
                sent[node] = sent.get(node, 0) + row.bytes
        limit = self._context.doors.configuration.get(LEADER_RATE)
        is_limited = isinstance(limit, int) and 0 < limit < UNLIMITED
        rate = int(limit) if is_limited else ASSUMED_RATE
        total = sum(row.bytes or 0 for row in rows)
        refused = sum(row.refusal is not None for row in rows)
        call.answer(
            ReassignmentChange(
                as_of=self._context.now(),
                seen_by=self._context.node,
                is_dry_run=call.query.dry_run,
                what=_what(call, topic.name, len(rows) - refused, refused),
                command=" ".join(_words(call, topic.name)),
                topic=topic.name,
                rows=rows,
                bytes=total,
                unknown=sum(row.bytes is None for row in rows),
                duration_ms=max(sent.values(), default=0) * 1_000 // rate,
                rate=rate,
                rate_is="limit" if is_limited else "assumed",
            )
        )


def _row(
    topic: TopicState,
    number: int,
    replicas: list[int] | None,
    refusal: Refusal | None,
    size: tuple[NodeId, int] | None,
) -> PlannedMove:
    partition = topic.partitions[number]
    before: list[int] = list(partition.wanted)
    after = before if refusal is not None else replicas
    if after is None:
        after = list(partition.origin)
    adding = [each for each in after if each not in partition.replicas]
    known = 0 if not adding else None if size is None else size[1] * len(adding)
    return PlannedMove(
        partition=number,
        before=before,
        after=after,
        adding=adding,
        bytes=known,
        refusal=None if refusal is None else refusal.message,
    )


def _what(call: Call[DryRun, Reassignment], topic: str, taken: int, refused: int) -> str:
    is_dry, is_stop = call.query.dry_run, call.body.replicas is None
    done = "would be" if is_dry else "are"
    how = f"{done} left where they were" if is_stop else f"{done} moved"
    what = f"the replicas of {counted(taken, 'partition')} of {topic} {how}"
    return f"{what}, and {counted(refused, 'partition')} refused" if refused else what


def _words(call: Call[DryRun, Reassignment], topic: str) -> list[str]:
    words = ["kafkaesque", "topic", "reassign", topic]
    for each in call.body.partitions or ():
        words += ["--partition", str(each)]
    if call.body.replicas is None:
        return [*words, "--cancel"]
    return [*words, "--replicas", ",".join(map(str, call.body.replicas))]


def reassigning_routes(pages: ReassigningPages) -> list[Route]:
    """Return the operation that moves replicas."""
    return [
        Route(
            method="POST",
            path="/topics/{topic}/reassign",
            name="reassign",
            summary="Move a topic's replicas, or stop that; the dry run tells bytes and time",
            handle=pages.reassign,
            query=DryRun,
            body=Reassignment,
            result=ReassignmentChange,
        ),
    ]
