"""Messages as they are sent: what a user says of one, and the record that it becomes."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final, cast
from uuid import UUID

from kafkaesque.client.errors import InvalidArgument
from kafkaesque.model import message_headers as names
from kafkaesque.model.records import Record

#: What a message can be: bytes as they are, text as UTF-8, all else as JSON; None: no value.
Body = bytes | str | Mapping[str, object] | list[object] | int | float | bool | None
#: So many seconds after the message was put, or a time that knows its zone.
When = float | timedelta | datetime
Headers = Mapping[str, str | bytes | None]

PRIORITY_MAX: Final = 255
_TIME_MS_MAX: Final = 2**48 - 1


@dataclass(frozen=True, slots=True)
class Message:
    """A message for a queue."""

    value: Body
    key: str | bytes | None = None
    headers: Headers = field(default_factory=dict)
    #: Higher ones come first, up to the `max.priority` of the queue.
    priority: int = 0
    #: Messages of a group come one after the other, if the queue has `ordered.groups`; groups get
    #: messages in turn, if it has `fair.groups`.
    group: str | bytes = b""
    #: When it may be taken at the earliest; None: as the queue has it.
    delay: When | None = None
    #: When its life ends; None: as the queue has it.
    expires: When | None = None
    #: By which duplicates are known, if the queue has `deduplication.ms`.
    id: str | bytes | UUID | None = None


def encode_body(body: Body) -> bytes | None:
    """Return a message's bytes.

    Raises:
        InvalidArgument: it is neither bytes nor text, and JSON cannot say it.
    """
    if body is None or isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError) as error:
        raise InvalidArgument(f"the message cannot be written as JSON: {error}") from None


def encode_headers(headers: Headers) -> tuple[tuple[str, bytes | None], ...]:
    """Return a user's headers as records have them.

    Raises:
        InvalidArgument: a name is one of the queue's own, or a value is neither text nor bytes.
    """
    found = []
    # Whoever has no type checker may have said anything.
    for name, value in cast("Mapping[object, object]", headers).items():
        if not isinstance(name, str) or name.startswith(names.PREFIX):
            raise InvalidArgument(f"a header cannot be called {name!r}")
        if not isinstance(value, str | bytes | None):
            raise InvalidArgument(f"the value of header {name!r} is neither text nor bytes")
        found.append((name, encode_text(value)))
    return tuple(found)


def encode_text(text: str | bytes | None) -> bytes | None:
    """Return bytes as they are, and text as UTF-8."""
    return text.encode() if isinstance(text, str) else text


def identity_of(message_id: str | bytes | UUID) -> bytes:
    """Return the 16 bytes by which a message's id is known; a UUID has them itself.

    Raises:
        InvalidArgument: it is empty.
    """
    if isinstance(message_id, UUID):
        return message_id.bytes
    data = message_id.encode() if isinstance(message_id, str) else message_id
    if not data:
        raise InvalidArgument("the id of a message is not empty")
    return blake2b(data, digest_size=names.IDENTITY_BYTES).digest()


def as_message(message: Message | Body) -> Message:
    """Return what is to be put as a `Message`."""
    return message if isinstance(message, Message) else Message(message)


def encode_message(message: Message, number: int, now_ms: int) -> Record:
    """Return a message as the record with that number in its batch.

    Raises:
        InvalidArgument: something about it makes no sense.
    """
    said: list[tuple[str, bytes | None]] = []
    if not 0 <= message.priority <= PRIORITY_MAX:
        raise InvalidArgument(f"a priority is 0 to {PRIORITY_MAX}, not {message.priority}")
    if message.priority:
        said.append((names.PRIORITY, b"%d" % message.priority))
    if message.group:
        said.append((names.GROUP, encode_text(message.group)))
    if message.delay is not None:
        said.append(_when(message.delay, names.DELAY, names.NOT_BEFORE))
    if message.expires is not None:
        said.append(_when(message.expires, names.TIME_TO_LIVE, names.NOT_AFTER))
    if message.id is not None:
        said.append((names.IDENTITY, identity_of(message.id)))
    return Record(
        number,
        now_ms,
        encode_text(message.key),
        encode_body(message.value),
        (*encode_headers(message.headers), *said),
    )


def _when(when: When, duration: str, moment: str) -> tuple[str, bytes]:
    """Return the header for a time: a duration counts by the broker's clock, from the commit on."""
    if not isinstance(when, datetime):
        # Brokers read 0 as nothing said: who has no time left would live for ever.
        return duration, b"%d" % max(milliseconds(when), 1 if duration == names.TIME_TO_LIVE else 0)
    if when.tzinfo is None:
        raise InvalidArgument("a datetime must have a time zone")
    found = int(when.timestamp() * 1000)
    if not 0 < found <= _TIME_MS_MAX:
        raise InvalidArgument(f"{when!r} is not a moment that a message can have")
    return moment, b"%d" % found


def milliseconds(duration: float | timedelta) -> int:
    """Return a duration in milliseconds; at least 1 if there is any.

    Raises:
        InvalidArgument: it is negative, or no number.
    """
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    if not 0 <= seconds <= _TIME_MS_MAX / 1000:
        raise InvalidArgument(f"{duration!r} is not a duration")
    return max(int(seconds * 1000), 1 if seconds else 0)


def wall_ms() -> int:
    """Return the time of this machine's clock, as Unix time in milliseconds."""
    return time.time_ns() // 1_000_000
