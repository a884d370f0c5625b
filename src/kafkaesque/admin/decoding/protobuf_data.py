"""Messages of Protocol Buffers, as their canonical JSON with the fields' own names.

Theory of operation. The library reads them, and bounds only how deep they are: an empty message
takes two bytes on the wire, and in memory a place for each of its fields. So the bytes are walked
through first, by the rules of the wire format (Protocol Buffers guide, "Encoding"), and each field
is paid for. What the library then makes cannot be more.
"""

from collections.abc import Sequence
from typing import Any, Final

from kafkaesque.admin.decoding.bounds import (
    PART_BYTES,
    Allowance,
    UndecodableError,
    check_depth,
)

#: What a message may take in memory, while it is made JSON.
MEMORY_BYTES_MAX: Final = 32 * 1024 * 1024
#: What a message takes beside its fields, and what each of these does.
_MESSAGE_BYTES: Final = 96
_FIELD_BYTES: Final = 16
#: Each `Any` within another one is copied once more.
_ANY_DEPTH: Final = 8
_VARINT_BYTES_MAX: Final = 10
_INDEXES_MAX: Final = 32
_VARINT, _FIXED64, _DELIMITED, _BEGIN, _END, _FIXED32 = range(6)

# Descriptors and messages of the library.
_Descriptor = Any


def read_indexes(data: bytes, at: int) -> tuple[list[int], int]:
    """Return which message of its file this is, and where the message begins.

    Confluent's serializers write the number of a message in its file, then those of the messages
    within it, each in zigzag, after how many they are; a lone 0 stands for the first message.

    Raises:
        UndecodableError: there is no such list.
    """
    count, at = _zigzag(data, at)
    if count == 0:
        return [0], at
    if not 0 < count <= _INDEXES_MAX:
        raise UndecodableError(
            f"it does not say which message of its schema it is: {count} numbers"
        )
    found = []
    for _ in range(count):
        number, at = _zigzag(data, at)
        found.append(number)
    return found, at


def find_message(file: _Descriptor, indexes: Sequence[int]) -> _Descriptor:
    """Return a message of a file by its numbers.

    Raises:
        UndecodableError: there is none.
    """
    choices = list(file.message_types_by_name.values())
    found = None
    for number in indexes:
        if not 0 <= number < len(choices):
            raise UndecodableError(f"its schema has no message {list(indexes)}")
        found = choices[number]
        choices = _nested(found)
    return found


def _nested(message: _Descriptor) -> list[_Descriptor]:
    """Return the messages within one as they are counted.

    Java's serializers count as the text has them, without the entries of maps. Others count these,
    too; where they stand is lost in the text, so they come last.
    """
    own = [each for each in message.nested_types if not each.GetOptions().map_entry]
    return own + [each for each in message.nested_types if each.GetOptions().map_entry]


def read_protobuf(data: bytes, message: _Descriptor, allowance: Allowance) -> Any:
    """Return a message as JSON has it, with those fields that are not set and have a default.

    Raises:
        UndecodableError: these bytes are no such message, or too large.
    """
    # Loaded with the first of them.
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    _Walk(data, message.file.pool, allowance).message(message, 0, len(data), 0)
    try:
        read = GetMessageClass(message)()
        read.ParseFromString(data)
        return MessageToDict(
            read,
            preserving_proto_field_name=True,
            always_print_fields_with_no_presence=True,
            descriptor_pool=message.file.pool,
        )
    except Exception as error:
        # What the library raises is not said anywhere; a defect of it is no reason to fail either.
        raise UndecodableError(f"it cannot be read as {message.full_name}: {error}") from None


