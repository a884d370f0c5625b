"""The broker that comes and goes leaves a chaos run in order, whatever is refused on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.chaos import departure as chaos_departure
from bench.chaos.departure import Departure, Stage
from bench.chaos.ground import Ground
from bench.chaos.history import History
from bench.chaos.plan import IN_ORDER, KILLED
from kafkaesque.sim.faults import Fault
from tests.waiting import eventually

WAIT_S_MAX = 60.0
#: Ends as the file says that is called as the call; the n-th line is that of the n-th call.
TOOL = """
cd "$DEPARTURE_TEST"
echo "$1" >> calls
exit "$(sed -n "$(grep -c "^$1$" calls)p" "$1")"
"""


class MachineOf:
    """A machine whose program ends when it is told to."""

    name = "4"
    has_run = True

    def __init__(self) -> None:
        self.is_running = True
        self.told: list[str] = []

    def __str__(self) -> str:
        return "broker 4"

    @property
    def is_ready(self) -> bool:
        return self.is_running

    def tick(self) -> None:
        """Nothing takes time here."""

    def start(self) -> None:
        self.told.append("start")
        self.is_running = True

    def heal(self) -> None:
        self.told.append("heal")

    def kill(self) -> None:
        self.told.append("kill")
        self.is_running = False

    def terminate(self) -> None:
        self.told.append("terminate")
        self.is_running = False


@pytest.fixture(autouse=True)
def at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEPARTURE_TEST", str(tmp_path))
    monkeypatch.setattr(chaos_departure, "_AGAIN_S", 0.0)


def departure_of(home: Path, machine: MachineOf, drain: str, remove: str) -> Departure:
    """A departure whose calls end with these codes, in turn."""
    (home / "drain").write_text("\n".join(drain))
    (home / "remove").write_text("\n".join(remove))
    anything: Any = machine
    return Departure(anything, "", History(), lambda _: None, program=("sh", "-c", TOOL))


def go(departure: Departure) -> None:
    def is_over() -> bool:
        departure.tick()
        return not departure.is_under_way

    eventually(is_over, "the departure is over", seconds=WAIT_S_MAX, pause_s=0.002)


def calls(home: Path) -> list[str]:
    return (home / "calls").read_text().split()


def test_it_is_drained_then_stopped_then_removed(tmp_path: Path) -> None:
    machine = MachineOf()
    leaving = departure_of(tmp_path, machine, drain="0", remove="0")
    leaving.begin()
    assert leaving.is_under_way
    go(leaving)
    assert leaving.stage is Stage.GONE
    assert leaving.count == 1
    assert calls(tmp_path) == ["drain", "remove"]
    assert machine.told == ["terminate"]


def test_what_was_refused_is_asked_for_again(tmp_path: Path) -> None:
    machine = MachineOf()
    leaving = departure_of(tmp_path, machine, drain="530", remove="310")
    leaving.begin()
    go(leaving)
    assert leaving.stage is Stage.GONE
    assert calls(tmp_path) == ["drain"] * 3 + ["remove"] * 3
    assert machine.told == ["terminate"]


def test_a_broker_that_got_something_meanwhile_is_drained_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chaos_departure, "_REMOVE_S_MAX", 0.0)
    machine = MachineOf()
    leaving = departure_of(tmp_path, machine, drain="00", remove="10")
    leaving.begin()
    go(leaving)
    assert leaving.stage is Stage.GONE
    assert calls(tmp_path) == ["drain", "remove"] * 2
    assert machine.told == ["terminate", "start", "terminate"]


def one_more(strength: float) -> Fault:
    return Fault(kind="one more broker", targets=("4",), begin_ms=0, end_ms=1, strength=strength)


def ground_with(machine: MachineOf, leaving: Departure) -> tuple[Ground, list[str]]:
    """A nemesis with nothing but the broker that comes and goes, and who was given replicas."""
    spare: Any = machine
    given: list[str] = []
    ground = Ground(
        {}, None, spare=spare, departure=leaving, reassign=given.append, seed=1, say=lambda _: None
    )
    return ground, given


def test_a_broker_that_is_killed_comes_again_and_is_healed(tmp_path: Path) -> None:
    machine = MachineOf()
    leaving = departure_of(tmp_path, machine, drain="0", remove="0")
    ground, given = ground_with(machine, leaving)
    ground.begin(0, one_more(KILLED))
    ground.tick()
    ground.tick()
    assert given == ["4", "4"]
    ground.end(0, one_more(KILLED))
    assert not leaving.is_under_way
    ground.begin(1, one_more(KILLED))
    ground.heal([])
    assert machine.told == ["start", "kill", "start", "heal"]
    assert ground.counts["one more broker"] == 2


def test_a_broker_that_leaves_in_order_is_left_alone(tmp_path: Path) -> None:
    machine = MachineOf()
    leaving = departure_of(tmp_path, machine, drain="0", remove="0")
    ground, _ = ground_with(machine, leaving)
    ground.begin(0, one_more(IN_ORDER))
    ground.end(0, one_more(IN_ORDER))
    assert leaving.stage.name == "DRAINING"
    # Meanwhile it does not come anew, and is not started when all else is healed.
    ground.begin(1, one_more(IN_ORDER))
    ground.heal([])
    go(leaving)
    assert leaving.count == 1
    # Nor does it leave again when that fault ends.
    ground.end(1, one_more(IN_ORDER))
    assert leaving.stage.name == "GONE"
    ground.heal([])
    assert machine.told == ["start", "terminate"]
    assert ground.counts["one more broker"] == 1
    ground.begin(2, one_more(IN_ORDER))
    ground.end(2, one_more(IN_ORDER))
    assert machine.told == ["start", "terminate", "start"]
    assert leaving.stage.name == "DRAINING"
