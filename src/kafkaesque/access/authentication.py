"""What all mechanisms have in common: steps in, outcomes out.

A mechanism takes what the client has sent and returns a challenge, a success or a failure; the
gateway sends them in its protocol's words. Checking a password takes milliseconds of one core: then
the outcome is that work, the gateway has it done off the loop, and brings the result to `resume`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from kafkaesque.access.credentials import (
    AnyCredential,
    BearerToken,
    CredentialFault,
    CredentialId,
    Password,
    SaltedDigest,
    ScramVerifier,
    totp_lookup,
)
from kafkaesque.access.principals import Principal, user_name, user_principal
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvariantBroken


class FailureReason(Enum):
    """Why somebody did not get in. For the audit log; clients are told the same of all."""

    MALFORMED = "malformed message"
    UNKNOWN = "no such user or credential"
    WRONG = "wrong password, proof or signature"
    DISABLED = "the credential or the user is disabled"
    EXPIRED = "the credential has expired"
    NETWORK = "the credential is not for this network"
    CHANGED = "the credential was changed meanwhile"
    SECOND_FACTOR = "no second factor, or a wrong one"
    OTHER_PRINCIPAL = "re-authentication as another user"


_REASONS: Final = {
    CredentialFault.DISABLED: FailureReason.DISABLED,
    CredentialFault.EXPIRED: FailureReason.EXPIRED,
    CredentialFault.NETWORK: FailureReason.NETWORK,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """Send this, and wait for the client's next message."""

    message: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Success:
    """The client is who it says."""

    principal: Principal
    #: Which credential has proved it, and in which epoch; None where none is stored.
    credential: CredentialId | None = None
    credential_epoch: int = 0
    #: Unix time at which the connection must have proved it again or be closed; 0: never.
    expires_ms: int = 0
    #: A delegation token's holder: may not create tokens.
    is_token: bool = False
    #: A certificate alone has proved it: the client may still log in, as whomever it can prove.
    is_certificate: bool = False
    #: Whether whoever asks sees to the second factor, so that the password is not all.
    shows_second_factor: bool = False
    #: To be sent with the success.
    message: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The client is not let in."""

    reason: FailureReason
    #: Whom it said to be, as far as that is known; for the audit log and for slowing down guesses.
    user: str = ""
    #: To be sent with the failure, where the mechanism has a form for it.
    message: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class PasswordWork:
    """Milliseconds of work, to be done off the loop; `run` gives what `resume` takes."""

    run: Callable[[], bool]


Outcome = Challenge | Success | Failure | PasswordWork


class Authentication(Protocol):
    """One client's way through a mechanism.

    Raises of both methods:
        InvariantBroken: called out of turn: after the end, or without work under way.
    """

    @property
    def user(self) -> str:
        """Whom the client says to be; empty as long as that is not known."""

    def step(self, data: bytes, now_ms: int) -> Outcome:
        """Take what the client has sent."""

    def resume(self, is_right: bool, now_ms: int) -> Outcome:
        """Take the result of the work."""


class WithoutWork:
    """Base of mechanisms that never have work to be done off the loop."""

    __slots__ = ()

    @property
    def user(self) -> str:
        """Whom the client says to be; known at the end only."""
        return ""

    def resume(self, is_right: bool, now_ms: int) -> Outcome:
        """Take the result of the work; there is none."""
        raise InvariantBroken(f"{type(self).__name__} has no work under way")


def finish(
    authentication: Authentication, data: bytes, now_ms: int
) -> Challenge | Success | Failure:
    """Take a step and do its work at once, where waiting for it hurts nobody."""
    outcome = authentication.step(data, now_ms)
    if isinstance(outcome, PasswordWork):
        outcome = authentication.resume(outcome.run(), now_ms)
        if isinstance(outcome, PasswordWork):
            raise InvariantBroken("one piece of work after the other")
    return outcome


def settle(
    state: AccessState,
    credential: AnyCredential,
    host: str,
    now_ms: int,
    *,
    message: bytes = b"",
    is_token: bool = False,
    shows_second_factor: bool = False,
) -> Success | Failure:
    """Return the outcome for a client that has proved a credential.

    By the state of now: a credential that was changed or removed since the first step proves
    nothing, and neither does one that is disabled, expired or not for this network.
    """
    success = Success(
        principal=user_principal(credential.user),
        credential=credential.id,
        credential_epoch=credential.epoch,
        expires_ms=credential.expires_ms,
        is_token=is_token,
        shows_second_factor=shows_second_factor,
        message=message,
    )
    reason = find_lapse(state, success, host, now_ms)
    return success if reason is None else Failure(reason=reason, user=credential.user)


def find_lapse(
    state: AccessState, success: Success, host: str, now_ms: int
) -> FailureReason | None:
    """Return why a client that was let in must go, or None if it may stay.

    To be asked for each open connection when the state has changed, and when its time is over.
    """
    user = state.users.get(user_name(success.principal) or "")
    if user is not None and user.is_disabled:
        return FailureReason.DISABLED
    if success.expires_ms and now_ms >= success.expires_ms:
        return FailureReason.EXPIRED
    if success.credential is None:
        return None
    credential = state.credentials.get(success.credential)
    if user is None or credential is None or credential.epoch != success.credential_epoch:
        return FailureReason.CHANGED
    fault = credential.find_fault(host, now_ms)
    if fault is not None:
        return _REASONS[fault]
    return _find_missing_proof(state, success, credential)


def _find_missing_proof(
    state: AccessState, success: Success, credential: AnyCredential
) -> FailureReason | None:
    """Return what a credential lacks: the password or the second factor that stand behind it."""
    factor = state.find(totp_lookup(credential.user))
    if isinstance(credential, BearerToken) and credential.is_session:
        password = state.credentials.get(CredentialId(credential.proved_by))
        if password is None or password.epoch != credential.proved_epoch or password.is_disabled:
            return FailureReason.CHANGED
        is_shown = factor is not None and factor.epoch == credential.factor_epoch
    elif isinstance(credential, ScramVerifier | Password | SaltedDigest):
        is_shown = success.shows_second_factor
    else:
        return None
    return None if factor is None or is_shown else FailureReason.SECOND_FACTOR


def continued(before: Success, outcome: Success | Failure) -> Success | Failure:
    """Return the outcome of a re-authentication (KIP-368): nobody becomes somebody else by it.

    A log-in after a certificate is no re-authentication, but the first.
    """
    if before.is_certificate:
        return outcome
    if isinstance(outcome, Success) and outcome.principal != before.principal:
        return Failure(
            reason=FailureReason.OTHER_PRINCIPAL, user=user_name(outcome.principal) or ""
        )
    return outcome
