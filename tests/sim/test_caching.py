"""With `write.caching` an acknowledgement outlasts the process, at whatever moment it ends."""

from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.options import SimOptions
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
