"""Consumers that are pushed to a subject: who is subscribed there has them.

Theory of operation. A broker whose clients are subscribed to the subject of such a consumer takes
messages from its queue and sends them there, as long as they are subscribed. Where clients of
several brokers are, each takes some; a group's members share them. Several consumers may have one
subject: whoever is subscribed has them all. So it is nobody's task in particular, and goes on
wherever a client comes back to. What was sent and not acknowledged comes again by the queue's
locks.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.nats.jetstream.configs import NS_PER_MS
from kafkaesque.gateway.nats.jetstream.consumers import Consumer
from kafkaesque.gateway.nats.jetstream.delivering import Delivering
from kafkaesque.gateway.nats.jetstream.office import Office
from kafkaesque.gateway.nats.jetstream.sinks import PushSink
from kafkaesque.gateway.nats.jetstream.streams import Stream, key_of
from kafkaesque.model.errors import RequestRefused, UnknownQueue
from kafkaesque.model.ids import TopicId

TAKEN_MAX: Final = 256
TAKEN_BYTES_MAX: Final = 1024 * 1024
WAIT_MS: Final = 5_000
ANSWER_MS: Final = 5_000
AGAIN_MS: Final = 100
#: So often it is looked whether there are other consumers than before.
LOOK_MS: Final = 250


class Pusher:
    """One consumer's messages for the clients of one broker."""

    __slots__ = (
        "_again",
        "_consumer",
        "_delivering",
        "_is_over",
        "_is_taking",
        "_office",
        "_stream",
        "_waiting",
        "sink",
        "subject",
    )

    def __init__(
        self,
        office: Office,
        delivering: Delivering,
        stream: Stream,
        consumer: Consumer,
    ) -> None:
        config = consumer.config
        self.subject: Final = config.deliver_subject or ""
        self._office: Final = office
        self._delivering: Final = delivering
        self._stream: Final = stream
        self._consumer: Final = consumer
        self._waiting: list[q.QueueMessage] = []
        self._is_taking = False
        self._is_over = False
        self._again: Timer | None = None
        self.sink: Final = PushSink(
            clock=office.doors.clock,
            send=office.send,
            name=f"{stream.name}.{consumer.name}",
            subject=self.subject,
            has_flow_control=bool(config.flow_control),
            beat_ms=(config.idle_heartbeat or 0) // NS_PER_MS,
            is_wanted=lambda _: not self._is_over,
            go_on=self.go_on,
        )

    @property
    def consumer(self) -> Consumer:
        """Whose messages these are, as it is now."""
        return self._office.consumers.now(self._consumer)

    def go_on(self) -> None:
        """Send what can be sent."""
        if self._is_over:
            return
        if self._office.consumers.paused_ms(self._consumer):
            self._give_back()
            self._look_later()
            return
        while self._waiting and self.sink.target is not None:
            if not self._send(self._waiting[0]):
                break
            self._waiting.pop(0)
        if not self._waiting and not self._is_taking:
            self._take()
        elif self._waiting and self.sink.target is not None:
            self._look_later()

    def _look_later(self) -> None:
        if self._again is None:
            self._again = self._office.doors.clock.call_later(AGAIN_MS, self._on_again)

    def _on_again(self) -> None:
        self._again = None
        self.go_on()

    def _send(self, message: q.QueueMessage) -> bool:
        sink, delivering, consumer = self.sink, self._delivering, self.consumer
        sent = delivering.deliver(self._stream, consumer, message, self.subject)
        if sent:
            number = delivering.number_of(consumer)
            sink.on_sent(sent, number, message.offset + 1)
        return sent is not None

    def _take(self) -> None:
        self._is_taking = True
        request = q.TakeMessages(
            log_id=self._consumer.log_id,
            messages_max=TAKEN_MAX,
            bytes_max=TAKEN_BYTES_MAX,
            wait_ms=WAIT_MS,
        )
        self._office.ask(request, q.TakenMessages, self._on_taken, WAIT_MS + ANSWER_MS)

    def _on_taken(self, outcome: q.TakenMessages | RequestRefused) -> None:
        self._is_taking = False
        if isinstance(outcome, UnknownQueue):
            self.end()
        elif isinstance(outcome, RequestRefused):
            self._look_later()
        else:
            self._waiting += outcome.messages
            if self._is_over:
                self._give_back()
                return
            self._stream.log.catch_up(lambda _: self.go_on())

    def _give_back(self) -> None:
        if self._waiting:
            self._delivering.give_back(self._consumer, self._waiting)
            self._waiting = []

    def end(self) -> None:
        """Nobody is subscribed any more, or there is nothing to be sent ever."""
        if not self._is_over:
            self._is_over = True
            self.sink.end(409, "Consumer Deleted")
            self._give_back()


