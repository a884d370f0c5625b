"""Comes again, in a client's place, while a coordinator is busy with the same transactional id.

That is the end of the transaction before, or another partition that is added: over in milliseconds.
A client that is told to come again takes 20 of them (librdkafka) or 100 and more, for each
transaction.
"""

from collections.abc import Callable

from kafkaesque.env.clock import Clock

#: It is waited for so long; then the client is told.
CONCURRENT_MS_MAX = 500
_RETRY_MS_MIN = 1
_RETRY_MS_MAX = 50


class Patience:
    """How long has been waited, and how long it still may be."""

    __slots__ = ("_clock", "_deadline_ms", "_retry_ms")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._deadline_ms = clock.now_ms() + CONCURRENT_MS_MAX
        self._retry_ms = _RETRY_MS_MIN

    def wait(self, again: Callable[[], None]) -> bool:
        """Have it tried again after a while, a longer one each time; False if the time is up."""
        if self._clock.now_ms() >= self._deadline_ms:
            return False
        self._clock.call_later(self._retry_ms, again)
        self._retry_ms = min(2 * self._retry_ms, _RETRY_MS_MAX)
        return True
