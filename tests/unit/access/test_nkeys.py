"""NKeys: public keys as NATS writes them, and signatures by their seeds."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from kafkaesque.access.administration import AddNKey, DeleteNKey
from kafkaesque.access.authentication import Failure, FailureReason, Success
from kafkaesque.access.errors import CredentialUnknown
from kafkaesque.access.nkeys import (
    NKeyContext,
    NKeyServer,
    is_signed,
    make_nkey,
    read_user_key,
)
from kafkaesque.access.sasl_mechanisms import (
    MECHANISMS,
    Checkers,
    Client,
    MechanismRefused,
    offered,
)
from kafkaesque.access.sasl_servers import start_authentication
from kafkaesque.access.state import AccessState
from kafkaesque.broker.metadata.access_changes import commands_of
from kafkaesque.broker.requests.access_commands import PutCredential, RemoveCredential
from kafkaesque.model.errors import ConfigError, InvalidRequest
from tests.nkeys import USER, public_key_of, sign, written
from tests.unit.access.makers import HOST, NOW_MS, state_of

CHALLENGE = b"sign this"
#: From the documentation of NATS.
KNOWN = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
SEED = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"


def test_a_public_key_is_read() -> None:
    assert len(read_user_key(KNOWN)) == 32
    public = Ed25519PrivateKey.generate().public_key().public_bytes_raw()
    assert read_user_key(written(USER, public)) == public


@pytest.mark.parametrize(
    "text",
    [
        "",
        "U",
        KNOWN[:-1],
        KNOWN + "A",
        KNOWN.lower(),
        KNOWN[:-1] + "5",
        KNOWN.replace("X", "Y", 1),
        "U\u00e4" * 28,
        # An account's.
        written(0, bytes(32)),
    ],
)
def test_what_is_no_public_key_of_a_user_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="is no public NKey of a user"):
        read_user_key(text)


def test_a_seed_that_is_given_by_mistake_is_not_repeated() -> None:
    with pytest.raises(InvalidRequest, match="secret") as caught:
        make_nkey("robot", SEED)
    assert SEED[:8] not in str(caught.value)


def test_a_key_is_one_users() -> None:
    state = state_of(credentials=(make_nkey("robot", KNOWN),))
    with pytest.raises(InvalidRequest, match="user 'robot' has this NKey already"):
        commands_of(state, AddNKey(user="other", public_key=KNOWN))
    (made,) = commands_of(state_of(), AddNKey(user="other", public_key=KNOWN))
    assert made == PutCredential(credential=make_nkey("other", KNOWN), epoch=0)
    (gone,) = commands_of(state, DeleteNKey(public_key=KNOWN))
    assert gone == RemoveCredential(id=make_nkey("robot", KNOWN).id)
    with pytest.raises(CredentialUnknown):
        commands_of(state_of(), DeleteNKey(public_key=KNOWN))


class Ground:
    """A user with an NKey."""

    def __init__(self) -> None:
        self.seed = Ed25519PrivateKey.generate()
        self.public_key = public_key_of(self.seed)
        self._state = state_of(credentials=(make_nkey("robot", self.public_key),))

    def log_in(self, message: str) -> object:
        context = NKeyContext(access=lambda: self._state, host=HOST, challenge=CHALLENGE)
        return NKeyServer(context).step(message.encode(), NOW_MS)


def test_who_has_the_seed_gets_in() -> None:
    ground = Ground()
    outcome = ground.log_in(f"{ground.public_key}\n{sign(ground.seed, CHALLENGE)}")
    assert isinstance(outcome, Success)
    assert outcome.principal == "User:robot"


def test_signatures_come_in_both_alphabets() -> None:
    ground = Ground()
    text = base64.b64encode(ground.seed.sign(CHALLENGE)).decode()
    for each in (text, text.rstrip("="), text.translate(str.maketrans("+/", "-_"))):
        assert is_signed(ground.public_key, each, CHALLENGE)


@pytest.mark.parametrize("how", ["challenge", "seed", "cut", "none", "noise"])
def test_who_has_not_the_seed_does_not(how: str) -> None:
    ground = Ground()
    right = sign(ground.seed, CHALLENGE)
    signature = {
        "challenge": sign(ground.seed, b"another one"),
        "seed": sign(Ed25519PrivateKey.generate(), CHALLENGE),
        "cut": right[:-4],
        "none": "",
        "noise": "\xff!",
    }[how]
    outcome = ground.log_in(f"{ground.public_key}\n{signature}")
    assert outcome == Failure(reason=FailureReason.WRONG, user="robot")


def test_a_key_that_nobody_was_given_is_unknown() -> None:
    ground, other = Ground(), Ed25519PrivateKey.generate()
    outcome = ground.log_in(f"{public_key_of(other)}\n{sign(other, CHALLENGE)}")
    assert outcome == Failure(reason=FailureReason.UNKNOWN)
    assert ground.log_in("") == Failure(reason=FailureReason.UNKNOWN)


def test_it_is_no_mechanism_of_sasl() -> None:
    """There a client would choose itself what it signs."""
    with pytest.raises(ConfigError, match="is no mechanism"):
        offered(["NKEY"], is_encrypted=True)
    client = Client(host=HOST, is_encrypted=True, nonce=b"x" * 18)
    checkers = Checkers(access=AccessState, keys=None, verified=None)  # type: ignore[arg-type]
    with pytest.raises(MechanismRefused):
        start_authentication("NKEY", list(MECHANISMS), checkers, client)
