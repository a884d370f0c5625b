"""Passwords that were brought over from RabbitMQ."""

from __future__ import annotations

import base64
import hashlib
from time import perf_counter

import msgspec
import pytest

from kafkaesque.access.authentication import Failure, FailureReason, Success
from kafkaesque.access.credentials import SaltedDigest
from kafkaesque.access.plain import is_right_password
from kafkaesque.access.records import CredentialPut, read_access_record, write_access_record
from kafkaesque.access.salted_digests import (
    DEFAULT_ALGORITHM,
    read_salted_digest,
    write_salted_digest,
)
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import InvalidRequest
from tests.unit.access.makers import scram, state_of
from tests.unit.access.test_plain import TOTP, log_in

SHA512 = "rabbit_password_hashing_sha512"


def kept(password: str = "petra-secret", algorithm: str = DEFAULT_ALGORITHM) -> SaltedDigest:
    name = algorithm.rpartition("_")[2]
    digest = hashlib.new(name, b"salt" + password.encode()).digest()
    text = base64.b64encode(b"salt" + digest).decode()
    found = read_salted_digest("petra", text, algorithm)
    assert write_salted_digest(found) == (text, algorithm)
    return found


@pytest.mark.parametrize("algorithm", [DEFAULT_ALGORITHM, SHA512])
def test_its_user_logs_in_by_plain(algorithm: str) -> None:
    state = state_of(credentials=(kept(algorithm=algorithm),))
    assert isinstance(log_in(state, b"\0petra\0petra-secret"), Success)
    outcome = log_in(state, b"\0petra\0petra-secres")
    assert outcome == Failure(reason=FailureReason.WRONG, user="petra")


def test_a_second_factor_is_wanted_as_with_other_passwords() -> None:
    outcome = log_in(state_of(credentials=(kept(), TOTP)), b"\0petra\0petra-secret")
    assert outcome == Failure(reason=FailureReason.SECOND_FACTOR, user="petra")


def test_a_password_of_this_cluster_counts_before_it() -> None:
    verifier = scram(user="petra", password="a newer one")
    state = state_of(credentials=(kept(), verifier))
    assert isinstance(log_in(state, b"\0petra\0a newer one"), Success)
    assert isinstance(log_in(state, b"\0petra\0petra-secret"), Failure)


def test_checking_it_takes_as_long_as_checking_a_verifier() -> None:
    def took(against: object) -> float:
        begin = perf_counter()
        for _ in range(20):
            is_right_password(against, Secret.of("no"))  # type: ignore[arg-type]
        return perf_counter() - begin

    # Without the work that it does for this it would take a thousandth.
    assert took(kept()) > took(scram(user="petra")) / 10


def test_it_is_written_down_and_shows_no_bytes() -> None:
    record = CredentialPut(credential=kept())
    assert read_access_record(write_access_record(record)) == record
    assert "salt=" not in repr(kept())
    assert msgspec.to_builtins(kept())["kind"] == "salted-digest"


@pytest.mark.parametrize(
    ("text", "algorithm"),
    [
        ("?", DEFAULT_ALGORITHM),
        ("AAAA", DEFAULT_ALGORITHM),
        (base64.b64encode(bytes(36)).decode(), SHA512),
        (base64.b64encode(bytes(20)).decode(), "rabbit_password_hashing_md5"),
    ],
)
def test_what_is_no_hash_is_refused(text: str, algorithm: str) -> None:
    with pytest.raises(InvalidRequest):
        read_salted_digest("petra", text, algorithm)
