"""Files of second factors, and whom a session that was begun by them is shown to."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from kafkaesque.access.secret import Secret
from kafkaesque.access.totp import STEP_MS, find_step, read_uri, write_uri
from kafkaesque.cli.code_log_in import session_by_code
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.session_file import FILE_VARIABLE, StoredSession, write_session
from kafkaesque.cli.totp_file import (
    codes_at,
    draw_recovery_codes,
    draw_totp,
    read_recovery_codes,
    read_totp_secret,
)
from kafkaesque.model.errors import InvalidRequest

NOW_MS = 1_795_000_000_000


def test_what_an_authenticator_reads_is_read_back() -> None:
    secret = Secret(b"twenty bytes, random")
    assert read_uri(write_uri(secret, "mia o'x", "a cluster").reveal().decode()) == secret


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "https://totp/a:b?secret=AAAA&digits=6&period=30",
        "otpauth://hotp/a:b?secret=AAAA&digits=6&period=30",
        "otpauth://totp/a:b?digits=6&period=30",
        "otpauth://totp/a:b?secret=1&digits=6&period=30",
        "otpauth://totp/a:b?secret=AAAA&digits=8&period=30",
        "otpauth://totp/a:b?secret=AAAA&digits=6&period=60",
        "otpauth://totp/a:b?secret=AAAA&digits=6&period=30&algorithm=SHA256",
    ],
)
def test_other_texts_are_no_secret_of_ours(uri: str) -> None:
    with pytest.raises(InvalidRequest):
        read_uri(uri)


def test_codes_of_a_file_are_good_one_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "admin.totp"
    draw_totp(path, "admin", "orders")
    now, following = codes_at(path, NOW_MS)
    secret, step = read_totp_secret(path), NOW_MS // STEP_MS
    assert find_step(secret, now, NOW_MS) == step
    assert find_step(secret, following, NOW_MS, used=step) == step + 1
    path.write_text("not a secret\n")
    with pytest.raises(CommandFailed, match=r"admin\.totp: it is no otpauth"):
        codes_at(path, NOW_MS)
    path.chmod(0o604)
    with pytest.raises(CommandFailed, match="others may read"):
        codes_at(path, NOW_MS)


def test_recovery_codes_are_read_as_they_were_drawn(tmp_path: Path) -> None:
    path = tmp_path / "admin.recovery-codes"
    draw_recovery_codes(path, "admin")
    assert [each.reveal().decode() for each in read_recovery_codes(path)] == (
        path.read_text().split()
    )
    assert len(read_recovery_codes(path)) == 10


def test_a_session_is_not_shown_to_another_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FILE_VARIABLE, str(tmp_path / "session.json"))
    monkeypatch.setenv("KAFKAESQUE_BOOTSTRAP_SERVER", "127.0.0.1:9092")
    monkeypatch.setenv("KAFKAESQUE_ADMIN", "127.0.0.1:8080")
    monkeypatch.setattr("kafkaesque.cli.session_file._Used.is_so", False)
    session = StoredSession(
        user="admin",
        token=Secret.of("a token"),
        expires_ms=int(time.time() * 1_000) + 3_600_000,
        addresses=("127.0.0.1:9092",),
        admin="127.0.0.1:8080",
    )
    write_session(session)

    def found(address: str, user: str = "admin") -> StoredSession:
        password, totp = Secret.of("x"), tmp_path / "admin.totp"
        return session_by_code(user, password, totp, address, dict(os.environ))

    with pytest.raises(CommandFailed, match=r"192\.0\.2\.1:9092 is none of its brokers"):
        found("192.0.2.1:9092")
    assert found("127.0.0.1:9092") == session
    # Another user's session is none of this one's, and there is no secret to begin one with.
    with pytest.raises(CommandFailed, match="is not there any more: somebody has to type the code"):
        found("127.0.0.1:9092", "mia")
