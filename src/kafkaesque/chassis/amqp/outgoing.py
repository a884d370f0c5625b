"""What a publisher says of a message, as queues have it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.model.message_headers import STORED_AMQP
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.events import Published
from kafkaesque.protocols.amqp.methods import BasicPublish
from kafkaesque.protocols.amqp.properties import (
    NO_PROPERTIES,
    Properties,
    read_properties,
    write_properties,
)
from kafkaesque.protocols.amqp.stored_message import write_stored
from kafkaesque.protocols.amqp.wire import U16, Table
from kafkaesque.queues.policy import PRIORITIES_MAX
from kafkaesque.routing.message import RoutedMessage

CARBON_COPY: Final = "CC"
BLIND_COPY: Final = "BCC"
DELAY: Final = "x-delay"
#: Keys of one message.
KEYS_MAX: Final = 256
EXPIRATION_MS_MAX: Final = 2**32 - 1
DELAY_MS_MAX: Final = 10 * 366 * 86_400_000
#: Flags of the properties that are looked at: headers, priority, reply_to, expiration, user_id.
_LOOKED_AT: Final = 1 << 13 | 1 << 11 | 1 << 9 | 1 << 8 | 1 << 4


class _Unread(Mapping[str, object]):
    """Properties that are read when a filter, or an exchange that hashes one, first asks."""

    __slots__ = ("_raw", "_read")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._read: dict[str, object] | None = None

    def __getitem__(self, name: str) -> object:
        return self._found()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found())

    def __len__(self) -> int:
        return len(self._found())

    def _found(self) -> dict[str, object]:
        if self._read is None:
            said = read_properties(self._raw)
            named = {name: getattr(said, name) for name in Properties.__struct_fields__}
            self._read = {name: value for name, value in named.items() if value is not None}
        return self._read


class Outgoing(NamedTuple):
    """A message that is about to be routed."""

    #: As they are kept.
    raw: bytes
    #: The routing key, then those of CC and BCC.
    keys: Sequence[str]
    #: None: the properties say nothing that brokers look at.
    properties: Properties | None = None
    #: Blind copies' keys among them.
    headers: Table | None = None
    not_before_ms: int = 0
    not_after_ms: int = 0

    def routed(self, event: Published) -> RoutedMessage:
        """Return what exchanges may look at."""
        found = self.properties
        if found is None:
            said = None if self.raw == NO_PROPERTIES else _Unread(self.raw)
            return RoutedMessage(key=event.routing_key, properties=said, body=event.body)
        return RoutedMessage(
            key=event.routing_key,
            headers=self.headers,
            properties={name: getattr(found, name) for name in Properties.__struct_fields__},
            body=event.body,
        )

    def message(self, event: Published) -> NewMessage:
        """Return the message as its queues are to keep it."""
        (message,) = self.messages(event.exchange, (event.body,))
        return message

    def messages(self, exchange: str, bodies: Sequence[bytes]) -> list[NewMessage]:
        """Return messages that say the same of themselves, as their queues are to keep them."""
        headers = ((STORED_AMQP, write_stored(exchange, self.keys[0], self.raw)),)
        if self.properties is None:
            return [NewMessage(body, None, headers) for body in bodies]
        # A queue takes a higher priority for its highest.
        priority = min(self.properties.priority or 0, PRIORITIES_MAX - 1)
        return [
            NewMessage(
                body,
                None,
                headers,
                priority=priority,
                not_before_ms=self.not_before_ms,
                not_after_ms=self.not_after_ms,
            )
            for body in bodies
        ]


def is_plain(properties: bytes) -> bool:
    """Tell whether properties say nothing that brokers look at."""
    (flags,) = U16.unpack_from(properties, 0)
    return not flags & _LOOKED_AT


def read_outgoing(event: Published, user: str, now_ms: int) -> Outgoing:
    """Return what a publish says.

    Raises:
        AmqpError: a property is not what it has to be.
    """
    if is_plain(event.properties):
        return Outgoing(event.properties, (event.routing_key,))
    properties = read_properties(event.properties)
    if properties.user_id is not None and properties.user_id != user:
        raise _failed(
            f"user_id property set to '{properties.user_id}' but authenticated user was '{user}'"
        )
    raw, headers = event.properties, properties.headers or {}
    keys = (event.routing_key, *_keys(headers, CARBON_COPY), *_keys(headers, BLIND_COPY))
    if len(keys) > KEYS_MAX:
        raise _failed(f"a message has at most {KEYS_MAX} routing keys, and this has {len(keys)}")
    if BLIND_COPY in headers:
        shown = {name: value for name, value in headers.items() if name != BLIND_COPY}
        properties = _with_headers(properties, shown)
        raw = write_properties(properties)
    ttl_ms = _expiration(properties.expiration)
    delay_ms = _delay(headers.get(DELAY))
    if delay_ms and ttl_ms == 0:
        # Its life may not end in the moment in which it can be had.
        ttl_ms = 1
    return Outgoing(
        raw,
        keys,
        properties,
        headers,
        not_before_ms=now_ms + delay_ms if delay_ms else 0,
        not_after_ms=now_ms + delay_ms + ttl_ms if ttl_ms is not None else 0,
    )


def _with_headers(properties: Properties, headers: Table) -> Properties:
    values = {name: getattr(properties, name) for name in Properties.__struct_fields__}
    values["headers"] = headers
    return Properties(**values)


def _keys(headers: Table, name: str) -> Sequence[str]:
    value = headers.get(name, ())
    if isinstance(value, list | tuple) and all(isinstance(each, str) for each in value):
        return [each for each in value if isinstance(each, str)]
    raise _failed(f"the header {name} has to be an array of texts")


def _expiration(text: str | None) -> int | None:
    if text is None:
        return None
    if not (
        text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= EXPIRATION_MS_MAX
    ):
        raise _failed(f"invalid expiration '{text}': milliseconds from 0 to {EXPIRATION_MS_MAX}")
    return int(text)


def _delay(value: object) -> int:
    """Return how long a message waits; who says less than nothing does not want it to."""
    if value is None or isinstance(value, bool) or not isinstance(value, int):
        return 0
    if value > DELAY_MS_MAX:
        raise _failed(f"{DELAY} is at most {DELAY_MS_MAX} ms, not {value}")
    return max(0, value)


def _failed(what: str) -> AmqpError:
    kind = BasicPublish
    return AmqpError(ReplyCode.PRECONDITION_FAILED, what, kind.class_id, kind.method_id)
