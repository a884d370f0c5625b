"""Deletes consumers that nobody has asked for so long that they said they may go.

Each broker looks after those whose queues it leads: it knows for how long nobody has asked, and
what `broker/queues/disuse` has counted under the leaders before.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests.queue_commands import DeleteQueue
from kafkaesque.broker.requests.queue_requests import AskQueue, QueueCounts
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import TopicId

SWEEP_MS: Final = 1_000
TIMEOUT_MS: Final = 5_000


class Sweeping:
    """See the module."""

    __slots__ = ("_office", "_paused_at_ms", "_timer")

    def __init__(self, office: Office) -> None:
        self._office: Final = office
        self._timer: Timer | None = None
        #: When a consumer was seen paused last: those who wait for it do not ask meanwhile.
        self._paused_at_ms: dict[TopicId, int] = {}

    def begin(self) -> None:
        """Look from time to time; harmless if that was begun."""
        if self._timer is None:
            self._timer = self._office.doors.clock.call_later(SWEEP_MS, self._on_time)

    def end(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        office, now_ms = self._office, self._office.doors.clock.now_ms()
        before, self._paused_at_ms = self._paused_at_ms, {}
        for consumer in office.consumers.all():
            threshold_ms = (consumer.config.inactive_threshold or 0) // NS_PER_MS
            if not threshold_ms:
                continue
            paused_at_ms = now_ms if office.consumers.paused_ms(consumer) else None
            if paused_at_ms is None:
                paused_at_ms = before.get(consumer.log_id)
            if paused_at_ms is not None and now_ms <= paused_at_ms + threshold_ms:
                self._paused_at_ms[consumer.log_id] = paused_at_ms
                continue
            for part in office.doors.queues.led_of(consumer.queue.queue):
                request = AskQueue(
                    log_id=part.queue.topic_id, partition=part.partition, expiry_ms=threshold_ms
                )
                on_counted = partial(self._on_counted, part.queue, threshold_ms)
                office.doors.queues.ask(request, QueueCounts, TIMEOUT_MS, on_counted)
        self._timer = office.doors.clock.call_later(SWEEP_MS, self._on_time)

    def _on_counted(
        self, queue: QueueState, threshold_ms: int, counts: QueueCounts | RequestRefused
    ) -> None:
        if self._timer is None or isinstance(counts, RequestRefused):
            return
        # What is in flight is no sign of life here.
        if counts.unwanted_ms > threshold_ms or counts.is_disused is True:
            command = DeleteQueue(vhost=DEFAULT_VHOST, name=queue.queue.name)
            self._office.submit(command, None, lambda _: None)
