"""Log-ins of protocols in which each request says who asks: late refusals, and work off the loop.

Where a log-in lasts as long as its connection, it is a `Login`.
"""

from collections.abc import Callable
from typing import Final

from kafkaesque.access.audit import ClientOrigin
from kafkaesque.access.authentication import (
    Authentication,
    Challenge,
    Failure,
    FailureReason,
    Outcome,
    PasswordWork,
    Success,
)
from kafkaesque.access.principals import user_principal
from kafkaesque.broker.listeners import AccessMode, LogInBy
from kafkaesque.chassis.link import ClientConnection
from kafkaesque.chassis.logins import TOO_MANY, Logins
from kafkaesque.chassis.rights import Rights
from kafkaesque.env.clock import Clock

#: Goes on with what the client may do; None: everything.
OnKnown = Callable[[Rights | None], None]


def take_unnamed(
    caller: ClientConnection, on_known: OnKnown, on_log_in_wanted: Callable[[], None]
) -> None:
    """Go on with a request that does not say who asks, if its listener lets it."""
    options = caller.shared.options
    by_certificate = caller.login is not None and caller.login.is_certificate
    if not caller.is_guarded or options.log_in_by is LogInBy.CERTIFICATE:
        on_known(caller.rights)
    elif options.log_in_by is LogInBy.EITHER and by_certificate:
        on_known(caller.rights)
    elif options.access is AccessMode.OPTIONAL:
        caller.note_no_login()
        on_known(None)
    else:
        on_log_in_wanted()


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
        origin: ClientOrigin,
        mechanism: str,
        on_done: Callable[[Success | Failure], None],
    ) -> bool:
        """Take a mechanism's only message; False if too much waits already to be refused.

        `on_done` comes now or later; it is to tell `fail` of a failure, so that guesses are slow.
        """
        attempts, clock, access = self._logins.attempts, self._clock, self._logins.access
        if not attempts.may_try(origin.host, "", clock.now_ms()):
            access.note_refused_log_in("", origin, mechanism, TOO_MANY)
            return False
        outcome = authentication.step(message, clock.wall_ms())
        user = authentication.user
        if not attempts.may_try(origin.host, user, clock.now_ms()):
            access.note_refused_log_in(user, origin, mechanism, TOO_MANY)
            return False
        if not isinstance(outcome, PasswordWork):
            on_done(_settled(outcome))
            return True

        def on_checked(is_right: bool) -> None:
            on_done(_settled(authentication.resume(is_right, clock.wall_ms())))

        return self._logins.check(outcome, on_checked)

    def fail(
        self, failure: Failure, origin: ClientOrigin, mechanism: str, then: Callable[[], None]
    ) -> None:
        """Count a failure, and go on when it is to be told."""
        self._logins.access.note_log_in(failure, origin, mechanism)
        now_ms = self._clock.now_ms()
        delay_ms = self._logins.attempts.on_failure(origin.host, failure.user, now_ms)
        if delay_ms:
            self._clock.call_later(delay_ms, then)
        else:
            then()

    def succeed(self, user: str, origin: ClientOrigin, mechanism: str) -> None:
        """Forget what was counted against a user from there."""
        self._logins.attempts.on_success(origin.host, user)
        success = Success(principal=user_principal(user))
        self._logins.access.note_log_in(success, origin, mechanism)


def _settled(outcome: Outcome) -> Success | Failure:
    if isinstance(outcome, Challenge | PasswordWork):
        return Failure(reason=FailureReason.MALFORMED)
    return outcome
