"""Values in MessagePack (its specification, "Formats"), each part paid for before it is built.

Ours, and not msgspec's decoder: empty lists of one byte each become a hundred times that in memory.
"""

import struct
from collections.abc import Mapping
from typing import Any, Final

from kafkaesque.admin.decoding.bounds import (
    PART_BYTES,
    Allowance,
    UndecodableError,
    check_depth,
    left_over,
)
from kafkaesque.admin.decoding.plain_values import shown_bytes, shown_float, shown_time

_Value = Any

#: Numbers, by their first byte.
_NUMBERS: Final[Mapping[int, struct.Struct]] = {
    0xCA: struct.Struct(">f"),
    0xCB: struct.Struct(">d"),
    0xCC: struct.Struct(">B"),
    0xCD: struct.Struct(">H"),
    0xCE: struct.Struct(">I"),
    0xCF: struct.Struct(">Q"),
    0xD0: struct.Struct(">b"),
    0xD1: struct.Struct(">h"),
    0xD2: struct.Struct(">i"),
    0xD3: struct.Struct(">q"),
}
_CONSTANTS: Final[Mapping[int, bool | None]] = {0xC0: None, 0xC2: False, 0xC3: True}
#: What has a length, by its first byte: what it is, and how many bytes its length takes.
_SIZED: Final[Mapping[int, tuple[str, int]]] = {
    0xC4: ("bin", 1),
    0xC5: ("bin", 2),
    0xC6: ("bin", 4),
    0xC7: ("ext", 1),
    0xC8: ("ext", 2),
    0xC9: ("ext", 4),
    0xD9: ("str", 1),
    0xDA: ("str", 2),
    0xDB: ("str", 4),
    0xDC: ("array", 2),
    0xDD: ("array", 4),
    0xDE: ("map", 2),
    0xDF: ("map", 4),
}
_TIMESTAMP: Final = -1


def read_msgpack(data: bytes, allowance: Allowance) -> _Value:
    """Return a value as JSON has it: names of maps are texts, bytes are base64, timestamps texts.

    Raises:
        UndecodableError: it is no MessagePack, or too large.
    """
    reader = _Reader(data, allowance)
    value = reader.read(0)
    if reader.at < len(data):
        raise left_over(len(data) - reader.at)
    return value


#: What a map can begin with: a short one, or one with its size in two or four bytes.
_SHORT_MAPS: Final = range(0x81, 0x90)
_LONG_MAPS: Final = {0xDE: 3, 0xDF: 5}
#: What `is_surely_msgpack` takes begins with one of these.
FIRST_BYTES: Final = frozenset({*_SHORT_MAPS, *_LONG_MAPS})


def is_surely_msgpack(data: bytes) -> bool:
    """Tell whether bytes that are no text can hardly be anything else.

    Nearly all bytes are some MessagePack. This takes only maps whose first name is a readable text,
    and whoever reads on finds whether the bytes end where the map does.
    """
    first = data[0] if data else 0
    at = _LONG_MAPS.get(first, 1 if first in _SHORT_MAPS else 0)
    if not at or at >= len(data):
        return False
    kind = data[at]
    if 0xA1 <= kind <= 0xBF:
        size, at = kind & 0x1F, at + 1
    elif kind == 0xD9 and at + 1 < len(data):
        size, at = data[at + 1], at + 2
    else:
        return False
    name = data[at : at + size]
    try:
        return len(name) == size > 0 and name.decode().isprintable()
    except UnicodeDecodeError:
        return False


class _Reader:
    """One value under way."""

    __slots__ = ("_allowance", "_data", "at")

    def __init__(self, data: bytes, allowance: Allowance) -> None:
        self._data = data
        self._allowance = allowance
        self.at = 0

    def read(self, depth: int) -> _Value:
        """Read a value of any type."""
        check_depth(depth)
        self._allowance.take(PART_BYTES)
        (first,) = self._take(1)
        if first <= 0x7F:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        number = _NUMBERS.get(first)
        if number is not None:
            (value,) = number.unpack(self._take(number.size))
            return shown_float(value) if isinstance(value, float) else value
        return self._sized(*self._size_of(first), depth)

    def _size_of(self, first: int) -> tuple[str, int]:
        if first <= 0x8F:
            return "map", first & 0x0F
        if first <= 0x9F:
            return "array", first & 0x0F
        if first <= 0xBF:
            return "str", first & 0x1F
        if 0xD4 <= first <= 0xD8:
            return "ext", 1 << (first - 0xD4)
        if first not in _SIZED:
            raise UndecodableError(f"byte {self.at - 1} begins nothing of MessagePack")
        kind, width = _SIZED[first]
        return kind, int.from_bytes(self._take(width), "big")

    def _sized(self, kind: str, size: int, depth: int) -> _Value:
        match kind:
            case "str":
                return self._text(size)
            case "bin":
                return shown_bytes(self._take(size, 2))
            case "ext":
                return self._extension(size)
            case "array":
                return [self.read(depth + 1) for _ in range(size)]
            case _:
                return self._map(size, depth)

    def _map(self, size: int, depth: int) -> dict[str, _Value]:
        found = {}
        for _ in range(size):
            key = self.read(depth + 1)
            if isinstance(key, dict | list):
                raise UndecodableError(f"before byte {self.at} a map has a name that is no text")
            found[_name(key)] = self.read(depth + 1)
        return found

    def _text(self, size: int) -> str:
        try:
            return self._take(size, 1).decode()
        except UnicodeDecodeError:
            raise UndecodableError(f"the text before byte {self.at} is no UTF-8") from None

    def _extension(self, size: int) -> _Value:
        code = int.from_bytes(self._take(1), "big", signed=True)
        data = self._take(size, 2)
        self._allowance.take(PART_BYTES)
        if code == _TIMESTAMP and size in (4, 8, 12):
            return _timestamp(data)
        return {"ext": code, "data": shown_bytes(data)}

    def _take(self, size: int, price: int = 0) -> bytes:
        if size > len(self._data) - self.at:
            raise UndecodableError(f"at byte {self.at} it is to have {size} more bytes")
        self._allowance.take(size * price)
        self.at += size
        return self._data[self.at - size : self.at]


def _name(key: object) -> str:
    """Return a name of a map as JSON has it."""
    if isinstance(key, str):
        return key
    return "null" if key is None else str(key).lower() if isinstance(key, bool) else str(key)


def _timestamp(data: bytes) -> str | int:
    if len(data) == 4:
        return shown_time(int.from_bytes(data, "big"), 1)
    if len(data) == 8:
        both = int.from_bytes(data, "big")
        nanoseconds, seconds = both >> 34, both & 0x3_FFFF_FFFF
    else:
        nanoseconds = int.from_bytes(data[:4], "big")
        seconds = int.from_bytes(data[4:], "big", signed=True)
    units = seconds * 1_000_000_000 + nanoseconds
    # JSON's writer has no longer numbers.
    shown = shown_time(units, 1_000_000_000)
    return shown if isinstance(shown, str) else str(shown)
