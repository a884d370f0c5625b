"""Primitive types of Kafka's protocol: what generated and hand-written codecs share."""

from __future__ import annotations

from struct import error as struct_error
from typing import Final, NoReturn

from kafkaesque.protocols.kafka.errors import MalformedRequest

Buffer = bytes | bytearray | memoryview

ZERO_UUID: Final = bytes(16)

#: Elements that all arrays of one request may have together. An element of two bytes on the wire
#: takes up to about 150 in memory, so this, not the frame's size, bounds what decoding costs; and
#: to go through this many keeps the broker from everybody else for some tenths of a second.
ELEMENTS_MAX: Final = 50_000

#: The same for responses, which come from brokers: Metadata of 100,000 partitions passes.
RESPONSE_ELEMENTS_MAX: Final = 2_000_000

#: Tagged fields in one section: what a peer of any version sends is far below, and each costs time.
TAGS_MAX: Final = 64

#: Bytes of a string: compact lengths could say more, lengths of two bytes could not.
STRING_BYTES_MAX: Final = 32_767

#: What reading past the end of a buffer, or text that is not UTF-8, raises.
MALFORMED: Final = (struct_error, IndexError, UnicodeDecodeError)

#: Unsigned varints of one byte, ready made.
UVARINTS: Final = tuple(bytes([n]) for n in range(128))

#: A varint of 32 bits takes at most five bytes, and the fifth holds the topmost four bits.
_UVARINT_LAST_BYTE_MAX: Final = 0x0F


class Message:
    """Base of generated messages and structs: compared by value, never hashed."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        """Compares fields; a list equals a tuple of equal elements, as both are arrays."""
        if type(other) is not type(self):
            return NotImplemented
        for name in self.__slots__:
            mine, its = getattr(self, name), getattr(other, name)
            if isinstance(mine, list | tuple) and isinstance(its, list | tuple):
                mine, its = list(mine), list(its)
            if mine != its:
                return False
        return True

    def __repr__(self) -> str:
        values = ((name, getattr(self, name)) for name in self.__slots__)
        fields = (
            f"{name}={bytes(value) if isinstance(value, memoryview) else value!r}"
            for name, value in values
        )
        return f"{type(self).__name__}({', '.join(fields)})"


def uvarint(n: int) -> bytes:
    """Returns an unsigned varint of up to 32 bits; unrolled, as every records field has one."""
    if n < 1 << 7:
        return UVARINTS[n]
    if n < 1 << 14:
        return bytes((n & 127 | 128, n >> 7))
    if n < 1 << 21:
        return bytes((n & 127 | 128, n >> 7 & 127 | 128, n >> 14))
    head = (n & 127 | 128, n >> 7 & 127 | 128, n >> 14 & 127 | 128)
    if n < 1 << 28:
        return bytes((*head, n >> 21))
    return bytes((*head, n >> 21 & 127 | 128, n >> 28))


def read_uvarint(buf: memoryview, pos: int) -> tuple[int, int]:
    """Returns (value, position behind it).

    Raises:
        MalformedRequest: it takes more than 32 bits.
        IndexError: the buffer ends before it does.
    """
    first = buf[pos]
    if first < 128:
        return first, pos + 1
    return uvarint_tail(buf, pos + 1, first)


def uvarint_tail(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """Reads on from a varint's first byte, which says that more follow; `pos` is behind it.

    Unrolled, as every records field has one. Raises like `read_uvarint`.
    """
    byte = buf[pos]
    value = first & 127 | (byte & 127) << 7
    if byte < 128:
        return value, pos + 1
    byte = buf[pos + 1]
    value |= (byte & 127) << 14
    if byte < 128:
        return value, pos + 2
    byte = buf[pos + 2]
    value |= (byte & 127) << 21
    if byte < 128:
        return value, pos + 3
    byte = buf[pos + 3]
    if byte > _UVARINT_LAST_BYTE_MAX:
        raise MalformedRequest("varint of more than 32 bits")
    return value | byte << 28, pos + 4


def length_tail(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """Like `uvarint_tail`, for a length plus one that must not be null."""
    value, pos = uvarint_tail(buf, pos, first) if first > 127 else (first, pos)
    if value == 0:
        raise MalformedRequest("null where the protocol allows none")
    return value, pos


def text_tail(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """Like `uvarint_tail`, for the length plus one of a string; 0 is null.

    Raises:
        MalformedRequest: it is longer than strings may be.
    """
    value, pos = uvarint_tail(buf, pos, first)
    if value > STRING_BYTES_MAX + 1:
        bad_length(value - 1)
    return value, pos


def text_length_tail(buf: memoryview, pos: int, first: int) -> tuple[int, int]:
    """Like `text_tail`, for a string that must not be null."""
    if not first:
        bad_length(-1)
    value, pos = text_tail(buf, pos, first)
    if not value:
        bad_length(-1)
    return value, pos


def skip_tags(buf: memoryview, pos: int, count: int) -> int:
    """Returns the position behind `count` tagged fields that nobody here knows.

    `count` is the first byte of its varint.
    """
    if count > TAGS_MAX:
        bad_tags(count)
    for _ in range(count):
        _, pos = read_uvarint(buf, pos)
        size, pos = read_uvarint(buf, pos)
        pos += size
    return pos


def tag_section(tags: list[tuple[int, list[Buffer]]]) -> list[Buffer]:
    """Returns the parts of a tag section; `tags` are (tag, parts of its value) by rising tag."""
    parts: list[Buffer] = [uvarint(len(tags))]
    for tag, value in tags:
        parts.append(uvarint(tag) + uvarint(sum(map(len, value))))
        parts.extend(value)
    return parts


def bad_length(n: int) -> NoReturn:
    """Refuses a length below zero, or null where none is allowed."""
    raise MalformedRequest(f"length {n}")


def bad_count(n: int) -> NoReturn:
    """Refuses an array that cannot fit into the rest of the message, or is one too many."""
    raise MalformedRequest(f"array of {n} elements where there is no room for them")


def bad_tag(tag: int) -> NoReturn:
    """Refuses a tagged field whose size is not what it says."""
    raise MalformedRequest(f"tagged field {tag} has another size than it says")


def bad_tags(first: int) -> NoReturn:
    """Refuses more tagged fields than anybody has; `first` is the first byte of their number."""
    raise MalformedRequest(f"more than {TAGS_MAX} tagged fields (first byte {first})")


def missing(field: str) -> NoReturn:
    """Refuses to write null: our own mistake.

    Raises:
        ValueError: always.
    """
    raise ValueError(f"{field} must not be null in this version")


def cut_short(message: str) -> MalformedRequest:
    """Returns the error for a message that ends early or holds text that is not UTF-8."""
    return MalformedRequest(f"{message} is cut short or holds text that is not UTF-8")


def wrong_length(message: str, pos: int, end: int) -> MalformedRequest:
    """Returns the error for a message that does not end where its frame does."""
    return MalformedRequest(f"{message} ends at {pos} in a frame of {end} bytes")
