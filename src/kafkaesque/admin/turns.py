"""Long walks over many things, a bounded number of them in each turn of the loop."""

from collections.abc import Callable, Iterator
from typing import Final

from kafkaesque.env.clock import Clock

#: Things that are looked at in one turn: about a millisecond of work.
PER_TURN_MAX: Final = 1_000

_END: Final = object()


def walk(clock: Clock, steps: Iterator[None], on_done: Callable[[], None]) -> None:
    """Take all steps; `on_done` comes in this turn if they are few, else in a later one."""

    def go_on() -> None:
        for _ in range(PER_TURN_MAX):
            if next(steps, _END) is _END:
                on_done()
                return
        clock.call_soon(go_on)

    go_on()
