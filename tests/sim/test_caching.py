"""With `write.caching` an acknowledgement outlasts the process, at whatever moment it ends.

It does not outlast a power failure of a majority; that costs records, and nothing else.
"""

import pytest

from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.options import SimOptions
from kafkaesque.storage.config import SegmentOptions
from tests.sim.power import cut_power_of_a_majority
from tests.sim.scenario import Scenario


def test_who_is_acknowledged_and_kills_the_broker_at_once_loses_nothing() -> None:
    """Syncs take long, and what is queued meanwhile, like news of segments, is with the process."""
    configs = {"write.caching": "true"}
    scenario = Scenario(1, SimOptions(brokers=1, replicas=1), configs)
    machine, load = scenario.world.machines["b1"], scenario.load
    synced = TopicLoad(
        scenario.env,
        scenario.cluster.addresses,
        TopicSpec(name="synced", replicas=1),
        scenario.findings,
    )
    scenario.loop.run_until(lambda: synced.is_made)
    synced.start()
    load.start()
    acknowledged = load.observations.acknowledged
    segments: set[int] = set()
    for _ in range(40):
        machine.drive.faults.slowness = 200.0
        before = len(acknowledged)
        scenario.loop.run_until(lambda: len(acknowledged) > before + 20)  # noqa: B023
        log = scenario.partition("b1").log
        count = len(log.segments.segments)
        # Until the first acknowledgement out of a segment that has just been begun.
        scenario.loop.run_until(
            lambda: len(scenario.partition("b1").log.segments.segments) > count  # noqa: B023
        )
        active = scenario.partition("b1").log.segments.segments[-1].base_offset
        scenario.loop.run_until(lambda: max(acknowledged.values()) >= active)  # noqa: B023
        segments.add(active)
        scenario.kill("b1")
        machine.drive.faults.slowness = 1.0
        scenario.boot("b1")
        scenario.loop.run_until(lambda: scenario.find("b1") is not None)
        end = scenario.partition("b1").log.end_offset
        lost = [value for value, offset in acknowledged.items() if offset >= end]
        assert not lost
    assert len(segments) == 40
    load.stop_producing()
    scenario.loop.run_until(lambda: load.is_acknowledged)
    assert scenario.findings.anomalies == []


@pytest.mark.parametrize("is_switched_off", [False, True])
def test_what_a_majority_has_lost_costs_no_broker(is_switched_off: bool) -> None:
    scenario = Scenario(1, configs={"write.caching": "true"})
    scenario.write(300)
    scenario.settle()
    scenario.loop.run_for(1_000)
    keeper = next(name for name in scenario.running() if name != scenario.leader)
    held = scenario.partition(keeper).high_watermark
    if is_switched_off:
        # Of the third alone: the others hear of it when they have lost what they had.
        partition = scenario.partition(keeper)
        partition.log.set_options(SegmentOptions(), write_caching=False)
        partition.replica.set_write_caching(False)  # type: ignore[union-attr]
        scenario.loop.run_for(1_000)
    others = set(scenario.cluster.names) - {keeper}
    cut_power_of_a_majority(scenario, keeper, lambda: bool(others.intersection(scenario.leaders())))
    scenario.loop.run_for(20_000)
    partition = scenario.partition(keeper)
    assert scenario.running() == scenario.cluster.names
    assert partition.log.end_offset < held
    assert partition.high_watermark == partition.log.end_offset
    assert scenario.told("had been acknowledged, and are lost")
    # The producers follow the log, too: more is written by them, or by others.
    committed = partition.high_watermark
    data = encode_batch([Record(n, 1_700_000_000_000, None, b"x", ()) for n in range(5)])
    acked: list[object] = []
    scenario.partition(scenario.leader).produce(
        data, acks=-1, timeout_ms=5_000, on_done=acked.append
    )
    scenario.loop.run_for(5_000)
    assert isinstance(acked[0], ProduceResult)
    assert {scenario.end(name) for name in scenario.running()} == {committed + 5}


def test_one_that_was_restarted_in_order_boots_later_than_the_others() -> None:
    """Its commit index is on its disk, and what it had committed is nowhere else."""
    scenario = Scenario(1, configs={"write.caching": "true"})
    scenario.write(1_000)
    scenario.settle()
    late = next(name for name in scenario.running() if name != scenario.leader)
    stopped: list[int] = []
    scenario.broker(late).stop(lambda: stopped.append(1))
    scenario.loop.run_until(lambda: stopped != [], 30_000)
    scenario.kill(late)
    scenario.boot(late)
    scenario.loop.run_until(lambda: scenario.find(late) is not None, 30_000)
    scenario.write(50)
    scenario.loop.run_for(2_000)
    for name in scenario.cluster.names:
        scenario.world.machines[name].cut_power()
    scenario.loop.run_for(500)
    for name in scenario.cluster.names:
        if name != late:
            scenario.boot(name)
    scenario.loop.run_for(8_000)
    scenario.boot(late)
    scenario.loop.run_for(30_000)
    assert scenario.running() == scenario.cluster.names
    assert len({scenario.end(name) for name in scenario.running()}) == 1
