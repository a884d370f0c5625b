"""One client: its handshake, its channels, and how it ends.

Theory of operation. Bytes become events (`protocols/amqp`); those of a channel wait in the
channel, which carries them out in order. One that takes long holds its own channel only. Nothing is
read while too much waits in all channels together, or while the broker takes no records: clients
that can be told hear of that (`connection.blocked`). When the connection ends, each channel gives
back what it holds; what was published before goes on to its queues.
"""

from __future__ import annotations

from itertools import islice
from typing import Final

from kafkaesque.chassis.channel_facts import ConnectionFacts
from kafkaesque.chassis.link import Shared
from kafkaesque.gateway.amqp.channel import Channel
from kafkaesque.gateway.amqp.opening import HANDSHAKE_MS_MAX, Opening
from kafkaesque.gateway.amqp.ports import AmqpLink
from kafkaesque.gateway.queueing.desk import Desk
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.events import (
    Acknowledged,
    AcknowledgedRun,
    ChannelFailed,
    ConnectionFailed,
    Event,
    HeaderAccepted,
    HeaderRefused,
    HeartbeatReceived,
    MethodReceived,
    Published,
    PublishedRun,
)
from kafkaesque.protocols.amqp.frames import HEARTBEAT_FRAME
from kafkaesque.protocols.amqp.methods import Method
from kafkaesque.protocols.amqp.states import ConnectionState

#: After an error the client has so long to answer the close.
CLOSE_MS_MAX: Final = 5_000
#: Silence of so many heartbeats ends a connection.
HEARTBEATS_MISSED: Final = 2


