"""SCRAM: the RFCs' own exchanges, other people's clients, and everybody who must not get in."""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Callable

import msgspec
import pytest
from aiokafka.conn import ScramAuthenticator

from kafkaesque.access.authentication import Challenge, Failure, FailureReason, Success
from kafkaesque.access.credentials import CredentialId, ScramVerifier
from kafkaesque.access.principals import User
from kafkaesque.access.records import AnyAccessRecord, CredentialPut, UserPut, UserRemoved
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS, SCRAM_SHA_256, ScramMechanism
from kafkaesque.access.scram_messages import ScramMessageRefused, read_server_first
from kafkaesque.access.scram_server import ScramContext, ScramServer
from kafkaesque.access.scram_verifiers import verifier_of_password, verifier_of_salted_password
from kafkaesque.access.secret import Secret
from kafkaesque.access.state import AccessState
from kafkaesque.model.errors import InvalidRequest, InvariantBroken
from tests.unit.access.makers import HOST, NOW_MS, scram, state_of

PASSWORD = Secret.of("alice-secret")
NONCE = "c2VydmVyLW5vbmNlLW9mLXVz"
WRONG, MALFORMED = FailureReason.WRONG, FailureReason.MALFORMED
DECOY_KEY = b"the cluster's own key"
SHA_1 = ScramMechanism(name="SCRAM-SHA-1", digest="sha1", digest_bytes=20, kafka_number=0)


class Desk:
    """A server over a state that can change between the steps."""

    def __init__(
        self,
        state: AccessState | None = None,
        mechanism: ScramMechanism = SCRAM_SHA_256,
        *,
        nonce: str = NONCE,
        host: str = HOST,
    ) -> None:
        self.state = state_of(credentials=(scram(),)) if state is None else state
        self.mechanism = mechanism
        self.server = ScramServer(
            ScramContext(
                mechanism=mechanism,
                access=lambda: self.state,
                host=host,
                nonce=nonce,
                decoy_key=DECOY_KEY,
            )
        )

    def apply(self, record: AnyAccessRecord) -> None:
        self.state = self.state.apply(record)

    def challenge(self, data: bytes) -> bytes:
        outcome = self.server.step(data, NOW_MS)
        assert isinstance(outcome, Challenge)
        return outcome.message

    def failure(self, data: bytes) -> Failure:
        outcome = self.server.step(data, NOW_MS)
        assert isinstance(outcome, Failure)
        return outcome

    def log_in(
        self,
        name: str = "alice",
        password: Secret = PASSWORD,
        *,
        now_ms: int = NOW_MS,
        change: Callable[[bytes], bytes] = bytes,
    ) -> Success | Failure:
        """Goes all the way; `change` is what happens to the last message."""
        client = ScramClient(self.mechanism, name, password, b"nonce of a client")
        last = client.final(self.challenge(client.first()))
        outcome = self.server.step(change(last), now_ms)
        assert isinstance(outcome, Success | Failure)
        if isinstance(outcome, Success):
            client.verify(outcome.message)
        return outcome


def vector_state(mechanism: ScramMechanism, salt: str) -> AccessState:
    salted = mechanism.salted_password(b"pencil", base64.b64decode(salt), 4096)
    verifier = ScramVerifier(
        id=CredentialId("v"),
        user="user",
        mechanism=mechanism.name,
        salt=base64.b64decode(salt),
        iterations=4096,
        stored_key=mechanism.stored_key(salted),
        server_key=mechanism.server_key(salted),
    )
    return state_of(credentials=(verifier,))


