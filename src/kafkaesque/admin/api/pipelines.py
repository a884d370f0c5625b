"""`/pipelines`: what Spark's queries have left in the cluster: what was written, and how far read.

Theory of operation. Runs are kept with their project. In the cluster are two things. A sink that
writes exactly once has a group for each task, whose offset is the number of the micro-batch that
was committed last. A source with `kafka.group.id` commits how far it has read, with a mark as
metadata. Both are in the tables of the groups' coordinators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from typing import Any, Final, Literal

import msgspec

from kafkaesque.access.operations import ResourceType
from kafkaesque.admin.api.calls import Call, Route
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import Gathered, OnAnswer, PartPage, PartServer
from kafkaesque.admin.api.numbers import Unsigned
from kafkaesque.admin.api.paging import ListQuery, sort_field, take_page, wants
from kafkaesque.admin.api.part_list import Keys
from kafkaesque.admin.api.part_pages import Nothing
from kafkaesque.admin.api.values import Listing, View
from kafkaesque.admin.lag import lag_of
from kafkaesque.admin.turns import walk
from kafkaesque.broker.metadata.topic_views import find_readable
from kafkaesque.chassis.readable_logs import readable_end
from kafkaesque.groups.results import CommittedOffset
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.sink_markers import PROGRESS_MARK, sink_task

#: Groups that one broker tells.
ROWS_MAX: Final = 10_000


class SparkRow(msgspec.Struct, frozen=True, array_like=True):
    """A group of Spark's, as its coordinator knows it."""

    group: str
    is_sink: bool
    topics: list[str]
    committed_ms: int
    #: Of a sink's task.
    batch: int
    rows: int
    bytes: int
    #: Of a source; and partitions of which there is no copy here.
    lag: int
    unknown: int
    #: Both by topic; an earlier release does not say.
    by_topic: dict[str, tuple[int, int]] = {}


class SparkAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """Groups of Spark's that a broker coordinates."""

    rows: list[SparkRow]


class Pipeline(msgspec.Struct, frozen=True, kw_only=True):
    """A query of Spark's, as far as the cluster knows it: what it writes, or what it reads."""

    #: Of a sink the query's id, as in its checkpoint; of a source its group.
    id: str
    kind: Literal["sink", "source"]
    topics: list[str]
    #: When something was committed last.
    committed_at: int | None
    #: Of a sink: tasks that have written; the newest micro-batch; what these tasks wrote of it.
    tasks: int | None = None
    batch: int | None = None
    rows: int | None = None
    bytes: int | None = None
    #: Of a source: offsets that are not read, without those of `unknown` partitions.
    lag: int | None = None
    unknown: int = 0


class PipelineList(Listing, frozen=True, kw_only=True):
    """Queries of Spark's."""

    items: list[Pipeline]


class SinkTaskView(msgspec.Struct, frozen=True, kw_only=True):
    """What one task of a sink has written last."""

    task: int
    group: str
    topics: list[str]
    batch: int
    rows: int
    bytes: int
    committed_at: int | None


class PipelineQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which of the queries with an id."""

    #: Null: the sink, and the source where there is none.
    kind: Literal["sink", "source"] | None = None


class PipelineView(View, frozen=True, kw_only=True):
    """One query."""

    pipeline: Pipeline
    #: Of a sink, by number; up to 1,000.
    tasks: list[SinkTaskView]


class _Words(msgspec.Struct, frozen=True):
    """What a marker says in its metadata; any client may have written that."""

    rows: Unsigned = 0
    bytes: Unsigned = 0


SPARK: Final = PartPage(name="spark", question=Nothing, answer=SparkAnswer)
TASKS_MAX: Final = 1_000
#: Rows by a query's id and kind.
Told = dict[tuple[str, str], list[SparkRow]]
_KEYS: Final[Keys] = {
    "id": lambda each: f"{each.id}\0{each.kind}",
    "kind": lambda each: each.kind,
    "committed_at": lambda each: each.committed_at,
    "batch": lambda each: each.batch,
    "lag": lambda each: each.lag,
}


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(SPARK, lambda _, done: _answer(context, done))


def _answer(context: Context, on_done: OnAnswer) -> None:
    rows: list[SparkRow] = []

    def look() -> Iterator[None]:
        for host in context.doors.groups.coordinators.all():
            if not host.is_loaded:
                continue
            for group in host.table.groups_with_offsets():
                yield
                row = _row(context, group, host.table.committed_offsets(group))
                if row is not None and len(rows) < ROWS_MAX:
                    rows.append(row)

    walk(context.doors.clock, look(), lambda: on_done(SparkAnswer(rows=rows)))


def _row(context: Context, group: str, committed: Any) -> SparkRow | None:
    offsets: dict[TopicPartition, CommittedOffset] = dict(committed)
    topics = sorted({where.topic for where in offsets})
    at_ms = max((each.commit_wall_ms for each in offsets.values()), default=0)
    if sink_task(group) is not None:
        newest = max(offsets.values(), key=lambda each: each.offset, default=None)
        if newest is None:
            return None
        words = _words(newest.metadata)
        return SparkRow(group, True, topics, at_ms, newest.offset, words.rows, words.bytes, 0, 0)
    if not offsets or any(each.metadata != PROGRESS_MARK for each in offsets.values()):
        return None
    by_topic: dict[str, tuple[int, int]] = {}
    state = context.doors.cluster.state
    partitions = context.doors.condition.partitions
    for where, each in offsets.items():
        topic = find_readable(state, where.topic)
        if topic is None or where.partition >= len(topic.partitions):
            continue
        partition = partitions.get(topic.partitions[where.partition].group)
        if partition is None or partition.replica is None:
            here = (0, 1)
        else:
            here = (lag_of(readable_end(context.doors, partition), each.offset), 0)
        by_topic[where.topic] = _plus(by_topic.get(where.topic, (0, 0)), here)
    lag, unknown = _total(by_topic.values())
    return SparkRow(group, False, topics, at_ms, 0, 0, 0, lag, unknown, by_topic)


def _plus(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0] + other[0], one[1] + other[1]


def _total(parts: Iterable[tuple[int, int]]) -> tuple[int, int]:
    return reduce(_plus, parts, (0, 0))


def _words(metadata: str) -> _Words:
    try:
        return msgspec.json.decode(metadata, type=_Words)
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return _Words()


class PipelinePages:
    """See the module."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def list_pipelines(self, call: Call[ListQuery, None]) -> None:
        """List queries."""
        query = call.query
        sort_field(query, _KEYS, "id")

        def on_told(told: Told, gathered: Gathered[SparkAnswer]) -> None:
            found = [_pipeline(name, rows) for (name, _), rows in told.items()]
            chosen = [each for each in found if wants(query, " ".join([each.id, *each.topics]))]
            page = take_page(chosen, query, _KEYS, "id")
            call.answer(self._context.page_view(PipelineList, page, gathered.sources))

        self._ask(call, on_told)

    def show_pipeline(self, call: Call[PipelineQuery, None]) -> None:
        """Show one query, with the tasks of its sink."""
        name, kind = call.params["pipeline"], call.query.kind

        def on_told(told: Told, gathered: Gathered[SparkAnswer]) -> None:
            kinds = ("sink", "source") if kind is None else (kind,)
            rows = next((told[name, each] for each in kinds if (name, each) in told), None)
            if rows is None:
                call.refuse(404, "UnknownPipeline", f"no query {name!r} has committed anything")
                return
            call.answer(
                PipelineView(
                    as_of=self._context.now(),
                    seen_by=self._context.node,
                    sources=gathered.sources,
                    pipeline=_pipeline(name, rows),
                    tasks=sorted(
                        (_task(row) for row in rows if row.is_sink), key=lambda each: each.task
                    )[:TASKS_MAX],
                )
            )

        self._ask(call, on_told)

    def _ask(
        self,
        call: Call[Any, None],
        on_told: Callable[[Told, Gathered[SparkAnswer]], None],
    ) -> None:
        def on_gathered(gathered: Gathered[SparkAnswer]) -> None:
            told: Told = {}
            for row in newest_rows(gathered.answers.values()):
                if call.sees(ResourceType.GROUP, row.group):
                    told.setdefault(_key(row), []).append(_seen(call, row))
            on_told(told, gathered)

        self._context.fan_out.ask_all(SPARK, Nothing(), call.later(on_gathered))


