"""A gateway that only tests have runs in the simulator, with what the chassis gives every one."""

from __future__ import annotations

from kafkaesque.broker.doors import Doors
from kafkaesque.chassis.chassis import Chassis
from kafkaesque.chassis.meter import Meter
from kafkaesque.env.network import Address
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.cluster import GATEWAYS, SimCluster
from kafkaesque.sim.env import World
from tests.unit.chassis.client import Client
from tests.unit.chassis.line_gateway import (
    PROTOCOL,
    PUSHED_BYTES_MAX,
    WAITING_LINES_MAX,
    LineGateway,
)

PORT = 7777
TOPIC = "events"
#: A sync takes a good part of a second.
SLOWNESS = 300


class Ground:
    """Three brokers that speak Kafka's protocol and lines, and a topic."""

    def __init__(self, seed: int) -> None:
        self.gateways: dict[int, LineGateway] = {}
        self.world = World(seed)
        self.loop = self.world.loop
        self.cluster = SimCluster(self.world, gateways={**GATEWAYS, PORT: self._make})
        self.cluster.start()
        self.env = self.world.add_machine("client").boot()
        spec = TopicSpec(name=TOPIC, replicas=3)
        load = TopicLoad(self.env, self.cluster.addresses, spec, Findings())
        self.loop.run_until(lambda: load.is_made and self.leader() is not None, 60_000)

    def _make(self, doors: Doors, chassis: Chassis) -> LineGateway:
        self.gateways[doors.cluster.node] = made = LineGateway(doors, chassis)
        return made

    def leader(self) -> str | None:
        broker = next(iter(self.cluster.brokers.values()))
        topic = broker.state.topics.get(TOPIC)
        node = None if topic is None else broker.leaders.leader(topic.partitions[0].group)
        return None if node is None else f"b{node}"

    def others(self) -> list[str]:
        return [name for name in self.cluster.names if name != self.leader()]

    def connect(self, name: str) -> Client:
        client = Client(self.env, Address(name, PORT))
        self.loop.run_until(lambda: client.connection is not None, 10_000)
        return client

    def meter(self, name: str) -> Meter:
        node = self.cluster.names.index(name) + 1
        return self.gateways[node].chassis.meters[PROTOCOL, str(PORT)]


def test_what_is_published_at_one_broker_is_pushed_by_another_that_leads_nothing_of_it() -> None:
    ground = Ground(1)
    here, there = ground.others()
    reader, writer = ground.connect(here), ground.connect(there)
    reader.say(f"SUB {TOPIC}")
    for number in range(100):
        writer.say(f"PUB {TOPIC} m{number}")
    ground.loop.run_until(lambda: len(reader.lines) == 101 and len(writer.lines) == 100, 30_000)
    sent = [line.split()[1] for line in writer.lines]
    assert reader.lines[1:] == [f"MSG {offset} m{n}" for n, offset in enumerate(sent)]
    assert (ground.meter(there).open, ground.meter(there).requests) == (1, 100)
    assert ground.meter(there).bytes_out == len(writer.received)
    assert ground.meter(here).bytes_in == len(f"SUB {TOPIC}\n")


def test_topics_of_brokers_cannot_be_written_to_and_no_gateway_has_to_know() -> None:
    ground = Ground(5)
    writer = ground.connect(ground.others()[0])
    writer.say("PUB __consumer_offsets m")
    ground.loop.run_until(lambda: len(writer.lines) == 1, 30_000)
    assert writer.lines == ["ERROR __consumer_offsets is written by brokers only"]


def test_the_push_goes_on_with_the_next_leader() -> None:
    ground = Ground(2)
    here, there = ground.others()
    reader, writer = ground.connect(here), ground.connect(there)
    reader.say(f"SUB {TOPIC}")
    writer.say(f"PUB {TOPIC} before")
    ground.loop.run_until(lambda: len(reader.lines) == 2, 30_000)
    gone = ground.leader()
    assert gone is not None
    ground.world.machines[gone].kill()
    ground.loop.run_until(lambda: ground.leader() not in (None, gone), 30_000)
    writer.say(f"PUB {TOPIC} after")
    ground.loop.run_until(lambda: len(reader.lines) == 3, 30_000)
    assert [line.split()[2] for line in reader.lines[1:]] == ["before", "after"]


def test_a_subscriber_that_does_not_read_is_sent_no_more_than_its_bound() -> None:
    ground = Ground(3)
    here, there = ground.others()
    reader, writer = ground.connect(here), ground.connect(there)
    reader.link.pause_reading()
    reader.say(f"SUB {TOPIC}")
    text = "x" * 4000
    for number in range(200):
        writer.say(f"PUB {TOPIC} {text}")
        if number % WAITING_LINES_MAX == 0:
            ground.loop.run_for(100)
    ground.loop.run_until(lambda: len(writer.lines) == 200, 60_000)
    (served,) = ground.gateways[int(here[1:])].connections.values()
    assert served.connection is not None
    assert served.connection.unsent_bytes() < 3 * PUSHED_BYTES_MAX
    reader.link.resume_reading()
    ground.loop.run_until(lambda: len(reader.lines) == 201, 60_000)


def test_a_broker_that_stops_in_order_waits_for_what_it_has_begun() -> None:
    ground = Ground(4)
    # It leads nothing, not the controllers either, so that it has nothing to hand over first.
    place = next(name for name in ground.others() if name != ground.cluster.controller)
    writer, idle = ground.connect(place), ground.connect(place)
    for name in set(ground.cluster.names) - {place}:
        ground.world.machines[name].drive.faults.slowness = SLOWNESS
    writer.say(f"PUB {TOPIC} the last one")
    gateway = ground.gateways[int(place[1:])]
    served = next(iter(gateway.connections.values()))
    ground.loop.run_until(served.is_busy, 1_000)
    ground.cluster.restart(ground.world.machines[place])
    ground.loop.run_until(lambda: idle.is_closed, 10_000)
    assert not writer.is_closed
    ground.loop.run_until(lambda: writer.is_closed, 10_000)
    assert writer.lines == ["OK 0"]
