"""Messages as people read them: what was written, and as what it could be understood."""

from typing import Annotated, Final

import msgspec

from kafkaesque.admin.api.numbers import Int64

#: Of a key, a value or a header as much is shown.
SHOWN_BYTES_MAX: Final = 1024 * 1024
#: The same in lists of many messages.
LISTED_BYTES_MAX: Final = 8 * 1024
#: Of one message as many headers are shown.
HEADERS_MAX: Final = 100


class Content(msgspec.Struct, frozen=True, kw_only=True):
    """A key, a value or a header."""

    #: `null`, `json`, `text` or `hex`.
    kind: str
    #: JSON as it was written, text, or two hexadecimal digits for each byte.
    text: str
    #: Of all of it, shown or not.
    bytes: int
    is_cut: bool = False


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
    #: Records of this time and later, and before that one.
    since: Int64 | None = None
    before: Int64 | None = None


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How messages are shown."""

    #: `auto`, `text` or `hex`.
    kind: str = "auto"
    #: Of each key, value and header.
    bytes_max: int = LISTED_BYTES_MAX


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