def newest_rows(answers: Iterable[SparkAnswer]) -> Iterable[SparkRow]:
    """Return one row for each group: the broker that coordinated it before may still tell it."""
    found: dict[str, SparkRow] = {}
    for answer in answers:
        for row in answer.rows:
            before = found.setdefault(row.group, row)
            if (before.committed_ms, before.batch) < (row.committed_ms, row.batch):
                found[row.group] = row
    return found.values()


def _seen(call: Call[Any, None], row: SparkRow) -> SparkRow:
    """Return a row without what is said of topics that the client may not see."""
    topics = [each for each in row.topics if call.sees(ResourceType.TOPIC, each)]
    if len(topics) == len(row.topics):
        return row
    lag, unknown = _total(row.by_topic.get(each, (0, 0)) for each in topics)
    if not row.by_topic and topics:
        # Its broker's release says only the sum.
        unknown = max(1, row.unknown)
    return msgspec.structs.replace(row, topics=topics, lag=lag, unknown=unknown)


def _key(row: SparkRow) -> tuple[str, str]:
    """Return of which query a row is: a source's group may be called like a sink's query."""
    task = sink_task(row.group) if row.is_sink else None
    return (row.group, "source") if task is None else (task.query, "sink")


def _pipeline(name: str, rows: list[SparkRow]) -> Pipeline:
    topics = sorted({topic for row in rows for topic in row.topics})
    at_ms = max(row.committed_ms for row in rows) or None
    sinks = [row for row in rows if row.is_sink]
    if not sinks:
        return Pipeline(
            id=name,
            kind="source",
            topics=topics,
            committed_at=at_ms,
            lag=sum(row.lag for row in rows),
            unknown=sum(row.unknown for row in rows),
        )
    batch = max(row.batch for row in sinks)
    newest = [row for row in sinks if row.batch == batch]
    return Pipeline(
        id=name,
        kind="sink",
        topics=topics,
        committed_at=at_ms,
        tasks=len(sinks),
        batch=batch,
        rows=sum(row.rows for row in newest),
        bytes=sum(row.bytes for row in newest),
    )


def _task(row: SparkRow) -> SinkTaskView:
    task = sink_task(row.group)
    return SinkTaskView(
        task=0 if task is None else task.task,
        group=row.group,
        topics=row.topics,
        batch=row.batch,
        rows=row.rows,
        bytes=row.bytes,
        committed_at=row.committed_ms or None,
    )


def pipeline_routes(pages: PipelinePages) -> list[Route]:
    """Return the operations on what Spark's queries have committed."""
    return [
        Route(
            method="GET",
            path="/pipelines",
            name="listPipelines",
            summary="Queries of Spark: the micro-batch that a sink wrote last, how far sources are",
            handle=pages.list_pipelines,
            query=ListQuery,
            result=PipelineList,
        ),
        Route(
            method="GET",
            path="/pipelines/{pipeline}",
            name="showPipeline",
            summary="A query of Spark, task by task",
            handle=pages.show_pipeline,
            query=PipelineQuery,
            result=PipelineView,
        ),
    ]
