"""Why a message was given up, as the broker that moved it writes into a header: JSON."""

import json
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafkaesque.model.message_headers import DEATH

_NUMBER_MAX: Final = 2**53


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


def key_of_last_way(headers: Iterable[tuple[str, bytes | None]], queue: str) -> str | None:
    """Return the routing key with which a dead letter came to a queue; None: its publisher's."""
    key: str | None = None
    is_named = False
    for name, value in headers:
        said = _read_object(value) if name == DEATH else None
        if said is None:
            continue
        if is_named:
            key, is_named = str(said.get("queue")), False
        if said.get("exchange") is None:
            # It went to a queue: the name of that one is its key.
            is_named = True
        elif isinstance(said.get("key"), str):
            key = str(said["key"])
    return queue if is_named else key


def _read_object(value: bytes | None) -> dict[str, object] | None:
    try:
        said = json.loads(value or b"")
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _read_death(value: bytes | None) -> Death | None:
    said = _read_object(value)
    if said is None:
        return None
    try:
        return Death(
            str(said["queue"]),
            str(said["vhost"]),
            str(said["reason"]),
            _number(said["attempts"]),
            _number(said["at_ms"]),
        )
    except (ValueError, KeyError):
        return None


def _number(said: object) -> int:
    """Return what a broker has counted: producers can write the header, too.

    Raises:
        ValueError: no broker has.
    """
    if not isinstance(said, int) or not 0 <= said <= _NUMBER_MAX:
        raise ValueError("no number that a broker writes")
    return int(said)
