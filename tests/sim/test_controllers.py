"""Controllers are added and removed at work, while what may go wrong does."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.controller import founding
from kafkaesque.broker.controller.founding import Founding
from kafkaesque.broker.controller.metadata_store import MetadataStore
from kafkaesque.broker.joining import identity, registration
from kafkaesque.broker.metadata.features import KNOWN, METADATA
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    ChangeControllers,
    ConfigChange,
    ControllerCommand,
    CreateTopic,
    Done,
    RaiseFeature,
    RemoveBroker,
)
from kafkaesque.model.errors import FeatureUpdateFailed, InvalidRequest, KafkaesqueError
from kafkaesque.model.ids import CONTROLLER_GROUP, NodeId
from kafkaesque.sim.nemesis import LOSING, SURVIVABLE
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import SimReport, run_seed
from tests.sim.scenario import TOPIC, Scenario
from tests.sim.seeds import first_of, some_of


def running(scenario: Scenario) -> list[Broker]:
    """Return the brokers that run and have come so far that they can be asked."""
    return [
        scenario.broker(name)
        for name in scenario.running()
        if name in scenario.cluster.brokers and not scenario.world.machines[name].paused
    ]


def leads(broker: Broker) -> bool:
    replica = broker.driver.get(CONTROLLER_GROUP)
    return replica is not None and replica.is_leader and replica.term_committed


def leader(scenario: Scenario) -> Broker:
    scenario.loop.run_until(lambda: any(map(leads, running(scenario))), 30_000)
    return max(filter(leads, running(scenario)), key=lambda each: term_of(each))


def term_of(broker: Broker) -> int:
    replica = broker.driver.get(CONTROLLER_GROUP)
    assert replica is not None
    return replica.term


def submit(scenario: Scenario, command: ControllerCommand) -> object:
    """Have a command carried out, and return what the answer is."""
    outcomes: list[object] = []
    leader(scenario).controller_client.submit(command, 20_000, outcomes.append)
    scenario.loop.run_until(lambda: bool(outcomes), 30_000)
    return outcomes[0]


def ask(scenario: Scenario, node: int, *, is_added: bool) -> object:
    return submit(scenario, ChangeControllers(node=node, is_added=is_added))


def note_something(scenario: Scenario, value: str) -> None:
    """Have something committed that can be recognised."""
    changes = [ConfigChange(name="retention.ms", value=value)]
    assert submit(scenario, ChangeConfig(topic=TOPIC, changes=changes)) == Done()


def noted(broker: Broker) -> str | None:
    topic = broker.state.topics.get(TOPIC)
    return None if topic is None else topic.configs.get("retention.ms")


def change(scenario: Scenario, node: int, *, is_added: bool) -> None:
    """Ask for a change, again where the leader went away."""
    for _ in range(10):
        outcome = ask(scenario, node, is_added=is_added)
        if outcome == Done() or "already" in str(outcome) or "is not a controller" in str(outcome):
            return
        scenario.loop.run_for(500)
    pytest.fail(f"{outcome}")


def voters(scenario: Scenario) -> tuple[int, ...] | None:
    """Return who votes, as the leader has committed; None while that changes."""
    broker = leader(scenario)
    replica = broker.driver.get(CONTROLLER_GROUP)
    assert replica is not None
    if not replica.core.is_settled:
        return None
    return tuple(sorted(replica.core.configuration.voters))


def await_voters(scenario: Scenario, *nodes: int) -> None:
    scenario.loop.run_until(lambda: voters(scenario) == nodes, 60_000)


def until(scenario: Scenario, what: Callable[[], bool]) -> None:
    scenario.loop.run_until(what, 60_000)


def lose_disk(scenario: Scenario, name: str) -> None:
    scenario.kill(name)
    scenario.world.machines[name].drive.volume.clear()


def grown(
    *wanted: int, brokers: int = 5, seed: int = 1, founders: int = 3, replicas: int = 3
) -> Scenario:
    """Return a cluster whose controllers have become these."""
    scenario = Scenario(seed, SimOptions(brokers=brokers, controllers=founders, replicas=replicas))
    until(scenario, lambda: len(leader(scenario).state.brokers) == brokers)
    now = list(range(1, founders + 1))
    for node in wanted:
        if node not in now:
            change(scenario, node, is_added=True)
            now.append(node)
            await_voters(scenario, *sorted(now))
    for node in [node for node in now if node not in wanted]:
        change(scenario, node, is_added=False)
        now.remove(node)
        await_voters(scenario, *sorted(now))
    return scenario


def nobody_leads_for(scenario: Scenario, ms: int) -> None:
    for _ in range(ms // 250):
        scenario.loop.run_for(250)
        assert not any(map(leads, running(scenario)))


def settle(scenario: Scenario) -> None:
    """Wait until all that run have the same metadata."""

    def is_settled() -> bool:
        started = running(scenario)
        states = {each.state.write_snapshot() for each in started}
        return len(started) == len(scenario.running()) and len(states) == 1

    until(scenario, is_settled)


@pytest.fixture
def scenario() -> Scenario:
    scenario = Scenario(1, SimOptions(brokers=4))
    until(scenario, lambda: len(leader(scenario).state.brokers) == 4)
    return scenario


def test_a_controller_is_added_and_another_one_removed(scenario: Scenario) -> None:
    change(scenario, 4, is_added=True)
    await_voters(scenario, 1, 2, 3, 4)
    change(scenario, 1, is_added=False)
    await_voters(scenario, 2, 3, 4)
    # One that the topic can do without, so that it goes on, too.
    replicas = scenario.broker("b1").state.topic(TOPIC).partitions[0].replicas
    other = next(node for node in (2, 3, 4) if node not in replicas or 1 not in replicas)
    scenario.kill("b1")
    scenario.kill(f"b{other}")
    scenario.write(50)
    assert leader(scenario).node not in (1, other)


def test_a_leader_that_is_removed_hands_over_first(scenario: Scenario) -> None:
    former = leader(scenario)
    change(scenario, former.node, is_added=False)
    others = [node for node in (1, 2, 3) if node != former.node]
    await_voters(scenario, *others)
    assert not leads(former)
    assert scenario.told(f"broker {leader(scenario).node} leads the controller group")
    scenario.write(50)


def with_one_that_knows() -> Scenario:
    """Let 2 and 4 decide something without 3; then 2 is down, and 4 has an empty disk."""
    scenario = grown(2, 3, 4, brokers=4)
    for name in ("b1", "b3"):
        scenario.kill(name)
    note_something(scenario, "1234567")
    scenario.loop.run_for(1_000)
    scenario.kill("b2")
    lose_disk(scenario, "b4")
    scenario.boot("b4")
    scenario.boot("b3")
    return scenario


def test_an_added_controller_that_lost_its_disk_does_not_elect_a_stale_one() -> None:
    scenario = with_one_that_knows()
    nobody_leads_for(scenario, 15_000)
    scenario.boot("b2")
    until(scenario, lambda: {noted(each) for each in running(scenario)} == {"1234567"})
    await_voters(scenario, 2, 3, 4)
    scenario.boot("b1")
    settle(scenario)
    # It counts again.
    scenario.kill("b2")
    note_something(scenario, "7654321")


def test_with_a_vote_from_the_beginning_it_would(monkeypatch: pytest.MonkeyPatch) -> None:
    decide = Founding._decide

    def with_a_vote(founding: Founding, *, is_amnesiac: bool) -> None:
        decide(founding, is_amnesiac=is_amnesiac and founding._is_founder)

    monkeypatch.setattr(Founding, "_decide", with_a_vote)
    scenario = with_one_that_knows()
    assert noted(leader(scenario)) != "1234567", "what was committed is lost"


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_controllers_that_were_removed_decide_nothing_with_their_old_file(seed: int) -> None:
    scenario = Scenario(seed, SimOptions(brokers=5))
    until(scenario, lambda: len(leader(scenario).state.brokers) == 5)
    scenario.kill("b1")
    for node in (4, 5):
        change(scenario, node, is_added=True)
    await_voters(scenario, 1, 2, 3, 4, 5)
    change(scenario, 1, is_added=False)
    await_voters(scenario, 2, 3, 4, 5)
    if seed == 1:
        scenario.kill("b2")
    change(scenario, 2, is_added=False)
    await_voters(scenario, 3, 4, 5)
    scenario.kill("b2")
    note_something(scenario, "1234567")
    for name in ("b3", "b4", "b5"):
        scenario.kill(name)
    scenario.boot("b1")
    scenario.boot("b2")
    nobody_leads_for(scenario, 10_000)
    for name in ("b3", "b4", "b5"):
        scenario.boot(name)
    await_voters(scenario, 3, 4, 5)
    settle(scenario)
    assert {noted(each) for each in running(scenario)} == {"1234567"}


def without_the_founders_disks(seed: int) -> Scenario:
    scenario = grown(3, 4, 5, brokers=6, seed=seed)
    note_something(scenario, "1234567")
    settle(scenario)
    for name in ("b1", "b2", "b3"):
        lose_disk(scenario, name)
    if seed % 2:
        # No controller of today is left, but 6 has their log.
        scenario.kill("b4")
        scenario.kill("b5")
    scenario.loop.run_for(100 * seed)
    for name in ("b1", "b2", "b3"):
        scenario.boot(name)
    return scenario


@pytest.mark.parametrize("seed", first_of(range(4), 1))
def test_founders_with_empty_disks_found_no_second_cluster(seed: int) -> None:
    scenario = without_the_founders_disks(seed)
    if seed % 2:
        nobody_leads_for(scenario, 8_000)
        scenario.boot("b4")
        scenario.boot("b5")
    scenario.loop.run_for(3_000)
    await_voters(scenario, 3, 4, 5)
    settle(scenario)
    assert {noted(each) for each in running(scenario)} == {"1234567"}
    assert scenario.told("not new: it copies its replicas from the other brokers")


def test_if_only_founders_were_asked_they_would(monkeypatch: pytest.MonkeyPatch) -> None:
    on_word = Founding.on_word

    def of_founders(founding: Founding, node: NodeId, *words: object, **more: object) -> None:
        if node in founding._others:
            on_word(founding, node, *words, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Founding, "on_word", of_founders)
    scenario = without_the_founders_disks(1)
    until(scenario, lambda: any(map(leads, running(scenario))))
    assert noted(leader(scenario)) != "1234567"


def test_an_added_controller_gets_its_vote_back_after_a_lost_disk() -> None:
    scenario = grown(1, 2, 3, 4, 5)
    lose_disk(scenario, "b5")
    note_something(scenario, "1")
    until(scenario, lambda: voters(scenario) == (1, 2, 3, 4, 5))
    scenario.boot("b5")
    scenario.loop.run_for(2_000)
    until(scenario, lambda: voters(scenario) == (1, 2, 3, 4, 5))
    settle(scenario)
    for name in ("b1", "b2"):
        scenario.kill(name)
    note_something(scenario, "1234567")


@pytest.mark.parametrize("seed", first_of(range(4), 1))
def test_a_change_goes_on_without_its_leader(seed: int) -> None:
    scenario = Scenario(seed, SimOptions(brokers=5))
    until(scenario, lambda: len(leader(scenario).state.brokers) == 5)
    for node, is_added in ((4, True), (5, True), (1, False)):
        change(scenario, node, is_added=is_added)
        scenario.loop.run_for(seed * 70)
        name = f"b{leader(scenario).node}"
        if seed % 2:
            scenario.kill(name)
        else:
            others = [other for other in scenario.cluster.names if other != name]
            for other in others:
                scenario.world.wire.block(name, other)
        scenario.loop.run_for(2_500)
        if seed % 2:
            scenario.boot(name)
        else:
            for other in others:
                scenario.world.wire.unblock(name, other)
        expected = {1, 2, 3} | {node} if is_added else {2, 3, 4, 5}
        expected |= {4} if node == 5 else set()
        await_voters(scenario, *sorted(expected))
    await_voters(scenario, 2, 3, 4, 5)
    settle(scenario)
    scenario.write(50)


def test_a_new_broker_is_taken_in_though_its_file_names_only_former_controllers() -> None:
    scenario = grown(2, 3, brokers=5, founders=1, replicas=1)
    (holder,) = leader(scenario).state.topic(TOPIC).partitions[0].replicas
    node = NodeId(4 if holder == 5 else 5)
    lose_disk(scenario, f"b{node}")
    scenario.loop.run_for(3_000)
    assert submit(scenario, RemoveBroker(node=node)) == Done()
    settle(scenario)
    for name in ("b2", "b3"):
        # It knows of nobody else's address but by what the former controller brings about.
        scenario.world.wire.block(f"b{node}", name)
    scenario.boot(f"b{node}")
    scenario.loop.run_for(3_000)
    assert node in leader(scenario).state.brokers
    for name in ("b2", "b3"):
        scenario.world.wire.unblock(f"b{node}", name)
    until(scenario, lambda: scenario.broker(f"b{node}").life.is_ready)


def test_a_cluster_of_the_release_before_changes_its_controllers_after_the_upgrade(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as before:
        before.setattr(registration, "KNOWN", {METADATA: (1, 2)})
        scenario = Scenario(3, SimOptions(brokers=4))
        until(scenario, lambda: len(leader(scenario).state.brokers) == 4)
    refusal = ask(scenario, 4, is_added=True)
    assert isinstance(refusal, FeatureUpdateFailed)
    assert leader(scenario).state.controllers == ()
    for name in scenario.cluster.names:
        scenario.kill(name)
        scenario.boot(name)
        scenario.loop.run_for(3_000)
    until(
        scenario,
        lambda: (
            {each.features[METADATA] for each in leader(scenario).state.brokers.values()}
            == {KNOWN[METADATA]}
        ),
    )
    assert submit(scenario, RaiseFeature(name=METADATA, level=3)) == Done()
    assert leader(scenario).state.controllers == (1, 2, 3)
    change(scenario, 4, is_added=True)
    await_voters(scenario, 1, 2, 3, 4)


def test_what_the_file_says_later_changes_nothing(scenario: Scenario) -> None:
    """The first voters are those that the cluster was founded with, even where nothing else is."""
    scenario.cluster.options = SimOptions(brokers=4, controllers=4)
    for name in scenario.cluster.names:
        scenario.kill(name)
        scenario.boot(name)
    until(scenario, lambda: len(running(scenario)) == 4)
    scenario.loop.run_for(5_000)
    assert voters(scenario) == (1, 2, 3)
    replica = scenario.broker("b1").driver.get(CONTROLLER_GROUP)
    assert replica is not None
    (index, _), *_ = replica.log.configurations
    assert index == 0
    refusal = ask(scenario, 9, is_added=True)
    assert "there is no broker 9" in str(refusal)


def _explain(report: SimReport) -> str:
    lines = "\n".join(report.lines[-40:])
    return f"seed {report.seed}: {report.anomalies}\n{lines}"


def run_changes(seed: int) -> SimReport:
    kinds = (*SURVIVABLE, *LOSING * 3) if seed % 2 else SURVIVABLE
    options = SimOptions(
        brokers=5,
        kinds=kinds,
        activities=("controllers", "commits"),
        between_ms=700,
        snapshot_records=10 if seed % 3 else 10_000,
    )
    return run_seed(seed, options)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("first", first_of(range(7_000, 7_012, 6), 1))
def test_nothing_is_lost_while_controllers_change(first: int) -> None:
    changes = 0
    for seed in some_of(range(first, first + 6)):
        report = run_changes(seed)
        assert report.ok, _explain(report)
        changes += report.counts["controllers"]
    assert changes


def test_without_a_majority_of_the_rest_a_removal_is_refused() -> None:
    scenario = grown(1, 2, 3, brokers=3)
    last = min(name for name in ("b2", "b3") if scenario.broker(name) is not leader(scenario))
    scenario.kill(last)
    scenario.loop.run_for(3_000)
    alive = next(node for node in (1, 2, 3) if f"b{node}" != last)
    refusal = ask(scenario, alive, is_added=False)
    assert isinstance(refusal, InvalidRequest)
    change(scenario, int(last[1:]), is_added=False)
    await_voters(scenario, *(node for node in (1, 2, 3) if f"b{node}" != last))


def test_a_former_controller_that_is_elected_once_more_says_what_it_is() -> None:
    scenario = grown(2, 3, 4)
    learners = scenario.told("__cluster_metadata-0: this broker has its copy")
    assert len(learners) == 2  # 4 and 5, when they were new
    assert not [line for line in learners if "vote" in line]
    for name in scenario.running():
        scenario.kill(name)
    led = len(scenario.told("leads the controller group"))
    former, *others = scenario.cluster.names
    scenario.boot(former)
    # It stands for election before the others may: it cannot know that its removal is committed.
    scenario.loop.run_for(1_500)
    for name in others:
        scenario.boot(name)
    scenario.loop.run_for(10_000)
    assert scenario.told("broker 1 is no longer a controller")
    (line,) = scenario.told("leads the controller group")[led:]
    assert "broker 1" not in line


def test_a_broker_that_asks_for_its_id_for_long_does_not_take_its_log_for_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Seed 6063 under all faults: it heard of the others' log before it had looked at its own.

    It gave up its vote, and when another broker lost its disk, the controllers had no majority.
    """
    monkeypatch.setattr(identity, "START_MS_MAX", 3 * founding.GRACE_MS)
    scenario = Scenario(21)
    scenario.write(10)
    scenario.world.machines["b3"].cut_power()
    scenario.kill("b2")
    scenario.boot("b2")
    scenario.loop.run_for(5 * founding.GRACE_MS)
    assert scenario.told("broker 2 has an empty directory") == []
    assert scenario.broker("b2").life.is_ready
    scenario.write(10)
    assert scenario.findings.anomalies == []


