"""Log-ins of protocols in which each request says who asks: late refusals, and work off the loop.

Where a log-in lasts as long as its connection, it is a `Login`.
"""

from collections.abc import Callable
from typing import Final

from kafkaesque.access.authentication import (
    Authentication,
    Challenge,
    Failure,
    FailureReason,
    Outcome,
    PasswordWork,
    Success,
)
from kafkaesque.chassis.logins import Logins
from kafkaesque.env.clock import Clock


class RequestLogins:
    """Checks passwords for one port after the other; failures count with those of all ports."""

    __slots__ = ("_clock", "_logins")

    def __init__(self, logins: Logins, clock: Clock) -> None:
        self._logins: Final = logins
        self._clock: Final = clock

    def may_try(self, host: str, user: str) -> bool:
        """Tell whether a log-in is to be looked at: not if too many refusals are due already."""
        return self._logins.attempts.may_try(host, user, self._clock.now_ms())

    def check(
        self,
        authentication: Authentication,
        message: bytes,
        host: str,
        on_done: Callable[[Success | Failure], None],
    ) -> bool:
        """Take a mechanism's only message; False if too much waits already to be refused.

        `on_done` comes now or later; it is to tell `fail` of a failure, so that guesses are slow.
        """
        attempts, clock = self._logins.attempts, self._clock
        if not attempts.may_try(host, "", clock.now_ms()):
            return False
        outcome = authentication.step(message, clock.wall_ms())
        if not attempts.may_try(host, authentication.user, clock.now_ms()):
            return False
        if not isinstance(outcome, PasswordWork):
            on_done(_settled(outcome))
            return True

        def on_checked(is_right: bool) -> None:
            on_done(_settled(authentication.resume(is_right, clock.wall_ms())))

        return self._logins.check(outcome, on_checked)

    def fail(self, failure: Failure, host: str, then: Callable[[], None]) -> None:
        """Count a failure, and go on when it is to be told."""
        delay_ms = self._logins.attempts.on_failure(host, failure.user, self._clock.now_ms())
        if delay_ms:
            self._clock.call_later(delay_ms, then)
        else:
            then()

    def succeed(self, user: str, host: str) -> None:
        """Forget what was counted against a user from there."""
        self._logins.attempts.on_success(host, user)


def _settled(outcome: Outcome) -> Success | Failure:
    if isinstance(outcome, Challenge | PasswordWork):
        return Failure(reason=FailureReason.MALFORMED)
    return outcome
