"""The faults that a nemesis commits: what each does to a world, and how it ends.

A fault is data: what, on whom, from when to when, how strong. `begin` and `end` do it. Ending a
fault that something else has ended already is harmless, and so is a fault on a machine that
happens to be off.

Faults around the controller strike links of whoever is controller when they begin. Of their
targets, the last one stands in for the one that is controller itself, if one is: so as many brokers
are struck as there are targets, less one. A fault that strikes one broker goes with it from
controller to controller, so that it hears of none while it lasts; others stay where they began.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from kafkaesque.sim.env import Machine, World
from kafkaesque.sim.inode import FileInode
from kafkaesque.sim.loop import NS_PER_MS

#: How a log's files are called, and which of them are written no more once the next one is there.
LOG: Final = ".log"
CLOSED: Final = (LOG, ".index", ".timeindex")

#: While brokers are restarted one after another, it is looked so often whether one is back.
ROLL_LOOK_MS: Final = 100
#: So often a fault around the controller looks for who that is.
AIM_LOOK_MS: Final = 200
#: What keeps brokers and the controller apart.
AROUND_CONTROLLER: Final = (
    "controller cut",
    "deaf controller",
    "unheard controller",
    "slow controller",
)


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


class Aim(NamedTuple):
    """What a fault around the controller has come to: a fault on links."""

    controller: str
    others: tuple[str, ...]
    on_links: Fault


class Ground:
    """What faults work on: a world, and how to start a machine's program again."""

    def __init__(
        self,
        world: World,
        restart: Callable[[Machine], None],
        stop: Callable[[Machine], None] | None = None,
        is_back: Callable[[Machine], bool] | None = None,
        controller: Callable[[], str | None] | None = None,
    ) -> None:
        """`restart` starts the program of a machine that does not run.

        `stop` lets a program end in order and begin again; without it nobody does. `is_back` says
        whether it works again; without it, that it runs is enough. `controller` names the machine
        of the controller; without it nothing happens around it.
        """
        self.world: Final = world
        self._restart: Final = restart
        self._stop: Final = stop
        self._is_back: Final = is_back
        self._controller: Final = controller
        #: The faults that act again and again until they end.
        self.acting: Final[set[Fault]] = set()
        #: The faults around the controller that have found it.
        self.aimed: Final[dict[Fault, Aim]] = {}

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

    def is_back(self, machine: Machine) -> bool:
        """Return whether a machine's program has come back and does its work."""
        return machine.running if self._is_back is None else self._is_back(machine)

    def controller(self) -> str | None:
        """Return the machine of the controller, None if there is none or it is not known."""
        return None if self._controller is None else self._controller()

    def repeat(self, fault: Fault, every_ms: float, act: Callable[[], object]) -> None:
        """Do something again and again until the fault ends."""

        def happen() -> None:
            if fault in self.acting:
                act()
                self.world.loop.after(round(every_ms * NS_PER_MS), fault.kind, happen)

        self.acting.add(fault)
        happen()

    def begin(self, fault: Fault) -> None:
        """Let a fault begin."""
        self.world.loop.tell("nemesis", f"begins: {fault}")
        KINDS[fault.kind].begin(self, fault)

    def end(self, fault: Fault) -> None:
        """Let a fault end."""
        self.acting.discard(fault)
        end = KINDS[fault.kind].end
        if end is not None:
            self.world.loop.tell("nemesis", f"ends: {fault}")
            end(self, fault)

    def heal(self) -> None:
        """End whatever is wrong, but for damage to files."""
        self.world.loop.tell("nemesis", "heals everything")
        self.acting.clear()
        self.aimed.clear()
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


def _flap(ground: Ground, fault: Fault) -> None:
    turns = [_block, _unblock]

    def turn() -> None:
        turns[0](ground, fault)
        turns.reverse()

    ground.repeat(fault, fault.strength, turn)


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


def closed_files(machine: Machine) -> list[tuple[str, FileInode]]:
    """Return the files of logs that nobody writes any more, with their indexes."""
    files = machine.drive.volume.files()
    newest = {path.rpartition("/")[0]: path for path, _ in files if path.endswith(LOG)}
    return [
        (path, inode)
        for path, inode in files
        if path.endswith(CLOSED) and path[: path.rindex(".")] != _stem(newest, path)
    ]


def _stem(newest: dict[str, str], path: str) -> str:
    return newest.get(path.rpartition("/")[0], LOG).removesuffix(LOG)


def _truncate_closed(machine: Machine, share: float) -> None:
    files = closed_files(machine)
    if files:
        path, inode = files[machine.drive.chance.randrange(len(files))]
        size = int(len(inode.content) * share)
        machine.world.loop.tell(
            machine.name, f"{path}: cut from {len(inode.content)} to {size} bytes"
        )
        inode.lose_end(size)


