"""The table of mechanisms, and what holds of all of them."""

from __future__ import annotations

import base64
from collections.abc import Callable

import msgspec
import pytest

from kafkaesque.access.authentication import (
    Challenge,
    Failure,
    FailureReason,
    Outcome,
    Success,
    continued,
    find_lapse,
    finish,
)
from kafkaesque.access.credentials import AnyCredential, CertificateName, CredentialId
from kafkaesque.access.principals import Principal, User
from kafkaesque.access.records import CredentialPut, ExpiryChanged, UserPut, UserRemoved
from kafkaesque.access.sasl_mechanisms import (
    MECHANISMS,
    Checkers,
    Client,
    MechanismRefused,
    offered,
)
from kafkaesque.access.sasl_servers import start_authentication
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.sealing import ClusterKeys
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.tokens import make_token, write_token
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.model.errors import ConfigError, InvariantBroken
from tests.unit.access.makers import ALICE, HOST, NOW_MS, scram, state_of

TOKEN = Secret(bytes(range(32)))
PASSWORD = "alice-secret"


def checkers(state: AccessState) -> Checkers:
    return Checkers(
        access=lambda: state,
        keys=ClusterKeys({1: Secret(b"k" * 32)}),
        verified=VerifiedPasswords(lambda: Secret(b"process")),
    )


def client(*, is_encrypted: bool = True, certificate: str | None = "alice-laptop") -> Client:
    return Client(
        host=HOST,
        is_encrypted=is_encrypted,
        certificate_name=certificate,
        nonce=b"a nonce of 18 bytes",
    )


def credential_for(mechanism: str) -> AnyCredential:
    """What lets alice in by a mechanism."""
    if mechanism in SCRAM_MECHANISMS:
        return scram(mechanism=mechanism)
    if mechanism == "PLAIN":
        return scram()
    if mechanism == "OAUTHBEARER":
        return make_token(CredentialId("t"), "alice", TOKEN, expires_ms=0)
    return CertificateName(id=CredentialId("c"), user="alice", name="alice-laptop")


def log_in(mechanism: str, state: AccessState, *, now_ms: int = NOW_MS) -> Success | Failure:
    """Goes all the way with what alice has."""
    one = start_authentication(mechanism, MECHANISMS, checkers(state), client())
    outcome: Outcome
    if mechanism in SCRAM_MECHANISMS:
        ours = ScramClient(
            SCRAM_MECHANISMS[mechanism], "alice", Secret.of(PASSWORD), b"client nonce"
        )
        first = one.step(ours.first(), now_ms)
        assert isinstance(first, Challenge)
        outcome = one.step(ours.final(first.message), now_ms)
    else:
        message = {
            "PLAIN": b"\0alice\0" + PASSWORD.encode(),
            "OAUTHBEARER": b"n,,\x01auth=Bearer " + write_token(TOKEN).reveal() + b"\x01\x01",
            "EXTERNAL": b"",
        }[mechanism]
        outcome = finish(one, message, now_ms)
        if isinstance(outcome, Challenge):
            outcome = one.step(b"\x01", now_ms)
    assert isinstance(outcome, Success | Failure)
    return outcome


Change = Callable[[AnyCredential], AnyCredential]


def disabled(given: AnyCredential) -> AnyCredential:
    return msgspec.structs.replace(given, is_disabled=True)


def expired(given: AnyCredential) -> AnyCredential:
    return msgspec.structs.replace(given, expires_ms=NOW_MS)


def elsewhere(given: AnyCredential) -> AnyCredential:
    return msgspec.structs.replace(given, networks=("10.9.0.0/16",))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_lets_in_whoever_has_the_credential(mechanism: str) -> None:
    kept = credential_for(mechanism)
    outcome = log_in(mechanism, state_of(credentials=(kept,)))
    assert isinstance(outcome, Success)
    assert (outcome.principal, outcome.credential) == (ALICE, kept.id)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (disabled, FailureReason.DISABLED),
        (expired, FailureReason.EXPIRED),
        (elsewhere, FailureReason.NETWORK),
    ],
)
def test_none_lets_in_by_a_credential_that_must_not_be_used(
    mechanism: str, change: Change, reason: FailureReason
) -> None:
    outcome = log_in(mechanism, state_of(credentials=(change(credential_for(mechanism)),)))
    assert isinstance(outcome, Failure)
    assert outcome.reason is reason


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_none_lets_in_a_user_who_is_disabled(mechanism: str) -> None:
    off = User(name="alice", is_disabled=True)
    outcome = log_in(mechanism, state_of(users=(off,), credentials=(credential_for(mechanism),)))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.DISABLED


@pytest.mark.parametrize("mechanism", [each for each in MECHANISMS if each != "EXTERNAL"])
def test_none_lets_in_without_a_credential(mechanism: str) -> None:
    outcome = log_in(mechanism, state_of(users=(User(name="alice"),)))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.UNKNOWN


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_none_takes_a_message_after_its_end_or_work_that_it_did_not_give(mechanism: str) -> None:
    one = start_authentication(mechanism, MECHANISMS, checkers(state_of()), client())
    with pytest.raises(InvariantBroken):
        one.resume(True, NOW_MS)
    outcome: Outcome = finish(one, b"\xff\xff", NOW_MS)
    if isinstance(outcome, Challenge):
        outcome = one.step(b"", NOW_MS)
    assert isinstance(outcome, Failure)
    with pytest.raises(InvariantBroken):
        one.step(b"", NOW_MS)


