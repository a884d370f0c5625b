"""Who is told to be in sync: nobody that cannot open the partition, and all that can, at once."""

import struct
from typing import Any

import pytest

from kafkaesque.broker.listeners import KAFKA
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import OPEN_AGAIN_MS
from kafkaesque.gateway.kafka.cluster_view import ClusterView, Placement
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import NodeId
from tests.sim.scenario import TOPIC, Scenario


def placements(scenario: Scenario) -> list[Placement]:
    """Return where the partition is, as each running broker tells its clients."""
    brokers = [scenario.broker(name) for name in scenario.running()]
    return [
        ClusterView(broker.doors, KAFKA).place(broker.state.topic(TOPIC).partitions[0])
        for broker in brokers
    ]


def kill_and_cut(scenario: Scenario, name: str) -> None:
    """Kill a broker and take the end of a closed segment: it will not open the partition."""
    found, _ = scenario.batch_in_closed_segment(name, 1, 0)
    scenario.kill(name)
    scenario.loop.run_for(1_000)
    inode = scenario.world.machines[name].drive.volume.find(found.path)
    del inode.content[-100:]  # type: ignore[union-attr]


def with_offline_replica(seed: int) -> tuple[Scenario, str, NodeId]:
    """Return a cluster in which a follower's broker lives and has the partition offline."""
    scenario = Scenario(seed)
    scenario.write(1_500)
    scenario.settle()
    name = next(each for each in scenario.cluster.names if each != scenario.leader)
    kill_and_cut(scenario, name)
    scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.told("stays offline on this broker") != [], 30_000)
    scenario.loop.run_for(2_000)
    assert scenario.find(name) is None
    return scenario, name, scenario.broker(name).node


def test_a_replica_that_is_offline_on_a_living_broker_is_told_to_be_that() -> None:
    """Nothing is written meanwhile, and every broker says the same, the damaged one too."""
    scenario, _, node = with_offline_replica(1)
    for _ in range(20):
        scenario.loop.run_for(1_000)
        for placement in placements(scenario):
            assert node not in placement.in_sync
            assert len(placement.in_sync) == 2
            assert list(placement.offline) == [node]


def test_a_change_of_leaders_does_not_bring_an_offline_replica_into_the_in_sync_set() -> None:
    scenario, name, node = with_offline_replica(2)
    for _ in range(3):
        (other,) = {*scenario.cluster.names} - {name, scenario.leader}
        leading = scenario.broker(scenario.leader)
        leading.driver.transfer_leadership(scenario.group, scenario.broker(other).node)
        for _ in range(200):
            scenario.loop.run_for(5)
            assert all(node not in placement.in_sync for placement in placements(scenario))
        assert scenario.leaders() == [other]
        assert all(list(placement.offline) == [node] for placement in placements(scenario))
    scenario.write(10)
    assert scenario.findings.anomalies == []


def test_after_a_failover_all_that_live_and_were_in_sync_are_so_from_the_first_moment() -> None:
    scenario = Scenario(3, configs={"min.insync.replicas": "2"})
    scenario.write(20)
    scenario.settle()
    scenario.kill(scenario.leader)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 10_000)
    replica = scenario.partition(scenario.leader).replica
    assert replica is not None
    assert not replica.term_committed, "nobody has answered yet"
    assert set(replica.in_sync()) == {scenario.broker(name).node for name in scenario.running()}


def test_a_leader_that_was_told_nothing_refuses_nobody_before_the_others_can_answer() -> None:
    scenario = Scenario(4, configs={"min.insync.replicas": "2"})
    scenario.write(20)
    scenario.settle()
    for name in scenario.cluster.names:
        scenario.kill(name)
    for name in scenario.cluster.names:
        scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 30_000)
    replica = scenario.partition(scenario.leader).replica
    assert replica is not None
    assert list(replica.in_sync()) == [scenario.broker(scenario.leader).node]
    scenario.partition(scenario.leader)._check_in_sync(replica)
    scenario.loop.run_until(lambda: len(replica.in_sync()) == 3, 5_000)
    scenario.write(10)
    assert scenario.findings.anomalies == []


def test_a_replica_whose_connection_is_stuck_is_in_sync_again() -> None:
    scenario = Scenario(6)
    scenario.write(100)
    scenario.settle()
    leading = scenario.broker(scenario.leader)
    name = next(each for each in scenario.cluster.names if each != scenario.leader)
    link = scenario.broker(name).peers._outbound[leading.node].connection
    assert link is not None
    link.write([struct.pack(">I", 1 << 20)])  # all that follows is the inside of a long frame
    replica = scenario.partition(scenario.leader).replica
    assert replica is not None
    scenario.loop.run_until(lambda: len(replica.in_sync()) == 2, 10_000)
    scenario.loop.run_until(lambda: len(replica.in_sync()) == 3, 10_000)
    scenario.write(10)
    assert scenario.findings.anomalies == []


def test_a_replica_that_is_opened_in_the_end_is_in_sync_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(5)
    scenario.write(100)
    scenario.settle()
    name = next(each for each in scenario.cluster.names if each != scenario.leader)
    node = scenario.broker(name).node
    is_failing = True
    restore = Partition.restore

    def failing(self: Partition, log: Any) -> None:
        if is_failing:
            raise DiskFailed("cannot read: Input/output error")
        restore(self, log)

    monkeypatch.setattr(Partition, "restore", failing)
    scenario.kill(name)
    scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.told("cannot be opened") != [], 10_000)
    scenario.loop.run_for(2_000)
    assert all(list(placement.offline) == [node] for placement in placements(scenario))
    assert all(len(placement.in_sync) == 2 for placement in placements(scenario))
    is_failing = False
    scenario.loop.run_for(2 * OPEN_AGAIN_MS)
    assert all(list(placement.offline) == [] for placement in placements(scenario))
    assert all(len(placement.in_sync) == 3 for placement in placements(scenario))
