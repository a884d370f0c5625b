"""Secrets stay secret: printed, written, sealed, wrapped, moved."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import pprint
import traceback
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kafkaesque.access.audit import AuditChain, AuditEvent, AuditKind
from kafkaesque.access.authentication import PasswordWork
from kafkaesque.access.credentials import AccessKey, BearerToken, CredentialId, secret_digest
from kafkaesque.access.decoys import make_decoy
from kafkaesque.access.errors import KeyUnknown, SealBroken
from kafkaesque.access.key_keeper import FileKeyKeeper
from kafkaesque.access.passwords import hash_password
from kafkaesque.access.plain import PlainContext, PlainServer
from kafkaesque.access.sasl_mechanisms import Checkers
from kafkaesque.access.scram_mechanisms import SCRAM_SHA_256
from kafkaesque.access.scram_server import ScramContext
from kafkaesque.access.sealing import ClusterKeys, access_key_purpose
from kafkaesque.access.secret import Secret
from kafkaesque.access.verified_passwords import VerifiedPasswords
from kafkaesque.model.errors import ConfigError, InvariantBroken
from tests.unit.access.makers import HOST, NOW_MS, scram, state_of

CANARY = "canary-5f1c"
SECRET = Secret.of(CANARY)
KEY = Secret(b"k" * 31 + b"1")
OTHER_KEY = Secret(b"k" * 31 + b"2")
NONCE = b"nonce-of-12!"
KEYS = ClusterKeys({1: KEY, 2: OTHER_KEY})


def logged(secret: Secret) -> str:
    record = logging.LogRecord("x", 20, "x", 1, "%s %r", (secret, secret), None)
    return record.getMessage()


def traced(secret: Secret) -> str:
    try:
        raise ValueError(secret)
    except ValueError as error:
        return "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    "show",
    [
        pytest.param(repr, id="repr"),
        pytest.param(str, id="str"),
        pytest.param(lambda secret: f"{secret}", id="f-string"),
        pytest.param(lambda secret: f"{secret!r:>40}", id="format"),
        pytest.param(lambda secret: "{:>40}".format(secret), id="format with a width"),  # noqa: UP032
        pytest.param(lambda secret: "%s" % secret, id="percent"),  # noqa: UP031
        pytest.param(lambda secret: str([secret, {"a": secret}]), id="in others"),
        pytest.param(pprint.pformat, id="pprint"),
        pytest.param(logged, id="log"),
        pytest.param(traced, id="traceback"),
    ],
)
def test_a_secret_is_not_shown(show: Callable[[Secret], str]) -> None:
    shown = show(SECRET)
    assert CANARY not in shown
    assert "<secret>" in shown


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(pickle.dumps, id="pickle"),
        pytest.param(lambda secret: pickle.dumps(secret, protocol=0), id="old pickle"),
        pytest.param(copy.copy, id="copy"),
        pytest.param(copy.deepcopy, id="deepcopy"),
        pytest.param(json.dumps, id="json"),
        pytest.param(msgspec.json.encode, id="msgspec json"),
        pytest.param(msgspec.msgpack.encode, id="msgpack"),
        pytest.param(msgspec.to_builtins, id="builtins"),
        pytest.param(hash, id="hash"),
        pytest.param(bytes, id="bytes"),
        pytest.param(iter, id="iteration"),
        pytest.param(vars, id="vars"),
        pytest.param(lambda secret: secret.__getstate__(), id="state"),
    ],
)
def test_a_secret_is_not_written_down(write: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError) as caught:
        write(SECRET)
    assert CANARY not in str(caught.value)


def test_a_secret_is_equal_to_one_of_the_same_bytes_and_to_nothing_else() -> None:
    assert Secret.of("a") == Secret(b"a")
    assert Secret.of("a") != Secret.of("b")
    assert Secret.of("a") != b"a"
    assert Secret.of("a").reveal() == b"a"


def test_no_state_snapshot_record_or_audit_entry_shows_a_secret() -> None:
    sealed = KEYS.seal(SECRET, access_key_purpose("AK1"), NONCE)
    credentials = (
        scram(password=CANARY),
        hash_password("petra", SECRET, b"0123456789abcdef"),
        AccessKey(id=CredentialId("ak"), user="alice", access_key_id="AK1", secret=sealed),
        BearerToken(id=CredentialId("t"), user="alice", digest=secret_digest(SECRET.reveal())),
    )
    state = state_of(credentials=credentials)
    hidden = [CANARY.encode(), KEY.reveal(), OTHER_KEY.reveal()]
    snapshot = state.write_snapshot()
    shown = " ".join((repr(state), str(credentials), pprint.pformat(state), repr(KEYS)))
    assert not any(each in snapshot for each in hidden)
    assert not any(each.decode() in shown for each in hidden)
    with pytest.raises(TypeError):
        AuditChain(broker=1, name="a").append(
            AuditEvent(at_ms=NOW_MS, kind=AuditKind.LOG_IN, detail={"password": SECRET})  # type: ignore[dict-item]
        )


def test_nothing_on_the_way_of_an_authentication_shows_a_secret() -> None:
    key = b"decoy-canary"
    state = state_of(credentials=(scram(password=CANARY),))
    verified = VerifiedPasswords(lambda: SECRET)
    plain = PlainContext(access=lambda: state, host=HOST, decoy_key=key, verified=verified)
    server = PlainServer(plain)
    work = server.step(b"\0alice\0" + CANARY.encode(), NOW_MS)
    assert isinstance(work, PasswordWork)
    by_scram = ScramContext(
        mechanism=SCRAM_SHA_256, access=lambda: state, host=HOST, nonce="x" * 16, decoy_key=key
    )
    decoy = make_decoy(key, SCRAM_SHA_256, "nobody", {})
    checkers = Checkers(access=lambda: state, keys=KEYS, verified=verified)
    things = [plain, work, work.run, by_scram, decoy, checkers, server]
    shown = pprint.pformat(things) + repr(things)
    hidden = (CANARY, key.decode(), repr(decoy.stored_key)[2:-1], KEY.reveal().decode())
    assert not any(each in shown for each in hidden)
    assert work.run()


def test_credentials_do_not_show_what_could_be_guessed_by() -> None:
    verifier = scram()
    shown = f"{verifier!r} {verifier!s} {verifier.__rich_repr__()} {pprint.pformat(verifier)}"
    for hidden in (verifier.salt, verifier.stored_key, verifier.server_key):
        assert repr(hidden)[2:-1] not in shown
    assert "alice" in shown


def test_a_sealed_secret_opens_for_its_purpose_and_by_its_key_alone() -> None:
    sealed = KEYS.seal(SECRET, access_key_purpose("AK1"), NONCE)
    assert sealed.key_version == 2
    assert KEYS.open(sealed, access_key_purpose("AK1")) == SECRET
    with pytest.raises(SealBroken):
        KEYS.open(sealed, access_key_purpose("AK2"))
    with pytest.raises(SealBroken):
        ClusterKeys({2: KEY}).open(sealed, access_key_purpose("AK1"))
    with pytest.raises(KeyUnknown):
        ClusterKeys({1: KEY}).open(sealed, access_key_purpose("AK1"))
    for changes in (
        {"ciphertext": sealed.ciphertext[:-1]},
        {"ciphertext": bytes([sealed.ciphertext[0] ^ 1]) + sealed.ciphertext[1:]},
        {"ciphertext": b""},
        {"nonce": b"other-of-12!"},
        {"nonce": b""},
        {"key_version": 1},
    ):
        with pytest.raises(SealBroken):
            KEYS.open(msgspec.structs.replace(sealed, **changes), access_key_purpose("AK1"))


def test_what_a_former_key_has_sealed_opens_after_a_rotation() -> None:
    before = ClusterKeys({1: KEY}).seal(SECRET, "x", NONCE)
    assert KEYS.open(before, "x") == SECRET
    assert (KEYS.oldest, KEYS.newest) == (1, 2)


def test_keys_of_the_wrong_size_and_no_keys_are_a_defect_of_ours() -> None:
    with pytest.raises(InvariantBroken):
        ClusterKeys({1: Secret(b"short")})
    with pytest.raises(KeyUnknown):
        ClusterKeys({}).seal(SECRET, "x", NONCE)
    with pytest.raises(InvariantBroken):
        KEYS.seal(SECRET, "x", b"short")


def keeper(*keys: Secret) -> FileKeyKeeper:
    count = iter(range(100))
    return FileKeyKeeper(keys, lambda size: next(count).to_bytes(size, "big"))


def test_a_wrapped_key_is_unwrapped_for_its_name_and_version_alone() -> None:
    one = keeper(KEY)
    wrapped = one.wrap("cluster", 1, SECRET)
    assert one.unwrap(wrapped) == SECRET
    assert CANARY.encode() not in msgspec.msgpack.encode(wrapped)
    for changes in ({"name": "topic/1"}, {"version": 2}, {"wrapped": wrapped.wrapped[:-1]}):
        with pytest.raises(SealBroken):
            one.unwrap(msgspec.structs.replace(wrapped, **changes))
    with pytest.raises(KeyUnknown):
        keeper(OTHER_KEY).unwrap(wrapped)
    with pytest.raises(KeyUnknown):
        one.unwrap(msgspec.structs.replace(wrapped, keeper="vault"))


def test_a_rotation_wraps_by_the_new_key_and_unwraps_by_the_old_one_until_then() -> None:
    wrapped = msgspec.structs.replace(keeper(KEY).wrap("cluster", 1, SECRET), epoch=9)
    both = keeper(OTHER_KEY, KEY)
    anew = both.rewrap(wrapped)
    assert anew.keeper_key == both.describe().key != wrapped.keeper_key
    assert (anew.name, anew.version, anew.epoch) == ("cluster", 1, 9)
    assert keeper(OTHER_KEY).unwrap(anew) == SECRET
    assert both.rewrap(anew) is anew


def test_a_keeper_without_a_key_or_with_a_short_one_does_not_start() -> None:
    with pytest.raises(ConfigError):
        keeper()
    with pytest.raises(ConfigError):
        keeper(Secret(b"short"))
