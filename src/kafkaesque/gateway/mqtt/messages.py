"""A message as clients of MQTT send and get it, and as everybody else does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests.queue_requests import QueueMessage
from kafkaesque.chassis.meanings import shown_headers, shown_key
from kafkaesque.gateway.mqtt.names import key_of_record, key_of_topic, routing_key_of, topic_of
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import NOT_AFTER, OF_GATEWAYS, PREFIX, STORED_MQTT
from kafkaesque.protocols.mqtt.filters import is_topic_name
from kafkaesque.protocols.mqtt.packets import Publish, Version, Will
from kafkaesque.protocols.mqtt.properties import NO_PROPERTIES, PROPERTIES_MAX, Properties
from kafkaesque.protocols.mqtt.publish_path import PublishVariant
from kafkaesque.protocols.mqtt.stored_message import StoredMessage, read_stored, write_stored
from kafkaesque.protocols.mqtt.wire import BYTES_MAX
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.live_message import LiveMessage, Origin, live_message, record_headers
from kafkaesque.routing.message import RoutedMessage

#: A longer life is none that ends.
_EXPIRY_S_MAX: Final = 2**32 - 1
#: Digits of a time; of more it is none.
_TIME_DIGITS_MAX: Final = 16
#: Messages that are not read or encoded again, their bytes together, and those of one.
REMEMBERED_MAX: Final = 256
REMEMBERED_BYTES_MAX: Final = 512 * 1024
REMEMBERED_ONE_BYTES_MAX: Final = 16 * 1024


#: What a message of a queue is made of.
_Record = tuple[bytes | None, bytes | None, Headers]


# -- from clients


def read_publish(packet: Publish | Will, origin: Origin, now_ms: int) -> LiveMessage:
    """Return a message that a client has sent, as everybody is given it.

    Raises:
        BadName: its topic, or the one for answers, has too many levels.
    """
    said = packet.properties
    if said is NO_PROPERTIES:
        return LiveMessage(
            key=key_of_topic(packet.topic),
            body=packet.payload,
            origin=origin,
            qos=packet.qos,
            is_retained=packet.retain,
        )
    expiry_s = said.message_expiry_interval_s
    return LiveMessage(
        key=key_of_topic(packet.topic),
        body=packet.payload,
        origin=origin,
        content_type=said.content_type,
        correlation=said.correlation_data,
        reply=None if said.response_topic is None else key_of_topic(said.response_topic),
        expires_ms=0 if expiry_s is None else now_ms + 1_000 * expiry_s,
        headers=tuple(
            (name, value.encode())
            for name, value in said.user_properties
            if name not in OF_GATEWAYS and not name.startswith(PREFIX)
        ),
        qos=packet.qos,
        is_retained=packet.retain,
        is_text=said.payload_format_indicator == 1,
    )


def publication_of(
    message: LiveMessage, topic: str, client_id: str, identity: bytes = b""
) -> Publication:
    """Return a client's message as exchanges and queues see it.

    `identity` is what queues know it by if it is published twice; empty: nothing.

    Raises:
        BadName: its topic has too many levels.
    """
    key = routing_key_of(topic)
    shown = record_headers(message)
    stored = StoredMessage(message.qos, message.is_retained, message.is_text, client_id)
    headers: Headers = (*shown, (STORED_MQTT, write_stored(stored)))
    texts: dict[str, object] = {}
    for name, value in shown:
        # Of several with one name the first counts.
        texts.setdefault(name, (value or b"").decode("utf-8", "surrogateescape"))
    kept = NewMessage(
        message.body, key.encode(), headers, not_after_ms=message.expires_ms, identity=identity
    )
    routed = RoutedMessage(key=key, headers=texts, body=message.body)
    return Publication(routed, kept, topic_headers=shown, live=message, show=shown_headers)


def run_of(packets: Sequence[Publish], topic: str, client_id: str) -> list[NewMessage]:
    """Return messages as `publication_of` does, which have one topic, QoS 1 and no properties.

    Raises:
        BadName: the topic has too many levels.
    """
    key = routing_key_of(topic).encode()
    stored = write_stored(StoredMessage(1, False, False, client_id))
    headers: Headers = ((STORED_MQTT, stored),)
    return [NewMessage(each.payload, key, headers) for each in packets]


# -- to clients


class Kept:
    """A message of a queue."""

    __slots__ = ("_now_s", "_variant", "_version", "client_id", "message")

    def __init__(self, message: LiveMessage, client_id: str | None) -> None:
        self.message: Final = message
        #: Who has published it; None: nobody by MQTT.
        self.client_id: Final = client_id
        #: As it was encoded last: clients mostly speak the same version.
        self._variant: PublishVariant | None = None
        self._version: Version | None = None
        self._now_s = 0

    def variant(self, encoded: Encoded, version: Version, now_ms: int) -> PublishVariant | None:
        """Return it in a version, as `Encoded` has it for messages of queues."""
        now_s = now_ms // 1_000
        if version is not self._version or now_s != self._now_s:
            self._version, self._now_s = version, now_s
            self._variant = encoded.variant(self.message, version, now_ms, is_of_queue=True)
        return self._variant


def read_kept(found: QueueMessage) -> Kept:
    """Return the message that a record of a queue is."""
    stored = _stored_of(found.headers)
    key = key_of_record(shown_key(found.headers, found.key))
    shown = [each for each in shown_headers(found.headers) if not each[0].startswith(PREFIX)]
    message = live_message(key, found.value or b"", tuple(shown), qos=1)
    expires_ms = _not_after(found.headers) or message.expires_ms
    if stored is None:
        return Kept(msgspec.structs.replace(message, expires_ms=expires_ms), None)
    message = msgspec.structs.replace(
        message,
        expires_ms=expires_ms,
        qos=stored.qos,
        is_retained=stored.is_retained,
        is_text=stored.is_text,
    )
    return Kept(message, stored.client_id)


def _stored_of(headers: Headers) -> StoredMessage | None:
    for name, value in headers:
        if name == STORED_MQTT and value is not None:
            return read_stored(value)
    return None


def _not_after(headers: Headers) -> int:
    for name, value in headers:
        if name == NOT_AFTER and value is not None:
            # A record of a topic can say anything.
            return int(value) if value.isdigit() and len(value) <= _TIME_DIGITS_MAX else 0
    return 0


class KeptMessages:
    """The last messages of queues that were read, for the sessions that have the same ones.

    What is published to many sessions stands in the queue of each.
    """

    __slots__ = ("_bytes", "_found")

    def __init__(self) -> None:
        self._found: dict[_Record, Kept] = {}
        self._bytes = 0

    @property
    def count(self) -> int:
        """How many are remembered."""
        return len(self._found)

    def read(self, found: QueueMessage) -> Kept:
        """See `read_kept`."""
        value = found.value
        if value is not None and len(value) > REMEMBERED_ONE_BYTES_MAX:
            return read_kept(found)
        record = (found.key, value, found.headers)
        kept = self._found.get(record)
        return self._read_new(record, found) if kept is None else kept

    def _read_new(self, record: _Record, found: QueueMessage) -> Kept:
        size = len(found.key or b"") + len(found.value or b"")
        for name, value in found.headers:
            size += len(name) + len(value or b"")
        if size > REMEMBERED_ONE_BYTES_MAX:
            return read_kept(found)
        if len(self._found) >= REMEMBERED_MAX or self._bytes + size > REMEMBERED_BYTES_MAX:
            self._found.clear()
            self._bytes = 0
        kept = self._found[record] = read_kept(found)
        self._bytes += size
        return kept


class Encoded:
    """The last message that was given out, encoded once for each version, and some of queues.

    Thousands may get the same live message, one after the other. Of queues one session gets some
    messages, and then the next one gets the same ones.
    """

    __slots__ = ("_bytes", "_message", "_now_s", "_of_queues", "_variants")

    def __init__(self) -> None:
        self._message: LiveMessage | None = None
        self._now_s = 0
        self._variants: dict[Version, PublishVariant | None] = {}
        #: By the messages' identity.
        self._of_queues: dict[LiveMessage, dict[Version, PublishVariant | None]] = {}
        self._bytes = 0

    @property
    def count(self) -> int:
        """How many of queues are remembered."""
        return len(self._of_queues)

    def variant(
        self,
        message: LiveMessage,
        version: Version,
        now_ms: int,
        *,
        is_of_queue: bool = False,
        is_begun: bool = False,
    ) -> PublishVariant | None:
        """Return a message in a version; None if it cannot be said in MQTT, or its life is over.

        `is_begun`: it was sent before, so that its life does not end any more (4.3.3-7).
        """
        if is_begun and 0 < message.expires_ms <= now_ms:
            # The least that can be said to be left; and nobody else is sent it so.
            return _variant_of(message, version, message.expires_ms - 1)
        now_s = now_ms // 1_000
        if message is not self._message or now_s != self._now_s:
            if now_s != self._now_s:
                self._forget()
            self._message, self._now_s = message, now_s
            self._variants = self._found_of(message) if is_of_queue else {}
        if version not in self._variants:
            self._variants[version] = _variant_of(message, version, now_ms)
        return self._variants[version]

    def _found_of(self, message: LiveMessage) -> dict[Version, PublishVariant | None]:
        found = self._of_queues.get(message)
        if found is None:
            size = message.size
            if size > REMEMBERED_ONE_BYTES_MAX:
                # It was read for one session alone.
                return {}
            if len(self._of_queues) >= REMEMBERED_MAX or self._bytes + size > REMEMBERED_BYTES_MAX:
                self._forget()
            found = self._of_queues[message] = {}
            self._bytes += size
        return found

    def _forget(self) -> None:
        self._of_queues.clear()
        self._bytes = 0


def _variant_of(message: LiveMessage, version: Version, now_ms: int) -> PublishVariant | None:
    topic = topic_of(message.key)
    if topic is None or len(topic.encode()) > BYTES_MAX:
        return None
    if message.expires_ms and message.expires_ms <= now_ms:
        return None
    if version is not Version.V5:
        return PublishVariant(version, topic, message.body)
    return PublishVariant(version, topic, message.body, properties_of(message, now_ms))


def properties_of(message: LiveMessage, now_ms: int) -> Properties:
    """Return what a message says in 5.0; what MQTT cannot say is left out."""
    left_s: int | None = None
    if message.expires_ms:
        left_s = min(-((now_ms - message.expires_ms) // 1_000), _EXPIRY_S_MAX)
    users = [
        (name, text)
        for name, value in message.headers[: PROPERTIES_MAX - 10]
        if name not in OF_GATEWAYS
        and not name.startswith(PREFIX)
        and (text := _text(value)) is not None
        and _text(name.encode("utf-8", "replace")) == name
    ]
    content_type = message.content_type
    if content_type is not None:
        content_type = _text(content_type.encode("utf-8", "surrogateescape"))
    reply = None if message.reply is None else topic_of(message.reply)
    if reply is not None and not is_topic_name(reply):
        reply = None
    correlation = message.correlation
    if correlation is not None and len(correlation) > BYTES_MAX:
        correlation = None
    found = Properties(
        payload_format_indicator=1 if message.is_text else None,
        message_expiry_interval_s=left_s,
        content_type=content_type,
        response_topic=reply,
        correlation_data=correlation,
        user_properties=tuple(users),
    )
    return NO_PROPERTIES if found == NO_PROPERTIES else found


def _text(value: bytes | None) -> str | None:
    """Return a value as a text of MQTT; None if it is none."""
    value = value or b""
    if 0 in value or len(value) > BYTES_MAX:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


__all__ = [
    "BadName",
    "Encoded",
    "Kept",
    "KeptMessages",
    "properties_of",
    "publication_of",
    "read_kept",
    "read_publish",
    "run_of",
]
