"""How much a micro-batch takes of what waits."""

from __future__ import annotations

import time

from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.offsets import Offsets
from kafkaesque.spark.ranges import limit_ends
from kafkaesque.spark.source_options import SourceOptions
from kafkaesque.spark.waiting_bytes import waiting_bytes


class TriggerLimits:
    """What the options say of a micro-batch's size; knows when there was the last one."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._begun_at: float | None = None

    @property
    def has_any(self) -> bool:
        """Whether there is anything that `end` would heed."""
        options = self._options
        limits = (options.trigger_offsets_max, options.trigger_offsets_min)
        return any(each is not None for each in limits) or options.limits_bytes

    def end(
        self, cluster: Cluster, starts: Offsets, ends: Offsets, *, may_wait: bool
    ) -> Offsets | None:
        """Return where the micro-batch ends that begins now; None while there is too little for it.

        Raises:
            Unavailable: a leader did not tell in time how much waits.
        """
        offsets = sum(max(0, end - starts[each]) for each, end in ends.items())
        size = waiting_bytes(cluster, starts, ends) if self._options.limits_bytes else 0
        now = time.monotonic()
        if self._begun_at is None:
            self._begun_at = now
        waited_ms = 1000 * (now - self._begun_at)
        is_late = not may_wait or waited_ms >= self._options.trigger_delay_ms_max
        if not is_late and self._is_too_little(offsets, size):
            return None
        self._begun_at = now
        most = self._most(offsets, size)
        return dict(ends) if most is None else limit_ends(starts, ends, most)

    def _is_too_little(self, offsets: int, size: int) -> bool:
        least = self._options.trigger_offsets_min or 0
        return offsets < least or size < (self._options.trigger_bytes_min or 0)

    def _most(self, offsets: int, size: int) -> int | None:
        """Return how many of the offsets that wait may be read, at least one; None: all."""
        most = self._options.trigger_offsets_max
        bytes_max = self._options.trigger_bytes_max
        if bytes_max is None or size <= bytes_max:
            return most
        fitting = max(1, offsets * bytes_max // size)
        return fitting if most is None else min(most, fitting)
