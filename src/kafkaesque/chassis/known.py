"""Goes on when this broker knows of a change: a client that made something uses it at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkaesque.env.clock import Clock

#: So often it is looked whether this broker has heard of what the controller has done.
LOOK_AGAIN_MS: Final = 5


def when_known(
    clock: Clock,
    is_known: Callable[[], bool],
    then: Callable[[bool], None],
    *,
    timeout_ms: int,
    every_ms: int = LOOK_AGAIN_MS,
) -> None:
    """Call `then` with True as soon as a change is known here, with False after `timeout_ms`."""
    deadline_ms = clock.now_ms() + timeout_ms

    def look() -> None:
        if is_known():
            then(True)
        elif clock.now_ms() >= deadline_ms:
            then(False)
        else:
            clock.call_later(every_ms, look)

    look()
