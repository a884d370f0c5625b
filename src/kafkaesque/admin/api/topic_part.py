"""What a broker says of partitions that it leads: the parts `topics`, `partitions`, `offset-at`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartServer
from kafkaesque.admin.api.part_pages import (
    OFFSET_AT,
    PARTITIONS,
    TOPICS,
    LedPartition,
    OffsetAtAnswer,
    OffsetAtQuestion,
    PartitionsAnswer,
    PartitionsQuestion,
    TopicsAnswer,
    TopicSizes,
    TopicsQuestion,
)
from kafkaesque.admin.turns import walk
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.chassis.readable_logs import (
    extent_of,
    is_view,
    readable_end,
    readable_replica,
    replicas_led,
)
from kafkaesque.model.errors import InvalidRequest, RequestRefused, StorageFailed
from kafkaesque.model.ids import Offset, TopicPartition

#: Partitions that one question names.
PARTITIONS_MAX: Final = 10_000
#: What was added up is not added up again for so long.
SIZES_MS_MAX: Final = 2_000


class SizeDesk:
    """Adds up the partitions of topics, for many who ask at about the same time once."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._sizes: dict[str, TopicSizes] = {}
        self._at_ms: int | None = None
        self._waiting: list[tuple[TopicsQuestion, OnAnswer]] = []

    def answer(self, question: TopicsQuestion, on_done: OnAnswer) -> None:
        """Answer with sizes of the last two seconds."""
        clock = self._context.doors.clock
        if self._at_ms is not None and clock.now_ms() - self._at_ms <= SIZES_MS_MAX:
            on_done(self._pick(question))
            return
        self._waiting.append((question, on_done))
        if len(self._waiting) == 1:
            sums: dict[str, list[int]] = {}
            walk(clock, _add_up(self._context, sums), lambda: self._on_done(sums))

    def _on_done(self, sums: dict[str, list[int]]) -> None:
        self._sizes = {name: TopicSizes(name, *numbers) for name, numbers in sums.items()}
        self._at_ms = self._context.doors.clock.now_ms()
        waiting, self._waiting = self._waiting, []
        for question, on_done in waiting:
            on_done(self._pick(question))

    def _pick(self, question: TopicsQuestion) -> TopicsAnswer:
        sizes = self._sizes
        if question.names is None:
            return TopicsAnswer(topics=list(sizes.values()))
        return TopicsAnswer(topics=[sizes[name] for name in question.names if name in sizes])


def register(context: Context, server: PartServer) -> None:
    """Have these parts served."""
    desk = SizeDesk(context)
    server.register(TOPICS, desk.answer)
    server.register(PARTITIONS, lambda question, done: done(_partitions(context, question)))
    server.register(OFFSET_AT, lambda question, done: _offset_at(context, question, done))


def _add_up(context: Context, sums: dict[str, list[int]]) -> Iterator[None]:
    for partition in list(context.doors.reading.all_here()):
        if partition.replica is not None and partition.is_leader:
            found = sums.setdefault(partition.state.topic, [0, 0, 0, 0, 0])
            found[0] += 1
            found[1] += max(0, partition.high_watermark - partition.log_start_offset)
            found[2] += partition.log.size_bytes
            found[3] += not set(partition.replica.in_sync()).issuperset(partition.state.serving)
            found[4] += partition.high_watermark
        yield


def _partitions(context: Context, question: PartitionsQuestion) -> PartitionsAnswer:
    count = sum(map(len, question.partitions.values()))
    if count > PARTITIONS_MAX:
        raise InvalidRequest(f"{count} partitions are asked for, and {PARTITIONS_MAX} may be")
    led = replicas_led(context.doors, question.partitions)
    found = [_led(context, topic, partition) for topic, partition in led]
    return PartitionsAnswer(partitions=found)


def _led(context: Context, topic: str, partition: Partition) -> LedPartition:
    replica = partition.replica
    start, stable = partition.log_start_offset, partition.last_stable_offset
    if is_view(partition):
        start, stable = extent_of(context.doors, partition)
    return LedPartition(
        topic=topic,
        partition=partition.state.partition,
        epoch=partition.leader_epoch,
        start_offset=start,
        end_offset=readable_end(context.doors, partition),
        stable_offset=stable,
        bytes=partition.log.size_bytes,
        in_sync=sorted(replica.in_sync()) if replica is not None else [],
    )


def _offset_at(context: Context, question: OffsetAtQuestion, on_done: OnAnswer) -> None:
    where = TopicPartition(question.topic, question.partition)
    partition = readable_replica(context.doors, where)
    partition.check_leader()

    def on_located(found: tuple[int, Offset] | Exception | None) -> None:
        if isinstance(found, RequestRefused):
            on_done(found)
        elif isinstance(found, Exception):
            on_done(StorageFailed(f"the log cannot be read: {found}"))
        else:
            on_done(OffsetAtAnswer(offset=None if found is None else found[1]))

    partition.log.offset_for_timestamp(question.at_ms, on_located)
