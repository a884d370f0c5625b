"""Messages as people read them: what was written, and as what it could be understood."""

from typing import Annotated, Final, Literal

import msgspec

from kafkaesque.admin.api.numbers import Int64
from kafkaesque.admin.decoding.bounds import UndecodableError
from kafkaesque.admin.decoding.decoder import (
    KEY_HEADER,
    VALUE_HEADER,
    Decoded,
    Decoder,
)
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.records import RecordColumns

#: Of a key, a value or a header as much is shown.
SHOWN_BYTES_MAX: Final = 1024 * 1024
#: The same in lists of many messages.
LISTED_BYTES_MAX: Final = 8 * 1024
#: Of a reason why something is not decoded: names of a schema, or of an `Any`, may be in it.
REASON_LENGTH_MAX: Final = 500
#: Of one message as many headers are shown.
HEADERS_MAX: Final = 100


#: What a key or a value can be shown as; `auto` is what it seems to be.
Format = Literal["auto", "json", "avro", "protobuf", "msgpack", "text", "hex"]


class UsedSchema(msgspec.Struct, frozen=True, kw_only=True):
    """The schema that a key or a value was written with."""

    id: int
    #: AVRO, JSON or PROTOBUF.
    type: str
    #: Where it is registered: the topic's own subject, if there is one of several.
    subject: str
    version: int


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """A key, a value or a header."""

    #: `null`, `json`, `avro`, `protobuf`, `msgpack`, `text` or `hex`.
    kind: str
    #: JSON as it was written, what was decoded as JSON, text, or two hexadecimal digits for each
    #: byte.
    text: str
    #: Of all of it, as it was written, shown or not.
    bytes: int
    is_cut: bool = False
    #: Null: it names none.
    schema: UsedSchema | None = None
    #: Why it is not shown as what it was wanted, or says, to be.
    undecoded: str | None = None


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """A header; names may repeat."""

    name: str
    value: Content


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """A record."""

    partition: int
    offset: int
    #: Null where its producer gave none.
    timestamp: int | None
    key: Content
    value: Content
    headers: list[Header] = []


class PassedOver(msgspec.Struct, frozen=True, kw_only=True):
    """A range of offsets that could not be looked at, up to and without `next`."""

    partition: int
    first: int
    next: int
    reason: str


class SearchFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which messages are searched for; all that is given has to hold."""

    #: Bytes that a key, a value or a header holds, as UTF-8; whatever the case is not looked past.
    contains: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    #: The key, as UTF-8.
    key: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    #: Names that lead to a value in JSON, such as `customer.id`.
    json_path: Annotated[str, msgspec.Meta(max_length=200)] = ""
    #: What is there: a text as it is, anything else as JSON. Null: whatever it is.
    json_value: Annotated[str, msgspec.Meta(max_length=1_000)] | None = None
    #: Whether values are decoded, by their schemas too, before `json_path` is looked for; slower.
    decoded: bool = False
    #: Records of this time and later, and before that one.
    since: Int64 | None = None
    before: Int64 | None = None


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are shown."""

    #: `auto`, `text` or `hex`.
    kind: str = "auto"
    #: Of each key, value and header.
    bytes_max: int = LISTED_BYTES_MAX
    #: How keys and values are decoded, a `Format`; empty: they are not, `kind` is for them, too.
    key: str = ""
    value: str = ""


def show_message(columns: RecordColumns, row: int, form: Form, decoder: Decoder) -> Message:
    """Return a record as people read it, without its partition."""
    timestamp_ms, headers = columns.timestamps_ms[row], columns.headers(row)
    return Message(
        partition=-1,
        offset=columns.offsets[row],
        timestamp=timestamp_ms if timestamp_ms >= 0 else None,
        key=show_key(columns.key(row), headers, form, decoder),
        value=show_value(columns.value(row), headers, form, decoder),
        headers=[
            Header(name=name, value=show(value, form)) for name, value in headers[:HEADERS_MAX]
        ],
    )


def shown_length(message: Message) -> int:
    """Return how many characters of a message are shown."""
    headers = sum(len(each.name) + len(each.value.text) for each in message.headers)
    return len(message.key.text) + len(message.value.text) + headers


def show_key(data: bytes | None, headers: Headers, form: Form, decoder: Decoder) -> Content:
    """Return a key as it is decoded, or else as `show` does, with the reason."""
    return _decode(data, form, form.key, decoder, headers, KEY_HEADER)


def show_value(data: bytes | None, headers: Headers, form: Form, decoder: Decoder) -> Content:
    """Return a value as it is decoded, or else as `show` does, with the reason."""
    return _decode(data, form, form.value, decoder, headers, VALUE_HEADER)


def _decode(
    data: bytes | None, form: Form, wanted: str, decoder: Decoder, headers: Headers, header: str
) -> Content:
    if data is None or not wanted:
        return show(data, form)
    if wanted in ("text", "hex"):
        return show(data, msgspec.structs.replace(form, kind=wanted))
    try:
        found = decoder.decode(data, wanted, schema_header(headers, header))
    except UndecodableError as reason:
        return msgspec.structs.replace(
            show(data, _auto(form)), undecoded=str(reason)[:REASON_LENGTH_MAX]
        )
    if found is None:
        return show(data, _auto(form))
    text = found.json.decode()
    return Content(
        kind=found.format,
        text=text[: form.bytes_max],
        bytes=len(data),
        is_cut=len(text) > form.bytes_max,
        schema=_used(found, is_key=header is KEY_HEADER),
    )


def schema_header(headers: Headers, name: str) -> bytes | None:
    """Return the header that names the schema of a key or a value."""
    return next((value for each, value in headers if each == name), None)


def _auto(form: Form) -> Form:
    return form if form.kind == "auto" else msgspec.structs.replace(form, kind="auto")


def _used(found: Decoded, *, is_key: bool) -> UsedSchema | None:
    schema = found.schema
    if schema is None:
        return None
    place = schema.key_place if is_key else schema.value_place
    return UsedSchema(
        id=schema.id, type=schema.type.value, subject=place.subject, version=place.version
    )


def show(data: bytes | None, form: Form) -> Content:
    """Return bytes as people read them."""
    if data is None:
        return Content(kind="null", text="", bytes=0)
    shown = data[: form.bytes_max]
    if form.kind == "hex":
        return _hex(data, shown)
    is_cut = len(shown) < len(data)
    if form.kind == "auto" and not is_cut and _is_json(data):
        return Content(kind="json", text=data.decode(), bytes=len(data))
    try:
        text = shown.decode()
    except UnicodeDecodeError as error:
        # A character may have been cut in two.
        if not is_cut or len(shown) - error.start > 3:
            return _hex(data, shown)
        text = shown[: error.start].decode()
    if form.kind == "auto" and not _is_readable(text):
        return _hex(data, shown)
    return Content(kind="text", text=text, bytes=len(data), is_cut=is_cut)


def _hex(data: bytes, shown: bytes) -> Content:
    return Content(kind="hex", text=shown.hex(), bytes=len(data), is_cut=len(shown) < len(data))


def _is_json(data: bytes) -> bool:
    """Tell whether it is an object or an array; a lone number is as well text."""
    if data.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        msgspec.json.decode(data)
        data.decode()
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return False
    return True


def _is_readable(text: str) -> bool:
    return all(each.isprintable() or each in "\n\r\t" for each in text)
