"""What comes in one read and says the same: together, and as if it had come one by one."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

import pytest

from kafkaesque.broker.doors import publish_lanes
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests.queue_requests import SettleMessages
from kafkaesque.gateway.queueing.consumer import ATTACH_MS
from kafkaesque.gateway.queueing.link import QueueingLink
from kafkaesque.gateway.queueing.settlements import Settlements
from kafkaesque.gateway.stomp import queues
from kafkaesque.gateway.stomp.subscription import Subscription
from kafkaesque.model.errors import RequestTimedOut
from kafkaesque.protocols.stomp.frames import Frame
from tests.unit.chassis.runs import published_together
from tests.unit.gateway_stomp.kit import Ground, StompClient, new_name


@pytest.fixture
def together(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many messages went on their way together, each time that some did."""
    return published_together(monkeypatch)


def sends(destination: str, bodies: Sequence[bytes], first: int = 1, more: str = "") -> bytes:
    """Return SENDs whose receipts are numbers, from the first one on."""
    head = f"SEND\ndestination:{destination}\n{more}".encode()
    return b"".join(
        b"%breceipt:%d\n\n%b\0" % (head, number, body) for number, body in enumerate(bodies, first)
    )


def send_all(
    client: StompClient, destination: str, bodies: Sequence[bytes], more: str = ""
) -> None:
    """Send messages at once, and wait for their receipts."""
    client.write(sends(destination, bodies, more=more))
    for number in range(1, len(bodies) + 1):
        client.receipt(str(number))


def acks(messages: Sequence[Frame], more: bytes = b"") -> bytes:
    """Return ACKs whose receipts are numbers."""
    ids = [(each.get("ack") or "").encode() for each in messages]
    return b"".join(
        b"ACK\nid:%b\nreceipt:%d\n%b\n\0" % (each, number, more)
        for number, each in enumerate(ids, 1)
    )


def known(client: StompClient, **headers: str) -> str:
    """Return the destination of a queue whose route was used."""
    destination = f"/queue/{new_name()}"
    client.publish(destination, b"first", **headers)
    return destination


def name_of(destination: str) -> str:
    return destination.removeprefix("/queue/")


def bodies_of(client: StompClient, destination: str, count: int) -> list[bytes]:
    client.subscribe(destination)
    return [client.message().body for _ in range(count)]


def taken(client: StompClient, destination: str, count: int, **headers: str) -> list[Frame]:
    """Return messages that are not acknowledged."""
    client.subscribe(destination, ack="client-individual", **headers)
    return [client.message() for _ in range(count)]


# -- SEND


def test_they_have_their_receipts_and_their_order(client: StompClient, together: list[int]) -> None:
    one, other = known(client), known(client)
    bodies = [b"%d" % number for number in range(700)]
    client.write(sends(one, bodies[:600]) + sends(other, bodies[:3], 601))
    client.write(sends(one, bodies[600:], 604))
    for number in range(1, 704):
        client.receipt(str(number))
    # How a network cuts what is sent is chance.
    assert sum(together) > 350
    assert bodies_of(client, one, 701) == [b"first", *bodies]
    client.call("UNSUBSCRIBE", {"id": "s"})
    assert bodies_of(client, other, 4) == [b"first", *bodies[:3]]


