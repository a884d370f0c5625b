"""How a person names a place in a log: earliest, latest, a number, a time, or how long ago."""

import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Final

from kafkaesque.cli.arguments import wrong_usage

#: No log has an offset beyond it.
OFFSET_MAX: Final = 2**63 - 1


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


EXAMPLE = (
    "earliest, latest, 42, -10 (before the end), 2026-01-31T12:00 or PT2H30M (so long ago; P7D for"
    " days)"
)

#: ISO 8601, as far as a part has a fixed length.
_DURATION = re.compile(
    r"P(?=[\dT])(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?",
    re.ASCII | re.IGNORECASE,
)


def parse_place(word: str) -> Place:
    """Return the place that a word means; a duration is counted back from now.

    Raises:
        CommandFailed: it means none.
    """
    if word in ("earliest", "latest"):
        return Place(kind=PlaceKind[word.upper()])
    try:
        number = int(word)
    except ValueError:
        return Place(kind=PlaceKind.TIME, number=parse_time_ms(word))
    if abs(number) > OFFSET_MAX:
        raise wrong_usage(f"no log has an offset as large as {word}", EXAMPLE)
    if number < 0:
        return Place(kind=PlaceKind.TAIL, number=-number)
    return Place(kind=PlaceKind.OFFSET, number=number)


def parse_time_ms(word: str) -> int:
    """Return milliseconds since 1970 of an ISO 8601 time or of a duration ago.

    A time without a zone is local time.

    Raises:
        CommandFailed: it is neither, or before 1970.
    """
    try:
        if word[:1] in ("P", "p"):
            seconds = time.time() - _parse_duration_s(word)
        else:
            seconds = _since_1970_s(datetime.fromisoformat(word))
    except ValueError:
        raise wrong_usage(f"{word!r} is neither an offset nor a time", EXAMPLE) from None
    if seconds < 0:
        raise wrong_usage(f"{word} lies before 1970, where no message can be from", EXAMPLE)
    return int(seconds * 1000)


def _since_1970_s(moment: datetime) -> float:
    try:
        return moment.timestamp()
    except (OverflowError, ValueError):
        # Its time zone would bring it before the first year.
        return -1.0


def _parse_duration_s(word: str) -> float:
    """Return seconds, infinitely many where they are too many to count.

    Raises:
        ValueError: it is no duration.
    """
    found = _DURATION.fullmatch(word)
    if found is None:
        raise ValueError(word)
    parts: Mapping[str, str | None] = found.groupdict()
    try:
        return timedelta(**{name: float(text or 0) for name, text in parts.items()}).total_seconds()
    except OverflowError:
        return math.inf