@pytest.mark.parametrize(
    ("mechanism", "client_nonce", "nonce", "salt", "proof", "signature"),
    [
        pytest.param(
            SHA_1,
            "fyko+d2lbbFgONRv9qkxdawL",
            "3rfcNHYJY1ZVvWVs7j",
            "QSXCR+Q6sek8bf92",
            "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
            "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
            id="RFC 5802",
        ),
        pytest.param(
            SCRAM_SHA_256,
            "rOprNGfwEbeRWgbNEkqO",
            "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
            "W22ZaJ0SNY7soEsUEjb6gQ==",
            "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
            "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
            id="RFC 7677",
        ),
    ],
)
def test_the_exchange_of_the_rfc(
    mechanism: ScramMechanism,
    client_nonce: str,
    nonce: str,
    salt: str,
    proof: str,
    signature: str,
) -> None:
    desk = Desk(vector_state(mechanism, salt), mechanism, nonce=nonce)
    client = ScramClient(mechanism, "user", Secret.of("pencil"), base64.b64decode(client_nonce))
    assert client.first() == f"n,,n=user,r={client_nonce}".encode()
    first = desk.challenge(client.first())
    assert first == f"r={client_nonce}{nonce},s={salt},i=4096".encode()
    last = client.final(first)
    assert last == f"c=biws,r={client_nonce}{nonce},p={proof}".encode()
    outcome = desk.server.step(last, NOW_MS)
    assert isinstance(outcome, Success)
    assert outcome.message == f"v={signature}".encode()
    client.verify(outcome.message)


@pytest.mark.parametrize("name", SCRAM_MECHANISMS)
def test_another_client_gets_in(name: str) -> None:
    desk = Desk(state_of(credentials=(scram(mechanism=name),)), SCRAM_MECHANISMS[name])
    steps = ScramAuthenticator(
        loop=None,
        sasl_plain_password="alice-secret",
        sasl_plain_username="alice",
        sasl_mechanism=name,
    ).authenticator_scram()
    message, _ = next(steps)
    message, _ = steps.send(desk.challenge(message))
    outcome = desk.server.step(message, NOW_MS)
    assert isinstance(outcome, Success)
    with pytest.raises(StopIteration):
        steps.send(outcome.message)


def test_success_names_principal_credential_and_expiry() -> None:
    desk = Desk(state_of(credentials=(scram(expires_ms=NOW_MS + 1),)))
    outcome = desk.log_in()
    assert isinstance(outcome, Success)
    assert (outcome.principal, outcome.credential) == ("User:alice", "scram-sha-256/alice")
    assert (outcome.credential_epoch, outcome.expires_ms) == (2, NOW_MS + 1)
    assert not outcome.is_token


def test_a_name_with_comma_and_equals_sign_gets_in() -> None:
    desk = Desk(state_of(credentials=(scram("CN=a,O=b"),)))
    client = ScramClient(SCRAM_SHA_256, "CN=a,O=b", PASSWORD, b"nonce of a client")
    assert client.first().startswith(b"n,,n=CN=3Da=2CO=3Db,")
    assert isinstance(desk.log_in("CN=a,O=b"), Success)