def test_what_shows_a_secret_is_offered_over_tls_alone() -> None:
    assert offered(MECHANISMS, is_encrypted=True) == tuple(MECHANISMS)
    assert offered(MECHANISMS, is_encrypted=False) == ("SCRAM-SHA-512", "SCRAM-SHA-256")
    assert offered(["PLAIN"], is_encrypted=False) == ()
    with pytest.raises(MechanismRefused):
        start_authentication("PLAIN", MECHANISMS, checkers(state_of()), client(is_encrypted=False))


def test_what_is_not_enabled_or_not_known_is_refused() -> None:
    enabled = ["SCRAM-SHA-512"]
    for name in ("PLAIN", "SCRAM-SHA-256", "GSSAPI", "scram-sha-512", "", "x" * 100_000):
        with pytest.raises(MechanismRefused):
            start_authentication(name, enabled, checkers(state_of()), client())
    with pytest.raises(ConfigError):
        offered(["GSSAPI"], is_encrypted=True)


def external(data: bytes, certificate: str | None, state: AccessState) -> Success | Failure:
    one = start_authentication(
        "EXTERNAL", MECHANISMS, checkers(state), client(certificate=certificate)
    )
    outcome = one.step(data, NOW_MS)
    assert isinstance(outcome, Success | Failure)
    return outcome


def test_a_certificate_without_a_stored_credential_is_its_users() -> None:
    state = state_of()
    assert external(b"", "carol", state) == Success(principal=Principal("User:carol"))
    assert isinstance(external(b"carol", "carol", state), Success)
    assert external(b"admin", "carol", state) == Failure(reason=FailureReason.WRONG, user="carol")
    assert external(b"", None, state) == Failure(reason=FailureReason.UNKNOWN)
    assert external(b"carol", None, state) == Failure(reason=FailureReason.UNKNOWN)


def test_a_connection_must_go_when_its_credential_does() -> None:
    state = state_of(credentials=(scram(),))
    success = log_in("SCRAM-SHA-256", state)
    assert isinstance(success, Success)
    assert find_lapse(state, success, HOST, NOW_MS) is None
    soon = scram(expires_ms=NOW_MS + 5)
    for record, reason in (
        (UserPut(user=User(name="alice", is_disabled=True)), FailureReason.DISABLED),
        (UserRemoved(name="alice"), FailureReason.CHANGED),
        (CredentialPut(credential=soon), FailureReason.CHANGED),
        (ExpiryChanged(id=scram().id, expires_ms=NOW_MS), FailureReason.EXPIRED),
    ):
        assert find_lapse(state.apply(record), success, HOST, NOW_MS) is reason
    same = state.apply(UserPut(user=User(name="alice", kind="person")))
    assert find_lapse(same, success, HOST, NOW_MS) is None
    later = state.apply(ExpiryChanged(id=scram().id, expires_ms=NOW_MS + 1))
    assert find_lapse(later, success, HOST, NOW_MS) is None


def test_a_connection_must_go_when_what_it_has_shown_is_over() -> None:
    state = state_of(credentials=(scram(),))
    by_provider = Success(principal=Principal("User:carol"), expires_ms=NOW_MS)
    assert find_lapse(state, by_provider, HOST, NOW_MS - 1) is None
    assert find_lapse(state, by_provider, HOST, NOW_MS) is FailureReason.EXPIRED
    off = state.apply(UserPut(user=User(name="carol", is_disabled=True)))
    assert find_lapse(off, by_provider, HOST, NOW_MS - 1) is FailureReason.DISABLED
    # A longer life of the credential is had by showing it again.
    before = Success(principal=ALICE, credential=scram().id, credential_epoch=2, expires_ms=NOW_MS)
    assert find_lapse(state, before, HOST, NOW_MS - 1) is None
    assert find_lapse(state, before, HOST, NOW_MS) is FailureReason.EXPIRED


def test_nobody_becomes_somebody_else_by_a_re_authentication() -> None:
    before = Success(principal=ALICE, credential=CredentialId("a"))
    same = Success(principal=ALICE, credential=CredentialId("b"), expires_ms=9)
    other = Success(principal=Principal("User:bob"))
    failure = Failure(reason=FailureReason.WRONG)
    assert continued(before, same) is same
    assert continued(before, failure) is failure
    assert continued(before, other) == Failure(reason=FailureReason.OTHER_PRINCIPAL, user="bob")


def test_made_up_salts_stay_when_the_clusters_key_is_rotated() -> None:
    keys = {1: Secret(b"k" * 32)}
    rotated = {**keys, 2: Secret(b"n" * 32)}
    salts = set()
    for each in (keys, rotated):
        known = Checkers(
            access=state_of,
            keys=ClusterKeys(each),
            verified=VerifiedPasswords(lambda: Secret(b"process")),
        )
        one = start_authentication("SCRAM-SHA-256", MECHANISMS, known, client())
        outcome = one.step(b"n,,n=nobody,r=abc", NOW_MS)
        assert isinstance(outcome, Challenge)
        salts.add(base64.b64decode(outcome.message.split(b",")[1][2:]))
    assert len(salts) == 1
