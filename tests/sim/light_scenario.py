"""What MQTT and JetStream promise, put to the test: each scenario is its own, and checks one thing.

Each is a function of a seed that raises AssertionError where the promise is broken.
"""

from __future__ import annotations

import json
import random
from collections import Counter

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.properties import Properties
from kafkaesque.protocols.mqtt.reasons import ReasonCode
from kafkaesque.sim.loop import SimStuck
from tests.unit.gateway_mqtt.kit import PATIENCE_MS, Ground, MqttClient
from tests.unit.gateway_nats.kit import Ground as NatsGround
from tests.unit.gateway_stomp.kit import Ground as StompGround

AnyGround = Ground | NatsGround | StompGround

TOPIC = "field/a"
#: So many connections in a row may get nothing new.
IDLE_MAX = 12


def boot_all(ground: AnyGround) -> None:
    """Start all brokers that do not run, and wait until they take clients."""
    cluster = ground.cluster
    for machine in cluster._machines.values():
        if not machine.running:
            cluster.boot(machine)
    ground.loop.run_until(ground._are_ready, 4 * PATIENCE_MS, every_ms=10)


def cut_all_power(ground: AnyGround) -> None:
    """Switch all machines with brokers off at once, and on again."""
    for machine in ground.cluster._machines.values():
        machine.cut_power()
    ground.loop.run_for(500)
    boot_all(ground)


def subscribe_and_leave(ground: Ground, client_id: str, qos: int = 1) -> None:
    """Make a session that is kept, and has messages wait for it."""
    client = ground.session(client_id)
    client.subscribe(TOPIC, qos=qos)
    client.disconnect()


def drained(ground: Ground, client_id: str, broker: int = 1) -> list[bytes]:
    """Resume a session, and return all that waits for it."""
    client, found = ground.session(client_id, broker), list[bytes]()
    while not client.is_silent(1_000):
        found.append(client.message().payload)
    client.disconnect()
    return found


# -- 1: what is acknowledged is committed and synced, whatever loses power


def mqtt_without_power(seed: int) -> None:
    """PUBACK says that a message is kept, though all machines lose power at once."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    subscribe_and_leave(ground, "reader")
    acked: list[int] = []
    sent = 0
    for _ in range(3):
        publisher = ground.client("publisher", broker=chance.randint(1, 3))
        packets = []
        for _ in range(20):
            sent += 1
            packets.append(p.Publish(topic=TOPIC, payload=b"%d" % sent, qos=1, packet_id=sent))
        publisher.send(*packets)
        enough = chance.randint(1, 20)
        # Whatever is told and not on the disks is lost at this very moment.
        ground.loop.run_until(
            lambda: len(_acknowledged(publisher)) >= enough,  # noqa: B023
            PATIENCE_MS,
        )
        acked += _acknowledged(publisher)
        cut_all_power(ground)
    assert acked
    missing = set(acked) - {int(each) for each in drained(ground, "reader", 2)}
    assert not missing, f"acknowledged, and lost: {missing}"


def _acknowledged(publisher: MqttClient) -> list[int]:
    publisher._take()
    return [
        each.packet_id
        for each in publisher.waiting
        if isinstance(each, p.Puback) and not each.reason.is_error
    ]


def jetstream_without_power(seed: int) -> None:
    """PubAck says that a message is stored at its sequence, though all machines lose power."""
    ground, chance = NatsGround(seed, brokers=3), random.Random(seed)
    acked: dict[int, str] = {}
    sent = 0
    for turn in range(3):
        client = ground.client(chance.randint(1, 3))
        client.subscribe("_INBOX.p.*", "p")
        if not turn:
            config = json.dumps({"name": "S", "subjects": ["s"]}).encode()
            client.publish("$JS.API.STREAM.CREATE.S", config, "_INBOX.p.made")
            assert b"did_create" in client.message()[4]
        for _ in range(20):
            sent += 1
            client.publish("s", b"%d" % sent, f"_INBOX.p.{sent}")
        enough = chance.randint(1, 20)
        ground.loop.run_until(
            lambda: client.waiting.count(b"MSG ") >= enough,  # noqa: B023
            PATIENCE_MS,
        )
        while b"MSG " in client.waiting:
            subject, _, _, _, answer = client.message()
            said = json.loads(answer)
            if "seq" in said and "error" not in said:
                acked[said["seq"]] = subject.rpartition(".")[2]
        cut_all_power(ground)
    assert acked
    client = ground.client(2)
    client.subscribe("_INBOX.q", "q")
    for sequence, body in acked.items():
        wanted = json.dumps({"seq": sequence}).encode()
        client.publish("$JS.API.DIRECT.GET.S", wanted, "_INBOX.q")
        found = client.message()[4].decode()
        assert found == body, f"acknowledged, and lost: {sequence}"


# -- 5: of two connections of one client id one survives, and the other one can do nothing more


def two_connections(seed: int) -> None:
    """A client comes back by another broker, while its first one is cut off from the others."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    first = ground.session("reader", 1)
    first.subscribe(TOPIC, qos=1)
    publisher = ground.client("publisher", broker=3)
    publisher.publish(TOPIC, b"m")
    held = first.message(acknowledge=False)
    wire, names = ground.world.wire, ground.cluster.names
    for other in names[1:]:
        wire.block(names[0], other)
        wire.block(other, names[0])
    ground.wait(chance.randint(0, 3_000))
    second = ground.session("reader", 2)
    assert second.connack.session_present
    again = second.message(acknowledge=False)
    assert (again.payload, again.packet_id, again.dup) == (b"m", held.packet_id, True)
    # It knows nothing of that, and its broker neither.
    first.acknowledge(held)
    ground.wait(chance.randint(0, 2_000))
    for other in names[1:]:
        wire.unblock(names[0], other)
        wire.unblock(other, names[0])
    try:
        ground.loop.run_until(lambda: first.client.is_closed, PATIENCE_MS)
    except SimStuck:
        raise AssertionError("both connections survive") from None
    assert not second.client.is_closed
    second.vanish()
    third = ground.session("reader", 3)
    assert third.message().payload == b"m", "acknowledged by a connection that has no session"
    publisher.publish(TOPIC, b"n")
    assert third.message().payload == b"n"


