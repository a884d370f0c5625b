"""TOTP and recovery codes: the RFC's own values, and no code twice, at whichever broker."""

from __future__ import annotations

import pytest

from kafkaesque.access.credentials import CredentialId, RecoveryCodes, TotpSecret
from kafkaesque.access.errors import CodeUsed, CredentialUnknown, SealBroken
from kafkaesque.access.planner import plan_credential, plan_totp_step
from kafkaesque.access.recovery_codes import CODES, find_code, make_codes
from kafkaesque.access.sealing import ClusterKeys, totp_purpose
from kafkaesque.access.second_factor import (
    RecoveryUse,
    TotpUse,
    check_code,
    has_second_factor,
    plan_use,
)
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.totp import find_step, step_of, write_code, write_uri
from kafkaesque.model.errors import InvariantBroken
from tests.unit.access.makers import HOST, NOW_MS, state_of

KEYS = ClusterKeys({1: Secret(bytes(range(32)))})
SECRET = Secret(b"12345678901234567890")
TOTP_ID = CredentialId("totp/petra")
TOTP = TotpSecret(
    id=TOTP_ID,
    user="petra",
    secret=KEYS.seal(SECRET, totp_purpose("petra", TOTP_ID), b"nonce-of-12!"),
)
CODES_KEPT, CODE_TEXTS = make_codes("petra", bytes(range(100)))
STATE = state_of(credentials=(TOTP, CODES_KEPT))

SHA_1 = ("sha1", b"1234567890" * 2)
SHA_256 = ("sha256", (b"1234567890" * 4)[:32])
SHA_512 = ("sha512", (b"1234567890" * 7)[:64])


@pytest.mark.parametrize(
    ("seconds", "kind", "code"),
    [
        (59, SHA_1, "94287082"),
        (59, SHA_256, "46119246"),
        (59, SHA_512, "90693936"),
        (1111111109, SHA_1, "07081804"),
        (1111111109, SHA_256, "68084774"),
        (1111111109, SHA_512, "25091201"),
        (1111111111, SHA_1, "14050471"),
        (1111111111, SHA_256, "67062674"),
        (1111111111, SHA_512, "99943326"),
        (1234567890, SHA_1, "89005924"),
        (1234567890, SHA_256, "91819424"),
        (1234567890, SHA_512, "93441116"),
        (2000000000, SHA_1, "69279037"),
        (2000000000, SHA_256, "90698825"),
        (2000000000, SHA_512, "38618901"),
        (20000000000, SHA_1, "65353130"),
        (20000000000, SHA_256, "77737706"),
        (20000000000, SHA_512, "47863826"),
    ],
)
def test_the_values_of_rfc_6238(seconds: int, kind: tuple[str, bytes], code: str) -> None:
    digest, secret = kind
    step = step_of(seconds * 1000)
    assert write_code(Secret(secret), step, digits=8, digest=digest) == code


def test_the_codes_of_the_steps_around_now_are_taken() -> None:
    now = step_of(NOW_MS)
    taken = [
        step - now
        for step in range(now - 3, now + 4)
        if find_step(SECRET, write_code(SECRET, step), NOW_MS) == step
    ]
    assert taken == [-1, 0, 1]
    assert find_step(SECRET, "", NOW_MS) is None
    assert find_step(SECRET, write_code(SECRET, now)[:-1], NOW_MS) is None
    wide = "".join(chr(0xFF10 + int(each)) for each in code_now())
    assert find_step(SECRET, wide, NOW_MS) is None


def test_steps_up_to_the_newest_that_was_used_do_not_count() -> None:
    now = step_of(NOW_MS)
    assert find_step(SECRET, write_code(SECRET, now), NOW_MS, used=now) is None
    assert find_step(SECRET, write_code(SECRET, now - 1), NOW_MS, used=now) is None
    assert find_step(SECRET, write_code(SECRET, now + 1), NOW_MS, used=now) == now + 1


def code_now(offset: int = 0) -> str:
    return write_code(SECRET, step_of(NOW_MS) + offset)


def test_a_code_at_two_brokers_lets_one_of_them_through() -> None:
    here = check_code(STATE, KEYS, "petra", code_now(), HOST, NOW_MS)
    there = check_code(STATE, KEYS, "petra", code_now(), HOST, NOW_MS)
    assert here == there == TotpUse(credential=TOTP_ID, step=step_of(NOW_MS))
    assert here is not None
    state = STATE.apply_all(plan_use(STATE, here))
    with pytest.raises(CodeUsed):
        plan_use(state, here)
    assert check_code(state, KEYS, "petra", code_now(), HOST, NOW_MS) is None
    assert check_code(state, KEYS, "petra", code_now(-1), HOST, NOW_MS) is None
    with pytest.raises(CodeUsed):
        plan_totp_step(state, TOTP_ID, step_of(NOW_MS) - 1)
    assert check_code(state, KEYS, "petra", code_now(1), HOST, NOW_MS) is not None


