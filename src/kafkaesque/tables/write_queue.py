"""Writes that are on their way to the log.

What a write changes is done when it is committed. Whoever waits for an answer gets it then too, or,
when that takes too long, an error that says that the outcome is not known; what the write changes
still waits for its true end.

A table whose changes build on one another has them done strictly in the order in which writes were
asked for, whatever the order of the reports (`is_ordered`).
"""

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.tables.log_table import WriteToken

ErrorT = TypeVar("ErrorT")

#: Called with the table's word for success when committed, else with what a client is to be told.
OnWritten = Callable[[ErrorT], None]


class _Write(Generic[ErrorT]):
    __slots__ = ("answers", "deadline_ms", "effects", "outcome")

    def __init__(self, deadline_ms: int) -> None:
        self.deadline_ms = deadline_ms
        self.effects: list[OnWritten[ErrorT]] = []
        self.answers: list[OnWritten[ErrorT]] = []
        self.outcome: ErrorT | None = None

    def answer(self, error: ErrorT) -> None:
        answers, self.answers = self.answers, []
        for answer in answers:
            answer(error)

    def finish(self, outcome: ErrorT) -> None:
        for effect in self.effects:
            effect(outcome)
        self.answer(outcome)


class WriteQueue(Generic[ErrorT]):
    """Writes in flight, oldest first."""

    __slots__ = ("_is_ordered", "_last_token", "_late", "_timeout_ms", "_writes")

    def __init__(self, *, timeout_ms: int, late: ErrorT, is_ordered: bool = True) -> None:
        """`late` is what those are told whose write takes longer than `timeout_ms`."""
        self._timeout_ms = timeout_ms
        self._late = late
        self._is_ordered = is_ordered
        self._writes: dict[WriteToken, _Write[ErrorT]] = {}
        self._last_token = 0

    def __len__(self) -> int:
        return len(self._writes)

    def open(self, now_ms: int) -> WriteToken:
        """Begin a write."""
        self._last_token += 1
        token = WriteToken(self._last_token)
        self._writes[token] = _Write(now_ms + self._timeout_ms)
        return token

    def then(self, token: WriteToken, effect: OnWritten[ErrorT]) -> None:
        """Do this when the write has truly ended."""
        self._write(token).effects.append(effect)

    def then_answer(self, token: WriteToken, answer: OnWritten[ErrorT]) -> None:
        """Do this when the write has ended or has taken too long, whichever is first."""
        self._write(token).answers.append(answer)

    def is_overdue(self, token: WriteToken, now_ms: int) -> bool:
        """Whether a write has taken too long already, so that nobody should wait for it."""
        return self._write(token).deadline_ms <= now_ms

    def end(self, token: WriteToken, outcome: ErrorT) -> None:
        """Take the report of a write's end, and do what can be done.

        Raises:
            InvariantBroken: it is not in flight, or has ended already.
        """
        write = self._write(token)
        if write.outcome is not None:
            raise InvariantBroken(f"write {token} ended twice")
        write.outcome = outcome
        if not self._is_ordered:
            del self._writes[token]
            write.finish(outcome)
            return
        while self._writes:
            first = next(iter(self._writes))
            ended = self._writes[first].outcome
            if ended is None:
                return
            self._writes.pop(first).finish(ended)

    def abandon(self, outcome: ErrorT) -> None:
        """End every write, because what becomes of them is not ours to know any more."""
        while self._writes:
            write = self._writes.pop(next(iter(self._writes)))
            write.outcome = outcome
            write.finish(outcome)

    def give_up(self, outcome: ErrorT) -> None:
        """Answer for every write in flight, and let nothing follow from it any more."""
        writes, self._writes = self._writes, {}
        for write in writes.values():
            write.answer(outcome)

    def expire(self, now_ms: int) -> None:
        """Answer for the writes that take too long."""
        for write in self._writes.values():
            if write.deadline_ms > now_ms:
                return
            write.answer(self._late)

    def next_deadline_ms(self) -> int | None:
        """Return when the first answer is due at the latest, or None if nobody waits."""
        for write in self._writes.values():
            if write.answers:
                return write.deadline_ms
        return None

    def _write(self, token: WriteToken) -> _Write[ErrorT]:
        write = self._writes.get(token)
        if write is None:
            raise InvariantBroken(f"write {token} is not in flight")
        return write
