"""What a network with faults may do to connections."""

import random
import struct

import pytest

from kafkaesque.env import Env
from kafkaesque.env.network import Address, ConnectionHandler, Framing, ListenOptions
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.wire import WireOptions
from tests.unit.env.worlds import Recorder

FRAMED = ListenOptions(framing=Framing.LENGTH_PREFIXED)
PORT = 9092


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


class Duo:
    """Two machines and a connection between them."""

    def __init__(self, seed: int = 1, options: WireOptions | None = None) -> None:
        self.world = World(seed, options)
        self.loop = self.world.loop
        self.wire = self.world.wire
        self.client_machine = self.world.add_machine("client")
        self.server_machine = self.world.add_machine("server")
        self.client_env = self.client_machine.boot()
        self.servers: list[Recorder] = []
        self.serve(self.server_machine)
        self.client = self.dial()
        self.loop.run_until(lambda: bool(self.client.connection and self.servers))
        self.server = self.servers[-1]
        self.loop.run_until(lambda: self.server.connection is not None)

    def serve(self, machine: Machine) -> Env:
        def accept() -> ConnectionHandler:
            self.servers.append(Recorder())
            return self.servers[-1]

        env = machine.boot()
        env.network.listen(Address("server", PORT), FRAMED, accept)
        return env

    def dial(self) -> Recorder:
        client = Recorder()
        address = Address("server", PORT)
        self.client_env.network.connect(address, FRAMED, client, client.failed.append)
        return client

    def block(self) -> None:
        self.wire.block("client", "server")
        self.wire.block("server", "client")


def test_names_are_addresses() -> None:
    duo = Duo()
    assert duo.server.link.peer.startswith("client:")
    assert duo.client.link.peer == f"server:{PORT}"
    duo.client.link.write([frame(b"hello")])
    duo.loop.run_until(lambda: duo.server.pieces == [b"hello"])
    assert 0.04 <= duo.loop.now_ns / 1e6 < 50


def test_a_block_delays_and_nothing_is_lost_or_reordered() -> None:
    for seed in range(10):
        duo = Duo(seed)
        sent = [b"%d" % number * 100 for number in range(50)]
        for number, payload in enumerate(sent):
            duo.client.link.write([frame(payload)])
            if number == 20:
                duo.loop.run_for(0.1)
                duo.wire.block("client", "server")
            duo.loop.run_for(0.05)
        duo.loop.run_for(2_000)
        before = len(duo.server.pieces)
        assert before < 50
        duo.wire.heal()
        duo.loop.run_until(lambda duo=duo: len(duo.server.pieces) == 50)  # type: ignore[misc]
        assert duo.server.pieces == sent


def test_what_is_sent_again_after_a_block_is_not_overtaken_by_what_was_late_anyway() -> None:
    duo = Duo()
    link = duo.wire.link("client", "server")
    link.extra_ms = 100
    duo.client.link.write([frame(b"first")])
    duo.loop.run_for(10)
    link.extra_ms = 5_000  # as much as TCP's back-off makes of a few losses
    duo.client.link.write([frame(b"second")])
    duo.loop.run_for(10)
    duo.wire.block("client", "server")
    duo.loop.run_for(1_000)
    duo.wire.heal()
    duo.client.link.write([frame(b"third")])
    duo.loop.run_for(10_000)
    assert duo.server.pieces == [b"first", b"second", b"third"]


def test_no_mixture_of_faults_reorders_a_connection() -> None:
    for seed in range(20):
        duo = Duo(seed)
        chance = random.Random(seed)
        link = duo.wire.link("client", "server")
        sent = [b"%d" % number * chance.randint(1, 200) for number in range(100)]
        for payload in sent:
            duo.client.link.write([frame(payload)])
            duo.loop.run_for(chance.randint(0, 40))
            link.loss = chance.choice((0.0, 0.4))
            link.extra_ms = chance.choice((0.0, 50.0, 1_500.0))
            chance.choice((duo.wire.block, duo.wire.unblock))("client", "server")
        duo.wire.heal()
        duo.loop.run_for(60_000)
        assert duo.server.pieces == sent


def test_a_one_way_block_lets_the_other_way_through() -> None:
    duo = Duo()
    duo.wire.block("server", "client")
    duo.client.link.write([frame(b"there")])
    duo.server.link.write([frame(b"back")])
    duo.loop.run_for(1_000)
    assert duo.server.pieces == [b"there"]
    assert duo.client.pieces == []
    duo.wire.unblock("server", "client")
    duo.loop.run_until(lambda: duo.client.pieces == [b"back"])


@pytest.mark.parametrize("blocked", ["client server", "server client"])
def test_who_gets_no_acknowledgement_for_too_long_gives_up(blocked: str) -> None:
    duo = Duo()
    source, target = blocked.split()
    duo.wire.block(source, target)
    duo.client.link.write([frame(b"unanswered")])
    duo.loop.run_for(30_000)
    assert [type(error) for error in duo.client.closed] == [TimeoutError]
    assert duo.server.closed == [], "the other side was never told"
    duo.wire.heal()
    duo.server.link.write([frame(b"are you there?")])
    duo.loop.run_for(10_000)
    assert [type(error) for error in duo.server.closed] == [ConnectionResetError]


