"""What NATS' headers are in a record, and the other way round.

They are headers of the record with the names that all protocols use for them. Where these would not
give back what the publisher has sent byte by byte, that stands in one more header, `nats.headers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import PREFIX, STORED_NATS, STORED_SQS
from kafkaesque.model.message_properties import CONTENT_TYPE, MESSAGE_ID
from kafkaesque.protocols.nats.headers import Headers as NatsHeaders
from kafkaesque.protocols.nats.headers import is_writable, read_headers, write_headers
from kafkaesque.routing.live_message import REPLY

#: A reply subject that is no name for others; empty: the publisher has named none, whatever a
#: header of the message says to others.
STORED_REPLY: Final = PREFIX + "nats-reply"
#: The subject that a message is shown with, where it goes to another one.
SHOWN_SUBJECT: Final = PREFIX + "nats-subject"
#: NATS' name -> the name for all protocols.
_NAMES: Final = {each.nats: each.header for each in (CONTENT_TYPE, MESSAGE_ID)}
_OWN_NAMES: Final = {common: own for own, common in _NAMES.items()}


def record_headers(raw: bytes) -> Headers:
    """Return what a message's headers are in a record."""
    if not raw:
        return ()
    found = read_headers(raw)
    pairs: Headers = ()
    if found is not None and found.status is None:
        pairs = tuple(
            (_NAMES.get(name, name), value.encode("utf-8", "surrogateescape"))
            for name, value in found.pairs
            if _is_text(name)
        )
    # Everybody's header for where answers go is a subject of its own to clients of NATS.
    if raw_headers(pairs) == raw and all(name != REPLY for name, _ in pairs):
        return pairs
    return (*pairs, (STORED_NATS, raw))


def raw_headers(headers: Headers) -> bytes:
    """Return a record's headers as NATS writes them; empty: there are none."""
    for name, value in headers:
        if name == STORED_NATS and value is not None:
            return value
    pairs = tuple(_pairs(headers))
    return write_headers(NatsHeaders(pairs)) if pairs else b""


def _pairs(headers: Headers) -> Iterator[tuple[str, str]]:
    for name, value in headers:
        if name.startswith(PREFIX) or name == STORED_SQS:
            continue
        text = (value or b"").decode("utf-8", "surrogateescape")
        if is_writable(name, text):
            yield _OWN_NAMES.get(name, name), text


def _is_text(name: str) -> bool:
    """Tell whether a header of a record can have this name."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return not name.startswith(PREFIX)
