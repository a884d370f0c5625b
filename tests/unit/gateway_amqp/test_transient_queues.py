"""Queues that go with a connection are in its broker's memory: exclusive ones, and replies."""

from __future__ import annotations

import pytest

from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from tests.unit.gateway_amqp.kit import AmqpClient, Ground

REPLY_TO = "amq.rabbitmq.reply-to"


@pytest.fixture
def three() -> Ground:
    return Ground(seed=45, brokers=3)


def opened(ground: Ground, broker: int) -> AmqpClient:
    client = ground.client(broker)
    client.open()
    return client


def queues_of(ground: Ground) -> dict[str, QueueState]:
    broker = list(ground.cluster.brokers.values())[-1]
    return {each.queue.name: each for each in broker.state.queues.values()}


@pytest.mark.parametrize(("exclusive", "durable"), [(True, False), (True, True), (False, False)])
def test_what_is_exclusive_and_not_durable_is_transient(
    three: Ground, exclusive: bool, durable: bool
) -> None:
    client = opened(three, 2)
    declare = m.QueueDeclare(queue="mine", exclusive=exclusive, durable=durable)
    client.call(declare, m.QueueDeclareOk)
    home = queues_of(three)["mine"].home
    assert (home is not None) == (exclusive and not durable)
    assert home is None or home.node == int(three.cluster.names[1].removeprefix("b"))
    client.call(declare, m.QueueDeclareOk)


def test_an_answer_finds_its_way_from_any_broker(three: Ground) -> None:
    asking, answering = opened(three, 1), opened(three, 3)
    work = answering.queue()
    answering.call(m.BasicConsume(queue=work, consumer_tag="w"), m.BasicConsumeOk)
    asking.call(m.BasicConsume(queue=REPLY_TO, no_ack=True, consumer_tag="r"), m.BasicConsumeOk)
    for number in range(20):
        asking.publish(b"%d" % number, work, properties=Properties(reply_to=REPLY_TO))
        deliver, properties, body = answering.delivery()
        answering.send(1, m.BasicAck(delivery_tag=deliver.delivery_tag))
        assert properties.reply_to is not None
        answering.publish(b"re " + body, properties.reply_to)
        assert asking.delivery()[2] == b"re %d" % number
    assert [each.home is not None for each in queues_of(three).values()].count(True) == 1
    asking.client.link.close()
    three.wait(3_000)
    assert list(queues_of(three)) == [work]


def test_a_broker_that_dies_with_a_subscribers_queue_holds_up_no_publisher_for_long(
    three: Ground,
) -> None:
    subscriber, publisher = opened(three, 1), opened(three, 2)
    subscriber.call(m.QueueDeclare(queue="lost", exclusive=True), m.QueueDeclareOk)
    kept = publisher.queue()
    for queue in ("lost", kept):
        client = subscriber if queue == "lost" else publisher
        client.call(m.QueueBind(queue=queue, exchange="amq.fanout"), m.QueueBindOk)
    publisher.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    publisher.publish(b"0", "", exchange="amq.fanout")
    assert isinstance(publisher.next(), m.BasicAck)
    three.kill(1)
    began_ms = three.env.clock.now_ms()
    for number in range(1, 4):
        publisher.publish(b"%d" % number, "", exchange="amq.fanout")
        assert isinstance(publisher.next(), m.BasicAck | m.BasicNack)
    assert three.env.clock.now_ms() - began_ms < 5_000
    publisher.publish(b"4", "", exchange="amq.fanout")
    assert isinstance(publisher.next(), m.BasicAck)
    three.wait(10_000)
    assert list(queues_of(three)) == [kept]


def test_a_subscriber_that_reads_nothing_holds_a_bounded_memory_and_publishers_are_told(
    three: Ground,
) -> None:
    subscriber, publisher = opened(three, 1), opened(three, 2)
    subscriber.call(m.QueueDeclare(queue="slow", exclusive=True), m.QueueDeclareOk)
    publisher.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    publisher.publish(b"first", "slow")
    assert isinstance(publisher.next(), m.BasicAck)
    home = three.cluster.brokers[three.cluster.names[0]]
    host = home.queue_hosts.find(queues_of(three)["slow"].topic_id, 0)
    assert host is not None
    host.log.queue_bytes_max = 100_000  # type: ignore[attr-defined]
    answers: list[m.Method] = []
    for _ in range(30):
        publisher.publish(bytes(10_000), "slow")
        answers.append(publisher.next())  # type: ignore[arg-type]
    assert {type(each) for each in answers[:5]} == {m.BasicAck}
    assert {type(each) for each in answers[-5:]} == {m.BasicNack}
    assert home.queue_hosts.memory.used <= 100_000


def test_a_queue_that_died_with_its_broker_is_not_there_for_publishers_and_may_be_made_again(
    three: Ground,
) -> None:
    owner, other = opened(three, 1), opened(three, 2)
    for name, durable in (("memory", False), ("log", True)):
        declare = m.QueueDeclare(queue=name, exclusive=True, durable=durable)
        owner.call(declare, m.QueueDeclareOk)
    other.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    three.kill(1)
    began_ms = three.env.clock.now_ms()
    # What is under way is in no queue: it may not be confirmed.
    other.publish(b"1", "memory", mandatory=True)
    assert isinstance(other.next(), m.BasicNack)
    other.publish(b"2", "memory", mandatory=True)
    assert other.message(m.BasicReturn)[0].reply_code == 312
    assert isinstance(other.next(), m.BasicAck)
    for name in ("memory", "log"):
        declared = m.QueueDeclare(queue=name, exclusive=True)
        assert other.call(declared, m.QueueDeclareOk).message_count == 0
    assert three.env.clock.now_ms() - began_ms < 5_000
    other.publish(b"3", "memory", mandatory=True)
    assert isinstance(other.next(), m.BasicAck)
    assert other.get("memory")[2] == b"3"