def test_damaged_metadata_are_told_as_a_failed_disk_and_nobody_believes_them() -> None:
    scenario = Scenario(22)
    scenario.write(10)
    machine = scenario.world.machines["b2"]
    replica: Any = scenario.broker("b2").controller.replica
    path = replica.log.segments.segments[0].path
    scenario.cluster.restart(machine)  # So that no write-ahead log makes it good again.
    scenario.loop.run_until(lambda: not machine.running, 10_000)
    scenario.loop.run_until(lambda: scenario.cluster.is_back(machine), 10_000)
    scenario.kill("b2")
    inode: Any = machine.drive.volume.find(path)
    inode.content[80] ^= 1
    scenario.boot("b2")
    scenario.loop.run_until(lambda: scenario.cluster.failed() == ["b2"], 10_000)
    assert scenario.told(f"broker 2: the disk failed: {path}, byte ")
    scenario.write(10)
    assert not any("defect" in each for each in scenario.findings.anomalies)


def test_a_controller_whose_snapshot_is_gone_does_not_begin_with_half_of_the_metadata() -> None:
    """Seed 500163: it led the others then, and told them that there were no topics."""
    scenario = Scenario(11, SimOptions(snapshot_records=4))
    scenario.write(20)
    name = next(each for each in scenario.cluster.names if leads(scenario.broker(each)))
    broker = scenario.broker(name)
    for number in range(9):
        change = ConfigChange(name="retention.bytes", value=str(10_000_000 + number))
        broker.controller_client.submit(
            ChangeConfig(topic=TOPIC, changes=[change]), 20_000, lambda _: None
        )
        scenario.loop.run_for(300)
    replica = broker.driver.get(CONTROLLER_GROUP)
    assert replica is not None
    assert replica.log.start_offset > 0
    broker.env.disk.remove("__cluster_metadata-0/snapshot")
    scenario.kill(name)
    scenario.boot(name)
    scenario.loop.run_for(3_000)
    assert scenario.told("cannot start: the log of the metadata begins at")
    assert scenario.find(name) is None


