"""Sessions of people: a token for twelve hours, for a password and, where there is one, a code.

A session is a bearer token that remembers what it was given for. It ends when the password or the
second factor is changed, as well as by itself (`authentication.find_lapse`).
"""

from dataclasses import dataclass
from typing import Final

import msgspec

from kafkaesque.access.authentication import Failure, FailureReason, Success
from kafkaesque.access.credentials import BearerToken, CredentialId, totp_lookup
from kafkaesque.access.planner import ChangedMeanwhile, Records, plan_credential
from kafkaesque.access.principals import user_name
from kafkaesque.access.records import CredentialRemoved
from kafkaesque.access.sealing import ClusterKeys
from kafkaesque.access.second_factor import FactorUse, check_code, plan_use
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.tokens import make_token

SESSION_MS: Final = 12 * 60 * 60 * 1_000
#: Sessions of one person; one more ends the oldest.
SESSIONS_PER_USER_MAX: Final = 50
_ID_PREFIX: Final = "session/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A person has shown all that there is to show."""

    user: str
    password: Success
    #: What the second factor's code uses up; None: the person has none.
    use: FactorUse | None
    factor_epoch: int


def prove(
    state: AccessState, keys: ClusterKeys, password: Success, code: str, host: str, now_ms: int
) -> Proof | Failure:
    """Return what a right password and a code prove together.

    Raises:
        KeyUnknown, SealBroken: the secret cannot be opened with the keys of this broker.
    """
    user = user_name(password.principal) or ""
    factor = state.find(totp_lookup(user))
    if factor is None:
        return Proof(user=user, password=password, use=None, factor_epoch=0)
    use = check_code(state, keys, user, code, host, now_ms)
    if use is None:
        return Failure(reason=FailureReason.SECOND_FACTOR, user=user)
    return Proof(user=user, password=password, use=use, factor_epoch=factor.epoch)


def make_session(proof: Proof, session_id: str, secret: Secret, now_ms: int) -> BearerToken:
    """Return the credential for a session whose token is this secret."""
    token = make_token(
        CredentialId(_ID_PREFIX + session_id),
        proof.user,
        secret,
        expires_ms=now_ms + SESSION_MS,
        description="session",
    )
    return msgspec.structs.replace(
        token,
        proved_by=proof.password.credential or "",
        proved_epoch=proof.password.credential_epoch,
        factor_epoch=proof.factor_epoch,
    )


def plan_session(
    state: AccessState, session: BearerToken, use: FactorUse | None, now_ms: int
) -> Records:
    """Return the records that begin a session and use its code up, at the controller.

    Sessions of the person that are over are removed, and the oldest where there are too many.

    Raises:
        ChangedMeanwhile: the password or the second factor is not what was shown any more.
        CodeUsed: the code was used before, at this or another broker.
        OverBound: there are as many credentials as there may be.
    """
    password = state.credentials.get(CredentialId(session.proved_by))
    factor = state.find(totp_lookup(session.user))
    if (
        password is None
        or password.user != session.user
        or password.epoch != session.proved_epoch
        or session.factor_epoch != (0 if factor is None else factor.epoch)
        or (use is None) != (factor is None)
    ):
        raise ChangedMeanwhile("the password or the second factor was changed meanwhile")
    records: Records = [] if use is None else plan_use(state, use)
    records += (CredentialRemoved(id=each.id) for each in _ended(state, session.user, now_ms))
    return [*records, *plan_credential(state, session)]


def _ended(state: AccessState, user: str, now_ms: int) -> list[BearerToken]:
    """Return the sessions that have to go before another one begins."""
    sessions = sorted(sessions_of(state, user), key=lambda each: each.expires_ms)
    over = [each for each in sessions if each.expires_ms <= now_ms]
    left = sessions[len(over) :]
    return over + left[: max(0, len(left) - SESSIONS_PER_USER_MAX + 1)]


def sessions_of(state: AccessState, user: str) -> list[BearerToken]:
    """Return a person's sessions, also those that are over and not removed yet."""
    return [
        each
        for each in state.credentials_of(user)
        if isinstance(each, BearerToken) and each.is_session
    ]
