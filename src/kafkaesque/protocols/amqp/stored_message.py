"""What a queue keeps of a message as its publisher sent it: one header of its record.

A version, then exchange and routing key, then the properties' raw bytes: a delivery copies these
and reads none of them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.wire import MALFORMED, read_short_string, write_short_string

VERSION: Final = 1
_VERSION_BYTE: Final = bytes((VERSION,))
_HEADS_MAX: Final = 256


class StoredMessage(NamedTuple):
    """Where a message was published, and its properties as they came."""

    exchange: str
    routing_key: str
    properties: bytes


def write_stored(exchange: str, routing_key: str, properties: bytes) -> bytes:
    """Return the header's value."""
    return _head(exchange, routing_key) + properties


@lru_cache(maxsize=_HEADS_MAX)
def _head(exchange: str, routing_key: str) -> bytes:
    """Return what comes before the properties: messages of one publisher often say the same."""
    return _VERSION_BYTE + write_short_string(exchange) + write_short_string(routing_key)


def read_stored(raw: bytes) -> StoredMessage | None:
    """Return what a header's value says; None if it is somebody else's, or of a later release."""
    if raw[:1] != _VERSION_BYTE:
        return None
    try:
        exchange, at = read_short_string(raw, 1)
        key, at = read_short_string(raw, at)
    except (AmqpError, *MALFORMED):
        return None
    return StoredMessage(exchange, key, raw[at:]) if len(raw) >= at + 2 else None