class AmqpConnection(AmqpLink):
    """See the module."""

    __slots__ = ("_channels", "_opening")

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(desk, shared)
        self._channels: Final[dict[int, Channel]] = {}
        self._opening: Final = Opening(self)

    # -- from the network

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self.is_over or self.exceeds_login(len(data)):
            return
        self.note_activity()
        self.receive(data)

    def receive(self, data: bytearray | memoryview | bytes = b"") -> None:
        """Take what has come, and what has waited until it was our turn."""
        if self.is_receiving:
            # What is sent on the way lets the codec go on: the loop below looks again.
            return
        self.is_receiving = True
        try:
            events = self.codec.receive_runs(data)
            while events and not self.is_over:
                for event in events:
                    self._take(event)
                events = self.codec.receive_runs(b"")
        finally:
            self.is_receiving = False
        for channel in list(self._channels.values()):
            channel.flush()
        self.maybe_block()
        self.maybe_pause()

    def _take(self, event: Event) -> None:
        match event:
            case Published() | Acknowledged() | ChannelFailed():
                self.shared.meter.requests += 1
                channel = self._channels.get(event.channel)
                if channel is not None:
                    channel.push(event)
            case PublishedRun():
                self.shared.meter.requests += len(event.bodies)
                channel = self._channels.get(event.channel)
                if channel is not None:
                    channel.push_run(event)
            case AcknowledgedRun():
                self.shared.meter.requests += event.last - event.first + 1
                channel = self._channels.get(event.channel)
                if channel is not None:
                    channel.push(event)
            case MethodReceived():
                self.shared.meter.requests += 1
                self._take_method(event)
            case HeaderAccepted():
                self._opening.start()
            case HeaderRefused():
                self.write(event.answer)
                self._hang_up()
            case ConnectionFailed():
                self.fail(event.error)
            case HeartbeatReceived():
                pass

    def _take_method(self, event: MethodReceived) -> None:
        method = event.method
        if event.channel == 0:
            self._take_control(method)
        elif isinstance(method, m.ChannelOpen):
            self._channels[event.channel] = Channel(self, event.channel)
            self.send(event.channel, m.ChannelOpenOk())
        else:
            self._take_of_channel(event)

    def _take_of_channel(self, event: MethodReceived) -> None:
        channel = self._channels.get(event.channel)
        if isinstance(event.method, m.ChannelCloseOk):
            self._channels.pop(event.channel, None)
        elif channel is None or channel.is_ended:
            if isinstance(event.method, m.ChannelClose):
                # Both have closed it at once.
                self.write(self.codec.send(event.channel, m.ChannelCloseOk()))
        else:
            channel.push(event)

    def _take_control(self, method: Method) -> None:
        match method:
            case m.ConnectionClose():
                self._close_when_done()
            case m.ConnectionCloseOk():
                self._hang_up()
            case _:
                self._opening.take(method)

    def forget_channel(self, number: int) -> None:
        """See `AmqpLink`."""
        self._channels.pop(number, None)

    # -- waiting

    def go_on(self) -> None:
        """See `ClientConnection`."""
        self.maybe_resume()
        for channel in list(self._channels.values()):
            channel.go_on()

    def on_blocked(self) -> None:
        """See `QueueingLink`."""
        if self.knows_blocked and self.codec.state is ConnectionState.OPEN:
            self.send(0, m.ConnectionBlocked(reason="low on disk"))

    def on_unblocked(self) -> None:
        """See `QueueingLink`."""
        if self.knows_blocked and self.codec.state is ConnectionState.OPEN:
            self.send(0, m.ConnectionUnblocked())

    # -- heartbeats

    def on_opened(self) -> None:
        """See `ClientConnection`."""
        if not self.needs_login:
            self.expect(HANDSHAKE_MS_MAX)

    def begin_heartbeats(self) -> None:
        """Send them, and expect them, if the client wants any."""
        if self.codec.heartbeat_s:
            self._beat()

    def _beat(self) -> None:
        connection = self.connection
        if connection is None:
            return
        now_ms, period_ms = self.shared.clock.now_ms(), 1000 * self.codec.heartbeat_s
        if self._is_paused:
            # Nothing can come while nothing is read.
            self.note_activity()
        if now_ms - self.active_ms > HEARTBEATS_MISSED * period_ms:
            self.refuse(f"it has sent nothing for {HEARTBEATS_MISSED} heartbeats")
            return
        if not self.has_written and not self.is_over:
            self.write(HEARTBEAT_FRAME)
        self.has_written = False
        self.shared.clock.call_later(period_ms // 2, self._beat)

    # -- ending

    def fail(self, error: AmqpError) -> None:
        """Tell the client its mistake, and end the connection when it has answered."""
        if self.is_over or self.connection is None or self.is_closing:
            return
        is_leaving = self.codec.state is ConnectionState.CLOSES
        self.write(self.codec.close(error))
        self.end_channels(is_failed=True)
        if is_leaving:
            # It has said farewell behind its mistake, and is answered when its turn comes.
            self.expect(CLOSE_MS_MAX)
        elif self.codec.is_paused:
            # Its answer could not be understood.
            self._hang_up()
        else:
            self.expect(CLOSE_MS_MAX)

    def _close_when_done(self) -> None:
        """The client takes its leave: answer when all that it has asked for is done."""
        left = len(self._channels) + 1

        def on_one() -> None:
            nonlocal left
            left -= 1
            if left == 0 and self.connection is not None:
                self.write(self.codec.send(0, m.ConnectionCloseOk()))
                self.end_channels(is_failed=False)
                self._hang_up()

        self.expect(CLOSE_MS_MAX)
        for channel in list(self._channels.values()):
            channel.finish(on_one)
        on_one()

    def end_channels(self, *, is_failed: bool) -> None:
        """Give back what they hold."""
        channels = list(self._channels.values())
        self._channels.clear()
        for channel in channels:
            channel.end(is_failed=is_failed)

    def _hang_up(self) -> None:
        self.is_over = True
        self.leave()
        self.close()

    def close(self) -> None:
        """Send what was written, then hang up; a client that knows of nothing is told why."""
        if self.codec.state is ConnectionState.OPEN and self.connection is not None:
            stops = AmqpError(ReplyCode.CONNECTION_FORCED, "broker forced connection closure")
            self.write(self.codec.close(stops))
            # A client that does not read would keep its messages until it is hung up on.
            self.end_channels(is_failed=True)
        super().close()

    def describe_channels(self, channels_max: int, consumers_max: int) -> ConnectionFacts:
        """See `ClientConnection`."""
        found = []
        for each in islice(self._channels.values(), channels_max):
            facts = each.describe(consumers_max)
            consumers_max -= len(facts.consumers)
            found.append(facts)
        count = len(self._channels)
        return ConnectionFacts(vhost=self.vhost, channel_count=count, channels=found)

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        self.is_over = True
        self.end_channels(is_failed=True)
        self.delete_own_queues()
