"""Times as JetStream writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from typing import Final

_NS: Final = {
    "ns": 1,
    "us": 10**3,
    "\u00b5s": 10**3,
    "\u03bcs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3_600 * 10**9,
}
_PART: Final = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_DURATION_CHARACTERS_MAX: Final = 100
#: Go has durations in 64 bits, as requests between brokers have.
_DURATION_NS_MAX: Final = 2**63 - 1


def read_time(text: str) -> int:
    """Return a time in milliseconds since 1970.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)


def read_duration(text: str) -> int | None:
    """Return a duration as Go writes it ("1m30s") in nanoseconds; None: it is none, or too long."""
    parts = _PART.findall(text[:_DURATION_CHARACTERS_MAX])
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    ns = sum(int(Decimal(number) * _NS[unit]) for number, unit in parts)
    return ns if ns <= _DURATION_NS_MAX else None


def write_duration(ns: int) -> str:
    """Return a duration as Go writes it."""
    if ns < _NS["s"]:
        unit = next((each for each in ("ms", "us") if ns >= _NS[each]), "ns")
        return f"{ns / _NS[unit]:.6g}{unit}"
    minutes, rest = divmod(ns, _NS["m"])
    hours, minutes = divmod(minutes, 60)
    seconds = f"{rest / _NS['s']:.9f}".rstrip("0").rstrip(".")
    head = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{head}{seconds}s"


def rfc3339(timestamp_ms: int) -> str:
    """Return a time as JetStream writes it."""
    seconds, ms = divmod(max(timestamp_ms, 0), 1000)
    days, of_day = divmod(seconds, 86_400)
    year, month, day = _date(days)
    hour, minute, second = of_day // 3600, of_day // 60 % 60, of_day % 60
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}000000Z"


def _date(days: int) -> tuple[int, int, int]:
    """Return the date that comes so many days behind the first of January 1970."""
    days += 719_468
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    return year + era * 400 + (month <= 2), month, day
