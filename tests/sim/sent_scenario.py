"""What sessions were sent and have not acknowledged, and shared subscriptions, while brokers die.

Each is a function of a seed that raises AssertionError where the promise is broken.
"""

from __future__ import annotations

import random

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST, QueueName
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.properties import Properties
from tests.sim.light_scenario import boot_all
from tests.unit.gateway_mqtt.kit import PATIENCE_MS, Ground, MqttClient

ROUNDS = 6
#: A subscription changes within so many events.
EVENTS_MAX = 150
FILTERS = ("f/a", "f/+", "f/#")
#: All of a message that is the same each time.
Shape = tuple[str, bytes, int, bool, tuple[int, ...]]


def _shape(found: p.Publish) -> Shape:
    identifiers = tuple(sorted(found.properties.subscription_identifiers))
    return found.topic, found.payload, found.qos, found.retain, identifiers


def _come(client: MqttClient) -> list[p.Publish]:
    """Return the messages that have come, and forget all else."""
    client._take()
    found = [each for each in client.waiting if isinstance(each, p.Publish)]
    client.waiting.clear()
    return found


def _after(ground: Ground, events: int) -> None:
    left = [events]

    def is_over() -> bool:
        left[0] -= 1
        return left[0] < 0

    ground.loop.run_until(is_over, PATIENCE_MS)


def sent_again(seed: int) -> None:
    """A subscription changes while messages are under way, and somebody dies meanwhile."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    reader, at = ground.session("reader", 1), 1
    sent = 0
    for _ in range(ROUNDS):
        publisher = ground.client("publisher", broker=chance.randint(1, 3))
        for number in range(chance.randint(0, 3)):
            sent += 1
            publisher.publish(f"f/{'ab'[number % 2]}", b"kept %d" % sent, 2, retain=True)
        wanted = chance.choice(FILTERS)
        reader.subscribe(wanted, qos=chance.randint(1, 2), identifier=chance.randint(0, 9))
        for _ in range(chance.randint(1, 4)):
            sent += 1
            publisher.publish(f"f/{chance.choice('ab')}", b"%d" % sent, chance.randint(1, 2))
        publisher.disconnect()
        ground.wait(chance.choice((0, 5, 200)))
        at = _lose(ground, chance, reader, at)
        held = {each.packet_id: each for each in _come(reader) if each.qos}
        reader = ground.session("reader", at)
        ground.wait(1_500)
        came = _come(reader)
        again = {each.packet_id: each for each in came}
        for packet_id, each in held.items():
            found = again.get(packet_id)
            assert found is not None, f"{_shape(each)} did not come again"
            was, now = _shape(each), _shape(found)
            assert now == was, f"{was} did not come as it was: {now}"
            assert found.dup, f"{now} is not marked as sent before"
        for each in came:
            reader.acknowledge(each)
        ground.wait(300)


def _lose(ground: Ground, chance: random.Random, reader: MqttClient, at: int) -> int:
    """Change a subscription, and lose the connection meanwhile; return where to come back."""
    if chance.random() < 0.5:
        packet: p.Packet = p.Unsubscribe(packet_id=999, topic_filters=(chance.choice(FILTERS),))
    else:
        wanted = p.Subscription(topic_filter=chance.choice(FILTERS), qos=chance.randint(0, 2))
        said = Properties(subscription_identifiers=(chance.randint(10, 19),))
        packet = p.Subscribe(packet_id=999, subscriptions=(wanted,), properties=said)
    reader.send(packet)
    _after(ground, chance.randint(1, EVENTS_MAX))
    fate = chance.choice(("vanish", "its broker", "the leader"))
    if fate == "vanish":
        reader.vanish()
        return chance.randint(1, 3)
    names = ground.cluster.names
    victim = at
    if fate == "the leader":
        cluster = ground.cluster.brokers[names[at - 1]].doors.cluster
        queue = cluster.state.queues[QueueName(DEFAULT_VHOST, "mqtt.session.reader")]
        victim = int(cluster.leaders.leader(queue.partitions[0].group) or at)
    ground.kill(victim)
    ground.wait(chance.choice((0, 500)))
    if victim != at:
        reader.vanish()
    boot_all(ground)
    return chance.choice([each for each in (1, 2, 3) if each != victim])


# -- 8: of a shared subscription one member has a message; what is acknowledged never comes again

MEMBERS = ("m1", "m2", "m3")
SHARED = "$share/g/s/#"


def shared(seed: int, messages: int = 40) -> None:
    """Members hold messages back, and vanish; others get what they had, and nobody what is done."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    members: dict[str, MqttClient] = {}
    #: What each member has that it has not acknowledged, by payload.
    held: dict[str, dict[bytes, p.Publish]] = {each: {} for each in MEMBERS}
    acked: set[bytes] = set()
    #: Acknowledged, and nobody may have heard of it.
    doubted: set[bytes] = set()

    def join(name: str) -> None:
        held[name].clear()
        members[name] = client = ground.client(name, chance.randint(1, 3))
        client.subscribe(SHARED, qos=1)

    for name in MEMBERS:
        join(name)
    publisher = ground.client("publisher", chance.randint(1, 3))
    for number in range(messages):
        publisher.publish("s/a", b"%d" % number)
    idle = 0
    while len(acked) < messages and idle < 100:
        ground.wait(chance.randint(0, 200))
        idle += 1
        for name in MEMBERS:
            for each in _come(members[name]):
                others = [n for n in MEMBERS if n != name and each.payload in held[n]]
                assert not others, f"{each.payload!r} is with {name} and with {others}"
                again = each.payload in acked - doubted
                assert not again, f"{each.payload!r} was acknowledged, and comes again"
                held[name][each.payload] = each
        fresh: set[bytes] = set()
        for name in MEMBERS:
            if held[name] and chance.random() < 0.7:
                found = held[name].pop(chance.choice(sorted(held[name])))
                members[name].send(p.Puback(packet_id=found.packet_id))
                fresh.add(found.payload)
                idle = 0
        acked |= fresh
        if chance.random() < 0.1:
            # What was said in the last moment may not be heard.
            doubted |= fresh
            name = chance.choice(MEMBERS)
            members[name].vanish()
            join(name)
        else:
            ground.wait(100)
    assert len(acked) == messages, f"{messages - len(acked)} messages never came"
