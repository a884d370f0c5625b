"""A topic is deleted while a broker's copy is damaged, and made again under the same name."""

from kafkaesque.sim.clients.topic_load import TopicLoad
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario
from tests.sim.test_in_sync import kill_and_cut, with_offline_replica
from tests.sim.test_moves import await_placed, move


def make_again(scenario: Scenario) -> None:
    """Delete the topic and make it anew; the scenario is about that one from here on."""
    old = scenario.load
    old.stop_producing()
    old.stop()
    old.delete()
    scenario.loop.run_until(lambda: old.is_deleted, 30_000)
    ignored = [old.topic_id]
    scenario.load = TopicLoad(
        scenario.env, scenario.cluster.addresses, old.spec, scenario.findings, None, ignored, "n"
    )
    scenario.loop.run_until(lambda: scenario.load.is_made, 30_000)
    scenario.loop.run_until(lambda: len(scenario.leaders()) == 1, 30_000)


def test_a_damaged_copy_goes_with_its_topic_and_the_next_one_keeps_its_own() -> None:
    scenario, name, _ = with_offline_replica(3)
    assert scenario.broker(name).store.damaged != {}
    make_again(scenario)
    assert scenario.broker(name).store.damaged == {}
    scenario.write(200)
    scenario.settle()
    for _ in range(2):
        end = scenario.end(name)
        scenario.kill(name)
        scenario.loop.run_for(500)
        scenario.boot(name)
        scenario.loop.run_until(lambda: scenario.find(name) is not None, 30_000)
        assert scenario.partition(name).log.amnesia == 0
        assert scenario.partition(name).log.end_offset >= end
        assert scenario.broker(name).store.damaged == {}
    assert not scenario.told("does not have its cop")
    scenario.write(200)
    scenario.settle()
    assert scenario.findings.anomalies == []


def test_a_damaged_copy_goes_when_its_replica_moves_away_and_may_come_back() -> None:
    scenario = Scenario(4, SimOptions(brokers=4))
    move(scenario, [1, 2, 3])
    await_placed(scenario, (1, 2, 3))
    scenario.write(1_500)
    scenario.loop.run_for(2_000)
    name = next(each for each in ("b1", "b2", "b3") if each != scenario.leader)
    kill_and_cut(scenario, name)
    scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.told("stays offline on this broker") != [], 30_000)
    here = int(name[1:])
    first, second = (node for node in (1, 2, 3) if node != here)
    move(scenario, [first, second, 4])
    await_placed(scenario, (first, second, 4))
    scenario.loop.run_for(1_000)
    assert scenario.broker(name).store.damaged == {}
    move(scenario, [first, second, here])
    await_placed(scenario, (first, second, here))
    scenario.write(10)
    assert scenario.findings.anomalies == []
