"""SEND, SUBSCRIBE and acknowledgements at a queue, in every version."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kafkaesque.broker.requests.exchange_commands import PutTransformation
from kafkaesque.broker.requests.queue_requests import SettleMessages
from kafkaesque.gateway.queueing.settlements import Settlements
from kafkaesque.model.errors import RequestTimedOut
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.routing.transformations.rules import Drop, Rule, Set
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name

VERSIONS = ("1.0", "1.1", "1.2")


@pytest.mark.parametrize("version", VERSIONS)
def test_a_message_goes_through_a_queue(ground: Ground, version: str) -> None:
    client, name = ground.stomp(version=version), new_name()
    client.publish(f"/queue/{name}", b"hello", content_type="text/plain", color="red")
    client.subscribe(f"/queue/{name}")
    message = client.message()
    assert message.body == b"hello"
    headers = dict(message.headers)
    assert headers["destination"] == f"/queue/{name}"
    assert headers["subscription"] == "s"
    assert headers["content-type"] == "text/plain"
    assert headers["color"] == "red"
    assert headers["content-length"] == "5"
    # Nothing has to be acknowledged.
    assert "ack" not in headers
    ground.wait(100)
    assert ground.amqp().count(name) == (0, 1)


@pytest.mark.parametrize("version", VERSIONS)
def test_client_acknowledges_all_up_to_one(ground: Ground, version: str) -> None:
    client, name = ground.stomp(version=version), new_name()
    for number in range(5):
        client.publish(f"/queue/{name}", b"%d" % number)
    client.subscribe(f"/queue/{name}", ack="client")
    messages = [client.message() for _ in range(5)]
    client.ack(messages[3])
    ground.wait(200)
    client.close()
    again = ground.stomp()
    again.subscribe(f"/queue/{name}")
    message = again.message()
    assert message.body == b"4"
    assert message.get("redelivered") == "true"
    assert message.get("message-id") == messages[4].get("message-id")
    assert again.silent()


@pytest.mark.parametrize("version", VERSIONS)
def test_individual_acknowledges_one(ground: Ground, version: str) -> None:
    client, name = ground.stomp(version=version), new_name()
    for number in range(3):
        client.publish(f"/queue/{name}", b"%d" % number)
    client.subscribe(f"/queue/{name}", ack="client-individual")
    messages = [client.message() for _ in range(3)]
    client.ack(messages[1])
    ground.wait(200)
    client.close()
    again = ground.stomp()
    again.subscribe(f"/queue/{name}")
    assert [again.message().body, again.message().body] == [b"0", b"2"]
    assert again.silent()


def test_a_refused_message_comes_again(client: StompClient) -> None:
    name = new_name()
    client.publish(f"/queue/{name}", b"a")
    client.subscribe(f"/queue/{name}", ack="client-individual")
    first = client.message()
    client.ack(first, "NACK")
    second = client.message()
    assert (second.body, second.get("redelivered")) == (b"a", "true")
    assert second.get("message-id") == first.get("message-id")
    client.ack(second, "NACK", requeue="false")
    assert client.silent()


def test_a_refused_message_is_a_dead_letter(ground: Ground, client: StompClient) -> None:
    name, dead = new_name(), new_name()
    client.publish(f"/queue/{dead}", b"before")
    declared = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
    client.call("SEND", {"destination": f"/queue/{name}", **declared}, b"a")
    client.subscribe(f"/queue/{dead}", "dead")
    client.subscribe(f"/queue/{name}", ack="client")
    assert client.message().body == b"before"
    client.ack(client.message(), "NACK", requeue="false")
    message = client.message()
    assert (message.body, message.get("subscription")) == (b"a", "dead")
    assert '"reason":"rejected"' in (message.get("x-death") or "")


def test_prefetch_bounds_what_a_client_has(client: StompClient) -> None:
    name = new_name()
    for number in range(5):
        client.publish(f"/queue/{name}", b"%d" % number)
    client.subscribe(f"/queue/{name}", ack="client", prefetch_count="2")
    first, second = client.message(), client.message()
    assert client.silent()
    client.ack(first)
    assert client.message().body == b"2"
    assert client.silent()
    client.ack(second)
    assert client.message().body == b"3"


def test_what_is_sent_at_once_stays_in_order(client: StompClient) -> None:
    name = new_name()
    for number in range(200):
        client.send("SEND", {"destination": f"/queue/{name}"}, b"%d" % number)
    client.publish(f"/queue/{name}", b"last")
    client.subscribe(f"/queue/{name}")
    assert [client.message().body for _ in range(201)] == [
        *(b"%d" % number for number in range(200)),
        b"last",
    ]


def test_receipts_come_in_the_order_of_frames(client: StompClient) -> None:
    name = new_name()
    client.send("SEND", {"destination": f"/queue/{name}", "receipt": "1"}, b"a")
    client.send("BEGIN", {"transaction": "t", "receipt": "2"})
    client.send("ABORT", {"transaction": "t", "receipt": "3"})
    client.send("DISCONNECT", {"receipt": "4"})
    for number in "1234":
        client.receipt(number)
    client.ground.loop.run_until(lambda: client.client.is_closed, 1_000)


def test_unsubscribe_ends_messages_and_acknowledgements_go_on(client: StompClient) -> None:
    name = new_name()
    client.publish(f"/queue/{name}", b"a")
    client.subscribe(f"/queue/{name}", ack="client")
    message = client.message()
    client.call("UNSUBSCRIBE", {"id": "s"})
    client.publish(f"/queue/{name}", b"b")
    assert client.silent()
    client.ack(message)
    client.subscribe(f"/queue/{name}", "t")
    assert client.message().body == b"b"
    assert client.silent()


def test_a_message_expires_by_its_header(ground: Ground, client: StompClient) -> None:
    name = new_name()
    now_ms = ground.env.clock.wall_ms()
    client.publish(f"/queue/{name}", b"short", expires=str(now_ms + 500))
    client.publish(f"/queue/{name}", b"long", expires=str(now_ms + 3_600_000))
    client.publish(f"/queue/{name}", b"never", expires="0")
    ground.wait(1_000)
    client.subscribe(f"/queue/{name}")
    message = client.message()
    assert (message.body, message.get("expires")) == (b"long", str(now_ms + 3_600_000))
    message = client.message()
    assert (message.body, message.get("expires")) == (b"never", None)


def test_higher_priorities_come_first(client: StompClient) -> None:
    name = new_name()
    client.call("SEND", {"destination": f"/queue/{name}", "x-max-priority": "9"}, b"low")
    client.publish(f"/queue/{name}", b"high", priority="5")
    client.subscribe(f"/queue/{name}", ack="client", prefetch_count="1")
    message = client.message()
    assert (message.body, message.get("priority")) == (b"high", "5")


def test_bodies_and_headers_are_bytes_and_texts_of_any_kind(client: StompClient) -> None:
    name = new_name().replace("-", "/ü%:")
    destination = "/queue/" + name.replace("%", "%25").replace("/", "%2F")
    body = bytes(range(256)) * 10
    headers = {"k:1": "a:b\nc\\d\re", "empty": "", "long": "é" * 10_000}
    client.call("SEND", {"destination": destination, **headers}, b"")
    client.write(
        b"SEND\ndestination:%b\ncontent-length:%d\n\n%b\0"
        % (destination.encode().replace(b":", b"\\c"), len(body), body)
    )
    client.subscribe(destination)
    first = client.message()
    assert first.get("destination") == destination
    assert first.body == b""
    assert {name: first.get(name) for name in headers} == headers
    assert client.message().body == body


def test_an_empty_subscription_waits_for_messages(ground: Ground, client: StompClient) -> None:
    name = new_name()
    client.subscribe(f"/queue/{name}")
    assert client.silent()
    ground.stomp().publish(f"/queue/{name}", b"a")
    assert client.message().body == b"a"


def test_subscriptions_share_a_queue(ground: Ground) -> None:
    name = new_name()
    clients = [ground.stomp(), ground.stomp()]
    for each in clients:
        each.subscribe(f"/queue/{name}", ack="client", prefetch_count="1")
    sender = ground.stomp()
    sender.publish(f"/queue/{name}", b"a")
    sender.publish(f"/queue/{name}", b"b")
    assert {each.message().body for each in clients} == {b"a", b"b"}


def test_a_queue_that_is_deleted_ends_the_connection(ground: Ground, client: StompClient) -> None:
    name = new_name()
    client.subscribe(f"/queue/{name}")
    ground.amqp().call(m.QueueDelete(queue=name), m.QueueDeleteOk)
    client.error("was deleted")


def test_acknowledgements_that_come_together_are_one_request(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, queue = ground.stomp(), f"/queue/{new_name()}"
    client.subscribe(queue, ack="client-individual")
    for number in range(5):
        client.publish(queue, b"%d" % number)
    messages = [client.next("MESSAGE") for _ in range(5)]
    asked: list[object] = []
    real = Settlements._ask

    def ask(self: Settlements, request: object, *more: object) -> None:
        asked.append(request)
        real(self, request, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(Settlements, "_ask", ask)
    acks = [b"ACK\nid:%b\n\n\0" % (each.get("ack") or "").encode() for each in messages]
    client.write(b"".join(acks))
    client.call("BEGIN", {"transaction": "t"})
    (request,) = asked
    assert isinstance(request, SettleMessages)
    assert sum(each.end - each.first for each in request.claims) == 5


def test_messages_that_say_the_same_and_go_elsewhere_say_where(ground: Ground) -> None:
    client, key = ground.stomp(), new_name()
    for name, destination in (("1", f"/topic/{key}"), ("2", f"/topic/{key}.x")):
        client.subscribe(destination, name)
    for number in range(2):
        for destination in (f"/topic/{key}", f"/topic/{key}.x"):
            client.publish(destination, b"%d" % number, color=f"c{number}")
    seen = [client.next("MESSAGE") for _ in range(4)]
    said = sorted((each.get("destination"), each.get("color"), each.body) for each in seen)
    assert said == [
        (f"/topic/{key}{end}", f"c{number}", b"%d" % number)
        for end in ("", ".x")
        for number in range(2)
    ]
    assert len({each.get("message-id") for each in seen}) == 4


def test_an_acknowledgement_before_unsubscribe_has_its_receipt_when_it_is_done(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, queue = ground.stomp(), f"/queue/{new_name()}"
    client.subscribe(queue, "1", ack="client-individual")
    client.publish(queue, b"x")
    ack = (client.next("MESSAGE").get("ack") or "").encode()

    def ask(_: Settlements, request: object, on_answer: Callable[[object], None]) -> None:
        on_answer(RequestTimedOut("nobody knows"))

    monkeypatch.setattr(Settlements, "_ask", ask)
    client.write(b"ACK\nid:%b\nreceipt:a\n\n\0UNSUBSCRIBE\nid:1\nreceipt:b\n\n\0" % ack)
    assert client.next("ERROR").get("receipt-id") == "a"


def test_a_queue_that_is_subscribed_with_a_transformation_delivers_changed(ground: Ground) -> None:
    client, name = ground.stomp(), new_name()
    done: list[object] = []
    rule = Rule(steps=(Set(at="headers.by", value="a"), Drop(at="headers.secret")))
    command = PutTransformation(vhost="/", name="out", rule=rule)
    broker = next(iter(ground.cluster.brokers.values()))
    broker.doors.cluster.submit(command, 10_000, done.append)
    ground.loop.run_until(lambda: bool(done), 10_000)
    client.subscribe(f"/queue/{name}", **{"x-transformation-out": "out"})
    client.publish(f"/queue/{name}", b"hello", secret="x", color="red")
    headers = dict(client.message().headers)
    assert (headers["by"], headers["color"]) == ("a", "red")
    assert "secret" not in headers