def replaced(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    def change(message: bytes) -> bytes:
        assert old in message
        return message.replace(old, new, 1)

    return change


def without_proof(message: bytes) -> bytes:
    return message.rpartition(b",p=")[0]


def shortened_proof(message: bytes) -> bytes:
    head, _, proof = message.rpartition(b",p=")
    return head + b",p=" + base64.b64encode(base64.b64decode(proof)[:-1])


def with_proof_over(desk: Desk, nonce: Callable[[str], str], header: bytes = b"n,,") -> bytes:
    """The last message of a client that knows the password, and signs something else."""
    client = ScramClient(SCRAM_SHA_256, "alice", PASSWORD, b"nonce of a client")
    first = desk.challenge(client.first())
    told = read_server_first(first)
    salted = SCRAM_SHA_256.salted_password(PASSWORD.reveal(), told.salt, told.iterations)
    without_proof = f"c={base64.b64encode(header).decode()},r={nonce(told.nonce)}"
    signed = b",".join((client.first()[3:], first, without_proof.encode()))
    signature = SCRAM_SHA_256.hmac(SCRAM_SHA_256.stored_key(salted), signed)
    key = SCRAM_SHA_256.client_key(salted)
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


@pytest.mark.parametrize(
    "nonce",
    [
        pytest.param(lambda nonce: nonce[:-1], id="shortened"),
        pytest.param(lambda nonce: nonce + "x", id="extended"),
        pytest.param(lambda nonce: nonce[:-1] + "!", id="changed"),
        pytest.param(lambda nonce: nonce[: -len(NONCE)], id="the client's alone"),
        pytest.param(lambda nonce: "", id="none"),
    ],
)
def test_a_proof_over_another_nonce_does_not_get_in(nonce: Callable[[str], str]) -> None:
    assert isinstance(Desk().server.step(b"", NOW_MS), Failure)
    desk = Desk()
    right = with_proof_over(desk, str)
    assert isinstance(desk.server.step(right, NOW_MS), Success)
    desk = Desk()
    assert desk.failure(with_proof_over(desk, nonce)).reason is FailureReason.WRONG


@pytest.mark.parametrize("header", [b"y,,", b"n,a=bob,", b"p=tls-exporter,,", b"", b"n,,x"])
def test_a_proof_over_another_header_does_not_get_in(header: bytes) -> None:
    desk = Desk()
    assert desk.failure(with_proof_over(desk, str, header)).reason is FailureReason.WRONG


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param(replaced(b"c=biws", b"c=eSws"), WRONG, id="other header"),
        pytest.param(replaced(b"c=biws", b"c=biwsLA=="), WRONG, id="longer header"),
        pytest.param(replaced(b"c=biws", b"c="), WRONG, id="no header"),
        pytest.param(shortened_proof, WRONG, id="shortened proof"),
        pytest.param(lambda message: message[:-4] + b"AAA=", WRONG, id="other proof"),
        pytest.param(lambda message: without_proof(message) + b",p=", WRONG, id="empty proof"),
        pytest.param(lambda message: without_proof(message), MALFORMED, id="no proof"),
        pytest.param(lambda message: message + b"\0", MALFORMED, id="a NUL"),
        pytest.param(lambda message: message + b"*", MALFORMED, id="no base64"),
        pytest.param(lambda _: b"", MALFORMED, id="empty"),
        pytest.param(lambda _: b"\xff", MALFORMED, id="no UTF-8"),
        pytest.param(lambda _: b"x" * 9_000, MALFORMED, id="too long"),
    ],
)
def test_a_last_message_that_was_changed_does_not_get_in(
    change: Callable[[bytes], bytes], reason: FailureReason
) -> None:
    outcome = Desk().log_in(change=change)
    assert isinstance(outcome, Failure)
    assert (outcome.reason, outcome.message) == (reason, b"e=invalid-proof")


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(b"n,a=bob,n=alice,r=abc", id="as somebody else"),
        pytest.param(b"p=tls-exporter,,n=alice,r=abc", id="channel binding"),
        pytest.param(b"x,,n=alice,r=abc", id="no flag"),
        pytest.param(b"n,,m=must,n=alice,r=abc", id="mandatory extension"),
        pytest.param(b"n,,n=,r=abc", id="no name"),
        pytest.param(b"n,,n=al=2cice,r=abc", id="wrong escape"),
        pytest.param(b"n,,n=al=ice,r=abc", id="no escape"),
        pytest.param(b"n,,n=alice,r=", id="no nonce"),
        pytest.param(b"n,,n=alice,r=a\x7fc", id="nonce that cannot be printed"),
        pytest.param(b"n,,n=alice,r=" + b"x" * 513, id="long nonce"),
        pytest.param(b"n,,n=alice", id="too short"),
        pytest.param(b"n,,n=alice,r=abc,x", id="extension without a name"),
        pytest.param(b"n,,r=abc,n=alice", id="other order"),
        pytest.param(b"", id="empty"),
        pytest.param(b"n,,n=\xff,r=abc", id="no UTF-8"),
    ],
)
def test_a_first_message_that_is_refused_ends_it(message: bytes) -> None:
    desk = Desk()
    assert desk.failure(message).reason is FailureReason.MALFORMED
    with pytest.raises(InvariantBroken):
        desk.server.step(message, NOW_MS)


