"""OAUTHBEARER: tokens of a provider, tokens of our own, and all those that prove nothing."""

from __future__ import annotations

import hmac
import json
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from joserfc import jwk, jws

from kafkaesque.access.authentication import Challenge, Failure, FailureReason, Outcome, Success
from kafkaesque.access.credentials import CredentialId, OidcSubject
from kafkaesque.access.json_web_tokens import JwtConfig, JwtVerifier
from kafkaesque.access.oauthbearer import (
    BearerContext,
    BearerMessageRefused,
    BearerServer,
    read_bearer,
    write_bearer,
)
from kafkaesque.access.principals import User
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.access.tokens import make_token, read_token, write_token
from kafkaesque.model.errors import ConfigError, InvariantBroken
from tests.unit.access.makers import HOST, NOW_MS, state_of

NOW_S = NOW_MS // 1000
SHA256, SHA512 = hashes.SHA256(), hashes.SHA512()
ISSUER, AUDIENCE = "https://id.example.org", "kafkaesque"
RSA = jwk.RSAKey.generate_key(2048, {"kid": "rsa", "use": "sig", "alg": "RS256"})
EC = jwk.ECKey.generate_key("P-256", {"kid": "ec"})
ED = jwk.OKPKey.generate_key("Ed25519", {"kid": "ed"})
ALGORITHMS = {"rsa": "RS256", "ec": "ES256", "ed": "Ed25519"}
OTHER = jwk.RSAKey.generate_key(2048, {"kid": "rsa"})


def key_set(*keys: Any) -> bytes:
    return json.dumps({"keys": [each.as_dict(private=False) for each in keys]}).encode()


def config(**changes: Any) -> JwtConfig:
    given: dict[str, Any] = {
        "issuer": ISSUER,
        "audiences": (AUDIENCE,),
        "algorithms": ("RS256", "ES256", "Ed25519"),
        "key_set": key_set(RSA, EC, ED),
        "admits_unknown_subjects": True,
        **changes,
    }
    return JwtConfig(**given)


VERIFIER = JwtVerifier(config())


def token(
    key: Any = RSA,
    header: Mapping[str, Any] | None = None,
    **changes: Any,
) -> str:
    claims = {
        "iss": ISSUER,
        "aud": AUDIENCE,
        "sub": "carol",
        "exp": NOW_S + 60,
        "nbf": NOW_S - 60,
        "iat": NOW_S - 60,
        **changes,
    }
    claims = {name: value for name, value in claims.items() if value is not None}
    given = {"alg": ALGORITHMS[key.kid], "kid": key.kid, **(header or {})}
    given = {name: value for name, value in given.items() if value is not None}
    return jws.serialize_compact(given, json.dumps(claims).encode(), key, [given["alg"]])


def server(
    state: AccessState | None = None, verifier: JwtVerifier | None = VERIFIER
) -> BearerServer:
    known = state_of() if state is None else state
    return BearerServer(BearerContext(access=lambda: known, host=HOST, verifier=verifier))


