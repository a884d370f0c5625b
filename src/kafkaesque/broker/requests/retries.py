"""Tries something again until it has an outcome, or time is up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import LeaderNotAvailable, NotLeader, RequestRefused

#: From one attempt to the next.
RETRY_MS: Final = 50

#: What passes with time, when a partition has a leader again.
LEADERLESS: Final = (NotLeader, LeaderNotAvailable)

ResultT = TypeVar("ResultT")
OnOutcome = Callable[[ResultT | RequestRefused], None]


def retry(
    clock: Clock,
    timeout_ms: int,
    attempt: Callable[[int, OnOutcome[ResultT]], None],
    on_done: OnOutcome[ResultT],
    too_late: Callable[[RequestRefused | None], RequestRefused],
    passing: tuple[type[RequestRefused], ...] = LEADERLESS,
) -> None:
    """Call `attempt` with the time that is left, and again while its outcome is one of `passing`.

    A refusal that it raises is its outcome, too. `on_done` gets the first outcome that does not
    pass, or what `too_late` makes of the last one, None if there was no time for any. An attempt
    that tells no outcome is the last one.
    """
    deadline_ms = clock.now_ms() + timeout_ms

    def go_on(last: RequestRefused | None) -> None:
        left_ms = deadline_ms - clock.now_ms()
        if left_ms <= 0:
            on_done(too_late(last))
            return
        try:
            attempt(left_ms, on_outcome)
        except RequestRefused as refusal:
            on_outcome(refusal)

    def on_outcome(outcome: ResultT | RequestRefused) -> None:
        if not isinstance(outcome, passing):
            on_done(outcome)
            return
        left_ms = max(0, deadline_ms - clock.now_ms())
        clock.call_later(min(RETRY_MS, left_ms), lambda: go_on(outcome))

    go_on(None)
