"""Tells of a value in Avro, mostly, that there is not what a search looks for, undecoded.

Theory of operation. A schema and a path are compiled to a chain of functions: each passes over the
fields before the next name, by their types, and the last one compares. What follows is not looked
at, and nothing is checked: "it may be there" is right of any value, and whoever hears that decodes
it. So all that is rare or costs too much is said to be there, and "it is not" is right wherever a
value can be decoded at all. Values and schemas come from whoever may write them: a value takes time
as its bytes do, and a schema as its types times the names of the path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kafkaesque.admin.decoding.bounds import VALUE_BYTES_MAX, UndecodableError
from kafkaesque.admin.decoding.decoder import ID_BYTES, Decoder

#: A schema's JSON, as fastavro has parsed it.
_Node = Any
#: Both take a value's bytes and where something begins: one returns where it ends, the other
#: whether it may be what is wanted.
_Skip = Callable[[bytes, int], int]
_Test = Callable[[bytes, int], bool]

_FAILED: Final = (
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    UndecodableError,
    ValueError,
)


class AvroPath:
    """A path and what is wanted there, of the values of one search."""

    __slots__ = ("_path", "_tests", "_value")

    def __init__(self, path: Sequence[str], value: str | None) -> None:
        self._path: Final = tuple(path)
        self._value: Final = value
        #: By schema id, as it is written.
        self._tests: Final[dict[bytes, _Test]] = {}

    def may_fit(self, value: bytes, decoder: Decoder) -> bool:
        """Tell whether a value may have it; one that is not in Avro may."""
        if len(value) > VALUE_BYTES_MAX:
            return True
        written_id = value[1:ID_BYTES]
        test = self._tests.get(written_id)
        try:
            if test is None:
                schema = decoder.avro(int.from_bytes(written_id, "big"))
                if schema is None:
                    return True
                # Should it fail, it fails each time.
                self._tests[written_id] = _always
                test = _Compiler(schema.names, self._value).test(schema.root, self._path)
                self._tests[written_id] = test
            return test(value, ID_BYTES)
        except _FAILED:
            return True


class _Passing(NamedTuple):
    """How a type is passed over: by so many bytes, or else by a function, one byte at least."""

    size: int | None
    skip: _Skip


class _Compiler:
    """One schema under way."""

    def __init__(self, names: Mapping[str, _Node], value: str | None) -> None:
        self._names = names
        self._value = value
        self._passings: dict[str, _Passing] = {}
        #: By record and depth: many unions may lead to one.
        self._records: dict[tuple[int, int], _Test] = {}

    # -- the way to the value

    def test(self, node: _Node, path: Sequence[str]) -> _Test:
        """Return what tells of a value of a type whether something at a path may fit."""
        if isinstance(node, str):
            node = self._names.get(node, node)
        if isinstance(node, list):
            return _pick([self.test(each, path) for each in node])
        kind = node["type"] if isinstance(node, dict) else node
        if not isinstance(kind, str) or kind == "map":
            return _always
        if not path:
            return self._leaf(kind, is_plain="logicalType" not in node)
        if kind not in _RECORDS:
            return _never
        known = (id(node), len(path))
        found = self._records.get(known)
        if found is None:
            found = self._records[known] = self._field(node["fields"], path)
        return found

    def _field(self, fields: Sequence[_Node], path: Sequence[str]) -> _Test:
        names = [each["name"] for each in fields]
        if names.count(path[0]) != 1:
            return _always if path[0] in names else _never
        at = names.index(path[0])
        before = _merged([self._passing(each["type"]) for each in fields[:at]])
        return _after(before, self.test(fields[at]["type"], path[1:]))

    def _leaf(self, kind: str, *, is_plain: bool) -> _Test:
        """Return what compares; types that are shown in a way of their own are decoded."""
        if self._value is None or not is_plain:
            return _always
        if kind == "string":
            return _is_text(self._value.encode())
        return _is_number(self._value) if kind in ("int", "long") else _always

    # -- what is passed over

    def _passing(self, node: _Node) -> _Passing:
        if isinstance(node, str):
            return self._named(node)
        if isinstance(node, list):
            return _Passing(None, _choice([self._passing(each).skip for each in node]))
        kind = node["type"]
        if kind in _RECORDS:
            return _merged([self._passing(each["type"]) for each in node["fields"]])
        if kind == "fixed":
            return _fixed(node["size"])
        if kind == "array":
            return _Passing(None, _blocks(self._passing(node["items"])))
        if kind == "map":
            entry = _merged([_PLAIN["string"], self._passing(node["values"])])
            return _Passing(None, _blocks(entry))
        return self._passing(kind)

    def _named(self, name: str) -> _Passing:
        found = _PLAIN.get(name) or self._passings.get(name)
        if found is None:
            # A type that holds itself finds this one, which is called when the other is known.
            found = _Passing(None, lambda data, at: self._passings[name].skip(data, at))
            self._passings[name] = found
            self._passings[name] = found = self._passing(self._names[name])
        return found


# -- what a value is compared with


def _always(data: bytes, at: int) -> bool:
    return True


def _never(data: bytes, at: int) -> bool:
    return False


def _is_text(wanted: bytes) -> _Test:
    def test(data: bytes, at: int) -> bool:
        size, at = _long(data, at)
        return data[at : at + size] == wanted

    return test


def _is_number(wanted: str) -> _Test:
    try:
        number = int(wanted)
    except ValueError:
        return _never
    if str(number) != wanted:
        return _never
    return lambda data, at: _long(data, at)[0] == number


def _pick(tests: Sequence[_Test]) -> _Test:
    def test(data: bytes, at: int) -> bool:
        number, at = _long(data, at)
        return 0 <= number < len(tests) and tests[number](data, at)

    return test


def _after(passing: _Passing, test: _Test) -> _Test:
    size, skip = passing
    if size is None:
        return lambda data, at: test(data, skip(data, at))
    return lambda data, at: test(data, at + size)


# -- how types are passed over


def _long(data: bytes, at: int) -> tuple[int, int]:
    """Return a number in zigzag, and where it ends; one of more than ten bytes is none."""
    byte = data[at]
    value, shift = byte & 0x7F, 7
    while byte >= 0x80:
        if shift > 63:
            raise ValueError(at)
        at += 1
        byte = data[at]
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), at + 1


def _skip_long(data: bytes, at: int) -> int:
    while data[at] >= 0x80:
        at += 1
    return at + 1


def _skip_octets(data: bytes, at: int) -> int:
    size = data[at]
    if size < 0x80 and not size & 1:
        return at + 1 + (size >> 1)
    size, at = _long(data, at)
    if size < 0:
        raise ValueError(size)
    return at + size


def _fixed(size: _Node) -> _Passing:
    # fastavro takes sizes that are none.
    if not isinstance(size, int) or size < 0:
        raise ValueError(size)
    return _Passing(size, lambda data, at: at + size)


def _merged(passings: Sequence[_Passing]) -> _Passing:
    """Return how to pass over one after the other."""
    sizes = [each.size for each in passings if each.size is not None]
    if len(sizes) == len(passings):
        return _fixed(sum(sizes))
    skips = [each.skip for each in passings if each.size != 0]
    if len(skips) == 1:
        return _Passing(None, skips[0])

    def skip(data: bytes, at: int) -> int:
        for each in skips:
            at = each(data, at)
        return at

    return _Passing(None, skip)


def _choice(skips: Sequence[_Skip]) -> _Skip:
    def skip(data: bytes, at: int) -> int:
        number, at = _long(data, at)
        if number < 0:
            raise ValueError(number)
        return skips[number](data, at)

    return skip


def _blocks(item: _Passing) -> _Skip:
    """Return what passes over blocks, item by item: their sizes may be wrong, as nobody reads them.

    Items of no fixed size have a byte at least, so that they end with the value.
    """
    size, skip_item = item

    def skip(data: bytes, at: int) -> int:
        while True:
            count, at = _long(data, at)
            if count == 0:
                return at
            if count < 0:
                count, at = -count, _skip_long(data, at)
            if size is not None:
                at += count * size
                continue
            for _ in range(count):
                at = skip_item(data, at)

    return skip


_RECORDS: Final = ("record", "error")
_PLAIN: Final[Mapping[str, _Passing]] = {
    "null": _fixed(0),
    "boolean": _fixed(1),
    "float": _fixed(4),
    "double": _fixed(8),
    "int": _Passing(None, _skip_long),
    "long": _Passing(None, _skip_long),
    "enum": _Passing(None, _skip_long),
    "bytes": _Passing(None, _skip_octets),
    "string": _Passing(None, _skip_octets),
}
