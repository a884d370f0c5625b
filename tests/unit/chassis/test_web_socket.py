"""WebSocket in front of a protocol that gives back what it gets, on a simulated machine."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from kafkaesque.chassis import web_socket
from kafkaesque.chassis.web_socket import OriginRule, Payload, Route, WebSocketLink
from kafkaesque.env.network import LOW_WATER_BYTES, Address, Connection, Framing, ListenOptions
from kafkaesque.sim.env import World
from tests.unit.chassis.client import Client

ADDRESS = Address("broker", 8090)


class Echo:
    """Gives back what it gets; what begins with `bye` ends it."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.pieces: list[bytes] = []
        self.is_gone = False

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        self.pieces.append(bytes(data))
        assert self.connection is not None
        self.connection.write((data,))
        if self.pieces[-1].startswith(b"bye"):
            self.connection.close()

    def on_writable(self) -> None: ...

    def on_close(self, error: Exception | None) -> None:
        self.is_gone = True


class Ground:
    """A listener with two protocols, and a client."""

    def __init__(self, rule: OriginRule | None = None) -> None:
        self.world = World(1)
        env = self.world.add_machine("broker").boot()
        self.served: list[Echo] = []
        routes = {
            "/mqtt": Route(
                make=self.serve,
                payload=Payload.BINARY,
                subprotocols=("mqtt",),
                needs_subprotocol=True,
            ),
            "/stomp": Route(
                make=self.serve, payload=Payload.TEXT, subprotocols=("v12.stomp", "v11.stomp")
            ),
        }
        env.network.listen(
            ADDRESS,
            ListenOptions(framing=Framing.STREAM),
            lambda: WebSocketLink(routes, rule or OriginRule(), env.clock),
        )
        self.client = Client(self.world.add_machine("c").boot(), ADDRESS)
        self.wait()
        self.socket = WSConnection(ConnectionType.CLIENT)
        self.read = 0

    def serve(self) -> Echo:
        self.served.append(Echo())
        return self.served[-1]

    def wait(self, ms: int = 50) -> None:
        self.world.loop.run_for(ms)

    def send(self, *events: Event) -> list[Event]:
        """Send these, and return what comes back."""
        return self.send_raw(b"".join(map(self.socket.send, events)))

    def send_raw(self, raw: bytes, size: int = 1 << 20) -> list[Event]:
        for at in range(0, len(raw), size):
            self.client.link.write((raw[at : at + size],))
            self.wait()
        data = self.client.received[self.read :]
        self.read += len(data)
        self.socket.receive_data(data)
        return list(self.socket.events())

    def open(self, path: str = "/mqtt", **options: object) -> list[Event]:
        fields = {"host": "localhost:8090", "target": path, "subprotocols": ["mqtt"], **options}
        return self.send(Request(**fields))  # type: ignore[arg-type]


def test_a_protocol_is_chosen_by_path_and_gets_a_stream() -> None:
    ground = Ground()
    assert ground.open() == [AcceptConnection(subprotocol="mqtt")]
    assert ground.send(BytesMessage(data=b"a" * 70_000)) == [BytesMessage(data=b"a" * 70_000)]
    assert b"".join(ground.served[0].pieces) == b"a" * 70_000
    connection = ground.served[0].connection
    assert connection is not None
    assert connection.peer.startswith("c")


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_cuts_change_nothing(size: int) -> None:
    ground = Ground()
    request = Request(host="localhost", target="/mqtt", subprotocols=["mqtt"])
    assert ground.send_raw(ground.socket.send(request), size) == [
        AcceptConnection(subprotocol="mqtt")
    ]
    raw = ground.socket.send(BytesMessage(data=b"hello ")) + ground.socket.send(Ping(payload=b"p"))
    raw += ground.socket.send(BytesMessage(data=b"wor", message_finished=False))
    raw += ground.socket.send(BytesMessage(data=b"ld"))
    found = ground.send_raw(raw, size)
    assert b"".join(ground.served[0].pieces) == b"hello world"
    assert Pong(payload=b"p") in found


@pytest.mark.parametrize(
    ("path", "options", "status"),
    [
        ("/nothing", {}, 404),
        ("/mqtt", {"subprotocols": []}, 400),
        ("/mqtt", {"subprotocols": ["amqp"]}, 400),
        ("/mqtt", {"extra_headers": [(b"Origin", b"https://evil.example")]}, 403),
        ("/mqtt", {"extra_headers": [(b"Origin", b"null")]}, 403),
        # What Python's own parser of addresses stumbles over.
        ("/mqtt", {"extra_headers": [(b"Origin", b"http://[")]}, 403),
        ("/mqtt", {"extra_headers": [(b"Origin", b"http://localhost@evil.example")]}, 403),
        # A name of a page that was made to point here.
        (
            "/mqtt",
            {"host": "evil.example", "extra_headers": [(b"Origin", b"http://evil.example")]},
            403,
        ),
    ],
)
def test_handshakes_that_are_refused(path: str, options: dict[str, object], status: int) -> None:
    ground = Ground()
    found = ground.open(path, **options)
    assert isinstance(found[0], RejectConnection)
    assert found[0].status_code == status
    assert ground.client.is_closed
    assert not ground.served


@pytest.mark.parametrize(
    "raw",
    [
        b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /mqtt HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /mqtt HTTP/1.1\r\nHost: \xff\r\n\r\n",
        b"\x10\x0d\x00\x04MQTT\r\n\r\n",
        b"\r\n\r\n",
    ],
)
def test_what_is_no_handshake_is_refused(raw: bytes) -> None:
    ground = Ground()
    ground.client.link.write((raw,))
    ground.wait()
    assert ground.client.received.startswith(b"HTTP/1.1 400 ")
    assert ground.client.is_closed


