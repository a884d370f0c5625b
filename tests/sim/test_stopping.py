"""A broker that is stopped in order: what its clients notice of it."""

from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.records import Record
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.options import SimOptions
from tests.sim.scenario import Scenario
from tests.sim.test_controllers import leads, note_something, noted


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


def test_a_snapshot_that_is_saved_while_it_stops_does_not_empty_the_log() -> None:
    """Seed 1208: the log was emptied when the last checkpoint had noted what it held."""
    scenario = Scenario(5, SimOptions(snapshot_records=6))
    name = next(each for each in scenario.cluster.names if not leads(scenario.broker(each)))
    machine, brokers = scenario.world.machines[name], scenario.cluster.brokers
    scenario.kill(name)
    for number in range(12):
        note_something(scenario, str(10_000_000 + number))
        scenario.loop.run_for(1_000)
    scenario.boot(name)
    scenario.loop.run_until(
        lambda: name in brokers and bool(brokers[name].metadata_store._unsaved), 10_000
    )
    machine.drive.faults.slowness = 2_000
    scenario.cluster.restart(machine)
    scenario.loop.run_until(lambda: not machine.running, 60_000)
    machine.drive.faults.slowness = 1
    scenario.loop.run_until(lambda: scenario.cluster.is_back(machine), 20_000)
    note_something(scenario, "12345678")
    scenario.loop.run_until(lambda: noted(scenario.broker(name)) == "12345678", 10_000)
    assert not scenario.told("the disk failed")