def test_a_state_that_is_newer_than_the_start_of_the_log_is_taken_as_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A controller dies between its snapshot and the end of the log before it, and leads then."""
    scenario = Scenario(3, SimOptions(snapshot_records=6))
    until(scenario, lambda: len(leader(scenario).state.brokers) == 3)
    saved = MetadataStore._on_saved
    machine = scenario.world.machines["b1"]

    def on_saved(store: MetadataStore) -> None:
        if store is scenario.broker("b1").metadata_store and store._snapshot_offset > 0:
            machine.kill()
        else:
            saved(store)

    monkeypatch.setattr(MetadataStore, "_on_saved", on_saved)
    for number in range(30):
        if machine.running:
            submit(
                scenario, CreateTopic(name=f"made{number}", partition_count=1, replication_factor=3)
            )
            scenario.loop.run_for(600)
    monkeypatch.undo()
    scenario.boot("b1")
    until(scenario, lambda: scenario.cluster.is_back(machine))
    replica = scenario.broker("b1").driver.get(CONTROLLER_GROUP)
    assert replica is not None
    assert 0 < replica.log.start_offset < scenario.broker("b1").controller.snapshot_offset

    for _ in range(10):
        if leader(scenario).node != 1:
            with suppress(KafkaesqueError):  # b1 may not have caught up
                leader(scenario).driver.transfer_leadership(CONTROLLER_GROUP, NodeId(1))
            scenario.loop.run_for(1_000)
    assert leader(scenario).node == 1
    lose_disk(scenario, "b3")
    scenario.boot("b3")
    scenario.loop.run_for(20_000)
    assert not any("defect" in each for each in scenario.findings.anomalies)
    one, three = scenario.broker("b1").state, scenario.broker("b3").state
    assert one.write_snapshot() == three.write_snapshot()
