"""Clients that speak AMQP frame by frame, at simulated brokers."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import msgspec

from kafkaesque.env.network import Address
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
from kafkaesque.sim.cluster import AMQP_GATEWAYS, AMQP_PORT
from tests.unit.chassis.client import Client
from tests.unit.chassis.simulated import SimulatedBrokers

PATIENCE_MS = 60_000
MethodT = TypeVar("MethodT", bound=m.Method)
_names = itertools.count()


class Message(NamedTuple):
    """A method with its content."""

    method: m.Method
    properties: Properties
    body: bytes


class Ground(SimulatedBrokers):
    """Simulated brokers with ports for AMQP."""

    gateways = AMQP_GATEWAYS

    def restart(self, broker: int) -> None:
        """Kill a broker's process, and start it again."""
        machine = self.cluster._machines[self.cluster.names[broker - 1]]
        self.kill(broker)
        self.wait(1_000)
        self.cluster.boot(machine)
        self.loop.run_until(lambda: self.cluster.is_back(machine), PATIENCE_MS)

    def client(self, broker: int = 1, *, capabilities: bool = True, vhost: str = "/") -> AmqpClient:
        """A client that is connected, with no channel."""
        name = self.cluster.names[broker - 1]
        return AmqpClient(self, name, capabilities=capabilities, vhost=vhost)

    def raw(self, broker: int = 1) -> Client:
        """A connection on which nothing was said."""
        client = Client(self.env, Address(self.cluster.names[broker - 1], AMQP_PORT))
        self.loop.run_until(lambda: client.connection is not None, PATIENCE_MS)
        return client


