"""SaslHandshake and SaslAuthenticate: clients say who they are (KIP-43, KIP-152, KIP-368).

A log-in is a handshake and one or more SaslAuthenticate; nothing may come between. A client that
has logged in does so again in the same way before its session ends, as the same principal. On an
open listener a name and a password are taken as they are, and the client stays anonymous.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.principals import ANONYMOUS
from kafkaesque.access.sasl_mechanisms import MechanismRefused
from kafkaesque.broker.listeners import LogInBy
from kafkaesque.chassis.login import Login, OnStep
from kafkaesque.gateway.kafka.call import Call, Caller
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.sasl_authenticate_request import SaslAuthenticateRequest
from kafkaesque.protocols.kafka.messages.sasl_authenticate_response import SaslAuthenticateResponse
from kafkaesque.protocols.kafka.messages.sasl_handshake_request import SaslHandshakeRequest
from kafkaesque.protocols.kafka.messages.sasl_handshake_response import SaslHandshakeResponse

#: Of the mechanisms, the ones that need no answer that only a checked password could give.
OPEN_MECHANISMS: Final = ("PLAIN",)
#: The same, whatever was wrong.
REFUSED: Final = "Authentication failed."


class OpenLogin:
    """On an open listener: whatever is sent is taken, and nobody becomes anybody by it."""

    __slots__ = ()

    def step(self, data: bytes, on_step: OnStep) -> None:
        """See `Login`."""
        on_step(Success(principal=ANONYMOUS))


def on_sasl_handshake(context: Context, call: Call) -> None:
    """Begin a log-in by a mechanism."""
    request: SaslHandshakeRequest = call.read()
    connection = call.connection
    if connection.sasl is not None:
        connection.refuse("a log-in was begun within a log-in")
        return
    if connection.shared.options.log_in_by is LogInBy.CERTIFICATE:
        # As Kafka's SSL listeners answer.
        call.answer(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        _hang_up(connection)
        return
    mechanisms = _offered(context, connection)
    if request.mechanism not in mechanisms or _is_switched(connection, request.mechanism):
        code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
        call.answer(SaslHandshakeResponse(error_code=code, mechanisms=mechanisms))
        _hang_up(connection)
        return
    try:
        connection.sasl = (
            Login(connection, request.mechanism) if connection.is_guarded else OpenLogin()
        )
    except MechanismRefused as refusal:
        connection.refuse(str(refusal))
        return
    connection.mechanism = request.mechanism
    call.answer(SaslHandshakeResponse(mechanisms=mechanisms))


def _offered(context: Context, connection: Caller) -> tuple[str, ...]:
    if not connection.is_guarded:
        return OPEN_MECHANISMS
    enabled = connection.shared.options.mechanisms
    return context.doors.access.mechanisms(enabled, is_encrypted=connection.is_private)


def _is_switched(connection: Caller, mechanism: str) -> bool:
    """Tell whether a client that has logged in wants to do so in another way."""
    login = connection.login
    return login is not None and not login.is_certificate and mechanism != connection.mechanism


def on_sasl_authenticate(context: Context, call: Call) -> None:
    """Take one step of the log-in."""
    request: SaslAuthenticateRequest = call.read()
    connection = call.connection
    sasl = connection.sasl
    if sasl is None:
        if connection.needs_login:
            connection.refuse("SaslAuthenticate came before SaslHandshake")
        else:
            call.answer(
                SaslAuthenticateResponse(
                    error_code=ErrorCode.ILLEGAL_SASL_STATE,
                    error_message="SaslAuthenticate came before SaslHandshake.",
                )
            )
        return

    def on_step(outcome: Challenge | Success | Failure) -> None:
        answer = SaslAuthenticateResponse(error_message=None)
        match outcome:
            case Challenge():
                answer.auth_bytes = outcome.message
            case Success():
                connection.sasl = None
                answer.auth_bytes = outcome.message
                answer.session_lifetime_ms = connection.session_lifetime_ms
            case Failure():
                answer.error_code = ErrorCode.SASL_AUTHENTICATION_FAILED
                answer.error_message = REFUSED
        call.answer(answer)
        if isinstance(outcome, Failure):
            _hang_up(connection)

    sasl.step(bytes(request.auth_bytes), on_step)


def _hang_up(connection: Caller) -> None:
    """Close when the answer has left; nothing more is begun."""
    connection.leave()
    connection.close()
