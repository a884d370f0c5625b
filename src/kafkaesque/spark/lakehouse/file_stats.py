"""What a file's footer says of its columns, in the words of Delta Lake's log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NUMBERS = ("int8", "int16", "int32", "int64")


def column_stats(metadata: Any, schema: Any) -> dict[str, Any]:
    """Return the statistics of a file's whole numbers and timestamps.

    The least and greatest are left out where the footer does not tell them of all rows.
    """
    nulls: dict[str, int] = {}
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    for number, name in enumerate(_leaves(metadata)):
        if name not in schema.names or not _is_told(schema.field(name).type):
            continue
        found = _bounds(metadata, number)
        if found is None:
            continue
        nulls[name], pair = found
        words = None if pair is None else _words(schema.field(name).type, *pair)
        if words is not None:
            least[name], most[name] = words
    return {
        "numRecords": metadata.num_rows,
        "minValues": least,
        "maxValues": most,
        "nullCount": nulls,
    }


def _leaves(metadata: Any) -> list[str]:
    """Return the names of the columns as they are numbered in each row group."""
    return [metadata.schema.column(at).path for at in range(metadata.num_columns)]


def _bounds(metadata: Any, number: int) -> tuple[int, tuple[int, int] | None] | None:
    """Return how many are null, and the least and greatest; None where it is not told."""
    nulls = 0
    pairs: list[tuple[int, int]] = []
    for group in range(metadata.num_row_groups):
        column = metadata.row_group(group).column(number)
        stats = column.statistics
        if stats is None or not stats.has_null_count:
            return None
        nulls += stats.null_count
        if stats.has_min_max:
            pairs.append((stats.min_raw, stats.max_raw))
        elif stats.null_count < column.num_values:
            return None
    if not pairs:
        return nulls, None
    return nulls, (min(low for low, _ in pairs), max(high for _, high in pairs))


def _is_told(kind: Any) -> bool:
    return str(kind) in _NUMBERS or str(kind) == "timestamp[us, tz=UTC]"


def _words(kind: Any, low: int, high: int) -> tuple[Any, Any] | None:
    if str(kind) in _NUMBERS:
        return low, high
    try:
        # Milliseconds are all that the log's readers agree on: outwards.
        return _time(low // 1000), _time(-(-high // 1000))
    except OverflowError:
        return None


def _time(ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
