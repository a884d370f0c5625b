"""Reads and writes methods by the types of their fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, get_type_hints

from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import METHODS, Method
from kafkaesque.protocols.amqp.wire import (
    MALFORMED,
    U8,
    U16,
    U32,
    U64,
    Buffer,
    read_long_string,
    read_short_string,
    read_table,
    syntax_error,
    what_is_wrong,
    write_long_string,
    write_short_string,
    write_table,
)

_READERS: dict[str, Callable[[Buffer, int], tuple[Any, int]]] = {
    "octet": lambda data, at: (U8.unpack_from(data, at)[0], at + 1),
    "short": lambda data, at: (U16.unpack_from(data, at)[0], at + 2),
    "long": lambda data, at: (U32.unpack_from(data, at)[0], at + 4),
    "longlong": lambda data, at: (U64.unpack_from(data, at)[0], at + 8),
    "shortstr": read_short_string,
    "longstr": read_long_string,
    "table": read_table,
}
_WRITERS: dict[str, Callable[[Any], bytes]] = {
    "octet": U8.pack,
    "short": U16.pack,
    "long": U32.pack,
    "longlong": U64.pack,
    "shortstr": write_short_string,
    "longstr": write_long_string,
    "table": write_table,
}
_BIT = "bit"


@cache
def _fields(kind: type[Method]) -> tuple[tuple[str, str], ...]:
    """Return names and types of a method's fields, in the order of the wire."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple((name, hints[name].__metadata__[0]) for name in kind.__struct_fields__)


def method_kind(data: Buffer) -> type[Method]:
    """Return which method a frame's payload holds.

    Raises:
        AmqpError: none that there is.
    """
    if len(data) < 4:
        raise syntax_error("a method frame has at least 4 bytes")
    class_id, method_id = U16.unpack_from(data, 0)[0], U16.unpack_from(data, 2)[0]
    kind = METHODS.get((class_id, method_id))
    if kind is None:
        what = f"unknown method {class_id}.{method_id}"
        raise AmqpError(ReplyCode.COMMAND_INVALID, what, class_id, method_id)
    return kind


def read_method(data: Buffer) -> Method:
    """Return the method that a frame's payload holds.

    Raises:
        AmqpError: it holds none.
    """
    kind = method_kind(data)
    try:
        return _read(kind, data)
    except MALFORMED as error:
        raise _at(
            kind, syntax_error(f"{kind.__name__} cannot be read: {what_is_wrong(error)}")
        ) from None
    except AmqpError as error:
        raise _at(kind, error) from None


def _at(kind: type[Method], error: AmqpError) -> AmqpError:
    error.class_id, error.method_id = kind.class_id, kind.method_id
    return error


def _read(kind: type[Method], data: Buffer) -> Method:
    values: dict[str, Any] = {}
    at = 4
    bits, bit = 0, 8
    for name, field in _fields(kind):
        if field == _BIT:
            # Bits that follow one another share octets.
            if bit == 8:
                bits, at, bit = data[at], at + 1, 0
            values[name] = bool(bits >> bit & 1)
            bit += 1
            continue
        bit = 8
        values[name], at = _READERS[field](data, at)
    if at != len(data):
        raise syntax_error(f"{kind.__name__} has {len(data) - at} bytes too many")
    return kind(**values)


def write_method(method: Method) -> bytes:
    """Return a method as a frame's payload.

    Raises:
        ValueError: a value does not fit into its field.
    """
    kind = type(method)
    parts = [U16.pack(kind.class_id), U16.pack(kind.method_id)]
    bits, bit = 0, 0
    try:
        for name, field in _fields(kind):
            value = getattr(method, name)
            if field == _BIT:
                bits |= value << bit
                bit += 1
                continue
            if bit:
                parts.append(bytes((bits,)))
                bits, bit = 0, 0
            parts.append(_WRITERS[field](value))
        if bit:
            parts.append(bytes((bits,)))
    except MALFORMED as error:
        raise ValueError(f"{kind.__name__} cannot be written: {error}") from None
    return b"".join(parts)
