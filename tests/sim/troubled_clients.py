"""Clients of MQTT, STOMP and JetStream that are slow, late, cut off, or all back at once.

Each scenario is a function of a seed that raises AssertionError where a promise is broken.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.gateway.mqtt import sessions
from kafkaesque.gateway.mqtt.gateway import MqttGateway
from kafkaesque.gateway.mqtt.sweeping import SWEEP_MS
from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.sim.cluster import MQTT_PORT
from kafkaesque.sim.loop import SimStuck
from tests.sim.light_scenario import TOPIC, boot_all, drained, subscribe_and_leave
from tests.unit.gateway_mqtt.kit import PATIENCE_MS, Ground, MqttClient
from tests.unit.gateway_nats.kit import Ground as NatsGround
from tests.unit.gateway_nats.test_jetstream import Api, new_consumer, new_stream
from tests.unit.gateway_stomp.kit import Ground as StompGround

PEER = "peer"


def await_(
    ground: Ground | StompGround, is_so: Callable[[], bool], otherwise: str, ms: int = PATIENCE_MS
) -> None:
    """Wait for something.

    Raises:
        AssertionError: it does not happen in time.
    """
    try:
        ground.loop.run_until(is_so, ms, every_ms=10)
    except SimStuck:
        raise AssertionError(otherwise) from None


@contextmanager
def on_a_machine_of_its_own(ground: Ground | StompGround) -> Iterator[None]:
    """Clients that are made meanwhile are on another machine, whose links can be cut."""
    before = ground.env
    ground.env = ground.world.add_machine(PEER).boot()
    try:
        yield
    finally:
        ground.env = before


def cut_off(ground: Ground | StompGround) -> None:
    """Let nothing through to that machine, or from it: nobody is told that anybody is gone."""
    for name in ground.cluster.names:
        ground.world.wire.block(PEER, name)
        ground.world.wire.block(name, PEER)


# -- 10: a slow subscriber delays nobody, and what it does not get is counted

LARGE = bytes(100_000)
LARGE_COUNT = 30
DELAY_MS_MAX = 1_000


def slow_subscriber(seed: int) -> None:
    """Two clients read nothing for a while, beside one that does."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    here = chance.randint(1, 3)
    kept = ground.session("kept", here)
    live, quick = ground.client("live", here), ground.client("quick", here)
    for client, qos in ((kept, 1), (live, 0), (quick, 1)):
        client.subscribe(TOPIC, qos=qos)
    for client in (kept, live):
        client.client.link.pause_reading()
    publisher = ground.client("publisher", here)
    for number in range(LARGE_COUNT):
        sent_ms = ground.env.clock.now_ms()
        packet = p.Publish(topic=TOPIC, payload=b"%d/" % number + LARGE, qos=1, packet_id=1)
        publisher.send(packet)
        await_(ground, lambda: _has_come(quick), "others wait for a slow one")
        assert quick.message().payload.startswith(b"%d/" % number)
        waited_ms = ground.env.clock.now_ms() - sent_ms
        assert waited_ms <= DELAY_MS_MAX, f"others wait for a slow one: {waited_ms} ms"
        publisher.expect(p.Puback)
    activity = ground.cluster.brokers[ground.cluster.names[here - 1]].doors.activity
    for client in (kept, live):
        client.client.link.resume_reading()
    assert _numbers(kept) == list(range(LARGE_COUNT)), "a slow session has lost messages"
    got, dropped = _numbers(live), activity.client_drops.get("mqtt", 0)
    assert got == sorted(set(got))
    assert len(got) < LARGE_COUNT, "nothing was too much"
    assert len(got) + dropped == LARGE_COUNT, f"{len(got)} came, and {dropped} are counted"


def _has_come(client: MqttClient) -> bool:
    client._take()
    return bool(client.waiting)


def _numbers(client: MqttClient) -> list[int]:
    found = []
    while not client.is_silent(1_000):
        found.append(int(client.message().payload.partition(b"/")[0]))
    return found


# -- 11: retention that overtakes a reader is visible

KEPT, PUBLISHED = 20, 50
#: So long after a broker's death others lead what it has led.
ELECTED_MS = 8_000


