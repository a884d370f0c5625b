"""`/session` and people's second factors: logging in, logging out."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from kafkaesque.access.authentication import Failure, Success
from kafkaesque.access.errors import CredentialUnknown, UserUnknown
from kafkaesque.access.passwords import PASSWORD_BYTES_MAX
from kafkaesque.access.principals import NAME_LENGTH_MAX
from kafkaesque.access.sessions import SESSION_MS
from kafkaesque.admin.api.calls import Call, NoQuery
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.values import View
from kafkaesque.admin.visitors import Visitors, write_cookie
from kafkaesque.broker.doors.sessions import NewFactor, Session
from kafkaesque.model.errors import RequestRefused

#: Stands in the audit log for a log-in by password, and code, that begins a session.
SESSION: Final = "session"
#: What is asked next is to see the session.
CURRENT_MS_MAX: Final = 2_000

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=NAME_LENGTH_MAX)]


class LogIn(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Who logs in, and what that is proved by."""

    user: Name
    password: Annotated[str, msgspec.Meta(min_length=1, max_length=PASSWORD_BYTES_MAX)]
    #: Of the second factor, or a recovery code; empty: there is none.
    code: Annotated[str, msgspec.Meta(max_length=100)] = ""
    #: Whether a browser keeps the token as a cookie, out of the reach of scripts.
    cookie: bool = False

    def __repr__(self) -> str:
        return f"LogIn(user={self.user!r})"


class SessionView(View, frozen=True, kw_only=True):
    """Who has logged in."""

    #: Null where nobody has, and nobody has to.
    user: str | None
    expires_at: int | None = None
    #: For `Authorization: Bearer`; shown once, and not where a browser keeps it.
    token: str | None = None


class SecondFactor(View, frozen=True, kw_only=True):
    """What is to be shown once, and kept by its person alone."""

    user: str
    #: For an authenticator: as a QR code, or by hand.
    uri: str
    recovery_codes: list[str]


class Done(View, frozen=True, kw_only=True):
    """It is done."""

    what: str


