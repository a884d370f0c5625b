"""Logging in on a connection, by SCRAM, PLAIN or a token: which messages to send, in order."""

import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkaesque.access.oauthbearer import write_bearer
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_messages import ScramMessageRefused
from kafkaesque.access.secret import Secret
from kafkaesque.client.errors import BrokerNotTrusted, LogInRefused
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kafkaesque.protocols.kafka.messages.sasl_handshake_request import SaslHandshakeRequest
from kafkaesque.protocols.kafka.wire import Message

MECHANISM_DEFAULT: Final = "SCRAM-SHA-512"
TOKEN_MECHANISM: Final = "OAUTHBEARER"
#: Mechanisms that take a password.
MECHANISMS: Final = (*SCRAM_MECHANISMS, "PLAIN")
_VERSION: Final = 1
_NONCE_BYTES: Final = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class LogIn:
    """A user and how it proves to be it."""

    user: str
    #: The password, or the token.
    password: Secret
    mechanism: str = MECHANISM_DEFAULT
    #: Unix time; of a token.
    expires_s: float = 0
    #: Returns a token that is valid now, in place of `password`.
    refresh: Callable[[], str] | None = None

    @property
    def is_token(self) -> bool:
        """Whether the password is a token."""
        return self.mechanism == TOKEN_MECHANISM

    def settings(self, *, is_encrypted: bool) -> dict[str, Any]:
        """Return it as librdkafka's settings."""
        settings = {
            "security.protocol": "SASL_SSL" if is_encrypted else "SASL_PLAINTEXT",
            "sasl.mechanism": self.mechanism,
        }
        if self.is_token:
            return {
                **settings,
                "oauth_cb": lambda _: (self.secret().reveal().decode(), self.expires_s),
            }
        return {
            **settings,
            "sasl.username": self.user,
            "sasl.password": self.password.reveal().decode(),
        }

    def secret(self) -> Secret:
        """Return the password, or a token that is valid now."""
        return self.password if self.refresh is None else Secret.of(self.refresh())


class Ask(NamedTuple):
    """A request that logging in consists of."""

    api_key: int
    api_version: int
    request: Message


#: Requests, and in the end the milliseconds for which the broker believes it; 0: for ever.
Asking = Generator[Ask, Any, int]


class MechanismMissing(LogInRefused):
    """The broker does not offer the mechanism."""


class CredentialsRefused(LogInRefused):
    """The broker does not accept user and password, or the token."""


def log_in_steps(log_in: LogIn) -> Asking:
    """Yield what is to be asked; the answer to each is sent in.

    Raises:
        LogInRefused: the broker refuses it, or does not offer the mechanism.
        BrokerNotTrusted: the broker does not know the password itself.
    """
    mechanism = log_in.mechanism
    handshake = yield Ask(ApiKey.SASL_HANDSHAKE, _VERSION, SaslHandshakeRequest(mechanism))
    if handshake.error_code:
        offered = ", ".join(handshake.mechanisms) or "none"
        raise MechanismMissing(
            f"the broker does not offer the mechanism {mechanism}; it offers {offered}"
        )
    if mechanism == "PLAIN":
        secret = log_in.secret().reveal()
        answer = yield from _step(log_in, b"\0" + log_in.user.encode() + b"\0" + secret)
        return int(answer.session_lifetime_ms)
    if log_in.is_token:
        return (yield from _present(log_in))
    client = ScramClient(
        SCRAM_MECHANISMS[mechanism], log_in.user, log_in.secret(), secrets.token_bytes(_NONCE_BYTES)
    )
    try:
        first = yield from _step(log_in, client.first())
        final = yield from _step(log_in, client.final(bytes(first.auth_bytes)))
        client.verify(bytes(final.auth_bytes))
    except ScramMessageRefused as refusal:
        raise BrokerNotTrusted(f"the broker's log-in cannot be trusted: {refusal}") from None
    return int(final.session_lifetime_ms)


def _present(log_in: LogIn) -> Asking:
    """Present a token; whoever is refused is told so, and has to answer before that counts."""
    answer = yield from _step(log_in, write_bearer(log_in.secret()))
    if answer.auth_bytes:
        answer = yield from _step(log_in, b"\x01")
    return int(answer.session_lifetime_ms)


def _step(log_in: LogIn, data: bytes) -> Generator[Ask, Any, Any]:
    answer = yield Ask(ApiKey.SASL_AUTHENTICATE, _VERSION, SaslAuthenticateRequest(data))
    if answer.error_code:
        raise CredentialsRefused(f"the broker has refused the log-in of {log_in.user!r}")
    return answer
