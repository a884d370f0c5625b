"""One client: its log-in, what it publishes and subscribes to, and how it ends.

Theory of operation. Bytes become events (`protocols/nats`), which are carried out in order and at
once, apart from three that wait: CONNECT for the password's check, PING for subscriptions to be
confirmed, and what JetStream is asked. Nothing is read while too much of that waits. A client that
does not read what it is sent is cut off when more than `PENDING_BYTES_MAX` wait for it: others that
get the same messages do not wait for it.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from itertools import islice
from typing import Final

from kafkaesque.broker.doors.live import LiveMessage, Receiver, Subscription
from kafkaesque.broker.listeners import NATS as NATS_PROTOCOL
from kafkaesque.broker.metadata.client_quotas import CONSUMER_BYTE_RATE, PRODUCER_BYTE_RATE
from kafkaesque.chassis.client_facts import ClientFacts, SubscribedName
from kafkaesque.chassis.deliveries import DeliveringConnection
from kafkaesque.chassis.link import Shared
from kafkaesque.chassis.logins import LOGIN_MS_MAX
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.nats.authorization import (
    may_have,
    may_publish,
    may_share,
    may_subscribe,
)
from kafkaesque.gateway.nats.desk import PAYLOAD_BYTES_MAX, Desk
from kafkaesque.gateway.nats.jetstream.subjects import JETSTREAM_PREFIX
from kafkaesque.gateway.nats.messages import read_published, subject_of
from kafkaesque.gateway.nats.opening import log_in
from kafkaesque.gateway.nats.runs import Run
from kafkaesque.gateway.nats.subscriptions import (
    SUBSCRIPTIONS_MAX,
    OwnSubscription,
    Subscriptions,
)
from kafkaesque.model.errors import OverBound
from kafkaesque.protocols.nats.connection import Connection as Codec
from kafkaesque.protocols.nats.connection import ConnectionState, Limits
from kafkaesque.protocols.nats.errors import ErrorText, NatsError, permissions_violation
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
from kafkaesque.protocols.nats.writing import (
    OK,
    PING,
    PONG,
    MessageVariant,
    write_error,
    write_info,
)
from kafkaesque.routing.errors import BadName
from kafkaesque.routing.names import NATS

#: What waits for a client beside what the kernel has taken; with more it is cut off.
PENDING_BYTES_MAX: Final = 8 * 1024 * 1024
#: PINGs that wait for subscriptions to be confirmed; with more nothing is read.
PONGS_DUE_MAX: Final = 64
#: Random bytes that a client signs.
NONCE_BYTES: Final = 16
#: So often it is looked whether what waits to be given out on this broker is less by now.
BUSY_MS: Final = 5
_LIMITS: Final = Limits(payload_bytes_max=PAYLOAD_BYTES_MAX, connect_ms_max=LOGIN_MS_MAX)


class NatsConnection(DeliveringConnection, Receiver):
    """See the module."""

    __slots__ = (
        "_codec",
        "_desk",
        "_is_over",
        "_is_receiving",
        "_nonce",
        "_origin",
        "_subscriptions",
        "_timer",
    )

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(shared, desk.outbox)
        self._desk: Final = desk
        self._codec: Final = Codec(shared.clock.now_ms(), _LIMITS, needs_login=self.needs_login)
        self._origin: Final = desk.doors.live.new_origin(NATS_PROTOCOL)
        self._subscriptions: Final = Subscriptions(
            desk.doors.live, desk.jetstream.pushing, self, lambda: self.write(PONG)
        )
        self._timer: Timer | None = None
        self._is_over = False
        self._is_receiving = False
        #: What it may sign to show who it is; only where clients log in.
        self._nonce = ""
        if self.is_guarded:
            drawn = desk.doors.dice.unique_bytes(NONCE_BYTES)
            self._nonce = base64.urlsafe_b64encode(drawn).decode()

    @property
    def options(self) -> object:
        """What the client has said of itself."""
        return self._codec.options

    # -- from the network

    def on_opened(self) -> None:
        """See `ClientConnection`; the broker speaks first."""
        self._say_info()
        self._set_timer()

    def _say_info(self) -> None:
        info = self._desk.info(
            self.listener,
            client_id=self.number,
            host=self.peer_host,
            is_encrypted=self.is_encrypted,
            needs_login=self.needs_login,
            nonce=self._nonce,
        )
        self.write(write_info(info))

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        # An HTTP request ends a connection by its first line: none is a command.
        if self._is_over or self.exceeds_login(len(data)):
            return
        self.note_activity()
        self._receive(data)

    def _receive(self, data: bytearray | memoryview | bytes = b"") -> None:
        if self._is_receiving:
            # The loop below looks again.
            return
        self._is_receiving = True
        try:
            events = self._codec.receive(data, self.shared.clock.now_ms())
            while events and not self._is_over:
                self._take_all(events)
                if not self._codec.kept_bytes:
                    break
                events = self._codec.receive(b"", self.shared.clock.now_ms())
        finally:
            self._is_receiving = False
        if self._desk.doors.live.is_busy:
            self._wait_for_others()
        self.maybe_pause()

    def _wait_for_others(self) -> None:
        """Read on when what was published is on its way to those who want it."""
        self.hold()
        self.shared.clock.call_later(BUSY_MS, self._look_again)

    def _look_again(self) -> None:
        if self.connection is None or self._is_over:
            return
        if self._desk.doors.live.is_busy:
            self._wait_for_others()
        else:
            self.release()

    def _take_all(self, events: Sequence[Event]) -> None:
        run = Run(self._desk, self._origin, self.rights)
        for event in events:
            # Who is told of each message is told before it is given to anybody.
            if isinstance(event, Published) and not self._codec.is_verbose and run.add(event):
                if not run.is_full:
                    continue
                self._publish_run(run)
            else:
                self._publish_run(run)
                self._take(event)
            if self._is_over:
                return
        self._publish_run(run)

    def _publish_run(self, run: Run) -> None:
        if run.count:
            self.shared.meter.requests += run.count
            self.charge(PRODUCER_BYTE_RATE, run.payload_bytes)
            run.publish()

    def _take(self, event: Event) -> None:
        if self._is_over:
            return
        self.shared.meter.requests += 1
        match event:
            case Published():
                self._publish(event)
            case Subscribed():
                self._subscribe(event)
            case Unsubscribed():
                self._subscriptions.limit(event.sid, event.messages_max)
                self._say_ok()
            case PingReceived():
                self._subscriptions.on_ping()
            case CommandRefused():
                self.write(write_error(event.text.value))
            case Connected():
                self.client_id = event.options.name or ""
                log_in(self, self, event.options, self._nonce)
            case ConnectionFailed():
                self.fail(event.error)
            case _:
                pass

    # -- the log-in

    def let_client_in(self) -> None:
        """Go on behind a CONNECT whose client may stay."""
        if self._is_over or self._codec.state is not ConnectionState.CONNECTS:
            return
        self._codec.accept()
        self._say_ok()
        self._set_timer()
        self._receive()

    # -- commands

    def _publish(self, event: Published) -> None:
        self.charge(PRODUCER_BYTE_RATE, len(event.headers) + len(event.payload))
        # Nobody who waits for it is held up by a delivery.
        self._say_ok()
        is_request = event.subject.startswith(JETSTREAM_PREFIX)
        if not is_request and not may_publish(self.rights, event.subject):
            self.write(write_error(permissions_violation("Publish", event.subject)))
            return
        if is_request and event.reply and not may_publish(self.rights, event.reply):
            # The answer may have what the client has put into a stream.
            self.write(write_error(permissions_violation("Publish", event.reply)))
            return
        is_wanted = self._hand_on(event, is_request=is_request)
        if not is_wanted and event.reply and self._codec.options.no_responders:
            self._say_no_responders(event)

    def _hand_on(self, event: Published, *, is_request: bool) -> bool:
        """Give a message to whoever wants it; say whether there may be anybody."""
        doors = self._desk.doors
        jetstream, live = self._desk.jetstream, doors.live
        if is_request and jetstream.take(self, event.subject, event.reply, event.payload):
            return True
        try:
            key = NATS.key_of(event.subject)
        except BadName:
            return False
        stream = None if is_request else jetstream.stream_of(key)
        if stream is not None:
            jetstream.store(stream, event.subject, event.reply, event.headers, event.payload)
            if not live.wants(key) and not doors.exchanges.has_names_bound:
                return True
        message = read_published(key, event.reply, event.headers, event.payload, self._origin)
        if stream is None:
            return live.publish(message)
        live.publish(message, stored_in=stream.name)
        return True

    def _say_no_responders(self, event: Published) -> None:
        """Tell the requester itself; nobody has published it, so it does not count for UNSUB."""
        if self.connection is None:
            return
        try:
            own = self._subscriptions.taker_of(event.reply)
        except BadName:
            return
        if own is not None:
            variant = MessageVariant(event.reply, "", no_responders(event.subject), b"")
            self.write(variant.write(own.sid))

    def _subscribe(self, event: Subscribed) -> None:
        may = may_share if event.queue else may_subscribe
        if not may(self.rights, event.subject):
            self._say_forbidden(event.subject, event.queue)
            return
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            what = f"it has more than {SUBSCRIPTIONS_MAX} subscriptions"
            self.fail(NatsError(ErrorText.MAXIMUM_SUBSCRIPTIONS, what))
            return
        try:
            self._subscriptions.add(event.subject, event.queue, event.sid)
        except BadName:
            self.write(write_error(ErrorText.INVALID_SUBJECT.value))
            return
        except OverBound as error:
            self.fail(NatsError(ErrorText.MAXIMUM_SUBSCRIPTIONS, str(error)))
            return
        self._say_ok()

    def _say_forbidden(self, subject: str, group: str) -> None:
        self.write(write_error(permissions_violation("Subscription", subject, group)))

    # -- deliveries

    def on_message(self, message: LiveMessage, subscriptions: Sequence[Subscription]) -> None:
        """See `Receiver`."""
        connection = self.connection
        if connection is None or self._is_over:
            return
        options = self._codec.options
        if not options.echo and message.origin == self._origin:
            return
        is_allowed = self.rights is None or may_have(self.rights, subject_of(message.key))
        variant, sent = self._desk.variants.of(message), 0
        payload_bytes = variant.payload_bytes
        for each in subscriptions:
            own = self._subscriptions.of(each)
            if own is None:
                continue
            if not (is_allowed or own.is_inbox):
                self._withhold(own)
                continue
            own.delivered += 1
            if own.messages_max and own.has_all:
                self._subscriptions.remove(own.name)
            if self.waiting_to_leave() + payload_bytes > PENDING_BYTES_MAX:
                self._cut_off()
                return
            self.deliver((variant.write if options.headers else variant.write_bare)(own.sid))
            sent += 1
        self.charge(CONSUMER_BYTE_RATE, payload_bytes * sent)

    @property
    def takes_runs(self) -> bool:
        """See `Receiver`."""
        return self.rights is None and bool(self._codec.options.echo)

    def on_run(
        self, messages: Sequence[LiveMessage], subscriptions: Sequence[Subscription]
    ) -> None:
        """See `Receiver`; all is written at once where nothing has to be asked for each message."""
        connection = self.connection
        if connection is None or self._is_over:
            return
        own = self._subscriptions.of(subscriptions[0]) if len(subscriptions) == 1 else None
        if own is None or own.messages_max or not self.takes_runs:
            super().on_run(messages, subscriptions)
            return
        run = self._desk.variants.of_run(messages)
        if self.waiting_to_leave() + run.payload_bytes > PENDING_BYTES_MAX:
            # Some may have room.
            super().on_run(messages, subscriptions)
            return
        own.delivered += len(messages)
        self.deliver(run.write(own.sid, with_headers=bool(self._codec.options.headers)))
        self.charge(CONSUMER_BYTE_RATE, run.payload_bytes)

    def _withhold(self, own: OwnSubscription) -> None:
        """A message must not come: a member of a group leaves it, so that others get the next."""
        if own.group:
            self._subscriptions.remove(own.name)
            self._say_forbidden(own.subject, own.group)

    def _cut_off(self) -> None:
        """It does not read what it is sent."""
        self._is_over = True
        self.refuse(f"{ErrorText.SLOW_CONSUMER.value}: {PENDING_BYTES_MAX} bytes wait for it")

    # -- sending

    def _say_ok(self) -> None:
        if self._codec.is_verbose:
            self.write(OK)

    # -- waiting

    def is_full(self) -> bool:
        """See `ClientConnection`."""
        return self._subscriptions.pongs_due >= PONGS_DUE_MAX

    def has_room(self) -> bool:
        """See `ClientConnection`."""
        return self._subscriptions.pongs_due <= PONGS_DUE_MAX // 2

    def go_on(self) -> None:
        """See `ClientConnection`."""
        if self._is_paused:
            # It could not be heard.
            self._codec.excuse(self.shared.clock.now_ms())
        self.maybe_resume()

    # -- time

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = self._codec.deadline_ms
        if deadline_ms is not None and self.connection is not None:
            clock = self.shared.clock
            self._timer = clock.call_later(max(deadline_ms - clock.now_ms(), 0), self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now_ms = self.shared.clock.now_ms()
        if self._is_paused:
            self._codec.excuse(now_ms)
        for event in self._codec.tick(now_ms):
            match event:
                case PingDue():
                    self.write(PING)
                case ConnectionFailed():
                    self.fail(event.error)
                case _:
                    pass
        self._set_timer()

    # -- ending

    def fail(self, error: NatsError) -> None:
        """Tell the client its mistake, if there is anything to be told, and hang up."""
        if self._is_over or self.connection is None:
            return
        self._is_over = True
        self.write(self._codec.fail(error))
        self.leave()
        self.close()

    def refuse_log_in(self, what: str) -> None:
        """Tell a client that it may not come in, and hang up."""
        self.fail(NatsError(ErrorText.AUTHORIZATION_VIOLATION, what))

    def leave(self) -> None:
        """See `ClientConnection`; a client that can is told to go elsewhere."""
        if self._desk.is_leaving and not self._is_over:
            self._say_info()
        super().leave()

    def describe(self, subscriptions_max: int) -> ClientFacts:
        """See `ClientConnection`."""
        named = tuple(
            SubscribedName(each.subject, group=each.group)
            for each in islice(self._subscriptions, subscriptions_max)
        )
        return ClientFacts(len(self._subscriptions), named)

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        self._is_over = True
        self._subscriptions.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
