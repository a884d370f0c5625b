"""Protocol Buffers: parsing, and whether one file reads what was written with another one.

A schema is a `.proto` file, or its FileDescriptorProto in base64, as clients in Python send it. It
is kept as text, written anew from its descriptor: so equal schemas have equal texts.

What fits is what the wire format allows (Protocol Buffers guide, "Updating A Message Type"): fields
may come and go but for required ones, and types may change within one encoding. A message that is
gone, and a field that leaves a oneof, are told as differences, as Confluent's registry does.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.schemas import References

_OWN_NAME: Final = "schema.proto"
_FILES_MAX: Final = 100

# Descriptors, and messages of descriptor.proto.
_Descriptor = Any


class ProtobufSchema:
    """See `ParsedSchema`."""

    __slots__ = ("_file", "_proto", "text")

    def __init__(self, text: str, references: References) -> None:
        """Parse a schema.

        Raises:
            InvalidSchema: it is none, or imports what is not there.
        """
        # Loaded with the first schema.
        from google.protobuf.descriptor_pb2 import FileDescriptorProto
        from google.protobuf.descriptor_pool import DescriptorPool

        from kafkaesque.registry.proto_printer import print_proto

        pool = DescriptorPool()
        try:
            for name, each in references.items():
                other = _read(each)
                other.name = name
                _add(pool, other)
            written = _read(text)
            written.name = _OWN_NAME
            _add(pool, written)
            self._file: _Descriptor = pool.FindFileByName(_OWN_NAME)
            self._proto: _Descriptor = FileDescriptorProto()
            self._file.CopyToProto(self._proto)
        except (TypeError, KeyError, ValueError) as error:
            raise InvalidSchema(f"it is no schema of Protocol Buffers: {error}") from None
        self.text: Final = print_proto(self._proto)

    @property
    def normalized(self) -> str:
        """See `ParsedSchema`."""
        return self.text

    @property
    def former(self) -> tuple[str, ...]:
        """See `ParsedSchema`."""
        return ()

    @property
    def file(self) -> _Descriptor:
        """Its descriptor, for those who read data."""
        return self._file

    @property
    def serialized(self) -> str:
        """Its descriptor, in base64."""
        return base64.b64encode(self._proto.SerializeToString(deterministic=True)).decode()

    def cannot_read(self, written: object) -> Iterator[str]:
        """See `ParsedSchema`."""
        if not isinstance(written, ProtobufSchema):
            yield "the schema before is not written in Protocol Buffers"
            return
        old, new = written._file, self._file
        if old.package != new.package:
            yield f"the package was {old.package!r} and is {new.package!r}"
        yield from _compare_all(old.message_types_by_name, new.message_types_by_name, "")


def _read(text: str) -> _Descriptor:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.message import DecodeError

    from kafkaesque.registry.proto_parser import parse_proto

    try:
        raw = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        return parse_proto(text)
    proto = FileDescriptorProto()
    try:
        proto.ParseFromString(raw)
    except DecodeError:
        raise InvalidSchema("it is neither a .proto file nor a descriptor in base64") from None
    return proto


def _add(pool: _Descriptor, proto: _Descriptor) -> None:
    """Add a file, and those of Protocol Buffers' own that it imports."""
    for each in proto.dependency:
        try:
            pool.FindFileByName(each)
        except KeyError:
            known = _well_known(each)
            if known is None:
                raise InvalidSchema(f"it imports {each!r}, which is no reference") from None
            _add(pool, known)
    pool.Add(proto)


def _well_known(name: str) -> _Descriptor | None:
    """Return a file that comes with every compiler of Protocol Buffers."""
    from importlib import import_module

    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    if name not in _WELL_KNOWN:
        return None
    module = import_module(f"google.protobuf.{name.rpartition('/')[2].removesuffix('.proto')}_pb2")
    proto = FileDescriptorProto()
    module.DESCRIPTOR.CopyToProto(proto)
    return proto


_WELL_KNOWN: Final = frozenset(
    f"google/protobuf/{name}.proto"
    for name in (
        "any api descriptor duration empty field_mask source_context struct timestamp type wrappers"
    ).split()
)


# -- comparison


def _compare_all(
    old: Mapping[str, _Descriptor], new: Mapping[str, _Descriptor], path: str
) -> Iterator[str]:
    for name, message in old.items():
        inner = f"{path}/{name}"
        if name in new:
            yield from _compare(message, new[name], inner)
        elif not message.GetOptions().map_entry:
            yield f"{inner}: the message is gone"


def _compare(old: _Descriptor, new: _Descriptor, path: str) -> Iterator[str]:
    before, after = old.fields_by_number, new.fields_by_number
    oneofs = _oneofs(new)
    for number, field in before.items():
        inner = f"{path}/{number}"
        now = after.get(number)
        if now is not None:
            yield from _compare_fields(field, now, inner)
        elif field.is_required:
            yield f"{inner}: the required field {field.name} is gone"
        elif _real_oneof(field) in oneofs:
            yield f"{inner}: {field.name} is gone from a oneof"
    for number, field in after.items():
        if number not in before and field.is_required:
            yield f"{path}/{number}: the required field {field.name} was not written"
    for name, numbers in oneofs.items():
        moved = [each for each in numbers if each in before and _real_oneof(before[each]) is None]
        if len(moved) > 1:
            yield f"{path}: {len(moved)} fields were moved into the oneof {name}"
    yield from _compare_all(old.nested_types_by_name, new.nested_types_by_name, path)


def _oneofs(message: _Descriptor) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for field in message.fields:
        name = _real_oneof(field)
        if name is not None:
            found.setdefault(name, []).append(field.number)
    return found


def _real_oneof(field: _Descriptor) -> str | None:
    oneof = field.containing_oneof
    if oneof is None or (len(oneof.fields) == 1 and oneof.name == f"_{field.name}"):
        return None
    return str(oneof.name)


def _compare_fields(old: _Descriptor, new: _Descriptor, path: str) -> Iterator[str]:
    before, after = _encoding(old), _encoding(new)
    if before != after:
        yield f"{path}: {old.name} was {_kind(old)} and is {_kind(new)}"
    elif old.message_type is not None and _named(old) != _named(new):
        yield f"{path}: {old.name} was {_named(old)} and is {_named(new)}"
    if old.is_repeated != new.is_repeated and before != "text":
        yield f"{path}: {old.name} was {_count(old)} and is {_count(new)}"
    if old.is_required != new.is_required:
        yield f"{path}: {old.name} was {_count(old)} and is {_count(new)}"


def _named(field: _Descriptor) -> str:
    return str(field.message_type.full_name)


def _count(field: _Descriptor) -> str:
    return "repeated" if field.is_repeated else "required" if field.is_required else "optional"


#: Types of one encoding can be read as one another.
_ENCODINGS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("int32", "uint32", "int64", "uint64", "bool", "enum"), "varint"),
    **dict.fromkeys(("sint32", "sint64"), "zigzag"),
    **dict.fromkeys(("string", "bytes"), "text"),
    **dict.fromkeys(("fixed32", "sfixed32"), "32 bits"),
    **dict.fromkeys(("fixed64", "sfixed64"), "64 bits"),
}


def _kind(field: _Descriptor) -> str:
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto

    return str(FieldDescriptorProto.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _encoding(field: _Descriptor) -> str:
    kind = _kind(field)
    return _ENCODINGS.get(kind, kind)
