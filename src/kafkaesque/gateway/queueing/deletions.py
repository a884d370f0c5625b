"""Consumers hear at once that their queue was deleted, also those that ask for nothing now."""

from __future__ import annotations

from typing import Final, Protocol

from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.env.clock import Clock, Timer

#: So often it is looked whether the metadata have changed.
LOOK_MS: Final = 200
_FEW: Final = 16


class Watcher(Protocol):
    """Somebody who consumes a queue."""

    @property
    def queue(self) -> QueueState:
        """The queue, as it was when the consumer began."""

    @property
    def is_over(self) -> bool:
        """Whether it consumes no more."""

    def on_lost(self) -> None:
        """The queue is gone."""


class Deletions:
    """All consumers of one broker's connections; nothing is done while the metadata stay."""

    __slots__ = ("_clean_at", "_clock", "_cluster", "_timer", "_version", "_watchers")

    def __init__(self, clock: Clock, cluster: Cluster) -> None:
        self._clock: Final = clock
        self._cluster: Final = cluster
        self._watchers: list[Watcher] = []
        #: With so many they are looked through for those that are over.
        self._clean_at = _FEW
        self._version = -1
        self._timer: Timer | None = None

    def watch(self, watcher: Watcher) -> None:
        """Call `on_lost` when its queue is deleted, unless it is over before."""
        self._watchers.append(watcher)
        # What was deleted a moment ago is found, too.
        self._version = -1
        if self._timer is None:
            self._timer = self._clock.call_later(LOOK_MS, self._look)

    def _look(self) -> None:
        self._timer = None
        state = self._cluster.state
        is_changed = state.version != self._version
        if is_changed or len(self._watchers) >= self._clean_at:
            self._watchers = [each for each in self._watchers if not each.is_over]
            self._clean_at = 2 * len(self._watchers) + _FEW
        if is_changed:
            self._version = state.version
            there = {each.topic_id for each in state.queues.values()}
            for watcher in [e for e in self._watchers if e.queue.topic_id not in there]:
                watcher.on_lost()
        if self._watchers:
            self._timer = self._clock.call_later(LOOK_MS, self._look)
