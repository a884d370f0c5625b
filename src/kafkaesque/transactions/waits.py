"""What the coordinator waits for: records on their way to the log, and producer ids.

A transactional id has at most one of both under way, so nothing here depends on the order in which
the reports come. A client is answered after a while even if the report does not come; what the
report brings about is done when it comes.
"""

from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.log_table import WriteToken
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import ProducerIdToken

#: Takes the outcome.
OnEnd = Callable[[TransactionError], None]
#: Takes the producer id, or None and why there is none.
OnProducerId = Callable[[int | None, TransactionError], None]


class _Write:
    __slots__ = ("answer", "deadline_ms", "effect")

    def __init__(self, deadline_ms: int, effect: OnEnd, answer: OnEnd | None) -> None:
        self.deadline_ms = deadline_ms
        self.effect = effect
        self.answer = answer

    def say(self, outcome: TransactionError) -> None:
        answer, self.answer = self.answer, None
        if answer is not None:
            answer(outcome)


class PendingWrites:
    """Writes in flight."""

    __slots__ = ("_last_token", "_timeout_ms", "_writes")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        #: Oldest first.
        self._writes: dict[WriteToken, _Write] = {}
        self._last_token = 0

    def __len__(self) -> int:
        return len(self._writes)

    def open(self, now_ms: int, effect: OnEnd, answer: OnEnd | None) -> WriteToken:
        """Begin a write; `answer` follows `effect`, unless it has been given because of time."""
        self._last_token += 1
        token = WriteToken(self._last_token)
        self._writes[token] = _Write(now_ms + self._timeout_ms, effect, answer)
        return token

    def end(self, token: WriteToken, outcome: TransactionError) -> None:
        """Take the report of a write's end.

        Raises:
            InvariantBroken: it is not in flight.
        """
        write = self._writes.pop(token, None)
        if write is None:
            raise InvariantBroken(f"write {token} is not in flight")
        write.effect(outcome)
        write.say(outcome)

    def abandon(self, outcome: TransactionError) -> None:
        """Answer for every write, because what becomes of them is not ours to know any more."""
        writes, self._writes = self._writes, {}
        for write in writes.values():
            write.say(outcome)

    def expire(self, now_ms: int) -> None:
        """Answer for the writes that take too long."""
        for write in self._writes.values():
            if write.deadline_ms > now_ms:
                return
            write.say(TransactionError.COORDINATOR_NOT_AVAILABLE)

    def next_deadline_ms(self) -> int | None:
        """Return when the first answer is due at the latest, or None if nobody waits."""
        for write in self._writes.values():
            if write.answer is not None:
                return write.deadline_ms
        return None


class _IdWait(NamedTuple):
    deadline_ms: int
    then: OnProducerId


class ProducerIdWaits:
    """Producer ids that have been asked for."""

    __slots__ = ("_last_token", "_timeout_ms", "_waits")

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        #: Oldest first.
        self._waits: dict[ProducerIdToken, _IdWait] = {}
        self._last_token = 0

    def __len__(self) -> int:
        return len(self._waits)

    def open(self, now_ms: int, then: OnProducerId) -> ProducerIdToken:
        """Begin to wait for one."""
        self._last_token += 1
        token = ProducerIdToken(self._last_token)
        self._waits[token] = _IdWait(now_ms + self._timeout_ms, then)
        return token

    def end(self, token: ProducerIdToken, producer_id: int | None) -> None:
        """Take a producer id; one that comes too late is used by nobody.

        Raises:
            InvariantBroken: it was never asked for.
        """
        if not 1 <= token <= self._last_token:
            raise InvariantBroken(f"producer id {token} was never asked for")
        wait = self._waits.pop(token, None)
        if wait is not None:
            wait.then(producer_id, TransactionError.COORDINATOR_NOT_AVAILABLE)

    def abandon(self, error: TransactionError) -> None:
        """Give up waiting, because this coordinator is one no more."""
        waits, self._waits = self._waits, {}
        for wait in waits.values():
            wait.then(None, error)

    def expire(self, now_ms: int) -> None:
        """Give up those that take too long."""
        while self._waits:
            token = next(iter(self._waits))
            if self._waits[token].deadline_ms > now_ms:
                return
            self._waits.pop(token).then(None, TransactionError.COORDINATOR_NOT_AVAILABLE)

    def next_deadline_ms(self) -> int | None:
        """Return when the first wait ends at the latest, or None."""
        return next(iter(self._waits.values())).deadline_ms if self._waits else None
