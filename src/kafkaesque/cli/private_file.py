"""Files that nobody but their owner reads, whatever the umask is."""

import os
import secrets
from pathlib import Path
from typing import Final

#: 192 random bits, as text.
PASSWORD_BYTES: Final = 24
_MODE: Final = 0o600


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
