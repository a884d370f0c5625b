"""One connection of a session: what is sent, and what comes back as lines that can be compared.

Tags of deliveries, numbers of confirms and names that a broker makes up are left out of the lines
or made alike: they may differ, and nothing else may.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from bench.rabbitmq.steps import CHANNELS
from bench.rabbitmq.wires import Peer
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.frames import (
    BODY,
    HEADER,
    HEARTBEAT,
    METHOD,
    PROTOCOL_HEADER,
    FrameReader,
    write_frame,
)
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.properties import Properties, read_properties, write_properties
from kafkaesque.protocols.amqp.wire import Table

#: The channel on which queues are looked at.
WATCH: Final = 9
CAPABILITIES: Final[Table] = {
    "consumer_cancel_notify": True,
    "authentication_failure_close": True,
    "publisher_confirms": True,
    "basic.nack": True,
}
#: How often a message was delivered: RabbitMQ's quorum queues say it, and its classic ones do not.
OURS: Final = frozenset({"x-delivery-count", "x-acquired-count"})
_GENERATED: Final = re.compile(r"amq\.(gen|ctag)-[\w-]+")
_TIME: Final = re.compile(r"Timestamp\(\d+\)")
#: Answers first, then what came unasked, by consumer; then returns and confirms.
_ANSWER, _DELIVERY, _RETURN, _CONFIRM = range(4)


class Silent(Exception):
    """A broker does not answer."""


class Line(NamedTuple):
    """Something that a broker has said; lines of one place in the order in which they came."""

    channel: int
    place: int
    of: str
    text: str


@dataclass(slots=True)
class _Channel:
    """What a client knows of a channel."""

    is_open: bool = True
    #: Delivery tag -> body and consumer.
    unsettled: dict[int, tuple[bytes, str]] = field(default_factory=dict)
    #: Consumer tag -> whether nothing is settled; and the same of consumers without a tag yet.
    consumers: dict[str, bool] = field(default_factory=dict)
    nameless: list[bool] = field(default_factory=list)
    is_confirming: bool = False
    #: Bodies of messages that are not confirmed, by number.
    unconfirmed: dict[int, bytes] = field(default_factory=dict)
    published: int = 0
    #: Whether nothing is settled of what is asked for by basic.get.
    gets: list[bool] = field(default_factory=list)
    #: Methods with content that have come in part: method, size, properties, body.
    partial: list[object] = field(default_factory=list)
    #: Barriers that have been answered.
    flows: int = 0
    answers: list[m.Method] = field(default_factory=list)


class Speaker:
    """One connection, again and again."""

    def __init__(self, peer: Peer, names: dict[str, str]) -> None:
        self._peer = peer
        #: Names that brokers have made up, and what stands for them.
        self._names = names
        self.lines: list[Line] = []
        self.channels: dict[int, _Channel] = {}
        self.is_over = False
        self.open()

    # -- the connection

    def open(self) -> None:
        """Connect, and open all channels."""
        self._wire = self._peer.connect()
        self._reader = FrameReader()
        self._reader.frame_bytes_max = 1 << 24
        self.channels = {0: _Channel()}
        self.is_over = False
        self._wire.write(PROTOCOL_HEADER)
        self._await(m.ConnectionStart)
        properties: Table = {"capabilities": dict(CAPABILITIES)}
        self.send(0, m.ConnectionStartOk(client_properties=properties, response=b"\0guest\0guest"))
        tune = self._await(m.ConnectionTune)
        assert isinstance(tune, m.ConnectionTune)
        self.send(0, m.ConnectionTuneOk(channel_max=tune.channel_max, frame_max=tune.frame_max))
        self.send(0, m.ConnectionOpen(vhost="/"))
        self._await(m.ConnectionOpenOk)
        for number in (*CHANNELS, WATCH):
            self.open_channel(number)

    def open_channel(self, number: int) -> None:
        """Open a channel that is closed."""
        self.channels[number] = _Channel()
        self.send(number, m.ChannelOpen())
        self._await(m.ChannelOpenOk, number)

    def _await(self, kind: type[m.Method], number: int = 0) -> m.Method:
        """Return the next answer of a kind; only for what cannot fail."""
        channel = self.channels[number]
        while True:
            for at, each in enumerate(channel.answers):
                if isinstance(each, kind):
                    return channel.answers.pop(at)
            if self.is_over or not channel.is_open:
                raise Silent(f"there is no {kind.__name__}: {self.lines[-3:]}")
            self._read()

    def leave(self, *, is_polite: bool) -> None:
        """End the connection and make another one."""
        if is_polite:
            self.send(0, m.ConnectionClose(reply_code=200, reply_text="bye"))
            self.drain()
        self._wire.close()
        self.is_over = True
        self._peer.forget()

    def drain(self) -> None:
        """Read until the broker says that it is over."""
        while not self.is_over:
            self._read()

    def repair(self) -> None:
        """Open again what the broker has closed."""
        if self.is_over:
            self._wire.close()
            self.open()
        for number, channel in list(self.channels.items()):
            if not channel.is_open:
                self.open_channel(number)

    # -- sending

    def send(self, channel: int, method: m.Method) -> None:
        """Send a method without content."""
        self.write(write_frame(METHOD, channel, write_method(method)))

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._wire.write(data)

    def call(self, number: int, method: m.Method) -> None:
        """Send a method without content, and note what its answers will mean."""
        channel = self.channels[number]
        match method:
            case m.BasicConsume(consumer_tag=""):
                channel.nameless.append(method.no_ack)
            case m.BasicConsume():
                channel.consumers[method.consumer_tag] = method.no_ack
            case m.BasicGet():
                channel.gets.append(method.no_ack)
            case _:
                pass
        self.send(number, method)

    def publish(
        self, number: int, method: m.BasicPublish, properties: Properties, body: bytes
    ) -> None:
        """Send a message."""
        channel = self.channels[number]
        channel.published += 1
        if channel.is_confirming:
            channel.unconfirmed[channel.published] = body
        head = struct.pack(">HHQ", 60, 0, len(body)) + write_properties(properties)
        frames = [write_frame(METHOD, number, write_method(method))]
        frames.append(write_frame(HEADER, number, head))
        if body:
            frames.append(write_frame(BODY, number, body))
        self.write(b"".join(frames))

    def settle(
        self, number: int, method: m.BasicAck | m.BasicNack | m.BasicReject, place: float | None
    ) -> None:
        """Settle the delivery at a place; nothing, if there is none."""
        unsettled = self.channels[number].unsettled
        if place is None:
            self.send(number, msgspec.structs.replace(method, delivery_tag=1_000_000))
            return
        if not unsettled:
            return
        ordered = sorted(unsettled, key=lambda tag: (*unsettled[tag], tag))
        tag = ordered[int(place * len(ordered))]
        multiple = not isinstance(method, m.BasicReject) and method.multiple
        if multiple and len({consumer for _, consumer in unsettled.values()}) > 1:
            # The order of several consumers' deliveries is nobody's business.
            tag = max(unsettled)
        gone = [each for each in unsettled if each <= tag] if multiple else [tag]
        for each in gone:
            del unsettled[each]
        self.send(number, msgspec.structs.replace(method, delivery_tag=tag))

    # -- receiving

    def flush(self) -> None:
        """Have everything that has come of what was sent on this connection."""
        for number, channel in list(self.channels.items()):
            if number == 0 or not self._can_answer(number):
                continue
            wanted = channel.flows + 1
            self.send(number, m.ChannelFlow(active=True))
            while self._can_answer(number) and channel.flows < wanted:
                self._read()

    def await_close(self, number: int) -> None:
        """Wait until a channel that the client closes is closed."""
        while self._can_answer(number):
            self._read()

    def _can_answer(self, number: int) -> bool:
        return self.channels[number].is_open and not self.is_over

    def ask(self, queue: str) -> m.Method:
        """Look at a queue; return the broker's answer."""
        if not self.channels[WATCH].is_open:
            self.open_channel(WATCH)
        channel = self.channels[WATCH]
        self.send(WATCH, m.QueueDeclare(queue=queue, passive=True))
        while not channel.answers and not self.is_over:
            self._read()
        if not channel.answers:
            raise Silent(f"the connection has ended: {self.lines[-3:]}")
        return channel.answers.pop(0)

    def take_lines(self) -> list[str]:
        """Return what has come since the last time, in an order that is the same everywhere."""
        found, self.lines = self.lines, []
        found.sort(key=lambda each: each[:3])
        return [self._alike(f"{each.channel} {each.text}") for each in found]

    def _alike(self, text: str) -> str:
        def stand_in(match: re.Match[str]) -> str:
            name = match[0]
            return self._names.setdefault(name, f"amq.{match[1]}-#{len(self._names) + 1}")

        return _TIME.sub("Timestamp(...)", _GENERATED.sub(stand_in, text))

    def _read(self) -> None:
        data = self._wire.read()
        if data is None:
            raise Silent("nothing comes")
        if not data:
            self.is_over = True
            return
        self._reader.feed(data)
        while (frame := self._reader.next_frame()) is not None:
            kind, number, payload = frame
            if kind == METHOD:
                self._take(number, read_method(payload))
            elif kind != HEARTBEAT:
                self._take_content(number, kind, payload)

    def _say(self, number: int, place: int, of: str, text: str) -> None:
        if number != WATCH:
            self.lines.append(Line(number, place, of, text))

    def _take(self, number: int, method: m.Method) -> None:
        channel = self.channels.setdefault(number, _Channel())
        match method:
            case m.ConnectionClose():
                self._say(number, _ANSWER, "", _reason(method))
                self.send(0, m.ConnectionCloseOk())
                self.is_over = True
            case m.ConnectionCloseOk():
                self.is_over = True
            case m.ChannelClose():
                self._say(number, _ANSWER, "", _reason(method))
                self.send(number, m.ChannelCloseOk())
                channel.is_open = False
                channel.answers.append(method)
            case m.ChannelFlowOk():
                channel.flows += 1
            case m.BasicAck() | m.BasicNack():
                self._confirm(number, channel, method)
            case m.BasicDeliver() | m.BasicGetOk() | m.BasicReturn():
                channel.partial = [method]
            case _:
                self._take_answer(number, channel, method)

    def _take_answer(self, number: int, channel: _Channel, method: m.Method) -> None:
        match method:
            case m.ChannelCloseOk():
                channel.is_open = False
            case m.ConfirmSelectOk() if not channel.is_confirming:
                channel.is_confirming, channel.published = True, 0
            case m.BasicConsumeOk() if method.consumer_tag not in channel.consumers:
                channel.consumers[method.consumer_tag] = channel.nameless.pop(0)
            case m.BasicGetEmpty():
                channel.gets.pop(0)
            case _:
                pass
        if number in (0, WATCH) or isinstance(method, m.ChannelOpenOk):
            channel.answers.append(method)
        else:
            self._say(number, _ANSWER, "", repr(method))

    def _confirm(self, number: int, channel: _Channel, method: m.BasicAck | m.BasicNack) -> None:
        tag, waiting = method.delivery_tag, channel.unconfirmed
        numbers = [each for each in waiting if each <= tag] if method.multiple else [tag]
        word = "confirmed" if isinstance(method, m.BasicAck) else "refused"
        for each in numbers:
            body = waiting.pop(each, None)
            self._say(number, _CONFIRM, f"{each:06}", f"{word} {each} {body!r}")

    def _take_content(self, number: int, kind: int, payload: bytes) -> None:
        partial = self.channels[number].partial
        if kind == HEADER:
            (size,) = struct.unpack_from(">Q", payload, 4)
            partial += [size, read_properties(payload[12:]), b""]
        else:
            body = partial[3]
            assert isinstance(body, bytes)
            partial[3] = body + payload
        method, found_size, properties, found_body = partial
        assert isinstance(found_body, bytes)
        assert isinstance(properties, Properties)
        if len(found_body) == found_size:
            self.channels[number].partial = []
            self._take_message(number, method, properties, found_body)

    def _take_message(
        self, number: int, method: object, properties: Properties, body: bytes
    ) -> None:
        channel = self.channels[number]
        content = f"{body!r} {_shown(properties)}"
        match method:
            case m.BasicReturn():
                self._say(number, _RETURN, "", f"{method!r} {content}")
                if channel.is_confirming and body and body not in channel.unconfirmed.values():
                    self._say(number, _RETURN, "", f"{body!r} was confirmed before its return")
            case m.BasicDeliver():
                shown = msgspec.structs.replace(method, delivery_tag=0)
                self._say(number, _DELIVERY, method.consumer_tag, f"{shown!r} {content}")
                if not channel.consumers[method.consumer_tag]:
                    channel.unsettled[method.delivery_tag] = (body, method.consumer_tag)
            case m.BasicGetOk():
                shown_get = msgspec.structs.replace(method, delivery_tag=0)
                self._say(number, _ANSWER, "", f"{shown_get!r} {content}")
                if not channel.gets.pop(0):
                    channel.unsettled[method.delivery_tag] = (body, "")


def _reason(method: m.ConnectionClose | m.ChannelClose) -> str:
    """Return a close as a line that ends with its text."""
    of = f"{method.failed_class_id}.{method.failed_method_id}"
    return f"{type(method).__name__} {method.reply_code} of {of}: {method.reply_text}"


def _shown(properties: Properties) -> str:
    values = {
        name: value
        for name in Properties.__struct_fields__
        if (value := getattr(properties, name)) is not None
    }
    headers = {name: each for name, each in (properties.headers or {}).items() if name not in OURS}
    if properties.headers is not None:
        values["headers"] = headers
    if not headers and OURS & set(properties.headers or ()):
        del values["headers"]
    return f"{values}" if values else "-"
