"""Who asks: a name and a password, a session's token, or the certificate of the connection."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final

from kafkaesque.access.authentication import Failure, Success
from kafkaesque.access.principals import user_name
from kafkaesque.access.secret import Secret
from kafkaesque.broker.doors.access import Access
from kafkaesque.broker.listeners import LogInBy
from kafkaesque.chassis.http_basic import read_basic
from kafkaesque.chassis.http_names import is_own_host
from kafkaesque.chassis.request_login import OnKnown, RequestLogins, take_unnamed
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.registry.connection import HttpRequest, RegistryConnection
from kafkaesque.gateway.registry.errors import HttpRefused

BASIC: Final = "basic"
BEARER: Final = "bearer"
_WANTED: Final = "Say who you are: a user's name and password (basic), or a token (bearer)."

_PAGE: Final = "Requests that web pages send are refused here."

OnRefused = Callable[[HttpRefused], None]


class Visitors:
    """Finds out who asks, for each request; on an open listener everybody may do everything."""

    __slots__ = ("_access", "_logins", "_names")

    def __init__(
        self, access: Access, logins: RequestLogins, names: Callable[[], Collection[str]]
    ) -> None:
        """`names` are those that listeners of the registry are advertised with."""
        self._access: Final = access
        self._logins: Final = logins
        self._names: Final = names

    def identify(
        self,
        caller: RegistryConnection,
        request: HttpRequest,
        on_known: OnKnown,
        on_refused: OnRefused,
    ) -> None:
        """Find out who asks; a refusal may come later."""
        if is_of_a_page(request):
            # A browser adds by itself what somebody has typed here before: it says nothing of who
            # has had it ask.
            on_refused(HttpRefused(403, _PAGE))
            return
        has_header = "authorization" in request.headers
        if (
            not caller.is_guarded
            or not has_header
            or (caller.shared.options.log_in_by is LogInBy.CERTIFICATE)
        ):
            self._take_unnamed(caller, request, on_known, on_refused)
            return
        message = read_basic(request.headers)
        if message is None:
            self._check_token(caller, request.headers, on_known, on_refused)
            return
        found = self._access.sessions.check_password(caller.peer_host, shows_second_factor=False)

        def on_checked(outcome: Success | Failure) -> None:
            if isinstance(outcome, Failure):
                caller.shared.meter.login_failures += 1
                refusal = HttpRefused(401, "The name or the password is wrong.")
                self._logins.fail(outcome, caller.origin, BASIC, lambda: on_refused(refusal))
                return
            user = user_name(outcome.principal) or ""
            self._logins.succeed(user, caller.origin, BASIC)
            self._let_in(caller, outcome, BASIC, on_known, on_refused)

        if not self._logins.check(found, message, caller.origin, BASIC, on_checked):
            on_refused(HttpRefused(429, "Too many passwords were wrong: try again later."))

    def _check_token(
        self,
        caller: RegistryConnection,
        headers: Mapping[str, str],
        on_known: OnKnown,
        on_refused: OnRefused,
    ) -> None:
        scheme, _, text = headers["authorization"].partition(" ")
        token = Secret.of(text.strip() if scheme.lower() == "bearer" else "")
        outcome = self._access.sessions.check_token(token, caller.peer_host)
        if isinstance(outcome, Failure):
            caller.shared.meter.login_failures += 1
            self._access.note_log_in(outcome, caller.origin, BEARER)
            on_refused(HttpRefused(401, "The token is not valid."))
        else:
            self._let_in(caller, outcome, BEARER, on_known, on_refused)

    def _let_in(
        self,
        caller: RegistryConnection,
        success: Success,
        mechanism: str,
        on_known: OnKnown,
        on_refused: OnRefused,
    ) -> None:
        if success != caller.login:
            if not caller.let_in(success, mechanism):
                on_refused(HttpRefused(429, "The user has all connections that it may have."))
                return
            self._access.note_log_in(success, caller.origin, mechanism)
        on_known(Rights(self._access, success.principal, caller.origin))

    def _take_unnamed(
        self,
        caller: RegistryConnection,
        request: HttpRequest,
        on_known: OnKnown,
        on_refused: OnRefused,
    ) -> None:
        said = why_a_page(request, self._names())
        if said is None:
            take_unnamed(caller, on_known, lambda: on_refused(HttpRefused(401, _WANTED)))
        else:
            on_refused(HttpRefused(403, said))


def is_of_a_page(request: HttpRequest) -> bool:
    """Tell whether a browser says that a web page has it send a request."""
    headers = request.headers
    return "origin" in headers or headers.get("sec-fetch-site", "none") != "none"


def why_a_page(request: HttpRequest, names: Collection[str]) -> str | None:
    """Return why a request that nobody has signed may be that of a web page; None if it is not."""
    host = request.headers.get("host", "")
    if not is_own_host(host, names):
        return (
            f"This broker is not {host!r}: ask it by its IP address, as localhost, or by the name "
            "that its listener is advertised with."
        )
    return None
