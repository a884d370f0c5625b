"""What happens while a run goes on, in one queue: its main thread takes it in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryListener


@dataclass(frozen=True, slots=True)
class PipelineTold:
    """Spark Declarative Pipelines said something."""

    text: str


@dataclass(frozen=True, slots=True)
class QueryStarted:
    """A streaming query began; its name is its flow's."""

    run_id: str
    name: str | None
    query_id: str


@dataclass(frozen=True, slots=True)
class QueryProgressed:
    """A streaming query reported."""

    report: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class QueryEnded:
    """A streaming query ended."""

    run_id: str
    error: str | None


@dataclass(frozen=True, slots=True)
class ViewComputed:
    """A materialized view was computed anew, or could not be."""

    name: str
    seconds: float
    error: str | None


@dataclass(frozen=True, slots=True)
class RunEnded:
    """The server has nothing more to do for the run."""

    error: BaseException | None


@dataclass(frozen=True, slots=True)
class StopWanted:
    """Somebody wants the end."""

    signal: int


Event = (
    PipelineTold
    | QueryStarted
    | QueryProgressed
    | QueryEnded
    | ViewComputed
    | RunEnded
    | StopWanted
)
EventQueue = SimpleQueue[Event]


class QueryListener(StreamingQueryListener):
    """Puts what the session's queries report into the queue."""

    def __init__(self, events: EventQueue) -> None:
        self._events = events

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Note a start."""
        self._events.put(QueryStarted(str(event.runId), event.name, str(event.id)))

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Note a micro-batch."""
        self._events.put(QueryProgressed(json.loads(event.progress.json)))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Nothing has happened."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802 - Spark's name
        """Note an end."""
        self._events.put(QueryEnded(str(event.runId), event.exception))
