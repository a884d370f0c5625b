"""For how long nobody has used a queue, counted across changes of its leader.

Theory of operation. A queue is in use while somebody is attached to it, waits for messages or has
some. The leader counts by its own clock from when that ends. So that the next leader goes on, it
writes into the queue's log how long it was: a first time soon, then from step to step, and no more
before somebody uses the queue again. That use is written down before it is answered.

A new leader begins with what was written down, and what has gone by since then by the clocks of
both brokers; but not with more than a step of that, nor with less than nothing. So clocks that
differ, and a time in which nobody led, change the count by a step at most; without a note it begins
anew. What it finds to be over stays for a grace: who could not come while there was no leader can
do so now. Nor does it know who is attached: consumers that ask for nothing show themselves only
every few seconds. The first leader of all knows: it grants no grace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.queues.requests import NoteDisuse
from kafkaesque.queues.table import QueueTable
from kafkaesque.tables.log_table import Instant, RequestToken

#: A queue that was used meanwhile costs no note. What ends sooner is counted anew by each leader.
FIRST_MS: Final = 60_000
#: A note follows after each such part of the time after which the queue goes, but not more often.
STEPS: Final = 10
STEP_MS_MIN: Final = 60_000
#: So long a new leader lets a queue be whose time is over.
GRACE_MS: Final = 60_000
#: And so long also if the queue may be unused for less: twice as long as consumers are silent.
GRACE_MS_MIN: Final = 10_000


class DisuseClock:
    """Counts for one queue, on its leader; see the module."""

    __slots__ = ("_ask", "_is_first", "_is_noting", "_led_ms", "_new_token", "_used_ms")

    def __init__(
        self, new_token: Callable[[], RequestToken], ask: Callable[[NoteDisuse], None]
    ) -> None:
        """`ask` brings a request to the engine, which calls `on_noted` in the end."""
        self._new_token: Final = new_token
        self._ask: Final = ask
        self._led_ms = 0
        self._is_first = False
        #: When it was used last, by this leader's clock, also if that was before it led.
        self._used_ms = 0
        self._is_noting = False

    def begin(self, queue: QueueTable, now: Instant, *, is_first: bool) -> None:
        """This broker leads from now on; `is_first`: nobody has led before it."""
        self._led_ms, self._is_noting, self._is_first = now.now_ms, False, is_first
        self._used_ms = now.now_ms - _unused_before(queue, now.wall_ms)

    def note_use(self, now_ms: int) -> None:
        """Somebody uses the queue, or has ceased to."""
        self._used_ms = now_ms

    def on_noted(self) -> None:
        """What was asked to be written down was, or will not be."""
        self._is_noting = False

    def left_ms(self, queue: QueueTable, now: Instant, expiry_ms: int) -> int:
        """Return when it may be that nobody has used the queue for so long; 0: it is so now.

        That it was not used is written down if that is due.

        To be asked every now and then: what is not seen in use between two questions may have been
        used for less than that.
        """
        if queue.is_used:
            self._used_ms = now.now_ms
            return expiry_ms
        unused_ms = now.now_ms - self._used_ms
        if unused_ms >= expiry_ms:
            grace_ms = 0 if self._is_first else max(GRACE_MS_MIN, min(GRACE_MS, expiry_ms))
            return max(0, self._led_ms + grace_ms - now.now_ms)
        self._maybe_note(queue, now, unused_ms, expiry_ms)
        return expiry_ms - unused_ms

    def _maybe_note(self, queue: QueueTable, now: Instant, unused_ms: int, expiry_ms: int) -> None:
        noted = queue.state.disuse
        due_ms = FIRST_MS if noted is None else noted.unused_ms + noted.step_ms
        if unused_ms < due_ms or self._is_noting:
            return
        self._is_noting = True
        self._ask(
            NoteDisuse(
                token=self._new_token(),
                unused_ms=unused_ms,
                wall_ms=now.wall_ms,
                step_ms=max(STEP_MS_MIN, expiry_ms // STEPS),
            )
        )


def _unused_before(queue: QueueTable, wall_ms: int) -> int:
    """Return for how long the queue has not been used when a broker begins to lead."""
    noted = queue.state.disuse
    if noted is None:
        return 0
    return noted.unused_ms + min(max(0, wall_ms - noted.wall_ms), noted.step_ms)