def present(
    text: str, state: AccessState | None = None, verifier: JwtVerifier | None = VERIFIER
) -> Outcome:
    """What comes of a token, in the end."""
    one = server(state, verifier)
    outcome = one.step(b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01", NOW_MS)
    if isinstance(outcome, Challenge):
        assert outcome.message == b'{"status":"invalid_token"}'
        outcome = one.step(b"\x01", NOW_MS)
        assert isinstance(outcome, Failure)
    return outcome


@pytest.mark.parametrize("key", [RSA, EC, ED], ids=["RSA", "EC", "Ed25519"])
def test_a_token_that_is_right_gets_in(key: Any) -> None:
    outcome = present(token(key))
    assert outcome == Success(principal=present_name("carol"), expires_ms=(NOW_S + 60) * 1000)
    assert isinstance(present(token(key, aud=["other", AUDIENCE])), Success)


def present_name(name: str) -> Any:
    return f"User:{name}"


def forge(header: dict[str, Any], sign: Callable[[bytes], bytes]) -> str:
    """A token as nobody's library would make it: right in its claims, and signed somehow."""
    parts = [json.dumps(header).encode(), b64decode(token().split(".")[1] + "==", b"-_")]
    signed = b".".join(urlsafe_b64encode(each).rstrip(b"=") for each in parts)
    signature = urlsafe_b64encode(sign(signed)).rstrip(b"=")
    return (signed + b"." + signature).decode()


def sign_rsa(data: bytes, digest: hashes.HashAlgorithm = SHA256) -> bytes:
    assert RSA.private_key is not None
    return RSA.private_key.sign(data, padding.PKCS1v15(), digest)


def unsigned() -> str:
    return forge({"alg": "none", "kid": "rsa"}, lambda _: b"")


def signed_with_the_public_key() -> str:
    secret = RSA.as_pem(private=False)
    return forge({"alg": "HS256", "kid": "rsa"}, lambda data: hmac.digest(secret, data, "sha256"))


def signed_by_another_algorithm() -> str:
    return forge({"alg": "RS512", "kid": "rsa"}, lambda data: sign_rsa(data, SHA512))


def with_unknown_critical_header() -> str:
    return forge({"alg": "RS256", "kid": "rsa", "crit": ["x"], "x": 1}, sign_rsa)


def changed() -> str:
    head, _, signature = token().split(".")
    return f"{head}.{token(sub='admin').split('.')[1]}.{signature}"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        pytest.param(unsigned, FailureReason.WRONG, id="alg none"),
        pytest.param(signed_with_the_public_key, FailureReason.WRONG, id="HS256"),
        pytest.param(changed, FailureReason.WRONG, id="other payload"),
        pytest.param(lambda: token(OTHER), FailureReason.WRONG, id="other key of that kid"),
        pytest.param(
            lambda: token(RSA, {"kid": "foreign"}), FailureReason.UNKNOWN, id="foreign kid"
        ),
        pytest.param(lambda: token(RSA, {"kid": None}), FailureReason.UNKNOWN, id="no kid"),
        pytest.param(lambda: token(RSA, {"kid": "ec"}), FailureReason.WRONG, id="another's kid"),
        pytest.param(signed_by_another_algorithm, FailureReason.WRONG, id="other alg"),
        pytest.param(with_unknown_critical_header, FailureReason.WRONG, id="unknown crit"),
        pytest.param(lambda: token(iss="https://evil"), FailureReason.WRONG, id="other issuer"),
        pytest.param(lambda: token(iss=None), FailureReason.WRONG, id="no issuer"),
        pytest.param(lambda: token(aud="other"), FailureReason.WRONG, id="other audience"),
        pytest.param(lambda: token(aud=[]), FailureReason.WRONG, id="no audience in the list"),
        pytest.param(lambda: token(aud=None), FailureReason.WRONG, id="no audience"),
        pytest.param(lambda: token(exp=None), FailureReason.WRONG, id="no exp"),
        pytest.param(lambda: token(exp=NOW_S - 30), FailureReason.EXPIRED, id="expired"),
        pytest.param(lambda: token(exp="9999999999"), FailureReason.MALFORMED, id="exp is text"),
        pytest.param(lambda: token(exp=True), FailureReason.MALFORMED, id="exp is true"),
        pytest.param(lambda: token(exp=10**13), FailureReason.MALFORMED, id="exp in ms"),
        pytest.param(lambda: token(nbf=NOW_S + 31), FailureReason.EXPIRED, id="not before"),
        pytest.param(lambda: token(iat=NOW_S + 31), FailureReason.EXPIRED, id="from the future"),
        pytest.param(lambda: token(sub=None), FailureReason.WRONG, id="no subject"),
        pytest.param(lambda: token(sub=7), FailureReason.WRONG, id="subject is a number"),
        pytest.param(lambda: "a.b.c", FailureReason.WRONG, id="no token"),
        pytest.param(lambda: "x" * 17_000, FailureReason.MALFORMED, id="too long"),
    ],
)
def test_a_token_that_proves_nothing(make: Any, reason: FailureReason) -> None:
    outcome = present(make())
    assert isinstance(outcome, Failure)
    assert outcome.reason is reason