@pytest.mark.parametrize("message", [b"y,,n=alice,r=abc", b"n,a=alice,n=alice,r=abc,ext=1"])
def test_a_first_message_that_is_unusual_and_right(message: bytes) -> None:
    assert Desk().challenge(message).startswith(b"r=abc" + NONCE.encode())


def test_an_exchange_is_of_no_use_for_another_connection() -> None:
    desk = Desk()
    client = ScramClient(SCRAM_SHA_256, "alice", PASSWORD, b"nonce of a client")
    last = client.final(desk.challenge(client.first()))
    assert isinstance(desk.server.step(last, NOW_MS), Success)
    other = Desk(nonce="b3RoZXIgbm9uY2Ugb2YgdXM=")
    other.challenge(client.first())
    assert other.failure(last).reason is FailureReason.WRONG
    with pytest.raises(InvariantBroken):
        desk.server.step(last, NOW_MS)


def test_a_last_message_is_no_first_one() -> None:
    assert isinstance(Desk().server.step(b"c=biws,r=abc,p=AAAA", NOW_MS), Failure)


def test_unknown_users_are_like_known_ones_in_steps_bytes_and_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work: list[str] = []
    digest = hmac.digest

    def counted(key: bytes, data: bytes, name: str) -> bytes:
        work.append(name)
        return digest(key, data, name)

    monkeypatch.setattr(hmac, "digest", counted)
    seen = []
    for name in ("alice", "nobody"):
        desk = Desk()
        client = ScramClient(SCRAM_SHA_256, name, Secret.of("wrong"), b"nonce of a client")
        first = desk.challenge(client.first())
        told, last = read_server_first(first), client.final(first)
        work.clear()
        failure = desk.failure(last)
        seen.append((len(told.salt), told.iterations, len(first), failure.message, len(work)))
    assert seen[0] == seen[1]
    assert seen[0][-1] > 1


def test_a_made_up_salt_is_the_same_each_time_and_another_for_each_name_and_cluster() -> None:
    def salt(name: str, key: bytes = DECOY_KEY) -> bytes:
        server = ScramServer(
            ScramContext(
                mechanism=SCRAM_SHA_256, access=AccessState, host=HOST, nonce=NONCE, decoy_key=key
            )
        )
        outcome = server.step(f"n,,n={name},r=abc".encode(), NOW_MS)
        assert isinstance(outcome, Challenge)
        return read_server_first(outcome.message).salt

    assert salt("nobody") == salt("nobody")
    assert len({salt("nobody"), salt("someone"), salt("nobody", b"other")}) == 3


def test_what_is_made_up_takes_after_the_verifiers_that_there_are() -> None:
    odd = scram(salt=b"s" * 26, iterations=8192)
    desk = Desk(state_of(credentials=(odd,)))
    told = read_server_first(desk.challenge(b"n,,n=nobody,r=abc"))
    assert (len(told.salt), told.iterations) == (26, 8192)


def test_the_password_of_nobody_lets_nobody_in() -> None:
    assert Desk().log_in("nobody") == Failure(
        reason=FailureReason.UNKNOWN, user="nobody", message=b"e=invalid-proof"
    )


@pytest.mark.parametrize(
    ("verifier", "reason"),
    [
        (scram(is_disabled=True), FailureReason.DISABLED),
        (scram(expires_ms=NOW_MS), FailureReason.EXPIRED),
        (scram(networks=("10.1.0.0/16",)), FailureReason.NETWORK),
    ],
)
def test_a_credential_that_must_not_be_used_fails_at_the_end_as_all_do(
    verifier: ScramVerifier, reason: FailureReason
) -> None:
    outcome = Desk(state_of(credentials=(verifier,))).log_in()
    assert outcome == Failure(reason=reason, user="alice", message=b"e=invalid-proof")


