"""Taking messages from a queue that has several partitions: whichever has some answers.

Each is asked in turn for what it has now; if none has anything, all are asked to wait. The first
that has messages is the answer. What comes from another one then is given back, as not attempted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.model.errors import RequestRefused

#: What a question has beyond its wait.
TIMEOUT_MS = 30_000

#: Gets the partition and its messages.
OnTaken = Callable[[int, q.TakenMessages | RequestRefused], None]


def release(doors: Doors, taken_from: q.TakeMessages, messages: Sequence[q.QueueMessage]) -> None:
    """Nobody is there to whom messages could be handed: others may have them."""
    if messages:
        claims = [each.claim for each in messages]
        given_back = q.ReleaseMessages(
            log_id=taken_from.log_id, partition=taken_from.partition, claims=claims
        )
        doors.queues.ask(given_back, q.ClaimsResult, TIMEOUT_MS, lambda _: None)


class TakeAny:
    """One request; `on_taken` is called once."""

    __slots__ = ("_doors", "_is_over", "_left", "_on_taken", "_order", "_refusal", "_take")

    def __init__(
        self, doors: Doors, take: q.TakeMessages, partitions: Sequence[int], on_taken: OnTaken
    ) -> None:
        self._doors = doors
        self._take = take
        self._order = list(partitions)
        self._on_taken = on_taken
        self._left = 0
        self._is_over = False
        #: Why a partition could not be asked: told if no other one has anything.
        self._refusal: RequestRefused | None = None

    def begin(self) -> None:
        """Ask the first partition."""
        self._ask_now(0)

    def _ask_now(self, at: int) -> None:
        if at == len(self._order):
            self._wait_for_all()
            return
        number = self._order[at]

        def on_done(outcome: q.TakenMessages | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._refusal = outcome
            elif outcome.messages:
                self._end(number, outcome)
                return
            self._ask_now(at + 1)

        take = replace(self._take, partition=number, wait_ms=0)
        self._doors.queues.ask(take, q.TakenMessages, TIMEOUT_MS, on_done)

    def _wait_for_all(self) -> None:
        if not self._take.wait_ms or self._refusal is not None:
            self._end(self._order[0], self._refusal or q.TakenMessages([]))
            return
        self._left = len(self._order)
        for number in self._order:
            self._wait_for(number)

    def _wait_for(self, number: int) -> None:
        take = replace(self._take, partition=number)

        def on_done(outcome: q.TakenMessages | RequestRefused) -> None:
            self._left -= 1
            if isinstance(outcome, RequestRefused):
                self._refusal = outcome
            elif outcome.messages:
                if self._is_over:
                    release(self._doors, take, outcome.messages)
                self._end(number, outcome)
            if not self._left:
                self._end(number, self._refusal or q.TakenMessages([]))

        self._doors.queues.ask(take, q.TakenMessages, take.wait_ms + TIMEOUT_MS, on_done)

    def _end(self, number: int, outcome: q.TakenMessages | RequestRefused) -> None:
        if not self._is_over:
            self._is_over = True
            self._on_taken(number, outcome)
