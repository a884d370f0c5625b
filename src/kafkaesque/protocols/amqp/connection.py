"""One connection at the broker's side: bytes to events, and what is sent to bytes.

Theory of operation. `receive` takes bytes as they come and returns events; how they were cut does
not matter. `send` turns a method into bytes, and both follow the tables in `states.py`. The peer's
mistakes are events: after `ChannelFailed` the channel takes nothing more until the caller has sent
channel.close, and after `ConnectionFailed` so does the connection. What the caller does wrong
raises `InvariantBroken`.

Where it is the broker's turn (to send start, tune, close-ok, or close) reading pauses: the caller
answers, and then calls `receive(b"")` for what has come in the meantime. As long as `is_paused` it
should not read from the socket, so that what waits has a bound.

Content is put together here: a `Published` is a whole message. A body is refused by the size that
its header says, before any of it has been kept.
"""

from __future__ import annotations

from kafkaesque.model import kernel
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.amqp.content_path import (
    ACK,
    PUBLISH,
    DeliverWriter,
    read_ack,
    read_content_head,
    read_publish,
    write_content,
)
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
from kafkaesque.protocols.amqp.frames import (
    BODY,
    FRAME_BYTES_AGREED_MIN,
    FRAME_BYTES_MIN,
    HEADER,
    HEARTBEAT,
    METHOD,
    OVERHEAD_BYTES,
    PROTOCOL_HEADER,
    Frame,
    FrameReader,
    write_frame,
)
from kafkaesque.protocols.amqp.method_codec import method_kind, read_method, write_method
from kafkaesque.protocols.amqp.methods import (
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from kafkaesque.protocols.amqp.properties import PropertiesChecker
from kafkaesque.protocols.amqp.refusals import not_implemented, refusal
from kafkaesque.protocols.amqp.states import (
    BROKER_METHODS,
    CLIENT_METHODS,
    PAUSED,
    RECEIVED,
    SENT,
    ChannelState,
    ConnectionState,
)

#: RabbitMQ's default for the largest message.
BODY_BYTES_MAX = 16 * 1024 * 1024
#: As many as a channel's number can tell, where both sides have no bound.
CHANNEL_MAX = 65_535
FRAME_BYTES_MAX = 2**31 - 1

#: Pairs of exchange and key whose publishes are not read again.
NAMES_MAX = 64

_MANDATORY, _IMMEDIATE = 1, 2
#: The channel that the connection itself has.
_CONTROL = 0
#: One side has closed the channel, and the other one has not answered.
_CLOSING = (ChannelState.CLOSES, ChannelState.AWAITS_CLOSE_OK)


class _Channel:
    """A channel, and the message that it receives at the moment."""

    __slots__ = ("awaited", "body", "flags", "names", "properties", "state")

    def __init__(self) -> None:
        self.state = ChannelState.OPEN
        self.names = ("", "")
        self.flags = 0
        self.properties = b""
        self.body: list[bytes] = []
        #: Bytes of the body that are still to come.
        self.awaited = 0


class Connection:
    """The broker's side of one connection."""

    __slots__ = (
        "_body_bytes_max",
        "_channels",
        "_checker",
        "_frames",
        "_has_failed",
        "_is_unreadable",
        "_names",
        "_proposed",
        "channel_max",
        "frame_bytes_max",
        "heartbeat_s",
        "state",
    )

    def __init__(self, body_bytes_max: int = BODY_BYTES_MAX) -> None:
        self._body_bytes_max = body_bytes_max
        self._channels: dict[int, _Channel] = {}
        self._checker = PropertiesChecker()
        self._frames = FrameReader()
        self._has_failed = False
        self._is_unreadable = False
        #: Payloads of publishes, and what they say.
        self._names: dict[bytes, tuple[str, str, int]] = {}
        self._proposed = ConnectionTune()
        self.state = ConnectionState.AWAITS_HEADER
        # What was agreed upon; before that, what holds anyway.
        self.channel_max = CHANNEL_MAX
        self.frame_bytes_max = FRAME_BYTES_MIN
        self.heartbeat_s = 0

    @property
    def channels(self) -> tuple[int, ...]:
        """The channels that are not closed."""
        return tuple(self._channels)

    # -- receiving

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Return what has come with these bytes and those before, in its order."""
        events: list[Event] = []
        for event in self.receive_runs(data):
            if isinstance(event, PublishedRun | AcknowledgedRun):
                events += event.singles()
            else:
                events.append(event)
        return events

    def receive_runs(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Return the same; what comes together, and says the same, is one event."""
        events: list[Event] = []
        if self._is_unreadable:
            return events
        self._frames.feed(data)
        if self.state is ConnectionState.AWAITS_HEADER:
            self._receive_header(events)
        try:
            while not self.is_paused:
                self._take_messages(events)
                self._take_acks(events)
                frame = self._next_frame()
                if frame is None:
                    break
                self._receive_frame(frame, events)
        except AmqpError as error:
            if self.state is ConnectionState.AWAITS_CLOSE_OK:
                # It has been told of its first mistake, and only its answer mattered.
                self._is_unreadable = True
            else:
                self._has_failed = True
                events.append(ConnectionFailed(error=error))
        return events

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read until the caller has sent something, or ever again."""
        if self._is_unreadable or self.state in PAUSED:
            return True
        return self._has_failed and self.state is not ConnectionState.AWAITS_CLOSE_OK

    def _next_frame(self) -> Frame | None:
        try:
            return self._frames.next_frame()
        except AmqpError:
            # Where the next one begins is not known any longer.
            self._is_unreadable = True
            raise

    def _take_messages(self, events: list[Event]) -> None:
        """Take in messages that have come as a whole, and need no second look."""
        frames, checker = self._frames, self._checker
        while self._is_next_open():
            found = kernel.active.cut_publishes(
                frames.data, frames.at, self.frame_bytes_max, self._body_bytes_max
            )
            if found is None:
                return
            end, number, method, properties, bodies = found
            names = self._names.get(method)
            if names is None:
                names = self._read_names(method)
            exchange, key, flags = names
            if flags & _IMMEDIATE or checker.check(properties):
                return
            frames.at = end
            run = PublishedRun(
                channel=number,
                exchange=exchange,
                routing_key=key,
                mandatory=flags & _MANDATORY != 0,
                properties=properties,
                bodies=bodies,
            )
            events += run.singles() if len(bodies) == 1 else (run,)

    def _take_acks(self, events: list[Event]) -> None:
        """Take in acknowledgements that have come as a whole."""
        frames = self._frames
        while self._is_next_open():
            found = kernel.active.cut_acks(frames.data, frames.at)
            if found is None:
                return
            frames.at, number, first, last, multiple = found
            if first == last:
                event = Acknowledged(channel=number, delivery_tag=first, multiple=multiple)
                events.append(event)
            else:
                events.append(AcknowledgedRun(channel=number, first=first, last=last))

    def _is_next_open(self) -> bool:
        """Whether the next frame is of an open channel; otherwise nothing is cut in vain."""
        data, at = self._frames.data, self._frames.at
        if len(data) - at < OVERHEAD_BYTES:
            return False
        channel = self._channels.get(data[at + 1] << 8 | data[at + 2])
        return channel is not None and channel.state is ChannelState.OPEN

    def _read_names(self, method: bytes) -> tuple[str, str, int]:
        """Return what a publish says, and remember it: the next ones often say the same."""
        names = read_publish(method)
        if len(self._names) == NAMES_MAX:
            self._names.clear()
        self._names[method] = names
        return names

    def _receive_header(self, events: list[Event]) -> None:
        is_ours = self._frames.take_header()
        if is_ours:
            self.state = ConnectionState.STARTS
            events.append(HeaderAccepted())
        elif is_ours is False:
            self.state = ConnectionState.CLOSED
            events.append(HeaderRefused(answer=PROTOCOL_HEADER))

    def _receive_frame(self, frame: Frame, events: list[Event]) -> None:
        kind, number, payload = frame
        if kind == HEARTBEAT:
            if number != _CONTROL:
                raise AmqpError(ReplyCode.UNEXPECTED_FRAME, "a heartbeat belongs to channel 0")
            events.append(HeartbeatReceived())
            return
        if number == _CONTROL:
            self._receive_control(kind, payload, events)
            return
        channel = self._channels.get(number)
        if channel is None:
            self._receive_unopened(kind, number, payload, events)
            return
        match channel.state:
            case ChannelState.OPEN:
                self._receive_on_channel(kind, number, channel, payload, events)
            case ChannelState.AWAITS_HEADER:
                self._receive_content_header(kind, number, channel, payload, events)
            case ChannelState.AWAITS_BODY:
                self._receive_body(kind, number, channel, payload, events)
            case _:
                self._receive_on_closing(kind, number, channel, payload, events)

    # -- the connection

    def _receive_control(self, kind: int, payload: bytes, events: list[Event]) -> None:
        if self.state is ConnectionState.AWAITS_CLOSE_OK:
            # Whatever was under way before the peer knew.
            if kind != METHOD or method_kind(payload) not in (ConnectionClose, ConnectionCloseOk):
                return
        if kind != METHOD:
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, "channel 0 has no content")
        method = read_method(payload)
        following = RECEIVED.get((self.state, type(method)))
        if following is None and self.state is ConnectionState.OPEN:
            what = "unexpected method in connection state running"
            raise _failed(ReplyCode.CHANNEL_ERROR, what, type(method))
        if following is None:
            raise _invalid(type(method), f"the connection {self.state.value}")
        if isinstance(method, ConnectionTuneOk):
            self._tune(method)
        self.state = following
        if following is ConnectionState.CLOSES:
            self._channels.clear()
        events.append(MethodReceived(channel=_CONTROL, method=method))

    def _tune(self, agreed: ConnectionTuneOk) -> None:
        """Take over the limits that the client has chosen below ours; 0 stands for no limit.

        Raises:
            AmqpError: they are above ours, or too low to work with.
        """
        proposed = self._proposed
        for name, mine, its in (
            ("frame_max", proposed.frame_max, agreed.frame_max),
            ("channel_max", proposed.channel_max, agreed.channel_max),
        ):
            if mine and (its == 0 or its > mine):
                shown = its or "no limit"
                what = (
                    f"negotiated {name} = {shown} is higher than the maximum allowed value ({mine})"
                )
                raise _not_allowed(what, agreed)
        if agreed.frame_max and agreed.frame_max < FRAME_BYTES_AGREED_MIN:
            what = (
                f"negotiated frame_max = {agreed.frame_max} is lower than the minimum allowed "
                f"value ({FRAME_BYTES_AGREED_MIN})"
            )
            raise _not_allowed(what, agreed)
        self.frame_bytes_max = agreed.frame_max or FRAME_BYTES_MAX
        self._frames.frame_bytes_max = self.frame_bytes_max
        self.channel_max = agreed.channel_max or CHANNEL_MAX
        self.heartbeat_s = agreed.heartbeat_s

    # -- channels

    def _receive_unopened(
        self, kind: int, number: int, payload: bytes, events: list[Event]
    ) -> None:
        """Receive what comes for a channel that is not open: open, and nothing else."""
        if self.state is not ConnectionState.OPEN:
            if self.state in (ConnectionState.AWAITS_CLOSE_OK, ConnectionState.CLOSES):
                return
            what = f"the connection {self.state.value}, and channel {number} cannot be used yet"
            raise AmqpError(ReplyCode.COMMAND_INVALID, what)
        if kind != METHOD:
            raise AmqpError(ReplyCode.CHANNEL_ERROR, "expected 'channel.open'")
        method = read_method(payload)
        if isinstance(method, ChannelCloseOk):
            # Of a channel that both sides have closed at once.
            return
        if not isinstance(method, ChannelOpen):
            what = "expected 'channel.open'"
            raise _failed(ReplyCode.CHANNEL_ERROR, what, type(method))
        if number > self.channel_max:
            what = f"number of channels opened ({number}) is above channel_max ({self.channel_max})"
            raise _failed(ReplyCode.NOT_ALLOWED, what, ChannelOpen)
        self._channels[number] = _Channel()
        events.append(MethodReceived(channel=number, method=method))

    def _receive_on_channel(
        self, kind: int, number: int, channel: _Channel, payload: bytes, events: list[Event]
    ) -> None:
        if kind != METHOD:
            what = "expected method frame, got non method frame instead"
            raise AmqpError(ReplyCode.UNEXPECTED_FRAME, what)
        head = payload[:4]
        if head == PUBLISH:
            exchange, key, flags = read_publish(payload)
            if flags & _IMMEDIATE:
                raise not_implemented(BasicPublish, "immediate=true")
            channel.names = (exchange, key)
            channel.flags = flags
            channel.state = ChannelState.AWAITS_HEADER
            return
        if head == ACK:
            tag, multiple = read_ack(payload)
            events.append(Acknowledged(channel=number, delivery_tag=tag, multiple=multiple))
            return
        sent = method_kind(payload)
        if sent is not ChannelOpen and sent not in CLIENT_METHODS:
            # Whatever it says.
            raise _invalid(sent, "only a broker sends this here")
        method = read_method(payload)
        if isinstance(method, ChannelOpen):
            raise _failed(ReplyCode.CHANNEL_ERROR, "second 'channel.open' seen", ChannelOpen)
        error = refusal(method)
        if error is not None:
            raise error
        if isinstance(method, ChannelClose):
            channel.state = ChannelState.CLOSES
        events.append(MethodReceived(channel=number, method=method))

    def _receive_content_header(
        self, kind: int, number: int, channel: _Channel, payload: bytes, events: list[Event]
    ) -> None:
        if kind != HEADER:
            what = "expected content header for class 60, got non content header frame instead"
            raise _failed(ReplyCode.UNEXPECTED_FRAME, what, BasicPublish)
        class_id, size, properties = read_content_head(payload)
        if class_id != BasicPublish.class_id:
            what = f"expected content header for class 60, got one for class {class_id} instead"
            raise _failed(ReplyCode.UNEXPECTED_FRAME, what, BasicPublish)
        error = self._checker.check(properties)
        if error is not None:
            raise error
        if size > self._body_bytes_max:
            what = f"message size {size} is larger than configured max size {self._body_bytes_max}"
            failed = _failed(ReplyCode.PRECONDITION_FAILED, what, BasicPublish)
            channel.state = ChannelState.FAILED
            events.append(ChannelFailed(channel=number, error=failed))
            return
        channel.properties = properties
        channel.awaited = size
        if size:
            channel.state = ChannelState.AWAITS_BODY
        else:
            self._publish(number, channel, b"", events)

    def _receive_body(
        self, kind: int, number: int, channel: _Channel, payload: bytes, events: list[Event]
    ) -> None:
        left = channel.awaited - len(payload)
        if kind != BODY or left < 0:
            # A frame beyond the size that the header says is none of the body, as RabbitMQ sees it.
            what = "expected content body, got non content body frame instead"
            raise _failed(ReplyCode.UNEXPECTED_FRAME, what, BasicPublish)
        channel.awaited = left
        if left:
            # An empty piece would cost more than it brings.
            if payload:
                channel.body.append(payload)
        elif channel.body:
            channel.body.append(payload)
            body = b"".join(channel.body)
            channel.body = []
            self._publish(number, channel, body, events)
        else:
            self._publish(number, channel, payload, events)

    def _publish(self, number: int, channel: _Channel, body: bytes, events: list[Event]) -> None:
        channel.state = ChannelState.OPEN
        exchange, key = channel.names
        events.append(
            Published(
                channel=number,
                exchange=exchange,
                routing_key=key,
                mandatory=bool(channel.flags & _MANDATORY),
                properties=channel.properties,
                body=body,
            )
        )

    def _receive_on_closing(
        self, kind: int, number: int, channel: _Channel, payload: bytes, events: list[Event]
    ) -> None:
        """Drop what comes, but for close and its answer."""
        if kind != METHOD:
            return
        found = method_kind(payload)
        if found is ChannelCloseOk and channel.state is ChannelState.AWAITS_CLOSE_OK:
            del self._channels[number]
        elif found is not ChannelClose or channel.state is ChannelState.CLOSES:
            return
        elif channel.state is ChannelState.FAILED:
            channel.state = ChannelState.CLOSES
        events.append(MethodReceived(channel=number, method=read_method(payload)))

    # -- sending

    def send(self, channel: int, method: Method) -> bytes:
        """Return the bytes of a method without content.

        They are none where the peer has closed the connection: it drops all but the answer to that,
        and may have said so in the same bytes as what is answered here. Where both have closed it,
        and the peer has answered, there is nothing left to say. So it is with a channel, which may
        be open again.

        Raises:
            InvariantBroken: it must not be sent now.
            ValueError: a value does not fit into its field.
        """
        kind = type(method)
        if self.state is ConnectionState.CLOSED or (
            self.state is ConnectionState.CLOSES and kind is not ConnectionCloseOk
        ):
            return b""
        raw = write_frame(METHOD, channel, write_method(method))
        if channel == _CONTROL:
            self._send_control(method)
            return raw
        found = self._channels.get(channel)
        if kind is ChannelCloseOk and (found is None or found.state not in _CLOSING):
            return b""
        if found is None or kind.has_content or kind not in BROKER_METHODS | {ChannelCloseOk}:
            raise InvariantBroken(f"{kind.__name__} cannot be sent on channel {channel}")
        if kind is ChannelCloseOk:
            if found.state is ChannelState.CLOSES:
                del self._channels[channel]
        elif found.state in _CLOSING:
            raise InvariantBroken(f"{kind.__name__} on channel {channel}, which is closing")
        elif kind is ChannelClose:
            found.state = ChannelState.AWAITS_CLOSE_OK
            found.body = []
        return raw

    def _send_control(self, method: Method) -> None:
        following = SENT.get((self.state, type(method)))
        if following is None:
            raise InvariantBroken(
                f"{type(method).__name__} cannot be sent: the connection {self.state.value}"
            )
        if isinstance(method, ConnectionTune):
            self._proposed = method
        if following is ConnectionState.AWAITS_CLOSE_OK:
            # The peer's answer is to be read, unless its frames cannot be told any longer.
            self._channels.clear()
        self.state = following

    def close(self, error: AmqpError) -> bytes:
        """Return the connection.close that tells the peer its mistake."""
        return self.send(
            _CONTROL,
            ConnectionClose(
                reply_code=error.code,
                reply_text=error.reply_text,
                failed_class_id=error.class_id,
                failed_method_id=error.method_id,
            ),
        )

    def close_channel(self, channel: int, error: AmqpError) -> bytes:
        """Return the channel.close that tells the peer its mistake."""
        return self.send(
            channel,
            ChannelClose(
                reply_code=error.code,
                reply_text=error.reply_text,
                failed_class_id=error.class_id,
                failed_method_id=error.method_id,
            ),
        )

    def send_content(self, channel: int, method: Method, properties: bytes, body: bytes) -> bytes:
        """Return the bytes of a basic.return or basic.get-ok with its message.

        Raises:
            InvariantBroken: it must not be sent now.
        """
        if not self.can_deliver(channel) or not type(method).has_content:
            raise InvariantBroken(f"{type(method).__name__} cannot be sent on channel {channel}")
        raw = write_method(method)
        return write_content(channel, raw, properties, body, self.frame_bytes_max)

    def can_deliver(self, channel: int) -> bool:
        """Tell whether messages may be sent on a channel."""
        found = self._channels.get(channel)
        closing = (ChannelState.FAILED, ChannelState.CLOSES, ChannelState.AWAITS_CLOSE_OK)
        return found is not None and found.state not in closing

    def can_be_failed(self, channel: int) -> bool:
        """Tell whether a channel may be closed for a mistake."""
        found = self._channels.get(channel)
        return found is not None and found.state not in (
            ChannelState.CLOSES,
            ChannelState.AWAITS_CLOSE_OK,
        )

    def deliver_writer(self, channel: int, consumer_tag: str) -> DeliverWriter:
        """Return what writes deliveries to a consumer, as long as `can_deliver` is true."""
        return DeliverWriter(channel, consumer_tag, self.frame_bytes_max)


def _failed(code: ReplyCode, what: str, kind: type[Method]) -> AmqpError:
    return AmqpError(code, what, kind.class_id, kind.method_id)


def _invalid(kind: type[Method], why: str) -> AmqpError:
    return _failed(ReplyCode.COMMAND_INVALID, f"{kind.__name__}: {why}", kind)


def _not_allowed(what: str, method: Method) -> AmqpError:
    return _failed(ReplyCode.NOT_ALLOWED, what, type(method))
