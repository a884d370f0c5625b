"""Messages of Protocol Buffers, as their canonical JSON with the fields' own names.

Theory of operation. The library reads them, and bounds only how deep they are: an empty message
takes two bytes on the wire, and in memory a place for each of its fields. So the bytes are walked
through first, by the rules of the wire format (Protocol Buffers guide, "Encoding"), and each field
is paid for. What the library then makes cannot be more: what it would read differently is refused.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
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
_ANY: Final = "google.protobuf.Any"
_WRAPPERS: Final = "google/protobuf/wrappers.proto"
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


@dataclass(frozen=True, slots=True)
class _Kind:
    """What is to be known of a message's type."""

    #: Of its fields as they are shown without values.
    price: int
    memory_bytes: int
    #: Of an entry of a map: the type of its value, which is shown even if it is not there.
    map_value: _Descriptor | None


@dataclass(slots=True)
class MessageTypes:
    """What is known of one schema's types; a large schema is not gone through for each value."""

    #: All by full names; of the file, which has none, there are only choices.
    _kinds: dict[str, _Kind] = field(default_factory=dict)
    _symbol_lengths: dict[str, int] = field(default_factory=dict)
    _choices: dict[str, list[_Descriptor]] = field(default_factory=dict)

    def find(self, file: _Descriptor, indexes: Sequence[int]) -> _Descriptor:
        """Return a message of a file by its numbers.

        Raises:
            UndecodableError: there is none.
        """
        found = None
        for number in indexes:
            name = "" if found is None else found.full_name
            choices = self._choices.get(name)
            if choices is None:
                within = file.message_types_by_name.values() if found is None else _nested(found)
                choices = self._choices[name] = list(within)
            if not 0 <= number < len(choices):
                raise UndecodableError(f"its schema has no message {list(indexes)}")
            found = choices[number]
        return found

    def kind(self, message: _Descriptor) -> _Kind:
        """Return what is known of a message's type.

        Raises:
            UndecodableError: the library would read it in a way of its own.
        """
        found = self._kinds.get(message.full_name)
        if found is None:
            options = message.GetOptions()
            if options.message_set_wire_format:
                raise UndecodableError(f"{message.full_name} is a message set")
            _check_well_known(message)
            price = PART_BYTES + sum(
                len(each.name) + PART_BYTES + self.symbol_length(each) for each in message.fields
            )
            memory_bytes = _MESSAGE_BYTES + _FIELD_BYTES * len(message.fields)
            value = message.fields_by_number[2].message_type if options.map_entry else None
            found = self._kinds[message.full_name] = _Kind(price, memory_bytes, value)
        return found

    def symbol_length(self, field: _Descriptor) -> int:
        """Return the length of the longest name that stands for a value; 0 if it is no enum."""
        kind = field.enum_type
        if kind is None:
            return 0
        length = self._symbol_lengths.get(kind.full_name)
        if length is None:
            length = max(map(len, kind.values_by_name), default=0)
            self._symbol_lengths[kind.full_name] = length
        return length


def _nested(message: _Descriptor) -> list[_Descriptor]:
    """Return the messages within one as they are counted.

    Java's serializers count as the text has them, without the entries of maps. Others count these,
    too; where they stand is lost in the text, so they come last.
    """
    own = [each for each in message.nested_types if not each.GetOptions().map_entry]
    return own + [each for each in message.nested_types if each.GetOptions().map_entry]


def read_protobuf(
    data: bytes, message: _Descriptor, types: MessageTypes, allowance: Allowance
) -> Any:
    """Return a message as JSON has it, with those fields that are not set and have a default.

    The types are those of the message's schema, for all that is read with it.

    Raises:
        UndecodableError: these bytes are no such message, or too large.
    """
    # Loaded with the first of them.
    from google.protobuf.json_format import MessageToDict
    from google.protobuf.message_factory import GetMessageClass

    _Walk(data, message.file.pool, types, allowance).message(message, 0, len(data), 0)
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


@cache
def _well_known() -> Mapping[str, _Descriptor]:
    """Return the messages that have a JSON of their own, by full names."""
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    files = (any_pb2, duration_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2)
    return {
        each.full_name: each
        for file in files
        for each in file.DESCRIPTOR.message_types_by_name.values()
    }


def _check_well_known(message: _Descriptor) -> None:
    """Check what the library shows by its name, or by that of its file, and not by its fields.

    Raises:
        UndecodableError: the schema means something else by that name.
    """
    own = _well_known().get(message.full_name)
    is_same = message.file.name != _WRAPPERS if own is None else _shape(own) == _shape(message)
    if not is_same:
        raise UndecodableError(f"its schema has a {message.full_name} of its own")


def _shape(message: _Descriptor) -> list[tuple[Any, ...]]:
    return [
        (each.name, each.number, each.type, each.is_repeated, each.has_default_value)
        for each in message.fields
    ]


