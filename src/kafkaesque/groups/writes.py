"""Writes that are on their way to the log.

What a write changes is done when it is committed, and strictly in the order in which writes were
asked for, whatever the order of the reports. Whoever waits for an answer gets it then too, or,
when that takes too long, an error that says that the outcome is not known; what the write changes
still waits for its true end.
"""

from collections import deque
from collections.abc import Callable

from kafkaesque.groups.errors import GroupError
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.log_table import WriteToken

#: Called with NONE when committed, else with what a client is to be told.
OnWritten = Callable[[GroupError], None]


class _Write:
    __slots__ = ("answers", "deadline_ms", "effects", "outcome", "token")

    def __init__(self, token: WriteToken, deadline_ms: int) -> None:
        self.token = token
        self.deadline_ms = deadline_ms
        self.effects: list[OnWritten] = []
        self.answers: list[OnWritten] = []
        self.outcome: GroupError | None = None

    def answer(self, error: GroupError) -> None:
        answers, self.answers = self.answers, []
        for answer in answers:
            answer(error)


class WriteQueue:
    """Writes in flight, oldest first."""

    __slots__ = ("_last_token", "_timeout_ms", "_writes")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._writes: deque[_Write] = deque()
        self._last_token = 0

    def __len__(self) -> int:
        return len(self._writes)

    def open(self, now_ms: int) -> WriteToken:
        """Begin a write."""
        self._last_token += 1
        token = WriteToken(self._last_token)
        self._writes.append(_Write(token, now_ms + self._timeout_ms))
        return token

    def then(self, token: WriteToken, effect: OnWritten) -> None:
        """Do this when the write has truly ended."""
        self._write(token).effects.append(effect)

    def then_answer(self, token: WriteToken, answer: OnWritten) -> None:
        """Do this when the write has ended or has taken too long, whichever is first."""
        self._write(token).answers.append(answer)

    def is_overdue(self, token: WriteToken, now_ms: int) -> bool:
        """Whether a write has taken too long already, so that nobody should wait for it."""
        return self._write(token).deadline_ms <= now_ms

    def end(self, token: WriteToken, outcome: GroupError) -> None:
        """Take the report of a write's end, and do what can be done in order."""
        write = self._write(token)
        if write.outcome is not None:
            raise InvariantBroken(f"write {token} ended twice")
        write.outcome = outcome
        while self._writes and self._writes[0].outcome is not None:
            _finish(self._writes.popleft())

    def abandon(self, outcome: GroupError) -> None:
        """End every write, because what becomes of them is not ours to know any more."""
        while self._writes:
            write = self._writes.popleft()
            write.outcome = outcome
            _finish(write)

    def expire(self, now_ms: int) -> None:
        """Answer for the writes that take too long."""
        for write in self._writes:
            if write.deadline_ms > now_ms:
                return
            write.answer(GroupError.COORDINATOR_NOT_AVAILABLE)

    def next_deadline_ms(self) -> int | None:
        """Return when the first answer is due at the latest, or None if nobody waits."""
        for write in self._writes:
            if write.answers:
                return write.deadline_ms
        return None

    def _write(self, token: WriteToken) -> _Write:
        position = token - self._writes[0].token if self._writes else -1
        if not 0 <= position < len(self._writes):
            raise InvariantBroken(f"write {token} is not in flight")
        return self._writes[position]


def _finish(write: _Write) -> None:
    if write.outcome is None:
        raise InvariantBroken(f"write {write.token} has no outcome")
    for effect in write.effects:
        effect(write.outcome)
    write.answer(write.outcome)
