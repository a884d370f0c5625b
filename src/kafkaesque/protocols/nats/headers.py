"""Headers of messages: a first line with the version, then names and values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

_VERSION: Final = b"NATS/1.0"
_EOL: Final = b"\r\n"


class Headers(NamedTuple):
    """Headers, in their order; names may repeat."""

    pairs: tuple[tuple[str, str], ...] = ()
    #: Of messages by a server; None: it says nothing.
    status: int | None = None
    description: str = ""


def no_responders(subject: str) -> bytes:
    """Return what a requester is sent where nobody listens; see `ConnectOptions.no_responders`."""
    return b"NATS/1.0 503\r\nNats-Subject: %b\r\n\r\n" % _raw(subject)


def read_headers(raw: bytes) -> Headers | None:
    """Return what raw headers say; None if they are malformed, which brokers do not mind."""
    first, eol, rest = raw.partition(_EOL)
    if not eol or not first.startswith(_VERSION) or not rest.endswith(_EOL):
        return None
    status, description = None, ""
    inline = _text(first[len(_VERSION) :]).strip()
    if inline:
        code, _, description = inline.partition(" ")
        if not (code.isascii() and code.isdigit() and len(code) == 3):
            return None
        status = int(code)
    pairs = []
    lines = rest.removesuffix(_EOL)
    for line in lines.removesuffix(_EOL).split(_EOL) if lines else ():
        name, colon, value = line.partition(b":")
        if not colon or not name:
            return None
        pairs.append((_text(name), _text(value).strip(" \t")))
    return Headers(tuple(pairs), status, description.strip())


def write_headers(headers: Headers) -> bytes:
    """Return raw headers.

    Raises:
        ValueError: a name or value cannot be written.
    """
    for name, value in headers.pairs:
        _check(name, value)
    return _write(headers)


def _check(name: str, value: str) -> None:
    if not is_writable(name, value):
        raise ValueError(f"{name!r} cannot be a header with this value")


def _write(headers: Headers) -> bytes:
    first = _VERSION
    if headers.status is not None:
        first += _raw(f" {headers.status} {headers.description}".rstrip())
    lines = [first, *(_raw(name) + b": " + _raw(value) for name, value in headers.pairs)]
    return b"".join((*(line + _EOL for line in lines), _EOL))


def is_writable(name: str, value: str) -> bool:
    """Tell whether there can be a header of this name and value."""
    is_name = name != "" and not any(each in name for each in ":\r\n")
    return is_name and "\r" not in value and "\n" not in value


def change_headers(
    raw: bytes, changed: Collection[str], written: Mapping[str, str], *, keeps_status: bool = True
) -> bytes:
    """Return raw headers with others: all of the names in `changed` go, `written` come.

    The others stay as they are, in their order, also those that could not be written; malformed
    ones do not stay.

    Raises:
        ValueError: a name or value of `written` cannot be written.
    """
    for name, value in written.items():
        _check(name, value)
    found, left = read_headers(raw) or Headers(), dict(written)
    pairs: list[tuple[str, str]] = []
    for name, value in found.pairs:
        if name in left:
            pairs.append((name, left.pop(name)))
        elif name not in changed and name not in written:
            pairs.append((name, value))
    others = (*pairs, *left.items())
    return _write(found._replace(pairs=others) if keeps_status else Headers(others))


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "surrogateescape")


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