def test_what_changes_between_the_steps_counts() -> None:
    other = scram(password="other")
    changes: list[tuple[AnyAccessRecord, FailureReason]] = [
        (UserPut(user=User(name="alice", is_disabled=True)), FailureReason.DISABLED),
        (UserRemoved(name="alice"), FailureReason.CHANGED),
        (CredentialPut(credential=other), FailureReason.CHANGED),
    ]
    for record, reason in changes:
        desk = Desk()
        client = ScramClient(SCRAM_SHA_256, "alice", PASSWORD, b"nonce of a client")
        last = client.final(desk.challenge(client.first()))
        desk.apply(record)
        assert desk.failure(last).reason is reason


def test_a_salted_password_is_turned_into_keys_and_forgotten() -> None:
    salt = b"0123456789abcdef"
    salted = Secret(hashlib.pbkdf2_hmac("sha256", b"alice-secret", salt, 4096))
    made = verifier_of_salted_password(SCRAM_SHA_256, "alice", salted, salt, 4096)
    assert made == verifier_of_password(SCRAM_SHA_256, "alice", PASSWORD, salt, 4096)
    client_key = hmac.digest(salted.reveal(), b"Client Key", "sha256")
    assert made.stored_key == hashlib.sha256(client_key).digest()
    assert salted.reveal() not in msgspec.msgpack.encode(made)
    assert isinstance(Desk(state_of(credentials=(made,))).log_in(), Success)


@pytest.mark.parametrize(
    ("salted", "salt", "iterations"),
    [
        (b"x" * 32, b"s" * 16, 4095),
        (b"x" * 32, b"s" * 16, 16385),
        (b"x" * 32, b"s" * 7, 4096),
        (b"x" * 64, b"s" * 16, 4096),
        (b"", b"s" * 16, 4096),
    ],
)
def test_parameters_out_of_range_are_refused(salted: bytes, salt: bytes, iterations: int) -> None:
    with pytest.raises(InvalidRequest):
        verifier_of_salted_password(SCRAM_SHA_256, "alice", Secret(salted), salt, iterations)


def test_an_empty_password_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        verifier_of_password(SCRAM_SHA_256, "alice", Secret(b""), b"s" * 16, 4096)


@pytest.mark.parametrize(
    "message",
    [
        b"r=other,s=c2FsdHNhbHQ=,i=4096",
        b"r={nonce},s=c2FsdHNhbHQ=,i=4096",
        b"r={nonce}more,s=c2FsdHNhbHQ=,i=1",
        b"r={nonce}more,s=c2FsdHNhbHQ=,i=9999999999",
        b"r={nonce}more,s=*,i=4096",
        b"r={nonce}more,i=4096",
        b"e=other-error",
    ],
)
def test_a_client_of_ours_is_not_fooled_by_a_server(message: bytes) -> None:
    client = ScramClient(SCRAM_SHA_256, "alice", PASSWORD, b"nonce of a client")
    nonce = base64.b64encode(b"nonce of a client")
    with pytest.raises(ScramMessageRefused):
        client.final(message.replace(b"{nonce}", nonce))


def test_a_client_of_ours_refuses_a_server_that_does_not_know_the_password() -> None:
    desk = Desk()
    client = ScramClient(SCRAM_SHA_256, "alice", PASSWORD, b"nonce of a client")
    with pytest.raises(ScramMessageRefused):
        client.verify(b"v=")
    client.final(desk.challenge(client.first()))
    for message in (b"v=AAAA", b"v=", b"e=invalid-proof", b""):
        with pytest.raises(ScramMessageRefused):
            client.verify(message)
