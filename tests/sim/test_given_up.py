"""Producers are known for as long as they write, though all that they wrote was deleted."""

from kafkaesque.broker.broker import SWEEP_MS
from kafkaesque.broker.requests.commands import Done
from kafkaesque.model.ids import Offset
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario


def known(scenario: Scenario, name: str) -> list[tuple[int, int, int]]:
    """Return the producers that a machine's replica knows."""
    producers = scenario.partition(name).producers.describe()
    return sorted((each.producer_id, each.epoch, each.last_sequence) for each in producers)


def give_up(scenario: Scenario, name: str) -> Offset:
    """Delete everything that is committed, by the leader on a machine; return the new start."""
    partition = scenario.partition(name)
    start = partition.high_watermark
    scenario.load.observations.note_deletion_asked(0, start)
    scenario.broker(name).partitions.advance_start(partition, start)
    running = scenario.running()
    scenario.loop.run_until(
        lambda: {scenario.partition(each).log_start_offset for each in running} == {start}
    )
    scenario.loop.run_for(200)  # until that is durable, too
    return start


def test_a_kill_after_all_was_deleted_forgets_no_producer() -> None:
    scenario = Scenario(10, SimOptions(brokers=1, replicas=1))
    for _ in range(3):
        scenario.write(30)
        expected = known(scenario, "b1")
        assert len(expected) == 2
        start = give_up(scenario, "b1")
        scenario.kill("b1")
        scenario.boot("b1")
        scenario.loop.run_until(lambda: scenario.find("b1") is not None)
        assert scenario.partition("b1").log_start_offset == start
        assert known(scenario, "b1") == expected
    assert scenario.findings.anomalies == []


def test_a_deletion_waits_for_two_syncs_more_and_for_no_timer() -> None:
    scenario = Scenario(12, SimOptions(brokers=1, replicas=1))
    for _ in range(5):
        scenario.write(10)
        done: list[object] = []
        start = scenario.partition("b1").high_watermark
        begun_ns = scenario.loop.now_ns
        scenario.broker("b1").log_starts.give_up(scenario.group, start, 1_000, done.append)
        scenario.loop.run_until(lambda: done != [])  # noqa: B023
        assert done == [Done()]
        assert scenario.partition("b1").log_start_offset == start
        assert scenario.loop.now_ns - begun_ns < SWEEP_MS / 4 * NS_PER_MS


def test_a_replica_whose_log_begins_at_the_leaders_start_knows_what_the_leader_knows() -> None:
    """It was away when records came and went: no batch tells it who wrote them."""
    scenario = Scenario(11)
    scenario.write(20)
    scenario.settle()
    leader = scenario.leader
    far = next(name for name in scenario.cluster.names if name != leader)
    scenario.kill(far)
    scenario.write(300)
    expected = known(scenario, leader)
    start = give_up(scenario, leader)
    scenario.boot(far)
    scenario.loop.run_until(lambda: scenario.end(far) == start, 30_000)
    assert scenario.partition(far).log.base_offset == start, "nothing was sent but the snapshot"
    scenario.loop.run_until(lambda: scenario.partition(far).high_watermark == start)
    assert known(scenario, far) == expected
    scenario.kill(far)
    scenario.boot(far)
    scenario.loop.run_until(lambda: scenario.find(far) is not None)
    assert known(scenario, far) == expected
    scenario.settle()
    group, node = scenario.group, scenario.broker(far).node
    scenario.broker(scenario.leader).driver.transfer_leadership(group, node)
    scenario.loop.run_until(lambda: scenario.leaders() == [far])
    assert known(scenario, far) == expected
    scenario.write(20)
    assert scenario.findings.anomalies == []
