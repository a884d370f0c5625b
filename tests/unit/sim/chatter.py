"""A small program for simulated machines: each keeps a log, and tells its neighbours of it."""

import struct
import sys
from collections.abc import Callable

from kafkaesque.env import Env
from kafkaesque.env.disk import FileRange
from kafkaesque.env.network import Address, Connection, Framing, ListenOptions
from kafkaesque.model.errors import DiskFailed
from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.faults import Ground
from kafkaesque.sim.nemesis import DAMAGING, SURVIVABLE, Nemesis, PlanOptions, make_plan

OPTIONS = ListenOptions(framing=Framing.LENGTH_PREFIXED)
PORT = 9190
DURATION_MS = 8_000


class Answerer:
    """Sends back ranges of the log."""

    def __init__(self, chatter: "Chatter") -> None:
        self.chatter = chatter
        self.connection: Connection | None = None

    def on_open(self, connection: Connection) -> None:
        self.connection = connection

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        assert self.connection is not None
        log = self.chatter.log
        length = min(log.size(), int.from_bytes(data[:4], "big"))
        self.connection.write([struct.pack(">i", length), FileRange(log, 0, length)])

    def on_writable(self) -> None:
        pass

    def on_close(self, error: Exception | None) -> None:
        self.connection = None


class Asker(Answerer):
    """Asks a neighbour again and again."""

    def __init__(self, chatter: "Chatter", name: str) -> None:
        super().__init__(chatter)
        self.name = name
        self.dial()

    def dial(self) -> None:
        address = Address(self.name, PORT)
        self.chatter.env.network.connect(address, OPTIONS, self, lambda _: self.later(self.dial))

    def later(self, act: Callable[[], None]) -> None:
        self.chatter.env.clock.call_later(5 + self.chatter.env.dice.below(50), act)

    def on_open(self, connection: Connection) -> None:
        super().on_open(connection)
        self.ask()

    def ask(self) -> None:
        if self.connection is not None:
            self.connection.write([struct.pack(">ii", 4, self.chatter.env.dice.below(300_000))])

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        self.chatter.heard += len(data)
        self.later(self.ask)

    def on_close(self, error: Exception | None) -> None:
        super().on_close(error)
        self.later(self.dial)


class Chatter:
    """One process."""

    def __init__(self, env: Env, names: list[str], name: str) -> None:
        self.env = env
        self.heard = 0
        self.broken = False
        self.log = env.disk.open("log", create=True)
        env.disk.sync_blocking([self.log], [""])
        env.network.listen(Address(name, PORT), OPTIONS, lambda: Answerer(self))
        self.askers = [Asker(self, other) for other in names if other != name]
        self.append()

    def append(self) -> None:
        size = self.log.size() % 3_000_000
        try:
            self.log.write_at(size, [self.env.dice.unique_bytes(1 + self.env.dice.below(20_000))])
        except DiskFailed:
            return
        self.env.disk.sync([self.log], lambda _: None)
        self.env.clock.call_later(self.env.dice.below(20), self.append)


def run(seed: int) -> World:
    """Let three machines chatter while all kinds of things go wrong."""
    world = World(seed)
    names = ["alpha", "beta", "gamma"]
    running: list[Chatter] = []

    def start(machine: Machine) -> None:
        def program(env: Env) -> None:
            try:
                running.append(Chatter(env, names, machine.name))
            except DiskFailed:
                machine.world.loop.tell(machine.name, "cannot start: its disk fails")

        machine.start(program)

    for name in names:
        start(world.add_machine(name))
    options = PlanOptions(duration_ms=DURATION_MS, between_ms=200, kinds=SURVIVABLE + DAMAGING)
    nemesis = Nemesis(Ground(world, start))
    nemesis.commit(make_plan(seed, names, options), DURATION_MS)
    world.loop.run_for(DURATION_MS + 1_000)
    assert nemesis.ended
    assert sum(chatter.heard for chatter in running) > 0
    return world


if __name__ == "__main__":
    done = run(int(sys.argv[1]))
    print(done.loop.history.digest(), done.loop.history.count)
    print(*done.loop.history.lines(), sep="\n")
