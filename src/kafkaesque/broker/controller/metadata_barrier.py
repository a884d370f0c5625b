"""Waiting until this broker's metadata is as new as the controller's was when somebody asked.

A broker that is cut off from the controller, or slow, goes on with the metadata that it has. Most
of what it does with it is harmless: whoever is asked next knows better. What would do harm for
good, as to give up what belongs to a topic because there is no such topic, waits here first.
"""

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.controller.client import ControllerClient
from kafkaesque.broker.requests.commands import AskMetadataEnd, MetadataEnd
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.ids import Offset

#: Those who wait; more are told at once that it is not known.
WAITS_MAX: Final = 10_000
#: So long one question to the controller may take; those who can wait for longer ask again.
ROUND_MS: Final = 1_000
AGAIN_MS: Final = 50


class _Wait:
    """One who waits, told once."""

    __slots__ = ("_on_done", "is_over", "timer")

    def __init__(self, on_done: Callable[[bool], None]) -> None:
        self._on_done = on_done
        self.timer: Timer | None = None
        self.is_over = False

    def end(self, is_current: bool) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self.timer is not None:
            self.timer.cancel()
        self._on_done(is_current)


class MetadataBarrier:
    """Those who wait on one broker; all of one moment share a question to the controller."""

    def __init__(
        self, clock: Clock, client: ControllerClient, applied_offset: Callable[[], Offset]
    ) -> None:
        self._clock = clock
        self._client = client
        self._applied_offset = applied_offset
        self._unasked: list[_Wait] = []
        self._asked: list[_Wait] = []
        self._told: list[tuple[int, _Wait]] = []
        self._is_asking = False

    def wait(self, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        """Call once, in a later turn.

        True: all that a controller had answered before this call is in `Broker.state`. False: that
        could not be found out in time.
        """
        wait = _Wait(on_done)
        if len(self._unasked) + len(self._asked) + len(self._told) >= WAITS_MAX:
            self._clock.call_soon(lambda: wait.end(False))
            return
        wait.timer = self._clock.call_later(timeout_ms, lambda: self._on_time_up(wait))
        self._unasked.append(wait)
        if not self._is_asking:
            self._is_asking = True
            self._clock.call_soon(self._ask)

    def wait_for(self, offset: int, timeout_ms: int, on_done: Callable[[bool], None]) -> None:
        """Call with True once all before an offset is applied, maybe at once.

        With False if that was not so in time.
        """
        wait = _Wait(on_done)
        if self._applied_offset() >= offset:
            wait.end(True)
        elif len(self._unasked) + len(self._asked) + len(self._told) >= WAITS_MAX:
            wait.end(False)
        else:
            wait.timer = self._clock.call_later(timeout_ms, lambda: self._on_time_up(wait))
            self._told.append((offset, wait))

    def on_applied(self) -> None:
        """Metadata have been applied: see who need wait no longer."""
        if not self._told:
            return
        offset = self._applied_offset()
        reached = [wait for end, wait in self._told if end <= offset]
        self._told = [each for each in self._told if each[0] > offset]
        for wait in reached:
            wait.end(True)

    def _ask(self) -> None:
        self._asked, self._unasked = self._unasked, []
        if not self._asked:
            self._is_asking = False
            return
        self._client.submit(AskMetadataEnd(), ROUND_MS, self._on_outcome)

    def _on_outcome(self, outcome: object) -> None:
        asked = [each for each in self._asked if not each.is_over]
        self._asked = []
        if isinstance(outcome, MetadataEnd):
            self._told += [(outcome.offset, wait) for wait in asked]
            self.on_applied()
        else:
            self._unasked = asked + self._unasked
        # Those who came meanwhile may want to know of what was answered meanwhile.
        self._clock.call_later(0 if isinstance(outcome, MetadataEnd) else AGAIN_MS, self._ask)

    def _on_time_up(self, wait: _Wait) -> None:
        wait.end(False)
        self._unasked = [each for each in self._unasked if not each.is_over]
        self._told = [each for each in self._told if not each[1].is_over]
