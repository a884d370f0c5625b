"""Writes a FileDescriptorProto as a `.proto` file: equal descriptors give equal texts."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from google.protobuf import descriptor_pb2

_Field: Final = descriptor_pb2.FieldDescriptorProto
_MAX_FIELD: Final = 2**29 - 1
_MAX_ENUM: Final = 2**31 - 1
_LABELS: Final = {
    _Field.LABEL_OPTIONAL: "optional ",
    _Field.LABEL_REQUIRED: "required ",
    _Field.LABEL_REPEATED: "repeated ",
}

# Messages of descriptor.proto.
_Proto = Any


def print_proto(file: _Proto) -> str:
    """Return the text of a file whose types are looked up."""
    return "\n".join([*_file(file), ""])


def _file(file: _Proto) -> Iterator[str]:
    is_proto3 = file.syntax == "proto3"
    yield f'syntax = "{file.syntax or "proto2"}";'
    if file.package:
        yield f"package {file.package};"
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    if file.dependency:
        yield ""
    for number, each in enumerate(file.dependency):
        how = "public " if number in public else "weak " if number in weak else ""
        yield f'import {how}"{each}";'
    options = list(_options(file.options))
    if options:
        yield ""
    for each in options:
        yield f"option {each};"
    for message in file.message_type:
        yield ""
        yield from _message(message, is_proto3, "")
    for enum in file.enum_type:
        yield ""
        yield from _enum(enum, "")
    yield from _extensions(file.extension, is_proto3, "")
    for service in file.service:
        yield ""
        yield from _service(service)


def _message(message: _Proto, is_proto3: bool, indent: str) -> Iterator[str]:
    inner = indent + "  "
    yield f"{indent}message {message.name} {{"
    for option in _options(message.options):
        yield f"{inner}option {option};"
    yield from _reserved(message, _MAX_FIELD, 1, inner)
    for each in message.extension_range:
        yield f"{inner}extensions {_range(each.start, each.end - 1, _MAX_FIELD)};"
    entries = {each.name: each for each in message.nested_type if each.options.map_entry}
    oneofs: dict[int, list[_Proto]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            oneofs.setdefault(field.oneof_index, []).append(field)
        else:
            yield inner + _field(field, entries, is_proto3)
    for number, fields in sorted(oneofs.items()):
        oneof = message.oneof_decl[number]
        yield f"{inner}oneof {oneof.name} {{"
        for option in _options(oneof.options):
            yield f"{inner}  option {option};"
        for field in fields:
            yield f"{inner}  {_field(field, entries, is_proto3, in_oneof=True)}"
        yield f"{inner}}}"
    for nested in message.nested_type:
        if not nested.options.map_entry:
            yield from _message(nested, is_proto3, inner)
    for enum in message.enum_type:
        yield from _enum(enum, inner)
    yield from _extensions(message.extension, is_proto3, inner)
    yield f"{indent}}}"


def _field(
    field: _Proto, entries: dict[str, _Proto], is_proto3: bool, *, in_oneof: bool = False
) -> str:
    entry = entries.get(field.type_name.rpartition(".")[2]) if field.type_name else None
    if entry is not None and field.label == _Field.LABEL_REPEATED:
        key, value = entry.field
        kind, label = f"map<{_type(key)}, {_type(value)}>", ""
    else:
        kind = _type(field)
        is_implicit = is_proto3 and field.label == _Field.LABEL_OPTIONAL
        label = (
            ""
            if in_oneof or (is_implicit and not field.proto3_optional)
            else (_LABELS[field.label])
        )
    options = list(_options(field.options))
    if field.HasField("default_value"):
        is_text = field.type in (_Field.TYPE_STRING, _Field.TYPE_BYTES)
        default = _quoted(field.default_value) if is_text else field.default_value
        options.insert(0, f"default = {default}")
    if field.json_name and field.json_name != _json_name(field.name):
        options.append(f"json_name = {_quoted(field.json_name)}")
    said = f" [{', '.join(options)}]" if options else ""
    return f"{label}{kind} {field.name} = {field.number}{said};"


def _type(field: _Proto) -> str:
    if field.type_name:
        return str(field.type_name)
    return str(_Field.Type.Name(field.type)).removeprefix("TYPE_").lower()


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each[:1].upper() + each[1:] for each in rest)


def _enum(enum: _Proto, indent: str) -> Iterator[str]:
    inner = indent + "  "
    yield f"{indent}enum {enum.name} {{"
    for option in _options(enum.options):
        yield f"{inner}option {option};"
    yield from _reserved(enum, _MAX_ENUM, 0, inner)
    for value in enum.value:
        options = list(_options(value.options))
        said = f" [{', '.join(options)}]" if options else ""
        yield f"{inner}{value.name} = {value.number}{said};"
    yield f"{indent}}}"


def _extensions(fields: Sequence[_Proto], is_proto3: bool, indent: str) -> Iterator[str]:
    for field in fields:
        yield f"{indent}extend {field.extendee} {{"
        yield f"{indent}  {_field(field, {}, is_proto3)}"
        yield f"{indent}}}"


def _service(service: _Proto) -> Iterator[str]:
    yield f"service {service.name} {{"
    for option in _options(service.options):
        yield f"  option {option};"
    for method in service.method:
        asked = ("stream " if method.client_streaming else "") + method.input_type
        given = ("stream " if method.server_streaming else "") + method.output_type
        options = list(_options(method.options))
        body = " { " + " ".join(f"option {each};" for each in options) + " }" if options else ";"
        yield f"  rpc {method.name} ({asked}) returns ({given}){body}"
    yield "}"


def _reserved(owner: _Proto, most: int, more: int, indent: str) -> Iterator[str]:
    ranges = [_range(each.start, each.end - more, most) for each in owner.reserved_range]
    if ranges:
        yield f"{indent}reserved {', '.join(ranges)};"
    if owner.reserved_name:
        yield f"{indent}reserved {', '.join(map(_quoted, owner.reserved_name))};"


def _range(first: int, last: int, most: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last >= most else last}"


def _options(options: _Proto) -> Iterator[str]:
    for field, value in options.ListFields():
        if field.name in ("map_entry", "uninterpreted_option") or field.message_type is not None:
            continue
        if field.is_repeated:
            continue
        if field.enum_type is not None:
            said = field.enum_type.values_by_number[value].name
        elif isinstance(value, bool):
            said = str(value).lower()
        else:
            said = _quoted(value) if isinstance(value, str) else str(value)
        yield f"{field.name} = {said}"


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'
