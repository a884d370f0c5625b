"""PLAIN: a name and a password, checked against what there is."""

from __future__ import annotations

import msgspec
import pytest

from kafkaesque.access.authentication import (
    Failure,
    FailureReason,
    PasswordWork,
    Success,
    finish,
)
from kafkaesque.access.credentials import CredentialId, TotpSecret
from kafkaesque.access.passwords import hash_password
from kafkaesque.access.plain import PlainContext, PlainServer, find_checked, is_right_password
from kafkaesque.access.records import CredentialPut
from kafkaesque.access.sealed import Sealed
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.verified_passwords import (
    REMEMBERED_MAX,
    REMEMBERED_MS,
    VerifiedPasswords,
)
from kafkaesque.model.errors import InvalidRequest, InvariantBroken
from tests.unit.access.makers import HOST, NOW_MS, scram, state_of

PERSON = hash_password("petra", Secret.of("petra-secret"), b"0123456789abcdef")
TOTP = TotpSecret(
    id=CredentialId("totp"),
    user="petra",
    secret=Sealed(key_version=1, nonce=bytes(12), ciphertext=b""),
)


def server(state: AccessState, verified: VerifiedPasswords | None = None) -> PlainServer:
    return PlainServer(
        PlainContext(
            access=lambda: state,
            host=HOST,
            decoy_key=b"the cluster's own key",
            verified=verified or VerifiedPasswords(lambda: Secret(b"process")),
        )
    )


def log_in(state: AccessState, message: bytes) -> Success | Failure:
    outcome = finish(server(state), message, NOW_MS)
    assert isinstance(outcome, Success | Failure)
    return outcome


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_password_is_checked_against_a_verifier_of_scram(mechanism: str) -> None:
    state = state_of(credentials=(scram(mechanism=mechanism),))
    outcome = log_in(state, b"\0alice\0alice-secret")
    assert isinstance(outcome, Success)
    assert outcome.principal == "User:alice"
    assert isinstance(log_in(state, b"alice\0alice\0alice-secret"), Success)
    outcome = log_in(state, b"\0alice\0alice-secres")
    assert outcome == Failure(reason=FailureReason.WRONG, user="alice")


def test_a_password_is_checked_against_a_persons() -> None:
    state = state_of(credentials=(PERSON,))
    assert isinstance(log_in(state, b"\0petra\0petra-secret"), Success)
    outcome = log_in(state, b"\0petra\0alice-secret")
    assert outcome == Failure(reason=FailureReason.WRONG, user="petra")


def test_a_person_with_a_second_factor_does_not_get_in_without_it() -> None:
    outcome = log_in(state_of(credentials=(PERSON, TOTP)), b"\0petra\0petra-secret")
    assert outcome == Failure(reason=FailureReason.SECOND_FACTOR, user="petra")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"alice",
        b"\0alice",
        b"\0\0alice-secret",
        b"\0alice\0",
        b"bob\0alice\0alice-secret",
        b"\0alice\0alice-secret\0",
        b"\0\xff\0alice-secret",
        b"\0alice\0" + b"x" * 1_025,
    ],
)
def test_a_malformed_message_ends_it(message: bytes) -> None:
    state = state_of(credentials=(scram(),))
    assert log_in(state, message) == Failure(reason=FailureReason.MALFORMED)


def test_an_unknown_name_costs_the_work_of_one_that_is_known() -> None:
    for credentials in ((scram(iterations=8192),), (PERSON,), (scram(), PERSON)):
        state = state_of(credentials=credentials)
        for number in range(8):
            outcome = server(state).step(f"\0nobody-{number}\0secret".encode(), NOW_MS)
            assert isinstance(outcome, PasswordWork)
            against = outcome.run.args[0]  # type: ignore[attr-defined]
            kinds = {type(each) for each in state.credentials.values()}
            assert type(against) in kinds or type(against) is type(scram())
            if credentials == (scram(iterations=8192),):
                assert against.iterations == 8192
            assert outcome.run() is False


def test_nobodys_password_lets_nobody_in_even_if_it_were_right() -> None:
    one = server(state_of())
    assert isinstance(one.step(b"\0nobody\0secret", NOW_MS), PasswordWork)
    outcome = one.resume(True, NOW_MS)
    assert outcome == Failure(reason=FailureReason.UNKNOWN, user="nobody")


