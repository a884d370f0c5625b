"""Messages that came from one client in a row, and are published at once.

Most clients publish many messages before they wait for anything. What has to be asked for each
subject is asked once for those of one run; the receivers are called once for all of them.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.doors.live import LiveMessage, Origin
from kafkaesque.chassis.rights import Rights
from kafkaesque.gateway.nats.authorization import may_publish
from kafkaesque.gateway.nats.desk import Desk
from kafkaesque.gateway.nats.jetstream.subjects import JETSTREAM_PREFIX
from kafkaesque.gateway.nats.messages import read_published
from kafkaesque.protocols.nats.events import Published
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS, NameKey

#: A run ends with so many messages, or with the message that brings it to so many bytes.
RUN_MESSAGES_MAX: Final = 64
RUN_BYTES_MAX: Final = 64 * 1024


class Run:
    """See the module; of one connection, and of one call: it holds nothing between calls."""

    __slots__ = ("_desk", "_key", "_messages", "_origin", "_rights", "_subject", "payload_bytes")

    def __init__(self, desk: Desk, origin: Origin, rights: Rights | None) -> None:
        self._desk: Final = desk
        self._origin: Final = origin
        self._rights: Final = rights
        self._messages: list[LiveMessage] = []
        #: Headers and payloads of its messages.
        self.payload_bytes = 0
        #: The last subject, and its name if messages to it may be part of a run.
        self._subject = ""
        self._key: NameKey | None = None

    @property
    def count(self) -> int:
        """How many messages it has."""
        return len(self._messages)

    @property
    def is_full(self) -> bool:
        """Whether it has to be published before another message is added."""
        return len(self._messages) >= RUN_MESSAGES_MAX or self.payload_bytes >= RUN_BYTES_MAX

    def add(self, event: Published) -> bool:
        """Add a message; False: it is one that has to be published by itself."""
        if event.reply:
            return False
        if event.subject != self._subject:
            self._subject, self._key = event.subject, self._key_of(event.subject)
        if self._key is None:
            return False
        headers, payload = event.headers, event.payload
        self._messages.append(read_published(self._key, "", headers, payload, self._origin))
        self.payload_bytes += len(headers) + len(payload)
        return True

    def _key_of(self, subject: str) -> NameKey | None:
        """Return the name of a subject that live subscribers get and no stream."""
        if subject.startswith(JETSTREAM_PREFIX) or not may_publish(self._rights, subject):
            return None
        try:
            key = NATS.key_of(subject)
        except BadName:
            return None
        return key if self._desk.jetstream.stream_of(key) is None else None

    def publish(self) -> None:
        """Give all to whoever wants it, and begin anew; what was asked is asked again."""
        messages, self._messages = self._messages, []
        self.payload_bytes = 0
        self._subject, self._key = "", None
        if messages:
            self._desk.doors.live.publish_run(messages)
