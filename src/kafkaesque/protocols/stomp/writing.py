"""What brokers send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaesque.protocols.stomp.frames import Headers, write_headers
from kafkaesque.protocols.stomp.versions import Version, escape, is_plain

HEARTBEAT: Final = b"\n"


def write_receipt(receipt_id: str, version: Version) -> bytes:
    """Return a RECEIPT."""
    return b"RECEIPT\nreceipt-id:%b\n\n\0" % escaped(receipt_id, version)


def write_receipts(receipt_ids: Sequence[str], version: Version) -> bytes:
    """Return RECEIPTs, one after the other."""
    if is_plain("".join(receipt_ids)):
        text = "".join([f"RECEIPT\nreceipt-id:{each}\n\n\0" for each in receipt_ids])
        return text.encode(errors="replace")
    return b"".join([write_receipt(each, version) for each in receipt_ids])


class MessageHead:
    """Headers that many messages share, written once for all of them.

    `before` and `after` are those before and behind the `message-id`.
    """

    __slots__ = ("_after", "_before")

    def __init__(self, version: Version, before: Headers, after: Headers) -> None:
        self._before = write_headers(before, version) + b"message-id:"
        self._after = b"\n" + write_headers(after, version)

    def write(self, subscription_id: bytes, ack_id: bytes, message_id: bytes, body: bytes) -> bytes:
        """Return a message; the ids are as `escaped` returns them, `ack_id` is of 1.2 or empty."""
        ack = b"ack:%b\n" % ack_id if ack_id else b""
        return b"MESSAGE\nsubscription:%b\n%b%b%b%bcontent-length:%d\n\n%b\0" % (
            *(subscription_id, ack, self._before, message_id, self._after),
            *(len(body), body),
        )


def escaped(text: str, version: Version) -> bytes:
    """Return an id as a header's value is written."""
    return escape(text, version).encode(errors="replace")
