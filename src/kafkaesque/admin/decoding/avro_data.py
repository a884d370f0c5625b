"""Values in Avro's binary encoding (Avro 1.12, "Binary Encoding"), by the schema that wrote them.

Ours, and not fastavro's reader: that one has no bounds. A schema that refers to itself lets it
overflow the stack, and an array of nulls is as long as a few bytes say.
"""

import struct
from collections.abc import Callable, Mapping
from typing import Any, Final
from uuid import UUID

from kafkaesque.admin.decoding.bounds import (
    PART_BYTES,
    Allowance,
    UndecodableError,
    check_depth,
    left_over,
)
from kafkaesque.admin.decoding.plain_values import (
    shown_bytes,
    shown_date,
    shown_decimal,
    shown_float,
    shown_time,
    shown_time_of_day,
)

#: Bytes of the longest number, each with seven bits.
_VARINT_BYTES_MAX: Final = 10
#: Longer decimals, and those with more digits behind the point, are shown as their bytes.
_DECIMAL_BYTES_MAX: Final = 64
_SCALE_MAX: Final = 200

# A schema's JSON, as fastavro has parsed it; and what a value becomes in JSON.
_Node = Any
_Value = Any


def read_avro(data: bytes, root: _Node, names: Mapping[str, _Node], allowance: Allowance) -> _Value:
    """Return a value as JSON has it: a union is the value itself, bytes are base64.

    Dates, times, decimals and UUIDs are texts; other logical types are shown as what is under them.

    Raises:
        UndecodableError: these bytes were not written with this schema, or are too large.
    """
    reader = _Reader(data, names, allowance)
    try:
        value = reader.plain(root, 0)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        # fastavro takes schemas that are none, such as a size that is a text.
        raise UndecodableError(f"its schema does not say how it is read: {error!r}") from None
    except RecursionError:
        # It takes unions within unions, too, which are no deeper values.
        raise UndecodableError("it is nested too deeply") from None
    reader.check_end()
    return value


class _Reader:
    """One value under way."""

    __slots__ = ("_allowance", "_at", "_data", "_names")

    def __init__(self, data: bytes, names: Mapping[str, _Node], allowance: Allowance) -> None:
        self._data = data
        self._names = names
        self._allowance = allowance
        self._at = 0

    def check_end(self) -> None:
        """Raise `UndecodableError` if there is more than the value."""
        if self._at < len(self._data):
            raise left_over(len(self._data) - self._at)

    def plain(self, node: _Node, depth: int) -> _Value:
        """Read a value of any type as JSON has it."""
        value = self.read(node, depth)
        return shown_bytes(value) if isinstance(value, bytes) else value

    def read(self, node: _Node, depth: int) -> _Value:
        """Read a value; bytes are still bytes."""
        check_depth(depth)
        self._allowance.take(PART_BYTES)
        if isinstance(node, str):
            primitive = _PRIMITIVES.get(node)
            if primitive is not None:
                return primitive(self)
            if node not in self._names:
                raise UndecodableError(f"its schema does not say what {node!r} is")
            node = self._names[node]
        if isinstance(node, list):
            return self.read(self._pick(node, "branch"), depth)
        kind = node["type"]
        compound = _COMPOUNDS.get(kind) if isinstance(kind, str) else None
        value = compound(self, node, depth) if compound else self.read(kind, depth + 1)
        show = _LOGICAL.get(node.get("logicalType"))
        return value if show is None else show(value, node)

    # -- primitive types

    def null(self) -> None:
        """Read nothing."""

    def boolean(self) -> bool:
        """Read a byte that is 0 or 1."""
        (value,) = self._take(1)
        if value > 1:
            raise UndecodableError(f"byte {self._at - 1} is no boolean")
        return value == 1

    def long(self) -> int:
        """Read a number in zigzag."""
        value = 0
        for count in range(_VARINT_BYTES_MAX):
            if self._at >= len(self._data):
                raise UndecodableError("it ends within a number")
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                if value >= 1 << 64:
                    break
                return (value >> 1) ^ -(value & 1)
        raise UndecodableError(f"the number before byte {self._at} is too long")

    def single(self) -> float | str:
        """Read four bytes."""
        return shown_float(struct.unpack("<f", self._take(4))[0])

    def double(self) -> float | str:
        """Read eight bytes."""
        return shown_float(struct.unpack("<d", self._take(8))[0])

    def octets(self) -> bytes:
        """Read bytes; they are made a text once it is known what they mean."""
        return self._take(self.long(), 2)

    def string(self) -> str:
        """Read a text."""
        data = self._take(self.long(), 1)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise UndecodableError(f"the text before byte {self._at} is no UTF-8") from None

    def _take(self, size: int, price: int = 0) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise UndecodableError(f"at byte {self._at} it is to have {size} more bytes")
        self._allowance.take(size * price)
        self._at += size
        return self._data[self._at - size : self._at]

    # -- others

    def fixed(self, node: _Node, _: int) -> bytes:
        """Read as many bytes as the schema says."""
        return self._take(node["size"], 2)

    def enum(self, node: _Node, _: int) -> str:
        """Read a symbol's number."""
        symbol = str(self._pick(node["symbols"], "symbol"))
        self._allowance.take(len(symbol))
        return symbol

    def record(self, node: _Node, depth: int) -> dict[str, _Value]:
        """Read one field after the other."""
        found = {}
        for field in node["fields"]:
            self._allowance.take(len(field["name"]))
            found[field["name"]] = self.plain(field["type"], depth + 1)
        return found

    def array(self, node: _Node, depth: int) -> list[_Value]:
        """Read blocks of items."""
        found: list[_Value] = []
        while count := self._block():
            found.extend(self.plain(node["items"], depth + 1) for _ in range(count))
        return found

    def map(self, node: _Node, depth: int) -> dict[str, _Value]:
        """Read blocks of keys and values."""
        found = {}
        while count := self._block():
            for _ in range(count):
                key = self.string()
                found[key] = self.plain(node["values"], depth + 1)
        return found

    def _block(self) -> int:
        count = self.long()
        if count < 0:
            # Then its size is there, too, for those who pass over it.
            self.long()
            count = -count
        self._allowance.take(PART_BYTES)
        return count

    def _pick(self, choices: list[_Node], what: str) -> _Node:
        number = self.long()
        if not 0 <= number < len(choices):
            raise UndecodableError(
                f"before byte {self._at} is {what} {number}, and there are {len(choices)}"
            )
        return choices[number]


