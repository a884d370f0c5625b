"""A broker whose disk was replaced is taken in anew; it cannot outvote those that remember."""

from contextlib import suppress
from functools import partial

import pytest

from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import CONTROLLER_GROUP
from kafkaesque.model.records import Record
from kafkaesque.raft.entries import EntryKind
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.nemesis import LOSING, SURVIVABLE
from kafkaesque.sim.runner import SimOptions, SimReport, run_seed
from tests.sim.scenario import Scenario
from tests.sim.seeds import first_of, some_of

MIN_INSYNC = {"min.insync.replicas": "2"}


def _explain(report: SimReport) -> str:
    lines = "\n".join(report.lines[-40:])
    return f"seed {report.seed}: {report.anomalies}\n{lines}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", first_of(range(2_000, 2_015, 5), 1))
def test_nothing_acknowledged_is_lost_with_a_disk(first: int) -> None:
    for seed in some_of(range(first, first + 5)):
        kinds = (*SURVIVABLE, *LOSING * 4) if seed % 2 else (*LOSING, "kill", "absence")
        report = run_seed(seed, SimOptions(kinds=kinds, between_ms=700, min_insync=1 + seed % 2))
        assert report.ok, _explain(report)
        assert report.acknowledged > 100


def lose_disk(scenario: Scenario, name: str) -> None:
    scenario.kill(name)
    scenario.world.machines[name].drive.volume.clear()


def without_the_one_that_knows(seed: int) -> tuple[Scenario, str, str, str]:
    """Acknowledge on two brokers; then one of them is down, and the other has an empty disk."""
    scenario = Scenario(seed, configs=MIN_INSYNC)
    scenario.write(100)
    scenario.settle()
    knowing, empty, stale = sorted(scenario.cluster.names, key=lambda n: n != scenario.leader)
    scenario.kill(stale)
    scenario.write(1_000)
    scenario.loop.run_for(1_000)
    scenario.kill(knowing)
    lose_disk(scenario, empty)
    scenario.boot(empty)
    scenario.boot(stale)
    return scenario, knowing, empty, stale


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_an_empty_and_a_stale_broker_do_not_elect_each_other(seed: int) -> None:
    scenario, knowing, empty, stale = without_the_one_that_knows(seed)
    for _ in range(60):
        scenario.loop.run_for(500)
        assert not scenario.leaders()
        for name in (empty, stale):
            replica = scenario.broker(name).driver.get(CONTROLLER_GROUP)
            assert replica is None or not replica.is_leader
    assert scenario.told("no vote until it has them"), "the empty one says what is going on"
    scenario.boot(knowing)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 30_000)
    scenario.settle()
    assert scenario.committed(empty) == scenario.committed(stale) == scenario.committed(knowing)
    reader = scenario.read_from_start()
    scenario.loop.run_until(lambda: reader.position >= scenario.end(knowing), 30_000)
    scenario.load.observations.check()
    assert not scenario.findings.anomalies
    scenario.loop.run_until(lambda: len(in_sync(scenario)) == 3, 30_000)
    # It counts again: with it, the others need not all be there.
    scenario.kill(stale)
    scenario.write(100)


def in_sync(scenario: Scenario) -> tuple[int, ...]:
    replica = scenario.partition(scenario.leader).replica
    assert replica is not None
    return replica.in_sync()


def test_a_partition_whose_directory_was_removed_is_copied_again() -> None:
    scenario = Scenario(5, configs=MIN_INSYNC)
    scenario.write(1_500)
    scenario.settle()
    name = next(each for each in scenario.cluster.names if each != scenario.leader)
    directory = scenario.partition(name).log.identity.directory
    scenario.kill(name)
    machine = scenario.world.machines[name]
    env = machine.boot()
    env.disk.remove_tree(directory)
    machine.kill()
    scenario.boot(name)
    scenario.loop.run_until(lambda: len(in_sync(scenario)) == 3, 30_000)
    scenario.settle()
    assert scenario.told(f"the directory {directory} of broker")
    assert scenario.committed(name) == scenario.committed(scenario.leader)
    log = scenario.partition(name).log
    assert log.amnesia == 0


def test_the_first_start_needs_all_controllers_once() -> None:
    world = World(3)
    cluster = SimCluster(world)
    for name in ("b1", "b2"):
        cluster.boot(world.machines[name])
    world.loop.run_for(20_000)
    assert not any(broker.life.is_ready for broker in cluster.brokers.values())
    cluster.boot(world.machines["b3"])
    world.loop.run_until(
        lambda: all(broker.life.is_ready for broker in cluster.brokers.values()), 10_000
    )
    for broker in cluster.brokers.values():
        replica = broker.driver.get(CONTROLLER_GROUP)
        assert replica is not None
        assert replica.log.amnesia == 0
        assert len(replica.core.configuration.voters) == 3