class AmqpClient:
    """One connection."""

    def __init__(
        self,
        ground: Ground,
        name: str,
        *,
        capabilities: bool = True,
        vhost: str = "/",
        frame_max: int = 0,
    ) -> None:
        """Without a `frame_max` the broker's is agreed on."""
        self.ground = ground
        self.client = Client(ground.env, Address(name, AMQP_PORT))
        self._frames = FrameReader()
        self._frames.frame_bytes_max = 2**31
        self._taken = 0
        self._waiting: list[tuple[int, m.Method | Message]] = []
        self._partial: dict[int, list[bytes | m.Method]] = {}
        self.heartbeats = 0
        ground.loop.run_until(lambda: self.client.connection is not None, PATIENCE_MS)
        self.write(PROTOCOL_HEADER)
        self.start = self.expect(m.ConnectionStart, 0)
        known = {"consumer_cancel_notify": True, "connection.blocked": True}
        known["authentication_failure_close"] = True
        properties: Table = {"capabilities": dict(known)} if capabilities else {}
        self.send(0, m.ConnectionStartOk(client_properties=properties, response=b"\0guest\0guest"))
        tune = self.expect(m.ConnectionTune, 0)
        if frame_max:
            tune = msgspec.structs.replace(tune, frame_max=frame_max)
            self._frames.frame_bytes_max = frame_max
        self.tune = tune
        self.send(0, m.ConnectionTuneOk(channel_max=tune.channel_max, frame_max=tune.frame_max))
        self.send(0, m.ConnectionOpen(vhost=vhost))
        self.expect(m.ConnectionOpenOk, 0)

    # -- sending

    def write(self, data: bytes) -> None:
        self.client.link.write((data,))

    def send(self, channel: int, method: m.Method) -> None:
        self.write(write_frame(METHOD, channel, write_method(method)))

    def open(self, channel: int = 1) -> int:
        self.send(channel, m.ChannelOpen())
        self.expect(m.ChannelOpenOk, channel)
        return channel

    def publish(
        self,
        body: bytes,
        key: str,
        *,
        exchange: str = "",
        channel: int = 1,
        mandatory: bool = False,
        properties: Properties | None = None,
    ) -> None:
        self.publish_all(
            [body],
            key,
            exchange=exchange,
            channel=channel,
            mandatory=mandatory,
            properties=properties,
        )

    def publish_all(
        self,
        bodies: Sequence[bytes],
        key: str,
        *,
        exchange: str = "",
        channel: int = 1,
        mandatory: bool = False,
        properties: Properties | None = None,
    ) -> None:
        """Publish messages that come to the broker in one read."""
        method = m.BasicPublish(exchange=exchange, routing_key=key, mandatory=mandatory)
        raw = write_properties(properties or Properties())
        frames = []
        for body in bodies:
            head = struct.pack(">HHQ", 60, 0, len(body)) + raw
            frames.append(write_frame(METHOD, channel, write_method(method)))
            frames.append(write_frame(HEADER, channel, head))
            if body:
                frames.append(write_frame(BODY, channel, body))
        self.write(b"".join(frames))

    def send_content(self, method: m.Method, body: bytes, channel: int = 1) -> None:
        """Send a message in frames of the agreed size."""
        size = self.tune.frame_max - 8
        head = struct.pack(">HHQ", 60, 0, len(body)) + b"\0\0"
        frames = [write_frame(METHOD, channel, write_method(method))]
        frames.append(write_frame(HEADER, channel, head))
        frames += [
            write_frame(BODY, channel, body[at : at + size]) for at in range(0, len(body), size)
        ]
        self.write(b"".join(frames))

    # -- receiving

    def _take(self) -> None:
        data = self.client.received[self._taken :]
        self._taken += len(data)
        self._frames.feed(data)
        while (frame := self._frames.next_frame()) is not None:
            self._take_frame(*frame)

    def _take_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == HEARTBEAT:
            self.heartbeats += 1
        elif kind == METHOD:
            method = read_method(payload)
            if type(method).has_content:
                self._partial[channel] = [method]
            else:
                self._waiting.append((channel, method))
        elif kind == HEADER:
            self._partial[channel] += [payload[4:], b""]
            self._maybe_whole(channel)
        else:
            parts = self._partial[channel]
            body = parts[2]
            assert isinstance(body, bytes)
            parts[2] = body + payload
            self._maybe_whole(channel)

    def _maybe_whole(self, channel: int) -> None:
        method, head, body = self._partial[channel]
        assert isinstance(method, m.Method)
        assert isinstance(head, bytes)
        assert isinstance(body, bytes)
        (size,) = struct.unpack_from(">Q", head)
        if len(body) == size:
            del self._partial[channel]
            self._waiting.append((channel, Message(method, read_properties(head[8:]), body)))

    def next(self, channel: int = 1, *, with_messages: bool = True) -> m.Method | Message:
        """Return what comes next on a channel; without messages, those wait for the next call."""

        def found() -> int | None:
            self._take()
            numbers = (
                at
                for at, (number, each) in enumerate(self._waiting)
                if number in (channel, 0) and (with_messages or not isinstance(each, Message))
            )
            return next(numbers, None)

        self.ground.loop.run_until(
            lambda: found() is not None or self.client.is_closed, PATIENCE_MS
        )
        at = found()
        assert at is not None, "the broker has closed the connection"
        return self._waiting.pop(at)[1]

    def expect(self, kind: type[MethodT], channel: int = 1) -> MethodT:
        """Return the next method, which has to be of a kind."""
        found = self.next(channel)
        assert isinstance(found, kind), found
        return found

    def call(self, method: m.Method, kind: type[MethodT], channel: int = 1) -> MethodT:
        """Send a method, and return its answer."""
        self.send(channel, method)
        found = self.next(channel, with_messages=False)
        assert isinstance(found, kind), found
        return found

    def message(self, kind: type[MethodT], channel: int = 1) -> tuple[MethodT, Properties, bytes]:
        """Return the next message, which has to come with a method of a kind."""
        found = self.next(channel)
        assert isinstance(found, Message), found
        assert isinstance(found.method, kind), found
        return found.method, found.properties, found.body

    def delivery(self, channel: int = 1) -> tuple[m.BasicDeliver, Properties, bytes]:
        return self.message(m.BasicDeliver, channel)

    def silent(self, ms: int = 500) -> bool:
        """Tell whether nothing comes for a while."""
        self.ground.wait(ms)
        self._take()
        return not self._waiting

    def fails_channel(self, code: int, text: str = "", channel: int = 1) -> m.ChannelClose:
        """The broker closes a channel for a reason; it can be opened again."""
        closed = self.expect(m.ChannelClose, channel)
        assert closed.reply_code == code, closed
        assert text in closed.reply_text, closed
        self.send(channel, m.ChannelCloseOk())
        self.open(channel)
        return closed

    def fails(self, code: int, text: str = "") -> m.ConnectionClose:
        """The broker closes the connection for a reason."""
        closed = self.expect(m.ConnectionClose, 0)
        assert closed.reply_code == code, closed
        assert text in closed.reply_text, closed
        self.send(0, m.ConnectionCloseOk())
        self.ground.loop.run_until(lambda: self.client.is_closed, PATIENCE_MS)
        return closed

    def queue(self, **more: object) -> str:
        """Declare a queue of a name of its own."""
        name = f"queue-{next(_names)}"
        declare = m.QueueDeclare(queue=name, durable=True, arguments=dict(more))
        assert self.call(declare, m.QueueDeclareOk).queue == name
        return name

    def get(self, queue: str, *, no_ack: bool = False) -> tuple[m.BasicGetOk, Properties, bytes]:
        self.send(1, m.BasicGet(queue=queue, no_ack=no_ack))
        return self.message(m.BasicGetOk)

    def count(self, queue: str) -> tuple[int, int]:
        """Return messages that are ready, and consumers."""
        ok = self.call(m.QueueDeclare(queue=queue, passive=True), m.QueueDeclareOk)
        return ok.message_count, ok.consumer_count
