"""What can go wrong with a cluster under test: at once, until `heal` or its opposite."""

from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, product
from typing import TypeVar

from kafkaesque.sim.env import Machine
from kafkaesque.sim.faults import Ground
from kafkaesque.testing import arguments
from kafkaesque.testing.brokers import TestedCluster

Result = TypeVar("Result")


class Faults:
    """Faults on demand; brokers are named by number, from 1 on.

    What makes no sense (a broker that is none, one on two sides, a negative size) is a `TypeError`
    or a `ValueError`, and nothing happens.
    """

    _cluster: TestedCluster

    def _do(self, act: Callable[[], Result]) -> Result:
        """Do something to the simulated world, and return what it returns."""
        raise NotImplementedError

    # -- processes and power

    def kill(self, broker: int) -> None:
        """End a broker's process, as kill -9 does."""
        self._on(broker, lambda machine: machine.kill())

    def cut_power(self, broker: int) -> None:
        """Switch a broker's machine off: what was not synced may be gone, and nobody is told."""
        self._on(broker, lambda machine: machine.cut_power())

    def start(self, broker: int) -> None:
        """Start a broker that does not run, with the disk that it had."""
        self._on(broker, self._boot)

    def restart(self, broker: int) -> None:
        """Have a broker stop in order, and start again."""
        self._on(broker, self._cluster.restart)

    def pause(self, broker: int) -> None:
        """Stop a broker's process, as SIGSTOP does: connections stay, and nothing is answered."""
        self._on(broker, lambda machine: machine.pause())

    def resume(self, broker: int) -> None:
        """Let a paused broker go on."""
        self._on(broker, lambda machine: machine.resume())

    def _boot(self, machine: Machine) -> None:
        if not machine.running:
            self._cluster.boot(machine)

    # -- the network

    def partition(self, *sides: Iterable[int]) -> None:
        """Cut the network between brokers of different sides; a broker in none reaches all."""
        names = [
            [self._cluster.machine(each).name for each in side]  # type: ignore[arg-type]
            for side in arguments.sides(sides)
        ]

        def cut() -> None:
            for one, other in combinations(names, 2):
                for a, b in product(one, other):
                    self._cluster.world.wire.block(a, b)
                    self._cluster.world.wire.block(b, a)

        self._do(cut)

    def isolate(self, broker: int) -> None:
        """Cut a broker off from all other brokers; clients still reach it."""
        self._cluster.machine(broker)
        others = [n for n in range(1, len(self._cluster.names) + 1) if n != broker]
        if not others:
            raise ValueError(f"broker {broker} is the only one: there is none to cut it off from")
        self.partition([broker], others)

    def cut_one_way(self, source: int, target: int) -> None:
        """Lose whatever `source` sends to `target`."""
        a, b = self._cluster.machine(source).name, self._cluster.machine(target).name
        if a == b:
            raise ValueError(f"broker {source} cannot be cut off from itself")
        self._do(lambda: self._cluster.world.wire.block(a, b))

    def delay(self, ms: float) -> None:
        """Have everything between brokers take longer by so much, each way."""
        ms = arguments.number("a delay in ms", ms)

        def slow() -> None:
            for a, b in self._pairs():
                self._cluster.world.wire.link(a, b).extra_ms = ms

        self._do(slow)

    def _pairs(self) -> Iterator[tuple[str, str]]:
        return ((a, b) for a in self._cluster.names for b in self._cluster.names if a != b)

    # -- disks

    def slow_disk(self, broker: int, factor: float) -> None:
        """Have a broker's disk take `factor` times as long for everything."""
        factor = arguments.positive("the factor of a slow disk", factor)
        self._on(broker, lambda machine: setattr(machine.drive.faults, "slowness", factor))

    def fill_disk(self, broker: int, room_bytes: int = 0) -> None:
        """Leave so much room on a broker's disk."""
        room_bytes = arguments.whole("the room on a disk, in bytes,", room_bytes, 0)

        def fill(machine: Machine) -> None:
            machine.drive.faults.capacity_bytes = machine.drive.used_bytes() + room_bytes

        self._on(broker, fill)

    def fail_syncs(self, broker: int, count: int = 1) -> None:
        """Have the next syncs of a broker's disk fail."""
        count = arguments.whole("the number of syncs that fail", count, 1)
        self._on(broker, lambda machine: setattr(machine.drive.faults, "failing_syncs", count))

    def lose_disk(self, broker: int) -> None:
        """Kill a broker and give it an empty disk."""

        def lose(machine: Machine) -> None:
            machine.kill()
            machine.drive.volume.clear()

        self._on(broker, lose)

    # -- clocks

    def jump_clock(self, broker: int, ms: int) -> None:
        """Set a broker's wall clock forward, or back."""
        if not arguments.is_whole(ms):
            raise TypeError(f"a clock jumps by whole milliseconds, not by {ms!r}")
        self._on(broker, lambda machine: machine.oscillator.jump_wall(ms))

    def set_clock_rate(self, broker: int, rate: float) -> None:
        """Have a broker's clocks run `rate` times as fast as they should."""
        rate = arguments.positive("the rate of a clock", rate)
        self._on(broker, lambda machine: machine.oscillator.set_rate(rate))

    # -- the end of it

    def heal(self) -> None:
        """End whatever is wrong; start what does not run, and anew who has given up its disk.

        Lost data stays lost.
        """
        self._do(self._heal)

    def _heal(self) -> None:
        Ground(self._cluster.world, self._cluster.boot_if_broker).heal()
        # A broker that was paused hears only now of what it has missed: that its disk failed, say.
        self._cluster.world.loop.run_for(0)
        self._cluster.reboot_failed()

    def _on(self, broker: int, act: Callable[[Machine], object]) -> None:
        machine = self._cluster.machine(broker)
        self._do(lambda: act(machine))
