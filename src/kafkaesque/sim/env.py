"""Simulated machines, and the doors of the processes that run on them."""

from collections.abc import Callable
from typing import Final

from kafkaesque.env import Env
from kafkaesque.sim.clock import Oscillator, SimClock
from kafkaesque.sim.dice import Chance, SimDice
from kafkaesque.sim.disk import Drive, SimDisk
from kafkaesque.sim.loop import Life, SimLoop
from kafkaesque.sim.network import Hosts, SimNetwork
from kafkaesque.sim.socket import Host
from kafkaesque.sim.wire import Wire, WireOptions

#: What a machine runs: called with the doors of every new process.
Program = Callable[[Env], object]


class World:
    """A simulated world: one loop, one wire, some machines."""

    def __init__(self, seed: int, wire: WireOptions | None = None) -> None:
        self.loop: Final = SimLoop(seed)
        self.wire: Final = Wire(self.loop, wire or WireOptions())
        self.hosts: Final = Hosts()
        #: By name, in the order of making.
        self.machines: Final[dict[str, Machine]] = {}

    def add_machine(
        self, name: str, on_fatal: Callable[[BaseException], None] | None = None
    ) -> "Machine":
        """Put up a machine; it is switched on, and runs nothing. Its address is its name.

        `on_fatal` is told of defects; without it `loop.step` raises them.
        """
        machine = Machine(self, name, on_fatal)
        self.machines[name] = machine
        return machine


class Machine:
    """One machine: hardware that lasts, and a process that comes and goes."""

    def __init__(
        self, world: World, name: str, on_fatal: Callable[[BaseException], None] | None
    ) -> None:
        self.name: Final = name
        self.world: Final = world
        self.host: Final = Host(world.wire, name)
        world.hosts.add(self.host)
        self.drive: Final = Drive(world.loop, name)
        self.oscillator: Final = Oscillator(world.loop)
        self._on_fatal: Final = on_fatal
        self._run_count = 0
        self._life: Life | None = None

    @property
    def running(self) -> bool:
        """Whether a process runs, if only paused."""
        return self._life is not None

    @property
    def paused(self) -> bool:
        """Whether the process is paused."""
        return self._life is not None and self._life.paused

    def boot(self) -> Env:
        """Switch the machine on if it is off, start a process, and return its doors."""
        if self._life is not None:
            raise ValueError(f"{self.name} runs already")
        loop = self.world.loop
        self._run_count += 1
        self._life = life = Life(f"{self.name}.{self._run_count}", self._on_defect)
        self.host.up = True
        loop.tell(self.name, f"starts, run {self._run_count}")
        clock = SimClock(loop, self.oscillator, life)
        disk = SimDisk(self.drive, life)
        network = SimNetwork(loop, self.world.hosts, self.host, clock, life, disk.readers)
        dice = SimDice(self._generator())
        return Env(clock=clock, dice=dice, disk=disk, network=network)

    def start(self, program: Program) -> Env:
        """Start a process that runs a program, in an event of its own."""
        env = self.boot()

        def begin() -> None:
            program(env)

        self.world.loop.after(0, "start", begin, self._life)
        return env

    def kill(self) -> None:
        """End the process at once, as kill -9 does: the kernel keeps what was written."""
        if self._life is not None:
            self.world.loop.tell(self.name, "killed")
            self._end_life()
            self.host.end_process()

    def cut_power(self) -> None:
        """Switch the machine off: what was not synced may be gone, and nobody is told."""
        if self.host.up:
            self.world.loop.tell(self.name, "loses power")
            self._end_life()
            self.host.lose_power()
            self.drive.lose_power()

    def pause(self) -> None:
        """Stop the process, as SIGSTOP does; its peers' packets are taken by the kernel."""
        if self._life is not None and not self._life.paused:
            self.world.loop.tell(self.name, "paused")
            self._life.paused = True

    def resume(self) -> None:
        """Let the process go on."""
        if self._life is not None and self._life.paused:
            self.world.loop.tell(self.name, "goes on")
            self.world.loop.resume(self._life)

    def _end_life(self) -> None:
        if self._life is not None:
            self._life.alive = False
            self._life.held.clear()
            self._life = None

    def _generator(self) -> Chance:
        return self.world.loop.chance(f"{self.name}/{self._run_count}")

    def _on_defect(self, error: BaseException) -> None:
        self.world.loop.tell(self.name, f"defect: {type(error).__name__}: {error}")
        if self._on_fatal is None:
            self.world.loop.defects.append(error)
        else:
            self._on_fatal(error)
