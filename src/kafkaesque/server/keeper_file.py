"""The file of the key keeper that is built in: keys that wrap the topics' keys."""

import os
import stat
from base64 import b64decode
from binascii import Error as NotBase64
from pathlib import Path
from typing import Final

from kafkaesque.access.key_keeper import FileKeyKeeper
from kafkaesque.access.secret import Secret
from kafkaesque.model.errors import ConfigError

#: Keys of one file: the one that wraps, and those of before.
KEYS_MAX: Final = 16
FILE_BYTES_MAX: Final = 4_096


def read_keeper_keys(path: Path) -> tuple[Secret, ...]:
    """Return the keys, the one that wraps first.

    Raises:
        ConfigError: the file cannot be read, holds anything else, or others may read it.
    """
    where = f"key.keeper.file {path}"
    try:
        with path.open("rb") as file:
            is_for_others = os.fstat(file.fileno()).st_mode & stat.S_IRWXO
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {where}: {error.strerror}") from None
    if is_for_others:
        raise ConfigError(f"{where}: others may read it; chmod o= {path}")
    lines = [line.strip() for line in content.split(b"\n") if line.strip()]
    if not lines:
        raise ConfigError(
            f"{where} is empty: write a key into it, the same on every machine: "
            f"(umask 077; head -c 32 /dev/urandom | base64 > {path})"
        )
    if len(content) > FILE_BYTES_MAX or len(lines) > KEYS_MAX:
        raise ConfigError(f"{where} has more than {KEYS_MAX} keys, or more than fits a line each")
    try:
        keys = tuple(Secret(b64decode(line, validate=True)) for line in lines)
        FileKeyKeeper(keys, os.urandom)
    except (NotBase64, ConfigError):
        raise ConfigError(f"{where}: each line must be 32 bytes in base64") from None
    if len({key.reveal() for key in keys}) < len(keys):
        raise ConfigError(f"{where}: a key is there twice")
    return keys
