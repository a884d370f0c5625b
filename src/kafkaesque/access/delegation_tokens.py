"""Delegation tokens (KIP-48, KIP-373): made, renewed and expired by Kafka's rules.

A token is 256 random bits. Its holder logs in by SCRAM with the token's id as name and the secret
in base64 as password. Only a hash and two verifiers are kept: DescribeDelegationToken cannot show
the secret again, as Kafka's does. Whoever came in by a token may neither make nor change tokens.
"""

import base64
from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.access.credentials import (
    RENEWERS_MAX,
    CredentialId,
    DelegationToken,
    TokenVerifier,
    delegation_digest_lookup,
    secret_digest,
)
from kafkaesque.access.errors import (
    TokenExpired,
    TokenOwnerMismatch,
    TokenRequestNotAllowed,
    TokenUnknown,
)
from kafkaesque.access.principals import ANONYMOUS, Principal, read_principal, user_name
from kafkaesque.access.scram_mechanisms import ITERATIONS_MIN, SALT_BYTES_MIN, SCRAM_MECHANISMS
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import ConfigError, InvalidRequest, InvariantBroken

SECRET_BYTES: Final = 32
_HOUR_MS: Final = 60 * 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenConfig:
    """Kafka's two options of delegation tokens.

    Raises:
        ConfigError: out of range, or they contradict each other.
    """

    #: delegation.token.max.lifetime.ms
    lifetime_ms_max: int = 7 * 24 * _HOUR_MS
    #: delegation.token.expiry.time.ms
    expiry_ms: int = 24 * _HOUR_MS

    def __post_init__(self) -> None:
        if not 1 <= self.expiry_ms <= self.lifetime_ms_max <= 2**53:
            raise ConfigError(
                f"expiry_ms={self.expiry_ms} must be from 1 to lifetime_ms_max="
                f"{self.lifetime_ms_max}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Requester:
    """Who asks."""

    principal: Principal
    #: Whether the connection was itself authenticated by a delegation token.
    is_token: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRandom:
    """What is random in a token."""

    token_id: CredentialId
    secret: Secret
    salt: bytes


def make_delegation_token(
    requester: Requester,
    *,
    owner: Principal,
    renewers: tuple[str, ...],
    lifetime_ms: int,
    random: TokenRandom,
    config: TokenConfig,
    now_ms: int,
) -> DelegationToken:
    """Return a new token; work of 2 ms. Whether it may be made for another owner is the judge's.

    A lifetime below 0 stands for the longest.

    Raises:
        TokenRequestNotAllowed: asked for by a token's holder, or by nobody in particular.
        InvalidRequest: the owner or a renewer is no user, or there are too many.
    """
    check_requester(requester)
    if len(renewers) > RENEWERS_MAX:
        raise InvalidRequest(f"a token has at most {RENEWERS_MAX} renewers")
    for each in renewers:
        _check_user(read_principal(each))
    lifetime_ms = config.lifetime_ms_max if lifetime_ms < 0 else lifetime_ms
    end_ms = now_ms + min(lifetime_ms, config.lifetime_ms_max)
    return DelegationToken(
        id=random.token_id,
        user=_check_user(owner),
        digest=secret_digest(random.secret.reveal()),
        requester=requester.principal,
        renewers=tuple(dict.fromkeys(renewers)),
        issued_ms=now_ms,
        expires_ms=min(now_ms + config.expiry_ms, end_ms),
        lifetime_end_ms=end_ms,
        verifiers=_make_verifiers(random),
    )


def renew(
    state: AccessState,
    requester: Requester,
    secret: Secret,
    period_ms: int,
    *,
    config: TokenConfig,
    now_ms: int,
) -> DelegationToken:
    """Return the token with a later expiry, never past its lifetime.

    A period below 0 stands for `expiry_ms`.

    Raises:
        TokenRequestNotAllowed: asked for by a token's holder, or by nobody in particular.
        TokenUnknown, TokenExpired: there is no such token, or no longer.
        TokenOwnerMismatch: the requester is neither its owner nor one of its renewers.
    """
    token = find_own(state, requester, secret)
    _check_alive(token, now_ms)
    period_ms = config.expiry_ms if period_ms < 0 else period_ms
    return _expiring(token, now_ms + period_ms)


def expire(
    state: AccessState, requester: Requester, secret: Secret, period_ms: int, *, now_ms: int
) -> DelegationToken | None:
    """Return the token with another expiry; None if it is to be removed: a period below 0 says so.

    Raises:
        TokenRequestNotAllowed, TokenUnknown, TokenExpired, TokenOwnerMismatch: see `renew`.
    """
    token = find_own(state, requester, secret)
    if period_ms < 0:
        return None
    _check_alive(token, now_ms)
    return _expiring(token, now_ms + period_ms)


def all_tokens(state: AccessState, now_ms: int) -> tuple[DelegationToken, ...]:
    """Return the tokens that have not expired."""
    tokens = (each for each in state.credentials.values() if isinstance(each, DelegationToken))
    return tuple(each for each in tokens if now_ms < each.expires_ms)


def ended_tokens(state: AccessState, now_ms: int) -> tuple[CredentialId, ...]:
    """Return the tokens that can be removed: they have expired, and nobody can renew them."""
    tokens = (each for each in state.credentials.values() if isinstance(each, DelegationToken))
    return tuple(each.id for each in tokens if now_ms >= each.expires_ms)


def token_owner(token: DelegationToken) -> Principal:
    """Return the principal whom a token's holder acts as."""
    return Principal(f"User:{token.user}")


def is_party(token: DelegationToken, principal: Principal) -> bool:
    """Tell whether somebody may renew and expire a token."""
    return principal in (token_owner(token), token.requester, *token.renewers)


def check_requester(requester: Requester) -> None:
    """Refuse whoever may ask nothing about tokens.

    Raises:
        TokenRequestNotAllowed: came in by a token, or without saying who it is.
    """
    if requester.is_token:
        raise TokenRequestNotAllowed(
            "a user who logged in by a token may not make or change tokens"
        )
    if requester.principal == ANONYMOUS:
        raise TokenRequestNotAllowed("a client that has not logged in has no tokens")


def find_own(state: AccessState, requester: Requester, secret: Secret) -> DelegationToken:
    """Return the token of a secret, for its owner, its requester and its renewers.

    Raises:
        TokenRequestNotAllowed, TokenUnknown, TokenOwnerMismatch: see `renew`.
    """
    check_requester(requester)
    token = state.find(delegation_digest_lookup(secret_digest(secret.reveal())))
    if not isinstance(token, DelegationToken):
        raise TokenUnknown("there is no such token")
    if not is_party(token, requester.principal):
        raise TokenOwnerMismatch(f"{requester.principal} is neither owner nor renewer of the token")
    return token


def _check_alive(token: DelegationToken, now_ms: int) -> None:
    if now_ms >= token.expires_ms or now_ms >= token.lifetime_end_ms:
        raise TokenExpired("the token's time is over")


def _expiring(token: DelegationToken, expires_ms: int) -> DelegationToken:
    return msgspec.structs.replace(token, expires_ms=min(expires_ms, token.lifetime_end_ms))


def _check_user(principal: Principal) -> str:
    name = user_name(principal)
    if name is None or name == "*" or principal == ANONYMOUS:
        raise InvalidRequest(f"{principal} cannot have or renew a token: it is no user")
    return name


def _make_verifiers(random: TokenRandom) -> tuple[TokenVerifier, ...]:
    if len(random.secret.reveal()) != SECRET_BYTES or len(random.salt) < SALT_BYTES_MIN:
        raise InvariantBroken("a delegation token has 256 random bits, and a salt")
    password = base64.b64encode(random.secret.reveal())
    found = []
    for mechanism in SCRAM_MECHANISMS.values():
        salted = mechanism.salted_password(password, random.salt, ITERATIONS_MIN)
        found.append(
            TokenVerifier(
                mechanism=mechanism.name,
                salt=random.salt,
                iterations=ITERATIONS_MIN,
                stored_key=mechanism.stored_key(salted),
                server_key=mechanism.server_key(salted),
            )
        )
    return tuple(found)
