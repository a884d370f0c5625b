"""Why a message was given up, as the broker that moved it writes into a header: JSON."""

import json
from collections.abc import Iterable
from typing import NamedTuple

from kafkaesque.model.message_headers import DEATH


class Death(NamedTuple):
    """One time that a message was given up."""

    queue: str
    vhost: str
    #: `expired`, `too_long`, `rejected` or `attempts`.
    reason: str
    attempts: int
    #: Unix time in milliseconds.
    at_ms: int


def deaths_of(headers: Iterable[tuple[str, bytes | None]]) -> list[Death]:
    """Return how a message came where it is, oldest first; what cannot be read is left out."""
    found = (_read_death(value) for name, value in headers if name == DEATH)
    return [each for each in found if each is not None]


def _read_death(value: bytes | None) -> Death | None:
    try:
        said = json.loads(value or b"")
        return Death(
            str(said["queue"]),
            str(said["vhost"]),
            str(said["reason"]),
            int(said["attempts"]),
            int(said["at_ms"]),
        )
    except (ValueError, KeyError, TypeError):
        return None
