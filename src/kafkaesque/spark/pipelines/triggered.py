"""A triggered run: Spark Declarative Pipelines processes what is there, and ends."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from queue import Empty
from threading import Thread
from typing import Any

from pyspark.pipelines.spark_connect_pipeline import start_run

from kafkaesque.spark.pipelines.errors import Interrupted, WrongProject
from kafkaesque.spark.pipelines.events import (
    EventQueue,
    PipelineTold,
    QueryEnded,
    QueryListener,
    QueryProgressed,
    QueryStarted,
    RunEnded,
    StopWanted,
)
from kafkaesque.spark.pipelines.flow_progress import COMPLETED, FAILED
from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.run import Run, read_event
from kafkaesque.spark.pipelines.sentences import failure, sentence_of
from kafkaesque.spark.pipelines.session import Session

_POLL_S = 0.5
#: Reports of queries come by a way of their own, and may come after the run's end.
_LATE_REPORTS_S = 3.0
_SETTLE_S = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which datasets are brought up to date, and which are made anew."""

    refresh: Sequence[str] = ()
    full_refresh: Sequence[str] = ()
    full_refresh_all: bool = False


def check_graph(session: Session, project: Project, graph_id: str) -> None:
    """Have the server check the graph without running it.

    Raises:
        WrongProject: it is none; the sentence is Spark's.
    """
    failed: tuple[str, str] | None = None
    try:
        for answer in _ask(session, project, graph_id, Selection(), dry=True):
            if "pipeline_event_result" in answer:
                name, state, error = read_event(answer["pipeline_event_result"].event.message)
                if state == FAILED and error and failed is None:
                    failed = name, error
    except Exception as found:
        if failed is not None:
            raise WrongProject(f"flow {failed[0]}: {failed[1]}") from None
        raise WrongProject(f"{project.spec_path}: {sentence_of(found)}") from None


def run_triggered(
    session: Session,
    project: Project,
    graph_id: str,
    selection: Selection,
    run: Run,
    events: EventQueue,
) -> None:
    """Run all flows over what is there now.

    Raises:
        RunFailed, BrokersAway: a flow did not come to its end. Interrupted: somebody wanted that.
    """
    listener = QueryListener(events)
    session.spark.streams.addListener(listener)

    def pull() -> None:
        error: BaseException | None = None
        try:
            for answer in _ask(session, project, graph_id, selection, dry=False):
                if "pipeline_event_result" in answer:
                    events.put(PipelineTold(answer["pipeline_event_result"].event.message))
        except BaseException as found:
            error = found
        events.put(RunEnded(error))

    Thread(target=pull, daemon=True).start()
    ended = _Loop(session, run, events).wait()
    session.spark.streams.removeListener(listener)
    failed = [flow for flow in run.flows.values() if flow.state == FAILED]
    if ended.error is not None:
        where = f"flow {failed[0].name}" if failed else f"the pipeline {project.name}"
        raise failure(where, (failed and failed[0].error) or ended.error)
    if failed:
        raise failure(f"flow {failed[0].name}", failed[0].error or "it failed")


class _Loop:
    """Takes in what happens, until the run has ended and its queries have reported."""

    def __init__(self, session: Session, run: Run, events: EventQueue) -> None:
        self._session = session
        self._run = run
        self._events = events
        self._queries: set[str] = set()
        #: Flows that are said to be done, and since when: a failure may be told just after.
        self._done: dict[str, float] = {}

    def wait(self) -> RunEnded:
        ended: RunEnded | None = None
        deadline = 0.0
        while ended is None or (self._queries and time.monotonic() < deadline):
            try:
                event = self._events.get(timeout=_POLL_S)
            except Empty:
                self._session.check_alive()
                self._settle(time.monotonic() - _SETTLE_S)
                continue
            if isinstance(event, RunEnded):
                ended, deadline = event, time.monotonic() + _LATE_REPORTS_S
            elif isinstance(event, StopWanted):
                raise Interrupted
            elif isinstance(event, PipelineTold):
                self._on_told(event.text)
            elif isinstance(event, QueryStarted):
                self._queries.add(event.run_id)
                self._run.on_start(event.name, event.query_id)
            elif isinstance(event, QueryEnded):
                self._queries.discard(event.run_id)
            elif isinstance(event, QueryProgressed):
                self._run.on_progress(event.report)
        self._settle(time.monotonic())
        return ended

    def _on_told(self, text: str) -> None:
        name, state, error = read_event(text)
        self._done.pop(name, None)
        if state == COMPLETED:
            self._done[name] = time.monotonic()
        elif state is not None:
            self._run.set_state(name, state, error)

    def _settle(self, until: float) -> None:
        """Note as completed what was said to be so before then."""
        for name in [name for name, since in self._done.items() if since <= until]:
            del self._done[name]
            self._run.set_state(name, COMPLETED)


def _ask(
    session: Session, project: Project, graph_id: str, selection: Selection, *, dry: bool
) -> Iterator[dict[str, Any]]:
    """Start a run on the server; yields what it says until it has ended."""
    yield from start_run(
        session.spark,
        graph_id,
        full_refresh=list(selection.full_refresh),
        full_refresh_all=selection.full_refresh_all,
        refresh=list(selection.refresh),
        dry=dry,
        storage=project.storage,
    )
