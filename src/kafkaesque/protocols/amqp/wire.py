"""Primitive types and field tables.

Tables have all types that RabbitMQ knows. A text that is not UTF-8 is read with `surrogateescape`,
so that it is written as the same bytes. Whole numbers are written in 32 bits if they fit, and in 64
otherwise, as clients do; the widths that a peer used are known only from the raw bytes.
"""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from struct import Struct
from struct import error as struct_error
from typing import Final

from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode

Buffer = bytes | bytearray | memoryview
Table = dict[str, object]

SHORT_STRING_BYTES_MAX: Final = 255
#: Tables and arrays within one another.
NESTING_MAX: Final = 32

#: What reading past the end of a buffer, or a number that does not exist, raises.
MALFORMED: Final = (struct_error, IndexError, ValueError, OverflowError, ArithmeticError)


def what_is_wrong(error: Exception) -> str:
    """Return one of MALFORMED in words of ours: Python's say nothing to the peer."""
    if isinstance(error, struct_error | IndexError):
        return "it ends too soon"
    return "it has a value that cannot be"


U8, U16, U32, U64 = Struct(">B"), Struct(">H"), Struct(">I"), Struct(">Q")
_I8, _I16, _I32, _I64 = Struct(">b"), Struct(">h"), Struct(">i"), Struct(">q")
_F32, _F64 = Struct(">f"), Struct(">d")
_DECIMAL = Struct(">BI")


