"""CONNECT: who the client is, and which virtual host it means."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.sasl_mechanisms import MechanismRefused
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.http_names import is_own_host
from kafkaesque.chassis.login import Login
from kafkaesque.gateway.stomp.ports import StompLink
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import ConnectReceived

PLAIN: Final = "PLAIN"
#: Where a client names no virtual host of ours, but this machine.
DEFAULT_VHOST: Final = "/"
#: What clients say that were told of nobody else.
_GUEST: Final = ("guest", "guest")


class Opening:
    """One connection's."""

    __slots__ = ("_host_names", "_link", "_on_open")

    def __init__(
        self,
        link: StompLink,
        host_names: Callable[[], Collection[str]],
        on_open: Callable[[], None],
    ) -> None:
        """`host_names` are what the broker is known by; `on_open` lets the client in."""
        self._link: Final = link
        self._host_names: Final = host_names
        self._on_open: Final = on_open

    def take(self, event: ConnectReceived) -> None:
        """Let a client in, or refuse it; now or later."""
        link = self._link
        named = (event.login or "", event.passcode or "")
        link.user = named[0]
        link.client_id = next((value for name, value in event.headers if name == "client-id"), "")
        is_optional = link.shared.options.access is AccessMode.OPTIONAL
        is_nobody = named in (("", ""), _GUEST)
        is_known = link.login is not None and named == ("", "")
        if not link.is_guarded or is_known:
            self._choose_vhost(event)
        elif is_optional and is_nobody:
            link.note_no_login()
            self._choose_vhost(event)
        elif named == ("", ""):
            link.fail(StompError("log in: the headers login and passcode are missing"))
        else:
            self._log_in(event, *named)

    def _log_in(self, event: ConnectReceived, user: str, passcode: str) -> None:
        link = self._link

        def on_step(outcome: Challenge | Success | Failure) -> None:
            if isinstance(outcome, Success):
                link.user = "" if link.identity is None else link.identity.user
                self._choose_vhost(event)
            else:
                link.fail(StompError("the log-in was refused: login or passcode is wrong"))

        try:
            login = Login(link, PLAIN)
        except MechanismRefused:
            link.fail(StompError("this listener takes no passwords: use TLS, or a certificate"))
            return
        login.step(b"\0%b\0%b" % (user.encode(), passcode.encode()), on_step)

    def _choose_vhost(self, event: ConnectReceived) -> None:
        link = self._link
        doors = link.desk.doors
        if doors.exchanges.has_vhost(event.host):
            link.vhost = event.host
        elif not event.host or is_own_host(event.host, self._host_names()):
            # Clients send the name by which they have found us, as the specification says.
            link.vhost = DEFAULT_VHOST
        else:
            link.fail(
                StompError(
                    f"there is no virtual host '{event.host[:100]}': set the header host to the "
                    f"name of one, such as {DEFAULT_VHOST}"
                )
            )
            return
        self._on_open()