class Pushing:
    """See the module."""

    __slots__ = ("_delivering", "_look", "_office", "_pushers", "_subscribed", "_version")

    def __init__(self, office: Office, delivering: Delivering) -> None:
        self._office: Final = office
        self._delivering: Final = delivering
        #: How many clients of this broker are subscribed to a subject, by their groups.
        self._subscribed: Final[dict[str, Counter[str]]] = {}
        #: By the consumer's subject, which several may have, and by its queue's log.
        self._pushers: Final[dict[str, dict[TopicId, Pusher]]] = {}
        self._version = -1
        self._look: Timer | None = None

    def on_subscribed(self, subject: str, group: str) -> None:
        """A client of this broker has subscribed."""
        groups = self._subscribed.setdefault(subject, Counter())
        groups[group] += 1
        if groups[group] == 1:
            self._version = -1
        if self._look is None:
            self._on_look()

    def on_unsubscribed(self, subject: str, group: str) -> None:
        """A client of this broker has ended a subscription."""
        groups = self._subscribed.get(subject, Counter[str]())
        groups[group] -= 1
        if groups[group] > 0:
            return
        del groups[group]
        if not groups:
            self._subscribed.pop(subject, None)
        for pusher in list(self._pushers.get(subject, {}).values()):
            if not self._is_subscribed(pusher.consumer):
                self._end(pusher)

    def _end(self, pusher: Pusher) -> None:
        pushers = self._pushers[pusher.subject]
        del pushers[pusher.consumer.log_id]
        if not pushers:
            del self._pushers[pusher.subject]
        pusher.end()

    def _is_subscribed(self, consumer: Consumer) -> bool:
        """Tell whether a client of this broker is to have a consumer's messages."""
        groups = self._subscribed.get(consumer.config.deliver_subject or "", Counter[str]())
        wanted = consumer.config.deliver_group
        return wanted in groups if wanted else bool(groups)

    def is_bound(self, consumer: Consumer) -> bool:
        """Tell whether somebody of this broker is subscribed to a consumer's subject."""
        subject = consumer.config.deliver_subject or ""
        return consumer.log_id in self._pushers.get(subject, {})

    def on_flow(self, subject: str) -> None:
        """A client has read what it was sent before."""
        for pusher in self._all():
            pusher.sink.on_flow(subject)

    def _all(self) -> list[Pusher]:
        return [each for pushers in self._pushers.values() for each in pushers.values()]

    def _on_look(self) -> None:
        """Begin what clients are subscribed to, and end what is no consumer any more."""
        self._look = None
        if not self._subscribed:
            return
        state = self._office.doors.cluster.state
        if state.version != self._version:
            self._version = state.version
            self._find()
        self._look = self._office.doors.clock.call_later(LOOK_MS, self._on_look)

    def look_now(self) -> None:
        """A consumer was made: whoever is subscribed does not wait for it."""
        if self._subscribed:
            self._find()

    def _find(self) -> None:
        wanted = {
            (consumer.config.deliver_subject or "", consumer.log_id): consumer
            for consumer in self._office.consumers.all()
            if consumer.config.deliver_subject and self._is_subscribed(consumer)
        }
        for pusher in self._all():
            if (pusher.subject, pusher.consumer.log_id) not in wanted:
                self._end(pusher)
        for (subject, log_id), consumer in wanted.items():
            stream = self._office.streams.look(consumer.stream)
            is_there = log_id in self._pushers.get(subject, {})
            if not is_there and stream is not None and key_of(subject) is not None:
                made = Pusher(self._office, self._delivering, stream, consumer)
                self._pushers.setdefault(subject, {})[log_id] = made
                made.go_on()