class _Walk:
    """Pays for a message, and for all that is in it."""

    __slots__ = ("_allowance", "_data", "_memory_bytes", "_pool", "_types")

    def __init__(
        self, data: bytes, pool: _Descriptor, types: MessageTypes, allowance: Allowance
    ) -> None:
        self._data = data
        self._pool = pool
        self._types = types
        self._allowance = allowance
        self._memory_bytes = 0

    def message(self, message: _Descriptor, at: int, end: int, depth: int, group: int = 0) -> int:
        """Walk through a message; return where it ends, which a group says itself.

        The message's type is None where nobody knows it: then it is passed over.

        Raises:
            UndecodableError: it is none, or too large.
        """
        check_depth(depth)
        if message is not None:
            self._pay_message(message)
        found: dict[int, tuple[int, int]] = {}
        is_open = group > 0
        while at < end:
            tag, at = _varint(self._data, at, end)
            number, wire = tag >> 3, tag & 7
            if wire == _END:
                if number != group or not group:
                    raise UndecodableError(f"before byte {at} a group ends that did not begin")
                is_open = False
                break
            field = self._field(message, number)
            if field is not None and not _fits(field, wire):
                # To the library it is a field that nobody knows.
                field = None
            begin, at = self._walk_field(field, number, wire, at, end, depth)
            if field is None:
                continue
            if number in found and field.message_type is not None and not field.is_repeated:
                # The library would make one message of both. Of an `Any`, that is another one.
                raise UndecodableError(f"before byte {at} is {field.name} once more")
            found[number] = (begin, at)
        if is_open:
            raise UndecodableError("it ends within a group")
        if message is not None:
            self._pay_unsaid(message, found, depth)
        return at

    def _field(self, message: _Descriptor, number: int) -> _Descriptor:
        """Return a field of a message, or None."""
        if message is None:
            return None
        field = message.fields_by_number.get(number)
        if field is None and message.is_extendable:
            try:
                return self._pool.FindExtensionByNumber(message, number)
            except KeyError:
                return None
        return field

    def _walk_field(
        self, field: _Descriptor, number: int, wire: int, at: int, end: int, depth: int
    ) -> tuple[int, int]:
        """Pay for a field, known or not; return where its value begins and ends."""
        if field is None:
            self._allowance.take(PART_BYTES)
        elif field.is_extension:
            self._allowance.take(len(field.full_name))
        within = None if field is None else field.message_type
        if wire == _BEGIN:
            return at, self.message(within, at, end, depth + 1, group=number)
        begin, at = self._value(wire, at, end)
        if within is not None:
            self.message(within, begin, at, depth + 1)
        elif field is not None:
            self._pay_scalars(field, wire, at - begin)
        return begin, at

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

    def _pay_message(self, message: _Descriptor) -> None:
        kind = self._types.kind(message)
        self._memory_bytes += kind.memory_bytes
        if self._memory_bytes > MEMORY_BYTES_MAX:
            raise UndecodableError(f"it takes more than {MEMORY_BYTES_MAX} bytes in memory")
        self._allowance.take(kind.price)

    def _pay_scalars(self, field: _Descriptor, wire: int, size: int) -> None:
        count = size if wire == _DELIMITED and field.type not in _TEXTS else 1
        self._allowance.take(2 * size + count * (PART_BYTES + self._types.symbol_length(field)))

    def _pay_unsaid(
        self, message: _Descriptor, found: Mapping[int, tuple[int, int]], depth: int
    ) -> None:
        """Pay for what is shown though it does not stand there as a field."""
        map_value = self._types.kind(message).map_value
        if map_value is not None and 2 not in found:
            self._pay_message(map_value)
        if message.full_name == _ANY and any(begin < end for begin, end in found.values()):
            self._any(found, depth)

    def _any(self, found: Mapping[int, tuple[int, int]], depth: int) -> None:
        """Walk through what an `Any` holds, also if that is empty."""
        begin, end = found.get(1, (0, 0))
        name = self._data[begin:end].rpartition(b"/")[2].decode(errors="replace")
        try:
            message = self._pool.FindMessageTypeByName(name)
        except KeyError:
            raise UndecodableError(f"it holds {name!r}, which its schema does not have") from None
        self.message(message, *found.get(2, (0, 0)), depth + _ANY_DEPTH)


#: The type of fields that a group is.
_GROUP: Final = 10
#: Types whose length is that of what they hold: bytes and texts.
_TEXTS: Final = frozenset({9, 12})


def _fits(field: _Descriptor, wire: int) -> bool:
    """Tell whether a message, a text or bytes may be encoded so; numbers are in two ways."""
    if field.type == _GROUP:
        return wire == _BEGIN
    if field.message_type is not None or field.type in _TEXTS:
        return wire == _DELIMITED
    return wire != _BEGIN


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
