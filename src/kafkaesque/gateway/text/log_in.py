"""AUTH: a user and a password, or the token of a session, over a connection that is private."""

from __future__ import annotations

from typing import Final

from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.principals import user_name
from kafkaesque.access.sasl_mechanisms import MechanismRefused
from kafkaesque.access.scram_messages import write_saslname
from kafkaesque.access.tokens import read_token
from kafkaesque.chassis.link import ClientConnection
from kafkaesque.chassis.login import Login
from kafkaesque.gateway.text.reply import Reply
from kafkaesque.protocols.text.answers import write_error, write_ok
from kafkaesque.protocols.text.commands import Auth
from kafkaesque.protocols.text.examples import AUTH, HELP

#: People type.
LOGIN_MS_MAX: Final = 60_000
#: Answers whoever was refused a token.
_END: Final = b"\x01"


def log_in(connection: ClientConnection, reply: Reply, command: Auth) -> None:
    """Log in; after a refusal the connection is closed."""
    if not connection.is_private:
        what = "AUTH sends a password in the clear, and others may listen in: connect with TLS"
        reply.end(write_error(what, "openssl s_client -quiet -connect HOST:7070 -CAfile ca.pem"))
        return
    if not connection.is_guarded:
        reply.end(write_ok("this port needs no log-in"))
        return
    mechanism, message = _message_of(command)
    try:
        login = Login(connection, mechanism)
    except MechanismRefused:
        reply.end(write_error(f"{mechanism} is not offered here", HELP))
        return

    def on_step(outcome: Challenge | Success | Failure) -> None:
        match outcome:
            case Challenge():
                login.step(_END, on_step)
            case Success():
                reply.end(write_ok(f"logged in as {user_name(outcome.principal)}"))
            case Failure():
                connection.leave()
                reply.end(write_error("the log-in is refused", AUTH))
                connection.close()

    login.step(message, on_step)


def _message_of(command: Auth) -> tuple[str, bytes]:
    """Return a mechanism, and its message."""
    if read_token(command.password) is None:
        return "PLAIN", f"\0{command.user}\0{command.password}".encode()
    name = write_saslname(command.user)
    bearer = f"n,a={name},\x01auth=Bearer {command.password}\x01\x01"
    return "OAUTHBEARER", bearer.encode()
