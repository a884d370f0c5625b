"""CONNECT: who the client is."""

from __future__ import annotations

from typing import Final, Protocol

from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.sasl_mechanisms import NKEY, MechanismRefused
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.link import ClientConnection
from kafkaesque.chassis.login import Login
from kafkaesque.protocols.nats.events import ConnectOptions

#: Answers whoever was refused a token.
_END: Final = b"\x01"


class Opened(Protocol):
    """The connection that waits for the outcome."""

    def let_client_in(self) -> None:
        """Go on behind a CONNECT whose client may stay."""

    def refuse_log_in(self, what: str) -> None:
        """Tell a client that it may not come in, and hang up."""


def log_in(
    connection: ClientConnection, opened: Opened, options: ConnectOptions, nonce: str
) -> None:
    """Let a client in, or refuse it, now or later; `nonce` is what it was sent to be signed."""
    if not connection.is_guarded:
        opened.let_client_in()
        return
    found = _message_of(options)
    if found is None:
        is_known = connection.login is not None
        if is_known or connection.shared.options.access is AccessMode.OPTIONAL:
            if not is_known:
                connection.note_no_login()
            opened.let_client_in()
        else:
            opened.refuse_log_in("it has said neither a user nor a token nor a key")
        return
    mechanism, message = found
    try:
        login = Login(connection, mechanism, nonce.encode())
    except MechanismRefused:
        opened.refuse_log_in(f"{mechanism} is not offered at this listener")
        return

    def on_step(outcome: Challenge | Success | Failure) -> None:
        match outcome:
            case Challenge():
                login.step(_END, on_step)
            case Success():
                opened.let_client_in()
            case Failure():
                opened.refuse_log_in("the log-in is refused")

    login.step(message, on_step)


def _message_of(options: ConnectOptions) -> tuple[str, bytes] | None:
    """Return a mechanism and its message; None: the client has shown nothing."""
    if options.nkey:
        return NKEY, f"{options.nkey}\n{options.sig or ''}".encode(errors="replace")
    if options.auth_token:
        return "OAUTHBEARER", f"n,,\x01auth=Bearer {options.auth_token}\x01\x01".encode(
            errors="replace"
        )
    if options.user is not None or options.password is not None:
        user, password = options.user or "", options.password or ""
        return "PLAIN", f"\0{user}\0{password}".encode(errors="replace")
    return None
