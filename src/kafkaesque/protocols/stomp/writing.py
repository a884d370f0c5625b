"""What brokers send."""

from __future__ import annotations

from typing import Final

from kafkaesque.protocols.stomp.frames import Frame, Headers, write_frame, write_headers
from kafkaesque.protocols.stomp.versions import Version, escape

HEARTBEAT: Final = b"\n"


def write_receipt(receipt_id: str, version: Version) -> bytes:
    """Return a RECEIPT."""
    return write_frame(Frame("RECEIPT", (("receipt-id", receipt_id),)), version)


class MessageVariant:
    """A message in one version, of which each subscription gets a copy of its own.

    `headers` are those of the message but `subscription`, `ack` and `content-length`.
    """

    __slots__ = ("_tail", "version")

    def __init__(self, version: Version, headers: Headers, body: bytes) -> None:
        self.version = version
        length = b"content-length:%d\n\n" % len(body)
        self._tail = b"".join((write_headers(headers, version), length, body, b"\0"))

    def write(self, subscription_id: bytes, ack_id: bytes = b"") -> bytes:
        """Return a copy; both ids are as `escaped` returns them, and the second one is of 1.2."""
        if ack_id:
            return b"MESSAGE\nsubscription:%b\nack:%b\n%b" % (subscription_id, ack_id, self._tail)
        return b"MESSAGE\nsubscription:%b\n%b" % (subscription_id, self._tail)


def escaped(text: str, version: Version) -> bytes:
    """Return an id as a header's value is written."""
    return escape(text, version).encode(errors="replace")