@pytest.mark.parametrize(
    ("rule", "host", "origin"),
    [
        (OriginRule(), "localhost:8090", b"http://localhost:8090"),
        (OriginRule(), "127.0.0.1:8090", b"http://127.0.0.1:8090"),
        (OriginRule(host_names=frozenset({"b1.example"})), "b1.example", b"https://b1.example"),
        (OriginRule(origins=frozenset({"https://app.example"})), "b1", b"https://app.example"),
    ],
)
def test_pages_that_may_connect(rule: OriginRule, host: str, origin: bytes) -> None:
    ground = Ground(rule)
    found = ground.open(host=host, extra_headers=[(b"Origin", origin)])
    assert found == [AcceptConnection(subprotocol="mqtt")]


def test_a_head_without_an_end_is_hung_up_on() -> None:
    ground = Ground()
    ground.client.link.write((b"GET / HTTP/1.1\r\nx: " + b"a" * web_socket.HEAD_BYTES_MAX,))
    ground.wait()
    assert ground.client.is_closed
    assert ground.client.received == b""


def test_a_client_that_does_not_ask_is_hung_up_on() -> None:
    ground = Ground()
    ground.wait(web_socket.HANDSHAKE_MS_MAX - 1_000)
    assert not ground.client.is_closed
    ground.wait(2_000)
    assert ground.client.is_closed


def test_a_client_that_has_asked_may_be_silent() -> None:
    ground = Ground()
    ground.open()
    ground.wait(web_socket.HANDSHAKE_MS_MAX * 2)
    assert not ground.client.is_closed


def test_texts_are_for_protocols_of_text() -> None:
    ground = Ground()
    ground.open()
    (found,) = ground.send(TextMessage(data="a"))
    assert isinstance(found, CloseConnection)
    assert found.code == 1003
    assert ground.client.is_closed
    assert ground.served[0].pieces == []


def test_a_protocol_of_text_writes_binary_where_it_must() -> None:
    ground = Ground()
    found = ground.open("/stomp", subprotocols=["v11.stomp", "v12.stomp"])
    assert found == [AcceptConnection(subprotocol="v12.stomp")]
    assert ground.send(TextMessage(data="é")) == [TextMessage(data="é")]
    assert ground.send(BytesMessage(data=b"a")) == [TextMessage(data="a")]
    assert ground.send(BytesMessage(data=b"\xff")) == [BytesMessage(data=b"\xff")]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        # Not masked; a reserved bit; no such kind of frame; a text that is not UTF-8.
        (bytes.fromhex("8201 61"), 1002),
        (bytes.fromhex("c281 00000000 61"), 1002),
        (bytes.fromhex("8381 00000000 61"), 1002),
        (bytes.fromhex("8181 00000000 ff"), 1007),
    ],
)
def test_frames_that_are_wrong(raw: bytes, code: int) -> None:
    ground = Ground()
    ground.open("/stomp")
    (found,) = ground.send_raw(raw)
    assert isinstance(found, CloseConnection)
    assert found.code == code
    assert ground.client.is_closed


def test_who_asks_and_does_not_read_takes_no_memory() -> None:
    """Answers to pings go by none of the protocol's bounds."""
    ground = Ground()
    ground.open()
    server = ground.served[0].connection
    assert server is not None
    ground.client.link.pause_reading()
    ping = ground.socket.send(Ping(payload=b"p" * 125))
    for _ in range(40):
        ground.client.link.write((ping * 200,))
        ground.wait()
    most = server.unsent_bytes()
    assert most <= LOW_WATER_BYTES + 1_000
    ground.client.link.resume_reading()
    ground.wait(1_000)
    assert server.unsent_bytes() == 0
    assert Pong(payload=b"again") in ground.send(Ping(payload=b"again"))


def test_a_length_of_eight_bytes_takes_no_memory() -> None:
    ground = Ground()
    ground.open()
    head = bytes.fromhex("82ff 7fffffffffffffff 00000000")
    ground.send_raw(head + b"abc")
    assert ground.served[0].pieces == [b"abc"]


def test_either_side_may_close() -> None:
    ground = Ground()
    ground.open()
    (found,) = ground.send(CloseConnection(code=1000))
    assert isinstance(found, CloseConnection)
    assert ground.client.is_closed
    assert ground.served[0].is_gone
    other = Ground()
    other.open()
    echoed, closed = other.send(BytesMessage(data=b"bye"))
    assert echoed == BytesMessage(data=b"bye")
    assert isinstance(closed, CloseConnection)
    assert closed.code == 1000
    assert other.served[0].is_gone


def test_nothing_is_taken_after_the_end() -> None:
    ground = Ground()
    ground.open()
    ground.send(BytesMessage(data=b"bye"), BytesMessage(data=b"more"))
    assert ground.served[0].pieces == [b"bye"]
    connection = ground.served[0].connection
    assert connection is not None
    connection.write((b"late",))
    connection.close()
    connection.abort()


def test_a_client_that_is_gone_before_its_handshake() -> None:
    ground = Ground()
    ground.client.link.close()
    ground.wait(web_socket.HANDSHAKE_MS_MAX * 2)
    assert not ground.served


@settings(max_examples=25)
@given(raw=st.binary(max_size=60))
def test_whatever_comes_is_a_frame_or_the_end(raw: bytes) -> None:
    ground = Ground()
    ground.open("/stomp")
    ground.client.link.write((raw,))
    ground.wait()
    assert ground.served[0].is_gone == ground.client.is_closed
