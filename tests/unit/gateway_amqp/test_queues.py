"""queue.declare, delete and purge: arguments, equivalence, exclusive and auto-delete queues."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.gateway.queueing import sweeping
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from tests.unit.gateway_amqp.kit import AmqpClient, Ground


def options_of(ground: Ground, queue: str) -> dict[str, str]:
    broker = next(iter(ground.cluster.brokers.values()))
    found = dict(broker.state.queues[QueueName("/", queue)].options)
    assert found.pop("amqp.declaration")
    return found


def test_arguments_become_options(ground: Ground, client: AmqpClient) -> None:
    target = client.queue()
    arguments: dict[str, object] = {
        "x-message-ttl": 60_000,
        "x-max-length": 10,
        "x-max-length-bytes": 1_000,
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": target,
        "x-max-priority": 5,
        "x-single-active-consumer": True,
        "x-queue-type": "quorum",
        # So many times it may come again.
        "x-delivery-limit": 3,
        "x-delayed-retry-min": 100,
        "x-delayed-retry-max": 900,
    }
    assert options_of(ground, client.queue(**arguments)) == {
        "message.ttl.ms": "60000",
        "max.length": "10",
        "max.length.bytes": "1000",
        "overflow": "reject-publish",
        "dead.letter.queue": target,
        "max.priority": "5",
        "sharing": "single-active",
        "delivery.limit": "4",
        "delayed.retry.min.ms": "100",
        "delayed.retry.max.ms": "900",
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-message-ttl", "soon"),
        ("x-message-ttl", -1),
        ("x-expires", 0),
        ("x-max-priority", 256),
        ("x-max-length", True),
        ("x-overflow", "drop-tail"),
        ("x-queue-type", "ring"),
        ("x-single-active-consumer", 1),
        ("x-dead-letter-routing-key", "alone"),
    ],
)
def test_an_argument_that_is_wrong_is_named(client: AmqpClient, name: str, value: object) -> None:
    client.send(1, m.QueueDeclare(queue="wrong", durable=True, arguments={name: value}))
    client.fails_channel(406, f"invalid arg '{name}'")
    client.send(1, m.QueueDeclare(queue="wrong", passive=True))
    client.fails_channel(404, "no queue 'wrong' in vhost '/'")


def test_priorities_beyond_ours_are_as_our_highest(client: AmqpClient) -> None:
    name = client.queue(**{"x-max-priority": 255})
    again = m.QueueDeclare(queue=name, durable=True, arguments={"x-max-priority": 255})
    client.call(again, m.QueueDeclareOk)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for priority in (0, 40, 200, 30):
        client.publish(b"%d" % priority, name, properties=Properties(priority=priority))
        client.expect(m.BasicAck)
    found = [client.get(name, no_ack=True)[2] for _ in range(4)]
    assert found == [b"40", b"200", b"30", b"0"]


def test_a_queue_has_as_many_replicas_as_there_are_brokers_at_most(client: AmqpClient) -> None:
    """As with RabbitMQ: definitions of a cluster are brought to one broker."""
    client.queue(**{"x-queue-type": "quorum", "x-quorum-initial-group-size": 3})
    client.queue(**{"x-queue-type": "stream", "x-quorum-initial-group-size": 3})


def test_the_same_declaration_again_is_well(client: AmqpClient) -> None:
    name = client.queue(**{"x-max-length": 3})
    client.publish(b"one", name)
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    client.publish(b"two", name)
    client.expect(m.BasicAck)
    again = m.QueueDeclare(queue=name, durable=True, arguments={"x-max-length": 3})
    ok = client.call(again, m.QueueDeclareOk)
    assert (ok.message_count, ok.consumer_count) == (2, 0)


@pytest.mark.parametrize(
    ("declare", "text"),
    [
        (m.QueueDeclare(), "inequivalent arg 'durable'"),
        (m.QueueDeclare(durable=True, auto_delete=True), "inequivalent arg 'auto_delete'"),
        (
            m.QueueDeclare(durable=True, arguments={"x-max-length": 4}),
            "inequivalent arg 'x-max-length' for queue",
        ),
        (m.QueueDeclare(durable=True, arguments={"x-queue-type": "quorum"}), "'x-queue-type'"),
    ],
)
def test_another_declaration_is_refused(
    client: AmqpClient, declare: m.QueueDeclare, text: str
) -> None:
    name = client.queue()
    values = {each: getattr(declare, each) for each in m.QueueDeclare.__struct_fields__}
    client.send(1, m.QueueDeclare(**{**values, "queue": name}))
    client.fails_channel(406, text)


def test_a_name_is_made_up_and_the_empty_one_means_it(client: AmqpClient) -> None:
    client.send(1, m.QueueDeclare(queue=""))
    name = client.expect(m.QueueDeclareOk).queue
    assert name.startswith("amq.gen-")
    client.publish(b"x", name)
    client.call(m.QueuePurge(), m.QueuePurgeOk)
    assert client.call(m.QueueDelete(), m.QueueDeleteOk).message_count == 0
    # It may not be asked for by name.
    client.send(1, m.QueueDeclare(queue="amq.mine"))
    client.fails_channel(403, "contains reserved prefix 'amq.*'")


def test_no_name_means_nothing_before_a_declaration(client: AmqpClient) -> None:
    client.send(1, m.BasicConsume())
    client.fails_channel(404, "NOT_FOUND - no previously declared queue")


def test_nowait_is_answered_with_nothing(client: AmqpClient) -> None:
    client.send(1, m.QueueDeclare(queue="quiet", nowait=True))
    client.send(1, m.QueueDelete(queue="quiet", nowait=True))
    assert client.silent()


def test_an_exclusive_queue_is_its_connections_own(ground: Ground, client: AmqpClient) -> None:
    client.call(m.QueueDeclare(queue="mine", exclusive=True), m.QueueDeclareOk)
    client.call(m.QueueDeclare(queue="mine", exclusive=True), m.QueueDeclareOk)
    other = ground.client()
    other.open()
    for method in (
        m.QueueDeclare(queue="mine", exclusive=True),
        m.QueueDeclare(queue="mine", passive=True),
        m.BasicConsume(queue="mine"),
        m.BasicGet(queue="mine"),
        m.QueuePurge(queue="mine"),
        m.QueueDelete(queue="mine"),
    ):
        other.send(1, method)
        other.fails_channel(405, "cannot obtain exclusive access to locked queue 'mine'")
    other.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    other.publish(b"x", "mine")
    other.expect(m.BasicAck)
    assert client.get("mine")[2] == b"x"
    client.client.link.abort()
    ground.wait(2_000)
    other.send(1, m.QueueDeclare(queue="mine", passive=True))
    other.fails_channel(404)


def test_a_queue_is_exclusive_or_not_each_time_that_it_is_declared(client: AmqpClient) -> None:
    shared = client.queue()
    client.send(1, m.QueueDeclare(queue=shared, durable=True, exclusive=True))
    client.fails_channel(405, "cannot obtain exclusive access to locked queue")
    client.call(m.QueueDeclare(queue="mine", exclusive=True), m.QueueDeclareOk)
    client.send(1, m.QueueDeclare(queue="mine"))
    client.fails_channel(405, "cannot obtain exclusive access to locked queue 'mine'")
    client.call(m.QueueDeclare(queue="mine", passive=True), m.QueueDeclareOk)


def test_no_name_is_made_up_for_a_queue_that_is_looked_for(client: AmqpClient) -> None:
    client.send(1, m.QueueDeclare(passive=True))
    client.fails_channel(404, "no queue '' in vhost '/'")


def test_an_auto_delete_queue_goes_with_its_last_consumer(
    ground: Ground, client: AmqpClient
) -> None:
    client.call(m.QueueDeclare(queue="passing", auto_delete=True), m.QueueDeclareOk)
    for tag in ("a", "b"):
        client.call(m.BasicConsume(queue="passing", consumer_tag=tag), m.BasicConsumeOk)
    client.call(m.BasicCancel(consumer_tag="a"), m.BasicCancelOk)
    ground.wait(1_000)
    assert client.count("passing") == (0, 1)
    client.call(m.BasicCancel(consumer_tag="b"), m.BasicCancelOk)
    ground.wait(1_000)
    client.send(1, m.QueueDeclare(queue="passing", passive=True))
    client.fails_channel(404)


def test_purge_and_delete_say_how_many(client: AmqpClient) -> None:
    name = client.queue()
    client.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for body in (b"1", b"2"):
        client.publish(body, name)
        client.expect(m.BasicAck)
    client.send(1, m.QueueDelete(queue=name, if_empty=True))
    client.fails_channel(406, "not empty")
    assert client.call(m.QueuePurge(queue=name), m.QueuePurgeOk).message_count == 2
    client.publish(b"3", name)
    client.call(m.BasicConsume(queue=name, consumer_tag="c"), m.BasicConsumeOk)
    client.delivery()
    client.send(1, m.QueueDelete(queue=name, if_unused=True))
    client.fails_channel(406, "in use")
    assert client.call(m.QueueDelete(queue=name), m.QueueDeleteOk).message_count == 1
    # What is not there any more is deleted.
    assert client.call(m.QueueDelete(queue=name), m.QueueDeleteOk).message_count == 0


def test_who_consumes_a_deleted_queue_is_told(ground: Ground, client: AmqpClient) -> None:
    name = client.queue()
    client.call(m.BasicConsume(queue=name, consumer_tag="c"), m.BasicConsumeOk)
    other = ground.client()
    other.open()
    other.call(m.QueueDelete(queue=name), m.QueueDeleteOk)
    assert client.expect(m.BasicCancel) == m.BasicCancel(consumer_tag="c", nowait=True)


def test_who_may_have_no_more_messages_is_told_of_a_deletion_at_once(
    ground: Ground, client: AmqpClient
) -> None:
    name = client.queue()
    client.publish(b"1", name)
    client.call(m.BasicQos(prefetch_count=1), m.BasicQosOk)
    client.call(m.BasicConsume(queue=name, consumer_tag="c"), m.BasicConsumeOk)
    client.delivery()
    # It asks the queue's leader for nothing while it has this one.
    ground.wait(1_000)
    other = ground.client()
    other.open()
    other.call(m.QueueDelete(queue=name), m.QueueDeleteOk)
    assert not client.silent(500)
    assert client.expect(m.BasicCancel) == m.BasicCancel(consumer_tag="c", nowait=True)


def test_a_queue_that_nobody_uses_expires(ground: Ground, client: AmqpClient) -> None:
    used, idle = client.queue(**{"x-expires": 20_000}), client.queue(**{"x-expires": 20_000})
    client.call(m.BasicConsume(queue=used, consumer_tag="c"), m.BasicConsumeOk)
    ground.wait(15_000)
    # Asking for it is a use.
    assert client.count(idle) == (0, 0)
    ground.wait(15_000)
    assert client.count(idle) == (0, 0)
    ground.wait(40_000)
    assert client.count(used) == (0, 1)
    client.send(1, m.QueueDeclare(queue=idle, passive=True))
    client.fails_channel(404)


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_a_queue_goes_soon_after_its_time(broker: int) -> None:
    ground = Ground(seed=broker, brokers=3)
    client = ground.client(broker)
    client.open()
    used, idle = (client.queue(**{"x-expires": each}) for each in (1_000, 1_000))
    client.call(m.BasicConsume(queue=used, consumer_tag="c"), m.BasicConsumeOk)
    ground.wait(2_500)
    client.send(1, m.QueueDeclare(queue=idle, passive=True))
    client.fails_channel(404)
    ground.wait(20_000)
    # Its channel has failed, and the consumer with it: it was there until then.
    other = ground.client(broker)
    other.open()
    kept = other.queue(**{"x-expires": 7_000})
    ground.wait(6_000)
    assert other.count(kept) == (0, 0)
    ground.wait(6_000)
    assert other.count(kept) == (0, 0)
    ground.wait(8_500)
    for name in (used, kept):
        other.send(1, m.QueueDeclare(queue=name, passive=True))
        other.fails_channel(404)


def test_no_queue_keeps_others_from_expiring(
    ground: Ground, client: AmqpClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep looks at so many, and the next one at those behind them."""
    monkeypatch.setattr(sweeping, "ASKED_MAX", 1)
    used, idle = client.queue(**{"x-expires": 20_000}), client.queue(**{"x-expires": 20_000})
    client.call(m.BasicConsume(queue=used, consumer_tag="c"), m.BasicConsumeOk)
    ground.wait(60_000)
    client.send(1, m.QueueDeclare(queue=idle, passive=True))
    client.fails_channel(404)


def test_an_exclusive_queue_goes_with_its_broker() -> None:
    ground = Ground(seed=3, brokers=3)
    first, second = ground.client(1), ground.client(2)
    first.open()
    second.open()
    first.call(m.QueueDeclare(queue="mine", exclusive=True), m.QueueDeclareOk)
    first.call(m.QueueDeclare(queue="again", exclusive=True), m.QueueDeclareOk)
    second.send(1, m.QueueDeclare(queue="mine", passive=True))
    second.fails_channel(405)
    ground.restart(1)
    # Whoever wants the name has it at once, and what nobody wants goes soon.
    second.call(m.QueueDeclare(queue="mine", exclusive=True), m.QueueDeclareOk)
    ground.wait(15_000)
    second.send(1, m.QueueDeclare(queue="again", passive=True))
    second.fails_channel(404)