def _replace_disk(machine: Machine, _: float) -> None:
    machine.kill()
    machine.drive.volume.clear()
    machine.world.loop.tell(machine.name, "has an empty disk")


def _stop(ground: Ground, fault: Fault) -> None:
    for machine in ground.machines(fault):
        ground.stop(machine)


def _restart(ground: Ground, fault: Fault) -> None:
    ground.restart(fault)


def _roll(ground: Ground, fault: Fault) -> None:
    """Restart one after the other, each as soon as the one before it is back."""
    left = ground.machines(fault)
    stopped: list[Machine] = []

    def go_on() -> None:
        if left and all(map(ground.is_back, stopped)):
            stopped.append(left.pop(0))
            ground.stop(stopped[-1])

    ground.repeat(fault, ROLL_LOOK_MS, go_on)


def _around_controller(
    kind: str, links: Callable[[str, Sequence[str]], list[tuple[str, str]]]
) -> Kind:
    """Return a fault on these links of the controller and others, of a kind that strikes links."""

    def begin(ground: Ground, fault: Fault) -> None:
        ground.repeat(fault, AIM_LOOK_MS, lambda: look(ground, fault))

    def look(ground: Ground, fault: Fault) -> None:
        controller, aim = ground.controller(), ground.aimed.get(fault)
        if controller is None or (aim is not None and not _has_gone(aim, controller)):
            return
        if aim is not None:
            KINDS[kind].end(ground, aim.on_links)  # type: ignore[misc]
        others = _others(fault, controller) if aim is None else aim.others
        targets = tuple(name for pair in links(controller, others) for name in pair)
        on_links = replace(fault, kind=kind, targets=targets)
        ground.aimed[fault] = Aim(controller, others, on_links)
        ground.world.loop.tell("nemesis", f"strikes links of the controller: {on_links}")
        KINDS[kind].begin(ground, on_links)

    def end(ground: Ground, fault: Fault) -> None:
        aim = ground.aimed.pop(fault, None)
        if aim is not None:
            KINDS[kind].end(ground, aim.on_links)  # type: ignore[misc]

    return Kind(begin, end)


def _has_gone(aim: Aim, controller: str) -> bool:
    """Tell whether a fault is to go on to another controller."""
    return len(aim.others) == 1 and controller not in (aim.controller, *aim.others)


def _others(fault: Fault, controller: str) -> tuple[str, ...]:
    others = [name for name in fault.targets if name != controller]
    return tuple(others[: len(fault.targets) - 1])


def _to_controller(controller: str, others: Sequence[str]) -> list[tuple[str, str]]:
    return [(other, controller) for other in others]


def _from_controller(controller: str, others: Sequence[str]) -> list[tuple[str, str]]:
    return [(controller, other) for other in others]


def _both_ways(controller: str, others: Sequence[str]) -> list[tuple[str, str]]:
    return _to_controller(controller, others) + _from_controller(controller, others)


KINDS: Final[dict[str, Kind]] = {
    # Processes and power.
    "restart": Kind(_stop, None),
    "rolling restart": Kind(_roll, lambda _, __: None),
    "absence": Kind(_each(lambda machine, _: machine.kill()), _restart),
    "kill": Kind(_each(lambda machine, _: machine.kill()), _restart),
    "power cut": Kind(_each(lambda machine, _: machine.cut_power()), _restart),
    "lost disk": Kind(_each(_replace_disk), _restart),
    "pause": Kind(
        _each(lambda machine, _: machine.pause()), _each(lambda machine, _: machine.resume())
    ),
    # The network.
    "block": Kind(_block, _unblock),
    "flapping": Kind(_flap, _unblock),
    "delay": Kind(
        lambda ground, fault: _set_delay(ground, fault, fault.strength),
        lambda ground, fault: _set_delay(ground, fault, 0.0),
    ),
    "loss": Kind(
        lambda ground, fault: _set_loss(ground, fault, fault.strength),
        lambda ground, fault: _set_loss(ground, fault, 0.0),
    ),
    "reset": Kind(_each(_reset_connections), None),
    # The network around the controller: it and others do not reach each other; it does not hear
    # them; they do not hear it; it and they are slow to reach each other.
    "controller cut": _around_controller("block", _both_ways),
    "deaf controller": _around_controller("block", _to_controller),
    "unheard controller": _around_controller("block", _from_controller),
    "slow controller": _around_controller("delay", _both_ways),
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
    "truncation": Kind(_each(_truncate_closed), None),
}
