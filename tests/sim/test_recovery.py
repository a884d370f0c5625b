"""Partitions lose their majorities again and again, and are recovered while clients work."""

from typing import Any

import pytest

from kafkaesque.broker.controller.controller import Controller
from kafkaesque.broker.replication.confirmations import CONFIRM_MS_MAX, CONFIRMING_MAX
from kafkaesque.broker.requests.commands import DecideRecovery
from kafkaesque.broker.upkeep.recovery_watch import PATIENCE
from kafkaesque.model.errors import OverBound
from kafkaesque.sim.nemesis import SURVIVABLE
from kafkaesque.sim.runner import SimOptions, SimReport, run_seed
from tests.sim.scenario import Scenario
from tests.sim.seeds import first_of, some_of

#: Brokers are away for longer than a group waits for its majority.
LOSING_MAJORITIES = (*SURVIVABLE, *["absence"] * 4, *["block"] * 2)
FORMED = "recovered with replicas"


def losing_majorities(
    seed: int, brokers_and_replicas: tuple[int, int], activities: tuple[str, ...]
) -> SimOptions:
    """Return options by which groups lose their majorities, and are recovered soon."""
    brokers, replicas = brokers_and_replicas
    return SimOptions(
        brokers=brokers,
        replicas=replicas,
        session_timeout_ms=400,
        between_ms=700,
        kinds=LOSING_MAJORITIES,
        min_insync=1 + seed % 2,
        activities=activities,
    )


def _explain(report: SimReport) -> str:
    lines = "\n".join(report.lines[-40:])
    return f"seed {report.seed}: {report.anomalies}\n{lines}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", range(0, 12, 3))
def test_nothing_acknowledged_is_lost_where_majorities_are(first: int) -> None:
    for seed in some_of(range(first, first + 3)):
        activities = ("transactions",) if seed % 4 == 0 else ()
        options = losing_majorities(seed, ((4, 2), (5, 4), (4, 4))[seed % 3], activities)
        report = run_seed(seed, options)
        assert report.ok, _explain(report)
        assert report.acknowledged > 100


def pair(seed: int) -> tuple[Scenario, str, str]:
    """Return a partition of two replicas on two of five brokers, its leader first."""
    scenario = Scenario(seed, SimOptions(brokers=5, replicas=2, session_timeout_ms=1_000))
    scenario.write(100)
    leader = scenario.leader
    names = scenario.cluster.names
    replicas = [names[node - 1] for node in scenario.partition(leader).state.replicas]
    (other,) = [name for name in replicas if name != leader]
    scenario.loop.run_until(lambda: scenario.end(other) == scenario.end(leader))
    return scenario, leader, other


def test_a_restart_is_no_reason_to_form_anything_anew() -> None:
    scenario, _, other = pair(1)
    scenario.kill(other)
    scenario.loop.run_for(500)
    scenario.boot(other)
    scenario.write(100)
    assert not scenario.told(FORMED)


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_one_of_two_goes_on_and_the_other_is_taken_in_again(seed: int) -> None:
    scenario, leader, other = pair(seed)
    scenario.kill(leader)
    scenario.loop.run_until(lambda: scenario.leaders() == [other], 30_000)
    assert len(scenario.told(FORMED)) == 1
    scenario.write(100)
    scenario.boot(leader)
    scenario.loop.run_until(lambda: is_whole(scenario), 30_000)
    # Either of them is enough again.
    scenario.kill(other)
    scenario.loop.run_until(lambda: scenario.leaders() == [leader], 30_000)
    scenario.write(100)
    scenario.loop.run_until(lambda: scenario.load.is_read, 30_000)
    scenario.load.observations.check()
    assert not scenario.findings.anomalies


