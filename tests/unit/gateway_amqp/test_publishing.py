"""basic.publish: confirms, returns, properties, limits of queues; transactions."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.chassis.link import ClientConnection
from kafkaesque.gateway.amqp.connection import AmqpConnection
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.protocols.amqp.wire import Timestamp
from kafkaesque.sim.cluster import AMQP_PORT
from tests.unit.gateway_amqp.kit import AmqpClient, Ground, Message


def confirming(client: AmqpClient) -> AmqpClient:
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    return client


def acked(client: AmqpClient, count: int) -> None:
    """Wait until the first `count` publishes are confirmed."""
    left = set(range(1, count + 1))
    while left:
        ack = client.expect(m.BasicAck)
        found = {each for each in left if ack.multiple and each <= ack.delivery_tag}
        left -= found | {ack.delivery_tag}


@pytest.mark.parametrize("limit", ["x-max-length", "x-max-length-bytes"])
def test_a_queue_of_length_zero_gives_to_who_waits_and_drops_or_refuses_the_rest(
    client: AmqpClient, limit: str
) -> None:
    name = confirming(client).queue(**{limit: 0})
    client.publish(b"", name)
    acked(client, 1)
    assert client.count(name) == (0, 0)
    client.call(m.BasicConsume(queue=name, no_ack=True), m.BasicConsumeOk)
    assert client.silent(300)
    client.publish(b"two", name)
    assert _came_and_confirmed(client) == b"two"
    refusing = client.queue(**{limit: 0, "x-overflow": "reject-publish"})
    client.publish(b"three", refusing)
    assert client.expect(m.BasicNack).delivery_tag == 3


def _came_and_confirmed(client: AmqpClient) -> bytes:
    """Return the body of the message that has come with its confirm."""
    found = [client.next(), client.next()]
    assert any(isinstance(each, m.BasicAck) for each in found), found
    (message,) = (each for each in found if isinstance(each, Message))
    return message.body


def test_a_message_without_a_life_goes_to_who_waits(client: AmqpClient) -> None:
    name = confirming(client).queue()
    now_or_never = Properties(expiration="0")
    client.publish(b"never", name, properties=now_or_never)
    acked(client, 1)
    client.call(m.BasicConsume(queue=name, no_ack=True), m.BasicConsumeOk)
    assert client.silent(300)
    client.publish(b"now", name, properties=now_or_never)
    assert _came_and_confirmed(client) == b"now"


def test_what_is_confirmed_is_in_the_queue_in_order(client: AmqpClient) -> None:
    name = confirming(client).queue()
    for number in range(1_500):
        client.publish(b"%d" % number, name)
    acked(client, 1_500)
    assert client.count(name) == (1_500, 0)
    client.call(m.BasicConsume(queue=name, no_ack=True), m.BasicConsumeOk)
    bodies = [client.delivery()[2] for _ in range(1_500)]
    assert bodies == [b"%d" % number for number in range(1_500)]


def test_properties_come_back_as_they_were_sent(client: AmqpClient) -> None:
    name = client.queue()
    properties = Properties(
        content_type="application/json",
        content_encoding="gzip",
        headers={"n": 2**40, "nested": {"list": [1, "two", None]}, "flag": True},
        delivery_mode=2,
        priority=4,
        correlation_id="c",
        reply_to="answers",
        expiration="60000",
        message_id="id",
        timestamp=Timestamp(1_700_000_000),
        type="kind",
        user_id="guest",
        app_id="app",
    )
    client.publish(b"{}", name, properties=properties)
    got, found, body = client.get(name)
    assert (got.exchange, got.routing_key, got.redelivered) == ("", name, False)
    assert (found, body) == (properties, b"{}")


def test_bodies_of_any_size(client: AmqpClient) -> None:
    name = client.queue()
    for size in (0, 1, 131_064, 131_065, 1_000_000):
        body = bytes(size)
        method = m.BasicPublish(routing_key=name)
        client.send_content(method, body)
        assert client.get(name, no_ack=True)[2] == body


def test_a_message_without_a_queue_is_returned_and_then_confirmed(client: AmqpClient) -> None:
    confirming(client).publish(b"lost", "nowhere", mandatory=True)
    returned, _, body = client.message(m.BasicReturn)
    assert (returned.reply_code, returned.reply_text) == (312, "NO_ROUTE")
    assert (returned.exchange, returned.routing_key, body) == ("", "nowhere", b"lost")
    assert client.expect(m.BasicAck).delivery_tag == 1
    client.publish(b"lost", "nowhere")
    assert client.expect(m.BasicAck).delivery_tag == 2


def test_a_missing_exchange_closes_the_channel_and_drops_what_follows(client: AmqpClient) -> None:
    name = client.queue()
    client.publish(b"x", name, exchange="missing")
    client.publish(b"y", name)
    client.fails_channel(404, "no exchange 'missing' in vhost '/'")
    assert client.count(name) == (0, 0)


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        (Properties(expiration="soon"), "invalid expiration 'soon'"),
        (Properties(expiration="-1"), "invalid expiration"),
        (Properties(user_id="somebody"), "authenticated user was 'guest'"),
        (Properties(headers={"CC": "a"}), "the header CC has to be an array"),
        (Properties(headers={"BCC": [1]}), "the header BCC has to be an array"),
        (Properties(reply_to="amq.rabbitmq.reply-to"), "fast reply consumer does not exist"),
    ],
)
def test_a_property_that_is_wrong_closes_the_channel(
    client: AmqpClient, properties: Properties, text: str
) -> None:
    client.publish(b"x", client.queue(), properties=properties)
    client.fails_channel(406, text)


def test_copies_go_to_further_queues_and_blind_ones_are_not_shown(client: AmqpClient) -> None:
    first, second, third = client.queue(), client.queue(), client.queue()
    headers: dict[str, object] = {"CC": [second, first], "BCC": [third], "x": 1}
    confirming(client).publish(b"x", first, properties=Properties(headers=headers))
    acked(client, 1)
    for name in (first, second, third):
        got, properties, _ = client.get(name)
        assert properties.headers == {"CC": [second, first], "x": 1}
        assert got.message_count == 0
    # Nor are they where the message comes back.
    hidden = Properties(headers={"BCC": ["none, too"], "x": 1})
    client.publish(b"x", "none", mandatory=True, properties=hidden)
    _, returned, _ = client.message(m.BasicReturn)
    assert returned.headers == {"x": 1}


def test_a_message_expires(ground: Ground, client: AmqpClient) -> None:
    name = client.queue()
    client.publish(b"short", name, properties=Properties(expiration="500"))
    client.publish(b"none", name, properties=Properties(expiration="0"))
    client.publish(b"long", name, properties=Properties(expiration="60000"))
    ground.wait(2_000)
    assert client.get(name)[2] == b"long"


def test_a_message_is_delayed(ground: Ground, client: AmqpClient) -> None:
    name = client.queue()
    client.publish(b"later", name, properties=Properties(headers={"x-delay": 2_000}))
    client.publish(b"now", name)
    assert client.get(name, no_ack=True)[2] == b"now"
    client.call(m.BasicGet(queue=name), m.BasicGetEmpty)
    ground.wait(2_500)
    assert client.get(name)[2] == b"later"


def test_priorities_come_first(client: AmqpClient) -> None:
    name = confirming(client).queue(**{"x-max-priority": 5})
    for body, priority in ((b"a", None), (b"b", 5), (b"c", 200), (b"d", 1)):
        client.publish(body, name, properties=Properties(priority=priority))
    acked(client, 4)
    assert [client.get(name)[2] for _ in range(4)] == [b"b", b"c", b"d", b"a"]


def test_a_full_queue_refuses(client: AmqpClient) -> None:
    name = client.queue(**{"x-max-length": 1, "x-overflow": "reject-publish"})
    confirming(client).publish(b"one", name)
    acked(client, 1)
    client.publish(b"two", name)
    assert client.expect(m.BasicNack).delivery_tag == 2


def test_what_is_refused_is_not_confirmed_with_what_follows_it(
    ground: Ground, client: AmqpClient
) -> None:
    """An answer for several messages must not cover one that is refused among them."""
    confirming(client)
    (connection,) = ground.cluster._gateways["b1"][AMQP_PORT].connections.values()
    assert isinstance(connection, AmqpConnection)
    publishing = connection._channels[1]._publishing
    numbers = [publishing._number() for _ in range(5)]
    # All are known within one turn.
    for number in numbers:
        publishing._note(number, None, is_in=number != 3)
    said = [client.next() for _ in range(4)]
    assert said == [
        m.BasicAck(delivery_tag=2, multiple=True),
        m.BasicNack(delivery_tag=3, requeue=False),
        m.BasicAck(delivery_tag=4),
        m.BasicAck(delivery_tag=5),
    ]


def test_what_a_full_queue_refuses_becomes_a_dead_letter(client: AmqpClient) -> None:
    target = client.queue()
    name = client.queue(
        **{
            "x-max-length": 1,
            "x-overflow": "reject-publish-dlx",
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": target,
        }
    )
    confirming(client).publish(b"one", name)
    acked(client, 1)
    for number, body in ((2, b"two"), (3, b"three")):
        client.publish(body, name)
        assert client.expect(m.BasicNack).delivery_tag == number
    client.call(m.BasicConsume(queue=target), m.BasicConsumeOk)
    for body in (b"two", b"three"):
        _, properties, found = client.delivery()
        assert found == body
        assert (properties.headers or {})["x-first-death-reason"] == "maxlen"
    assert client.count(name) == (1, 0)
    # What returns to a queue that is full meanwhile stays in it.
    got, _, _ = client.get(name)
    client.publish(b"four", name)
    assert client.expect(m.BasicAck).delivery_tag == 4
    client.send(1, m.BasicNack(delivery_tag=got.delivery_tag, requeue=True))
    assert client.silent()
    assert client.count(name) == (2, 0)


def test_a_full_queue_drops_the_oldest_to_its_dead_letters(client: AmqpClient) -> None:
    target = client.queue()
    arguments: dict[str, object] = {
        "x-max-length": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
    }
    name = client.queue(**arguments)
    confirming(client).publish(b"one", name)
    client.publish(b"two", name)
    acked(client, 2)
    assert client.get(name)[2] == b"two"
    client.call(m.BasicConsume(queue=target), m.BasicConsumeOk)
    deliver, properties, body = client.delivery()
    assert (deliver.exchange, deliver.routing_key, body) == ("", target, b"one")
    headers: dict[str, Any] = properties.headers or {}
    (death,) = headers["x-death"]
    assert death["reason"] == "maxlen"
    assert (death["queue"], death["count"], death["routing-keys"]) == (name, 1, [name])
    assert headers["x-first-death-queue"] == name


# -- transactions


def test_a_message_that_is_looked_at_twice_is_charged_once(
    client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is said to have no queue, the broker finds out what there is."""
    charged: list[float] = []
    monkeypatch.setattr(
        ClientConnection, "charge", lambda connection, quota, amount, *_: charged.append(amount)
    )
    client.publish(b"x", "nowhere", mandatory=True)
    assert client.message(m.BasicReturn)[2] == b"x"
    assert charged == [1]


