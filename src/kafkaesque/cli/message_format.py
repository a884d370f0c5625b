"""Messages as lines: what `publish` reads and `consume` prints, so that one can feed the other.

`value`: a line is a value. `key-value`: key, separator, value; a line without the separator has no
key. `json`: one object a line with key, value, headers, partition, timestamp_ms (and, printed,
topic and offset, which say where the message was and are not read). In it, bytes that are not UTF-8
are `{"base64": "..."}`, and null is null.
"""

import base64
import binascii
import difflib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.failure import CommandFailed

Header = tuple[str, bytes | None]

DEFAULT_SEPARATOR = "\t"
QUOTED_MAX = 60
#: What an object may hold: all that is printed.
FIELDS = ("topic", "partition", "offset", "timestamp_ms", "key", "value", "headers")


class Format(StrEnum):
    """What a line holds."""

    VALUE = "value"
    KEY_VALUE = "key-value"
    JSON = "json"


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """A message to publish; what is None is left to the options of the command."""

    value: bytes | None
    key: bytes | None = None
    headers: Sequence[Header] = ()
    partition: int | None = None
    timestamp_ms: int | None = None


class Incoming(Protocol):
    """The part of librdkafka's message that is printed."""

    def topic(self) -> str | None: ...
    def partition(self) -> int | None: ...
    def offset(self) -> int | None: ...
    def key(self) -> bytes | None: ...
    def value(self) -> bytes | None: ...
    def headers(self) -> Any: ...
    def timestamp(self) -> tuple[int, int]: ...


def choose_format(chosen: Format | None, separator: str | None) -> Format:
    """Return the format: a separator alone means key-value."""
    if separator == "":
        raise wrong_usage("an empty key separator separates nothing", "--key-separator :")
    if chosen is None:
        return Format.VALUE if separator is None else Format.KEY_VALUE
    if separator is not None and chosen is not Format.KEY_VALUE:
        raise wrong_usage(f"--key-separator has no meaning with --format {chosen.value}")
    return chosen


def line_reader(chosen: Format, separator: str | None) -> Callable[[bytes], Outgoing]:
    """Return what makes a message of a line (without its end); it raises CommandFailed."""
    if chosen is Format.JSON:
        return _read_json
    if chosen is Format.VALUE:
        return lambda line: Outgoing(value=line)
    between = (separator or DEFAULT_SEPARATOR).encode()

    def read_key_value(line: bytes) -> Outgoing:
        key, found, value = line.partition(between)
        return Outgoing(key=key, value=value) if found else Outgoing(value=line)

    return read_key_value


def line_writer(chosen: Format, separator: str | None) -> Callable[[Incoming], bytes]:
    """Return what makes a line, with its end, of a message."""
    if chosen is Format.JSON:
        return _write_json
    if chosen is Format.VALUE:
        return lambda message: (message.value() or b"") + b"\n"
    between = (separator or DEFAULT_SEPARATOR).encode()

    def write_key_value(message: Incoming) -> bytes:
        key, value = message.key(), message.value() or b""
        return value + b"\n" if key is None else key + between + value + b"\n"

    return write_key_value


def _write_json(message: Incoming) -> bytes:
    document = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp_ms": message.timestamp()[1],
        "key": json_bytes(message.key()),
        "value": json_bytes(message.value()),
        "headers": [[name, json_bytes(value)] for name, value in message.headers() or ()],
    }
    return json.dumps(document, ensure_ascii=False).encode() + b"\n"


def json_bytes(data: bytes | None) -> object:
    """Return bytes as they stand in JSON: text where they are UTF-8, otherwise base64."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _read_json(line: bytes) -> Outgoing:
    try:
        document = json.loads(line)
        if not isinstance(document, dict) or "value" not in document:
            raise ValueError("it is not an object with a value")
        _check_fields(document)
        return Outgoing(
            value=_from_json(document["value"]),
            key=_from_json(document.get("key")),
            headers=_headers(document.get("headers") or []),
            partition=_number(document, "partition"),
            timestamp_ms=_number(document, "timestamp_ms"),
        )
    except (ValueError, binascii.Error) as error:
        shown = line[:QUOTED_MAX].decode(errors="replace")
        raise CommandFailed(
            f"this line is not a message in JSON: {shown} ({error})",
            hint='{"key": "k", "value": "v", "headers": {"name": "value"}}',
        ) from None


def _check_fields(document: dict[str, object]) -> None:
    for name in document:
        if name not in FIELDS:
            near = difflib.get_close_matches(name, FIELDS, n=1)
            meant = f"did you mean {near[0]}?" if near else f"there are {', '.join(FIELDS)}"
            raise ValueError(f"unknown field {name!r}: {meant}")


def _headers(found: object) -> list[Header]:
    pairs = list(found.items()) if isinstance(found, dict) else found
    if not isinstance(pairs, list):
        raise ValueError("headers must be an object or a list of pairs")
    headers = []
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError("a header is a name and a value")
        headers.append((pair[0], _from_json(pair[1])))
    return headers


def _number(document: dict[str, object], name: str) -> int | None:
    value = document.get(name)
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f"{name} must be a number that is not negative")
    return value


def _from_json(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        return base64.b64decode(str(value["base64"]), validate=True)
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
