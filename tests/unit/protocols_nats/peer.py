"""A broker for tests, with one client: it delivers to it what it has published."""

from __future__ import annotations

from dataclasses import dataclass

from kafkaesque.protocols.nats.connection import Connection, Limits
from kafkaesque.protocols.nats.errors import NatsError
from kafkaesque.protocols.nats.events import (
    CommandRefused,
    Connected,
    ConnectionFailed,
    Event,
    PingDue,
    PingReceived,
    Published,
    Subscribed,
    Unsubscribed,
)
from kafkaesque.protocols.nats.headers import no_responders
from kafkaesque.protocols.nats.writing import OK, PING, PONG, MessageVariant, write_error


@dataclass
class Subscription:
    subject: str
    messages_max: int = 0
    delivered: int = 0

    def matches(self, subject: str) -> bool:
        """By the rules of nats-server, in the simplest way; a wildcard in a name is a letter.

        A name with an empty token reaches nobody.
        """
        wanted, tokens = self.subject.split("."), subject.split(".")
        if "" in tokens:
            return False
        if wanted[-1] == ">":
            wanted.pop()
            if len(tokens) <= len(wanted):
                return False
            tokens = tokens[: len(wanted)]
        return len(tokens) == len(wanted) and all(
            want in ("*", token) for want, token in zip(wanted, tokens, strict=True)
        )


class Broker:
    """Answers what has come at once, and keeps what it has seen."""

    def __init__(self, limits: Limits | None = None, *, needs_login: bool = False) -> None:
        self.connection = Connection(0, limits, needs_login=needs_login)
        self.subscriptions: dict[str, Subscription] = {}
        self.events: list[Event] = []
        self.sent: list[bytes] = []
        self.error: NatsError | None = None

    def receive(self, data: bytes, now_ms: int = 0) -> bytes:
        """Return what is answered to these bytes."""
        return self._answer_all(self.connection.receive(data, now_ms))

    def tick(self, now_ms: int) -> bytes:
        """Return what is said when so much time has passed."""
        return self._answer_all(self.connection.tick(now_ms))

    def _answer_all(self, events: list[Event]) -> bytes:
        before = len(self.sent)
        while events:
            self.events += events
            for event in events:
                self._answer(event)
            events = self.connection.receive(b"", 0)
        return b"".join(self.sent[before:])

    def _answer(self, event: Event) -> None:
        is_done = True
        match event:
            case ConnectionFailed():
                self.error = event.error
                self.sent.append(self.connection.fail(event.error))
                is_done = False
            case CommandRefused():
                self.sent.append(write_error(event.text.value))
                is_done = False
            case PingReceived():
                self.sent.append(PONG)
                is_done = False
            case PingDue():
                self.sent.append(PING)
                is_done = False
            case Connected():
                self.connection.accept()
            case Subscribed():
                self.subscriptions.setdefault(event.sid, Subscription(event.subject))
            case Unsubscribed():
                self._unsubscribe(event)
            case Published():
                # Its answer comes first: nobody who waits for it is held up by a delivery.
                self._say_ok()
                self._publish(event)
                return
            case _:
                is_done = False
        if is_done:
            self._say_ok()

    def _say_ok(self) -> None:
        if self.connection.is_verbose:
            self.sent.append(OK)

    def _unsubscribe(self, event: Unsubscribed) -> None:
        found = self.subscriptions.get(event.sid)
        if found is None:
            return
        found.messages_max = event.messages_max
        if found.delivered >= event.messages_max:
            del self.subscriptions[event.sid]

    def _publish(self, event: Published) -> None:
        count = 0
        if self.connection.options.echo:
            variant = MessageVariant(event.subject, event.reply, event.headers, event.payload)
            count = self._deliver(event.subject, variant)
        if not count and event.reply and self.connection.options.no_responders:
            variant = MessageVariant(event.reply, "", no_responders(event.subject), b"")
            # Nobody has published it: it does not count for UNSUB.
            self._deliver(event.reply, variant, counts=False)

    def _deliver(self, subject: str, variant: MessageVariant, *, counts: bool = True) -> int:
        count = 0
        for sid, found in list(self.subscriptions.items()):
            if not found.matches(subject):
                continue
            count += 1
            found.delivered += counts
            has_headers = self.connection.options.headers
            write = variant.write if has_headers else variant.write_bare
            self.sent.append(write(sid.encode("utf-8", "surrogateescape")))
            if found.messages_max and found.delivered == found.messages_max:
                del self.subscriptions[sid]
        return count
