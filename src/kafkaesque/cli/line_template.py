"""Lines as somebody wants them: `{topic}-{partition} {offset}: {value.customer.id}`.

A field in braces stands for a part of the message, `{{` and `}}` for a brace, and `\\n`, `\\t` and
`\\\\` for what they stand for elsewhere. A key or a value may be followed by names that lead to a
value in JSON, a header by its name. What a message has not got leaves nothing. After a colon: as
what bytes are shown.
"""

import base64
import json
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from string import Formatter
from typing import Final

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.message_format import Incoming, json_bytes

EXAMPLE: Final = "{topic} {partition} {offset} {timestamp} {key} {value.customer.id} {header.trace}"

Part = Callable[[Incoming], bytes]

_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}


def _iso(message: Incoming) -> str:
    kind, wall_ms = message.timestamp()
    if kind == 0 or wall_ms < 0:
        return ""
    try:
        moment = datetime.fromtimestamp(wall_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        # Producers write what they like.
        return str(wall_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _headers(message: Incoming) -> str:
    found = [[name, json_bytes(value)] for name, value in message.headers() or ()]
    return json.dumps(found, ensure_ascii=False)


#: Fields that are text already.
_FACTS: Final[dict[str, Callable[[Incoming], str]]] = {
    "topic": lambda message: message.topic() or "",
    "partition": lambda message: str(message.partition()),
    "offset": lambda message: str(message.offset()),
    "timestamp": _iso,
    "timestamp_ms": lambda message: str(message.timestamp()[1]),
    "headers": _headers,
}
#: Fields that are bytes.
_BYTES: Final[dict[str, Callable[[Incoming], bytes | None]]] = {
    "key": lambda message: message.key(),
    "value": lambda message: message.value(),
}
#: As what bytes are shown, by what stands after the colon.
_SHOWN: Final[dict[str, Callable[[bytes | None], bytes]]] = {
    "": lambda data: data or b"",
    "hex": lambda data: (data or b"").hex().encode(),
    "base64": lambda data: base64.b64encode(data or b""),
    "json": lambda data: json.dumps(json_bytes(data), ensure_ascii=False).encode(),
    "size": lambda data: str(-1 if data is None else len(data)).encode(),
}


def template_writer(template: str) -> Callable[[Incoming], bytes]:
    """Return what makes a line, with its end, of a message.

    Raises:
        CommandFailed: the template cannot be understood.
    """
    try:
        pieces = list(Formatter().parse(_unescaped(template)))
    except ValueError as error:
        raise wrong_usage(f"--template {template!r}: {error}", f"--template '{EXAMPLE}'") from None
    parts: list[Part] = []
    for literal, name, shown, conversion in pieces:
        if literal:
            parts.append(_constant(literal))
        if name is not None:
            parts.append(_field(name, shown or "", conversion))

    def write(message: Incoming) -> bytes:
        return b"".join([part(message) for part in parts]) + b"\n"

    return write


def _unescaped(template: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[0]), template)


def _constant(literal: str) -> Part:
    data = literal.encode()
    return lambda _: data


def _field(name: str, shown: str, conversion: str | None) -> Part:
    first, dot, rest = name.partition(".")
    if conversion or (dot and not rest):
        raise _unknown(name)
    if first == "header" and rest:
        return _shown_as(shown, name, lambda message: _header(message, rest))
    if first in _BYTES:
        read = _BYTES[first]
        if not dot:
            return _shown_as(shown, name, read)
        if shown:
            raise wrong_usage(f"{{{name}:{shown}}}: a value of JSON is shown as it is")
        return _value_at(read, rest.split("."))
    if first in _FACTS and not dot and not shown:
        tell = _FACTS[first]
        return lambda message: tell(message).encode()
    raise _unknown(name if not shown else f"{name}:{shown}")


def _unknown(name: str) -> Exception:
    there = ", ".join([*_FACTS, *_BYTES, "value.NAME", "header.NAME"])
    return wrong_usage(f"{{{name}}} is no part of a message", there)


def _shown_as(shown: str, name: str, read: Callable[[Incoming], bytes | None]) -> Part:
    write = _SHOWN.get(shown)
    if write is None:
        there = ", ".join(f"{{{name}:{each}}}" for each in _SHOWN if each)
        raise wrong_usage(f"{{{name}:{shown}}}: bytes are not shown so", there)
    return lambda message: write(read(message))


def _header(message: Incoming, name: str) -> bytes | None:
    """Return the last header of a name: it is the one that was set last."""
    found = [value for each, value in message.headers() or () if each == name]
    return found[-1] if found else None


def _value_at(read: Callable[[Incoming], bytes | None], names: Sequence[str]) -> Part:
    """Return a value in JSON: a text as it is, anything else as JSON, nothing where it is not."""

    def find(message: Incoming) -> bytes:
        try:
            found = json.loads(read(message) or b"null")
        except (ValueError, RecursionError):
            return b""
        for name in names:
            if isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            elif isinstance(found, dict) and name in found:
                found = found[name]
            else:
                return b""
        if isinstance(found, str):
            return found.encode(errors="surrogatepass")
        return json.dumps(found, ensure_ascii=False).encode(errors="surrogatepass")

    return find