class Timestamp(int):
    """Seconds of Unix time; in a table a type of its own."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"Timestamp({int(self)})"


class Long(int):
    """A number that is written in 64 bits, though it would fit in 32: for clients that cast."""

    __slots__ = ()


def syntax_error(what: str) -> AmqpError:
    """Return the error for bytes that mean nothing."""
    return AmqpError(ReplyCode.SYNTAX_ERROR, what)


# -- strings


def read_short_string(data: Buffer, at: int) -> tuple[str, int]:
    """Return a text of up to 255 bytes, and the position behind it."""
    end = at + 1 + data[at]
    if end > len(data):
        raise syntax_error("a short string is cut short")
    return str(data[at + 1 : end], "utf-8", "surrogateescape"), end


def write_short_string(text: str) -> bytes:
    """Return a text as a short string.

    Raises:
        ValueError: it is longer.
    """
    raw = text.encode("utf-8", "surrogateescape")
    if len(raw) > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"a short string has at most 255 bytes, not {len(raw)}")
    return bytes((len(raw),)) + raw


def read_long_string(data: Buffer, at: int) -> tuple[bytes, int]:
    """Return bytes after their length, and the position behind them."""
    (size,) = U32.unpack_from(data, at)
    start = at + 4
    if size > len(data) - start:
        raise syntax_error("a long string is cut short")
    return bytes(data[start : start + size]), start + size


def write_long_string(raw: bytes) -> bytes:
    """Return bytes after their length."""
    return U32.pack(len(raw)) + raw


# -- tables


def read_table(data: Buffer, at: int, depth: int = 0) -> tuple[Table, int]:
    """Return a table, and the position behind it; of fields of one name the first counts.

    Raises:
        AmqpError, or one of MALFORMED: it is none.
    """
    at, end = _section(data, at, depth)
    table: Table = {}
    while at < end:
        name, at = read_short_string(data, at)
        value, at = _read_value(data, at, depth)
        table.setdefault(name, value)
    if at != end:
        raise syntax_error("a table's last field is longer than the table")
    return table, end


def _read_array(data: Buffer, at: int, depth: int) -> tuple[list[object], int]:
    at, end = _section(data, at, depth)
    values = []
    while at < end:
        value, at = _read_value(data, at, depth)
        values.append(value)
    if at != end:
        raise syntax_error("an array's last value is longer than the array")
    return values, end


def _section(data: Buffer, at: int, depth: int) -> tuple[int, int]:
    """Return where a table's or array's content begins and ends."""
    if depth > NESTING_MAX:
        raise syntax_error(f"tables are nested more than {NESTING_MAX} deep")
    (size,) = U32.unpack_from(data, at)
    end = at + 4 + size
    if end > len(data):
        raise syntax_error("a table is cut short")
    return at + 4, end


#: Types of one fixed layout.
_FIXED: Final = {
    ord("b"): _I8,
    ord("B"): U8,
    ord("s"): _I16,
    ord("u"): U16,
    ord("I"): _I32,
    ord("i"): U32,
    ord("l"): _I64,
    ord("L"): U64,
    ord("f"): _F32,
    ord("d"): _F64,
}


def _read_value(data: Buffer, at: int, depth: int) -> tuple[object, int]:
    kind = data[at]
    at += 1
    if kind == 0x53:  # S
        raw, at = read_long_string(data, at)
        return str(raw, "utf-8", "surrogateescape"), at
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed.unpack_from(data, at)[0], at + fixed.size
    match chr(kind):
        case "t":
            return data[at] != 0, at + 1
        case "V":
            return None, at
        case "T":
            return Timestamp(U64.unpack_from(data, at)[0]), at + 8
        case "x":
            return read_long_string(data, at)
        case "F":
            return read_table(data, at, depth + 1)
        case "A":
            return _read_array(data, at, depth + 1)
        case "D":
            scale, digits = _DECIMAL.unpack_from(data, at)
            return Decimal(digits).scaleb(-scale), at + 5
    raise syntax_error(f"{kind:#04x} is no type of a field")


def write_table(table: Table, depth: int = 0) -> bytes:
    """Return a table.

    Raises:
        ValueError: it has a value or a name that a table cannot have.
    """
    parts = []
    for name, value in table.items():
        parts.append(write_short_string(name))
        parts.append(_write_value(value, depth))
    return write_long_string(b"".join(parts))


def change_table(data: Buffer, written: Table, dropped: Collection[str]) -> bytes:
    """Return a whole table with other fields.

    All fields of a name that is written or dropped go; the others keep their bytes, and so their
    types.

    Raises:
        AmqpError, or one of MALFORMED: it is none.
        ValueError: a table cannot have one of the fields.
    """
    at, end = _section(data, 0, 0)
    new = {name: write_short_string(name) + _write_value(each, 0) for name, each in written.items()}
    parts: list[bytes] = []
    while at < end:
        start = at
        name, at = read_short_string(data, at)
        _, at = _read_value(data, at, 0)
        if name in new:
            parts.append(new.pop(name))
        elif name not in written and name not in dropped:
            parts.append(bytes(data[start:at]))
    if at != end:
        raise syntax_error("a table's last field is longer than the table")
    return write_long_string(b"".join((*parts, *new.values())))


def _write_value(value: object, depth: int) -> bytes:
    match value:
        case None:
            return b"V"
        case bool():
            return b"t\x01" if value else b"t\x00"
        case Timestamp():
            return b"T" + U64.pack(value)
        case Long():
            return b"l" + _I64.pack(value)
        case int():
            return _write_number(value)
        case float():
            return b"d" + _F64.pack(value)
        case str():
            return b"S" + write_long_string(value.encode("utf-8", "surrogateescape"))
        case bytes():
            return b"x" + write_long_string(value)
        case Decimal():
            return _write_decimal(value)
    if depth >= NESTING_MAX:
        raise ValueError(f"tables are nested more than {NESTING_MAX} deep")
    if isinstance(value, dict):
        return b"F" + write_table(value, depth + 1)
    if isinstance(value, list | tuple):
        return b"A" + write_long_string(b"".join(_write_value(e, depth + 1) for e in value))
    raise ValueError(f"a table cannot hold {type(value).__name__}")


def _write_number(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"I" + _I32.pack(value)
    if -(2**63) <= value < 2**63:
        return b"l" + _I64.pack(value)
    if 0 <= value < 2**64:
        return b"L" + U64.pack(value)
    raise ValueError(f"{value} has more than 64 bits")


def _write_decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    if sign or not isinstance(exponent, int) or exponent < -255:
        raise ValueError(f"{value} is no decimal of AMQP")
    number = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    if number >= 2**32:
        raise ValueError(f"{value} has too many digits")
    return b"D" + _DECIMAL.pack(max(-exponent, 0), number)
