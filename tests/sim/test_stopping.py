"""A broker that is stopped in order: what its clients notice of it."""

from kafkaesque.broker.commands import ProduceResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from tests.sim.scenario import Scenario


def test_it_goes_on_until_all_know_who_leads_in_its_place() -> None:
    scenario = Scenario(1)
    scenario.write(100)
    old, group = scenario.leader, scenario.group
    brokers = [scenario.broker(name) for name in scenario.running()]
    # As in practice: a vote is synced, and takes longer than anything else here.
    for name in scenario.running():
        scenario.world.machines[name].drive.faults.slowness = 100
    known: list[set[int | None]] = []
    scenario.broker(old).driver.hand_over_all(
        lambda: known.append({each.leaders.leader(group) for each in brokers})
    )
    scenario.loop.run_until(lambda: bool(known), 5_000)
    assert known == [{scenario.broker(scenario.leader).node}]
    assert scenario.leader != old


def test_what_it_has_begun_to_write_is_acknowledged() -> None:
    scenario = Scenario(2)
    scenario.write(100)
    data = encode_batch([Record(0, 5, None, b"v", ())])
    answers: list[object] = []
    old = scenario.leader
    scenario.partition(old).produce(data, acks=-1, timeout_ms=5_000, on_done=answers.append)
    stopped: list[bool] = []
    scenario.broker(old).stop(lambda: stopped.append(True))
    scenario.loop.run_until(lambda: bool(answers and stopped), 5_000)
    assert isinstance(answers[0], ProduceResult), answers
    assert scenario.leader != old


def test_not_all_of_its_partitions_go_to_the_same_one() -> None:
    scenario = Scenario(3)
    spec = TopicSpec(name="wide", partitions=9)
    load = TopicLoad(scenario.env, scenario.cluster.addresses, spec, scenario.findings)
    scenario.loop.run_until(lambda: load.is_made, 30_000)
    stopped, other, _ = (scenario.broker(name) for name in scenario.running())
    groups = [each.group for each in stopped.state.topic("wide").partitions]
    leader = other.leaders.leader
    scenario.loop.run_until(lambda: all(leader(group) for group in groups), 5_000)
    led = [group for group in groups if leader(group) == stopped.node]
    assert len(led) > 1
    done: list[bool] = []
    stopped.stop(lambda: done.append(True))
    scenario.loop.run_until(lambda: bool(done), 5_000)
    assert len({leader(group) for group in led}) == 2
