"""One client's log-in: its mechanism's steps, late refusals, and what it is known by afterwards."""

from collections.abc import Callable
from typing import Final

from kafkaesque.access.authentication import (
    Authentication,
    Challenge,
    Failure,
    Outcome,
    PasswordWork,
    Success,
    continued,
)
from kafkaesque.chassis.link import ClientConnection
from kafkaesque.chassis.logins import LOGIN_MS_MAX, TOO_MANY, TOO_OLD, Logins
from kafkaesque.model.errors import InvariantBroken

#: What a protocol sends in its own words. It closes the connection after a failure.
OnStep = Callable[[Challenge | Success | Failure], None]


class Login:
    """From the choice of a mechanism to its outcome; the connection waits for what takes long."""

    __slots__ = ("_authentication", "_awaits_client", "_connection", "_logins", "_mechanism")

    def __init__(
        self, connection: ClientConnection, mechanism: str, challenge: bytes = b""
    ) -> None:
        """Begin; `challenge` is what the client was sent to be signed, if it was.

        Raises:
            MechanismRefused: not one that this client is offered.
        """
        logins, identity = connection.shared.chassis.logins, connection.identity
        if logins is None or identity is None:
            raise InvariantBroken("a log-in at a port, or of a client, that has none")
        self._connection: Final = connection
        self._mechanism: Final = mechanism
        #: Whether it is the client's turn; it may send at any moment.
        self._awaits_client = True
        self._logins: Final[Logins] = logins
        self._authentication: Final[Authentication] = logins.access.authenticate(
            mechanism,
            connection.shared.options.mechanisms,
            host=identity.host,
            is_encrypted=connection.is_private,
            certificate=identity.certificate,
            challenge=challenge,
        )

    def step(self, data: bytes, on_step: OnStep) -> None:
        """Take what the client has sent; `on_step` is called now or later, or not if it is closed.

        By the time of a success, the client is let in. One that sends more before it was answered
        is closed.
        """
        if not self._may_try():
            return
        if not self._awaits_client:
            self._refuse("it has sent more than its log-in has asked for")
            return
        self._awaits_client = False
        outcome = self._authentication.step(data, self._connection.shared.clock.wall_ms())
        # Only now it may be known who the client says to be.
        if self._may_try():
            self._take(outcome, on_step)

    def _may_try(self) -> bool:
        """Close the connection if too many refusals are due already."""
        connection = self._connection
        now_ms, user = connection.shared.clock.now_ms(), self._authentication.user
        if self._logins.attempts.may_try(connection.peer_host, user, now_ms):
            return True
        connection.shared.meter.login_failures += 1
        self._refuse(TOO_MANY)
        return False

    def _refuse(self, because: str) -> None:
        """Close the connection for a reason that is not in what the client has shown."""
        connection, user = self._connection, self._authentication.user
        self._logins.access.note_refused_log_in(user, connection.origin, self._mechanism, because)
        connection.refuse(because)

    def _take(self, outcome: Outcome, on_step: OnStep) -> None:
        match outcome:
            case PasswordWork():
                self._work(outcome, on_step)
            case Challenge():
                self._awaits_client = True
                on_step(outcome)
            case Success() | Failure():
                self._end(outcome, on_step)

    def _work(self, work: PasswordWork, on_step: OnStep) -> None:
        connection = self._connection

        def on_checked(is_right: bool) -> None:
            if connection.is_open:
                connection.release()
                now_ms = connection.shared.clock.wall_ms()
                self._take(self._authentication.resume(is_right, now_ms), on_step)

        connection.hold()
        if not self._logins.check(work, on_checked):
            self._refuse("too many passwords wait to be checked")

    def _end(self, outcome: Success | Failure, on_step: OnStep) -> None:
        connection = self._connection
        if isinstance(outcome, Success) and self._logins.access.is_stale:
            self._refuse(TOO_OLD)
            return
        before = connection.login
        if before is not None:
            outcome = continued(before, outcome)
        if isinstance(outcome, Failure):
            self._fail(outcome, on_step)
        elif connection.let_in(outcome, self._mechanism):
            user = connection.identity.user if connection.identity is not None else ""
            self._logins.attempts.on_success(connection.peer_host, user)
            self._logins.access.note_log_in(outcome, connection.origin, self._mechanism)
            on_step(outcome)
        else:
            self._refuse("its user has all connections that it may have")

    def _fail(self, failure: Failure, on_step: OnStep) -> None:
        connection, clock = self._connection, self._connection.shared.clock
        connection.shared.meter.login_failures += 1
        self._logins.access.note_log_in(failure, connection.origin, self._mechanism)
        delay_ms = self._logins.attempts.on_failure(
            connection.peer_host, failure.user, clock.now_ms()
        )
        if not delay_ms:
            on_step(failure)
            return

        def on_due() -> None:
            if connection.is_open:
                on_step(failure)

        # Nothing more of it is read: who guesses has to wait, or to connect anew.
        connection.hold()
        connection.expect(delay_ms + LOGIN_MS_MAX)
        clock.call_later(delay_ms, on_due)
