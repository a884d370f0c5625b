"""Who the command line is, where a cluster wants to know: a name, and a file with the password.

Passwords come from files alone: arguments and variables can be seen by others on the machine. With
`KAFKAESQUE_TOTP_FILE` the user has a second factor, and commands use a session.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from kafkaesque.access.secret import Secret
from kafkaesque.cli.code_log_in import TOTP_VARIABLE, session_by_code
from kafkaesque.cli.exit_codes import WRONG_USAGE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.private_file import read_private, wrong_file
from kafkaesque.cli.session_file import StoredSession, find_session
from kafkaesque.client.log_in import MECHANISM_DEFAULT, MECHANISMS, TOKEN_MECHANISM, LogIn

USER_VARIABLE: Final = "KAFKAESQUE_USER"
PASSWORD_VARIABLE: Final = "KAFKAESQUE_PASSWORD_FILE"
CONFIG_VARIABLE: Final = "KAFKAESQUE_COMMAND_CONFIG"
PASSWORD_BYTES_MAX: Final = 1024
CONFIG_BYTES_MAX: Final = 64 * 1024
#: What a file of settings may have, as librdkafka calls it. `KAFKAESQUE_CA` says whether TLS is on.
_KEYS: Final = ("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password")
_PROTOCOLS: Final = ("SASL_PLAINTEXT", "SASL_SSL")


def find_log_in(address: str = "", environment: Mapping[str, str] = os.environ) -> LogIn | None:
    """Return what the environment says, if it says anything, or the session for an address.

    Raises:
        CommandFailed: half of it is missing, or a file cannot be read or is open to others.
    """
    config = environment.get(CONFIG_VARIABLE)
    if config:
        return _read_config(Path(config))
    user, path = environment.get(USER_VARIABLE), environment.get(PASSWORD_VARIABLE)
    if not user and not path:
        session = find_session(address, environment)
        return None if session is None else _log_in_of(session)
    totp = environment.get(TOTP_VARIABLE)
    if user and path and totp:
        password = read_password(Path(path))
        return _log_in_of(session_by_code(user, password, Path(totp), address, environment))
    if not user or not path:
        missing = PASSWORD_VARIABLE if user else USER_VARIABLE
        raise CommandFailed(f"{missing} is not set, and the other one is", exit_code=WRONG_USAGE)
    return LogIn(user=user, password=read_password(Path(path)))


def _log_in_of(session: StoredSession) -> LogIn:
    return LogIn(
        user=session.user,
        password=session.token,
        mechanism=TOKEN_MECHANISM,
        expires_s=session.expires_ms / 1_000,
    )


def read_password(path: Path) -> Secret:
    """Return the password that is all of a file, but for the end of its line.

    Raises:
        CommandFailed: it cannot be read, is empty or too long, or others may read it.
    """
    data = read_private(path, PASSWORD_BYTES_MAX)
    password = data.removesuffix(b"\n").removesuffix(b"\r")
    if not password or b"\n" in password:
        raise wrong_file(f"{path} must have one line, the password")
    _decode(path, password)
    return Secret(password)


def _read_config(path: Path) -> LogIn:
    values: dict[str, str] = {}
    for line in _decode(path, read_private(path, CONFIG_BYTES_MAX)).splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        key, equals, value = line.partition("=")
        key = key.strip()
        if not equals or key not in _KEYS:
            raise wrong_file(f"{path}: {key!r} is not one of {', '.join(_KEYS)}")
        values[key] = value.strip()
    missing = [each for each in ("sasl.username", "sasl.password") if not values.get(each)]
    if missing:
        raise wrong_file(f"{path} has no {missing[0]}")
    if values.get("security.protocol", _PROTOCOLS[0]) not in _PROTOCOLS:
        raise wrong_file(f"{path}: security.protocol is one of {', '.join(_PROTOCOLS)}")
    mechanism = values.get("sasl.mechanism", MECHANISM_DEFAULT)
    if mechanism not in MECHANISMS:
        raise wrong_file(f"{path}: sasl.mechanism is one of {', '.join(MECHANISMS)}")
    return LogIn(
        user=values["sasl.username"],
        password=Secret.of(values["sasl.password"]),
        mechanism=mechanism,
    )


def _decode(path: Path, data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise wrong_file(f"{path} is not UTF-8") from None
