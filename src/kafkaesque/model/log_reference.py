"""Where the body of a queue's message stands, if it is kept once in a topic for many queues."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple
from zlib import crc32

from kafkaesque.model.ids import TopicId
from kafkaesque.model.message_headers import LOG_REFERENCE

_VERSION: Final = 0
#: Version, whether the headers are the topic's, the topic's id, partition, offset, size, checksum.
_LAYOUT: Final = struct.Struct(">B?16sIQII")


class LogReference(NamedTuple):
    """A record of a topic, which stays what it is for as long as the topic has it."""

    topic_id: TopicId
    partition: int
    offset: int
    #: Bytes of the message's key and value, as its queues count them.
    size_bytes: int
    #: Of the value: another record that stands there after a loss of data is not taken for it.
    checksum: int
    #: Whether the message's headers are those of the record, too, and not its own.
    has_headers: bool

    def packed(self) -> bytes:
        """Return the value of the header by which a message says it."""
        return _LAYOUT.pack(
            _VERSION,
            self.has_headers,
            self.topic_id,
            self.partition,
            self.offset,
            self.size_bytes,
            self.checksum,
        )

    def fits(self, value: bytes | None) -> bool:
        """Tell whether this is the value that was meant."""
        return checksum_of(value) == self.checksum


def read_reference(headers: Iterable[tuple[str, bytes | None]]) -> LogReference | None:
    """Return what a message's headers refer to; None: it has its body, or what they say is none."""
    for name, value in headers:
        if name == LOG_REFERENCE and value is not None:
            try:
                version, has_headers, topic_id, *numbers = _LAYOUT.unpack(value)
            except struct.error:
                return None
            if version != _VERSION:
                return None
            partition, offset, size_bytes, checksum = numbers
            return LogReference(
                TopicId(topic_id), partition, offset, size_bytes, checksum, has_headers
            )
    return None


def checksum_of(value: bytes | None) -> int:
    """Return the checksum of a message's value."""
    return crc32(value or b"")