def test_clocks_may_be_off_by_the_skew_and_no_more() -> None:
    assert isinstance(present(token(exp=NOW_S - 29)), Success)
    assert isinstance(present(token(nbf=NOW_S + 30, iat=NOW_S + 30)), Success)
    strict = JwtVerifier(config(clock_skew_ms=0))
    assert isinstance(present(token(exp=NOW_S), verifier=strict), Failure)


def test_a_token_that_is_no_object_of_json_proves_nothing() -> None:
    for payload in (b"[]", b"{", b'"x"', b"null"):
        text = jws.serialize_compact({"alg": "RS256", "kid": "rsa"}, payload, RSA, ["RS256"])
        assert present(text) == Failure(reason=FailureReason.MALFORMED)


def test_a_key_signs_by_its_own_algorithm_alone() -> None:
    both = JwtVerifier(config(algorithms=("RS256", "RS512", "ES256", "Ed25519")))
    assert isinstance(present(token(), verifier=both), Success)
    assert isinstance(present(signed_by_another_algorithm(), verifier=both), Failure)
    for kid in ("ec", "ed"):
        text = forge({"alg": "RS256", "kid": kid}, sign_rsa)
        assert isinstance(present(text, verifier=both), Failure)


def test_what_else_a_header_says_is_passed_over_and_the_forger_can_make_one_that_is_right() -> None:
    header = {"alg": "RS256", "kid": "rsa", "typ": "at+jwt", "vendor": "x"}
    assert isinstance(present(forge(header, sign_rsa)), Success)


