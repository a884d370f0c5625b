"""Topics that are tables, while things go wrong; and a follower that comes back to one."""

import msgspec
import pytest

from kafkaesque.broker.commands import ProduceResult
from kafkaesque.gateway.kafka.produce import _ProduceOne
from kafkaesque.model.errors import RequestRefused
from kafkaesque.sim.agreement import read_table
from kafkaesque.sim.nemesis import SURVIVABLE
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import run_seed
from kafkaesque.storage.compactor import _Cleaner
from tests.sim.scenario import Scenario

KILLS = ("kill", "restart")
#: Seed, what goes wrong, and whether batches are acknowledged from the page cache: not with power
#: cuts.
RUNS = (
    (0, SURVIVABLE, False),
    (1, (*KILLS, "power cut", "absence"), False),
    (2, SURVIVABLE, False),
    (3, (*KILLS, "power cut"), False),
    (4, KILLS, True),
    (5, ("power cut",), False),
)


@pytest.mark.parametrize(("seed", "kinds", "write_caching"), RUNS)
def test_the_last_value_of_each_key_outlives_crashes(
    seed: int, kinds: tuple[str, ...], write_caching: bool
) -> None:
    options = SimOptions(
        activities=("compaction", "commits"),
        kinds=kinds,
        between_ms=600,
        write_caching=write_caching,
    )
    report = run_seed(seed, options)
    assert report.ok, f"{report.anomalies}\n" + "\n".join(report.lines[-40:])
    assert report.acknowledged > 100, "the clients did something"
    assert report.counts["compactions"] > 5, "and the brokers did"


def test_a_compaction_that_loses_keys_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Cleaner, "_clean_values", lambda *_: None)
    options = SimOptions(brokers=1, replicas=1, activities=("compaction",), kinds=("kill",))
    report = run_seed(1, options)
    assert any("lost write" in each for each in report.anomalies)


def test_an_answer_with_a_wrong_offset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though each of these records has been replaced by a later one: at the latest, by itself."""
    done = _ProduceOne._on_done

    def done_wrongly(self: _ProduceOne, outcome: ProduceResult | RequestRefused) -> None:
        if isinstance(outcome, ProduceResult) and self._name == "table":
            outcome = msgspec.structs.replace(outcome, base_offset=outcome.base_offset - 1)
        done(self, outcome)

    monkeypatch.setattr(_ProduceOne, "_on_done", done_wrongly)
    options = SimOptions(brokers=1, replicas=1, activities=("compaction",), kinds=("kill",))
    report = run_seed(1, options)
    assert any(each.startswith("table: inconsistent offsets") for each in report.anomalies)


def test_a_follower_that_was_away_catches_up_through_holes() -> None:
    options = SimOptions(activities=("compaction",))
    scenario = Scenario(5, options, compacts=True)
    scenario.write(50)
    scenario.settle()
    away = next(name for name in scenario.cluster.names if name != scenario.leader)
    scenario.kill(away)
    others = scenario.running()
    begun = scenario.end(scenario.leader)
    for _ in range(12):
        scenario.write(100)
        scenario.loop.run_for(800)
    leader_log = scenario.partition(scenario.leader).log
    assert leader_log.clean_state.end_offset > begun, "it compacted beyond where it stopped"
    written = leader_log.end_offset - leader_log.start_offset
    assert len(read_table(scenario.partition(scenario.leader))) < written / 6
    scenario.boot(away)
    scenario.loop.run_until(lambda: scenario.find(away) is not None)
    scenario.write(20)
    scenario.settle()
    with scenario.cluster.unhindered():
        tables = [read_table(scenario.partition(name)) for name in (*others, away)]
    assert tables[0] == tables[1] == tables[2]
    scenario.load.observations.check_table(away, 0, tables[-1])
    # It leads, too: readers and the others get all from it.
    for name in others:
        scenario.kill(name)
        scenario.boot(name)
    scenario.write(20)
    scenario.settle()
    reader = scenario.read_from_start()
    end = scenario.end(away)
    scenario.loop.run_until(lambda: reader.position >= end)
    scenario.load.observations.check()
    assert scenario.findings.anomalies == []


def test_a_stopping_broker_ends_its_run_first() -> None:
    scenario = Scenario(
        6, SimOptions(brokers=1, replicas=1, activities=("compaction",)), compacts=True
    )
    scenario.write(300)
    cleaner = scenario.broker("b1").log_cleaner
    for producer in scenario.load.producers:
        producer.is_stopped = False
        producer._next(0)
    scenario.world.machines["b1"].drive.faults.slowness = 20.0
    scenario.loop.run_until(lambda: cleaner.is_running)
    before = cleaner.count
    stopped: list[bool] = []
    scenario.load.stop_producing()
    scenario.broker("b1").stop(lambda: stopped.append(cleaner.is_running))
    scenario.loop.run_until(lambda: bool(stopped))
    assert stopped == [False]
    assert cleaner.count == before, "it was dropped, not waited for"
