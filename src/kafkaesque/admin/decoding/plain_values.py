"""Values that JSON has no word for, as people read them."""

import math
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def shown_bytes(data: bytes) -> str:
    """Return bytes in base64, as Protocol Buffers' JSON has them."""
    return b64encode(data).decode()


def shown_float(value: float) -> float | str:
    """Return a number; infinity and what is none by their names."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def shown_time(units: int, per_second: int, *, is_local: bool = False) -> str | int:
    """Return a time since 1970 in ISO 8601, to its unit; out of the years 1 to 9999 as it is."""
    seconds, rest = divmod(units, per_second)
    try:
        text = (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    except OverflowError:
        return units
    digits = len(str(per_second)) - 1
    fraction = f".{rest:0{digits}}" if digits else ""
    # Years before 1000 come without their zeros on some systems.
    return f"{text.rjust(19, '0')}{fraction}{'' if is_local else 'Z'}"


def shown_date(days: int) -> str | int:
    """Return a day since 1970 in ISO 8601; out of the years 1 to 9999 as it is."""
    try:
        return (_EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return days


def shown_time_of_day(units: int, per_second: int) -> str | int:
    """Return a time since midnight; what is none as it is."""
    seconds, rest = divmod(units, per_second)
    if not 0 <= seconds < 86_400:
        return units
    digits = len(str(per_second)) - 1
    minutes, second = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{second:02}.{rest:0{digits}}"


def shown_decimal(unscaled: int, scale: int) -> str:
    """Return an exact number, with so many digits behind the point."""
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign = "-" if unscaled < 0 else ""
    return f"{sign}{digits[:-scale]}.{digits[-scale:]}" if scale else f"{sign}{digits}"
