"""Waits for what others bring: each is answered once, with the value or when its time is up."""

from collections.abc import Callable
from typing import Generic, TypeVar

from kafkaesque.model.errors import InvariantBroken

TokenT = TypeVar("TokenT", bound=int)
ErrorT = TypeVar("ErrorT")
ValueT = TypeVar("ValueT")


class _Wait(Generic[ErrorT, ValueT]):
    __slots__ = ("deadline_ms", "then")

    def __init__(self, deadline_ms: int, then: Callable[[ValueT | None, ErrorT], None]) -> None:
        self.deadline_ms = deadline_ms
        self.then = then


class Waits(Generic[TokenT, ErrorT, ValueT]):
    """What has been asked for, oldest first; `late` is told where nothing came in time."""

    __slots__ = ("_last_token", "_late", "_make_token", "_timeout_ms", "_waits")

    def __init__(
        self, *, timeout_ms: int, late: ErrorT, make_token: Callable[[int], TokenT]
    ) -> None:
        self._timeout_ms = timeout_ms
        self._late = late
        self._make_token = make_token
        self._waits: dict[TokenT, _Wait[ErrorT, ValueT]] = {}
        self._last_token = 0

    def __len__(self) -> int:
        return len(self._waits)

    def open(self, now_ms: int, then: Callable[[ValueT | None, ErrorT], None]) -> TokenT:
        """Begin to wait; `then` gets the value, or None and why there is none."""
        self._last_token += 1
        token = self._make_token(self._last_token)
        self._waits[token] = _Wait(now_ms + self._timeout_ms, then)
        return token

    def end(self, token: TokenT, value: ValueT | None) -> None:
        """Take what was waited for; what comes too late is used by nobody.

        Raises:
            InvariantBroken: it was never asked for.
        """
        if not 1 <= token <= self._last_token:
            raise InvariantBroken(f"what {token} names was never asked for")
        wait = self._waits.pop(token, None)
        if wait is not None:
            wait.then(value, self._late)

    def abandon(self, error: ErrorT) -> None:
        """Give up waiting, because leadership is lost."""
        waits, self._waits = self._waits, {}
        for wait in waits.values():
            wait.then(None, error)

    def expire(self, now_ms: int) -> None:
        """Give up those that take too long."""
        while self._waits:
            token = next(iter(self._waits))
            if self._waits[token].deadline_ms > now_ms:
                return
            self._waits.pop(token).then(None, self._late)

    def next_deadline_ms(self) -> int | None:
        """Return when the first wait ends at the latest, or None."""
        return next(iter(self._waits.values())).deadline_ms if self._waits else None