def test_a_transaction_is_done_at_its_commit(ground: Ground, client: AmqpClient) -> None:
    name = client.queue()
    client.publish(b"before", name)
    tag = client.get(name)[0].delivery_tag
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish(b"in", name)
    client.send(1, m.BasicAck(delivery_tag=tag))
    other = ground.client()
    other.open()
    assert other.count(name) == (0, 0)
    client.call(m.TxCommit(), m.TxCommitOk)
    assert other.get(name)[2] == b"in"
    # The acknowledgement is in as well: nothing comes back with the channel.
    client.call(m.ChannelClose(), m.ChannelCloseOk)
    assert other.count(name) == (0, 0)


def test_a_transaction_takes_nothing_that_cannot_be_published(client: AmqpClient) -> None:
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish(b"x", "k", exchange="none")
    client.fails_channel(404, "no exchange 'none' in vhost '/'")
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish(b"x", "q", properties=Properties(expiration="soon"))
    client.fails_channel(406, "invalid expiration 'soon'")


def test_a_rollback_forgets(client: AmqpClient) -> None:
    name = client.queue()
    client.publish(b"kept", name)
    tag = client.get(name)[0].delivery_tag
    client.call(m.TxSelect(), m.TxSelectOk)
    client.publish(b"forgotten", name)
    client.send(1, m.BasicAck(delivery_tag=tag))
    client.call(m.TxRollback(), m.TxRollbackOk)
    client.call(m.TxCommit(), m.TxCommitOk)
    client.call(m.BasicRecover(requeue=True), m.BasicRecoverOk)
    assert client.get(name)[2] == b"kept"
    client.call(m.BasicGet(queue=name), m.BasicGetEmpty)


