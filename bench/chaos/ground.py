"""What each fault does to machines and to the network, and how it ends."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bench.chaos.departure import Departure, Stage
from bench.chaos.machine import Machine
from bench.chaos.plan import IN_ORDER, OF_LINKS
from bench.chaos.switch import Network
from kafkaesque.sim.faults import Fault

Say = Callable[[str], None]
#: How long a broker of a rolling restart has been ready before the next one goes.
_ROLLING_REST_S: Final = 1.0
_ROLLING_S_MAX: Final = 20.0
#: So many partitions get a replica on the broker that comes, when it is there.
_GIVEN: Final = 2


@dataclass(slots=True)
class _Rolling:
    """A rolling restart under way."""

    left: list[Machine]
    now: Machine | None = None
    since: float = 0.0
    ready_at: float | None = None


class Ground:
    """Begins and ends faults; `tick` goes on with those that take time."""

    def __init__(
        self,
        machines: Mapping[str, Machine],
        network: Network | None,
        *,
        spare: Machine | None,
        departure: Departure | None,
        reassign: Callable[[str], None],
        seed: int,
        say: Say,
    ) -> None:
        """`spare` is the broker that comes and goes, `departure` its way to leave in order.

        `reassign` moves a partition, to the broker that is named if one is.
        """
        self.machines = machines
        self.spare = spare
        self.departure = departure
        self._network = network
        self._reassign = reassign
        self._dice = random.Random(f"{seed}/ground")
        self._say = say
        self._flapping: dict[int, tuple[Fault, float, bool]] = {}
        self._rolling: _Rolling | None = None
        #: Whether the broker that comes has been given nothing yet.
        self._is_new = False
        self._slow: dict[str, list[float]] = {}
        #: How many faults of each kind did something.
        self.counts: Counter[str] = Counter()

    @property
    def all_machines(self) -> list[Machine]:
        """Return the brokers, the one that comes and goes last."""
        return [*self.machines.values(), *([] if self.spare is None else [self.spare])]

    def _targets(self, fault: Fault) -> list[Machine]:
        known = {machine.name: machine for machine in self.all_machines}
        return [known[name] for name in fault.targets if name in known]

    def begin(self, number: int, fault: Fault) -> None:
        """Let a fault begin."""
        begins: dict[str, Callable[[Machine, Fault], object]] = {
            "kill": lambda machine, _: machine.kill(),
            "absence": lambda machine, _: machine.kill(),
            "pause": lambda machine, _: machine.pause(),
            "restart": lambda machine, _: machine.restart(),
            "clock jump": self._jump_clock,
            "slow disk": lambda machine, fault: self._set_delay(machine, fault.strength),
            "full disk": lambda machine, fault: machine.fill(int(fault.strength)),
            "failing syncs": lambda machine, _: self._fail(machine, "syncs", fails=True),
            "failing writes": lambda machine, _: self._fail(machine, "writes", fails=True),
            "failing reads": lambda machine, _: self._fail(machine, "reads", fails=True),
            "lost disk": lambda machine, _: machine.lose_disk(),
            "one more broker": lambda machine, _: self._arrive(machine),
        }
        if fault.kind == "one more broker" and self.departure is not None:
            if self.departure.is_under_way:
                self._say(f"is left out, because {self.departure.describe()}: {fault}")
                return
            self.departure.cancel()
        self._say(f"begins: {self._text(fault)}")
        if fault.kind in OF_LINKS:
            self._strike(number, fault)
        elif fault.kind == "rolling restart":
            self._rolling = _Rolling(self._targets(fault))
        elif fault.kind in ("bit flip", "truncation"):
            self._damage(fault)
            return
        elif fault.kind == "reassignment":
            self._reassign("")
        else:
            for machine in self._targets(fault):
                begins[fault.kind](machine, fault)
        self.counts[fault.kind] += 1

    def end(self, number: int, fault: Fault) -> None:
        """Let a fault end; harmless if it has ended already."""
        ends: dict[str, Callable[[Machine], object]] = {
            "kill": lambda machine: machine.start(),
            "absence": lambda machine: machine.start(),
            "lost disk": lambda machine: machine.start(),
            "pause": lambda machine: machine.resume(),
            "slow disk": lambda machine: self._set_delay(machine, 0.0),
            "full disk": lambda machine: machine.empty(),
            "failing syncs": lambda machine: self._fail(machine, "syncs", fails=False),
            "failing writes": lambda machine: self._fail(machine, "writes", fails=False),
            "failing reads": lambda machine: self._fail(machine, "reads", fails=False),
            "bit flip": lambda machine: machine.cure(),
            "truncation": lambda machine: machine.cure(),
            "one more broker": lambda machine: self._leave(machine, fault),
        }
        self._flapping.pop(number, None)
        if fault.kind in OF_LINKS and self._network is not None:
            self._network.mend(number)
        end = ends.get(fault.kind)
        if end is not None:
            self._say(f"ends: {self._text(fault)}")
            for machine in self._targets(fault):
                end(machine)

    def _text(self, fault: Fault) -> str:
        if fault.kind in OF_LINKS:
            pairs = zip(fault.targets[::2], fault.targets[1::2], strict=True)
            links = ", ".join(f"{source}>{target}" for source, target in pairs)
            strength = f" ({fault.strength:g})" if fault.strength else ""
            return f"{fault.kind} {links}{strength} for {fault.end_ms - fault.begin_ms} ms"
        return str(fault)

    # -- kinds that are more than one call

    def _strike(self, number: int, fault: Fault) -> None:
        if self._network is None:
            return
        links = list(zip(fault.targets[::2], fault.targets[1::2], strict=True))
        if fault.kind == "delay":
            self._network.strike(number, links, delay_ms=fault.strength)
            return
        self._network.strike(number, links, loss=fault.strength if fault.kind == "loss" else 1.0)
        if fault.kind == "flapping":
            self._flapping[number] = (fault, time.monotonic() + fault.strength / 1_000, True)

    def _jump_clock(self, machine: Machine, fault: Fault) -> None:
        machine.control.clock_offset_ms += fault.strength
        machine.control.apply()

    def _set_delay(self, machine: Machine, ms: float) -> None:
        machine.control.sync_delay_ms = ms
        machine.control.apply()

    def _fail(self, machine: Machine, what: str, *, fails: bool) -> None:
        machine.control.failing[what] = fails
        machine.control.apply()

    def _arrive(self, machine: Machine) -> None:
        machine.start()
        self._is_new = True

    def _leave(self, machine: Machine, fault: Fault) -> None:
        self._is_new = False
        if self.departure is None or self.departure.stage is not Stage.STAYS:
            return  # it has not come this time, because it was still leaving
        if fault.strength == IN_ORDER:
            self.departure.begin()
        else:
            machine.kill()

    def _damage(self, fault: Fault) -> None:
        for machine in self._targets(fault):
            done = machine.damage(fault.kind, self._dice)
            if done is None:
                self._say(f"{machine} has no closed file yet; it was only restarted")
                continue
            self._say(f"{machine}: {done}")
            self.counts[fault.kind] += 1

    # -- what takes time

    def tick(self) -> None:
        """Go on with what is under way."""
        for machine in self.all_machines:
            machine.tick()
        if self.departure is not None:
            self.departure.tick()
        if self._is_new and self.spare is not None and self.spare.is_ready:
            self._is_new = False
            for _ in range(_GIVEN):
                self._reassign(self.spare.name)
        now = time.monotonic()
        for number, (fault, due, is_cut) in list(self._flapping.items()):
            if now < due or self._network is None:
                continue
            links = list(zip(fault.targets[::2], fault.targets[1::2], strict=True))
            if is_cut:
                self._network.mend(number)
            else:
                self._network.strike(number, links, loss=1.0)
            self._flapping[number] = (fault, now + fault.strength / 1_000, not is_cut)
        if self._rolling is not None:
            self._roll(self._rolling, now)

    def _roll(self, rolling: _Rolling, now: float) -> None:
        if rolling.now is None:
            if not rolling.left:
                self._rolling = None
                return
            rolling.now, rolling.since, rolling.ready_at = rolling.left.pop(0), now, None
            rolling.now.restart()
        elif rolling.ready_at is None:
            if (rolling.now.is_wanted and rolling.now.is_ready) or (
                now > rolling.since + _ROLLING_S_MAX
            ):
                rolling.ready_at = now
        elif now > rolling.ready_at + _ROLLING_REST_S:
            rolling.now = None

    def heal(self, faults: Sequence[tuple[int, Fault]]) -> None:
        """End the faults that are left, and let everybody run."""
        self._rolling = None
        for number, fault in faults:
            self.end(number, fault)
        for machine in self.machines.values():
            machine.heal()
        spare, departure = self.spare, self.departure
        if spare is not None and spare.has_run and departure is not None:
            if departure.stage is Stage.STAYS:
                spare.heal()  # replicas may have moved there

    def stop_all(self) -> None:
        """Let all brokers end in order, at the same time."""
        for machine in self.all_machines:
            machine.terminate()
        deadline = time.monotonic() + 60
        while any(each.is_running for each in self.all_machines) and time.monotonic() < deadline:
            time.sleep(0.05)
        for machine in self.all_machines:
            machine.kill()


def has_command(*words: str) -> bool:
    """Return whether the command line tool knows a command."""
    command = [sys.executable, "-m", "kafkaesque.cli.app", *words, "--help"]
    return subprocess.run(command, capture_output=True).returncode == 0
