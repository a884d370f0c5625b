"""A listener of WebSockets: what comes there is a connection of the gateway that its path names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    RejectConnection,
    Request,
    TextMessage,
)

from kafkaesque.broker.listeners import WEBSOCKET, Listener
from kafkaesque.chassis.admission import PER_HOST
from kafkaesque.chassis.gateway import drain_all
from kafkaesque.chassis.link import ClientConnection, PortOptions, Shared
from kafkaesque.chassis.stream_gateway import StreamGateway
from kafkaesque.chassis.web_socket import Payload
from kafkaesque.chassis.web_socket_gateway import WebSocketGateway
from kafkaesque.env.network import Address
from tests.unit.chassis.client import Client
from tests.unit.chassis.test_chassis import DRAIN_MS, HOST, IDLE_MS, UNSENT_BYTES_MAX, Echo, Ground

ADDRESS = Address(HOST, 8090)


class EchoStream(StreamGateway):
    protocol = "echo"
    payload = Payload.TEXT
    subprotocols = ("v2.echo", "v1.echo")

    def options(self, listener: Listener) -> PortOptions:
        return replace(
            PortOptions.of(listener),
            unsent_bytes_max=UNSENT_BYTES_MAX,
            idle_ms_max=lambda: IDLE_MS,
            drain_ms_max=DRAIN_MS,
            refuses_http=True,
        )

    def make_connection(self, shared: Shared) -> ClientConnection:
        return Echo(shared)


class Sockets:
    """A gateway for two paths, with clients of both kinds."""

    def __init__(self, origins: tuple[str, ...] = ()) -> None:
        self.ground = Ground()
        self.echo = EchoStream(self.ground.chassis)
        speakers = {"/echo": self.echo, "/other": EchoStream(self.ground.chassis)}
        speakers["/other"].protocol = "other"  # type: ignore[misc]
        self.gateway = WebSocketGateway(self.ground.chassis, speakers, lambda: {"b1.example"})
        self.listener = Listener(
            protocol=WEBSOCKET, name="web", advertised=ADDRESS, origins=origins
        )
        self.gateway.start(self.listener)

    def open(self, path: str = "/echo", **options: object) -> WebClient:
        client = WebClient(self.ground.connect(ADDRESS), self.ground.wait)
        fields = {"host": "localhost:8090", "target": path, "subprotocols": ["v1.echo"], **options}
        client.first = client.send(Request(**fields))  # type: ignore[arg-type]
        return client


class WebClient:
    """A client of one WebSocket."""

    def __init__(self, client: Client, wait: Callable[[], None]) -> None:
        self.client = client
        self.wait = wait
        self.socket = WSConnection(ConnectionType.CLIENT)
        self.read = 0
        self.first: list[Event] = []

    def send(self, event: Event) -> list[Event]:
        self.client.link.write((self.socket.send(event),))
        return self.events()

    def events(self) -> list[Event]:
        self.wait()
        data = self.client.received[self.read :]
        self.read += len(data)
        if data:
            self.socket.receive_data(data)
        return list(self.socket.events())


@pytest.fixture
def sockets() -> Sockets:
    return Sockets()


def test_a_path_leads_to_a_gateway(sockets: Sockets) -> None:
    client = sockets.open()
    assert client.first == [AcceptConnection(subprotocol="v1.echo")]
    assert client.send(TextMessage(data="hello")) == [TextMessage(data="hello")]
    assert len(sockets.echo.connections) == 1
    assert not sockets.gateway.connections
    meters = sockets.ground.chassis.meters
    assert meters["echo", "web"].open == meters["echo", "web"].requests == 1
    assert meters["other", "web"].open == meters["websocket", "web"].open == 0


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/nothing", [], 404),
        ("/echo", [(b"Origin", b"https://evil.example")], 403),
        ("/echo", [(b"Origin", b"https://app.example")], 0),
        ("/echo", [(b"Origin", b"http://localhost:8090")], 0),
        ("/echo", [], 0),
    ],
)
def test_pages_of_strangers_are_refused(
    path: str, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    sockets = Sockets(origins=("https://app.example",))
    first = sockets.open(path, extra_headers=headers).first[0]
    if status:
        assert isinstance(first, RejectConnection)
        assert first.status_code == status
    else:
        assert isinstance(first, AcceptConnection)


def test_a_page_may_be_the_brokers_own_by_its_name(sockets: Sockets) -> None:
    origin = [(b"Origin", b"https://b1.example:8090")]
    (first,) = sockets.open(host="b1.example:8090", extra_headers=origin).first
    assert isinstance(first, AcceptConnection)


def test_limits_on_connections_hold_here(sockets: Sockets) -> None:
    sockets.ground.options[PER_HOST] = 1
    sockets.open()
    second = sockets.open()
    assert second.client.is_closed
    assert len(sockets.echo.connections) == 1
    assert sockets.ground.chassis.meters["echo", "web"].refused == 1


def test_silence_ends_a_connection(sockets: Sockets) -> None:
    client = sockets.open()
    sockets.ground.wait(2 * IDLE_MS)
    assert client.client.is_closed


def test_a_stream_that_begins_like_http_is_the_protocols_own(sockets: Sockets) -> None:
    """It has come within frames: no web page can have sent it as a request."""
    client = sockets.open()
    assert client.send(TextMessage(data="GET / x")) == [TextMessage(data="GET / x")]


def test_a_client_that_reads_nothing_is_read_from_no_more(sockets: Sockets) -> None:
    client = sockets.open()
    (served,) = sockets.echo.connections.values()
    assert isinstance(served, Echo)
    client.client.link.pause_reading()
    for _ in range(40):
        client.client.link.write((client.socket.send(BytesMessage(data=b"a" * 50_000)),))
        sockets.ground.wait(5)
    taken = served.taken
    assert taken < 40 * 50_000
    client.client.link.resume_reading()
    sockets.ground.wait(500)
    assert served.taken == 40 * 50_000


def test_a_drain_waits_for_what_is_being_answered(sockets: Sockets) -> None:
    client = sockets.open()
    (served,) = sockets.echo.connections.values()
    assert isinstance(served, Echo)
    served.is_slow = True
    client.send(TextMessage(data="slow"))
    drained: list[bool] = []
    drain_all([sockets.gateway, sockets.echo], lambda: drained.append(True))
    sockets.ground.wait(DRAIN_MS // 5)
    assert not drained
    served.answer(b"slow")
    text, close = [*client.events(), *client.events()][:2]
    assert text == TextMessage(data="slow")
    assert isinstance(close, CloseConnection)
    assert drained
    assert client.client.is_closed


def test_a_gateway_serves_streams_and_web_sockets_side_by_side(sockets: Sockets) -> None:
    plain = Address(HOST, 7001)
    sockets.echo.start(Listener(protocol="echo", name="echo", advertised=plain))
    client = sockets.ground.connect(plain)
    client.say("hello")
    sockets.ground.wait()
    assert client.lines == ["hello"]
    sockets.open()
    assert len(sockets.echo.connections) == 2
