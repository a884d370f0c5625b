"""Reads a `.proto` file into a FileDescriptorProto, as `protoc` does.

Names of types stay as they are written: the descriptor pool finds what they mean. Options that are
not among those of `descriptor.proto` (extensions, in parentheses) are passed over.
"""

from typing import Any, Final

from google.protobuf import descriptor_pb2

from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.proto_tokens import Tokens

_DEPTH_MAX: Final = 64
_MAX_FIELD: Final = 2**29
_MAX_ENUM: Final = 2**31
_Field: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    name: _Field.Type.Value(f"TYPE_{name.upper()}")
    for name in (
        "double float int64 uint64 int32 fixed64 fixed32 bool string bytes uint32 sfixed32 "
        "sfixed64 sint32 sint64"
    ).split()
}
_LABELS: Final = {
    "optional": _Field.LABEL_OPTIONAL,
    "required": _Field.LABEL_REQUIRED,
    "repeated": _Field.LABEL_REPEATED,
}

# Messages of descriptor.proto, whose classes are made when they are loaded.
_File = Any
_Message = Any
_Enum = Any
_FieldProto = Any
_Options = Any


def parse_proto(text: str) -> _File:
    """Return a file's descriptor; its types are not looked up.

    Raises:
        InvalidSchema: it is not written as the language asks for.
    """
    return _Parser(text).file()