def test_a_used_step_outlives_a_snapshot_and_a_change_of_the_credential() -> None:
    use = TotpUse(credential=TOTP_ID, step=step_of(NOW_MS))
    state = STATE.apply_all(plan_use(STATE, use))
    state = AccessState.read_snapshot(state.write_snapshot())
    state = state.apply_all(plan_credential(state, TOTP))
    with pytest.raises(CodeUsed):
        plan_use(state, use)


def test_a_recovery_code_at_two_brokers_lets_one_of_them_through() -> None:
    code = CODE_TEXTS[3].reveal().decode()
    here = check_code(STATE, KEYS, "petra", code, HOST, NOW_MS)
    assert isinstance(here, RecoveryUse)
    assert check_code(STATE, KEYS, "petra", code.lower().replace("-", ""), HOST, NOW_MS) == here
    state = STATE.apply_all(plan_use(STATE, here))
    with pytest.raises(CodeUsed):
        plan_use(state, here)
    assert check_code(state, KEYS, "petra", code, HOST, NOW_MS) is None
    other = CODE_TEXTS[4].reveal().decode()
    assert check_code(state, KEYS, "petra", other, HOST, NOW_MS) is not None


def test_recovery_codes_are_ten_different_ones_of_which_only_hashes_are_kept() -> None:
    texts = [each.reveal().decode() for each in CODE_TEXTS]
    assert len(set(texts)) == len(set(CODES_KEPT.digests)) == CODES
    assert all(len(each) == 19 and each.count("-") == 3 for each in texts)
    assert find_code(CODES_KEPT, "AAAA-AAAA-AAAA-AAAA") is None
    assert find_code(CODES_KEPT, "") is None
    foreign = RecoveryCodes(id=CODES_KEPT.id, user="paul", digests=CODES_KEPT.digests)
    assert find_code(foreign, texts[0]) is None
    with pytest.raises(InvariantBroken):
        make_codes("petra", b"too few")


def test_a_wrong_code_or_one_of_somebody_else_uses_up_nothing() -> None:
    assert check_code(STATE, KEYS, "petra", "000000", HOST, NOW_MS) is None
    assert check_code(STATE, KEYS, "paul", code_now(), HOST, NOW_MS) is None
    assert (has_second_factor(STATE, "petra"), has_second_factor(STATE, "paul")) == (True, False)
    with pytest.raises(CredentialUnknown):
        plan_use(STATE, TotpUse(credential=CODES_KEPT.id, step=1))
    with pytest.raises(CredentialUnknown):
        plan_use(STATE, RecoveryUse(credential=TOTP_ID, digest=CODES_KEPT.digests[0]))


@pytest.mark.parametrize(
    "changes",
    [{"is_disabled": True}, {"expires_ms": NOW_MS}, {"networks": ("10.1.0.0/16",)}],
    ids=str,
)
def test_a_second_factor_that_must_not_be_used_does_not_count(changes: dict[str, object]) -> None:
    totp = TotpSecret(id=TOTP_ID, user="petra", secret=TOTP.secret, **changes)  # type: ignore[arg-type]
    codes = RecoveryCodes(
        id=CODES_KEPT.id,
        user="petra",
        digests=CODES_KEPT.digests,
        **changes,  # type: ignore[arg-type]
    )
    state = state_of(credentials=(totp, codes))
    assert check_code(state, KEYS, "petra", code_now(), HOST, NOW_MS) is None
    code = CODE_TEXTS[0].reveal().decode()
    assert check_code(state, KEYS, "petra", code, HOST, NOW_MS) is None


def test_a_secret_that_was_moved_to_another_person_does_not_open() -> None:
    moved = TotpSecret(id=CredentialId("totp/paul"), user="paul", secret=TOTP.secret)
    with pytest.raises(SealBroken):
        check_code(state_of(credentials=(moved,)), KEYS, "paul", code_now(), HOST, NOW_MS)


def test_the_address_for_an_authenticator_names_cluster_and_person() -> None:
    assert write_uri(SECRET, "petra & co", "main").reveal() == (
        b"otpauth://totp/main:petra%20%26%20co?secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
        b"&issuer=main&algorithm=SHA1&digits=6&period=30"
    )
