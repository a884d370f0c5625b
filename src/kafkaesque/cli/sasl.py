"""Logging in on a connection of our own, by SCRAM, PLAIN or a token."""

import os
from collections.abc import Callable
from typing import Any

from kafkaesque.access.oauthbearer import write_bearer
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_messages import ScramMessageRefused
from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.log_in import LogIn
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kafkaesque.protocols.kafka.messages.sasl_handshake_request import SaslHandshakeRequest
from kafkaesque.protocols.kafka.wire import Message

_VERSION = 1
_NONCE_BYTES = 18

#: Sends a request: its API, version and message.
Ask = Callable[[int, int, Message], Any]


def authenticate(log_in: LogIn, ask: Ask) -> None:
    """Log in.

    Raises:
        CommandFailed: the broker refuses it, does not offer the mechanism, or does not know the
            password itself.
    """
    mechanism = log_in.mechanism
    handshake = ask(ApiKey.SASL_HANDSHAKE, _VERSION, SaslHandshakeRequest(mechanism))
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise CommandFailed(
            f"the broker does not offer the mechanism {mechanism}; it offers {offered}",
            exit_code=FAILED,
        )
    if mechanism == "PLAIN":
        _step(log_in, ask, b"\0" + log_in.user.encode() + b"\0" + log_in.password.reveal())
        return
    if log_in.is_token:
        _present(log_in, ask)
        return
    client = ScramClient(
        SCRAM_MECHANISMS[mechanism], log_in.user, log_in.password, os.urandom(_NONCE_BYTES)
    )
    try:
        first = _step(log_in, ask, client.first())
        client.verify(_step(log_in, ask, client.final(first)))
    except ScramMessageRefused as refusal:
        raise CommandFailed(f"the broker's log-in cannot be trusted: {refusal}") from None


def _present(log_in: LogIn, ask: Ask) -> None:
    """Present a token; whoever is refused is told so, and has to answer before that counts."""
    if _step(log_in, ask, write_bearer(log_in.password)):
        _step(log_in, ask, b"\x01")


def _step(log_in: LogIn, ask: Ask, data: bytes) -> bytes:
    answer = ask(ApiKey.SASL_AUTHENTICATE, _VERSION, SaslAuthenticateRequest(data))
    if answer.error_code:
        raise CommandFailed(
            f"the broker has refused the log-in of {log_in.user!r}",
            hint="kafkaesque login"
            if log_in.is_token
            else "another password; or kafkaesque user list, as an administrator: whether there is "
            "such a user, is enabled, and may log in now and from here",
            exit_code=FAILED,
        )
    return bytes(answer.auth_bytes)
