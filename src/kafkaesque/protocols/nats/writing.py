"""What brokers send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

OK: Final = b"+OK\r\n"
PING: Final = b"PING\r\n"
PONG: Final = b"PONG\r\n"


class Info(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a broker says of itself, first of all and again when it changes."""

    server_id: str
    server_name: str
    version: str
    proto: int
    host: str
    port: int
    headers: bool
    max_payload: int
    client_id: int
    client_ip: str = ""
    auth_required: bool = False
    tls_required: bool = False
    tls_available: bool = False
    jetstream: bool = False
    #: What a client signs by its key.
    nonce: str = ""
    #: Where the cluster can be reached, too.
    connect_urls: tuple[str, ...] = ()
    #: The broker is about to stop: clients go elsewhere.
    ldm: bool = False


_encoder = msgspec.json.Encoder()


def write_info(info: Info) -> bytes:
    """Return an INFO."""
    return b"INFO " + _encoder.encode(info) + b"\r\n"


def write_error(text: str) -> bytes:
    """Return an -ERR."""
    # One line, whatever a subject in it holds.
    line = text.replace("\r", " ").replace("\n", " ")
    return f"-ERR '{line}'\r\n".encode(errors="surrogateescape")


class MessageVariant:
    """A message, of which each subscription gets a copy of its own.

    Copies differ by the subscription's id, and by whether the client takes headers.
    """

    __slots__ = (
        "_bare_tail",
        "_copy",
        "_head",
        "_sid",
        "_subject",
        "_tail",
        "payload_bytes",
        "subject",
    )

    def __init__(self, subject: str, reply: str, headers: bytes, payload: bytes) -> None:
        self.subject = subject
        raw = subject.encode("utf-8", "surrogateescape")
        answer = reply.encode("utf-8", "surrogateescape")
        between = b" " + answer + b" " if answer else b" "
        self._subject = raw
        self._bare_tail = b"%b%d\r\n%b\r\n" % (between, len(payload), payload)
        #: What counts against a client's pending bytes.
        self.payload_bytes = len(headers) + len(payload)
        if headers:
            sizes = b"%d %d\r\n" % (len(headers), self.payload_bytes)
            self._head = b"HMSG " + raw + b" "
            self._tail = b"".join((between, sizes, headers, payload, b"\r\n"))
        else:
            self._head = b"MSG " + raw + b" "
            self._tail = self._bare_tail
        #: The last copy, and whose: subscriptions of other connections often have the same id.
        self._sid = self._copy = b""

    def write(self, sid: bytes) -> bytes:
        """Return a copy."""
        if sid != self._sid:
            self._sid, self._copy = sid, self._head + sid + self._tail
        return self._copy

    def write_bare(self, sid: bytes) -> bytes:
        """Return a copy without headers, for a client that does not know them."""
        return b"MSG " + self._subject + b" " + sid + self._bare_tail


class RunVariant:
    """Several messages in their order, which a subscription gets at once."""

    __slots__ = ("_copies", "_messages", "payload_bytes")

    def __init__(self, messages: Sequence[MessageVariant]) -> None:
        self._messages = messages
        #: What counts against a client's pending bytes.
        self.payload_bytes = sum(each.payload_bytes for each in messages)
        #: The last copies with headers and without, and whose.
        self._copies: dict[bool, tuple[bytes, bytes]] = {}

    def write(self, sid: bytes, *, with_headers: bool) -> bytes:
        """Return a copy of all."""
        last = self._copies.get(with_headers)
        if last is not None and last[0] == sid:
            return last[1]
        if with_headers:
            copies = [each.write(sid) for each in self._messages]
        else:
            copies = [each.write_bare(sid) for each in self._messages]
        joined = b"".join(copies)
        self._copies[with_headers] = (sid, joined)
        return joined
