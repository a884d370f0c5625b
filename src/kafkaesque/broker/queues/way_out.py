"""Changes messages on their way out of a queue, as its option `transformation.out` says.

Theory of operation. The queue's leader applies the transformation to what it hands out, whichever
protocol asks. The message stays in the queue as it came, so a redelivery is changed by the rule of
that time, and a message that goes elsewhere goes as it came. If a step cannot be done, nobody is
given the message: it is given up, and says why where it goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.options.queues import TRANSFORMATION_OUT
from kafkaesque.broker.queues.bodies import size_of
from kafkaesque.broker.queues.transforming import Content, marked, transformed
from kafkaesque.model.ids import TopicId
from kafkaesque.model.records import Record
from kafkaesque.routing.transformations.errors import TransformationFailed
from kafkaesque.routing.transformations.transformation import Transformation

#: Messages of one answer, and their bytes as they are in the queue: the loop waits meanwhile.
CHANGED_MAX: Final = 64
CHANGED_BYTES_MAX: Final = 1024 * 1024


class Outcome(NamedTuple):
    """What becomes of messages that were to be handed out."""

    records: list[tuple[int, Record]]
    #: Those with which a step cannot be done.
    failed: list[int]
    #: Those for which the answer has no room.
    left: list[int]


class WayOut(NamedTuple):
    """A queue's transformation."""

    name: str
    #: None: it does not exist.
    made: Transformation | None

    def change_all(self, records: Sequence[tuple[int, Record]], bytes_max: int) -> Outcome:
        """Change messages; at least one has room."""
        outcome, size = Outcome([], [], []), 0
        for offset, record in records:
            if outcome.left:
                # Nothing overtakes it.
                outcome.left.append(offset)
                continue
            try:
                changed = self._changed(record)
            except TransformationFailed:
                outcome.failed.append(offset)
                continue
            size += size_of(changed)
            if outcome.records and size > bytes_max:
                outcome.left.append(offset)
            else:
                outcome.records.append((offset, changed))
        return outcome

    def told(self, record: Record) -> Record:
        """Return a message that was given up: if the transformation fails, it says why."""
        try:
            self._changed(record)
        except TransformationFailed as failure:
            content = marked(_content(record), f"{self.name}: {failure}")
            return record._replace(headers=content.headers)
        return record

    def _changed(self, record: Record) -> Record:
        if self.made is None:
            raise TransformationFailed("there is no such transformation")
        content = transformed(_content(record), self.made)
        return record._replace(value=content.value, headers=content.headers)


def _content(record: Record) -> Content:
    return Content(record.key, record.value, record.headers)


def way_out_of(state: ClusterState, log_id: TopicId) -> WayOut | None:
    """Return the transformation of a queue's way out; None: it has none."""
    queue = state.queues_by_log.get(log_id)
    name = "" if queue is None else queue.options.get(TRANSFORMATION_OUT, "")
    if queue is None or not name:
        return None
    vhost = state.routing.vhosts.get(queue.queue.vhost)
    return WayOut(name, None if vhost is None else vhost.transformations.get(name))
