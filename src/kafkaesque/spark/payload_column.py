"""Makes columns of payloads of columns of values and back, by a codec's own Python objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

PAYLOAD, REASON = "payload", "bad_reason"
#: The type of what `encode_column` returns, as Spark has it.
ENCODED = StructType([StructField("value", BinaryType()), StructField("bad_reason", StringType())])
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


def encode_column(payloads: Any, encode: Callable[[Any], bytes]) -> Any:
    """Return a column of (value, why there is none); what is null is neither.

    `encode` takes a payload as Python objects, and may raise whatever it wants.
    """
    values: list[bytes | None] = []
    reasons: list[str | None] = []
    for payload in payloads.to_pylist(maps_as_pydicts="lossy"):
        value = reason = None
        try:
            value = None if payload is None else encode(payload)
        except Exception as error:  # Whatever a library does with what does not fit.
            reason = f"the payload cannot be written: {type(error).__name__} {error}"
        values.append(value)
        reasons.append(reason)
    return pa.StructArray.from_arrays(
        [pa.array(values, pa.binary()), pa.array(reasons, pa.string())], names=["value", REASON]
    )


def frame_of(schema_id: int | None) -> bytes:
    """Return what a schema registry's framing puts before a payload, which may be nothing."""
    return b"" if schema_id is None else b"\0" + schema_id.to_bytes(4, "big")
