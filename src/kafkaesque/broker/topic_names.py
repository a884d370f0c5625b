"""Which names a topic may have: Kafka's rules."""

import re
from collections.abc import Iterable

from kafkaesque.model.errors import InvalidTopic

TOPIC_NAME_LENGTH_MAX = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Refuse what is no legal name.

    Raises:
        InvalidTopic: empty, too long, a dot or two, or with other characters than letters, digits,
            `.`, `_` and `-`.
    """
    if name in ("", ".", ".."):
        raise InvalidTopic(f"a topic cannot be called {name!r}")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise InvalidTopic(
            f"a topic's name has at most {TOPIC_NAME_LENGTH_MAX} characters, this has {len(name)}"
        )
    if not _LEGAL.fullmatch(name):
        raise InvalidTopic(
            f"topic name {name!r} holds other characters than letters, digits, '.', '_' and '-'"
        )


def find_collision(name: str, existing: Iterable[str]) -> str | None:
    """Return a topic whose name differs only by `.` and `_`: metrics could not tell them apart."""
    folded = name.replace(".", "_")
    for other in existing:
        if other != name and other.replace(".", "_") == folded:
            return other
    return None
