"""A stream's records: messages, and what removes them."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from kafkaesque.gateway.nats.jetstream.view import Arrived, Removal
from kafkaesque.gateway.nats.stored import raw_headers, record_headers
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.records import Record
from kafkaesque.protocols.nats.headers import read_headers
from kafkaesque.protocols.nats.subjects import is_literal
from kafkaesque.routing.names import NATS

#: Marks a record that removes messages; its value says which, as JSON. What clients of this and of
#: other protocols publish has no header of that prefix.
REMOVAL: Final = PREFIX + "nats-removal"
#: What a message takes the place of: "sub" or "all". The broker that has let it says so; what the
#: publisher says in `ROLLUP` is only shown.
ROLLED_UP: Final = PREFIX + "nats-rollup"
MESSAGE_ID: Final = "Nats-Msg-Id"
ROLLUP: Final = "Nats-Rollup"
EXPECTED_STREAM: Final = "Nats-Expected-Stream"
EXPECTED_LAST: Final = "Nats-Expected-Last-Sequence"
EXPECTED_LAST_OF_SUBJECT: Final = "Nats-Expected-Last-Subject-Sequence"
EXPECTED_LAST_ID: Final = "Nats-Expected-Last-Msg-Id"
_REMOVAL_KEY: Final = b" nats.removal "
_DIGITS_MAX: Final = 19
#: Of four bytes each, they are within the bound of names.
_SUBJECT_CHARACTERS_MAX: Final = 1_024


class Message(NamedTuple):
    """A message of a stream."""

    sequence: int
    timestamp_ms: int
    subject: str
    headers: bytes
    payload: bytes


class Demands(NamedTuple):
    """What a publisher says in headers of what it publishes."""

    message_id: str = ""
    rollup: str = ""
    stream: str = ""
    last: int | None = None
    last_of_subject: int | None = None
    last_id: str = ""

    @property
    def needs_view(self) -> bool:
        """Whether only those who know what the stream holds can tell if it may be appended."""
        return bool(
            self.message_id
            or self.last_id
            or self.last is not None
            or self.last_of_subject is not None
        )


class _RemovalBody(msgspec.Struct, frozen=True, omit_defaults=True):
    sequences: tuple[int, ...] = ()
    before: int = 0
    subject: str = ""
    keep: int = 0


def read_demands(raw: bytes) -> Demands:
    """Return what a message's headers ask for."""
    if b"Nats-" not in raw:
        return Demands()
    found = read_headers(raw)
    said = {} if found is None else dict(reversed(found.pairs))
    return Demands(
        message_id=said.get(MESSAGE_ID, ""),
        rollup=said.get(ROLLUP, "").lower(),
        stream=said.get(EXPECTED_STREAM, ""),
        last=_number(said.get(EXPECTED_LAST)),
        last_of_subject=_number(said.get(EXPECTED_LAST_OF_SUBJECT)),
        last_id=said.get(EXPECTED_LAST_ID, ""),
    )


def _number(text: str | None) -> int | None:
    if not text or len(text) > _DIGITS_MAX or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def message_record(
    number: int, now_ms: int, subject: str, headers: bytes, payload: bytes, rollup: str = ""
) -> Record:
    """Return the record of a message, the nth of its batch."""
    key = subject.encode("utf-8", "surrogateescape")
    stored = record_headers(headers)
    if rollup:
        stored = (*stored, (ROLLED_UP, rollup.encode()))
    return Record(number, now_ms, key, payload, stored)


def removal_record(number: int, now_ms: int, removal: Removal) -> Record:
    """Return the record that removes messages, the nth of its batch."""
    body = _RemovalBody(removal.sequences, removal.before, removal.subject, removal.keep)
    # Its key is no subject, and each has another one: compaction leaves them.
    key = b"%s%d" % (_REMOVAL_KEY, now_ms)
    return Record(number, now_ms, key, msgspec.json.encode(body), ((REMOVAL, b""),))


def filler_record(number: int, now_ms: int, of: bytes = b"") -> Record:
    """Return a record that is no message and removes none, the nth of its batch.

    Compaction leaves the last one of each `of`.
    """
    return Record(number, now_ms, _REMOVAL_KEY + of, b"{}", ((REMOVAL, b""),))


def read_removal(record: Record) -> Removal | None:
    """Return what a record removes; None: it is a message."""
    if not (record.key or b"").startswith(_REMOVAL_KEY):
        return None
    if not any(name == REMOVAL for name, _ in record.headers):
        return None
    try:
        body = msgspec.json.decode(record.value or b"{}", type=_RemovalBody)
    except msgspec.MsgspecError:
        body = _RemovalBody()
    return Removal(
        record.offset + 1,
        record.timestamp_ms,
        body.sequences,
        body.before,
        body.subject,
        body.keep,
    )


def subject_of(record: Record, stream: str) -> str:
    """Return a message's subject; of what came by another protocol, the stream's name at worst."""
    if record.key:
        text = record.key.decode("utf-8", "surrogateescape")
        is_short = len(text) <= _SUBJECT_CHARACTERS_MAX and text.count(".") < NATS.levels_max
        if is_short and is_literal(text) and not any(each.isspace() for each in text):
            return text
    return stream


def read_message(record: Record, stream: str) -> Message:
    """Return the message that a record is."""
    return Message(
        record.offset + 1,
        record.timestamp_ms,
        subject_of(record, stream),
        raw_headers(record.headers),
        record.value or b"",
    )


def read_arrived(record: Record, stream: str) -> Arrived:
    """Return what the view has to know of a message."""
    message_id = rollup = ""
    size = len(record.value or b"")
    for name, value in record.headers:
        size += len(name) + len(value or b"")
        if name == "message-id":
            message_id = (value or b"").decode("utf-8", "surrogateescape")
        elif name == ROLLED_UP:
            rollup = (value or b"").decode("utf-8", "replace")
    subject = subject_of(record, stream)
    size += len(subject)
    return Arrived(record.offset + 1, subject, size, record.timestamp_ms, message_id, rollup)