def all_ready(cluster: SimCluster) -> bool:
    return len(cluster.brokers) == 3 and all(
        each.life.is_ready for each in cluster.brokers.values()
    )


@pytest.mark.extended
def test_a_cluster_that_is_killed_while_it_is_founded_comes_up_the_next_time() -> None:
    for ms in range(900, 1_400, 8):
        world = World(ms)
        cluster = SimCluster(world)
        cluster.start()
        world.loop.run_for(ms)
        for machine in world.machines.values():
            machine.cut_power()
        for machine in world.machines.values():
            cluster.boot(machine)
        world.loop.run_until(partial(all_ready, cluster), 30_000)


def test_an_installed_snapshot_of_the_metadata_is_what_is_sent_on() -> None:
    """b2 gets a snapshot, leads the controllers, and b3 gets one from it."""
    scenario = Scenario(7, SimOptions(snapshot_records=3))
    scenario.write(100)
    for loser, source in (("b2", "b1"), ("b3", "b2")):
        lead_controllers(scenario, source)
        lose_disk(scenario, loser)
        scenario.boot(loser)
        scenario.loop.run_until(lambda: has_its_vote(scenario), 30_000)
        scenario.settle()
        states = {scenario.broker(name).state.write_snapshot() for name in scenario.running()}
        assert len(states) == 1


def lead_controllers(scenario: Scenario, name: str) -> None:
    def is_leading() -> bool:
        replicas = [each.driver.get(CONTROLLER_GROUP) for each in scenario.cluster.brokers.values()]
        for replica in replicas:
            if replica is not None and replica.is_leader:
                node = scenario.broker(name).node
                if replica.driver.node == node:
                    return True
                with suppress(RequestRefused):
                    replica.driver.transfer_leadership(CONTROLLER_GROUP, node)
        return False

    scenario.loop.run_until(is_leading, 30_000, every_ms=100)


def has_its_vote(scenario: Scenario) -> bool:
    replicas = [each.driver.get(CONTROLLER_GROUP) for each in scenario.cluster.brokers.values()]
    offsets = {each.controller.applied_offset for each in scenario.cluster.brokers.values()}
    return len(offsets) == 1 and all(
        replica is not None
        and len(replica.core.configuration.voters) == 3
        and not replica.log.amnesia
        for replica in replicas
    )


def test_a_disk_that_fails_while_the_vote_is_waited_for_is_a_failed_disk() -> None:
    """Found by seed 40 with every fault on: nobody took the error, and the broker died of it."""
    scenario = Scenario(8)
    scenario.write(100)
    scenario.settle()
    for name in scenario.cluster.names:
        scenario.kill(name)
    lose_disk(scenario, "b2")
    scenario.boot("b2")
    scenario.boot("b1")
    scenario.loop.run_until(lambda: "b2" in scenario.cluster.brokers, 10_000)
    scenario.world.machines["b2"].drive.faults.failing_writes = 1
    scenario.loop.run_until(lambda: scenario.cluster.failed() == ["b2"], 30_000)
    assert scenario.told("b2       broker 2: the disk failed: cannot write __cluster_metadata-0/")
    scenario.cluster.restart_failed()
    scenario.boot("b3")
    scenario.loop.run_until(lambda: scenario.leaders() != [], 30_000)
    scenario.write(100)


def test_a_write_in_the_turn_in_which_a_member_is_readmitted_gets_its_own_offset() -> None:
    """Found by seed 1008 with every fault on: a broken invariant stopped a leader that was well.

    An entry that readmits has no record, and changes neither the term nor the members.
    """
    scenario = Scenario(9)
    scenario.write(100)
    scenario.settle()
    end = scenario.end(scenario.leader)
    replica = scenario.partition(scenario.leader).replica
    assert replica is not None
    data = bytearray(encode_batch([Record(0, 0, None, b"beside", ())], BatchOptions()))
    replica.core._append_mark(EntryKind.NOOP, b"")
    appended = replica.append(memoryview(data), scan_batches(data).batches[0])
    assert appended.base_offset == end
    scenario.loop.run_until(lambda: scenario.end(scenario.leader) == end + 1)
    scenario.settle()
    assert len({scenario.committed(name) for name in scenario.cluster.names}) == 1
