"""One run: its flows as they come along, told to a watcher and kept in the project."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Mapping
from typing import Any, Protocol

from kafkaesque.spark.pipelines.flow_progress import (
    COMPLETED,
    FAILED,
    RUNNING,
    STOPPED,
    WAITING,
    FlowProgress,
)
from kafkaesque.spark.pipelines.project import Project
from kafkaesque.spark.pipelines.run_record import RunRecord, now
from kafkaesque.spark.pipelines.sentences import sentence_of

TRIGGERED, CONTINUOUS = "triggered", "continuous"
#: The security protocol of those who do not set one.
PLAINTEXT = "PLAINTEXT"
#: The record is written at most so often.
_WRITE_S = 1.0
_EVENT = re.compile(r"Flow '?(?P<name>.+?)'? (?:is|has) (?P<what>[A-Z_]+)\b[^\n]*")
_UNRESOLVED = re.compile(r"Failed to resolve flow: '(?P<name>.+?)'[^\n]*")
_STATES = {
    "QUEUED": WAITING,
    "PLANNING": WAITING,
    "STARTING": WAITING,
    "RUNNING": RUNNING,
    "COMPLETED": COMPLETED,
    "FAILED": FAILED,
    "STOPPED": STOPPED,
    "SKIPPED": STOPPED,
    "EXCLUDED": STOPPED,
    "IDLE": COMPLETED,
}


def read_event(text: str) -> tuple[str, str | None, str | None]:
    """Return which flow an event of declarative pipelines is of, its state, and what is wrong.

    Events of anything else have no state.
    """
    if unresolved := _UNRESOLVED.match(text):
        return unresolved["name"], FAILED, _error(text[unresolved.end() :])
    found = _EVENT.match(text)
    if found is None:
        return "", None, None
    return found["name"], _STATES.get(found["what"]), _error(text[found.end() :])


def _error(text: str) -> str | None:
    words = text.strip().removeprefix("Error:").strip()
    return sentence_of(words) if words else None


class Watcher(Protocol):
    """Somebody who is told how a run goes."""

    def note(self, sentence: str) -> None:
        """Something beside the flows."""

    def on_flow(self, flow: FlowProgress, *, has_batch: bool) -> None:
        """A flow's state has changed, or it has done a micro-batch."""


class Run:
    """What is known of a run."""

    def __init__(
        self,
        project: Project,
        kind: str,
        target: str,
        clusters: Mapping[str, str],
        watcher: Watcher,
    ) -> None:
        """Begin; `clusters` are the addresses, each with its security protocol.

        They are for those who ask for lag later on; what is secret is not kept.
        """
        self.flows: dict[str, FlowProgress] = {}
        self.watcher = watcher
        self.error: str | None = None
        self._record = RunRecord(project.state_folder)
        self._head: dict[str, Any] = {
            "pipeline": project.name,
            "kind": kind,
            "target": target,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "storage": project.storage,
            "bootstrap_servers": list(clusters),
            "security_protocols": {
                servers: protocol for servers, protocol in clusters.items() if protocol != PLAINTEXT
            },
            "started_at": now(),
        }
        self._state = RUNNING
        self._began = time.monotonic()
        self._written = 0.0
        self._write()

    @property
    def seconds(self) -> float:
        """How long it has been going on."""
        return time.monotonic() - self._began

    def flow(self, name: str) -> FlowProgress:
        """Return a flow, which is there from the first time it is named."""
        return self.flows.setdefault(name, FlowProgress(name=name))

    def set_state(self, name: str, state: str, error: str | None = None) -> None:
        """Note that a flow has come to a state."""
        flow = self.flow(name)
        if flow.state == state and error is None:
            return
        flow.state = state
        flow.error = error if error is not None or state == FAILED else None
        self.watcher.on_flow(flow, has_batch=False)
        self._maybe_write()

    def on_start(self, name: str | None, query_id: str) -> None:
        """Take in that a flow has a query."""
        if name:
            self.flow(name).query_id = query_id

    def on_progress(self, report: Mapping[str, Any]) -> None:
        """Take in what Structured Streaming says of a query; its name is the flow's."""
        name = report.get("name")
        if not name:
            return
        flow = self.flow(str(name))
        if flow.on_progress(report):
            self.watcher.on_flow(flow, has_batch=True)
        self._maybe_write()

    def on_view(self, name: str, seconds: float, error: str | None) -> None:
        """Take in that a materialized view was computed, or why it was not."""
        if error is not None:
            self.set_state(name, FAILED, error)
            return
        flow = self.flow(name)
        flow.batches += 1
        flow.batch_ms = int(1000 * seconds)
        flow.state, flow.error = RUNNING, None
        self.watcher.on_flow(flow, has_batch=True)
        self._maybe_write()

    def end(self, state: str, error: str | None = None) -> None:
        """Note the end; flows that had not come to one of their own have come to this."""
        self._state, self.error = state, error
        for flow in self.flows.values():
            if flow.state in (WAITING, RUNNING):
                flow.state = COMPLETED if state == COMPLETED else STOPPED
        self._head["ended_at"] = now()
        self._write()

    def document(self) -> dict[str, Any]:
        """Return all of it, for records and programs."""
        flows = [flow.as_document() for flow in self.flows.values()]
        return {**self._head, "state": self._state, "error": self.error, "flows": flows}

    def _maybe_write(self) -> None:
        if time.monotonic() - self._written >= _WRITE_S:
            self._write()

    def _write(self) -> None:
        self._written = time.monotonic()
        self._record.write(self.document())
