"""A log-in by password and second factor for programs: they have the secret in a file.

Kafka's protocol has no place for a code. So the first command begins a session at an admin port, as
`kafkaesque login` does, and the others use it until it ends: a code is good once, and a session for
12 hours.
"""

import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from kafkaesque.access.secret import Secret
from kafkaesque.cli.addresses import parse_addresses
from kafkaesque.cli.admin_transport import UNAUTHORIZED, ask_session
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.private_file import wrong_file
from kafkaesque.cli.session_file import (
    StoredSession,
    find_session,
    read_session,
    session_path,
    write_session,
)
from kafkaesque.cli.totp_file import codes_at
from kafkaesque.cli.troubles import why

TOTP_VARIABLE: Final = "KAFKAESQUE_TOTP_FILE"
_BOOTSTRAP: Final = "KAFKAESQUE_BOOTSTRAP_SERVER"
_ADMIN: Final = "KAFKAESQUE_ADMIN"
_ADMIN_DEFAULT: Final = "127.0.0.1:8080"
#: A session with less left is not begun a command with.
_LEAST_MS: Final = 60_000


def session_by_code(
    user: str, password: Secret, totp_path: Path, address: str, environment: Mapping[str, str]
) -> StoredSession:
    """Return the session of a user at the cluster of the environment; begin one if there is none.

    Raises:
        CommandFailed: an address is none of that cluster's; nobody answers; or name, password or
            code are refused.
    """
    admin = environment.get(_ADMIN) or _ADMIN_DEFAULT
    found = _usable(user, admin, address, environment)
    if found is not None:
        return found
    known = tuple(f"{h}:{p}" for h, p in parse_addresses(environment.get(_BOOTSTRAP) or address))
    asked = [f"{h}:{p}" for h, p in parse_addresses(address)] if address else []
    if asked and not {*asked} & {*known, admin}:
        raise wrong_file(
            f"{TOTP_VARIABLE} is for the cluster of {', '.join(known)}, and {asked[0]} is none of "
            "its brokers",
            f"{_BOOTSTRAP} with all brokers, or kafkaesque login",
        )
    if not totp_path.exists():
        raise CommandFailed(
            f"{totp_path} is not there any more: somebody has to type the code",
            hint=f"kafkaesque login {user}",
        )
    with _alone():
        # Somebody else may have used the code up, and begun what we want.
        found = _usable(user, admin, address, environment)
        return found or _begin(user, password, totp_path, admin, known)


def _usable(
    user: str, admin: str, address: str, environment: Mapping[str, str]
) -> StoredSession | None:
    kept = read_session(environment)
    if kept is None or (kept.user, kept.admin) != (user, admin):
        return None
    if kept.expires_ms - time.time() * 1_000 < _LEAST_MS:
        return None
    return find_session(address, environment)


def _begin(
    user: str, password: Secret, totp_path: Path, admin: str, known: tuple[str, ...]
) -> StoredSession:
    text = password.reveal().decode()
    now, following = codes_at(totp_path, int(time.time() * 1_000))
    answer = ask_session(admin, user, text, now)
    if answer.status == UNAUTHORIZED:
        answer = ask_session(admin, user, text, following)
    told = answer.check(
        f"{totp_path} is the secret of another second factor, or its codes of this minute are used "
        "up: wait for half a minute"
    )
    session = StoredSession(
        user=user,
        token=Secret.of(told["token"]),
        expires_ms=told["expires_at"],
        addresses=(*known, admin),
        admin=admin,
    )
    try:
        write_session(session)
    except OSError as error:
        raise wrong_file(f"the session cannot be kept: {why(error)}") from None
    # From now on all that this process asks is asked of the session's cluster.
    return find_session(admin) or session


@contextmanager
def _alone() -> Iterator[None]:
    """Let one process at a time begin a session: a code is good for one of them."""
    path = session_path()
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise wrong_file(f"the session cannot be kept: {why(error)}") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
