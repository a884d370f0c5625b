"""Clients whose machine is gone without a word: the broker has to find out by itself.

Nothing comes from them any more, no FIN and no reset. Who sends nothing to a peer does not learn
that from TCP. Each scenario is a function of a seed that raises AssertionError.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import TypeVar

from tests.unit.gateway_nats.kit import Ground as NatsGround
from tests.unit.gateway_nats.kit import NatsClient
from tests.unit.gateway_stomp.kit import Ground as StompGround

#: So long a broker waits here before it asks a silent client of NATS; in earnest two minutes.
PING_MS = 10_000
#: Silence, two PINGs that are not answered, and some time for others to hear of it.
NATS_MS = 3 * PING_MS + 5_000
#: STOMP's heart-beats come every ten seconds; twice as long is waited.
STOMP_MS = 20_000 + 10_000
JOBS = 20
FAR = "far"

ClientT = TypeVar("ClientT")
GroundT = TypeVar("GroundT", NatsGround, StompGround)


def from_far(ground: GroundT, connect: Callable[[], ClientT]) -> ClientT:
    """Return a client that lives on a machine of its own."""
    near = ground.env
    ground.env = ground.world.add_machine(FAR).boot()
    try:
        return connect()
    finally:
        ground.env = near


def cut_off(ground: NatsGround | StompGround, broker: int) -> None:
    """Let nothing through between that machine and its broker, ever."""
    name = ground.cluster.names[broker - 1]
    ground.world.wire.block(FAR, name)
    ground.world.wire.block(name, FAR)


def listen(ground: NatsGround, ms: int, *clients: NatsClient) -> None:
    """Let time go by, in which these clients answer PINGs."""
    for at in range(0, ms, PING_MS // 2):
        ground.wait(min(PING_MS // 2, ms - at))
        for each in clients:
            each.write(b"PONG\r\n")
            each.take()


def subscriber_of_nats(seed: int) -> None:
    """Its subscription is nobody's, and its share of the group goes to the others."""
    ground, chance = NatsGround(seed, brokers=3), random.Random(seed)
    broker = chance.randint(1, 3)
    gone = from_far(ground, lambda: ground.client(broker))
    gone.subscribe("only.here", "1")
    gone.subscribe("jobs", "2", "workers")
    member = ground.client(chance.randint(1, 3))
    member.subscribe("jobs", "1", "workers")
    publisher = ground.client(chance.randint(1, 3))
    publisher.subscribe("answers", "1")
    cut_off(ground, broker)
    listen(ground, chance.randint(0, PING_MS), member, publisher)
    listen(ground, NATS_MS, member, publisher)
    publisher.publish("only.here", b"anybody?", "answers")
    ground.wait(1_000)
    said = publisher.take()
    assert b"NATS/1.0 503" in said, f"somebody is gone, and subscribed for ever: {said!r}"
    for number in range(JOBS):
        publisher.publish("jobs", b"%d" % number)
    ground.wait(1_000)
    came = _bodies(member)
    lost = {b"%d" % number for number in range(JOBS)} - set(came)
    assert not lost, f"the group's share of somebody who is gone: {lost}"


def _bodies(client: NatsClient) -> list[bytes]:
    found = []
    while b"MSG " in client.waiting:
        found.append(client.message()[4])
    return found


def puller_of_jetstream(seed: int) -> None:
    """A pull that waits at a client that is gone holds nothing for longer than `ack_wait`."""
    ground, chance = NatsGround(seed, brokers=3), random.Random(seed)
    broker = chance.randint(1, 3)
    client = ground.client(chance.randint(1, 3))
    client.subscribe("in.*", "1")
    _ask(client, "STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    config = {"durable_name": "C", "ack_policy": "explicit", "ack_wait": 5_000_000_000}
    _ask(client, "CONSUMER.DURABLE.CREATE.S.C", {"stream_name": "S", "config": config})
    gone = from_far(ground, lambda: ground.client(broker))
    gone.subscribe("in.far", "1")
    wanted = json.dumps({"batch": JOBS, "expires": 3_000_000_000_000}).encode()
    gone.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", wanted, "in.far")
    gone.flush()
    cut_off(ground, broker)
    # Later than the end of its connection, or before.
    listen(ground, chance.choice((0, NATS_MS)), client)
    for number in range(JOBS):
        client.publish("s", b"%d" % number, "in.stored")
        client.message()
    done: set[bytes] = set()
    for _ in range(JOBS):
        wanted = json.dumps({"batch": JOBS, "expires": 2_000_000_000}).encode()
        client.publish("$JS.API.CONSUMER.MSG.NEXT.S.C", wanted, "in.pulled")
        ground.wait(3_000)
        while b"MSG " in client.waiting:
            subject, _, reply, _, body = client.message()
            if subject == "s":
                done.add(body)
                client.publish(reply, b"+ACK")
        if len(done) == JOBS:
            return
    raise AssertionError(f"only {len(done)} of {JOBS} came to who is left")


def _ask(client: NatsClient, operation: str, body: object) -> None:
    client.publish(f"$JS.API.{operation}", json.dumps(body).encode(), "in.asked")
    answer = json.loads(client.message()[4])
    assert "error" not in answer, answer


def consumer_of_stomp(seed: int) -> None:
    """What it has not acknowledged goes to the others."""
    ground, chance = StompGround(seed, brokers=3), random.Random(seed)
    broker = chance.randint(1, 3)
    beats = {"heart-beat": "10000,0"}
    gone = from_far(ground, lambda: ground.stomp(broker, headers=beats))
    gone.subscribe("/queue/jobs", ack="client-individual")
    sender = ground.stomp(chance.randint(1, 3))
    for number in range(JOBS):
        sender.publish("/queue/jobs", b"%d" % number)
    for _ in range(JOBS):
        gone.message()
    cut_off(ground, broker)
    member = ground.stomp(chance.randint(1, 3))
    member.subscribe("/queue/jobs", ack="client-individual")
    ground.wait(STOMP_MS)
    member._take()
    came = {each.body for each in member._waiting if each.command == "MESSAGE"}
    assert len(came) == JOBS, f"somebody who is gone has kept {JOBS - len(came)}"
