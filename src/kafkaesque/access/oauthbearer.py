"""SASL OAUTHBEARER (RFC 7628): a token of an OpenID provider, or one of our own.

    AWAIT_TOKEN --believed--------------------> OVER: success
    AWAIT_TOKEN --refused--> AWAIT_END --any--> OVER: failure

A refused client is told so in JSON, and has to answer before it is failed, as the RFC has it.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from kafkaesque.access.authentication import (
    Challenge,
    Failure,
    FailureReason,
    Outcome,
    Success,
    WithoutWork,
    settle,
)
from kafkaesque.access.credentials import OidcSubject, oidc_lookup, secret_digest, token_lookup
from kafkaesque.access.json_web_tokens import JwtRefused, JwtVerifier
from kafkaesque.access.principals import check_name, user_principal
from kafkaesque.access.scram_messages import ScramMessageRefused, read_saslname
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.tokens import read_token
from kafkaesque.model.errors import InvalidRequest, InvariantBroken, RequestRefused

MESSAGE_BYTES_MAX: Final = 20 * 1024
_REFUSED: Final = b'{"status":"invalid_token"}'
_HEADER: Final = re.compile(r"n,(a=([^,\x01]+))?,")
_PAIR: Final = re.compile(r"([A-Za-z]+)=([\x20-\x7e\t\r\n]*)")
_BEARER: Final = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/=-]+)")


class BearerMessageRefused(RequestRefused):
    """Not a message of OAUTHBEARER."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerMessage:
    """What a client has sent."""

    #: Whom it wants to act as; empty: whom the token names.
    authzid: str
    token: Secret


def read_bearer(data: bytes) -> BearerMessage:
    """Return what a client has sent.

    Raises:
        BearerMessageRefused: malformed or too long.
    """
    if len(data) > MESSAGE_BYTES_MAX:
        raise BearerMessageRefused("too long")
    try:
        header, *pairs = data.decode().split("\x01")
        found = _HEADER.fullmatch(header)
        authzid = read_saslname(found[2]) if found and found[1] else ""
    except (UnicodeDecodeError, ScramMessageRefused):
        raise BearerMessageRefused("malformed") from None
    if found is None or pairs[-2:] != ["", ""]:
        raise BearerMessageRefused("malformed")
    values: dict[str, str] = {}
    for each in pairs[:-2]:
        pair = _PAIR.fullmatch(each)
        if pair is None or pair[1] in values:
            raise BearerMessageRefused("malformed")
        values[pair[1]] = pair[2]
    bearer = _BEARER.fullmatch(values.get("auth", ""))
    if bearer is None:
        raise BearerMessageRefused("no bearer token")
    return BearerMessage(authzid=authzid, token=Secret.of(bearer[1]))


def write_bearer(token: Secret) -> bytes:
    """Return the message of a client that has a token; for our own command line."""
    return b"n,,\x01auth=Bearer " + token.reveal() + b"\x01\x01"


class BearerState(Enum):
    """What a server waits for."""

    AWAIT_TOKEN = auto()
    AWAIT_END = auto()
    OVER = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class BearerContext:
    """What one authentication goes by."""

    access: Callable[[], AccessState]
    host: str
    #: None: no OpenID provider is configured.
    verifier: JwtVerifier | None


class BearerServer(WithoutWork):
    """One client's authentication."""

    __slots__ = ("_context", "_failure", "_state")

    def __init__(self, context: BearerContext) -> None:
        self._context = context
        self._state = BearerState.AWAIT_TOKEN
        self._failure = Failure(reason=FailureReason.MALFORMED)

    def step(self, data: bytes, now_ms: int) -> Outcome:
        """Take the client's next message."""
        on_message = _STEPS.get(self._state)
        if on_message is None:
            raise InvariantBroken(f"a message of OAUTHBEARER in state {self._state.name}")
        return on_message(self, data, now_ms)

    def _on_token(self, data: bytes, now_ms: int) -> Outcome:
        try:
            message = read_bearer(data)
        except BearerMessageRefused:
            outcome: Success | Failure = self._failure
        else:
            outcome = check_bearer(self._context, message.token, now_ms)
            if isinstance(outcome, Success) and message.authzid not in ("", outcome.principal[5:]):
                outcome = Failure(reason=FailureReason.WRONG, user=message.authzid)
        if isinstance(outcome, Success):
            self._state = BearerState.OVER
            return outcome
        self._failure, self._state = outcome, BearerState.AWAIT_END
        return Challenge(message=_REFUSED)

    def _on_end(self, data: bytes, now_ms: int) -> Outcome:
        self._state = BearerState.OVER
        return self._failure


_STEPS: Final[dict[BearerState, Callable[[BearerServer, bytes, int], Outcome]]] = {
    BearerState.AWAIT_TOKEN: BearerServer._on_token,
    BearerState.AWAIT_END: BearerServer._on_end,
}


def check_bearer(context: BearerContext, token: Secret, now_ms: int) -> Success | Failure:
    """Return the outcome for whoever has a token, in whatever protocol it has come."""
    text = token.reveal().decode(errors="replace")
    own = read_token(text)
    if own is not None:
        state = context.access()
        found = state.find(token_lookup(secret_digest(own.reveal())))
        if found is None:
            return Failure(reason=FailureReason.UNKNOWN)
        return settle(state, found, context.host, now_ms)
    if context.verifier is None:
        return Failure(reason=FailureReason.UNKNOWN)
    try:
        return _check_jwt(context, context.verifier, text, now_ms)
    except JwtRefused as refused:
        return Failure(reason=refused.reason)


def _check_jwt(
    context: BearerContext, verifier: JwtVerifier, text: str, now_ms: int
) -> Success | Failure:
    claims, state = verifier.verify(text, now_ms), context.access()
    found = state.find(oidc_lookup(claims.issuer, claims.subject))
    if isinstance(found, OidcSubject):
        outcome = settle(state, found, context.host, now_ms)
        if isinstance(outcome, Failure):
            return outcome
        ends = [each for each in (outcome.expires_ms, claims.expires_ms) if each]
        return Success(
            principal=outcome.principal,
            credential=outcome.credential,
            credential_epoch=outcome.credential_epoch,
            expires_ms=min(ends),
        )
    # A name that is somebody's here is not to be had by choosing it at the provider.
    user = state.users.get(claims.name)
    if not verifier.config.admits_unknown_subjects or not (user is None or user.is_external):
        return Failure(reason=FailureReason.UNKNOWN, user=claims.name)
    if user is not None and user.is_disabled:
        return Failure(reason=FailureReason.DISABLED, user=claims.name)
    try:
        check_name(claims.name)
    except InvalidRequest:
        return Failure(reason=FailureReason.UNKNOWN)
    return Success(principal=user_principal(claims.name), expires_ms=claims.expires_ms)
