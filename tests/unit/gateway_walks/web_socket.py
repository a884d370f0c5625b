"""Clients of WebSockets, within which other protocols are spoken."""

from __future__ import annotations

import random
from contextlib import suppress
from typing import ClassVar, Final

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    Pong,
    Request,
    TextMessage,
)

from tests.unit.gateway_walks.ground import WEB_SOCKET_PORT
from tests.unit.gateway_walks.mqtt import MqttSpeaker
from tests.unit.gateway_walks.nats import NatsSpeaker
from tests.unit.gateway_walks.speaker import Speaker
from tests.unit.gateway_walks.stomp import StompSpeaker

INNER: Final[dict[str, tuple[type[Speaker], str]]] = {
    "/mqtt": (MqttSpeaker, "mqtt"),
    "/nats": (NatsSpeaker, "nats"),
    "/stomp": (StompSpeaker, "v12.stomp"),
}


class WebSocketSpeaker(Speaker):
    port: ClassVar = WEB_SOCKET_PORT

    def __init__(self, dice: random.Random) -> None:
        super().__init__(dice)
        self.path = dice.choice(tuple(INNER))
        kind, self.subprotocol = INNER[self.path]
        self.inner = kind(dice)
        self.socket = WSConnection(ConnectionType.CLIENT)
        #: Frames are made by one that is open, whatever the broker's answer is.
        self.frames = _opened()

    def opening(self) -> bytes:
        path = self.path if self.dice.randrange(20) else self.dice.choice(("/", "/x", "/mqtt?a"))
        offered = [self.subprotocol] if self.dice.randrange(8) else []
        said = self.socket.send(Request(host="localhost:8090", target=path, subprotocols=offered))
        return said + self.wrapped(self.inner.opening())

    def wrapped(self, data: bytes) -> bytes:
        dice, found = self.dice, b""
        if not data:
            return found
        pieces = [data] if dice.randrange(4) else [data[:1], data[1:]]
        for number, piece in enumerate(pieces):
            finished = number == len(pieces) - 1
            if self.path == "/stomp" and self.one_in(2):
                with suppress(UnicodeDecodeError):
                    found += self.send(TextMessage(data=data.decode()))
                    return found
            found += self.send(BytesMessage(data=piece, message_finished=finished))
            if self.one_in(10):
                found += self.send(Ping(payload=b"p"))
        return found

    def send(self, event: Event) -> bytes:
        try:
            return self.frames.send(event)
        except Exception:
            self.frames = _opened()
            return b""

    def hear(self, data: bytes) -> None:
        with suppress(Exception):
            self.socket.receive_data(data)
            for event in self.socket.events():
                if isinstance(event, Message):
                    found = event.data
                    self.inner.hear(found.encode() if isinstance(found, str) else bytes(found))

    def say(self) -> bytes:
        dice = self.dice
        choice = dice.randrange(100)
        if choice < 85:
            return self.wrapped(self.inner.say())
        if choice < 90:
            return self.send(dice.choice((Ping(payload=b"x" * 100), Pong())))
        if choice < 92:
            return self.send(TextMessage(data=dice.choice(("x", "", "\u00e9"))))
        if choice < 94:
            return self.send(CloseConnection(code=dice.choice((1000, 1001, 3000)), reason="r"))
        if choice < 96:
            return dice.choice(
                (
                    b"\x88\x80\0\0\0\0",
                    b"\x80\x80\0\0\0\0",
                    b"\x82\xff\0\0\0\0\0\1\0\0",
                    b"\x83\x80\0\0\0\0",
                    b"\x01\x81\0\0\0\0\xff",
                )
            )
        return self.wrapped(self.inner.say() + self.inner.say())


def _opened() -> WSConnection:
    client, server = WSConnection(ConnectionType.CLIENT), WSConnection(ConnectionType.SERVER)
    server.receive_data(client.send(Request(host="localhost", target="/")))
    list(server.events())
    client.receive_data(server.send(AcceptConnection()))
    list(client.events())
    return client
