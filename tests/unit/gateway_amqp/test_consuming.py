"""basic.consume, get, ack, nack, reject, recover and qos."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.broker.doors.queues import Queues
from kafkaesque.broker.requests.queue_requests import AnyQueueRequest
from kafkaesque.gateway.amqp.connection import AmqpConnection
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.frames import METHOD, write_frame
from kafkaesque.protocols.amqp.method_codec import write_method
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.sim.cluster import AMQP_PORT
from tests.unit.gateway_amqp.kit import AmqpClient, Ground


def consume(
    client: AmqpClient, queue: str, *, channel: int = 1, tag: str = "c", **more: Any
) -> None:
    client.call(m.BasicConsume(queue=queue, consumer_tag=tag, **more), m.BasicConsumeOk, channel)


def filled(client: AmqpClient, count: int, **arguments: object) -> str:
    """A queue with messages 0 to `count` - 1."""
    name = client.queue(**arguments)
    for number in range(count):
        client.publish(b"%d" % number, name)
    return name


def tags(client: AmqpClient, count: int, channel: int = 1) -> list[int]:
    return [client.delivery(channel)[0].delivery_tag for _ in range(count)]


def test_a_prefetch_bounds_what_is_unacknowledged(client: AmqpClient) -> None:
    name = filled(client, 5)
    client.call(m.BasicQos(prefetch_count=2), m.BasicQosOk)
    consume(client, name)
    assert tags(client, 2) == [1, 2]
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=1))
    assert tags(client, 1) == [3]
    client.send(1, m.BasicAck(delivery_tag=3, multiple=True))
    assert tags(client, 2) == [4, 5]


def test_a_prefetch_is_each_consumers_own(client: AmqpClient) -> None:
    first, second = filled(client, 3), filled(client, 3)
    client.call(m.BasicQos(prefetch_count=1), m.BasicQosOk)
    consume(client, first, tag="a")
    consume(client, second, tag="b")
    assert {client.delivery()[0].consumer_tag for _ in range(2)} == {"a", "b"}
    assert client.silent()


def test_a_global_prefetch_is_the_channels(client: AmqpClient) -> None:
    first, second = filled(client, 3), filled(client, 3)
    client.call(m.BasicQos(prefetch_count=2, is_global=True), m.BasicQosOk)
    consume(client, first, tag="a")
    consume(client, second, tag="b")
    seen = [client.delivery() for _ in range(2)]
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=0, multiple=True))
    seen += [client.delivery() for _ in range(2)]
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=0, multiple=True))
    seen += [client.delivery() for _ in range(2)]
    by_tag = {tag: [each[2] for each in seen if each[0].consumer_tag == tag] for tag in "ab"}
    assert by_tag == {"a": [b"0", b"1", b"2"], "b": [b"0", b"1", b"2"]}


def test_what_nobody_was_sent_does_not_come_again(client: AmqpClient) -> None:
    """It was on its way when the channel could have no more, and went back."""
    name = filled(client, 1)
    consume(client, name)
    (first,) = tags(client, 1)
    client.call(m.BasicQos(prefetch_count=1, is_global=True), m.BasicQosOk)
    client.publish(b"1", name)
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=first))
    method, properties, body = client.delivery()
    assert (body, method.redelivered) == (b"1", False)
    assert not properties.headers
    client.send(1, m.BasicReject(delivery_tag=method.delivery_tag, requeue=True))
    method, properties, _ = client.delivery()
    assert method.redelivered
    assert properties.headers == {"x-acquired-count": 2, "x-delivery-count": 1}


def test_what_is_not_acknowledged_comes_again_and_says_so(
    ground: Ground, client: AmqpClient
) -> None:
    name = filled(client, 2)
    consume(client, name)
    first = client.delivery()[0]
    assert not first.redelivered
    client.send(1, m.BasicAck(delivery_tag=first.delivery_tag))
    client.delivery()
    client.call(m.ChannelClose(), m.ChannelCloseOk)
    client.open()
    consume(client, name)
    again, _, body = client.delivery()
    assert (again.redelivered, again.delivery_tag, body) == (True, 1, b"1")
    client.client.link.abort()
    ground.wait(500)
    other = ground.client()
    other.open()
    got, properties, body = other.get(name)
    assert (got.redelivered, body) == (True, b"1")
    # A connection that was lost is an attempt that has failed; a channel that was closed is none.
    assert properties.headers == {"x-delivery-count": 1, "x-acquired-count": 2}


def test_requeued_messages_return_to_their_places(client: AmqpClient) -> None:
    name = filled(client, 3)
    client.call(m.BasicQos(prefetch_count=2), m.BasicQosOk)
    consume(client, name)
    tags(client, 2)
    client.send(1, m.BasicNack(delivery_tag=2, multiple=True, requeue=True))
    seen = [client.delivery() for _ in range(2)]
    assert [(each[2], each[0].redelivered) for each in seen] == [(b"0", True), (b"1", True)]
    assert (seen[0][1].headers or {}).get("x-delivery-count") is None
    client.send(1, m.BasicReject(delivery_tag=3, requeue=True))
    again, properties, body = client.delivery()
    assert (again.redelivered, body) == (True, b"0")
    assert (properties.headers or {})["x-delivery-count"] == 1


def test_rejected_messages_go_to_the_dead_letters(client: AmqpClient) -> None:
    target = client.queue()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    name = filled(client, 2, **arguments)
    consume(client, name)
    tags(client, 2)
    client.send(1, m.BasicReject(delivery_tag=1, requeue=False))
    client.send(1, m.BasicNack(delivery_tag=2, requeue=False))
    consume(client, target, tag="dead")
    for expected in (b"0", b"1"):
        deliver, properties, body = client.delivery()
        assert (deliver.consumer_tag, body) == ("dead", expected)
        assert (properties.headers or {})["x-last-death-reason"] == "rejected"


def test_an_expired_message_says_when_it_was_to_expire(client: AmqpClient) -> None:
    target = client.queue()
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": target}
    name = client.queue(**arguments)
    client.publish(b"x", name, properties=Properties(expiration="300"))
    consume(client, target)
    _, properties, _ = client.delivery()
    assert properties.expiration is None
    headers: dict[str, Any] = properties.headers or {}
    (death,) = headers["x-death"]
    assert (death["reason"], death["original-expiration"]) == ("expired", "300")


def test_attempts_are_used_up(client: AmqpClient) -> None:
    target = client.queue()
    arguments: dict[str, object] = {
        "x-delivery-limit": 1,
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
    }
    name = filled(client, 1, **arguments)
    consume(client, name)
    for _ in range(2):
        tag = client.delivery()[0].delivery_tag
        client.send(1, m.BasicReject(delivery_tag=tag, requeue=True))
    consume(client, target, tag="dead")
    deliver, properties, _ = client.delivery()
    assert deliver.consumer_tag == "dead"
    assert (properties.headers or {})["x-first-death-reason"] == "delivery_limit"


def test_a_rejected_message_without_dead_letters_is_gone(client: AmqpClient) -> None:
    name = filled(client, 1)
    tag = client.get(name)[0].delivery_tag
    client.send(1, m.BasicReject(delivery_tag=tag, requeue=False))
    client.call(m.ChannelClose(), m.ChannelCloseOk)
    client.open()
    assert client.count(name) == (0, 0)


@pytest.mark.parametrize(
    "method",
    [
        m.BasicAck(delivery_tag=1),
        m.BasicAck(delivery_tag=7, multiple=True),
        m.BasicNack(delivery_tag=1),
        m.BasicReject(delivery_tag=1),
    ],
)
def test_an_unknown_tag_closes_the_channel(client: AmqpClient, method: m.Method) -> None:
    client.send(1, method)
    client.fails_channel(406, "unknown delivery tag")


def test_many_are_acknowledged_up_to_a_tag_that_is_known(client: AmqpClient) -> None:
    name = filled(client, 2)
    for _ in range(2):
        client.get(name)
    client.send(1, m.BasicAck(delivery_tag=3, multiple=True))
    client.fails_channel(406, "unknown delivery tag 3")


def test_what_is_acknowledged_together_is_one_request_and_comes_before_the_next(
    client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = filled(client, 5)
    consume(client, name)
    assert tags(client, 5) == [1, 2, 3, 4, 5]
    asked: list[str] = []

    def ask(door: Queues, request: AnyQueueRequest, *more: Any) -> None:
        asked.append(type(request).__name__)
        send_on(door, request, *more)

    send_on = Queues.ask_whole
    monkeypatch.setattr(Queues, "ask_whole", ask)
    methods: list[m.Method] = [m.BasicAck(delivery_tag=tag) for tag in (1, 2, 3, 4, 5)]
    methods.append(m.BasicGet(queue=name))
    client.write(b"".join(write_frame(METHOD, 1, write_method(each)) for each in methods))
    client.expect(m.BasicGetEmpty)
    assert [each for each in asked if each.startswith(("Settle", "Take"))] == [
        "SettleMessages",
        "TakeMessages",
    ]


def test_a_tag_is_acknowledged_once(client: AmqpClient) -> None:
    tag = client.get(filled(client, 1))[0].delivery_tag
    client.send(1, m.BasicAck(delivery_tag=tag))
    client.send(1, m.BasicAck(delivery_tag=tag))
    client.fails_channel(406, "unknown delivery tag 1")


def test_recover_brings_back_what_the_channel_has(client: AmqpClient) -> None:
    name = filled(client, 2)
    consume(client, name)
    tags(client, 2)
    client.send(1, m.BasicRecover(requeue=True))
    client.expect(m.BasicRecoverOk)
    assert [client.delivery()[0].redelivered for _ in range(2)] == [True, True]


def test_what_needs_no_acknowledgement_has_a_tag_that_is_unknown(client: AmqpClient) -> None:
    name = filled(client, 3)
    consume(client, name, no_ack=True)
    assert tags(client, 3) == [1, 2, 3]
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    assert client.count(name) == (0, 0)
    client.send(1, m.BasicAck(delivery_tag=3))
    client.fails_channel(406)


def test_who_cancels_may_still_acknowledge(ground: Ground, client: AmqpClient) -> None:
    name = filled(client, 2)
    consume(client, name)
    tags(client, 2)
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    client.publish(b"later", name)
    assert client.silent()
    client.send(1, m.BasicAck(delivery_tag=2, multiple=True))
    ground.wait(200)
    assert client.count(name) == (1, 0)
    # Cancelling what is not there is well.
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)


def test_what_a_cancelled_consumer_had_comes_again_when_its_channel_ends(
    ground: Ground, client: AmqpClient
) -> None:
    name = filled(client, 3)
    consume(client, name)
    tags(client, 3)
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    client.send(1, m.BasicAck(delivery_tag=2, multiple=False))
    client.call(m.ChannelClose(reply_code=200, reply_text=""), m.ChannelCloseOk)
    ground.wait(200)
    client.open()
    assert client.count(name) == (2, 0)


def test_a_cancelled_consumer_that_waited_takes_nothing(client: AmqpClient) -> None:
    name = client.queue()
    consume(client, name)
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    client.publish(b"x", name)
    got, _, _ = client.get(name)
    assert not got.redelivered


def test_what_a_client_had_that_is_dismissed_comes_again_at_once(
    ground: Ground, client: AmqpClient
) -> None:
    name = client.queue()
    client.publish(b"x", name)
    client.call(m.BasicConsume(queue=name), m.BasicConsumeOk)
    assert client.delivery()[2] == b"x"
    (connection,) = ground.cluster._gateways["b1"][AMQP_PORT].connections.values()
    assert isinstance(connection, AmqpConnection)
    other = ground.client()
    other.open()
    other.call(m.BasicConsume(queue=name), m.BasicConsumeOk)
    # A client that does not read does not hang up, either.
    client.client.link.pause_reading()
    connection.dismiss("somebody wants it")
    assert not other.silent(500)
    delivered, _, body = other.delivery()
    assert (delivered.redelivered, body) == (True, b"x")
    client.client.link.resume_reading()
    assert client.expect(m.ConnectionClose, 0).reply_code == 320


def test_a_tag_is_used_once_in_a_channel(client: AmqpClient) -> None:
    name = client.queue()
    consume(client, name)
    client.open(2)
    consume(client, name, channel=2)
    client.send(1, m.BasicConsume(queue=name, consumer_tag="c"))
    client.fails(530, "attempt to reuse consumer tag 'c'")


def test_tags_are_made_up(client: AmqpClient) -> None:
    ok = client.call(m.BasicConsume(queue=client.queue()), m.BasicConsumeOk)
    assert ok.consumer_tag.startswith("amq.ctag-")


def test_an_exclusive_consumer_is_alone(ground: Ground, client: AmqpClient) -> None:
    name = client.queue()
    consume(client, name, exclusive=True)
    other = ground.client()
    other.open()
    other.send(1, m.BasicConsume(queue=name))
    other.fails_channel(403, f"queue '{name}' in vhost '/' in exclusive use")
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    consume(other, name)
    client.send(1, m.BasicConsume(queue=name, exclusive=True))
    client.fails_channel(403, "in exclusive use")


def test_an_exclusive_consumer_that_is_cancelled_leaves_the_queue_to_others(
    ground: Ground, client: AmqpClient
) -> None:
    name = filled(client, 1)
    consume(client, name, exclusive=True)
    tags(client, 1)
    client.call(m.BasicCancel(consumer_tag="c"), m.BasicCancelOk)
    assert client.count(name) == (0, 0)
    other = ground.client()
    other.open()
    consume(other, name, exclusive=True)
    client.send(1, m.BasicNack(delivery_tag=1, requeue=True))
    assert other.delivery()[2] == b"0"


def test_a_higher_priority_comes_first_as_long_as_it_takes_some(
    ground: Ground, client: AmqpClient
) -> None:
    name = client.queue()
    consume(client, name, tag="low")
    other = ground.client()
    other.open()
    other.call(m.BasicQos(prefetch_count=3), m.BasicQosOk)
    consume(other, name, tag="high", arguments={"x-priority": 10})
    for number in range(3):
        client.publish(b"%d" % number, name)
        assert other.delivery()[2] == b"%d" % number
    client.publish(b"3", name)
    assert client.delivery()[2] == b"3"
    other.send(1, m.BasicAck(delivery_tag=0, multiple=True))
    assert other.silent(100)
    client.publish(b"4", name)
    assert other.delivery()[2] == b"4"
    assert client.silent()


def test_messages_that_wait_come_by_their_priority_whatever_the_prefetch_is(
    client: AmqpClient,
) -> None:
    name = client.queue(**{"x-max-priority": 5})
    for priority in (1, 5, 0, 9, 3):
        properties = Properties(priority=priority)
        client.publish(b"%d" % priority, name, properties=properties)
    # A declaration is answered behind what was published before.
    assert client.count(name) == (5, 0)
    consume(client, name)
    # 9 is as high as the queue's highest, and came later.
    assert [client.delivery()[2] for _ in range(5)] == [b"5", b"9", b"3", b"1", b"0"]


@pytest.mark.parametrize("priority", ["5", True, 2**31, 1.5])
def test_a_priority_that_is_no_number_is_refused(client: AmqpClient, priority: object) -> None:
    name = client.queue()
    client.send(1, m.BasicConsume(queue=name, arguments={"x-priority": priority}))
    client.fails_channel(406, "x-priority")


def test_one_of_several_consumers_is_active(ground: Ground, client: AmqpClient) -> None:
    name = client.queue(**{"x-single-active-consumer": True})
    consume(client, name)
    other = ground.client()
    other.open()
    consume(other, name)
    client.publish(b"0", name)
    client.publish(b"1", name)
    tags(client, 2)
    assert other.silent()
    other.send(1, m.BasicGet(queue=name))
    other.fails_channel(405, "single active consumer")
    consume(other, name)
    client.client.link.abort()
    assert [other.delivery()[2] for _ in range(2)] == [b"0", b"1"]


def test_a_consumer_timeout_gives_back_and_leaves_the_channel(
    ground: Ground, client: AmqpClient
) -> None:
    name = filled(client, 1, **{"x-consumer-timeout": 1_000})
    consume(client, name)
    first = client.delivery()[0]
    again = client.delivery()[0]
    assert (first.redelivered, again.redelivered) == (False, True)
    client.send(1, m.BasicAck(delivery_tag=again.delivery_tag))
    ground.wait(2_000)
    assert client.count(name) == (0, 1)


def test_what_was_fetched_singly_is_held_for_as_long_as_the_channel(
    ground: Ground, client: AmqpClient
) -> None:
    name = filled(client, 1)
    client.get(name)
    ground.wait(180_000)
    client.call(m.BasicGet(queue=name), m.BasicGetEmpty)
    assert client.count(name) == (0, 0)
    client.call(m.ChannelClose(), m.ChannelCloseOk)
    client.open()
    assert client.get(name)[0].redelivered


def test_answers_come_by_direct_reply_to(ground: Ground, client: AmqpClient) -> None:
    requests = client.queue()
    consume(client, "amq.rabbitmq.reply-to", no_ack=True)
    client.publish(b"?", requests, properties=Properties(reply_to="amq.rabbitmq.reply-to"))
    server = ground.client()
    server.open()
    _, properties, _ = server.get(requests)
    assert properties.reply_to is not None
    assert properties.reply_to.startswith("amq.rabbitmq.reply-to.")
    # Before it works hard it finds out whether anybody still waits for the answer.
    for is_passive in (True, False):
        asked = m.QueueDeclare(queue=properties.reply_to, passive=is_passive)
        told = server.call(asked, m.QueueDeclareOk)
        assert (told.queue, told.message_count, told.consumer_count) == (properties.reply_to, 0, 1)
    server.publish(b"!", properties.reply_to)
    deliver, _, body = client.delivery()
    assert (deliver.consumer_tag, body) == ("c", b"!")
    client.call(m.ChannelClose(), m.ChannelCloseOk)
    ground.wait(1_000)
    server.send(1, m.QueueDeclare(queue=properties.reply_to))
    server.fails_channel(404, "no queue 'amq.rabbitmq.reply-to.")
    server.publish(b"late", properties.reply_to, mandatory=True)
    assert server.message(m.BasicReturn)[2] == b"late"


def test_a_client_that_does_not_read_costs_nobody_else_anything(ground: Ground) -> None:
    slow, other = ground.client(), ground.client()
    slow.open()
    other.open()
    name = slow.queue()
    slow.client.link.pause_reading()
    slow.send(1, m.BasicConsume(queue=name, consumer_tag="c", no_ack=True))
    body = bytes(100_000)
    other.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for _ in range(100):
        other.publish(body, name)
    ground.wait(5_000)
    # It has taken what fits on the way, and the rest is there for others.
    third = ground.client()
    third.open()
    assert 50 < third.count(name)[0] < 100
