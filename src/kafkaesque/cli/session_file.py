"""The session that `kafkaesque login` has begun: its token, in a file of its person alone."""

import json
import os
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kafkaesque.access.secret import Secret
from kafkaesque.cli.addresses import parse_addresses
from kafkaesque.cli.private_file import read_private, wrong_file

FILE_VARIABLE: Final = "KAFKAESQUE_SESSION_FILE"
FILE_BYTES_MAX: Final = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSession:
    """A session, and the cluster that it is one of."""

    user: str
    token: Secret
    #: Unix time.
    expires_ms: int
    #: `host:port` of its brokers' Kafka ports, as far as they were known at the log-in.
    addresses: tuple[str, ...]
    #: Where it was begun.
    admin: str

    @property
    def is_over(self) -> bool:
        """Whether its time is up."""
        return time.time() * 1_000 >= self.expires_ms


def session_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where the session is kept."""
    named = environment.get(FILE_VARIABLE)
    if named:
        return Path(named)
    home = environment.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "kafkaesque" / "session.json"


def read_session(environment: Mapping[str, str] = os.environ) -> StoredSession | None:
    """Return the session; None if there is none.

    Raises:
        CommandFailed: its file is open to others, or is none of ours.
    """
    path = session_path(environment)
    if not path.exists():
        return None
    data = read_private(path, FILE_BYTES_MAX)
    try:
        found = json.loads(data)
        return StoredSession(
            user=str(found["user"]),
            token=Secret.of(str(found["token"])),
            expires_ms=int(found["expires_ms"]),
            addresses=tuple(map(str, found["addresses"])),
            admin=str(found["admin"]),
        )
    except (ValueError, KeyError, TypeError):
        raise wrong_file(f"{path} holds no session", f"rm {path}; kafkaesque login") from None


def write_session(session: StoredSession) -> Path:
    """Keep a session in place of the one before; return where.

    Raises:
        OSError: that is not possible.
    """
    path = session_path()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(
            {
                "user": session.user,
                "token": session.token.reveal().decode(),
                "expires_ms": session.expires_ms,
                "addresses": list(session.addresses),
                "admin": session.admin,
            },
            file,
        )
    beside.replace(path)
    return path


class _Used:
    """Whether this process has met the session's cluster: then all it asks belongs to that."""

    is_so = False


def find_session(address: str, environment: Mapping[str, str] = os.environ) -> StoredSession | None:
    """Return the session for a cluster, named by addresses of its brokers; None if there is none.

    Raises:
        CommandFailed: the session's file is open to others, or is none of ours.
    """
    session = read_session(environment)
    if session is None or session.is_over:
        return None
    if _Used.is_so or _meet(address, (*session.addresses, session.admin)):
        _Used.is_so = True
        return session
    return None


def _meet(asked: str, known: Collection[str]) -> bool:
    if not asked:
        return False
    return any(f"{host}:{port}" in known for host, port in parse_addresses(asked))
