"""The file of the users that a new cluster begins with."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from kafkaesque.access.credentials import TotpSecret
from kafkaesque.access.recovery_codes import keep_codes
from kafkaesque.access.scram_mechanisms import SCRAM_MECHANISMS
from kafkaesque.access.scram_verifiers import verifier_of_password
from kafkaesque.access.sealing import ClusterKeys, cluster_key, totp_purpose
from kafkaesque.access.second_factor import seal_totp
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import ConfigError
from kafkaesque.server.config import load_config
from kafkaesque.server.first_users import (
    FirstAccess,
    make_verifiers,
    read_first_access,
    write_first_access,
)
from tests.unit.access.makers import rule

PASSWORD = "a password of a test"
RULES = (rule("allow", "User:admin"),)


def content() -> bytes:
    return write_first_access(FirstAccess(make_verifiers("admin", Secret.of(PASSWORD)), RULES))


def written(directory: Path, data: bytes | None = None) -> Path:
    path = directory / "first-users.json"
    path.write_bytes(data or content())
    path.chmod(0o600)
    return path


def test_what_is_written_are_verifiers_of_the_password_and_not_the_password(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert PASSWORD.encode() not in path.read_bytes()
    found, rules, _ = read_first_access(path)
    assert rules == RULES
    assert [(each.user, each.mechanism) for each in found] == [
        ("admin", each) for each in SCRAM_MECHANISMS
    ]
    for each in found:
        mechanism = SCRAM_MECHANISMS[each.mechanism]
        password = Secret.of(PASSWORD)
        assert each == verifier_of_password(
            mechanism, "admin", password, each.salt, each.iterations
        )


def test_who_may_read_it_may_guess(tmp_path: Path) -> None:
    path = written(tmp_path)
    path.chmod(0o604)
    with pytest.raises(ConfigError, match="others may read it"):
        read_first_access(path)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"SCRAM-SHA-256", b"SCRAM-SHA-1"),
        (b"SCRAM-SHA-256", b"SCRAM-SHA-512"),
        (b'"iterations": 8192', b'"iterations": 1'),
        (b'"user": "admin"', b'"user": "*"'),
        (b'"salt"', b'"sault"'),
        (b'"effect": "allow"', b'"effect": "permit"'),
        (b"User:admin", b"admin"),
        (b"{", b"["),
    ],
)
def test_what_was_changed_by_hand_is_refused(tmp_path: Path, before: bytes, after: bytes) -> None:
    good = content()
    assert before in good
    with pytest.raises(ConfigError, match=r"first\.users\.file"):
        read_first_access(written(tmp_path, good.replace(before, after)))


KEYS = ClusterKeys({1: cluster_key(b"the secret of a cluster")})
SECRET, CODES = Secret(b"a secret of TOTP....."), (Secret.of("AAAA-BBBB"), Secret.of("CCCC-DDDD"))


def with_factor(user: str = "admin") -> FirstAccess:
    factors = (seal_totp(KEYS, user, SECRET, bytes(12)), keep_codes(user, CODES))
    return FirstAccess(make_verifiers("admin", Secret.of(PASSWORD)), RULES, factors)


def test_a_second_factor_is_in_it_sealed_and_hashed(tmp_path: Path) -> None:
    path = written(tmp_path, write_first_access(with_factor()))
    data = path.read_bytes()
    for secret in (SECRET, *CODES):
        assert secret.reveal() not in data
        assert base64.b64encode(secret.reveal()) not in data
    found = read_first_access(path)
    assert found.factors == with_factor().factors
    (totp,) = (each for each in found.factors if isinstance(each, TotpSecret))
    assert KEYS.open(totp.secret, totp_purpose("admin", totp.id)) == SECRET


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"key_version": 1', b'"key_version": 0'),
        (b'"nonce": "AAAA', b'"nonce": "'),
        (b'"recovery": [', b'"recovery": ["AAAA",'),
        (b'"ciphertext": "', b'"ciphertext": "", "x": "'),
    ],
)
def test_half_a_second_factor_is_refused(tmp_path: Path, before: bytes, after: bytes) -> None:
    good = write_first_access(with_factor())
    assert before in good
    with pytest.raises(ConfigError, match=r"first\.users\.file"):
        read_first_access(written(tmp_path, good.replace(before, after)))


def test_a_second_factor_stands_beside_a_password(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a second factor of mia, who has no password"):
        read_first_access(written(tmp_path, write_first_access(with_factor("mia"))))


def test_it_needs_the_clusters_secret(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(f'[broker]\nfirst.users.file = "{written(tmp_path)}"\n')
    with pytest.raises(ConfigError, match=r"needs cluster\.secret\.file"):
        load_config(tmp_path / "broker.toml", environment={})