def overtaken_session(seed: int) -> None:
    """More is published than a session keeps, and brokers die meanwhile."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    with patch.object(sessions, "WAITING_MAX", KEPT):
        subscribe_and_leave(ground, "reader")
    publisher = ground.client("publisher")
    dies_at, victim = chance.randrange(PUBLISHED), chance.choice((2, 3))
    for number in range(PUBLISHED):
        if number == dies_at:
            ground.kill(victim)
            # Who publishes meanwhile is refused, or asks again: that is another scenario's.
            ground.wait(ELECTED_MS)
        assert not publisher.publish(TOPIC, b"%d" % number).is_error
    boot_all(ground)
    ground.wait(2_000)
    came = [int(each) for each in drained(ground, "reader", chance.randint(1, 3))]
    assert came == list(range(PUBLISHED - KEPT, PUBLISHED)), f"not the newest ones: {came}"
    dropped = _counts(ground, "reader").removed.get("too_long", 0)
    assert dropped == PUBLISHED - KEPT, f"{PUBLISHED - KEPT} are gone, and {dropped} are counted"
    publisher.publish(TOPIC, b"more")
    assert drained(ground, "reader", victim) == [b"more"]


def _counts(ground: Ground, client_id: str) -> q.QueueCounts:
    """Return what the leader of a session's queue counts."""
    broker = ground.cluster.brokers[ground.cluster.names[0]]
    queue = next(
        each
        for name, each in broker.state.queues.items()
        if name.name == sessions.queue_name_of(client_id)
    )
    found: list[q.QueueCounts] = []

    def on_answer(answer: object) -> None:
        assert isinstance(answer, q.QueueCounts), answer
        found.append(answer)

    request = q.AskQueue(log_id=queue.topic_id)
    broker.doors.queues.ask(request, q.QueueCounts, 5_000, on_answer)
    ground.loop.run_until(lambda: found != [], PATIENCE_MS)
    return found[0]


STREAM_MAX, STORED = 10, 30


def overtaken_consumer(seed: int) -> None:
    """A stream removes what a consumer has not had, or has and does not acknowledge."""
    ground, chance = NatsGround(seed, brokers=3), random.Random(seed)
    api = Api(ground)
    stream = new_stream(api, max_msgs=STREAM_MAX, num_replicas=3)
    consumer = new_consumer(api, stream, ack_wait=2_000_000_000)
    dies_at, victim = chance.randrange(6, STORED), chance.choice((2, 3))
    for number in range(1, STORED + 1):
        if number == dies_at:
            ground.kill(victim)
            # Who publishes meanwhile is refused, or asks again: that is another scenario's.
            ground.wait(ELECTED_MS)
        assert api.publish(f"{stream}.a", b"%d" % number)["seq"] == number
        if number == 5:
            api.pull(stream, consumer, batch=3, expires=10_000_000_000)
            tokens = [api.client.message()[2] for _ in range(3)]
            api.ack(tokens[0])
    for machine in ground.cluster._machines.values():
        if not machine.running:
            ground.cluster.boot(machine)
    ground.wait(6_000)
    first = api.ask(f"STREAM.INFO.{stream}")["state"]["first_seq"]
    assert first == STORED - STREAM_MAX + 1
    got = _pulled(api, stream, consumer)
    assert got == list(range(first, STORED + 1)), f"not what the stream has: {got}"
    info = api.ask(f"CONSUMER.INFO.{stream}.{consumer}")
    left = info["num_pending"], info["num_ack_pending"]
    assert left == (0, 0), f"a consumer waits for what is gone: {left}"
    assert info["delivered"]["stream_seq"] == STORED
    api.publish(f"{stream}.a", b"more")
    assert _pulled(api, stream, consumer) == [STORED + 1]


def _pulled(api: Api, stream: str, consumer: str) -> list[int]:
    """Pull and acknowledge all that is there; return the sequences."""
    found: list[int] = []
    while True:
        api.pull(stream, consumer, batch=1, no_wait=True)
        _, _, token, headers, _ = api.client.message()
        if headers:
            assert b"404" in headers, headers
            return found
        found.append(int(token.split(".")[5]))
        api.ack(token)


# -- 6: clocks that jump move no will and no session

JUMPS_MS = (-3_600_000, 3_600_000, 86_400_000)
EXPIRY_S = 60
#: So late a will may be, by true time.
LATE_MS_MAX = 1_000
WILLS = 6


