"""Queues whose messages go on to an exchange, and topics that feed one by a queue over them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkaesque.broker.doors.publication import Publication
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.options.queues import make_policy
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import CreateTopic
from kafkaesque.broker.requests.exchange_commands import BindDestination
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.gateway.forwarding.forwarding import Forwarding
from kafkaesque.gateway.forwarding.relay import HOPS_MAX
from kafkaesque.model.errors import InvalidConfig, RequestRefused
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.properties import Properties
from kafkaesque.routing.exchanges.records import Destination
from kafkaesque.routing.message import RoutedMessage
from tests.unit.gateway_amqp.kit import AmqpClient
from tests.unit.gateway_mqtt.kit import PATIENCE_MS, Ground, new_name

ONWARD = {"forward.exchange": "amq.topic"}


class Relaying(Ground):
    """Brokers that pass on."""

    def __init__(self, seed: int, brokers: int) -> None:
        super().__init__(seed, brokers)
        self.told: list[str] = []
        self.forwardings = {
            name: Forwarding(broker.doors, self.told.append)
            for name, broker in self.cluster.brokers.items()
        }
        for each in self.forwardings.values():
            each.begin()

    def amqp(self, broker: int = 1) -> AmqpClient:
        client = AmqpClient(self, self.cluster.names[broker - 1])  # type: ignore[arg-type]
        client.open()
        return client

    def do(self, command: CreateTopic | CreateQueue | BindDestination, broker: int = 1) -> None:
        """Have the controller carry out a command."""
        doors = self.cluster.brokers[self.cluster.names[broker - 1]].doors
        done: list[object] = []
        submit = doors.exchanges if isinstance(command, BindDestination) else doors.cluster
        submit.submit(command, PATIENCE_MS, done.append)  # type: ignore[arg-type]
        self.loop.run_until(lambda: bool(done), PATIENCE_MS)
        assert not isinstance(done[0], RequestRefused), done

    def queue(self, **options: str) -> str:
        """Make a queue of a name of its own."""
        name = new_name("passing")
        named = {key.replace("_", "."): value for key, value in options.items()}
        self.do(CreateQueue(vhost="/", name=name, options={**ONWARD, **named}))
        return name

    def leader(self, queue: str) -> int:
        """Return the number of the broker that leads a queue."""
        cluster = self.cluster.brokers[self.cluster.names[0]].doors.cluster
        group = cluster.state.queues_by_vhost["/"][queue].partitions[0].group
        self.loop.run_until(lambda: cluster.leaders.leader(group) is not None, PATIENCE_MS)
        nodes = [self.cluster.brokers[each].doors.cluster.node for each in self.cluster.names]
        return 1 + nodes.index(cluster.leaders.leader(group))  # type: ignore[arg-type]

    def counts(self, name: str, broker: int = 1) -> q.QueueCounts:
        """Return what a queue has."""
        queues = self.cluster.brokers[self.cluster.names[broker - 1]].doors.queues
        log_id = queues.find(QueueName("/", name)).topic_id
        found: list[q.QueueCounts | RequestRefused] = []
        queues.ask(q.AskQueue(log_id=log_id), q.QueueCounts, PATIENCE_MS, found.append)
        self.loop.run_until(lambda: bool(found), PATIENCE_MS)
        assert isinstance(found[0], q.QueueCounts), found
        return found[0]


@pytest.fixture(scope="module")
def relaying() -> Iterator[Relaying]:
    ground = Relaying(7, 1)
    yield ground
    for each in ground.forwardings.values():
        each.end()


@pytest.mark.parametrize("is_kept", [False, True])
def test_what_is_put_reaches_subscribers_of_the_exchange(relaying: Relaying, is_kept: bool) -> None:
    topic = new_name("sensors/")
    client = relaying.session(new_name()) if is_kept else relaying.client(new_name())
    client.subscribe(topic)
    queue = relaying.queue(forward_routing_key=topic.replace("/", "."))
    amqp = relaying.amqp()
    properties = Properties(content_type="text/plain", headers={"unit": "C"}, reply_to="answers")
    for number in range(5):
        amqp.publish(b"%d" % number, queue, properties=properties)
    found = [client.message() for _ in range(5)]
    assert [each.payload for each in found] == [b"0", b"1", b"2", b"3", b"4"]
    assert {each.topic for each in found} == {topic}
    said = found[0].properties
    assert (said.content_type, said.response_topic) == ("text/plain", "answers")
    assert said.user_properties == (("unit", "C"),)
    assert amqp.count(queue)[0] == 0


def test_a_topic_feeds_an_exchange_and_keys_are_names(relaying: Relaying) -> None:
    topic, root = new_name("records"), new_name("root")
    relaying.do(CreateTopic(name=topic, partition_count=3))
    relaying.do(
        BindDestination(
            vhost="/",
            source="amq.fanout",
            destination=Destination(topic, is_topic=True),
        )
    )
    relaying.queue(source_topic=topic, source_start="earliest")
    client = relaying.client(new_name())
    client.subscribe(f"{root}/#")
    broker = relaying.cluster.brokers[relaying.cluster.names[0]]
    names = {f"{root}.{number}" for number in range(12)}
    published: list[object] = []
    for each in names:
        message = NewMessage(b"x", each.encode(), (("unit", b"C"),))
        publication = Publication(RoutedMessage(key=each, body=b"x"), message)
        broker.doors.exchanges.publish(
            "/", "amq.fanout", [publication], PATIENCE_MS, published.append
        )
    found = [client.message() for _ in names]
    # Of three partitions, each has a relay of its own.
    assert {each.topic.replace("/", ".") for each in found} == names
    assert {each.properties.user_properties for each in found} == {(("unit", "C"),)}


def test_amqp_is_told_the_exchange_and_the_key_that_a_message_came_by(relaying: Relaying) -> None:
    key, amqp = new_name("key"), relaying.amqp()
    target = amqp.queue()
    amqp.call(m.QueueBind(queue=target, exchange="amq.topic", routing_key=key), m.QueueBindOk)
    queue = relaying.queue(forward_routing_key=key)
    said = Properties(correlation_id="c", priority=3, headers={"n": 5, "CC": ["elsewhere"]})
    amqp.publish(b"x", queue, properties=said)
    relaying.loop.run_until(lambda: amqp.count(target)[0] == 1, PATIENCE_MS)
    got, properties, body = amqp.get(target, no_ack=True)
    assert (got.exchange, got.routing_key, body) == ("amq.topic", key, b"x")
    assert (properties.correlation_id, properties.priority) == ("c", 3)
    assert (properties.headers or {})["n"] == 5


def test_what_goes_in_a_circle_is_given_up(relaying: Relaying) -> None:
    key = new_name("circle")
    queue, amqp = relaying.queue(forward_routing_key=key), relaying.amqp()
    amqp.call(m.QueueBind(queue=queue, exchange="amq.topic", routing_key=key), m.QueueBindOk)
    amqp.publish(b"x", queue)
    relaying.loop.run_until(lambda: relaying.counts(queue).parked == 1, PATIENCE_MS)
    assert relaying.counts(queue).arrived == HOPS_MAX + 1
    assert f"{queue!r} is not passed on" in relaying.told[-1]


def test_messages_wait_for_an_exchange_that_is_not_there_yet(relaying: Relaying) -> None:
    exchange, amqp = new_name("later"), relaying.amqp()
    queue = relaying.queue(forward_exchange=exchange)
    said = len(relaying.told)
    amqp.publish(b"x", queue)
    relaying.loop.run_until(lambda: len(relaying.told) > said, PATIENCE_MS)
    relaying.wait(10_000)
    assert len(relaying.told) == said + 1
    assert relaying.counts(queue).removed["settled"] == 0
    target = amqp.queue()
    declare = m.ExchangeDeclare(exchange=exchange, type="fanout")
    amqp.call(declare, m.ExchangeDeclareOk)
    relaying.loop.run_until(lambda: not amqp_waits(relaying, queue), PATIENCE_MS)
    amqp.call(m.QueueBind(queue=target, exchange=exchange), m.QueueBindOk)
    amqp.publish(b"y", queue)
    relaying.loop.run_until(lambda: amqp.count(target)[0] == 1, PATIENCE_MS)


def amqp_waits(relaying: Relaying, queue: str) -> bool:
    counts = relaying.counts(queue)
    return bool(counts.ready or counts.delayed or counts.in_flight)


def test_nothing_encrypted_is_passed_on_in_the_clear() -> None:
    with pytest.raises(InvalidConfig, match="in the clear"):
        make_policy({**ONWARD, "encryption": "aes256-gcm"})
    with pytest.raises(InvalidConfig, match="says nothing without"):
        make_policy({"forward.routing.key": "x"})


def test_nothing_is_lost_where_the_leader_dies_among_messages() -> None:
    ground = Relaying(11, 3)
    key, count = new_name("key"), 60
    amqp = ground.amqp(1)
    target = amqp.queue()
    amqp.call(m.QueueBind(queue=target, exchange="amq.topic", routing_key=key), m.QueueBindOk)
    queue = ground.queue(forward_routing_key=key)
    leader = ground.leader(queue)
    other = next(number for number in (1, 2, 3) if number != leader)
    # Through a broker that does not lead the queue: its client lives.
    writer = ground.amqp(other)
    writer.call(m.ConfirmSelect(), m.ConfirmSelectOk)
    for number in range(count):
        writer.publish(b"%d" % number, queue)
    ground.loop.run_until(lambda: ground.counts(target, other).ready > 0, PATIENCE_MS)
    ground.kill(leader)
    reader = ground.amqp(other)
    reader.send(1, m.BasicConsume(queue=target, no_ack=True))
    reader.expect(m.BasicConsumeOk)
    seen: set[bytes] = set()
    while len(seen) < count:
        seen.add(reader.delivery()[2])
