"""Authentications under arbitrary bytes: nobody gets in by chance, and nothing falls over."""

from __future__ import annotations

import base64
import string

from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.access.authentication import Challenge, Failure, Success
from kafkaesque.access.oauthbearer import BearerMessageRefused, read_bearer
from kafkaesque.access.plain import PlainMessageRefused, read_plain
from kafkaesque.access.sasl_mechanisms import (
    MECHANISMS,
    Checkers,
    Client,
)
from kafkaesque.access.sasl_servers import start_authentication
from kafkaesque.access.scram_client import ScramClient
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_messages import (
    ScramMessageRefused,
    read_client_final,
    read_client_first,
    read_saslname,
    read_server_first,
    write_saslname,
)
from kafkaesque.access.sealing import ClusterKeys
from kafkaesque.access.secret import Secret
from kafkaesque.access.verified_passwords import VerifiedPasswords
from tests.unit.access.makers import HOST, NOW_MS, scram, state_of

NAMES = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=12)
PIECES = st.sampled_from(
    [
        *(b"n", b"y", b"p=x", b",", b"=", b"n=", b"r=", b"c=", b"p=", b"a=", b"alice", b"biws"),
        *(b"abc", b"\0", b"\x01", b"auth=Bearer ", b"alice-secret", b"\xff", b"tokenauth=true"),
        b"AAAA",
    ]
)
MESSAGES = st.lists(PIECES, max_size=12).map(b"".join) | st.binary(max_size=40)

KEYS = ClusterKeys({1: Secret(b"k" * 32)})
STATE = state_of(credentials=(scram(),))
CLIENT = Client(host=HOST, is_encrypted=True, nonce=b"a nonce of 18 bytes")


def checkers() -> Checkers:
    return Checkers(
        access=lambda: STATE, keys=KEYS, verified=VerifiedPasswords(lambda: Secret(b"process"))
    )


@given(st.sampled_from([each for each in MECHANISMS if each != "PLAIN"]), MESSAGES, MESSAGES)
def test_nobody_gets_in_by_chance(mechanism: str, first: bytes, second: bytes) -> None:
    one = start_authentication(mechanism, MECHANISMS, checkers(), CLIENT)
    outcome = one.step(first, NOW_MS)
    if isinstance(outcome, Challenge):
        outcome = one.step(second, NOW_MS)
    assert isinstance(outcome, Failure)


@given(MESSAGES)
def test_every_reader_reads_or_refuses(data: bytes) -> None:
    for read, refused in (
        (read_client_first, ScramMessageRefused),
        (read_client_final, ScramMessageRefused),
        (read_server_first, ScramMessageRefused),
        (read_plain, PlainMessageRefused),
        (read_bearer, BearerMessageRefused),
    ):
        try:
            read(data)
        except refused:
            pass


@given(NAMES)
def test_a_name_is_escaped_and_read_back(name: str) -> None:
    written = write_saslname(name)
    assert "," not in written
    assert read_saslname(written) == name


@given(
    st.sampled_from(sorted(SCRAM_MECHANISMS)),
    NAMES,
    st.text(min_size=1, max_size=12),
    st.text(min_size=1, max_size=12),
    st.binary(min_size=8, max_size=40),
)
def test_the_right_password_gets_in_and_no_other(
    mechanism: str, name: str, password: str, tried: str, salt: bytes
) -> None:
    if name == "*":
        name = "star"
    state = state_of(credentials=(scram(name, password, mechanism, salt=salt),))
    known = Checkers(
        access=lambda: state, keys=KEYS, verified=VerifiedPasswords(lambda: Secret(b"process"))
    )
    for given_password in (password, tried):
        one = start_authentication(mechanism, MECHANISMS, known, CLIENT)
        client = ScramClient(
            SCRAM_MECHANISMS[mechanism], name, Secret.of(given_password), b"client nonce"
        )
        first = one.step(client.first(), NOW_MS)
        assert isinstance(first, Challenge)
        outcome = one.step(client.final(first.message), NOW_MS)
        assert isinstance(outcome, Success) is (given_password == password)
        if isinstance(outcome, Success):
            client.verify(outcome.message)


@given(st.data())
def test_a_last_message_with_one_character_changed_does_not_get_in(data: st.DataObject) -> None:
    one = start_authentication("SCRAM-SHA-256", MECHANISMS, checkers(), CLIENT)
    client = ScramClient(
        SCRAM_MECHANISMS["SCRAM-SHA-256"], "alice", Secret.of("alice-secret"), b"client nonce"
    )
    first = one.step(client.first(), NOW_MS)
    assert isinstance(first, Challenge)
    last = client.final(first.message).decode()
    at = data.draw(st.integers(0, len(last) - 1))
    other = data.draw(st.sampled_from(string.printable[:95].replace(last[at], "")))
    changed = last[:at] + other + last[at + 1 :]
    outcome = one.step(changed.encode(), NOW_MS)
    if isinstance(outcome, Success):
        # The last characters of base64 carry bits that mean nothing.
        before, after = last.rpartition(",p="), changed.rpartition(",p=")
        assert before[0] == after[0]
        assert base64.b64decode(before[2]) == base64.b64decode(after[2])
