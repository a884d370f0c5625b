"""What a queue keeps of a message that a client of MQTT has published: one header of its record.

A version, flags, and who has published it. What has a meaning for other protocols, too, stands in
headers with the names that all protocols share.
"""

from __future__ import annotations

from typing import Final, NamedTuple

VERSION: Final = 1
_QOS: Final = 0x03
_RETAINED: Final = 0x04
_TEXT: Final = 0x08


class StoredMessage(NamedTuple):
    """What only MQTT says of a message."""

    qos: int
    #: Whether its publisher wanted it to be retained, too.
    is_retained: bool
    #: Whether its publisher says that it is UTF-8.
    is_text: bool
    client_id: str


def write_stored(stored: StoredMessage) -> bytes:
    """Return the header's value."""
    flags = stored.qos & _QOS
    flags |= _RETAINED if stored.is_retained else 0
    flags |= _TEXT if stored.is_text else 0
    return bytes((VERSION, flags)) + stored.client_id.encode()


def read_stored(raw: bytes) -> StoredMessage | None:
    """Return what a header's value says; None if it is somebody else's, or of a later release."""
    if len(raw) < 2 or raw[0] != VERSION or raw[1] & _QOS == _QOS:
        return None
    try:
        client_id = raw[2:].decode()
    except UnicodeDecodeError:
        return None
    flags = raw[1]
    return StoredMessage(flags & _QOS, flags & _RETAINED != 0, flags & _TEXT != 0, client_id)