def jumping_clocks(seed: int) -> None:
    """Brokers' wall clocks jump while wills wait for their time."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    watcher = ground.session("watcher", chance.randint(1, 3))
    watcher.subscribe("wills/#", qos=1)
    due_ms: dict[bytes, int] = {}
    came_ms: dict[bytes, int] = {}
    for number in range(WILLS):
        name, delay_s = f"c{number}", chance.randint(3, 8)
        will = p.Will(
            topic="wills/all",
            payload=name.encode(),
            qos=1,
            properties=Properties(will_delay_interval_s=delay_s),
        )
        client = ground.client(name, chance.randint(1, 3), expiry_s=600, will=will)
        client.vanish()
        gone_ms = ground.env.clock.now_ms()
        machine = ground.cluster._machines[chance.choice(ground.cluster.names)]
        machine.oscillator.jump_wall(chance.choice(JUMPS_MS))
        if number % 3 == 0:
            ground.client(name, chance.randint(1, 3), clean=False, expiry_s=600).disconnect()
        else:
            due_ms[name.encode()] = gone_ms + 1_000 * delay_s
        _watch(ground, watcher, came_ms, chance.randint(0, 500))
    _watch(ground, watcher, came_ms, 10_000)
    assert came_ms.keys() <= due_ms.keys(), "a will came of a client that is back"
    for name_of, due in due_ms.items():
        assert name_of in came_ms, f"the will of {name_of!r} did not come"
        late_ms = came_ms[name_of] - due
        assert -50 <= late_ms <= LATE_MS_MAX, f"the will of {name_of!r} came {late_ms} ms late"


def jumping_clock_of_a_session(seed: int) -> None:
    """The same of one broker, while a session waits for its client."""
    ground, chance = Ground(seed), random.Random(seed)
    machine = ground.cluster._machines[ground.cluster.names[0]]
    ground.client("late", clean=False, expiry_s=EXPIRY_S).vanish()
    for _ in range(3):
        machine.oscillator.jump_wall(chance.choice(JUMPS_MS))
        ground.wait(1_000 * EXPIRY_S // 3 - 1_000)
    late = ground.client("late", clean=False, expiry_s=EXPIRY_S)
    assert late.connack.session_present, "a session has ended before its time"
    late.vanish()
    machine.oscillator.jump_wall(-max(JUMPS_MS))
    ground.wait(1_000 * EXPIRY_S + SWEEP_MS + LATE_MS_MAX)
    late = ground.client("late", clean=False, expiry_s=EXPIRY_S)
    assert not late.connack.session_present, "a session has outlived its time"


def _watch(ground: Ground, watcher: MqttClient, came_ms: dict[bytes, int], ms: int) -> None:
    """Note when wills come."""
    until_ms = ground.env.clock.now_ms() + ms
    while ground.env.clock.now_ms() < until_ms:
        ground.wait(50)
        while _has_come(watcher):
            payload = watcher.message().payload
            assert payload not in came_ms, "a will came twice"
            came_ms[payload] = ground.env.clock.now_ms()


# -- reconnect storms: each client has one connection in the end, and each session what is its own

STORM_CLIENTS = 5
WILL_DELAY_S = 5


def reconnect_storm(seed: int) -> None:
    """All clients lose their connections at once, and come back at once, each of them twice."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    names = [f"c{number}" for number in range(STORM_CLIENTS)]
    watcher, publisher = ground.session("watcher", 1), ground.session("publisher", 1)
    watcher.subscribe("wills", qos=1)
    connections = {name: [_stormed(ground, name, chance.randint(1, 3))] for name in names}
    _await_survivors(ground, connections)
    for name, (client,) in connections.items():
        client.subscribe(f"storm/{name}", qos=1)
    for turn in range(2):
        if turn == 1:
            ground.kill(chance.choice((2, 3)))
        for (client,) in connections.values():
            if not client.client.is_closed:
                client.client.link.abort()
        living = [
            number
            for number, name in enumerate(ground.cluster.names, 1)
            if ground.cluster._machines[name].running
        ]
        connections = {
            name: [_stormed(ground, name, chance.choice(living)) for _ in range(2)]
            for name in names
        }
        for name in names:
            # It may come before the session is resumed, or after.
            publisher.publish(f"storm/{name}", b"%d" % turn)
        survivors = _await_survivors(ground, connections)
        for name, client in survivors.items():
            await_(ground, lambda: _has_come(client), f"{name} gets nothing")  # noqa: B023
            found = client.message()
            assert found.payload == b"%d" % turn, f"{name} gets {found.payload!r}"
        boot_all(ground)
        connections = {name: [client] for name, client in survivors.items()}
        _check_books(ground, {*names, "watcher", "publisher"})
    ground.wait(1_000 * WILL_DELAY_S + 2_000)
    assert not _has_come(watcher), "a will came of a client that is back"