class _Parser:
    """One file."""

    def __init__(self, text: str) -> None:
        self._tokens = Tokens(text)
        self._file: _File = descriptor_pb2.FileDescriptorProto()
        self._is_proto3 = False
        self._depth = 0

    def file(self) -> _File:
        tokens = self._tokens
        if tokens.next.text == "edition":
            raise InvalidSchema("editions are not understood: write proto2 or proto3")
        if tokens.maybe("syntax"):
            tokens.expect("=")
            syntax = tokens.string()
            tokens.expect(";")
            if syntax not in ("proto2", "proto3"):
                raise InvalidSchema(f"syntax is proto2 or proto3, not {syntax!r}")
            self._is_proto3 = syntax == "proto3"
            if self._is_proto3:
                self._file.syntax = syntax
        while tokens.next.kind != "end":
            self._statement()
        return self._file

    def _statement(self) -> None:
        tokens, file = self._tokens, self._file
        match tokens.take():
            case ";":
                pass
            case "package":
                file.package = tokens.full_name()
                tokens.expect(";")
            case "import":
                is_public, is_weak = tokens.maybe("public"), tokens.maybe("weak")
                if is_public:
                    file.public_dependency.append(len(file.dependency))
                if is_weak:
                    file.weak_dependency.append(len(file.dependency))
                file.dependency.append(tokens.string())
                tokens.expect(";")
            case "option":
                self._option(file.options)
                tokens.expect(";")
            case "message":
                self._message(file.message_type.add())
            case "enum":
                self._enum(file.enum_type.add())
            case "extend":
                self._extend(file.extension, file.message_type)
            case "service":
                self._service(file.service.add())
            case other:
                raise InvalidSchema(f"line {tokens.next.line}: {other!r} begins no statement")

    # -- messages

    def _message(self, message: _Message) -> None:
        message.name = self._tokens.name()
        self._message_body(message)
        # The oneofs that optional fields of proto3 are come behind the others.
        names = {each.name for each in (*message.oneof_decl, *message.field)}
        for field in message.field:
            if field.proto3_optional:
                name = f"_{field.name}"
                while name in names:
                    name = f"X{name}"
                names.add(name)
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=name)

    def _message_body(self, message: _Message) -> None:
        tokens = self._tokens
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise InvalidSchema(f"messages are nested deeper than {_DEPTH_MAX}")
        tokens.expect("{")
        while not tokens.maybe("}"):
            if tokens.maybe(";"):
                continue
            if tokens.next.text in _KEYWORDS and self._is_keyword():
                self._message_statement(tokens.take(), message)
            else:
                self._field(message, message.field)
        self._depth -= 1

    def _is_keyword(self) -> bool:
        """Tell whether a word begins a statement: a type may be called the same in some places."""
        word = self._tokens.next.text
        ahead = self._tokens._all[self._tokens._at + 1]
        return not (word in _KEYWORDS and ahead.text == ".")

    def _message_statement(self, word: str, message: _Message) -> None:
        tokens = self._tokens
        match word:
            case "message":
                self._message(message.nested_type.add())
            case "enum":
                self._enum(message.enum_type.add())
            case "extend":
                self._extend(message.extension, message.nested_type)
            case "option":
                self._option(message.options)
                tokens.expect(";")
            case "oneof":
                self._oneof(message)
            case "reserved":
                self._reserved(message, _MAX_FIELD)
            case "extensions":
                for first, last in self._ranges(_MAX_FIELD):
                    message.extension_range.add(start=first, end=last + 1)
                if tokens.next.text == "[":
                    self._options_in_brackets(_Ignored())
                tokens.expect(";")

    def _field(self, message: _Message | None, fields: Any, oneof: int | None = None) -> None:
        tokens = self._tokens
        label = None if oneof is not None else _LABELS.get(tokens.next.text)
        if label is not None:
            tokens.take()
        if tokens.next.text == "group":
            raise InvalidSchema(f"line {tokens.next.line}: groups are not understood")
        field: _FieldProto = fields.add()
        if message is not None and label is None and tokens.next.text == "map":
            self._map_type(message, field)
        else:
            if label is None and oneof is None and not self._is_proto3:
                raise tokens.wrong("optional, required or repeated")
            field.label = label or _Field.LABEL_OPTIONAL
            self._type(field)
            field.name = tokens.name()
        if self._is_proto3 and label == _Field.LABEL_REQUIRED:
            raise InvalidSchema(f"{field.name}: proto3 has no required fields")
        field.proto3_optional = self._is_proto3 and label == _Field.LABEL_OPTIONAL
        if not field.proto3_optional:
            field.ClearField("proto3_optional")
        if oneof is not None:
            field.oneof_index = oneof
        tokens.expect("=")
        field.number = self._number(tokens.integer(), _MAX_FIELD)
        if tokens.next.text == "[":
            self._options_in_brackets(field.options, field)
        tokens.expect(";")

    def _type(self, field: _FieldProto) -> None:
        name = self._tokens.full_name()
        if name in _SCALARS:
            field.type = _SCALARS[name]
        else:
            field.type_name = name

    def _map_type(self, message: _Message, field: _FieldProto) -> None:
        tokens = self._tokens
        tokens.expect("map")
        tokens.expect("<")
        entry = message.nested_type.add()
        key = entry.field.add(name="key", number=1, label=_Field.LABEL_OPTIONAL)
        self._type(key)
        tokens.expect(",")
        value = entry.field.add(name="value", number=2, label=_Field.LABEL_OPTIONAL)
        self._type(value)
        tokens.expect(">")
        entry.options.map_entry = True
        field.name = tokens.name()
        entry.name = (
            "".join(part[:1].upper() + part[1:] for part in field.name.split("_")) + "Entry"
        )
        field.label = _Field.LABEL_REPEATED
        field.type, field.type_name = _Field.TYPE_MESSAGE, entry.name

    def _oneof(self, message: _Message) -> None:
        tokens = self._tokens
        number = len(message.oneof_decl)
        oneof = message.oneof_decl.add(name=tokens.name())
        tokens.expect("{")
        while not tokens.maybe("}"):
            if tokens.maybe(";"):
                continue
            if tokens.maybe("option"):
                self._option(oneof.options)
                tokens.expect(";")
            else:
                self._field(message, message.field, number)

    def _extend(self, fields: Any, _: Any) -> None:
        tokens = self._tokens
        extendee = tokens.full_name()
        tokens.expect("{")
        while not tokens.maybe("}"):
            if not tokens.maybe(";"):
                self._field(None, fields)
                fields[-1].extendee = extendee

    # -- enums, services

    def _enum(self, enum: _Enum) -> None:
        tokens = self._tokens
        enum.name = tokens.name()
        tokens.expect("{")
        while not tokens.maybe("}"):
            if tokens.maybe(";"):
                continue
            if tokens.maybe("option"):
                self._option(enum.options)
                tokens.expect(";")
            elif tokens.maybe("reserved"):
                self._reserved(enum, _MAX_ENUM)
            else:
                value = enum.value.add(name=tokens.name())
                tokens.expect("=")
                value.number = self._number(tokens.integer(), _MAX_ENUM)
                if tokens.next.text == "[":
                    self._options_in_brackets(value.options)
                tokens.expect(";")

    def _service(self, service: Any) -> None:
        tokens = self._tokens
        service.name = tokens.name()
        tokens.expect("{")
        while not tokens.maybe("}"):
            if tokens.maybe(";"):
                continue
            if tokens.maybe("option"):
                self._option(service.options)
                tokens.expect(";")
                continue
            tokens.expect("rpc")
            method = service.method.add(name=tokens.name())
            tokens.expect("(")
            method.client_streaming = tokens.maybe("stream")
            method.input_type = tokens.full_name()
            tokens.expect(")")
            tokens.expect("returns")
            tokens.expect("(")
            method.server_streaming = tokens.maybe("stream")
            method.output_type = tokens.full_name()
            tokens.expect(")")
            if tokens.maybe("{"):
                while not tokens.maybe("}"):
                    if not tokens.maybe(";"):
                        tokens.expect("option")
                        self._option(method.options)
                        tokens.expect(";")
            else:
                tokens.expect(";")

    # -- numbers

    def _number(self, value: int, limit: int) -> int:
        if not -limit <= value < limit:
            raise InvalidSchema(f"line {self._tokens.next.line}: {value} is out of range")
        return value

    def _reserved(self, owner: Any, limit: int) -> None:
        tokens = self._tokens
        if tokens.next.kind == "text":
            owner.reserved_name.append(tokens.string())
            while tokens.maybe(","):
                owner.reserved_name.append(tokens.string())
        else:
            # Ranges of enums include their end, in descriptors too.
            more = 1 if limit == _MAX_FIELD else 0
            for first, last in self._ranges(limit):
                owner.reserved_range.add(start=first, end=last + more)
        tokens.expect(";")

    def _ranges(self, limit: int) -> list[tuple[int, int]]:
        tokens, found = self._tokens, []
        while True:
            first = last = self._number(tokens.integer(), limit)
            if tokens.maybe("to"):
                last = limit - 1 if tokens.maybe("max") else self._number(tokens.integer(), limit)
            found.append((first, last))
            if not tokens.maybe(","):
                return found

    # -- options

    def _options_in_brackets(self, options: _Options, field: _FieldProto | None = None) -> None:
        tokens = self._tokens
        tokens.expect("[")
        while not tokens.maybe("]"):
            self._option(options, field)
            if tokens.next.text != "]":
                tokens.expect(",")

    def _option(self, options: _Options, field: _FieldProto | None = None) -> None:
        tokens = self._tokens
        name = ""
        is_own = False
        while not tokens.maybe("="):
            if tokens.maybe("("):
                is_own = True
                tokens.full_name()
                tokens.expect(")")
            elif not tokens.maybe("."):
                name += tokens.name()
        value = self._value()
        if is_own or value is None:
            return
        if field is not None and name == "default":
            field.default_value = str(value).lower() if isinstance(value, bool) else str(value)
        elif field is not None and name == "json_name":
            field.json_name = str(value)
        else:
            _set_option(options, name, value)

    def _value(self) -> str | int | bool | None:
        """Take an option's value; None for a message, which only extensions have."""
        tokens = self._tokens
        if tokens.next.text in ("{", "[") and tokens.next.kind == "sign":
            depth = 0
            while True:
                word = tokens.take()
                depth += (word in ("{", "[")) - (word in ("}", "]"))
                if depth == 0:
                    return None
        if tokens.next.kind == "text":
            return tokens.string()
        sign = "-" if tokens.maybe("-") else ""
        if tokens.next.kind == "number" and not sign and tokens.next.text.isdigit():
            return tokens.integer()
        word = sign + tokens.take()
        return {"true": True, "false": False}.get(word, word)


#: Words that begin statements within messages.
_KEYWORDS: Final = ("message", "enum", "extend", "option", "oneof", "reserved", "extensions")


class _Ignored:
    """Options that nobody asks for."""

    DESCRIPTOR = descriptor_pb2.FileOptions.DESCRIPTOR


def _set_option(options: _Options, name: str, value: str | int | bool) -> None:
    if isinstance(options, _Ignored):
        return
    found = options.DESCRIPTOR.fields_by_name.get(name)
    if found is None:
        raise InvalidSchema(f"there is no option {name!r}")
    try:
        if found.enum_type is not None:
            setattr(options, name, found.enum_type.values_by_name[str(value)].number)
        else:
            setattr(options, name, value)
    except (TypeError, ValueError, KeyError):
        raise InvalidSchema(f"{value!r} is no value of the option {name!r}") from None
