"""A client's side for tests: bytes that clients send, and a broker that answers as it has to."""

from __future__ import annotations

import struct

from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.connection import Connection
from kafkaesque.protocols.amqp.errors import AmqpError
from kafkaesque.protocols.amqp.events import (
    ChannelFailed,
    ConnectionFailed,
    Event,
    HeaderAccepted,
    MethodReceived,
)
from kafkaesque.protocols.amqp.frames import (
    BODY,
    HEADER,
    METHOD,
    PROTOCOL_HEADER,
    Frame,
    FrameReader,
    write_frame,
)
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.properties import NO_PROPERTIES


def method(channel: int, found: m.Method) -> bytes:
    return write_frame(METHOD, channel, write_method(found))


def header(channel: int, size: int, properties: bytes = NO_PROPERTIES, class_id: int = 60) -> bytes:
    head = struct.pack(">HHQ", class_id, 0, size)
    return write_frame(HEADER, channel, head + properties)


def publish(channel: int, body: bytes, key: str = "k", pieces: int = 1) -> bytes:
    size = -(-len(body) // pieces) or 1
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    frames = [write_frame(BODY, channel, part) for part in parts]
    start = method(channel, m.BasicPublish(exchange="e", routing_key=key))
    return b"".join((start, header(channel, len(body)), *frames))


HANDSHAKE = b"".join(
    (
        PROTOCOL_HEADER,
        method(0, m.ConnectionStartOk(response=b"\0guest\0guest")),
        method(0, m.ConnectionTuneOk(channel_max=100, frame_max=10_000, heartbeat_s=5)),
        method(0, m.ConnectionOpen(vhost="/")),
    )
)
OPENED = HANDSHAKE + method(1, m.ChannelOpen())

#: What a broker sends upon what comes.
ANSWERS: dict[type[m.Method], m.Method] = {
    m.ConnectionStartOk: m.ConnectionTune(channel_max=100, frame_max=10_000, heartbeat_s=60),
    m.ConnectionOpen: m.ConnectionOpenOk(),
    m.ConnectionClose: m.ConnectionCloseOk(),
    m.ChannelOpen: m.ChannelOpenOk(),
    m.ChannelClose: m.ChannelCloseOk(),
}


class Broker:
    """A connection that is answered at once; `sent` are the frames that it has sent."""

    def __init__(self, body_bytes_max: int = 50_000) -> None:
        self.connection = Connection(body_bytes_max)
        self.events: list[Event] = []
        self._reader = FrameReader()
        self._reader.frame_bytes_max = 2**31
        self.sent: list[Frame] = []

    def receive(self, data: bytes) -> list[Event]:
        """Returns all events that come of these bytes."""
        found: list[Event] = []
        while True:
            events = self.connection.receive(data)
            data = b""
            found += events
            for event in events:
                self._answer(event)
            if not events:
                self.events += found
                return found

    def _answer(self, event: Event) -> None:
        connection = self.connection
        match event:
            case HeaderAccepted():
                self.note(connection.send(0, m.ConnectionStart()))
            case ConnectionFailed(error=error):
                self.note(connection.close(error))
            case ChannelFailed(channel=channel, error=error):
                # The peer may have closed it in the same bytes, as the gateway knows.
                if connection.can_be_failed(channel):
                    self.note(connection.close_channel(channel, error))
            case MethodReceived(channel=channel, method=found):
                answer = ANSWERS.get(type(found))
                is_of_use = not isinstance(found, m.ChannelOpen) or connection.can_deliver(channel)
                if answer is not None and is_of_use:
                    self.note(connection.send(channel, answer))

    def note(self, data: bytes) -> None:
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            self.sent.append(frame)

    def sent_methods(self) -> list[m.Method]:
        return [read_method(each.payload) for each in self.sent if each.kind == METHOD]


def opened(body_bytes_max: int = 50_000) -> Broker:
    """Returns a broker with channel 1 open."""
    broker = Broker(body_bytes_max)
    broker.receive(OPENED)
    broker.events.clear()
    return broker


def failure(events: list[Event]) -> AmqpError:
    """Returns the error in the last event."""
    last = events[-1]
    assert isinstance(last, ConnectionFailed | ChannelFailed)
    return last.error


def shown(events: list[Event]) -> list[str]:
    """Events as texts: errors are compared by what they say."""
    return [
        f"{type(each).__name__} {each.error!r} {each.error.class_id}.{each.error.method_id}"
        if isinstance(each, ConnectionFailed | ChannelFailed)
        else repr(each)
        for each in events
    ]
