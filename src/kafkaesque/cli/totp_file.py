"""Files that hold a second factor: the secret, as an authenticator reads it, and recovery codes.

With them a program logs in that has no authenticator. Whoever has scanned the code should remove
them: only then is the second factor one that nobody finds beside the password.
"""

import os
from pathlib import Path
from typing import Final

from kafkaesque.access.recovery_codes import CODE_BYTES, CODES, make_codes
from kafkaesque.access.secret import Secret
from kafkaesque.access.totp import SECRET_BYTES, read_uri, step_of, write_code, write_uri
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.private_file import read_private, write_private, wrong_file
from kafkaesque.model.errors import InvalidRequest

URI_BYTES_MAX: Final = 4096


def draw_totp(path: Path, user: str, cluster: str) -> None:
    """Write a new secret to a file.

    Raises:
        OSError: it cannot be written.
    """
    uri = write_uri(Secret(os.urandom(SECRET_BYTES)), user, cluster)
    write_private(path, uri.reveal() + b"\n")


def draw_recovery_codes(path: Path, user: str) -> None:
    """Write new recovery codes to a file, one to a line.

    Raises:
        OSError: it cannot be written.
    """
    _, codes = make_codes(user, os.urandom(CODES * CODE_BYTES))
    write_private(path, b"".join(each.reveal() + b"\n" for each in codes))


def read_totp_uri(path: Path) -> str:
    """Return what a QR code shows to an authenticator.

    Raises:
        CommandFailed: the file cannot be read, others may read it, or it holds no secret.
    """
    text = read_private(path, URI_BYTES_MAX).decode(errors="replace").strip()
    _secret_in(path, text)
    return text


def read_totp_secret(path: Path) -> Secret:
    """Return the secret in a file.

    Raises:
        CommandFailed: the file cannot be read, others may read it, or it holds no secret.
    """
    return _secret_in(path, read_totp_uri(path))


def read_recovery_codes(path: Path) -> tuple[Secret, ...]:
    """Return the recovery codes in a file.

    Raises:
        CommandFailed: the file cannot be read, or others may read it.
    """
    lines = read_private(path, URI_BYTES_MAX).decode(errors="replace").split()
    return tuple(Secret.of(each) for each in lines)


def codes_at(path: Path, now_ms: int) -> tuple[str, str]:
    """Return the codes of now and of the next half minute, which brokers take as well.

    The second is for whoever has used the first one up: each lets somebody in once.

    Raises:
        CommandFailed: the file cannot be read, others may read it, or it holds no secret.
    """
    secret, step = read_totp_secret(path), step_of(now_ms)
    return write_code(secret, step), write_code(secret, step + 1)


def _secret_in(path: Path, text: str) -> Secret:
    try:
        return read_uri(text)
    except InvalidRequest as error:
        raise _wrong(path, error) from None


def _wrong(path: Path, error: InvalidRequest) -> CommandFailed:
    return wrong_file(f"{path}: {error}", "what `kafkaesque user totp add` shows, in one line")
