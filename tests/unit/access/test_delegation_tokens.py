"""Delegation tokens: made by users, never by tokens; renewed by those who may, up to the end."""

from __future__ import annotations

import base64

import pytest

from kafkaesque.access.authentication import Challenge, Failure, FailureReason, Success, find_lapse
from kafkaesque.access.credentials import CredentialId, DelegationToken
from kafkaesque.access.delegation_tokens import (
    Requester,
    TokenConfig,
    TokenRandom,
    all_tokens,
    check_requester,
    ended_tokens,
    expire,
    is_party,
    make_delegation_token,
    renew,
)
from kafkaesque.access.errors import (
    TokenExpired,
    TokenOwnerMismatch,
    TokenRequestNotAllowed,
    TokenUnknown,
)
from kafkaesque.access.planner import plan_credential, plan_credential_removal, plan_token_change
from kafkaesque.access.principals import ANONYMOUS, ANY_USER, Principal
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS, ScramMechanism
from kafkaesque.access.scram_server import ScramContext, ScramServer
from kafkaesque.access.scram_verifiers import verifier_of_password
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import ConfigError, InvalidRequest
from tests.unit.access.makers import ALICE, BOB, HOST, NOW_MS

HOUR_MS = 60 * 60_000
CONFIG = TokenConfig()
SECRET = Secret(bytes(range(32)))
CAROL = Principal("User:carol")


def make(
    requester: Requester | None = None,
    *,
    owner: Principal = ALICE,
    renewers: tuple[str, ...] = (BOB,),
    lifetime_ms: int = -1,
) -> DelegationToken:
    return make_delegation_token(
        requester or Requester(principal=ALICE),
        owner=owner,
        renewers=renewers,
        lifetime_ms=lifetime_ms,
        random=TokenRandom(
            token_id=CredentialId("token-1"), secret=SECRET, salt=b"0123456789abcdef"
        ),
        config=CONFIG,
        now_ms=NOW_MS,
    )


TOKEN = make()
STATE = AccessState().apply_all(plan_credential(AccessState(), TOKEN))


def log_in(
    state: AccessState,
    mechanism: ScramMechanism,
    now_ms: int = NOW_MS,
    *,
    is_token: bool = True,
    name: str = "token-1",
) -> Success | Failure:
    server = ScramServer(
        ScramContext(
            mechanism=mechanism,
            access=lambda: state,
            host=HOST,
            nonce="c2VydmVyLW5vbmNl",
            decoy_key=b"key",
        )
    )
    password = Secret(base64.b64encode(SECRET.reveal()))
    client = ScramClient(mechanism, name, password, b"client nonce", is_token=is_token)
    first = server.step(client.first(), now_ms)
    assert isinstance(first, Challenge)
    outcome = server.step(client.final(first.message), now_ms)
    assert isinstance(outcome, Success | Failure)
    return outcome


@pytest.mark.parametrize("name", SCRAM_MECHANISMS)
def test_its_holder_logs_in_as_its_owner_and_is_known_as_a_holder(name: str) -> None:
    outcome = log_in(STATE, SCRAM_MECHANISMS[name])
    assert isinstance(outcome, Success)
    assert (outcome.principal, outcome.credential) == (ALICE, "token-1")
    assert outcome.is_token
    assert outcome.expires_ms == NOW_MS + 24 * HOUR_MS


def test_a_token_is_no_password_and_a_name_is_no_token() -> None:
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    unknown = log_in(STATE, mechanism, is_token=False)
    assert isinstance(unknown, Failure)
    assert unknown.reason is FailureReason.UNKNOWN
    other = log_in(STATE, mechanism, name="alice")
    assert isinstance(other, Failure)
    assert other.reason is FailureReason.UNKNOWN


def test_a_token_that_is_over_or_removed_lets_nobody_in() -> None:
    mechanism = SCRAM_MECHANISMS["SCRAM-SHA-256"]
    over = log_in(STATE, mechanism, TOKEN.expires_ms)
    assert isinstance(over, Failure)
    assert over.reason is FailureReason.EXPIRED
    removed = STATE.apply_all(plan_credential_removal(STATE, TOKEN.id))
    gone = log_in(removed, mechanism)
    assert isinstance(gone, Failure)
    success = log_in(STATE, mechanism)
    assert isinstance(success, Success)
    assert find_lapse(STATE, success, HOST, NOW_MS) is None
    assert find_lapse(removed, success, HOST, NOW_MS) is FailureReason.CHANGED
    assert find_lapse(STATE, success, HOST, TOKEN.expires_ms) is FailureReason.EXPIRED


def test_its_times_are_kafkas() -> None:
    assert (TOKEN.issued_ms, TOKEN.expires_ms, TOKEN.lifetime_end_ms) == (
        NOW_MS,
        NOW_MS + 24 * HOUR_MS,
        NOW_MS + 7 * 24 * HOUR_MS,
    )
    short = make(lifetime_ms=HOUR_MS)
    assert short.expires_ms == short.lifetime_end_ms == NOW_MS + HOUR_MS
    assert make(lifetime_ms=99 * 24 * HOUR_MS).lifetime_end_ms == TOKEN.lifetime_end_ms


HOLDER = Requester(principal=ALICE, is_token=True)