def test_their_receipts_are_written_at_once(
    client: StompClient, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = known(client)
    write = QueueingLink.write
    written: list[int] = []

    def counted(self: QueueingLink, data: bytes) -> None:
        written.append(data.count(b"RECEIPT"))
        write(self, data)

    monkeypatch.setattr(QueueingLink, "write", counted)
    send_all(client, destination, [b"a", b"b", b"c"])
    assert together == [3]
    assert written == [3]


def test_headers_go_with_each_of_them(client: StompClient, together: list[int]) -> None:
    destination = known(client)
    more = "color:red\npriority:3\nexpiration:60000\ncontent-type:text/plain\n"
    send_all(client, destination, [b"a", b"b"], more)
    client.subscribe(destination)
    assert together == [2]
    client.message()
    for body in (b"a", b"b"):
        message = client.message()
        assert message.body == body
        said = [message.get(name) for name in ("color", "priority", "content-type")]
        assert said == ["red", "3", "text/plain"]
        assert message.get("expires") is not None


def test_they_are_in_every_queue_of_a_topic(ground: Ground, together: list[int]) -> None:
    client, others = ground.stomp(), [ground.stomp() for _ in range(3)]
    topic = f"/topic/{new_name()}"
    for each in others:
        each.subscribe(topic)
    client.publish(topic, b"first")
    client.write(sends(topic, [b"1", b"2"]))
    client.receipt("1")
    client.receipt("2")
    assert together == [2]
    for each in others:
        assert [each.message().body for _ in range(3)] == [b"first", b"1", b"2"]


def test_a_queue_that_is_full_refuses_some_of_them(
    ground: Ground, client: StompClient, together: list[int]
) -> None:
    declared = {"x_max_length": "3", "x_overflow": "reject-publish"}
    destination = known(client, **declared)
    client.write(sends(destination, [b"1", b"2", b"3", b"4"]))
    client.receipt("1")
    client.receipt("2")
    assert client.error("full").get("receipt-id") == "3"
    assert together == [4]
    assert ground.amqp().count(name_of(destination)) == (3, 0)


def test_they_may_go_in_several_requests(
    client: StompClient, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_lanes, "BATCH_MAX", 2)
    destination = known(client)
    client.write(sends(destination, [b"%d" % number for number in range(5)]))
    for number in range(1, 6):
        client.receipt(str(number))
    assert together == [5]


def test_a_queue_is_made_before_they_go(client: StompClient, together: list[int]) -> None:
    destination = f"/queue/{new_name()}"
    client.write(sends(destination, [b"1", b"2", b"3"]))
    for number in "123":
        client.receipt(number)
    assert together == []
    assert bodies_of(client, destination, 3) == [b"1", b"2", b"3"]


def test_what_is_asked_for_before_them_comes_first(
    ground: Ground, client: StompClient, together: list[int]
) -> None:
    """A queue has to be made first: those behind it wait."""
    destination, new = known(client), f"/queue/{new_name()}"
    client.write(sends(new, [b"a"]) + sends(destination, [b"1", b"2"], 2))
    for number in "123":
        client.receipt(number)
    assert together == []


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("priority:x\n", "priority is no number"),
        ("expiration:x\n", "expiration is no number"),
        ("user-id:somebody\n", "user_id"),
    ],
)
def test_what_is_wrong_with_them_is_the_first_ones(
    ground: Ground, client: StompClient, together: list[int], more: str, said: str
) -> None:
    destination = known(client)
    client.write(sends(destination, [b"1", b"2"], more=more))
    assert client.error(said).get("receipt-id") == "1"
    assert together == []
    assert ground.amqp().count(name_of(destination)) == (1, 0)


def test_a_mistake_behind_them_comes_behind_their_receipts(
    client: StompClient, together: list[int]
) -> None:
    destination = known(client)
    client.write(sends(destination, [b"1", b"2"]) + b"NONSENSE\nreceipt:3\n\n\0")
    client.receipt("1")
    client.receipt("2")
    assert client.error("no such command").get("receipt-id") == "3"
    assert together == [2]


