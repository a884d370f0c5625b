"""The properties of a message, in its content header.

Brokers keep them as the raw bytes that the publisher sent and hand these to consumers; they are
decoded only where somebody asks for a property.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.wire import (
    MALFORMED,
    U8,
    U16,
    U64,
    Buffer,
    Table,
    Timestamp,
    change_table,
    read_short_string,
    read_table,
    syntax_error,
    what_is_wrong,
    write_short_string,
    write_table,
)

#: Raw properties that were found to be well formed last are not looked at again.
CHECKED_MAX = 256
CHECKED_BYTES_MAX = 512

NO_PROPERTIES = b"\0\0"


class Properties(msgspec.Struct, frozen=True, kw_only=True):
    """What a publisher says of a message; None: nothing."""

    content_type: str | None = None
    content_encoding: str | None = None
    headers: Table | None = None
    delivery_mode: int | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    #: Milliseconds, as a text.
    expiration: str | None = None
    message_id: str | None = None
    timestamp: Timestamp | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None


def _read_octet(data: Buffer, at: int) -> tuple[int, int]:
    return data[at], at + 1


def _read_timestamp(data: Buffer, at: int) -> tuple[Timestamp, int]:
    return Timestamp(U64.unpack_from(data, at)[0]), at + 8


_Reader = Callable[[Buffer, int], tuple[Any, int]]
_Writer = Callable[[Any], bytes]
_KINDS: dict[str, tuple[_Reader, _Writer]] = {
    "headers": (read_table, write_table),
    "delivery_mode": (_read_octet, U8.pack),
    "priority": (_read_octet, U8.pack),
    "timestamp": (_read_timestamp, U64.pack),
}
#: (flag, name, reader, writer), in the order of the wire.
_FIELDS = tuple(
    (1 << (15 - number), name, *_KINDS.get(name, (read_short_string, write_short_string)))
    for number, name in enumerate(Properties.__struct_fields__)
)
#: A table without fields.
_NO_FIELDS = write_table({})
#: Flags of no property; the last one says that further flags follow, of which there are none.
_UNKNOWN_FLAGS = 0b11


def read_properties(raw: Buffer) -> Properties:
    """Return the properties that a content header holds behind the body's size.

    Raises:
        AmqpError: they are malformed.
    """
    values: dict[str, Any] = {}
    try:
        (flags,) = U16.unpack_from(raw, 0)
        if flags & _UNKNOWN_FLAGS:
            raise syntax_error("a content header has flags of no property")
        at = 2
        for flag, name, read, _ in _FIELDS:
            if flags & flag:
                values[name], at = read(raw, at)
    except MALFORMED as error:
        raise syntax_error(f"properties cannot be read: {what_is_wrong(error)}") from None
    if at != len(raw):
        raise syntax_error(f"properties have {len(raw) - at} bytes too many")
    return Properties(**values)


def write_properties(properties: Properties) -> bytes:
    """Return properties as a content header holds them.

    Raises:
        ValueError: a value does not fit into its field.
    """
    flags = 0
    parts = [b""]
    try:
        for flag, name, _, write in _FIELDS:
            value = getattr(properties, name)
            if value is not None:
                flags |= flag
                parts.append(write(value))
    except MALFORMED as error:
        raise ValueError(f"properties cannot be written: {error}") from None
    parts[0] = U16.pack(flags)
    return b"".join(parts)


def change_properties(
    raw: Buffer,
    changes: Mapping[str, object],
    headers: Table | None = None,
    dropped: Collection[str] = (),
) -> bytes:
    """Return raw properties with others: what stays keeps its bytes, and so its types.

    `changes` has properties other than `headers`; None: it goes. `headers` are put into the table
    of headers, and `dropped` taken away; a table without fields goes if it was changed.

    Raises:
        AmqpError: they are malformed.
        ValueError: a value does not fit into its field.
    """
    flags, parts = 0, [b""]
    try:
        pieces = _pieces(raw)
        if headers or dropped:
            before = pieces.get("headers", _NO_FIELDS)
            table = change_table(before, headers or {}, dropped)
            pieces["headers"] = b"" if table == _NO_FIELDS else table
        for flag, name, _, write in _FIELDS:
            value = changes.get(name)
            piece = b"" if name in changes else pieces.get(name, b"")
            piece = piece if value is None else write(value)
            if piece:
                flags |= flag
                parts.append(piece)
    except MALFORMED as error:
        raise ValueError(f"properties cannot be changed: {error}") from None
    parts[0] = U16.pack(flags)
    return b"".join(parts)


def _pieces(raw: Buffer) -> dict[str, bytes]:
    """Return the bytes of each property that is there."""
    (flags,) = U16.unpack_from(raw, 0)
    if flags & _UNKNOWN_FLAGS:
        raise syntax_error("a content header has flags of no property")
    pieces, at = {}, 2
    for flag, name, read, _ in _FIELDS:
        if flags & flag:
            start = at
            _, at = read(raw, at)
            pieces[name] = bytes(raw[start:at])
    if at != len(raw):
        raise syntax_error(f"properties have {len(raw) - at} bytes too many")
    return pieces


class PropertiesChecker:
    """Tells well formed properties; publishers send the same ones again and again."""

    __slots__ = ("_checked",)

    def __init__(self) -> None:
        self._checked: set[bytes] = {NO_PROPERTIES}

    def check(self, raw: bytes) -> AmqpError | None:
        """Return what is wrong with raw properties."""
        checked = self._checked
        if raw in checked:
            return None
        try:
            read_properties(raw)
        except AmqpError as error:
            return error
        if len(raw) <= CHECKED_BYTES_MAX:
            if len(checked) >= CHECKED_MAX:
                checked.clear()
            checked.add(raw)
        return None
