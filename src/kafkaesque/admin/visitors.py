"""Who sends a request to the admin port: a token, a session's cookie, or a name and a password."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafkaesque.access.audit import ClientOrigin
from kafkaesque.access.authentication import Failure, Success
from kafkaesque.access.principals import user_name
from kafkaesque.access.secret import Secret
from kafkaesque.admin.visitor import Visitor
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.http_basic import read_basic
from kafkaesque.chassis.logins import Logins
from kafkaesque.chassis.request_login import RequestLogins
from kafkaesque.chassis.rights import Rights
from kafkaesque.env.clock import Clock

#: Stand in the audit log for log-ins by the headers of a request. Tokens that are right are not
#: told of: the log-in was when they were made.
BASIC: Final = "basic"
BEARER: Final = "bearer"
#: Of a console's session. With TLS no other port of the machine may set or read it.
COOKIE: Final = "kafkaesque_session"
SECURE_COOKIE: Final = f"__Host-{COOKIE}"


class Caller(Protocol):
    """The connection that a request came by."""

    @property
    def peer_host(self) -> str:
        """The client's address."""

    @property
    def is_private(self) -> bool:
        """Whether nobody can listen in."""

    @property
    def is_encrypted(self) -> bool:
        """Whether it speaks TLS."""

    @property
    def origin(self) -> ClientOrigin:
        """Where it has come from, as the audit log says it."""

    @property
    def access(self) -> AccessMode:
        """Whether clients of the listener have to log in."""


class Refused(Exception):
    """What a request says of who asks is not so; or, `is_late`, nobody looks at it now."""

    def __init__(self, *, is_late: bool = False) -> None:
        super().__init__("the log-in is refused")
        self.is_late = is_late


OnKnown = Callable[[Visitor | Refused], None]


class Visitors:
    """Finds out who asks, for each request."""

    __slots__ = ("_access", "passwords")

    def __init__(self, access: Access, logins: Logins | None, clock: Clock) -> None:
        self._access: Final = access
        #: None: nobody logs in at any port.
        self.passwords: Final = None if logins is None else RequestLogins(logins, clock)

    def identify(self, caller: Caller, headers: Mapping[str, str], on_known: OnKnown) -> None:
        """Find out who asks; `on_known` comes now, or when a password was checked."""
        is_open = caller.access is AccessMode.OPEN
        name_and_password = None if is_open else read_basic(headers)
        if name_and_password is not None:
            self._check_basic(caller, name_and_password, on_known)
            return
        outcome = self.check_token(caller, headers)
        if isinstance(outcome, Failure) and not is_open and "authorization" in headers:
            self._access.note_log_in(outcome, caller.origin, BEARER)
            on_known(Refused())
        else:
            # A cookie that is over keeps nobody from the page where they log in again.
            login = outcome if isinstance(outcome, Success) else None
            on_known(self._visitor(caller, login, "http-bearer"))

    def check_token(self, caller: Caller, headers: Mapping[str, str]) -> Success | Failure | None:
        """Return who the token of a request is for; None if it has none."""
        token = read_token(headers, is_encrypted=caller.is_encrypted)
        if token is None:
            return None
        return self._access.sessions.check_token(token, caller.peer_host)

    def _visitor(self, caller: Caller, login: Success | None, login_by: str) -> Visitor:
        is_open = caller.access is AccessMode.OPEN
        rights = None
        if login is not None and not is_open:
            rights = Rights(self._access, login.principal, caller.origin)
        return Visitor(
            host=caller.origin.host,
            listener=caller.origin.listener,
            is_private=caller.is_private,
            is_encrypted=caller.is_encrypted,
            is_open=is_open,
            must_log_in=caller.access is AccessMode.REQUIRED,
            login=login,
            login_by=login_by,
            rights=rights,
        )

    def _check_basic(self, caller: Caller, message: bytes, on_known: OnKnown) -> None:
        passwords, host = self.passwords, caller.peer_host
        if passwords is None or not caller.is_private:
            on_known(Refused())
            return
        found = self._access.sessions.check_password(host, shows_second_factor=False)

        def on_checked(outcome: Success | Failure) -> None:
            if isinstance(outcome, Failure):
                passwords.fail(outcome, caller.origin, BASIC, lambda: on_known(Refused()))
            else:
                passwords.succeed(user_name(outcome.principal) or "", caller.origin, BASIC)
                on_known(self._visitor(caller, outcome, "http-basic"))

        if not passwords.check(found, message, caller.origin, BASIC, on_checked):
            on_known(Refused(is_late=True))


def read_token(headers: Mapping[str, str], *, is_encrypted: bool) -> Secret | None:
    """Return the token of a request; one in `Authorization` counts before a cookie."""
    authorization = headers.get("authorization")
    if authorization is not None:
        scheme, _, text = authorization.partition(" ")
        return Secret.of(text.strip() if scheme.lower() == "bearer" else "")
    name = SECURE_COOKIE if is_encrypted else COOKIE
    found = set()
    for each in headers.get("cookie", "").split(";"):
        key, _, value = each.strip().partition("=")
        if key == name:
            found.add(value)
    # Of two, one was set by somebody else.
    return Secret.of(found.pop() if len(found) == 1 else "") if found else None


def write_cookie(token: Secret | None, age_ms: int, *, is_encrypted: bool) -> str:
    """Return what `Set-Cookie` says; without a token the cookie is removed."""
    name = SECURE_COOKIE if is_encrypted else COOKIE
    value = "" if token is None else token.reveal().decode()
    parts = [
        f"{name}={value}",
        "Path=/",
        "HttpOnly",
        "SameSite=Strict",
        f"Max-Age={age_ms // 1000}",
    ]
    return "; ".join([*parts, "Secure"] if is_encrypted else parts)