def test_what_has_no_room_goes_one_by_one(
    client: StompClient, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = known(client)
    monkeypatch.setattr(publish_lanes, "UNDER_WAY_MAX", 2)
    client.write(sends(destination, [b"1", b"2", b"3"]))
    # What is refused is known at once, and ends the connection.
    assert client.error("too many messages").get("receipt-id") == "3"
    assert together == []


def test_answers_and_temporary_queues_go_one_by_one(
    client: StompClient, together: list[int]
) -> None:
    destination = known(client)
    bodies = [b"%d" % number for number in range(40)]
    send_all(client, "/temp-queue/a", bodies)
    send_all(client, destination, bodies, "reply-to:/temp-queue/a\n")
    assert together == []


def test_a_queue_whose_owner_is_gone_is_made_again_before_them(
    ground: Ground, client: StompClient, together: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = known(client)
    (broker,) = ground.cluster.brokers.values()
    old = broker.doors.cluster.state.queues[QueueName("/", name_of(destination))].topic_id
    monkeypatch.setattr(queues, "is_orphan", lambda _, queue: queue.topic_id == old)
    bodies = [b"%d" % number for number in range(40)]
    send_all(client, destination, bodies)
    assert bodies_of(client, destination, 40) == bodies


def test_a_transaction_has_them(ground: Ground, client: StompClient, together: list[int]) -> None:
    destination = known(client)
    client.call("BEGIN", {"transaction": "t"})
    client.write(sends(destination, [b"1", b"2"], more="transaction:t\n"))
    client.receipt("1")
    client.receipt("2")
    assert ground.amqp().count(name_of(destination)) == (1, 0)
    client.call("COMMIT", {"transaction": "t"})
    assert together == []
    assert bodies_of(client, destination, 3) == [b"first", b"1", b"2"]


def test_a_client_that_hangs_up_has_sent_them(
    ground: Ground, client: StompClient, together: list[int]
) -> None:
    destination = known(client)
    client.write(sends(destination, [b"1", b"2"]))
    client.client.link.close()
    ground.wait(500)
    assert together == [2]
    assert ground.amqp().count(name_of(destination)) == (3, 0)


# -- ACK


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many claims each request had that said of messages that they are done with."""
    counts: list[int] = []
    ask = Settlements._ask

    def counted(self: Settlements, request: Any, *more: Any) -> None:
        if isinstance(request, SettleMessages):
            counts.append(sum(each.end - each.first for each in request.claims))
        ask(self, request, *more)

    monkeypatch.setattr(Settlements, "_ask", counted)
    return counts


@pytest.mark.parametrize("version", ["1.1", "1.2"])
def test_they_are_one_settlement(ground: Ground, settled: list[int], version: str) -> None:
    client = ground.stomp(version=version)
    destination = known(client)
    send_all(client, destination, [b"1", b"2", b"3"])
    messages = taken(client, destination, 4)
    if version == "1.2":
        raw = acks(messages)
    else:
        head = "ACK\nsubscription:s\nmessage-id:{}\nreceipt:{}\n\n\0"
        ids = [each.get("message-id") for each in messages]
        raw = "".join(head.format(each, at) for at, each in enumerate(ids, 1)).encode()
    client.write(raw)
    for number in "1234":
        client.receipt(number)
    assert settled == [4]
    client.close()
    assert ground.amqp().count(name_of(destination)) == (0, 0)


def test_they_are_of_several_queues(ground: Ground, client: StompClient) -> None:
    found: list[Frame] = []
    names = []
    for number in range(3):
        destination = known(client)
        names.append(name_of(destination))
        client.subscribe(destination, f"s{number}", ack="client-individual")
        found.append(client.message())
    client.write(acks(found))
    for number in range(3):
        client.receipt(str(number + 1))
    client.close()
    assert [ground.amqp().count(each) for each in names] == [(0, 0)] * 3


def test_each_is_for_all_up_to_it_where_the_client_says_so(
    ground: Ground, client: StompClient
) -> None:
    destination = known(client)
    send_all(client, destination, [b"1", b"2", b"3", b"4"])
    client.subscribe(destination, ack="client")
    messages = [client.message() for _ in range(5)]
    client.write(acks([messages[1], messages[3]]))
    client.receipt("1")
    client.receipt("2")
    client.close()
    again = ground.stomp()
    assert bodies_of(again, destination, 1) == [b"4"]
    assert again.silent()


def test_one_that_nobody_has_ends_them_and_those_before_it_count(
    ground: Ground, client: StompClient
) -> None:
    destination = known(client)
    send_all(client, destination, [b"1", b"2"])
    messages = taken(client, destination, 3)
    twice = [messages[0], messages[1], messages[1], messages[2]]
    client.write(acks(twice))
    assert client.error("no message waits").get("receipt-id") == "3"
    ground.wait(200)
    again = ground.stomp()
    assert bodies_of(again, destination, 1) == [b"2"]
    assert again.silent()


def test_one_that_is_not_taken_is_told_to_the_first_that_asks(
    client: StompClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination = known(client)
    send_all(client, destination, [b"1", b"2"])
    messages = taken(client, destination, 3)
    ask = Settlements._ask

    def refuse(self: Settlements, request: Any, *more: Any) -> None:
        if isinstance(request, SettleMessages):
            more[0](RequestTimedOut("nobody answers"))
        else:
            ask(self, request, *more)

    monkeypatch.setattr(Settlements, "_ask", refuse)
    client.write(acks(messages))
    assert client.error("an acknowledgement was not taken").get("receipt-id") == "1"


def test_the_last_one_of_a_closed_subscription_forgets_it(
    ground: Ground, client: StompClient
) -> None:
    destination = known(client)
    send_all(client, destination, [b"1"])
    messages = taken(client, destination, 2)
    client.call("UNSUBSCRIBE", {"id": "s"})
    client.write(acks(messages))
    client.receipt("1")
    client.receipt("2")
    ground.wait(200)
    assert ground.amqp().count(name_of(destination)) == (0, 0)
    # Nor is it kept, once it has looked for the last time whether it is wanted.
    ground.wait(2 * ATTACH_MS)
    gc.collect()
    kept = [each for each in gc.get_objects() if isinstance(each, Subscription)]
    assert [each for each in kept if each.queue.queue.name == name_of(destination)] == []


def test_more_comes_for_what_they_free(client: StompClient) -> None:
    destination = known(client)
    send_all(client, destination, [b"1", b"2", b"3"])
    messages = taken(client, destination, 2, prefetch_count="2")
    assert client.silent()
    client.write(acks(messages))
    assert [client.message().body for _ in range(2)] == [b"2", b"3"]


def test_a_transaction_has_the_acknowledgements(ground: Ground, client: StompClient) -> None:
    destination = known(client)
    send_all(client, destination, [b"1"])
    messages = taken(client, destination, 2)
    client.call("BEGIN", {"transaction": "t"})
    client.write(acks(messages, b"transaction:t\n"))
    client.receipt("1")
    client.receipt("2")
    ground.wait(200)
    client.call("ABORT", {"transaction": "t"})
    client.close()
    assert bodies_of(ground.stomp(), destination, 2) == [b"first", b"1"]


def test_they_may_be_of_different_attempts(ground: Ground, client: StompClient) -> None:
    destination = known(client)
    send_all(client, destination, [b"1", b"2"])
    first, second, third = taken(client, destination, 3)
    client.ack(second, "NACK")
    again = client.message()
    assert (again.body, again.get("redelivered")) == (b"1", "true")
    client.write(acks([first, again, third]))
    for number in "123":
        client.receipt(number)
    client.close()
    assert ground.amqp().count(name_of(destination)) == (0, 0)


# -- MESSAGE


def test_what_one_message_says_is_not_said_of_the_next_one(client: StompClient) -> None:
    destination = known(client)
    (first,) = taken(client, destination, 1)
    client.ack(first, "NACK")
    assert client.message().get("redelivered") == "true"
    for more in ({}, {"a": "b"}, {}):
        client.publish(destination, b"x", **more)
        message = client.message()
        assert (message.get("redelivered"), message.get("a")) == (None, more.get("a"))