_PRIMITIVES: Final[Mapping[str, Callable[[_Reader], _Value]]] = {
    "null": _Reader.null,
    "boolean": _Reader.boolean,
    "int": _Reader.long,
    "long": _Reader.long,
    "float": _Reader.single,
    "double": _Reader.double,
    "bytes": _Reader.octets,
    "string": _Reader.string,
}
_COMPOUNDS: Final[Mapping[str, Callable[[_Reader, _Node, int], _Value]]] = {
    "fixed": _Reader.fixed,
    "enum": _Reader.enum,
    "record": _Reader.record,
    "error": _Reader.record,
    "array": _Reader.array,
    "map": _Reader.map,
}


# -- logical types: what is not of the type that they belong to is shown as it is


def _decimal(value: _Value, node: _Node) -> _Value:
    scale = node.get("scale", 0)
    if not isinstance(value, bytes) or len(value) > _DECIMAL_BYTES_MAX:
        return value
    if not isinstance(scale, int) or not 0 <= scale <= _SCALE_MAX:
        return value
    return shown_decimal(int.from_bytes(value, "big", signed=True), scale)


def _uuid(value: _Value, _: _Node) -> _Value:
    return str(UUID(bytes=value)) if isinstance(value, bytes) and len(value) == 16 else value


def _of_number(show: Callable[[int], _Value]) -> Callable[[_Value, _Node], _Value]:
    return lambda value, _: show(value) if type(value) is int else value


_LOGICAL: Final[Mapping[Any, Callable[[_Value, _Node], _Value]]] = {
    "decimal": _decimal,
    "uuid": _uuid,
    "date": _of_number(shown_date),
    "time-millis": _of_number(lambda value: shown_time_of_day(value, 1_000)),
    "time-micros": _of_number(lambda value: shown_time_of_day(value, 1_000_000)),
    "timestamp-millis": _of_number(lambda value: shown_time(value, 1_000)),
    "timestamp-micros": _of_number(lambda value: shown_time(value, 1_000_000)),
    "timestamp-nanos": _of_number(lambda value: shown_time(value, 1_000_000_000)),
    "local-timestamp-millis": _of_number(lambda value: shown_time(value, 1_000, is_local=True)),
    "local-timestamp-micros": _of_number(lambda value: shown_time(value, 1_000_000, is_local=True)),
    "local-timestamp-nanos": _of_number(
        lambda value: shown_time(value, 1_000_000_000, is_local=True)
    ),
}
