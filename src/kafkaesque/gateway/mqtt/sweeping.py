"""Deletes sessions and shared subscriptions that nobody has come back to in time.

Every few seconds the broker that leads such a queue asks it; `broker/queues/disuse` says how the
time goes on under another leader.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.options.mqtt_sessions import is_session
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.gateway.mqtt.sessions import session_of
from kafkaesque.gateway.mqtt.shares import share_of
from kafkaesque.model.errors import RequestRefused

SWEEP_MS: Final = 5_000
#: Queues that one sweep asks about, so that none keeps the loop for long.
ASKED_MAX: Final = 1_000
#: So long a session is left alone whatever it says: its connection may be about to attach.
GRACE_MS: Final = 60_000
_TIMEOUT_MS: Final = 5_000


class Sweeping:
    """See the module."""

    __slots__ = ("_begin", "_desk", "_is_over")

    def __init__(self, desk: Desk) -> None:
        self._desk: Final = desk
        #: Queues that were looked at so far.
        self._begin = 0
        self._is_over = False

    def begin(self) -> None:
        """Look from now on."""
        self._desk.doors.clock.call_later(SWEEP_MS, self._sweep)

    def end(self) -> None:
        """Look no more."""
        self._is_over = True

    def _sweep(self) -> None:
        if self._is_over:
            return
        queues = self._desk.doors.cluster.state.queues_by_log
        mine = [
            each for each in queues.values() if is_session(each.options) and self._is_led_here(each)
        ]
        # Where the last sweep had enough, this one begins.
        begin = self._begin % max(1, len(mine))
        asked = (*mine[begin:], *mine[:begin])[:ASKED_MAX]
        self._begin += len(asked)
        for queue in asked:
            self._ask(queue)
        self.begin()

    def _is_led_here(self, queue: QueueState) -> bool:
        cluster = self._desk.doors.cluster
        return cluster.leaders.leader(queue.partitions[0].group) == cluster.node

    def _ask(self, queue: QueueState) -> None:
        record = session_of(queue) or share_of(queue)
        if record is None:
            return
        limit_ms = max(GRACE_MS, 1_000 * record.expiry_s)

        def on_counted(counts: q.QueueCounts | RequestRefused) -> None:
            if isinstance(counts, RequestRefused) or self._is_over:
                return
            if counts.is_disused is True:
                self._desk.delete_queue(queue)

        request = q.AskQueue(log_id=queue.topic_id, expiry_ms=limit_ms)
        self._desk.doors.queues.ask(request, q.QueueCounts, _TIMEOUT_MS, on_counted)
