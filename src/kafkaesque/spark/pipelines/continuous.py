"""A continuous run: the flows of a project as Structured Streaming queries, until somebody ends it.

Each flow is a query with the checkpoint that triggered runs use. A query that fails is started
again; a flow whose queries fail again and again without a micro-batch in between ends the run.
Materialized views are computed anew now and then, in a thread of their own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from queue import Empty
from threading import Event as Flag
from threading import Thread
from typing import Any

from kafkaesque.spark.pipelines.checkpoints import flow_checkpoint
from kafkaesque.spark.pipelines.definitions import Definitions
from kafkaesque.spark.pipelines.errors import WrongProject
from kafkaesque.spark.pipelines.events import (
    Event,
    EventQueue,
    QueryEnded,
    QueryListener,
    QueryProgressed,
    QueryStarted,
    StopWanted,
    ViewComputed,
)
from kafkaesque.spark.pipelines.flow_graph import SINK, ReadyFlow, collect, prepare, quoted
from kafkaesque.spark.pipelines.flow_progress import FAILED, RUNNING
from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.run import Run
from kafkaesque.spark.pipelines.sentences import failure, may_pass, sentence_of
from kafkaesque.spark.pipelines.session import Session
from kafkaesque.spark.pipelines.sql_statements import MATERIALIZED_VIEW

FAILURES_MAX = 5
#: Of those that may pass by themselves: brokers that are away, a machine that has too much to do.
PASSING_FAILURES_MAX = 20
_RESTART_S_MIN, _RESTART_S_MAX = 1.0, 30.0
_POLL_S = 0.5
_NAP_S = 0.05
_SOURCES_S = 15.0
#: Views are computed for the first time when flows have had time to begin.
_FIRST_VIEWS_S = 5.0
#: How long the end waits for a micro-batch under way.
_PATIENCE_S = 20.0
#: How often queries are asked for, beside what they report.
_LOOK_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How often queries look for what is new, and views are computed."""

    trigger_ms: int = 1000
    views_s: float = 60.0


@dataclass(slots=True, kw_only=True)
class _Query:
    """A flow and the query that runs it."""

    ready: ReadyFlow
    checkpoint: str
    handle: Any = None
    #: In a row, without a micro-batch in between.
    failures: int = 0
    #: When to start it again.
    due: float | None = None
    #: The flow's micro-batches when the query was started.
    batches_before: int = 0

    @property
    def run_id(self) -> str:
        return "" if self.handle is None else str(self.handle.runId)


def run_continuously(
    session: Session,
    project: Project,
    found: Definitions,
    pace: Pace,
    run: Run,
    events: EventQueue,
) -> None:
    """Run all flows until the queue says that somebody wants the end.

    Raises:
        PipelineError: flows cannot be started, or one failed too often in a row.
    """
    spark = session.spark
    if project.catalog:
        spark.catalog.setCurrentCatalog(project.catalog)
    if project.database:
        spark.catalog.setCurrentDatabase(project.database)
    ready = prepare(spark, collect(spark, project, found))
    streams = [each for each in ready if each.flow.target.kind != MATERIALIZED_VIEW]
    if not streams:
        raise WrongProject(
            f"{project.name} has no streaming flow, only materialized views",
            "run it without --continuous",
        )
    loop = _Loop(session, project, streams, pace, run, events)
    views = [each for each in ready if each.flow.target.kind == MATERIALIZED_VIEW]
    tables = [each.target for each in ready if each.flow.target.kind != SINK]
    listener = QueryListener(events)
    spark.streams.addListener(listener)
    try:
        with _views_computed(spark, views, tables, pace, events):
            loop.run()
    finally:
        loop.stop()
        with contextlib.suppress(Exception):
            spark.streams.removeListener(listener)