class SessionPages:
    """See the module."""

    def __init__(self, context: Context, visitors: Visitors) -> None:
        self._context = context
        self._visitors = visitors

    # -- /session

    def log_in(self, call: Call[NoQuery, LogIn]) -> None:
        """Begin a session; whatever is wrong, the answer is the same."""
        visitor, body = call.request.visitor, call.body
        passwords, sessions = self._visitors.passwords, self._context.doors.access.sessions
        if not visitor.is_private:
            call.refuse(403, "NotPrivate", "a password is not taken in the clear: use TLS")
            return
        if passwords is None or not sessions.can_be:
            call.refuse(409, "NoLogIn", "this cluster has no secret (cluster.secret.file)")
            return
        host = visitor.host
        message = b"\0" + body.user.encode() + b"\0" + body.password.encode()

        def on_session(outcome: Session | Failure | RequestRefused) -> None:
            if isinstance(outcome, Failure):
                on_failure(outcome)
            elif isinstance(outcome, RequestRefused):
                call.refuse_with(outcome)
            else:
                begun = outcome
                passwords.succeed(begun.user, visitor.origin, SESSION)
                self._context.doors.cluster.when_current(
                    CURRENT_MS_MAX, lambda _: self._answer_session(call, begun)
                )

        def on_failure(failure: Failure) -> None:
            passwords.fail(failure, visitor.origin, SESSION, lambda: _refuse_log_in(call))

        def on_password(outcome: Success | Failure) -> None:
            if isinstance(outcome, Failure):
                on_failure(outcome)
            else:
                sessions.open(outcome, body.code, host, on_session)

        authentication = sessions.check_password(host, shows_second_factor=True)
        if not passwords.check(authentication, message, visitor.origin, SESSION, on_password):
            call.refuse(429, "TooManyLogIns", "too many log-ins have failed: try again later")

    def _answer_session(self, call: Call[NoQuery, LogIn], begun: Session) -> None:
        token, cookie = begun.token.reveal().decode(), ""
        if call.body.cookie:
            is_encrypted = call.request.visitor.is_encrypted
            token, cookie = "", write_cookie(begun.token, SESSION_MS, is_encrypted=is_encrypted)
        view = SessionView(
            as_of=self._context.now(),
            seen_by=self._context.node,
            user=begun.user,
            expires_at=begun.expires_ms,
            token=token or None,
        )
        call.answer_once(view, 201, cookie)

    def show_session(self, call: Call[NoQuery, None]) -> None:
        """Say who has logged in."""
        visitor = call.request.visitor
        if visitor.is_stranger:
            call.refuse(401, "NotLoggedIn", "log in first: POST /api/v1/session")
            return
        login = visitor.login
        view = SessionView(
            as_of=self._context.now(),
            seen_by=self._context.node,
            user=visitor.user,
            expires_at=None if login is None else login.expires_ms or None,
        )
        call.answer_once(view)

    def log_out(self, call: Call[NoQuery, None]) -> None:
        """End the session of the request's token."""
        visitor = call.request.visitor
        credential = None if visitor.login is None else visitor.login.credential
        if credential is None or not self._context.doors.access.is_session(credential):
            self._answer_done(call, "there is no session")
            return

        def on_closed(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                call.refuse_with(refusal)
            else:
                self._context.doors.cluster.when_current(
                    CURRENT_MS_MAX, lambda _: self._answer_done(call, "the session is over")
                )

        self._context.doors.access.sessions.close(credential, on_closed)

    def _answer_done(self, call: Call[NoQuery, None], what: str) -> None:
        is_encrypted = call.request.visitor.is_encrypted
        view = Done(as_of=self._context.now(), seen_by=self._context.node, what=what)
        call.answer_once(view, cookie=write_cookie(None, 0, is_encrypted=is_encrypted))

    # -- /users/{user}/sessions

    def end_sessions(self, call: Call[NoQuery, None]) -> None:
        """End all sessions of a person, at all brokers."""
        doors, user = self._context.doors, call.params["user"]

        def on_closed(outcome: int | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                _refuse_factor(call, outcome)
                return
            view = Done(
                as_of=self._context.now(),
                seen_by=self._context.node,
                what=f"{outcome} {'session' if outcome == 1 else 'sessions'} of {user} ended",
            )
            doors.cluster.when_current(CURRENT_MS_MAX, lambda _: call.answer_once(view))

        # One may have been begun at another broker a moment ago.
        doors.cluster.when_current(
            CURRENT_MS_MAX,
            lambda _: doors.access.sessions.close_all(user, call.client, on_closed),
        )

    # -- /users/{user}/second-factor

    def add_factor(self, call: Call[NoQuery, None]) -> None:
        """Give a person a second factor; its secret is shown once."""
        doors, user = self._context.doors, call.params["user"]
        if not call.request.visitor.is_private:
            call.refuse(403, "NotPrivate", "a secret is not shown in the clear: use TLS")
            return
        if not doors.access.sessions.can_be:
            call.refuse(409, "NoLogIn", "this cluster has no secret (cluster.secret.file)")
            return

        def on_factor(outcome: NewFactor | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                _refuse_factor(call, outcome)
                return
            view = SecondFactor(
                as_of=self._context.now(),
                seen_by=self._context.node,
                user=user,
                uri=outcome.uri.reveal().decode(),
                recovery_codes=[each.reveal().decode() for each in outcome.recovery_codes],
            )
            doors.cluster.when_current(CURRENT_MS_MAX, lambda _: call.answer_once(view, 201))

        doors.access.sessions.add_factor(user, doors.cluster.cluster_id, call.client, on_factor)

    def remove_factor(self, call: Call[NoQuery, None]) -> None:
        """Take a person's second factor away."""
        user = call.params["user"]

        def on_removed(refusal: RequestRefused | None) -> None:
            if refusal is not None:
                _refuse_factor(call, refusal)
                return
            view = Done(
                as_of=self._context.now(),
                seen_by=self._context.node,
                what=f"user {user} logs in by password alone",
            )
            self._context.doors.cluster.when_current(
                CURRENT_MS_MAX, lambda _: call.answer_once(view)
            )

        self._context.doors.access.sessions.remove_factor(user, call.client, on_removed)


def _refuse_log_in(call: Call[NoQuery, LogIn]) -> None:
    call.refuse(401, "LogInRefused", "the log-in is refused: name, password or code is wrong")


def _refuse_factor(call: Call[NoQuery, None], refusal: RequestRefused) -> None:
    if isinstance(refusal, UserUnknown | CredentialUnknown):
        call.refuse(404, type(refusal).__name__, str(refusal))
    else:
        call.refuse_with(refusal)