def test_transactions_and_confirms_exclude_one_another(client: AmqpClient) -> None:
    client.send(1, m.TxCommit())
    client.fails_channel(406, "channel is not transactional")
    client.call(m.TxSelect(), m.TxSelectOk)
    client.send(1, m.ConfirmSelect())
    client.fails_channel(406, "cannot switch from tx to confirm mode")
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.send(1, m.TxSelect())
    client.fails_channel(406, "cannot switch from confirm to tx mode")


def test_an_unknown_tag_fails_within_a_transaction(client: AmqpClient) -> None:
    client.call(m.TxSelect(), m.TxSelectOk)
    client.send(1, m.BasicAck(delivery_tag=9))
    client.fails_channel(406, "unknown delivery tag 9")


@pytest.mark.parametrize("is_by_queue", [True, False])
@pytest.mark.parametrize("pause_ms", [0, 1, 5])
def test_a_consumer_with_room_gets_all_of_a_burst_of_messages_that_wait_for_nobody(
    ground: Ground, is_by_queue: bool, pause_ms: int
) -> None:
    client = ground.client()
    client.open()
    name = client.queue(**({"x-max-length": 0} if is_by_queue else {}))
    properties = Properties() if is_by_queue else Properties(expiration="0")
    client.call(m.BasicQos(prefetch_count=20), m.BasicQosOk)
    client.call(m.BasicConsume(queue=name, consumer_tag="c"), m.BasicConsumeOk)
    for number in range(20):
        client.publish(b"%d" % number, name, properties=properties)
        if pause_ms:
            ground.wait(pause_ms)
    assert [client.delivery()[2] for _ in range(20)] == [b"%d" % each for each in range(20)]
    client.publish(b"too much", name, properties=properties)
    ground.wait(1_000)
    assert client.count(name) == (0, 1)
    assert client.silent(100)
