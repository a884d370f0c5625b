"""Times as JetStream writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def read_time(text: str) -> int:
    """Return a time in milliseconds since 1970.

    Raises:
        ValueError: it is none.
    """
    found = datetime.fromisoformat(text)
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return int(found.timestamp() * 1000)


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
