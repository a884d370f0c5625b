"""The one scheduler of a simulated world: virtual time, and an ordered queue of events.

Theory of operation. Everything that ever happens is an event in one queue, ordered by (time,
number of asking); time jumps from event to event. Whatever is left to chance is drawn from
generators that hang on the world's seed by name, so that a new draw in one place does not shift
those in another. So the same seed gives the same history, whatever the speed of the machine or the
order of its hashes.

An event belongs to the machine's hardware (a packet arrives, a sync ends) or to a `Life`: one run
of a process on it. A process that is killed takes its events along; one that is paused gets them
when it goes on.
"""

import heapq
from collections import deque
from collections.abc import Callable
from typing import Final

from kafkaesque.sim.dice import Chance
from kafkaesque.sim.history import History

NS_PER_MS: Final = 1_000_000
#: So many events at one instant are an endless loop.
EVENTS_PER_INSTANT_MAX: Final = 200_000
#: Events that wait for a paused process.
HELD_EVENTS_MAX: Final = 1_000_000
_NEVER_NS: Final = 1 << 63


class SimStuck(Exception):
    """What was waited for does not happen."""


class Life:
    """One run of a process, from its start to its end."""

    __slots__ = ("alive", "held", "on_fatal", "paused", "place")

    def __init__(self, place: str, on_fatal: Callable[[BaseException], None]) -> None:
        #: For the history: the machine's name, and which of its runs it is.
        self.place: Final = place
        #: Told of a defect: what a callback raised, or an invariant that was found broken.
        self.on_fatal: Final = on_fatal
        self.alive = True
        self.paused = False
        #: Events that came while it was paused.
        self.held: Final[deque[Event]] = deque()


class Event:
    """Something that is going to happen."""

    __slots__ = ("callback", "kind", "life", "time_ns")

    def __init__(
        self, time_ns: int, life: Life | None, kind: str, callback: Callable[[], None]
    ) -> None:
        self.time_ns = time_ns
        self.life = life
        self.kind = kind
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        """Make sure that it does not happen."""
        self.callback = None

    @property
    def is_void(self) -> bool:
        """Whether it is never going to happen: it was cancelled, or its process is gone."""
        return self.callback is None or (self.life is not None and not self.life.alive)


class SimLoop:
    """Virtual time."""

    def __init__(self, seed: int) -> None:
        self.seed: Final = seed
        self.now_ns = 0
        self.history: Final = History()
        #: By time and number, which no two events share.
        self._queue: Final[list[tuple[int, int, Event]]] = []
        #: What is going to happen at this instant, behind what the queue has for it: most of what
        #: is asked for is, and needs no sorting.
        self._soon: Final[deque[Event]] = deque()
        self._number = 0
        self._instant_count = 0
        #: Raised by `step` as soon as the event that brought them to light has ended.
        self.defects: Final[list[BaseException]] = []

    def chance(self, name: str) -> Chance:
        """Return the random generator of this name; the same name draws the same numbers."""
        return Chance(f"{self.seed}/{name}")

    def after(
        self, delay_ns: int, kind: str, callback: Callable[[], None], life: Life | None = None
    ) -> Event:
        """Let something happen; at the same instant, in the order of asking."""
        if delay_ns <= 0:
            event = Event(self.now_ns, life, kind, callback)
            self._soon.append(event)
            return event
        self._number = number = self._number + 1
        time_ns = self.now_ns + delay_ns
        event = Event(time_ns, life, kind, callback)
        heapq.heappush(self._queue, (time_ns, number, event))
        return event

    def tell(self, place: str, what: str) -> None:
        """Write a line of history."""
        self.history.tell(self.now_ns, place, what)

    def resume(self, life: Life) -> None:
        """Let a paused process go on: what it missed happens now, in order."""
        life.paused = False
        while life.held:
            event = life.held.popleft()
            if event.callback is not None:
                # The same event, so that whoever holds it can still cancel it.
                event.time_ns = self.now_ns
                self._soon.append(event)

    def step(self) -> bool:
        """Let the next event happen; False if there is none."""
        return self._step(_NEVER_NS)

    def _step(self, end_ns: int) -> bool:
        """Let the next event happen; False if there is none until then."""
        queue, soon = self._queue, self._soon
        while True:
            if soon and not (queue and queue[0][0] <= self.now_ns):
                event = soon.popleft()
                self._instant_count += 1
                if self._instant_count > EVENTS_PER_INSTANT_MAX:
                    raise SimStuck(f"time stands still at {self.now_ns} ns: {event.kind}")
            elif queue and queue[0][0] <= end_ns:
                event = heapq.heappop(queue)[2]
            else:
                return False
            callback, life = event.callback, event.life
            if callback is None or (life is not None and not life.alive):
                continue
            if event.time_ns > self.now_ns:
                self.now_ns = event.time_ns
                self._instant_count = 0
            if life is not None and life.paused:
                self._hold(life, event)
                continue
            self.history.note(self.now_ns, "-" if life is None else life.place, event.kind)
            event.callback = None
            self._happen(callback, life)
            return True

    def run_for(self, ms: float) -> None:
        """Let so much time pass."""
        end = self.now_ns + round(ms * NS_PER_MS)
        while self._step(end):
            pass
        self.now_ns = max(self.now_ns, end)

    def run_until(
        self, condition: Callable[[], bool], ms_max: float = 60_000, *, every_ms: float = 0
    ) -> None:
        """Let time pass until the condition holds; it is looked at after every event.

        With `every_ms` it is looked at no more often than that, because it costs much.

        Raises:
            SimStuck: it does not hold within `ms_max`, or nothing more is going to happen.
        """
        end = self.now_ns + round(ms_max * NS_PER_MS)
        due = self.now_ns
        while self.now_ns < due or not condition():
            if self.now_ns >= due:
                due = self.now_ns + round(every_ms * NS_PER_MS)
            if not self._step(end):
                if any(not event.is_void for _, _, event in self._queue):
                    raise SimStuck(f"it did not happen within {ms_max:g} ms")
                if not condition():
                    raise SimStuck("nothing more is going to happen")
                return

    def _happen(self, callback: Callable[[], None], life: Life | None) -> None:
        if life is None:
            callback()
        else:
            try:
                callback()
            except Exception as error:
                life.on_fatal(error)
        if self.defects:
            raise self.defects.pop()

    def _hold(self, life: Life, event: Event) -> None:
        if len(life.held) >= HELD_EVENTS_MAX:
            raise SimStuck(f"{life.place} is paused and {len(life.held)} events wait for it")
        life.held.append(event)
