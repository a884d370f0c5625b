"""Primitive types (5.0, section 1.5)."""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

from kafkaesque.protocols.mqtt.errors import malformed

U16, U32 = Struct(">H"), Struct(">I")

#: What reading past the end of a packet raises.
CUT_SHORT: Final = (struct_error, IndexError)

#: Texts and binary data.
BYTES_MAX: Final = 65_535
VARINT_MAX: Final = 268_435_455
_VARINT_BYTES_MAX: Final = 4


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable byte integer of minimal length (1.5.5-1), and the position behind it.

    Raises:
        MqttError: it has more than four bytes, or more than it needs.
        IndexError: it is cut short.
    """
    value = 0
    for number in range(_VARINT_BYTES_MAX):
        byte = data[at + number]
        value |= (byte & 0x7F) << (7 * number)
        if byte < 0x80:
            if byte == 0 and number:
                raise malformed("a variable byte integer is longer than it has to be")
            return value, at + number + 1
    raise malformed("a variable byte integer has more than four bytes")


def write_varint(value: int) -> bytes:
    """Return a variable byte integer.

    Raises:
        ValueError: it has more than 28 bits.
    """
    if value < 0x80:
        return bytes((value,))
    if value < 0x4000:
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value > VARINT_MAX:
        raise ValueError(f"{value} is above {VARINT_MAX}")
    if value < 0x200000:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    return bytes(
        (value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14 & 0x7F | 0x80, value >> 21)
    )


def read_binary(data: bytes, at: int) -> tuple[bytes, int]:
    """Return bytes behind their length, and the position behind them.

    Raises:
        MqttError: they are cut short.
    """
    start = at + 2
    end = start + (data[at] << 8 | data[at + 1])
    if end > len(data):
        raise malformed("a packet ends within a field")
    return data[start:end], end


def write_binary(raw: bytes) -> bytes:
    """Return bytes behind their length.

    Raises:
        ValueError: there are more than 65,535.
    """
    if len(raw) > BYTES_MAX:
        raise ValueError(f"a field has at most {BYTES_MAX} bytes, not {len(raw)}")
    return U16.pack(len(raw)) + raw


def decode_text(raw: bytes) -> str:
    """Return the text that these bytes are.

    Raises:
        MqttError: they are not UTF-8 (1.5.4-1), or there is a U+0000 among them (1.5.4-2).
    """
    if 0 in raw:
        raise malformed("a text holds U+0000")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise malformed("a text is not UTF-8") from None


def read_text(data: bytes, at: int) -> tuple[str, int]:
    """Return a text, and the position behind it.

    Raises:
        MqttError: it is none.
    """
    raw, at = read_binary(data, at)
    return decode_text(raw), at


def write_text(text: str) -> bytes:
    """Return a text.

    Raises:
        ValueError: it is longer than 65,535 bytes, or cannot be written in UTF-8.
    """
    return write_binary(text.encode())