def test_a_holder_and_a_stranger_may_do_nothing_about_tokens() -> None:
    for who in (HOLDER, Requester(principal=ANONYMOUS)):
        with pytest.raises(TokenRequestNotAllowed):
            make(who)
        with pytest.raises(TokenRequestNotAllowed):
            renew(STATE, who, SECRET, -1, config=CONFIG, now_ms=NOW_MS)
        with pytest.raises(TokenRequestNotAllowed):
            expire(STATE, who, SECRET, -1, now_ms=NOW_MS)
        with pytest.raises(TokenRequestNotAllowed):
            check_requester(who)


def test_only_owner_requester_and_renewers_renew_and_expire() -> None:
    made = make(Requester(principal=CAROL), owner=ALICE)
    state = AccessState().apply_all(plan_credential(AccessState(), made))
    for who in (ALICE, BOB, CAROL):
        requester = Requester(principal=who)
        renew(state, requester, SECRET, -1, config=CONFIG, now_ms=NOW_MS)
        assert expire(state, requester, SECRET, -1, now_ms=NOW_MS) is None
    mallory = Requester(principal=Principal("User:mallory"))
    with pytest.raises(TokenOwnerMismatch):
        renew(state, mallory, SECRET, -1, config=CONFIG, now_ms=NOW_MS)
    with pytest.raises(TokenOwnerMismatch):
        expire(state, mallory, SECRET, -1, now_ms=NOW_MS)


def test_a_token_is_renewed_up_to_its_end_and_not_after() -> None:
    bob = Requester(principal=BOB)
    later = renew(STATE, bob, SECRET, 48 * HOUR_MS, config=CONFIG, now_ms=NOW_MS)
    assert later.expires_ms == NOW_MS + 48 * HOUR_MS
    longest = renew(STATE, bob, SECRET, 2**60, config=CONFIG, now_ms=NOW_MS)
    assert longest.expires_ms == TOKEN.lifetime_end_ms
    with pytest.raises(TokenExpired):
        renew(STATE, bob, SECRET, -1, config=CONFIG, now_ms=TOKEN.expires_ms)
    state = STATE.apply_all(plan_token_change(STATE, longest))
    with pytest.raises(TokenExpired):
        renew(state, bob, SECRET, -1, config=CONFIG, now_ms=TOKEN.lifetime_end_ms)
    success = log_in(state, SCRAM_MECHANISMS["SCRAM-SHA-256"])
    assert isinstance(success, Success)
    assert success.expires_ms == TOKEN.lifetime_end_ms
    assert find_lapse(state, log_in_success(STATE), HOST, NOW_MS) is None


def log_in_success(state: AccessState) -> Success:
    outcome = log_in(state, SCRAM_MECHANISMS["SCRAM-SHA-256"])
    assert isinstance(outcome, Success)
    return outcome


def test_expiring_shortens_and_never_wakes_what_is_over() -> None:
    alice = Requester(principal=ALICE)
    soon = expire(STATE, alice, SECRET, HOUR_MS, now_ms=NOW_MS)
    assert soon is not None
    assert soon.expires_ms == NOW_MS + HOUR_MS
    with pytest.raises(TokenExpired):
        expire(STATE, alice, SECRET, HOUR_MS, now_ms=TOKEN.expires_ms)
    assert expire(STATE, alice, SECRET, -1, now_ms=TOKEN.expires_ms) is None
    removed = STATE.apply_all(plan_credential_removal(STATE, TOKEN.id))
    with pytest.raises(TokenExpired):
        plan_token_change(removed, soon)


def test_a_secret_that_is_nobodys_is_unknown() -> None:
    with pytest.raises(TokenUnknown):
        renew(
            STATE, Requester(principal=ALICE), Secret(b"x" * 32), -1, config=CONFIG, now_ms=NOW_MS
        )


def test_owner_and_renewers_are_a_tokens_parties() -> None:
    assert is_party(TOKEN, ALICE)
    assert is_party(TOKEN, Principal(BOB))
    assert not is_party(TOKEN, CAROL)


def test_a_token_that_has_expired_is_listed_no_more() -> None:
    assert [each.id for each in all_tokens(STATE, NOW_MS)] == [TOKEN.id]
    assert all_tokens(STATE, TOKEN.expires_ms) == ()
    assert ended_tokens(STATE, NOW_MS) == ()
    assert ended_tokens(STATE, TOKEN.expires_ms) == (TOKEN.id,)


@pytest.mark.parametrize("principal", ["Role:ops", ANY_USER, ANONYMOUS, "alice"])
def test_only_users_own_and_renew_tokens(principal: str) -> None:
    with pytest.raises(InvalidRequest):
        make(renewers=(principal,))
    with pytest.raises(InvalidRequest):
        make(owner=Principal(principal))
    with pytest.raises(InvalidRequest):
        make(renewers=tuple(f"User:{each}" for each in range(101)))


def test_the_secret_is_not_in_the_state() -> None:
    written = STATE.write_snapshot()
    assert SECRET.reveal() not in written
    assert base64.b64encode(SECRET.reveal()) not in written


def test_options_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError):
        TokenConfig(lifetime_ms_max=10, expiry_ms=11)
    with pytest.raises(ConfigError):
        TokenConfig(expiry_ms=0)


def test_a_user_made_for_a_token_is_external_until_another_credential_comes() -> None:
    state = AccessState()
    state = state.apply_all(plan_credential(state, make()))
    assert state.users["alice"].is_external
    verifier = verifier_of_password(
        SCRAM_MECHANISMS["SCRAM-SHA-256"], "alice", Secret(b"secret"), b"a salt of tests", 4096
    )
    state = state.apply_all(plan_credential(state, verifier))
    assert not state.users["alice"].is_external
