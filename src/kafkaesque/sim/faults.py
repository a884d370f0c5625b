"""The faults that a nemesis commits: what each does to a world, and how it ends.

A fault is data: what, on whom, from when to when, how strong. `begin` and `end` do it. Ending a
fault that something else has ended already is harmless, and so is a fault on a machine that
happens to be off.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafkaesque.sim.env import Machine, World


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that goes wrong for a while."""

    kind: str
    #: Names of the machines that it strikes; for a fault on links, pairs follow one another.
    targets: tuple[str, ...]
    begin_ms: int
    end_ms: int
    #: What it means depends on the kind: a factor, milliseconds, a probability, a number.
    strength: float = 0.0

    def __str__(self) -> str:
        strength = f" ({self.strength:g})" if self.strength else ""
        return (
            f"{self.kind} {' '.join(self.targets)}{strength} for {self.end_ms - self.begin_ms} ms"
        )


@dataclass(frozen=True, slots=True)
class Kind:
    """How a fault of one kind begins and ends."""

    begin: Callable[["Ground", Fault], None]
    #: None for what is over as soon as it has happened.
    end: Callable[["Ground", Fault], None] | None


class Ground:
    """What faults work on: a world, and how to start a machine's program again."""

    def __init__(
        self,
        world: World,
        restart: Callable[[Machine], None],
        stop: Callable[[Machine], None] | None = None,
    ) -> None:
        """`stop` lets a program end in order, and starts it again."""
        self.world: Final = world
        self._restart: Final = restart
        self._stop: Final = stop

    def machines(self, fault: Fault) -> list[Machine]:
        """Return the machines that a fault strikes."""
        return [self.world.machines[name] for name in fault.targets]

    def pairs(self, fault: Fault) -> list[tuple[str, str]]:
        """Return the links that a fault strikes."""
        names = fault.targets
        return list(zip(names[::2], names[1::2], strict=True))

    def restart(self, fault: Fault) -> None:
        """Start what does not run."""
        for machine in self.machines(fault):
            if not machine.running:
                self._restart(machine)

    def stop(self, machine: Machine) -> None:
        """Let a machine's program end in order and begin again."""
        if self._stop is not None:
            self._stop(machine)

    def begin(self, fault: Fault) -> None:
        """Let a fault begin."""
        self.world.loop.tell("nemesis", f"begins: {fault}")
        KINDS[fault.kind].begin(self, fault)

    def end(self, fault: Fault) -> None:
        """Let a fault end."""
        end = KINDS[fault.kind].end
        if end is not None:
            self.world.loop.tell("nemesis", f"ends: {fault}")
            end(self, fault)

    def heal(self) -> None:
        """End whatever is wrong, but for damage to files."""
        self.world.loop.tell("nemesis", "heals everything")
        self.world.wire.heal()
        for machine in self.world.machines.values():
            faults = machine.drive.faults
            faults.slowness, faults.capacity_bytes = 1.0, None
            faults.failing_syncs = faults.failing_writes = faults.failing_reads = 0
            faults.misdirected_writes = 0
            machine.oscillator.set_rate(1.0)
            machine.resume()
            if not machine.running:
                self._restart(machine)


def _each(act: Callable[[Machine, float], object]) -> Callable[[Ground, Fault], None]:
    def do(ground: Ground, fault: Fault) -> None:
        for machine in ground.machines(fault):
            act(machine, fault.strength)

    return do


def _block(ground: Ground, fault: Fault) -> None:
    for source, target in ground.pairs(fault):
        ground.world.wire.block(source, target)


def _unblock(ground: Ground, fault: Fault) -> None:
    for source, target in ground.pairs(fault):
        ground.world.wire.unblock(source, target)


def _set_delay(ground: Ground, fault: Fault, ms: float) -> None:
    for source, target in ground.pairs(fault):
        ground.world.wire.link(source, target).extra_ms = ms


def _set_loss(ground: Ground, fault: Fault, probability: float) -> None:
    for source, target in ground.pairs(fault):
        ground.world.wire.link(source, target).loss = probability


def _reset_connections(machine: Machine, share: float) -> None:
    for sock in list(machine.host.sockets.values()):
        if machine.world.wire.chance.random() < share:
            sock.fail()


def _fill(machine: Machine, room_bytes: float) -> None:
    machine.drive.faults.capacity_bytes = machine.drive.used_bytes() + int(room_bytes)


def _empty(machine: Machine, _: float) -> None:
    machine.drive.faults.capacity_bytes = None


def _set_number(name: str) -> Kind:
    return Kind(
        _each(lambda machine, count: setattr(machine.drive.faults, name, int(count))),
        _each(lambda machine, _: setattr(machine.drive.faults, name, 0)),
    )


def _flip_bit(machine: Machine, _: float) -> None:
    files = machine.drive.volume.files()
    if files:
        path = files[machine.drive.chance.randrange(len(files))][0]
        machine.world.loop.tell(machine.name, machine.drive.flip_bit(path))


def _replace_disk(machine: Machine, _: float) -> None:
    machine.kill()
    machine.drive.volume.clear()
    machine.world.loop.tell(machine.name, "has an empty disk")


def _stop(ground: Ground, fault: Fault) -> None:
    for machine in ground.machines(fault):
        ground.stop(machine)


def _restart(ground: Ground, fault: Fault) -> None:
    ground.restart(fault)


KINDS: Final[dict[str, Kind]] = {
    # Processes and power.
    "restart": Kind(_stop, None),
    "absence": Kind(_each(lambda machine, _: machine.kill()), _restart),
    "kill": Kind(_each(lambda machine, _: machine.kill()), _restart),
    "power cut": Kind(_each(lambda machine, _: machine.cut_power()), _restart),
    "lost disk": Kind(_each(_replace_disk), _restart),
    "pause": Kind(
        _each(lambda machine, _: machine.pause()), _each(lambda machine, _: machine.resume())
    ),
    # The network.
    "block": Kind(_block, _unblock),
    "delay": Kind(
        lambda ground, fault: _set_delay(ground, fault, fault.strength),
        lambda ground, fault: _set_delay(ground, fault, 0.0),
    ),
    "loss": Kind(
        lambda ground, fault: _set_loss(ground, fault, fault.strength),
        lambda ground, fault: _set_loss(ground, fault, 0.0),
    ),
    "reset": Kind(_each(_reset_connections), None),
    # Clocks.
    "clock jump": Kind(_each(lambda machine, ms: machine.oscillator.jump_wall(int(ms))), None),
    "clock rate": Kind(
        _each(lambda machine, rate: machine.oscillator.set_rate(rate)),
        _each(lambda machine, _: machine.oscillator.set_rate(1.0)),
    ),
    # Disks.
    "slow disk": Kind(
        _each(lambda machine, factor: setattr(machine.drive.faults, "slowness", factor)),
        _each(lambda machine, _: setattr(machine.drive.faults, "slowness", 1.0)),
    ),
    "full disk": Kind(_each(_fill), _each(_empty)),
    "failing syncs": _set_number("failing_syncs"),
    "failing writes": _set_number("failing_writes"),
    "failing reads": _set_number("failing_reads"),
    "misdirected writes": _set_number("misdirected_writes"),
    "bit flip": Kind(_each(_flip_bit), None),
}