class _Loop:
    """Starts the queries, takes in what they report, starts again what failed."""

    def __init__(
        self,
        session: Session,
        project: Project,
        flows: Sequence[ReadyFlow],
        pace: Pace,
        run: Run,
        events: EventQueue,
    ) -> None:
        self._session = session
        self._pace = pace
        self._run = run
        self._events = events
        self._looked = time.monotonic()
        self._queries = [
            _Query(
                ready=flow,
                checkpoint=flow_checkpoint(
                    project.storage, flow.target, flow.flow.name.split(".")[-1]
                ),
            )
            for flow in flows
        ]

    def run(self) -> None:
        """Return when somebody wants the end."""
        for query in self._queries:
            self._start(query)
        while True:
            try:
                event = self._events.get(timeout=_POLL_S)
            except Empty:
                self._session.check_alive()
                self._maybe_look()
            else:
                if isinstance(event, StopWanted):
                    return
                self._on_event(event)
            for query in self._queries:
                if query.due is not None and query.due <= time.monotonic():
                    self._start(query)

    def stop(self) -> None:
        """End all queries, each between two micro-batches where that is soon."""
        deadline = time.monotonic() + _PATIENCE_S
        for query in self._queries:
            with contextlib.suppress(Exception):
                while query.handle.status["isTriggerActive"] and time.monotonic() < deadline:
                    time.sleep(_NAP_S)
                query.handle.stop()
        with contextlib.suppress(Empty):
            while True:
                event = self._events.get(timeout=_POLL_S)
                if isinstance(event, QueryProgressed):
                    self._run.on_progress(event.report)

    def _on_event(self, event: Event) -> None:
        if isinstance(event, QueryProgressed):
            self._run.on_progress(event.report)
        elif isinstance(event, QueryStarted):
            self._run.on_start(event.name, event.query_id)
        elif isinstance(event, QueryEnded):
            for query in self._queries:
                if query.run_id == event.run_id:
                    self._on_failure(query, event.error or "it ended by itself")
        elif isinstance(event, ViewComputed):
            self._run.on_view(event.name, event.seconds, event.error)

    def _maybe_look(self) -> None:
        """Ask for queries that have ended without a word, now and then."""
        if time.monotonic() - self._looked < _LOOK_S:
            return
        self._looked = time.monotonic()
        for query in self._queries:
            if query.handle is not None and not query.handle.isActive:
                self._on_failure(query, query.handle.exception() or "it ended by itself")

    def _start(self, query: _Query) -> None:
        query.due = None
        query.batches_before = self._run.flow(query.ready.name).batches
        try:
            query.handle = _start(self._session.spark, query, self._pace)
        except Exception as error:
            self._on_failure(query, error)
            return
        self._run.set_state(query.ready.name, RUNNING)
        self._await_sources(query)

    def _await_sources(self, query: _Query) -> None:
        """Wait a while until the query's sources are there, before the next query is started.

        Each source is a Python process, and Spark gives it 10 s to start: many at once take longer.
        """
        deadline = time.monotonic() + _SOURCES_S
        with contextlib.suppress(Exception):
            while time.monotonic() < deadline and query.handle.isActive:
                if not query.handle.status["message"].startswith("Initializing"):
                    return
                time.sleep(_NAP_S)

    def _on_failure(self, query: _Query, error: BaseException | str) -> None:
        name = query.ready.name
        query.handle = None
        has_come_on = self._run.flow(name).batches > query.batches_before
        query.failures = 1 if has_come_on else query.failures + 1
        self._run.set_state(name, FAILED, sentence_of(error))
        if query.failures >= (PASSING_FAILURES_MAX if may_pass(error) else FAILURES_MAX):
            raise failure(f"flow {name} failed {query.failures} times in a row", error)
        pause_s = min(_RESTART_S_MAX, _RESTART_S_MIN * 2 ** (query.failures - 1))
        query.due = time.monotonic() + pause_s
        self._run.watcher.note(f"flow {name} is started again in {pause_s:g} s")


def _start(spark: Any, query: _Query, pace: Pace) -> Any:
    ready = query.ready
    target = ready.flow.target
    writer = (
        ready.table.writeStream.queryName(ready.name)
        .outputMode("append")
        .option("checkpointLocation", query.checkpoint)
        .trigger(processingTime=f"{pace.trigger_ms} milliseconds")
    )
    if target.format is not None:
        writer = writer.format(target.format)
    with _settings(spark, ready.flow.settings):
        if target.kind == SINK:
            return writer.options(**target.options).start()
        return writer.toTable(quoted(ready.target))


@contextlib.contextmanager
def _settings(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Have a flow's own settings while its query is started, which keeps them."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


@contextlib.contextmanager
def _views_computed(
    spark: Any,
    views: Sequence[ReadyFlow],
    tables: Sequence[tuple[str, ...]],
    pace: Pace,
    events: EventQueue,
) -> Iterator[None]:
    """Compute materialized views soon and then now and then, while the block runs."""
    is_ending = Flag()

    def compute() -> None:
        pause_s = min(pace.views_s, _FIRST_VIEWS_S)
        while not is_ending.wait(pause_s):
            pause_s = pace.views_s
            for view in views:
                began = time.monotonic()
                error: str | None = None
                try:
                    for table in tables:
                        # Else Spark would read the files that it has seen before.
                        spark.catalog.refreshTable(quoted(table))
                    view.table.write.mode("overwrite").insertInto(quoted(view.target))
                except Exception as found:
                    error = sentence_of(found)
                if is_ending.is_set():
                    return
                events.put(ViewComputed(view.name, time.monotonic() - began, error))

    thread = Thread(target=compute, daemon=True)
    if views:
        thread.start()
    try:
        yield
    finally:
        is_ending.set()
        if views:
            thread.join(_PATIENCE_S)