@pytest.mark.parametrize(
    ("credential", "reason"),
    [
        (scram(is_disabled=True), FailureReason.DISABLED),
        (scram(expires_ms=NOW_MS), FailureReason.EXPIRED),
        (scram(networks=("10.1.0.0/16",)), FailureReason.NETWORK),
    ],
)
def test_a_credential_that_must_not_be_used_fails(
    credential: object, reason: FailureReason
) -> None:
    state = state_of(credentials=(credential,))  # type: ignore[arg-type]
    assert log_in(state, b"\0alice\0alice-secret") == Failure(reason=reason, user="alice")


def test_a_password_that_was_right_a_moment_ago_costs_no_work() -> None:
    state, verified = (
        state_of(credentials=(scram(),)),
        VerifiedPasswords(lambda: Secret(b"process")),
    )
    message = b"\0alice\0alice-secret"
    assert isinstance(finish(server(state, verified), message, NOW_MS), Success)
    later = NOW_MS + REMEMBERED_MS - 1
    assert isinstance(server(state, verified).step(message, later), Success)
    wrong = server(state, verified).step(b"\0alice\0wrong", NOW_MS)
    assert isinstance(wrong, PasswordWork)
    assert isinstance(server(state, verified).step(message, later + 1), PasswordWork)


def test_a_changed_credential_is_checked_again_though_the_password_was_right() -> None:
    state, verified = (
        state_of(credentials=(scram(),)),
        VerifiedPasswords(lambda: Secret(b"process")),
    )
    message = b"\0alice\0alice-secret"
    assert isinstance(finish(server(state, verified), message, NOW_MS), Success)
    changed = state.apply(CredentialPut(credential=scram(password="other")))
    outcome = finish(server(changed, verified), message, NOW_MS)
    assert outcome == Failure(reason=FailureReason.WRONG, user="alice")
    off = state.apply(CredentialPut(credential=scram(is_disabled=True)))
    outcome = finish(server(off, verified), message, NOW_MS)
    assert outcome == Failure(reason=FailureReason.DISABLED, user="alice")


def test_wrong_passwords_are_not_remembered_and_right_ones_up_to_a_bound() -> None:
    verified = VerifiedPasswords(lambda: Secret(b"process"))
    one = scram()
    for number in range(REMEMBERED_MAX + 1):
        verified.remember(one, Secret.of(str(number)), NOW_MS)
    assert not verified.has(one, Secret.of("0"), NOW_MS)
    assert verified.has(one, Secret.of("1"), NOW_MS)
    assert not verified.has(msgspec.structs.replace(one, epoch=9), Secret.of("1"), NOW_MS)


def test_steps_out_of_turn_are_a_defect_of_ours() -> None:
    one = server(state_of(credentials=(scram(),)))
    with pytest.raises(InvariantBroken):
        one.resume(True, NOW_MS)
    one.step(b"\0alice\0alice-secret", NOW_MS)
    with pytest.raises(InvariantBroken):
        one.step(b"\0alice\0alice-secret", NOW_MS)


def test_passwords_have_bounds() -> None:
    salt = b"0123456789abcdef"
    for password in ("short", "x" * 1_025):
        with pytest.raises(InvalidRequest):
            hash_password("petra", Secret.of(password), salt)
    with pytest.raises(InvalidRequest):
        hash_password("petra", Secret.of("long enough"), b"short")
    assert not is_right_password(PERSON, Secret.of("x" * 1_025))
    assert find_checked(state_of(credentials=(PERSON,)), "petra") is not None


def test_the_time_does_not_tell_a_password_where_a_code_is_missing() -> None:
    """What is remembered is answered at once: guesses of a password would be told apart by that."""
    state = state_of(credentials=(PERSON, TOTP))
    verified = VerifiedPasswords(lambda: Secret(b"process"))
    for _ in range(2):
        authentication = server(state, verified)
        outcome = authentication.step(b"\0petra\0petra-secret", NOW_MS)
        assert isinstance(outcome, PasswordWork)
        refused = authentication.resume(True, NOW_MS)
        assert refused == Failure(reason=FailureReason.SECOND_FACTOR, user="petra")
