"""Files with secrets, which nobody else may read."""

import os
import secrets
import stat
from pathlib import Path
from typing import Final

from kafkaesque.cli.exit_codes import WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed

#: 192 random bits, as text.
PASSWORD_BYTES: Final = 24
_MODE: Final = 0o600


def read_private(path: Path, bytes_max: int) -> bytes:
    """Return what is in a file.

    Raises:
        CommandFailed: it cannot be read, is too long, or others may read it.
    """
    try:
        with path.open("rb") as file:
            is_for_others = os.fstat(file.fileno()).st_mode & stat.S_IRWXO
            data = file.read(bytes_max + 1)
    except OSError as error:
        raise wrong_file(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if is_for_others:
        raise wrong_file(f"others may read {path}", f"chmod o= {path}")
    if len(data) > bytes_max:
        raise wrong_file(f"{path} is longer than {bytes_max} bytes")
    return data


def wrong_file(message: str, hint: str = "") -> CommandFailed:
    """Return the failure for a file that is not as it has to be."""
    return CommandFailed(message, hint=hint, exit_code=WRONG_USAGE)


def write_private(path: Path, data: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    half = path.with_name(f".{path.name}.new")
    half.unlink(missing_ok=True)
    with os.fdopen(os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    half.replace(path)


def draw_password(path: Path) -> None:
    """Write a new password to a file that is not there.

    Raises:
        FileExistsError: it is there.
        OSError: it cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _MODE)
    with os.fdopen(descriptor, "w") as file:
        file.write(secrets.token_urlsafe(PASSWORD_BYTES) + "\n")