def _stormed(ground: Ground, name: str, broker: int) -> MqttClient:
    """Send CONNECT, and wait for nothing."""
    client = MqttClient(ground, broker)
    delay = Properties(will_delay_interval_s=WILL_DELAY_S)
    kept = Properties(session_expiry_interval_s=3_600)
    will = p.Will(topic="wills", payload=name.encode(), qos=1, properties=delay)
    client.send(p.Connect(client_id=name, clean_start=False, will=will, properties=kept))
    return client


def _await_survivors(
    ground: Ground, connections: dict[str, list[MqttClient]]
) -> dict[str, MqttClient]:
    """Wait until each client has one connection, which is let in."""

    def is_settled() -> bool:
        for some in connections.values():
            for each in some:
                each._take()
            still = [each for each in some if not each.client.is_closed]
            if len(still) != 1 or not any(isinstance(e, p.Connack) for e in still[0].waiting):
                return False
        return True

    await_(ground, is_settled, "a client has two connections, or none")
    survivors: dict[str, MqttClient] = {}
    for name, some in connections.items():
        (survivors[name],) = (each for each in some if not each.client.is_closed)
        connack = survivors[name].expect(p.Connack)
        assert connack.reason is ReasonCode.SUCCESS, connack
    return survivors


def _check_books(ground: Ground, names: set[str]) -> None:
    """Compare what the gateways know with who is connected."""
    ground.wait(500)
    known: list[str] = []
    for gateways in ground.cluster._gateways.values():
        gateway = gateways[MQTT_PORT]
        assert isinstance(gateway, MqttGateway)
        known += gateway._desk.clients
    assert sorted(known) == sorted(names), f"gateways know {sorted(known)}"


# -- half-open peers: who is gone without a word is missed

KEEP_ALIVE_S = 10


def half_open_mqtt(seed: int) -> None:
    """A client's network is gone while it has a message of a shared subscription, and a will."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    watcher = ground.session("watcher", chance.randint(1, 3))
    watcher.subscribe("wills", qos=1)
    will = p.Will(topic="wills", payload=b"gone", qos=1)
    with on_a_machine_of_its_own(ground):
        peer = ground.client(
            PEER, chance.randint(1, 3), expiry_s=600, will=will, keep_alive_s=KEEP_ALIVE_S
        )
    peer.subscribe("$share/g/jobs", qos=1)
    publisher = ground.client("publisher", chance.randint(1, 3))
    publisher.publish("jobs", b"job")
    assert peer.message(acknowledge=False).payload == b"job"
    other = ground.client("other", chance.randint(1, 3))
    other.subscribe("$share/g/jobs", qos=1)
    cut_off(ground)
    begun_ms = ground.env.clock.now_ms()
    await_(ground, lambda: _has_come(watcher), "nobody misses a client without a network")
    missed_ms = ground.env.clock.now_ms() - begun_ms
    assert missed_ms > 1_000 * KEEP_ALIVE_S, f"it was missed after {missed_ms} ms"
    assert missed_ms < 1_500 * KEEP_ALIVE_S + 1_000, f"it was missed after {missed_ms} ms"
    assert watcher.message().payload == b"gone"
    await_(ground, lambda: _has_come(other), "what it had is nobody's")
    assert other.message().payload == b"job"
    ground.world.wire.heal()
    peer.send(p.Pingreq())
    await_(ground, lambda: peer.client.is_closed, "it is not told")


HEART_BEAT_MS = 5_000


def half_open_stomp(seed: int) -> None:
    """The same of STOMP, with heart-beats and a queue."""
    ground = StompGround(seed)
    with on_a_machine_of_its_own(ground):
        peer = ground.stomp(headers={"heart-beat": f"{HEART_BEAT_MS},0"})
    peer.subscribe("/queue/half-open", ack="client-individual")
    sender, other = ground.stomp(), ground.stomp()
    sender.publish("/queue/half-open", b"job")
    assert peer.message().body == b"job"
    other.subscribe("/queue/half-open", ack="client-individual")
    cut_off(ground)

    def has_come() -> bool:
        other._take()
        return bool(other._waiting)

    await_(ground, has_come, "nobody misses a client without a network")
    assert other.message().body == b"job"
