"""CONNECT, heart-beats, bounds, and how a connection ends."""

from __future__ import annotations

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Request, TextMessage

from kafkaesque.broker.listeners import WEBSOCKET, Listener
from kafkaesque.chassis.web_socket_gateway import WebSocketGateway
from kafkaesque.env.network import Address
from kafkaesque.gateway.queueing import link
from kafkaesque.gateway.stomp.connection import StompConnection
from kafkaesque.gateway.stomp.gateway import StompGateway
from kafkaesque.sim.cluster import STOMP_PORT
from tests.unit.chassis.client import Client
from tests.unit.gateway_amqp.kit import PATIENCE_MS
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name


def gateway_of(ground: Ground) -> StompGateway:
    """Return the gateway of the first broker."""
    found = ground.cluster._gateways[ground.cluster.names[0]][STOMP_PORT]
    assert isinstance(found, StompGateway)
    return found


def test_connected_says_what_was_agreed_upon(ground: Ground) -> None:
    connected = ground.stranger().connect("1.2")
    assert connected.get("version") == "1.2"
    assert connected.get("heart-beat") == "10000,10000"
    assert (connected.get("server") or "").startswith("kafkaesque/")
    assert connected.get("session")


@pytest.mark.parametrize("host", ["/", "localhost", "127.0.0.1", "[::1]", "b1", ""])
def test_a_host_is_a_virtual_host_or_this_machine(ground: Ground, host: str) -> None:
    ground.stomp(headers={"host": host}).publish(f"/queue/{new_name()}", b"a")


def test_a_virtual_host_that_is_not_there(ground: Ground) -> None:
    client = ground.stranger()
    client.send("CONNECT", {"accept-version": "1.2", "host": "staging"})
    client.error("there is no virtual host 'staging'")


def test_nobody_has_to_log_in_where_it_is_open(ground: Ground) -> None:
    ground.stomp(headers={"login": "anybody", "passcode": "anything"}).publish(
        f"/queue/{new_name()}", b"a"
    )


def test_frames_behind_connect_wait_for_it(ground: Ground) -> None:
    client = ground.stranger()
    client.write(
        b"CONNECT\naccept-version:1.2\nhost:/\n\n\0SEND\ndestination:/queue/early\nreceipt:1\n\na\0"
    )
    client.expect("CONNECTED")
    client.receipt("1")


def test_heart_beats_are_sent_and_expected(ground: Ground) -> None:
    client = ground.stomp(headers={"heart-beat": "10000,10000"})
    for _ in range(4):
        ground.wait(9_000)
        client.write(b"\n")
    assert not client.client.is_closed
    assert client.client.received.count(b"\n") >= 3
    client.error("heart-beats do not come")


def test_who_wants_no_heart_beats_may_be_silent(ground: Ground) -> None:
    client = ground.stomp()
    ground.wait(60_000)
    assert not client.client.is_closed


def test_a_client_that_is_not_read_from_is_not_silent(ground: Ground) -> None:
    before = set(gateway_of(ground).connections)
    client = ground.stomp(headers={"heart-beat": "10000,0"})
    (number,) = set(gateway_of(ground).connections) - before
    served = gateway_of(ground).connections[number]
    served.hold()
    ground.wait(60_000)
    assert not client.client.is_closed
    served.release()
    client.error("heart-beats do not come")


def test_who_does_not_connect_is_told(ground: Ground) -> None:
    client = ground.stranger()
    ground.wait(11_000)
    client.error("no CONNECT has come")


def test_http_is_closed_without_an_answer(ground: Ground) -> None:
    client = ground.stranger()
    client.write(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\nCONNECT\n\n\0")
    ground.loop.run_until(lambda: client.client.is_closed, PATIENCE_MS)
    assert client.client.received == b""


def test_what_a_full_queue_refuses_is_told(ground: Ground, client: StompClient) -> None:
    name = new_name()
    options = {"x-max-length": "1", "x-overflow": "reject-publish"}
    client.call("SEND", {"destination": f"/queue/{name}", **options}, b"a")
    client.send("SEND", {"destination": f"/queue/{name}", "receipt": "r"}, b"b")
    assert client.error("full").get("receipt-id") == "r"


def test_nothing_is_read_while_too_much_waits(
    ground: Ground, client: StompClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "WAITING_BYTES_MAX", 100_000)
    name = new_name()
    client.publish(f"/queue/{name}", b"first")
    frame = b"SEND\ndestination:/queue/%b\n\n%b\0" % (name.encode(), b"a" * 60_000)
    paused = 0

    def pause(self: StompConnection) -> None:
        nonlocal paused
        paused += 1
        pause_once(self)

    pause_once = StompConnection._pause
    monkeypatch.setattr(StompConnection, "_pause", pause)
    for _ in range(20):
        client.write(frame)
    client.publish(f"/queue/{name}", b"last")
    assert paused
    assert ground.amqp().count(name) == (22, 0)


def test_a_client_that_reads_nothing_is_sent_no_more(ground: Ground) -> None:
    client, name = ground.stomp(), new_name()
    client.subscribe(f"/queue/{name}")
    client.client.link.pause_reading()
    sender = ground.stomp()
    for _ in range(60):
        sender.publish(f"/queue/{name}", b"a" * 100_000)
    amqp = ground.amqp()
    assert amqp.count(name)[0] > 20
    client.client.link.resume_reading()
    for _ in range(60):
        client.message()
    assert amqp.count(name) == (0, 1)


def test_a_drain_answers_what_has_come(ground: Ground) -> None:
    other = Ground(seed=3)
    client = other.stomp()
    client.subscribe("/queue/a", ack="client")
    client.publish("/queue/a", b"a")
    client.message()
    client.send("SEND", {"destination": "/queue/b", "receipt": "1"}, b"b")
    drained: list[bool] = []
    (served,) = gateway_of(other).connections.values()
    other.loop.run_until(served.is_busy, PATIENCE_MS)
    gateway_of(other).drain(lambda: drained.append(True))
    client.receipt("1")
    client.error("connect again, or to another broker")
    assert drained


def test_stomp_over_a_web_socket(ground: Ground) -> None:
    other = Ground(seed=4)
    gateway = gateway_of(other)
    sockets = WebSocketGateway(gateway.chassis, {"/stomp": gateway}, lambda: ())
    address = Address(other.cluster.names[0], 8090)
    sockets.start(Listener(protocol=WEBSOCKET, name="web", advertised=address))
    client = Client(other.env, address)
    other.wait(100)
    socket = WSConnection(ConnectionType.CLIENT)

    def say(event: Request | TextMessage) -> list[object]:
        before = len(client.received)
        client.link.write((socket.send(event),))
        other.wait(500)
        socket.receive_data(client.received[before:])
        return list(socket.events())

    request = Request(host="localhost", target="/stomp", subprotocols=["v12.stomp", "v11.stomp"])
    assert say(request) == [AcceptConnection(subprotocol="v12.stomp")]
    frames = (
        "CONNECT\naccept-version:1.2\nhost:/\n\n\0"
        "SUBSCRIBE\nid:1\ndestination:/queue/a\nreceipt:1\n\n\0"
        "SEND\ndestination:/queue/a\nreceipt:2\n\né\0"
    )
    texts = "".join(
        each.data for each in say(TextMessage(data=frames)) if isinstance(each, TextMessage)
    )
    assert texts.startswith("CONNECTED\n")
    assert "RECEIPT\nreceipt-id:1\n" in texts
    assert "RECEIPT\nreceipt-id:2\n" in texts
    assert "\n\né\0" in texts
    assert gateway.chassis.meters["stomp", "web"].open == 1
