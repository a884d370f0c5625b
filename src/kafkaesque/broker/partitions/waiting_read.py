"""A read that waits at the partition's leader until there is something to read."""

from collections.abc import Callable

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.errors import OverBound, RequestRefused
from kafkaesque.model.ids import Offset


class WaitingRead:
    """Calls `read` once: when the partition has stable records from `offset` on, or time is up.

    It is called at once where the partition has ceased to be led here, and refuses by itself then.
    """

    __slots__ = ("_clock", "_is_done", "_offset", "_partition", "_read", "_ticket", "_timer")

    def __init__(
        self, clock: Clock, partition: Partition, offset: Offset, read: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._partition = partition
        self._offset = offset
        self._read = read
        self._ticket: int | None = None
        self._timer: Timer | None = None
        self._is_done = False

    def start(self, wait_ms: int) -> None:
        """Wait for so long at most; too many that wait already are a time that is up."""
        if self._look():
            return
        self._timer = self._clock.call_later(wait_ms, self._finish)
        self._watch()

    def _look(self) -> bool:
        partition = self._partition
        if partition.is_leader and partition.last_stable_offset <= self._offset:
            return False
        self._finish()
        return True

    def _watch(self) -> None:
        try:
            self._ticket = self._partition.watch(self._on_more)
        except (OverBound, RequestRefused):
            self._finish()

    def _on_more(self) -> None:
        self._ticket = None
        # At the end of this turn: more may come in it.
        self._clock.call_soon(self._on_asked)

    def _on_asked(self) -> None:
        if not self._is_done and not self._look():
            self._watch()

    def _finish(self) -> None:
        if self._is_done:
            return
        self._is_done = True
        if self._timer is not None:
            self._timer.cancel()
        if self._ticket is not None:
            self._partition.unwatch(self._ticket)
        self._read()
