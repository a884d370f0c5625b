"""How a person names a place in a log: earliest, latest, a number, or a time."""

from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto

from kafkaesque.cli.arguments import wrong_usage


class PlaceKind(Enum):
    """What a place is counted from."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    #: So many messages before the end.
    TAIL = auto()
    TIME = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in every partition of a topic; `number` is an offset, a count or milliseconds."""

    kind: PlaceKind
    number: int = 0


EXAMPLE = "--offset earliest, latest, 42, -10 (before the end) or 2026-01-31T12:00"


def parse_place(word: str) -> Place:
    """Return the place that a word means.

    Raises:
        CommandFailed: it means none.
    """
    if word in ("earliest", "latest"):
        return Place(kind=PlaceKind[word.upper()])
    try:
        number = int(word)
    except ValueError:
        return Place(kind=PlaceKind.TIME, number=parse_time_ms(word))
    if number < 0:
        return Place(kind=PlaceKind.TAIL, number=-number)
    return Place(kind=PlaceKind.OFFSET, number=number)


def parse_time_ms(word: str) -> int:
    """Return milliseconds since 1970 of an ISO 8601 time; without a zone it is local time.

    Raises:
        CommandFailed: it is not a time.
    """
    try:
        time = datetime.fromisoformat(word)
    except ValueError:
        raise wrong_usage(f"{word!r} is neither an offset nor a time", EXAMPLE) from None
    return int(time.timestamp() * 1000)
