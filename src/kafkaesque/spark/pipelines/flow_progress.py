"""How far a flow has come, told by the progress reports of its Structured Streaming query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

WAITING, RUNNING, COMPLETED, FAILED, STOPPED = "waiting running completed failed stopped".split()

#: Topic, then partition, then offset, as sources report it.
TopicOffsets = dict[str, dict[str, int]]


@dataclass(slots=True, kw_only=True)
class FlowProgress:
    """One flow in one run; None is what nobody knows."""

    name: str
    state: str = WAITING
    batches: int = 0
    rows_in: int | None = None
    rows_out: int | None = None
    #: Offsets between what is processed and the ends of the topics, when the last batch ended.
    lag: int | None = None
    #: What the last micro-batch took.
    batch_ms: int | None = None
    error: str | None = None
    query_id: str | None = None
    #: Where the query goes on, for each source that is topics.
    offsets: list[TopicOffsets] = field(default_factory=list)

    def on_progress(self, report: Mapping[str, Any]) -> bool:
        """Take in a report; returns whether a micro-batch has been done since the last one."""
        self.query_id = report.get("id") or self.query_id
        sources = report.get("sources") or []
        self._read_offsets(sources)
        rows = int(report.get("numInputRows") or 0)
        if "addBatch" not in (report.get("durationMs") or {}):
            return False
        self.batches += 1
        self.rows_in = (self.rows_in or 0) + rows
        written = int((report.get("sink") or {}).get("numOutputRows", -1))
        if written >= 0:
            self.rows_out = (self.rows_out or 0) + written
        self.batch_ms = int(report.get("batchDuration") or 0)
        return True

    def _read_offsets(self, sources: list[Mapping[str, Any]]) -> None:
        ends, lags = [], []
        for source in sources:
            end = topic_offsets(source.get("endOffset"))
            latest = topic_offsets(source.get("latestOffset"))
            if end is not None:
                ends.append(end)
            if end is not None:
                # A source whose micro-batches bring all there is does not tell the latest.
                lags.append(0 if latest is None else count_between(end, latest))
        if ends:
            self.offsets = ends
        if lags:
            self.lag = sum(lags)

    def as_document(self) -> dict[str, Any]:
        return asdict(self)


def topic_offsets(found: object) -> TopicOffsets | None:
    """Return a source's offset if it is one of topics, else None."""
    if not isinstance(found, dict):
        return None
    for partitions in found.values():
        if not isinstance(partitions, dict):
            return None
        if not all(isinstance(offset, int) for offset in partitions.values()):
            return None
    return found


def count_between(start: TopicOffsets, end: TopicOffsets) -> int:
    """Return how many offsets lie between two positions; partitions that are new count whole."""
    return sum(
        max(0, offset - start.get(topic, {}).get(partition, 0))
        for topic, partitions in end.items()
        for partition, offset in partitions.items()
    )
