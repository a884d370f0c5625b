"""A client's connection on a simulated machine, with one channel; frames out, methods in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.env import Env
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.content_path import read_content_head, write_content
from kafkaesque.protocols.amqp.errors import ReplyCode
from kafkaesque.protocols.amqp.frames import (
    FRAME_BYTES_MAX_DEFAULT,
    HEADER,
    HEARTBEAT_FRAME,
    METHOD,
    PROTOCOL_HEADER,
    FrameReader,
    write_frame,
)
from kafkaesque.protocols.amqp.method_codec import read_method, write_method
from kafkaesque.protocols.amqp.methods import Method

CHANNEL: Final = 1
HEARTBEAT_S: Final = 2
BEAT_MS: Final = 1_000
#: How long a broker may be silent: less than it takes to notice that it is dead, or more.
SILENCE_MS: Final = (2_500, 6_000, 35_000)
#: What a broker may say of itself that ends a connection or a channel.
_ITS_OWN: Final = (
    ReplyCode.CONNECTION_FORCED,
    ReplyCode.INTERNAL_ERROR,
    ReplyCode.RESOURCE_ERROR,
    # The queue's leader cannot be reached.
    ReplyCode.NOT_FOUND,
)


class User(Protocol):
    """Who uses a connection."""

    def on_ready(self) -> None:
        """The channel is open."""

    def on_method(self, method: Method) -> None:
        """An answer, or what a broker says unasked."""

    def on_message(self, method: Method, properties: bytes, body: bytes) -> None:
        """A delivery, or a message that is returned."""

    def on_gone(self) -> None:
        """The connection has ended, for whatever reason."""


class AmqpLink:
    """See the module."""

    def __init__(
        self, env: Env, address: Address, user: User, note_anomaly: Callable[[str], None]
    ) -> None:
        self.address: Final = address
        self.is_over = False
        self._env: Final = env
        self._user: Final = user
        self._note_anomaly: Final = note_anomaly
        self._connection: Connection | None = None
        self._reader = FrameReader()
        self._reader.frame_bytes_max = FRAME_BYTES_MAX_DEFAULT
        self._silence_ms: Final = SILENCE_MS[env.dice.below(len(SILENCE_MS))]
        self._heard_ms = env.clock.now_ms()
        #: Method, size, properties and body of what has come in part.
        self._method: Method | None = None
        self._size = 0
        self._properties = b""
        self._body = b""
        options = ListenOptions(framing=Framing.STREAM)
        env.network.connect(address, options, self, lambda _: self._end())
        env.clock.call_later(BEAT_MS, self._beat)

    # -- sending

    def send(self, method: Method, channel: int = CHANNEL) -> None:
        """Send a method without content."""
        self._write(write_frame(METHOD, channel, write_method(method)))

    def publish(self, method: m.BasicPublish, properties: bytes, body: bytes) -> None:
        """Send a message."""
        raw = write_method(method)
        self._write(write_content(CHANNEL, raw, properties, body, FRAME_BYTES_MAX_DEFAULT))

    def leave(self) -> None:
        """Take leave; `on_gone` follows when the broker has answered."""
        self.send(m.ConnectionClose(reply_code=200, reply_text="bye"), 0)

    def hang_up(self) -> None:
        """End without a word."""
        self._end()

    def _write(self, data: bytes) -> None:
        if self._connection is not None and not self.is_over:
            self._connection.write([data])

    def _beat(self) -> None:
        if self.is_over:
            return
        if self._env.clock.now_ms() - self._heard_ms > self._silence_ms:
            self._end()
            return
        self._write(HEARTBEAT_FRAME)
        self._env.clock.call_later(BEAT_MS, self._beat)

    def _end(self) -> None:
        if self.is_over:
            return
        self.is_over = True
        if self._connection is not None:
            self._connection.abort()
        self._user.on_gone()

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        if self.is_over:
            connection.abort()
            return
        self._connection = connection
        self._heard_ms = self._env.clock.now_ms()
        self._write(PROTOCOL_HEADER)

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        self._heard_ms = self._env.clock.now_ms()
        self._reader.feed(data)
        while not self.is_over and (frame := self._reader.next_frame()) is not None:
            kind, _, payload = frame
            if kind == METHOD:
                self._take(read_method(payload))
            elif kind == HEADER:
                _, self._size, self._properties = read_content_head(payload)
                self._maybe_give()
            elif payload:
                self._body += payload
                self._maybe_give()

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self._end()

    def _take(self, method: Method) -> None:
        match method:
            case m.ConnectionStart():
                known = {"consumer_cancel_notify": True}
                start_ok = m.ConnectionStartOk(
                    client_properties={"capabilities": known}, response=b"\0guest\0guest"
                )
                self.send(start_ok, 0)
            case m.ConnectionTune():
                tuned = m.ConnectionTuneOk(
                    channel_max=method.channel_max,
                    frame_max=method.frame_max,
                    heartbeat_s=HEARTBEAT_S,
                )
                self.send(tuned, 0)
                self.send(m.ConnectionOpen(vhost="/"), 0)
            case m.ConnectionOpenOk():
                self.send(m.ChannelOpen())
            case m.ChannelOpenOk():
                self._user.on_ready()
            case m.ConnectionClose() | m.ChannelClose():
                if method.reply_code not in _ITS_OWN:
                    self._note_anomaly(f"bad answer: {self.address} says {method}")
                self._end()
            case m.ConnectionCloseOk():
                self._end()
            case m.ConnectionBlocked() | m.ConnectionUnblocked():
                pass
            case _ if type(method).has_content:
                self._method, self._body = method, b""
            case _:
                self._user.on_method(method)

    def _maybe_give(self) -> None:
        if self._method is not None and len(self._body) >= self._size:
            method, self._method = self._method, None
            self._user.on_message(method, self._properties, self._body)