def test_a_decision_that_was_refused_once_is_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, leader, other = pair(5)
    submit, refused = Controller.submit, []

    def refuse_once(self: Controller, command: Any, on_done: Any) -> None:
        if isinstance(command, DecideRecovery) and command.group not in refused:
            refused.append(command.group)
            on_done(OverBound("too many commands wait already"))
        else:
            submit(self, command, on_done)

    monkeypatch.setattr(Controller, "submit", refuse_once)
    scenario.kill(leader)
    scenario.loop.run_until(lambda: scenario.leaders() == [other], 30_000)
    assert refused
    scenario.write(100)


def test_of_two_the_one_that_has_its_disk_takes_the_other_in_anew() -> None:
    scenario, leader, other = pair(4)
    scenario.kill(leader)
    scenario.world.machines[leader].drive.volume.clear()
    scenario.boot(leader)
    scenario.loop.run_until(lambda: scenario.leaders() == [other], 60_000)
    scenario.loop.run_until(lambda: is_whole(scenario), 30_000)
    scenario.write(100)
    scenario.loop.run_for(500)
    assert scenario.committed(leader) == scenario.committed(other)
    scenario.loop.run_until(lambda: scenario.load.is_read, 30_000)
    scenario.load.observations.check()
    assert not scenario.findings.anomalies


def is_whole(scenario: Scenario) -> bool:
    """Tell whether both replicas vote, and know it."""
    found = [scenario.find(name) for name in scenario.running()]
    cores = [each.replica.core for each in found if each is not None and each.replica is not None]
    return len(cores) == 2 and all(
        len(core.configuration.voters) == 2 and core.is_settled for core in cores
    )


def with_damaged_copies(replicas: int, damaged: int, session_ms: int = 9_000) -> Scenario:
    """Return a partition of which copies are damaged, on brokers that were hardly away."""
    options = SimOptions(brokers=5, replicas=replicas, session_timeout_ms=session_ms)
    scenario = Scenario(1, options)
    scenario.write(1_500)
    names = scenario.cluster.names
    held = [names[node - 1] for node in scenario.partition(scenario.leader).state.replicas]
    scenario.loop.run_until(lambda: len({scenario.end(name) for name in held}) == 1)
    others = [name for name in held if name != scenario.leader]
    for name in others[:damaged]:
        found, _ = scenario.batch_in_closed_segment(name, 1, 0)
        scenario.kill(name)
        inode = scenario.world.machines[name].drive.volume.find(found.path)
        del inode.content[-100:]  # type: ignore[union-attr]
        scenario.loop.run_for(100)
        scenario.boot(name)
    scenario.loop.run_until(lambda: len(scenario.told("stays offline")) == damaged, 30_000)
    return scenario


@pytest.mark.extended
def test_of_two_the_one_goes_on_whose_fellow_came_back_at_once_with_a_damaged_copy() -> None:
    scenario = with_damaged_copies(2, 1)
    scenario.start_writing()
    before = len(scenario.load.observations.acknowledged)
    # What the handbook says of a majority that lives, and some seconds.
    scenario.loop.run_for((PATIENCE * 9 + 6) * 1_000)
    assert len(scenario.told(FORMED)) == 1
    assert len(scenario.load.observations.acknowledged) > before + 100
    scenario.loop.run_for(100_000)
    assert len(scenario.told(FORMED)) == 1


def test_one_of_three_with_damaged_fellows_is_read_on_and_its_offsets_are_refused_in_time() -> None:
    """It may lack what the two had committed, so it does not go on alone."""
    scenario = with_damaged_copies(3, 2, 1_000)
    (leader,) = scenario.leaders()
    replica = scenario.partition(leader).replica
    assert replica is not None
    answers: list[bool] = []
    for _ in range(100):
        replica.confirm(answers.append)
        scenario.loop.run_for(600)
    assert len(answers) > 90
    assert not any(answers)
    assert scenario.leaders() == [leader]
    assert not scenario.told(FORMED)
    waiting = CONFIRMING_MAX + 5
    for _ in range(waiting):
        replica.confirm(answers.append)
    scenario.loop.run_for(10)
    assert len(answers) >= 5 + 90
    scenario.loop.run_for(CONFIRM_MS_MAX)
    assert len(answers) == 100 + waiting
