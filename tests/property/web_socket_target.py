"""WebSockets for `fuzz_targets.py`: a handshake and frames, in front of a protocol that echoes.

What is checked beside that nothing is raised: wherever the bytes are cut, the protocol gets the
same stream; and what the broker writes is what a client of WebSockets understands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, Event, Ping, Request, TextMessage

from kafkaesque.chassis.web_socket import OriginRule, Payload, Route, WebSocketLink
from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.env.network import Connection

_PATHS: Final = ("/mqtt", "/stomp")


def _handshake(path: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
        "Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    ).encode()


class _Wire:
    """The network below: it keeps what is written."""

    peer = "fuzzer"

    def __init__(self) -> None:
        self.written = bytearray()
        self.is_closed = False

    def write(self, parts: Sequence[Buffer | FileRange]) -> None:
        for part in parts:
            assert not isinstance(part, FileRange)
            # What is written behind the end is dropped.
            if not self.is_closed:
                self.written += part

    def peer_certificate(self) -> PeerCertificate | None:
        return None

    def unsent_bytes(self) -> int:
        return 0

    def received_bytes(self) -> int:
        return 0

    def sent_bytes(self) -> int:
        return len(self.written)

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def limit_frames(self, frame_bytes_max: int) -> None: ...

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True


class _Still:
    """A clock that stands, and its timers."""

    def now_ms(self) -> int:
        return 0

    def now_ns(self) -> int:
        return 0

    def wall_ms(self) -> int:
        return 0

    def call_soon(self, callback: Callable[[], None]) -> None: ...

    def call_later(self, delay_ms: float, callback: Callable[[], None]) -> _Still:
        return self

    def cancel(self) -> None: ...


class _Echo:
    """A protocol that gives back what it gets."""

    def __init__(self) -> None:
        self.stream = bytearray()
        self.connection: Connection | None = None

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        assert data, "a piece of nothing"
        assert self.connection is not None
        self.stream += data
        self.connection.write((data,))

    def on_writable(self) -> None: ...

    def on_close(self, error: Exception | None) -> None: ...


class _Outcome(NamedTuple):
    stream: bytes
    is_closed: bool


def _outcome(*pieces: bytes) -> _Outcome:
    wire, served = _Wire(), list[_Echo]()

    def serve() -> _Echo:
        served.append(_Echo())
        return served[-1]

    routes = {
        "/mqtt": Route(
            make=serve, payload=Payload.BINARY, subprotocols=("mqtt",), needs_subprotocol=True
        ),
        "/stomp": Route(make=serve, payload=Payload.TEXT, subprotocols=("v12.stomp",)),
    }
    link = WebSocketLink(routes, OriginRule(), _Still())
    link.on_open(wire)
    for piece in pieces:
        link.on_bytes(piece)
    if served:
        _read_as_client(bytes(wire.written))
    link.on_close(None)
    return _Outcome(bytes(served[0].stream) if served else b"", wire.is_closed)


def _read_as_client(written: bytes) -> None:
    head, _, frames = written.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 "), head
    client = _opened_client()
    client.receive_data(frames)
    for _ in client.events():
        pass


def _opened_client() -> WSConnection:
    client, server = WSConnection(ConnectionType.CLIENT), WSConnection(ConnectionType.SERVER)
    server.receive_data(client.send(Request(host="localhost", target="/")))
    list(server.events())
    client.receive_data(server.send(AcceptConnection()))
    list(client.events())
    return client


def run(data: bytes) -> None:
    """The first byte says where the handshake leads, 2: that it comes, too; the second, the cut."""
    if len(data) < 2:
        return
    kind, cut, rest = data[0] % 3, data[1], data[2:]
    before = _handshake(_PATHS[kind]) if kind < len(_PATHS) else b""
    at = cut * max(len(rest), 1) // 255
    whole = _outcome(before + rest)
    parts = _outcome(before + rest[:at], rest[at:]) if before else _outcome(rest[:at], rest[at:])
    if parts.is_closed != whole.is_closed:
        raise AssertionError(f"the end depends on the cut: {whole}, {parts}")
    if whole.is_closed:
        # Of a text that is wrong, the part before the mistake may have been passed on.
        is_same = parts.stream.startswith(whole.stream) or whole.stream.startswith(parts.stream)
    else:
        is_same = parts.stream == whole.stream
    if not is_same:
        raise AssertionError(f"the stream depends on the cut: {whole}, {parts}")


def seeds() -> list[bytes]:
    """Frames of clients, each masked; and handshakes."""
    speaker = _opened_client()
    conversations: tuple[tuple[Event, ...], ...] = (
        (BytesMessage(data=b"hello"), BytesMessage(data=b"")),
        (
            BytesMessage(data=b"wor", message_finished=False),
            Ping(payload=b"between"),
            BytesMessage(data=b"ld"),
        ),
        (TextMessage(data="caf", message_finished=False), Ping(), TextMessage(data="\u00e9")),
        (BytesMessage(data=b"x" * 200),),
    )
    frames = [b"".join(map(speaker.send, events)) for events in conversations]
    mask = b"\1\2\3\4"
    frames += [
        # A close with a reason, one with half a code, and one that is followed by more.
        b"\x88\x84" + mask + bytes(b ^ m for b, m in zip(b"\x03\xe8by", mask, strict=True)),
        b"\x88\x81" + mask + b"\2",
        b"\x88\x80" + mask + b"\x82\x81" + mask + b"a",
        # Half a letter at the end of a frame, and the other half in the next one.
        b"\x01\x81\0\0\0\0\xc3\x80\x81\0\0\0\0\xa9",
        # Lengths of two and eight bytes.
        b"\x82\xfe\0\x7e\0\0\0\0" + b"a" * 126,
        b"\x82\xff\0\0\0\0\0\1\0\0\0\0\0\0",
        # A ping of 125 bytes, and what goes on without having begun.
        b"\x89\xfd\0\0\0\0" + b"p" * 125,
        b"\x80\x81\0\0\0\0a",
    ]
    started = [bytes((kind, 128)) + each for each in frames for kind in (0, 1)]
    return started + [bytes((2, 60)) + _handshake(path) + frames[0] for path in _PATHS]
