"""Messages as JSON: `{"Header": {...}, "Key": ..., "Body": ...}`, and records' bytes.

Key, header values and Body that are JSON strings stand for their UTF-8 bytes, any other JSON value
for its compact text, and null for nothing at all. What is written can be read again and gives the
same bytes: text is shown as a string, a body that is compact JSON as that, and bytes that are not
UTF-8 in base64, as "KeyBase64", "BodyBase64" or, in a header, as {"Base64": "..."}.
"""

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec

from kafkaesque.protocols.text.errors import BadCommand
from kafkaesque.protocols.text.examples import PUBLISH, PUBLISH_WITH_HEADER

#: (name, value) of each header, in order; names may repeat.
Headers = tuple[tuple[str, bytes | None], ...]

_HEADER, _KEY, _BODY = "Header", "Key", "Body"
_KEY_BASE64, _BODY_BASE64 = "KeyBase64", "BodyBase64"
_NAMES = (_HEADER, _KEY, _BODY, _KEY_BASE64, _BODY_BASE64)
_BASE64 = "Base64"

#: How much of a text an error repeats.
SHOWN_LENGTH_MAX = 60
#: Half of a character that takes two escapes.
_HALF = re.compile(r"\\u[dD][89a-fA-F]")

#: How the JSON values begin that are shown as such: all but strings and null.
_JSON_BEGINNINGS = tuple(map(str.encode, "{[-0123456789tf"))

_NULL = b"null"

#: What may be wrong with JSON. Nesting has a bound, which is the decoder's.
_NOT_JSON = (msgspec.MsgspecError, RecursionError)

_encoder = msgspec.json.Encoder()
_object_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_pairs_decoder = msgspec.json.Decoder(list[tuple[str, msgspec.Raw]])
_string_decoder = msgspec.json.Decoder(str)


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMessage:
    """A message in bytes."""

    headers: Headers = ()
    key: bytes | None = None
    value: bytes | None


# -- reading


def read_message(text: str, topic: str = "flights", further: tuple[str, ...] = ()) -> TextMessage:
    """Return what a person's text says.

    What begins with { is a message in JSON, and has to be one: an object with a body, and with
    nothing else that a message has not, but for `further` fields. Any other text is a body.

    Raises:
        BadCommand: it begins so and is no message; with what to write, to this topic, instead.
    """
    if not text.lstrip().startswith("{"):
        return TextMessage(value=text.encode())
    envelope = _read_envelope(text, topic)
    for name in envelope:
        if name not in _NAMES and name not in further:
            raise _unknown(name, text, topic, further)
    return TextMessage(
        headers=_read_headers(envelope),
        key=_read_key(envelope),
        value=_read_body(envelope, text, topic),
    )


def _read_envelope(text: str, topic: str) -> Mapping[str, bytes]:
    try:
        fields = _object_decoder.decode(text.encode())
    except _NOT_JSON as error:
        what = f"a message that begins with {{ is JSON, and this is not JSON: {_why(error, text)}"
        is_tried = any(f'"{name}"' in text for name in _NAMES)
        body = _encoder.encode(text).decode()
        raise BadCommand(what, PUBLISH if is_tried else _instead(body, topic)) from None
    return {name: bytes(raw) for name, raw in fields.items()}