def test_nobody_is_reached_through_a_block() -> None:
    duo = Duo()
    duo.wire.block("server", "client")
    client = duo.dial()
    start = duo.loop.now_ns
    duo.loop.run_until(lambda: bool(client.failed))
    assert isinstance(client.failed[0], TimeoutError)
    assert duo.loop.now_ns - start == 3_000_000_000
    late = duo.dial()
    duo.loop.run_for(500)
    duo.wire.heal()
    duo.loop.run_until(lambda: late.connection is not None)


def test_a_killed_process_is_missed_at_once() -> None:
    ends = set()
    for seed in range(20):
        duo = Duo(seed)
        duo.server.link.write([frame(b"x" * 100_000)])
        duo.server_machine.kill()
        duo.loop.run_for(100)
        assert len(duo.client.closed) == 1
        ends.add(type(duo.client.closed[0]))
        assert duo.server.closed == [], "a dead process hears nothing"
        refused = duo.dial()
        duo.loop.run_until(lambda refused=refused: bool(refused.failed))  # type: ignore[misc]
        assert isinstance(refused.failed[0], ConnectionRefusedError)
    assert ends == {type(None), ConnectionResetError}


def test_a_machine_without_power_is_silent() -> None:
    duo = Duo()
    duo.server_machine.cut_power()
    duo.loop.run_for(60_000)
    assert duo.client.closed == [], "who says nothing learns nothing"
    duo.client.link.write([frame(b"hello?")])
    duo.loop.run_for(30_000)
    assert [type(error) for error in duo.client.closed] == [TimeoutError]
    client = duo.dial()
    duo.loop.run_until(lambda: bool(client.failed))
    assert isinstance(client.failed[0], TimeoutError)


def test_a_machine_that_comes_back_does_not_know_old_connections() -> None:
    duo = Duo()
    duo.server_machine.cut_power()
    duo.client.link.write([frame(b"hello?")])
    duo.loop.run_for(500)
    duo.serve(duo.server_machine)
    duo.loop.run_for(1_000)
    assert [type(error) for error in duo.client.closed] == [ConnectionResetError]
    client = duo.dial()
    duo.loop.run_until(lambda: client.connection is not None)


def test_a_paused_process_gets_everything_when_it_goes_on() -> None:
    duo = Duo()
    duo.server_machine.pause()
    for number in range(10):
        duo.client.link.write([frame(b"%d" % number)])
        duo.loop.run_for(100)
    waiting = duo.dial()
    duo.loop.run_for(100)
    assert duo.server.pieces == []
    assert waiting.connection is not None, "the kernel accepts for it"
    duo.server_machine.resume()
    duo.loop.run_for(10)
    assert duo.server.pieces == [b"%d" % number for number in range(10)]
    assert len(duo.servers) == 2


def test_delay_and_loss_make_late_and_keep_the_order() -> None:
    duo = Duo()
    duo.wire.link("client", "server").extra_ms = 300
    start = duo.loop.now_ns
    duo.client.link.write([frame(b"late")])
    duo.loop.run_until(lambda: duo.server.pieces == [b"late"])
    assert 300 <= (duo.loop.now_ns - start) / 1e6 < 320
    duo.wire.heal()
    duo.wire.link("client", "server").loss = 0.5
    sent = [b"%d" % number for number in range(100)]
    for payload in sent:
        duo.client.link.write([frame(payload)])
        duo.loop.run_for(1)
    duo.loop.run_until(lambda: len(duo.server.pieces) == 101)
    assert duo.server.pieces[1:] == sent


def test_bandwidth_is_a_bound() -> None:
    duo = Duo(options=WireOptions(bytes_per_ms=1_000))
    start = duo.loop.now_ns
    duo.client.link.write([frame(bytes(100_000))])
    duo.loop.run_until(lambda: bool(duo.server.pieces))
    assert (duo.loop.now_ns - start) / 1e6 >= 50


def test_a_process_that_dies_in_the_midst_of_a_frame_leaves_a_part_of_it() -> None:
    seen = set()
    for seed in range(20):
        duo = Duo(seed, WireOptions(bytes_per_ms=10_000))
        duo.client.link.write([frame(b"first"), frame(bytes(2_000_000)), frame(b"last")])
        duo.loop.run_for(10 + seed * 10)
        duo.client_machine.kill()
        duo.loop.run_for(1_000)
        assert len(duo.server.closed) == 1
        seen.add(len(duo.server.pieces))
        assert duo.server.pieces == [b"first", bytes(2_000_000), b"last"][: len(duo.server.pieces)]
    assert 1 in seen


def test_connections_within_a_machine_know_no_faults() -> None:
    world = World(1)
    machine = world.add_machine("alpha")
    env = machine.boot()
    world.wire.block("alpha", "alpha")
    servers: list[Recorder] = []

    def accept() -> ConnectionHandler:
        servers.append(Recorder())
        return servers[-1]

    env.network.listen(Address("alpha", PORT), FRAMED, accept)
    client = Recorder()
    env.network.connect(Address("alpha", PORT), FRAMED, client, client.failed.append)
    world.loop.run_until(lambda: client.connection is not None)
    client.link.write([frame(b"to myself")])
    world.loop.run_until(lambda: bool(servers) and servers[0].pieces == [b"to myself"])