def secret_key() -> bytes:
    return json.dumps({"keys": [RSA.as_dict(private=True)]}).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": ""},
        {"audiences": ()},
        {"audiences": ("",)},
        {"algorithms": ()},
        {"algorithms": ("none",)},
        {"algorithms": ("RS256", "HS256")},
        {"algorithms": ("EdDSA",)},
        {"key_set": b""},
        {"key_set": b"{}"},
        {"key_set": b'{"keys": []}'},
        {"key_set": b"no json"},
        {"key_set": b'{"keys": [{"kty": "RSA"}]}'},
        {"key_set": b'{"keys": [{"kty": "oct", "kid": "x", "k": "AAAA"}]}'},
        {"key_set": b'{"keys": [{"kty": "XX", "kid": "x"}]}'},
        {"principal_claim": ""},
        {"clock_skew_ms": -1},
        {"clock_skew_ms": 10**6},
    ],
    ids=str,
)
def test_half_a_configuration_does_not_start(changes: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        config(**changes)


def test_a_secret_key_two_of_one_kid_and_a_short_one_do_not_start() -> None:
    with pytest.raises(ConfigError, match="secret"):
        config(key_set=secret_key())
    with pytest.raises(ConfigError, match="kid"):
        config(key_set=key_set(RSA, OTHER))
    with pytest.raises(ConfigError):
        JwtVerifier(
            config(key_set=b'{"keys": [{"kty": "RSA", "kid": "x", "n": "AQAB", "e": "AQAB"}]}')
        )


def test_a_configuration_without_a_part_is_no_configuration() -> None:
    for name in ("issuer", "audiences", "algorithms", "key_set"):
        given = {
            "issuer": ISSUER,
            "audiences": (AUDIENCE,),
            "algorithms": ("RS256",),
            "key_set": key_set(RSA),
        }
        del given[name]
        with pytest.raises(TypeError):
            JwtConfig(**given)  # type: ignore[arg-type]


def test_a_subject_that_is_stored_is_the_user_whom_it_is_stored_for() -> None:
    known = OidcSubject(
        id=CredentialId("o1"), user="alice", issuer=ISSUER, subject="carol", expires_ms=NOW_MS + 5
    )
    state = state_of(credentials=(known,))
    outcome = present(token(), state)
    assert isinstance(outcome, Success)
    assert (outcome.principal, outcome.credential) == ("User:alice", "o1")
    assert outcome.expires_ms == NOW_MS + 5
    off = state_of(credentials=(known,), users=(User(name="alice", is_disabled=True),))
    assert present(token(), off) == Failure(reason=FailureReason.DISABLED, user="alice")


def test_nobody_takes_a_users_name_by_choosing_it_at_the_provider() -> None:
    state = state_of(users=(User(name="admin"),))
    assert isinstance(present(token(sub="boss"), state), Success)
    assert present(token(sub="admin"), state) == Failure(reason=FailureReason.UNKNOWN, user="admin")
    assert present(token(sub="*"), state) == Failure(reason=FailureReason.UNKNOWN)
    closed = JwtVerifier(config(admits_unknown_subjects=False))
    assert isinstance(present(token(), state, closed), Failure)


def test_without_a_provider_no_token_of_one_is_believed() -> None:
    assert present(token(), verifier=None) == Failure(reason=FailureReason.UNKNOWN)


def test_a_token_of_our_own_gets_in_while_it_is_there() -> None:
    secret = Secret(bytes(range(32)))
    kept = make_token(CredentialId("t1"), "alice", secret, expires_ms=NOW_MS + 9)
    text = write_token(secret).reveal().decode()
    assert text.startswith("kfq_")
    outcome = present(text, state_of(credentials=(kept,)), None)
    assert isinstance(outcome, Success)
    assert (outcome.principal, outcome.expires_ms) == ("User:alice", NOW_MS + 9)
    assert present(text, state_of(), None) == Failure(reason=FailureReason.UNKNOWN)
    over = make_token(CredentialId("t1"), "alice", secret, expires_ms=NOW_MS)
    expired = present(text, state_of(credentials=(over,)), None)
    assert expired == Failure(reason=FailureReason.EXPIRED, user="alice")
    assert secret.reveal() not in kept.digest
    assert read_token(text) == secret
    assert [read_token(each) for each in ("kfq_", text[:-1], text + "A", "x" + text)] == [None] * 4
    with pytest.raises(InvariantBroken):
        make_token(CredentialId("t1"), "alice", Secret(b"short"), expires_ms=0)


def test_a_message_of_ours_is_read_back() -> None:
    read = read_bearer(write_bearer(Secret.of("a.b.c")))
    assert (read.authzid, read.token.reveal()) == ("", b"a.b.c")


def test_extensions_are_passed_over_and_nobody_acts_as_another() -> None:
    text = token().encode()
    message = b"n,a=%s,\x01auth=bearer " + text + b"\x01traceId=1\x01\x01"
    assert isinstance(server().step(message % b"carol", NOW_MS), Success)
    other = server()
    assert isinstance(other.step(message % b"admin", NOW_MS), Challenge)
    outcome = other.step(b"\x01", NOW_MS)
    assert outcome == Failure(reason=FailureReason.WRONG, user="admin")


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01=x\x01\x01",
        b"n,a=b=c,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 21_000 + b"\x01\x01",
    ],
)
def test_a_malformed_message_is_refused_in_two_steps(message: bytes) -> None:
    with pytest.raises(BearerMessageRefused):
        read_bearer(message)
    one = server()
    assert isinstance(one.step(message, NOW_MS), Challenge)
    assert one.step(b"\x01", NOW_MS) == Failure(reason=FailureReason.MALFORMED)
    with pytest.raises(InvariantBroken):
        one.step(b"\x01", NOW_MS)


def test_a_refused_client_does_not_get_in_by_a_second_token() -> None:
    one = server()
    assert isinstance(one.step(write_bearer(Secret.of("x.y.z")), NOW_MS), Challenge)
    assert isinstance(one.step(write_bearer(Secret.of(token())), NOW_MS), Failure)


def test_a_user_that_is_there_for_a_delegation_token_alone_is_still_the_providers() -> None:
    external = User(name="carol", is_external=True)
    assert isinstance(present(token(), state_of(users=(external,))), Success)
    disabled = User(name="carol", is_external=True, is_disabled=True)
    outcome = present(token(), state_of(users=(disabled,)))
    assert isinstance(outcome, Failure)
    assert outcome.reason is FailureReason.DISABLED
