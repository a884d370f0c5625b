"""Makes a column of payloads of a column of values, by a codec's own Python objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

PAYLOAD, REASON = "payload", "bad_reason"
_MISFITS = (pa.ArrowException, OverflowError, ValueError, TypeError)


def decode_column(
    values: Any, decode: Callable[[bytes], tuple[Any, str | None]], arrow_type: Any
) -> Any:
    """Return a column of (payload, why it is bad); what is null is neither.

    `decode` returns a payload as Python objects, or why there is none.
    """
    found = [(None, None) if value is None else decode(value) for value in values.to_pylist()]
    rows, reasons = [row for row, _ in found], [reason for _, reason in found]
    try:
        payload = pa.array(rows, arrow_type)
    except _MISFITS:
        for number, row in enumerate(rows):
            reason = _misfit(row, arrow_type)
            if reason is not None:
                rows[number], reasons[number] = None, reason
        payload = pa.array(rows, arrow_type)
    return pa.StructArray.from_arrays(
        [payload, pa.array(reasons, pa.string())], names=[PAYLOAD, REASON]
    )


def _misfit(row: Any, arrow_type: Any) -> str | None:
    try:
        pa.array([row], arrow_type)
    except _MISFITS as error:
        return f"the payload does not fit Spark's types: {error}"
    return None
