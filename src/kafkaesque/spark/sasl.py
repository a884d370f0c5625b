"""Saying who one is, right after a connection is open: SaslHandshake, then SaslAuthenticate."""

from __future__ import annotations

from typing import Any

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kafkaesque.protocols.kafka.messages.sasl_handshake_request import SaslHandshakeRequest
from kafkaesque.spark.connection import Connection
from kafkaesque.spark.errors import NotAuthenticated, check
from kafkaesque.spark.scram import ScramClient, ScramFailed
from kafkaesque.spark.security import SaslOptions

PLAIN = "PLAIN"
#: Mechanism -> what hashlib calls its hash.
SCRAM_HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}

_HANDSHAKE_VERSION, _AUTHENTICATE_VERSION = 1, 2


def authenticate(connection: Connection, options: SaslOptions) -> None:
    """Prove to a broker who this is; the connection is to be closed where that fails.

    Raises:
        NotAuthenticated: it would be the same again.
        OSError, MalformedRequest, Passing, Refused: as of other requests.
    """
    request = SaslHandshakeRequest(mechanism=options.mechanism)
    answer = connection.ask(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, request)
    address = connection.address
    if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        raise NotAuthenticated(
            f"the broker at {address} does not take kafka.sasl.mechanism {options.mechanism}, but"
            f" {', '.join(answer.mechanisms) or 'none'}"
        )
    if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
        raise NotAuthenticated(
            f"the broker at {address} has no SASL there: kafka.security.protocol or the port is"
            " another"
        )
    check(answer.error_code, f"SASL at {address}")
    if options.mechanism == PLAIN:
        done = _exchange(connection, options, f"\0{options.username}\0{options.password}".encode())
    else:
        done = _prove(connection, options)
    connection.limit_life(done.session_lifetime_ms / 1000)


def _prove(connection: Connection, options: SaslOptions) -> Any:
    client = ScramClient(SCRAM_HASHES[options.mechanism], options.username, options.password)
    try:
        answer = _exchange(connection, options, client.first)
        done = _exchange(connection, options, client.final(bytes(answer.auth_bytes)))
        client.verify(bytes(done.auth_bytes))
    except ScramFailed as error:
        raise NotAuthenticated(
            f"{options.mechanism} with the broker at {connection.address} failed: {error}"
        ) from None
    return done


def _exchange(connection: Connection, options: SaslOptions, message: bytes) -> Any:
    request = SaslAuthenticateRequest(auth_bytes=message)
    answer = connection.ask(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, request)
    if answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED:
        raise NotAuthenticated(
            f"the broker at {connection.address} does not accept user name and password of"
            f" {options.username!r} ({options.mechanism})"
        )
    check(answer.error_code, f"SASL at {connection.address}")
    return answer
