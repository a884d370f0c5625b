"""A queue's leader dies: what was confirmed comes, what was acknowledged does not come again."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from kafkaesque.broker.doors.queues import Queues
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.requests.queue_requests import AnyQueueRequest, SettleMessages
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.wire import Table
from tests.unit.gateway_amqp.kit import AmqpClient, Ground

#: How long an acknowledgement is tried to be brought, and more.
COMMIT_MS_MAX = 70_000


def leader_of(ground: Ground, queue: str) -> int:
    """Return which broker leads a queue, counted from 1."""
    broker = next(iter(ground.cluster.brokers.values()))
    group = broker.state.queues[QueueName("/", queue)].partitions[0].group
    ground.loop.run_until(lambda: broker.leaders.leader(group) is not None, 30_000)
    node = broker.leaders.leader(group)
    assert node is not None
    return int(node)


def drain(client: AmqpClient, count: int, seen: list[bytes]) -> None:
    """Receive and acknowledge until so many different messages have come."""
    while len(set(seen)) < count:
        deliver, _, body = client.delivery()
        seen.append(body)
        client.send(1, m.BasicAck(delivery_tag=deliver.delivery_tag))


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_dies_under_a_publisher_and_a_consumer(seed: int) -> None:
    ground = Ground(seed=100 + seed, brokers=3)
    setup = ground.client(1)
    setup.open()
    queue = setup.queue()
    leader = leader_of(ground, queue)
    here, there = (number for number in (1, 2, 3) if number != leader)
    publisher, consumer = ground.client(here), ground.client(there)
    publisher.open()
    consumer.open()
    publisher.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    consumer.call(m.BasicQos(prefetch_count=10), m.BasicQosOk)
    consumer.call(m.BasicConsume(queue=queue, consumer_tag="c"), m.BasicConsumeOk)
    seen: list[bytes] = []
    for number in range(40):
        publisher.publish(b"%d" % number, queue)
        if number == 20:
            drain(consumer, 5, seen)
            ground.kill(leader)
    outcome: dict[int, bool] = {}
    while len(outcome) < 40:
        answer = publisher.next()
        assert isinstance(answer, m.BasicAck | m.BasicNack), answer
        first = 1 if answer.multiple else answer.delivery_tag
        for tag in range(first, answer.delivery_tag + 1):
            outcome.setdefault(tag, isinstance(answer, m.BasicAck))
    confirmed = {b"%d" % (tag - 1) for tag, is_in in outcome.items() if is_in}
    # Of those that were on their way nobody knows; the ones behind them came to the next leader.
    assert len(confirmed) >= 19
    while not confirmed <= set(seen):
        drain(consumer, len(set(seen)) + 1, seen)
    ground.wait(20_000)
    # What came late is acknowledged, too, and nothing is left.
    while not consumer.silent(100):
        deliver, _, body = consumer.delivery()
        seen.append(body)
        consumer.send(1, m.BasicAck(delivery_tag=deliver.delivery_tag))
    ground.wait(2_000)
    assert publisher.call(
        m.QueueDeclare(queue=queue, passive=True), m.QueueDeclareOk
    ) == m.QueueDeclareOk(queue=queue, message_count=0, consumer_count=1)


def test_a_gateway_dies_and_its_messages_come_elsewhere() -> None:
    ground = Ground(seed=42, brokers=3)
    other = ground.client(1)
    other.open()
    queue = other.queue()
    leader = leader_of(ground, queue)
    dying = next(number for number in (2, 3) if number != leader)
    first = ground.client(dying)
    first.open()
    first.call(m.BasicConsume(queue=queue, consumer_tag="c"), m.BasicConsumeOk)
    other.publish(b"job", queue)
    assert not first.delivery()[0].redelivered
    ground.kill(dying)
    other.call(m.BasicConsume(queue=queue, consumer_tag="c"), m.BasicConsumeOk)
    deliver, _, body = other.delivery()
    assert (deliver.redelivered, body) == (True, b"job")


def test_a_commit_whose_acknowledgement_reaches_nobody_is_not_said_to_be_done() -> None:
    ground = Ground(seed=43, brokers=3)
    client = ground.client(1)
    client.open()
    queue = client.queue()
    client.publish(b"job", queue)
    tag = client.get(queue)[0].delivery_tag
    client.call(m.TxSelect(), m.TxSelectOk)
    client.send(1, m.BasicAck(delivery_tag=tag))
    for each in (2, 3):
        ground.kill(each)
    client.send(1, m.TxCommit())
    ground.wait(COMMIT_MS_MAX)
    client.fails(541, "the transaction is not committed as a whole")


def test_an_exclusive_consumer_is_alone_in_the_cluster() -> None:
    ground = Ground(seed=7, brokers=3)
    first, second = ground.client(1), ground.client(2)
    first.open()
    second.open()
    name = first.queue()
    first.call(m.BasicConsume(queue=name, exclusive=True), m.BasicConsumeOk)
    for exclusive in (False, True):
        second.send(1, m.BasicConsume(queue=name, exclusive=exclusive))
        second.fails_channel(403, f"queue '{name}' in vhost '/' in exclusive use")
    first.client.link.abort()
    ground.wait(2_000)
    second.call(m.BasicConsume(queue=name, exclusive=True), m.BasicConsumeOk)


def test_an_exclusive_consumer_stays_alone_when_the_leader_dies() -> None:
    ground = Ground(seed=8, brokers=3)
    setup = ground.client(1)
    setup.open()
    name = setup.queue()
    leader = leader_of(ground, name)
    here, there = (number for number in (1, 2, 3) if number != leader)
    owner, other = ground.client(here), ground.client(there)
    owner.open()
    other.open()
    owner.call(m.BasicConsume(queue=name, exclusive=True, consumer_tag="c"), m.BasicConsumeOk)
    ground.kill(leader)
    ground.wait(15_000)
    other.send(1, m.BasicConsume(queue=name))
    other.fails_channel(403, "in exclusive use")
    other.publish(b"x", name)
    assert owner.delivery()[2] == b"x"


def test_priorities_hold_across_brokers_and_a_change_of_leader() -> None:
    ground = Ground(seed=9, brokers=3)
    setup = ground.client(1)
    setup.open()
    name = setup.queue()
    leader = leader_of(ground, name)
    here, there = (number for number in (1, 2, 3) if number != leader)
    low, high = ground.client(here), ground.client(there)
    low.open()
    high.open()
    low.call(m.BasicConsume(queue=name, no_ack=True), m.BasicConsumeOk)
    arguments: Table = {"x-priority": 1}
    high.call(m.BasicConsume(queue=name, no_ack=True, arguments=arguments), m.BasicConsumeOk)
    publisher = ground.client(here)
    publisher.open()
    for number in range(20):
        if number == 10:
            ground.kill(leader)
            ground.wait(15_000)
        publisher.publish(b"%d" % number, name)
        assert high.delivery()[2] == b"%d" % number
    assert low.silent()


def test_a_consumer_that_may_have_no_more_keeps_its_queue_under_the_next_leader() -> None:
    """It asks for nothing, and so the next leader hears of it only when it shows itself."""
    ground = Ground(seed=4, brokers=3)
    setup = ground.client(1)
    setup.open()
    other, queue = setup.queue(), setup.queue(**{"x-expires": 2_000})
    leader = leader_of(ground, queue)
    client = ground.client(next(each for each in (1, 2, 3) if each != leader))
    client.open()
    client.call(m.BasicQos(prefetch_count=1, is_global=True), m.BasicQosOk)
    for name in (other, queue):
        client.call(m.BasicConsume(queue=name, consumer_tag=name), m.BasicConsumeOk)
    client.publish(b"first", other)
    tag = client.delivery()[0].delivery_tag
    client.publish(b"second", queue)
    # Until no request of before waits any more.
    ground.wait(35_000)
    ground.kill(leader)
    ground.wait(30_000)
    client.send(1, m.BasicAck(delivery_tag=tag))
    seen: list[bytes] = []
    while b"second" not in seen:
        drain(client, len(set(seen)) + 1, seen)


def restart(ground: Ground) -> AmqpClient:
    """Stop a broker that runs alone, start it again, and connect with it."""
    machine = ground.cluster._machines[ground.cluster.names[0]]
    ground.cluster.restart(machine)
    ground.loop.run_until(lambda: ground.cluster.is_back(machine), 60_000)
    client = ground.client()
    client.open()
    return client


def test_to_declare_a_queue_is_a_use_that_the_next_leader_knows_of() -> None:
    ground = Ground(seed=5)
    client = ground.client()
    client.open()
    used, idle = (client.queue(**{"x-expires": 250_000}) for _ in range(2))
    ground.wait(130_000)
    client = restart(ground)
    ground.wait(60_000)
    assert client.count(used) == (0, 0)
    client = restart(ground)
    ground.wait(100_000)
    assert client.count(used) == (0, 0)
    client.send(1, m.QueueDeclare(queue=idle, passive=True))
    client.fails_channel(404)


@pytest.mark.parametrize("others", [0, 1])
def test_a_queue_goes_with_its_last_consumer_when_that_is_gone_with_its_broker(
    others: int,
) -> None:
    ground = Ground(seed=44, brokers=3)
    setup = ground.client(1)
    setup.open()
    declare = m.QueueDeclare(queue="auto", durable=True, auto_delete=True)
    setup.call(declare, m.QueueDeclareOk)
    leader = leader_of(ground, "auto")
    dying, living = (number for number in (1, 2, 3) if number != leader)
    for number in (dying, *[living] * others):
        consumer = ground.client(number)
        consumer.open()
        consumer.call(m.BasicConsume(queue="auto", consumer_tag="c"), m.BasicConsumeOk)
    ground.kill(dying)
    ground.wait(5_000)
    left = ground.client(leader)
    left.open()
    left.send(1, m.QueueDeclare(queue="auto", passive=True))
    if others:
        assert left.expect(m.QueueDeclareOk).consumer_count == 1
    else:
        left.fails_channel(404, "no queue 'auto' in vhost '/'")


def test_a_request_whose_answer_was_lost_takes_nothing_any_more() -> None:
    ground = Ground(seed=45, brokers=3)
    setup = ground.client(1)
    setup.open()
    queue = setup.queue()
    leader = leader_of(ground, queue)
    there = next(number for number in (1, 2, 3) if number != leader)
    consumer = ground.client(there)
    consumer.open()
    consumer.call(m.BasicConsume(queue=queue, consumer_tag="c"), m.BasicConsumeOk)
    # The link to the leader ends, and is made again at once: it leads on.
    gateway = ground.cluster.brokers[ground.cluster.names[there - 1]]
    link = gateway.peers._outbound[NodeId(leader)].connection
    assert link is not None
    link.abort()
    ground.wait(1_000)
    assert leader_of(ground, queue) == leader
    for number in range(20):
        setup.publish(b"%d" % number, queue)
        ground.wait(20)
    seen: list[bytes] = []
    drain(consumer, 20, seen)
    assert len(seen) == 20


def test_what_nobody_was_sent_and_others_have_overtaken_is_called_redelivered() -> None:
    ground = Ground(seed=46, brokers=3)
    here = ground.client(1)
    here.open()
    queue = here.queue()
    leader = leader_of(ground, queue)
    far, near = (
        ground.client(next(each for each in (1, 2, 3) if each != leader)),
        ground.client(leader),
    )
    for each in far, near:
        each.open()
    far.publish(b"0", queue)
    for each in far, near:
        each.call(m.BasicConsume(queue=queue, consumer_tag="c"), m.BasicConsumeOk)
        ground.wait(100)
    far.delivery()
    # What it has asked for comes when its channel may have no more.
    far.call(m.BasicQos(prefetch_count=1, is_global=True), m.BasicQosOk)
    for body in (b"1", b"2", b"3"):
        near.publish(body, queue)
        ground.wait(1)
    seen = [near.delivery() for _ in range(3)]
    assert [(method.redelivered, body) for method, _, body in seen] == [
        (False, b"2"),
        (True, b"1"),
        (False, b"3"),
    ]


def test_what_was_acknowledged_as_an_answer_was_lost_is_called_redelivered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The acknowledgement is under way when the consumer gives back what it does not know."""
    ground = Ground(seed=47, brokers=3)
    setup = ground.client(1)
    setup.open()
    queue = setup.queue()
    leader = leader_of(ground, queue)
    there = next(number for number in (1, 2, 3) if number != leader)
    consumer = ground.client(there)
    consumer.open()
    consumer.call(m.BasicConsume(queue=queue, consumer_tag="c"), m.BasicConsumeOk)
    setup.publish(b"job", queue)
    tag = consumer.delivery()[0].delivery_tag
    late: list[Callable[[], None]] = []

    def ask(door: Queues, request: AnyQueueRequest, *more: Any) -> None:
        if isinstance(request, SettleMessages):
            late.append(partial(send_on, door, request, *more))
        else:
            send_on(door, request, *more)

    send_on = Queues.ask_whole
    monkeypatch.setattr(Queues, "ask_whole", ask)
    consumer.send(1, m.BasicAck(delivery_tag=tag))
    gateway = ground.cluster.brokers[ground.cluster.names[there - 1]]
    link = gateway.peers._outbound[NodeId(leader)].connection
    assert link is not None
    link.abort()
    method, _, body = consumer.delivery()
    assert (method.redelivered, body) == (True, b"job")
    (settle,) = late
    settle()
    ground.wait(1_000)
    # It was given out again, so what was said of it before is too late.
    consumer.send(1, m.BasicReject(delivery_tag=method.delivery_tag, requeue=True))
    assert consumer.delivery()[2] == b"job"
