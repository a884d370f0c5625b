"""Files with secrets, which nobody else may read."""

import os
import stat
from pathlib import Path

from kafkaesque.cli.exit_codes import WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed


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
