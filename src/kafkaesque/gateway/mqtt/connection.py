"""One client: its CONNECT, what it sends, what it is sent, and how it ends.

Theory of operation. Bytes become packets (`protocols/mqtt`), which are carried out in their order.
SUBSCRIBE and UNSUBSCRIBE wait for the cluster, and what comes behind them waits, too; messages that
are published do not wait for one another, only their answers do. Acknowledgements and PINGREQ are
taken at once. Nothing is read while too much waits, or while the broker takes no records.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.client_facts import ClientFacts, SubscribedName
from kafkaesque.chassis.link import Shared
from kafkaesque.env.clock import Timer
from kafkaesque.gateway.mqtt.delivering import Delivering
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.gateway.mqtt.feed import Feed, Taken
from kafkaesque.gateway.mqtt.journal import Journal, Owed
from kafkaesque.gateway.mqtt.opening import Opening
from kafkaesque.gateway.mqtt.ports import MqttLink
from kafkaesque.gateway.mqtt.publishing import Publishing
from kafkaesque.gateway.mqtt.retained_keeping import RetainedKeeping
from kafkaesque.gateway.mqtt.shares import Shares
from kafkaesque.gateway.mqtt.subscribing import Subscribing
from kafkaesque.gateway.mqtt.wills import Testament
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.mqtt.connection import ConnectionFailed, Event
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.packets import (
    Auth,
    Connect,
    Disconnect,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Subscribe,
    Unsubscribe,
)
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.protocols.mqtt.states import ConnectionState

#: Packets, and bytes of messages, of one connection that wait: with more nothing is read.
WAITING_MAX: Final = 2_000
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
#: So often it is looked whether a broker that takes no records does again.
UNBLOCK_MS: Final = 200
_R: Final = ReasonCode


class MqttConnection(MqttLink):
    """See the module."""

    __slots__ = (
        "_busy",
        "_delivering",
        "_events",
        "_has_acked",
        "_has_let_go",
        "_is_blocked",
        "_is_receiving",
        "_journal",
        "_keeping",
        "_opening",
        "_publishing",
        "_shares",
        "_subscribing",
        "_testament",
        "_tick_ms",
        "_ticker",
    )

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(desk, shared)
        self._shares: Final = Shares(desk, self)
        self._journal: Final = Journal(self, self._on_recovered, self._on_released, self._on_owed)
        self._keeping: Final = RetainedKeeping(self, self._journal)
        self._delivering: Final = Delivering(self, self._shares, self._journal)
        self._publishing: Final = Publishing(self, self._journal)
        self._subscribing: Final = Subscribing(self, self._delivering, self._shares, self._keeping)
        self._testament: Final = Testament(self)
        self._opening: Final = Opening(self, self)
        #: What has come and waits for what came before. A list, as what else waits for a client:
        #: an empty deque takes 600 bytes, and most clients are silent.
        self._events: Final[list[Event]] = []
        #: How much the next event waits for.
        self._busy = 0
        self._is_receiving = False
        self._is_blocked = False
        #: Whether acknowledgements were taken that make room for more.
        self._has_acked = False
        self._has_let_go = False
        #: Asks the codec, and when.
        self._ticker: Timer | None = None
        self._tick_ms = 0

    # -- from the network

    def on_opened(self) -> None:
        """See `ClientConnection`."""
        self._tick()

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self.is_over or self.exceeds_login(len(data)):
            return
        self.note_activity()
        self._receive(data)

    def _receive(self, data: bytearray | memoryview | bytes = b"") -> None:
        """Take what has come, and what has waited until it was our turn."""
        if self._is_receiving:
            # What is sent on the way lets the codec go on: the loop below looks again.
            return
        self._is_receiving = True
        now_ms = self.shared.clock.now_ms()
        try:
            acknowledged = self.codec.receive_pubacks(data, now_ms)
            if acknowledged:
                self.shared.meter.requests += len(acknowledged)
                self._delivering.acknowledge(acknowledged)
                self._delivering.go_on()
                data = b""
            events = self.codec.receive(data, now_ms)
            while events and not self.is_over:
                for event in events:
                    self._take(event)
                self._publishing.flush()
                if self._has_acked:
                    self._has_acked = False
                    self._delivering.go_on()
                events = self.codec.receive(b"", now_ms)
        finally:
            self._is_receiving = False
        if self.waiting_bytes and self.desk.doors.condition.space.reason is not None:
            self._block()
        self._tick()
        self.maybe_pause()

    def _take(self, event: Event) -> None:
        self.shared.meter.requests += 1
        match event:
            case Puback() | Pubrec() | Pubcomp():
                self._delivering.take(event)
                self._has_acked = True
            case Pingreq():
                self.send(Pingresp())
            case _ if self._busy or self._events:
                self._events.append(event)
                self.waiting += 1
            case _:
                self._carry_out(event)

    def _carry_out(self, event: Event) -> None:
        match event:
            case Publish():
                self._publishing.take(event)
                return
        # What was published before comes first.
        self._publishing.flush()
        match event:
            case Pubrel():
                self._publishing.release(event)
            case Subscribe():
                self._subscribing.subscribe(event)
            case Unsubscribe():
                self._subscribing.unsubscribe(event)
            case Connect():
                self._opening.start(event)
            case Disconnect():
                self._on_disconnect(event)
            case Auth():
                self._opening.take_auth(event)
            case ConnectionFailed():
                self.fail(event.error)
            case _:
                raise InvariantBroken(f"{type(event).__name__} came from a client")

    # -- who waits for what

    def begin(self) -> None:
        """See `MqttLink`."""
        self._busy += 1

    def done(self, then: Callable[[], None] = lambda: None) -> None:
        """See `MqttLink`."""
        self._busy -= 1
        if not self.is_over and self.connection is not None:
            then()
        while self._events and not self._busy and not self.is_over:
            self.waiting -= 1
            self._carry_out(self._events.pop(0))
        self._publishing.flush()
        if not self._is_receiving and self.connection is not None and not self.is_over:
            self._receive()
            self.maybe_resume()

    def add_waiting(self, count: int, size: int) -> None:
        """See `MqttLink`."""
        self.waiting += count
        self.waiting_bytes += size
        if count < 0 and not self._is_receiving and self.connection is not None:
            # An answer lets the codec go on.
            self.shared.clock.call_soon(self._go_on_reading)

    def _go_on_reading(self) -> None:
        if self.connection is not None and not self.is_over:
            self._receive()
            self.maybe_resume()

    def is_full(self) -> bool:
        """See `ClientConnection`."""
        is_full = self.waiting >= WAITING_MAX or self.waiting_bytes >= WAITING_BYTES_MAX
        return is_full or self.desk.doors.live.is_busy

    def has_room(self) -> bool:
        """See `ClientConnection`."""
        return self.waiting <= WAITING_MAX // 2 and self.waiting_bytes <= WAITING_BYTES_MAX // 2

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return self.waiting > 0

    def go_on(self) -> None:
        """See `ClientConnection`."""
        self.maybe_resume()
        if self.codec.state is ConnectionState.OPEN:
            self._delivering.go_on()

    def _block(self) -> None:
        """Read no more until this broker takes records again."""
        if self._is_blocked or self.is_over:
            return
        self._is_blocked = True
        self.hold()
        self.shared.clock.call_later(UNBLOCK_MS, self._maybe_unblock)

    def _maybe_unblock(self) -> None:
        if self.connection is None:
            return
        if self.desk.doors.condition.space.reason is not None:
            self.shared.clock.call_later(UNBLOCK_MS, self._maybe_unblock)
            return
        self._is_blocked = False
        self.release()

    # -- keep-alive

    def _tick(self) -> None:
        """See to it that the codec is asked when a client has been silent for too long."""
        deadline_ms = self.codec.deadline_ms
        if deadline_ms is None or self.is_over or self.connection is None:
            return
        if self._ticker is not None:
            # It is looked too early rather than each time that something comes.
            if self._tick_ms <= deadline_ms:
                return
            self._ticker.cancel()
        clock = self.shared.clock
        self._tick_ms = deadline_ms
        self._ticker = clock.call_later(max(1, deadline_ms - clock.now_ms()), self._on_tick)

    def _on_tick(self) -> None:
        self._ticker = None
        if self.is_over or self.connection is None:
            return
        now_ms = self.shared.clock.now_ms()
        if self._is_paused:
            # Nothing can come while nothing is read.
            self.codec.excuse(now_ms)
        for event in self.codec.tick(now_ms):
            self._take(event)
        self._tick()

    # -- the session

    def opened(self, connect: Connect) -> None:
        """See `MqttLink`."""
        self._delivering.begin()
        self._testament.keep(connect.will)
        session = self.session
        if session is not None:
            self._journal.begin(session)
            self._subscribing.resume(session)

    def begun(self) -> None:
        """See `MqttLink`."""
        if not self._journal.is_recovered:
            self.begin()
        if self.session is not None:
            self.session.feed.go_on()
        self._go_on_reading()

    def _on_recovered(self, staged: list[int]) -> None:
        """The notes of the session are read: what the client sends can be understood."""
        self._publishing.resume(staged)
        self._keeping.resume()
        self.done()

    def _on_released(self, packet_id: int) -> None:
        self._delivering.resume_release(packet_id)

    def _on_owed(self, taken: Taken, owed: Owed) -> None:
        self._keeping.take_note(taken, owed)

    def credit(self, feed: Feed) -> int:
        """See `FeedOwner`."""
        return self._delivering.credit(feed)

    def on_taken(self, feed: Feed, messages: list[q.QueueMessage]) -> None:
        """See `FeedOwner`."""
        self._delivering.on_taken(feed, messages)

    def on_lost(self, feed: Feed, *, is_taken_over: bool) -> None:
        """See `FeedOwner`."""
        if self._shares.lose(feed):
            return
        if is_taken_over:
            self.take_over()
        else:
            self.fail(MqttError(_R.ADMINISTRATIVE_ACTION, "the session was deleted"))

    def take_over(self) -> None:
        """See `MqttLink`."""
        what = "another connection has the client id now"
        self.fail(MqttError(_R.SESSION_TAKEN_OVER, what))

    # -- ending

    def _on_disconnect(self, packet: Disconnect) -> None:
        """The client takes its leave."""
        if packet.reason is not _R.DISCONNECT_WITH_WILL:
            self._testament.cancel()
        expiry_s = packet.properties.session_expiry_interval_s
        if expiry_s is not None and self.session is not None:
            self._opening.change_expiry(self.session, expiry_s)
        self._hang_up()

    def fail(self, error: MqttError) -> None:
        """See `MqttLink`."""
        if self.is_over or self.connection is None:
            return
        self.write(self.codec.fail(error))
        self._hang_up()
        if error.reason is _R.KEEP_ALIVE_TIMEOUT and not self._busy:
            # It may never take what it was just sent, and its will does not wait for that.
            self._let_go()

    def _hang_up(self) -> None:
        self.is_over = True
        self.leave()
        super().close()

    def close(self) -> None:
        """Send what was written, then hang up; a client that knows of nothing is told why."""
        if self.connection is not None and not self.is_over:
            self.write(self.codec.close(_R.SERVER_SHUTTING_DOWN, "the broker stops"))
            self.is_over = True
        super().close()

    def dismiss(self, reason: str) -> None:
        """See `ClientConnection`; the client is told that it was no mistake of its own."""
        if self.connection is not None and not self.is_over:
            self.write(self.codec.close(_R.ADMINISTRATIVE_ACTION, reason))
            self.is_over = True
        super().dismiss(reason)

    def describe(self, subscriptions_max: int) -> ClientFacts:
        """See `ClientConnection`."""
        queue = "" if self.session is None else self.session.queue.queue.name
        named = tuple(
            # What is shared comes from a queue of its own.
            SubscribedName(
                each.options.topic_filter, each.options.qos, each.group, "" if each.group else queue
            )
            for each in islice(self.subscriptions, subscriptions_max)
        )
        return ClientFacts(
            len(self.subscriptions),
            named,
            self._testament.describe(),
            DEFAULT_VHOST,
            (queue,) if queue else (),
        )

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        self.is_over = True
        if self._ticker is not None:
            self._ticker.cancel()
        self._events.clear()
        self._let_go()

    def _let_go(self) -> None:
        """Give back what the client has, and execute its will; once."""
        if self._has_let_go:
            return
        self._has_let_go = True
        clients = self.desk.clients
        if clients.get(self.client_id) is self:
            del clients[self.client_id]
        self._subscribing.end()
        self._delivering.end()
        self._shares.end()
        expiry_s = self._opening.expiry_s
        if self.session is not None:
            self.session.end(is_kept=expiry_s > 0)
        self._testament.execute(expiry_s)
