"""A message as clients of NATS send and get it, and as everybody else does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kafkaesque.gateway.nats.stored import SHOWN_SUBJECT, STORED_REPLY, raw_headers, record_headers
from kafkaesque.model.kernel_types import Headers
from kafkaesque.protocols.nats.writing import MessageVariant, RunVariant
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.live_message import NO_ORIGIN, LiveMessage, Origin, live_message
from kafkaesque.routing.live_message import record_headers as all_headers
from kafkaesque.routing.names import NATS, NameKey, levels_of_key

#: Keys whose subjects are not worked out again.
_REMEMBERED_MAX: Final = 1_024
_subjects: dict[NameKey, str] = {}


def read_published(
    key: NameKey, reply: str, headers: bytes, payload: bytes, origin: Origin = NO_ORIGIN
) -> LiveMessage:
    """Return a message that a client has published, as everybody is given it."""
    if not headers and not reply:
        return LiveMessage(key=key, body=payload, origin=origin)
    reply_key: NameKey | None = None
    pairs: Headers = record_headers(headers)
    if reply:
        try:
            reply_key = NATS.key_of(reply)
            if not pairs:
                return LiveMessage(key=key, body=payload, origin=origin, reply=reply_key)
        except BadName:
            pairs = (*pairs, (STORED_REPLY, reply.encode("utf-8", "surrogateescape")))
    found = live_message(key, payload, pairs)
    others = found.headers
    if not reply and found.reply is not None:
        reply_key, others = found.reply, (*others, (STORED_REPLY, b""))
    return LiveMessage(
        key=key,
        body=payload,
        origin=origin,
        content_type=found.content_type,
        correlation=found.correlation,
        reply=reply_key,
        expires_ms=found.expires_ms,
        headers=others,
    )


def sent_message(
    to: NameKey, *, subject: str, reply: str, headers: bytes, payload: bytes
) -> LiveMessage:
    """Return a message of the broker's own, which is shown with another subject than it goes to."""
    found = read_published(to, reply, headers, payload)
    if not subject:
        return found
    shown = (SHOWN_SUBJECT, subject.encode("utf-8", "surrogateescape"))
    return LiveMessage(
        key=to,
        body=payload,
        content_type=found.content_type,
        correlation=found.correlation,
        reply=found.reply,
        expires_ms=found.expires_ms,
        headers=(*found.headers, shown),
    )


def subject_of(key: NameKey) -> str:
    """Return a name as NATS writes it."""
    found = _subjects.get(key)
    if found is None:
        found = NATS.write_name(levels_of_key(key))
        if len(_subjects) >= _REMEMBERED_MAX:
            _subjects.clear()
        _subjects[key] = found
    return found


class Variants:
    """The last message as it is written to clients: its receivers come one after the other."""

    __slots__ = ("_message", "_run", "_run_variant", "_variant")

    def __init__(self) -> None:
        self._message: LiveMessage | None = None
        self._variant = MessageVariant("", "", b"", b"")
        #: The same for messages that come at once.
        self._run: Sequence[LiveMessage] = ()
        self._run_variant = RunVariant(())

    def of(self, message: LiveMessage) -> MessageVariant:
        """Return a message as it is written."""
        if message is not self._message:
            self._message, self._variant = message, _variant_of(message)
        return self._variant

    def of_run(self, messages: Sequence[LiveMessage]) -> RunVariant:
        """Return messages as they are written; the sequence is not changed any more."""
        if messages is not self._run:
            self._run = messages
            self._run_variant = RunVariant([_variant_of(each) for each in messages])
        return self._run_variant


def _variant_of(message: LiveMessage) -> MessageVariant:
    subject = reply = ""
    if message.reply is not None:
        reply = subject_of(message.reply)
    if not message.headers and message.content_type is None and message.correlation is None:
        return MessageVariant(subject_of(message.key), reply, b"", message.body)
    shown: list[tuple[str, bytes | None]] = []
    for name, value in all_headers(message):
        if name == SHOWN_SUBJECT and value is not None:
            subject = value.decode("utf-8", "surrogateescape")
        elif name == STORED_REPLY and value is not None:
            reply = value.decode("utf-8", "surrogateescape")
        elif name != "reply-to":
            shown.append((name, value))
    return MessageVariant(
        subject or subject_of(message.key), reply, raw_headers(tuple(shown)), message.body
    )
