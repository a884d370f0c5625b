"""The second factor of a person: a code of TOTP, or a recovery code, each of them once.

What is found right here is not yet a success: two brokers may be shown the same code at once. The
returned use is proposed to the controller, which lets one of them through.
"""

from dataclasses import dataclass

from kafkaesque.access.credentials import (
    CredentialId,
    RecoveryCodes,
    TotpSecret,
    recovery_lookup,
    totp_lookup,
)
from kafkaesque.access.planner import Records, plan_recovery_code, plan_totp_step
from kafkaesque.access.recovery_codes import find_code
from kafkaesque.access.sealing import ClusterKeys, totp_purpose
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.totp import find_step


@dataclass(frozen=True, slots=True, kw_only=True)
class TotpUse:
    """The code of this step was shown."""

    credential: CredentialId
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryUse:
    """This recovery code was shown."""

    credential: CredentialId
    digest: bytes


FactorUse = TotpUse | RecoveryUse


def totp_credential_id(user: str) -> CredentialId:
    """Return the id of a person's TOTP secret: each has one."""
    return CredentialId(f"totp/{user}")


def seal_totp(keys: ClusterKeys, user: str, secret: Secret, nonce: bytes) -> TotpSecret:
    """Return the credential for a TOTP secret; `nonce` is 12 random bytes.

    Raises:
        KeyUnknown: the cluster has no key.
    """
    credential_id = totp_credential_id(user)
    sealed = keys.seal(secret, totp_purpose(user, credential_id), nonce)
    return TotpSecret(id=credential_id, user=user, secret=sealed)


def has_second_factor(state: AccessState, user: str) -> bool:
    """Tell whether a person has to show a code beside the password."""
    return state.find(totp_lookup(user)) is not None


def check_code(
    state: AccessState, keys: ClusterKeys, user: str, code: str, host: str, now_ms: int
) -> FactorUse | None:
    """Return what a code uses up; None if it is wrong, was used, or must not be used here.

    Raises:
        KeyUnknown, SealBroken: the secret cannot be opened with the keys of this broker.
    """
    totp = state.find(totp_lookup(user))
    if isinstance(totp, TotpSecret) and totp.find_fault(host, now_ms) is None:
        secret = keys.open(totp.secret, totp_purpose(user, totp.id))
        step = find_step(secret, code, now_ms, used=state.totp_steps.get(totp.id, -1))
        if step is not None:
            return TotpUse(credential=totp.id, step=step)
    codes = state.find(recovery_lookup(user))
    if isinstance(codes, RecoveryCodes) and codes.find_fault(host, now_ms) is None:
        digest = find_code(codes, code)
        if digest is not None:
            return RecoveryUse(credential=codes.id, digest=digest)
    return None


def plan_use(state: AccessState, use: FactorUse) -> Records:
    """Return the records that use a code up, at the controller.

    Raises:
        CredentialUnknown: the second factor was removed meanwhile.
        CodeUsed: the code was used before, at this or another broker.
    """
    match use:
        case TotpUse():
            return plan_totp_step(state, use.credential, use.step)
        case RecoveryUse():
            return plan_recovery_code(state, use.credential, use.digest)