class _Walk:
    """Pays for a message, and for all that is in it."""

    __slots__ = ("_allowance", "_data", "_memory_bytes", "_pool", "_prices", "_symbols")

    def __init__(self, data: bytes, pool: _Descriptor, allowance: Allowance) -> None:
        self._data = data
        self._pool = pool
        self._allowance = allowance
        self._memory_bytes = 0
        #: Of a message's fields as they are shown without values, by its full name.
        self._prices: dict[str, int] = {}
        #: The length of the longest name of an enum's values, by its full name.
        self._symbols: dict[str, int] = {}

    def message(self, kind: _Descriptor, at: int, end: int, depth: int, group: int = 0) -> int:
        """Walk through a message; return where it ends, which a group says itself.

        The kind is None where nobody knows it: then it is passed over.

        Raises:
            UndecodableError: it is none, or too large.
        """
        check_depth(depth)
        if kind is not None:
            self._pay_message(kind)
        found: dict[int, tuple[int, int]] = {}
        while at < end:
            tag, at = _varint(self._data, at, end)
            number, wire = tag >> 3, tag & 7
            if wire == _END:
                if number != group or not group:
                    raise UndecodableError(f"before byte {at} a group ends that did not begin")
                return at
            field = self._field(kind, number)
            if wire == _BEGIN:
                within = None if field is None else field.message_type
                at = self.message(within, at, end, depth + 1, group=number)
                continue
            begin, at = self._value(wire, at, end)
            if field is not None:
                found[number] = (begin, at)
                self._pay_field(field, wire, begin, at, depth)
        if group:
            raise UndecodableError("it ends within a group")
        if kind is not None and kind.full_name == "google.protobuf.Any":
            self._any(found, depth)
        return at

    def _field(self, kind: _Descriptor, number: int) -> _Descriptor:
        """Return a field of a message, or None."""
        if kind is None:
            return None
        field = kind.fields_by_number.get(number)
        if field is None and kind.is_extendable:
            try:
                return self._pool.FindExtensionByNumber(kind, number)
            except KeyError:
                return None
        return field

    def _value(self, wire: int, at: int, end: int) -> tuple[int, int]:
        """Return where a field's value begins and ends."""
        if wire == _VARINT:
            return at, _varint(self._data, at, end)[1]
        if wire == _DELIMITED:
            size, at = _varint(self._data, at, end)
        elif wire in (_FIXED32, _FIXED64):
            size = 4 if wire == _FIXED32 else 8
        else:
            raise UndecodableError(f"before byte {at} is no field")
        if size > end - at:
            raise UndecodableError(f"at byte {at} it is to have {size} more bytes")
        return at, at + size

    def _pay_message(self, kind: _Descriptor) -> None:
        self._memory_bytes += _MESSAGE_BYTES + _FIELD_BYTES * len(kind.fields)
        if self._memory_bytes > MEMORY_BYTES_MAX:
            raise UndecodableError(f"it takes more than {MEMORY_BYTES_MAX} bytes in memory")
        price = self._prices.get(kind.full_name)
        if price is None:
            price = PART_BYTES + sum(
                len(each.name) + PART_BYTES + self._symbol_length(each) for each in kind.fields
            )
            self._prices[kind.full_name] = price
        self._allowance.take(price)

    def _pay_field(self, field: _Descriptor, wire: int, begin: int, end: int, depth: int) -> None:
        if field.message_type is not None and wire == _DELIMITED:
            self.message(field.message_type, begin, end, depth + 1)
            return
        size = end - begin
        count = size if wire == _DELIMITED and field.type not in _TEXTS else 1
        self._allowance.take(2 * size + count * (PART_BYTES + self._symbol_length(field)))

    def _symbol_length(self, field: _Descriptor) -> int:
        """Return the length of the longest name that stands for a value; 0 if it is no enum."""
        kind = field.enum_type
        if kind is None:
            return 0
        length = self._symbols.get(kind.full_name)
        if length is None:
            length = max(map(len, kind.values_by_name), default=0)
            self._symbols[kind.full_name] = length
        return length

    def _any(self, found: dict[int, tuple[int, int]], depth: int) -> None:
        """Walk through what an `Any` holds, where its type is known."""
        if 1 not in found or 2 not in found:
            return
        begin, end = found[1]
        name = self._data[begin:end].rpartition(b"/")[2].decode(errors="replace")
        try:
            kind = self._pool.FindMessageTypeByName(name)
        except KeyError:
            raise UndecodableError(f"it holds {name!r}, which its schema does not have") from None
        self.message(kind, *found[2], depth + _ANY_DEPTH)


#: Types whose length is that of what they hold: bytes and texts.
_TEXTS: Final = frozenset({9, 12})


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at, len(data))
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for count in range(_VARINT_BYTES_MAX):
        if at >= end:
            raise UndecodableError("it ends within a number")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            return value, at
    raise UndecodableError(f"the number before byte {at} is too long")