# -- 6: a will is published once or never


def wills(seed: int) -> None:
    """Clients vanish, take leave, come back in time, and lose their brokers."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    watcher = ground.session("watcher", 1)
    watcher.subscribe("wills/#", qos=1)
    watcher.disconnect()
    expected: dict[bytes, tuple[int, int]] = {}
    with_victim: list[MqttClient] = []
    victim = chance.randint(1, 3)
    for number in range(24):
        fate = chance.choice(("vanish", "leave", "back", "late", "broker dies"))
        broker = victim if fate == "broker dies" else chance.choice([1, 2, 3])
        name, body = f"c{number}", b"%d" % number
        delay_s = 3 if fate in ("back", "late") else 0
        will = p.Will(
            topic=f"wills/{number}",
            payload=body,
            qos=1,
            properties=Properties(will_delay_interval_s=delay_s),
        )
        is_kept = fate in ("back", "late") or chance.random() < 0.3
        client = ground.client(name, broker, expiry_s=600 if is_kept else None, will=will)
        match fate:
            case "vanish" | "late":
                client.vanish()
                expected[body] = (1, 1)
            case "leave":
                client.disconnect()
                expected[body] = (0, 0)
            case "back":
                client.vanish()
                ground.client(name, chance.randint(1, 3), clean=False, expiry_s=600).disconnect()
                expected[body] = (0, 0)
            case _:
                with_victim.append(client)
                expected[body] = (0, 1)
    ground.wait(6_000)
    ground.kill(victim)
    ground.wait(2_000)
    boot_all(ground)
    ground.wait(5_000)
    came = Counter(drained(ground, "watcher", chance.randint(1, 3)))
    for body, (least, most) in expected.items():
        assert least <= came[body] <= most, f"will {body!r} came {came[body]} times"


# -- 4, 9: ids in flight are unique, receive maximum holds, and nothing is stuck in the end


def in_flight(seed: int, receive_maximum: int = 3, messages: int = 40) -> None:
    """A client holds messages back, and loses connections and brokers; all comes in the end."""
    ground, chance = Ground(seed, brokers=3), random.Random(seed)
    subscribe_and_leave(ground, "reader", qos=2)
    publisher = ground.session("publisher", 1)
    for number in range(messages):
        publisher.publish(TOPIC, b"%d" % number, chance.choice((1, 2)))
    publisher.disconnect()
    done: set[bytes] = set()
    unreleased: set[int] = set()
    idle = 0
    while len(done) < messages:
        before = len(done)
        client = _reader(ground, chance, receive_maximum)
        _hold_back(ground, chance, client, receive_maximum, done, unreleased)
        idle = idle + 1 if len(done) == before else 0
        assert idle < IDLE_MAX, f"{messages - len(done)} messages never came"
        if chance.random() < 0.3:
            ground.kill(chance.randint(1, 3))
            ground.wait(chance.randint(500, 2_000))
            boot_all(ground)
        elif not client.client.is_closed:
            client.vanish()


def _reader(ground: Ground, chance: random.Random, receive_maximum: int) -> MqttClient:
    properties = Properties(receive_maximum=receive_maximum, session_expiry_interval_s=3_600)
    return ground.client("reader", chance.randint(1, 3), clean=False, properties=properties)


def _hold_back(
    ground: Ground,
    chance: random.Random,
    client: MqttClient,
    receive_maximum: int,
    done: set[bytes],
    unreleased: set[int],
) -> None:
    """Take messages of one connection, and acknowledge some of them later, in any order."""
    held: dict[int, p.Publish] = {}
    #: Of QoS 2, whose PUBCOMP has not left: they count, too.
    releasing: set[int] = set()
    for _ in range(chance.randint(5, 40)):
        ground.wait(chance.randint(0, 300))
        client._take()
        waiting, client.waiting[:] = list(client.waiting), []
        for each in waiting:
            match each:
                case p.Publish():
                    assert each.packet_id not in held, "an id is in flight twice"
                    held[each.packet_id] = each
                    count = len(held) + len(releasing - held.keys())
                    assert count <= receive_maximum, f"{count} are in flight"
                case p.Pubrel():
                    unreleased.discard(each.packet_id)
                    releasing.discard(each.packet_id)
                    client.send(p.Pubcomp(packet_id=each.packet_id))
        if held and chance.random() < 0.7:
            found = held.pop(chance.choice(sorted(held)))
            if found.qos == 1:
                client.send(p.Puback(packet_id=found.packet_id))
                done.add(found.payload)
                continue
            if found.packet_id not in unreleased:
                assert found.payload not in done or found.dup, "QoS 2 came twice"
                unreleased.add(found.packet_id)
                done.add(found.payload)
            releasing.add(found.packet_id)
            client.send(p.Pubrec(packet_id=found.packet_id, reason=ReasonCode.SUCCESS))