def _why(error: Exception, text: str) -> str:
    """Return what is wrong with a text that is not JSON."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if "truncated" not in str(error):
        return str(error).rpartition("malformed: ")[2]
    # The decoder says the same of an escape that wants another one after it.
    is_whole = text.rstrip().endswith("}") and _HALF.search(text) is not None
    return "half a character is escaped in it" if is_whole else "it ends too early"


def _unknown(name: str, text: str, topic: str, further: tuple[str, ...]) -> BadCommand:
    names = (*_NAMES, *further)
    near = get_close_matches(name[:SHOWN_LENGTH_MAX].capitalize(), names, n=1, cutoff=0.8)
    hint = f' (did you mean "{near[0]}"?)' if near else ""
    shown = _encoder.encode(shortened(name)).decode()
    fields = ", ".join((_HEADER, *further, _KEY))
    what = f"a message has {fields} and {_BODY}, and no field {shown}{hint}"
    return BadCommand(what, PUBLISH if near else _instead(text.strip(), topic))


def _instead(body: str, topic: str) -> str:
    """Return how to write this body to this topic; or some body to some topic, if it is long."""
    if len(body) > SHOWN_LENGTH_MAX or len(topic) > SHOWN_LENGTH_MAX:
        return PUBLISH
    return f'PUBS {topic} {{"{_BODY}": {body}}}'


def shortened(text: str) -> str:
    """Return at most the beginning of a text."""
    if len(text) <= SHOWN_LENGTH_MAX:
        return text
    return text[: SHOWN_LENGTH_MAX - 3] + "..."


def _read_object(data: bytes) -> Mapping[str, bytes] | None:
    try:
        fields = _object_decoder.decode(data)
    except _NOT_JSON:
        return None
    return {name: bytes(raw) for name, raw in fields.items()}


def _read_body(envelope: Mapping[str, bytes], text: str, topic: str) -> bytes | None:
    if _BODY in envelope and _BODY_BASE64 in envelope:
        raise BadCommand(f'a message has "{_BODY}" or "{_BODY_BASE64}", not both', PUBLISH)
    if _BODY_BASE64 in envelope:
        return _read_base64(envelope[_BODY_BASE64], _BODY_BASE64)
    if _BODY not in envelope:
        example = PUBLISH if envelope else _instead(text.strip(), topic)
        raise BadCommand('the message has no "Body"', example)
    return _read_value(envelope[_BODY])


def _read_key(envelope: Mapping[str, bytes]) -> bytes | None:
    if _KEY in envelope and _KEY_BASE64 in envelope:
        raise BadCommand(f'a message has "{_KEY}" or "{_KEY_BASE64}", not both', PUBLISH)
    if _KEY_BASE64 in envelope:
        return _read_base64(envelope[_KEY_BASE64], _KEY_BASE64)
    raw = envelope.get(_KEY, _NULL)
    if raw[:1] in (b"{", b"[", b"t", b"f"):
        raise BadCommand('"Key" must be a string or a number', PUBLISH)
    return _read_value(raw)


def _read_headers(envelope: Mapping[str, bytes]) -> Headers:
    raw = envelope.get(_HEADER, _NULL)
    if raw == _NULL:
        return ()
    try:
        if raw[:1] == b"[":
            pairs = _pairs_decoder.decode(raw)
        else:
            pairs = list(_object_decoder.decode(raw).items())
    except _NOT_JSON:
        raise BadCommand(
            '"Header" must be an object of names and values', PUBLISH_WITH_HEADER
        ) from None
    return tuple((name, _read_header(name, bytes(value))) for name, value in pairs)


def _read_header(name: str, raw: bytes) -> bytes | None:
    if raw[:1] == b"{":
        fields = _read_object(raw)
        if fields is not None and list(fields) == [_BASE64]:
            return _read_base64(fields[_BASE64], f"{name}: {_BASE64}")
    return _read_value(raw)


def _read_value(raw: bytes) -> bytes | None:
    """Return the bytes that one JSON value stands for."""
    if raw == _NULL:
        return None
    if raw[:1] == b'"':
        return _string_decoder.decode(raw).encode()
    return msgspec.json.format(raw, indent=-1)


def _read_base64(raw: bytes, name: str) -> bytes:
    try:
        return b64decode(_string_decoder.decode(raw), validate=True)
    except (*_NOT_JSON, binascii.Error, ValueError):
        raise BadCommand(f'"{name}" is not base64', PUBLISH) from None


# -- writing


def write_message(message: TextMessage) -> bytes:
    """Return the message in one line of JSON."""
    fields: dict[str, object] = {}
    if message.headers:
        fields[_HEADER] = _write_headers(message.headers)
    if message.key is not None:
        _put(fields, _KEY, _KEY_BASE64, message.key)
    if message.value is None or not _is_compact_json(message.value):
        _put(fields, _BODY, _BODY_BASE64, message.value)
    else:
        fields[_BODY] = msgspec.Raw(message.value)
    return _encoder.encode(fields)


def _put(fields: dict[str, object], name: str, base64_name: str, value: bytes | None) -> None:
    try:
        fields[name] = None if value is None else value.decode()
    except UnicodeDecodeError:
        fields[base64_name] = b64encode(value or b"").decode()


def _write_headers(headers: Headers) -> object:
    """Return an object, or a list of pairs where names repeat."""
    pairs = [(name, _write_header(value)) for name, value in headers]
    by_name = dict(pairs)
    return by_name if len(by_name) == len(pairs) else pairs


def _write_header(value: bytes | None) -> object:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return {_BASE64: b64encode(value or b"").decode()}


def _is_compact_json(value: bytes) -> bool:
    """Tell whether a body can be shown as JSON itself, to be read back as these very bytes."""
    if value[:1] not in _JSON_BEGINNINGS:
        return False
    try:
        value.decode()
        # Within an object, as it will be read back.
        raw = bytes(_object_decoder.decode(b'{"":' + value + b"}")[""])
        return raw == value == msgspec.json.format(raw, indent=-1)
    except (UnicodeDecodeError, *_NOT_JSON):
        return False
