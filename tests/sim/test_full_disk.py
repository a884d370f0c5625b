"""A broker without space fails as a whole, or begins without records; what it says is true."""

from collections import Counter
from collections.abc import Callable

import pytest

from kafkaesque.broker.controller.metadata_store import MetadataStore
from kafkaesque.broker.replication.raft_driver import FULL_MS_MAX
from kafkaesque.broker.requests.commands import (
    ChangeConfig,
    ConfigChange,
    ControllerCommand,
    DeleteTopic,
)
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import Offset
from kafkaesque.raft.core import RaftCore
from kafkaesque.raft.messages import AnyMessage
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.options import SimOptions
from kafkaesque.storage.config import KIB
from tests.sim.scenario import TOPIC, Scenario
from tests.sim.seeds import first_of

#: In the simulator 8 KiB are kept for the broker's own needs, and 12 KiB are enough.
ROOM_BYTES = 7 * KIB
KEPT_BYTES = 8 * KIB


def fill(scenario: Scenario, *names: str) -> None:
    """Stop brokers, and let their disks hold hardly more than they do."""
    for name in names:
        scenario.kill(name)
        drive = scenario.world.machines[name].drive
        drive.faults.capacity_bytes = drive.used_bytes() + ROOM_BYTES


def start_full(scenario: Scenario, name: str) -> None:
    """Let a broker that runs come back on a full disk."""
    fill(scenario, name)
    scenario.boot(name)
    scenario.loop.run_until(lambda: is_full(scenario, name), 30_000)


def is_full(scenario: Scenario, name: str) -> bool:
    """Tell whether a broker is up and takes no records."""
    broker = scenario.cluster.brokers.get(name)
    return broker is not None and broker.life.is_ready and broker.store.refusal is not None


def takes_records(scenario: Scenario, name: str) -> bool:
    """Tell whether a broker is up and has room."""
    broker = scenario.cluster.brokers.get(name)
    return broker is not None and broker.life.is_ready and broker.store.refusal is None


def do(scenario: Scenario, command: ControllerCommand) -> None:
    """Have a command done by the controllers."""
    outcomes: list[object] = []
    name = next(name for name in scenario.running() if not is_full(scenario, name))
    scenario.broker(name).controller_client.submit(command, 20_000, outcomes.append)
    scenario.loop.run_until(lambda: bool(outcomes), 20_000)
    assert not isinstance(outcomes[0], RequestRefused), outcomes


def keep(scenario: Scenario, count: int) -> None:
    """Let the topic keep so many bytes."""
    change = ConfigChange(name="retention.bytes", value=str(count))
    do(scenario, ChangeConfig(topic=TOPIC, changes=[change]))


def keep_less(scenario: Scenario) -> None:
    """Let the topic keep little."""
    keep(scenario, KEPT_BYTES)


def goes_on(scenario: Scenario, name: str) -> None:
    """A broker that was full takes records again, and all replicas become equal."""
    scenario.loop.run_until(lambda: takes_records(scenario, name), 30_000)
    scenario.write(10)
    scenario.settle()
    assert scenario.cluster.failed() == []


def free_bytes(scenario: Scenario, name: str) -> int:
    return scenario.broker(name).env.disk.free_bytes()


def test_a_follower_without_space_says_that_it_does_not_go_on_by_itself() -> None:
    scenario = Scenario(1)
    leader = scenario.leader
    full, good = (name for name in scenario.cluster.names if name != leader)
    scenario.write(20)
    scenario.settle()
    errors: list[str] = []
    scenario.broker(full).reports.error = errors.append
    drive = scenario.world.machines[full].drive
    drive.faults.capacity_bytes = drive.used_bytes()
    scenario.write(1_500)
    scenario.loop.run_until(lambda: bool(errors), 30_000)
    (told,) = errors
    assert "the disk failed: " in told
    assert "No space left on device" in told
    assert "until the broker is restarted" in told
    assert "does not resume by itself" in told
    assert "until then" not in told
    # Space alone changes nothing; a restart does.
    drive.faults.capacity_bytes = None
    scenario.write(10)
    scenario.loop.run_for(5_000)
    assert scenario.cluster.failed() == [full]
    scenario.cluster.restart_failed()
    scenario.loop.run_until(lambda: scenario.running() == scenario.cluster.names, 30_000)
    scenario.loop.run_until(
        lambda: scenario.find(full) is not None and scenario.end(full) == scenario.end(good), 30_000
    )


@pytest.mark.parametrize("remedy", ["retention", "deletion", "other files"])
def test_a_broker_that_starts_on_a_full_disk_gets_space_by_what_it_advises(remedy: str) -> None:
    scenario = Scenario(3)
    scenario.write(600)
    scenario.settle()
    full = next(name for name in scenario.cluster.names if name != scenario.leader)
    fill(scenario, full)
    scenario.write(300)
    scenario.boot(full)
    scenario.loop.run_until(lambda: is_full(scenario, full), 30_000)
    scenario.loop.run_for(5_000)
    # It is here, takes nothing, and is in nobody's way.
    end = scenario.end(full)
    scenario.write(50)
    scenario.loop.run_for(2_000)
    assert scenario.end(full) == end
    assert scenario.cluster.failed() == []
    reason = scenario.broker(full).space_watch.reason
    assert reason is not None
    assert f"free {12 * KIB - free_bytes(scenario, full)} or more" in reason
    if remedy == "retention":
        keep_less(scenario)
    elif remedy == "deletion":
        do(scenario, DeleteTopic(name=TOPIC))
    else:
        scenario.world.machines[full].drive.faults.capacity_bytes = None
    scenario.loop.run_until(lambda: takes_records(scenario, full), 30_000)
    assert scenario.cluster.failed() == []
    scenario.loop.run_until(lambda: bool(scenario.told("accepts records again: its disk")), 1_000)
    if remedy != "deletion":
        scenario.write(10)
        scenario.settle()
        leader = scenario.partition(scenario.leader)
        assert scenario.partition(full).log.start_offset == leader.log.start_offset
        assert len(leader.replica.in_sync()) == 3  # type: ignore[union-attr]


def test_a_cluster_whose_disks_are_all_full_gets_space_by_retention() -> None:
    scenario = Scenario(5)
    scenario.write(600)
    scenario.settle()
    names = scenario.cluster.names
    fill(scenario, *names)
    for name in names:
        scenario.boot(name)
    scenario.loop.run_until(lambda: all(is_full(scenario, name) for name in names), 30_000)
    scenario.loop.run_until(lambda: scenario.leaders() != [], 30_000)
    scenario.loop.run_for(2_000)
    outcomes: list[object] = []
    change = ConfigChange(name="retention.bytes", value=str(KEPT_BYTES))
    command = ChangeConfig(topic=TOPIC, changes=[change])
    scenario.broker(names[0]).controller_client.submit(command, 20_000, outcomes.append)
    scenario.loop.run_until(lambda: all(takes_records(scenario, name) for name in names), 30_000)
    assert not isinstance(outcomes[0], RequestRefused)
    assert scenario.cluster.failed() == []
    scenario.write(10)
    scenario.settle()


def test_a_disk_that_fills_up_while_the_broker_runs_stops_nobody_else() -> None:
    scenario = Scenario(7)
    scenario.write(300)
    scenario.settle()
    full = next(name for name in scenario.cluster.names if name != scenario.leader)
    drive = scenario.world.machines[full].drive
    drive.faults.capacity_bytes = drive.used_bytes() + 64 * KIB
    errors: list[str] = []
    scenario.broker(full).reports.error = errors.append
    scenario.write(2_500)
    (told,) = errors
    assert "takes no records: only" in told
    assert "it then resumes by itself" in told
    assert is_full(scenario, full)
    assert not takes_records(scenario, full)
    keep_less(scenario)
    goes_on(scenario, full)


def test_a_disk_that_something_else_fills_is_noticed_though_nobody_writes() -> None:
    scenario = Scenario(8)
    scenario.write(50)
    scenario.settle()
    full = scenario.leader
    drive = scenario.world.machines[full].drive
    broker = scenario.broker(full)
    errors: list[str] = []
    broker.reports.error = errors.append
    drive.faults.capacity_bytes = drive.used_bytes() + ROOM_BYTES
    scenario.loop.run_for(1_000)
    (told,) = errors
    assert "takes no records: only" in told
    assert is_full(scenario, full)
    drive.faults.capacity_bytes = None
    scenario.loop.run_until(lambda: bool(scenario.told("accepts records again: its disk")), 1_000)
    goes_on(scenario, full)


def test_a_full_broker_whose_copy_has_nothing_more_that_is_kept_gives_it_up() -> None:
    scenario = Scenario(9)
    scenario.write(600)
    scenario.settle()
    full = next(name for name in scenario.cluster.names if name != scenario.leader)
    fill(scenario, full)
    keep_less(scenario)
    scenario.write(1_500)
    scenario.loop.run_for(2_000)
    scenario.boot(full)
    scenario.loop.run_until(lambda: is_full(scenario, full), 30_000)
    goes_on(scenario, full)


def test_retention_that_is_to_be_applied_more_often_is_so_at_once() -> None:
    scenario = Scenario(11)
    scenario.write(600)
    scenario.settle()
    name = "log.retention.check.interval.ms"
    do(scenario, ChangeConfig(changes=[ConfigChange(name=name, value="600000")]))
    scenario.loop.run_for(1_000)
    keep_less(scenario)
    log = scenario.partition(scenario.leader).log
    scenario.loop.run_for(10_000)
    assert log.start_offset == 0
    do(scenario, ChangeConfig(changes=[ConfigChange(name=name, value="1000")]))
    scenario.loop.run_until(lambda: log.start_offset > 0, 2_000)


def test_a_full_broker_does_not_keep_the_other_of_two_replicas_from_going_on() -> None:
    scenario = Scenario(13, SimOptions(replicas=2))
    scenario.write(600)
    leader = scenario.leader
    full = next(name for name in scenario.cluster.names if name != leader and scenario.find(name))
    scenario.loop.run_until(lambda: scenario.end(full) == scenario.end(leader), 30_000)
    scenario.loop.run_for(500)
    start_full(scenario, full)  # before the others give it up
    scenario.write(10)
    assert scenario.cluster.failed() == [full]
    keep_less(scenario)
    scenario.write(1_500)
    scenario.cluster.restart_failed()
    scenario.loop.run_until(lambda: takes_records(scenario, full), 30_000)
    partition = scenario.partition(leader)
    scenario.loop.run_until(lambda: len(partition.replica.in_sync()) == 2, 30_000)  # type: ignore[union-attr]
    assert scenario.cluster.failed() == []


def test_a_full_broker_that_gets_space_soon_goes_on_as_one_of_two_replicas() -> None:
    scenario = Scenario(13, SimOptions(replicas=2))
    scenario.write(600)
    leader = scenario.leader
    full = next(name for name in scenario.cluster.names if name != leader and scenario.find(name))
    scenario.loop.run_until(lambda: scenario.end(full) == scenario.end(leader), 30_000)
    scenario.loop.run_for(500)
    keep_less(scenario)
    fill(scenario, full)
    scenario.boot(full)
    scenario.write(1_500)
    assert scenario.cluster.failed() == []
    assert takes_records(scenario, full)


def test_a_pair_waits_as_long_for_a_broker_that_has_long_been_full() -> None:
    scenario = Scenario(17)
    scenario.write(300)
    scenario.settle()
    full = next(name for name in scenario.cluster.names if name != scenario.leader)
    start_full(scenario, full)
    scenario.loop.run_for(60_000)
    assert scenario.cluster.failed() == []
    # Of the partitions of two that are made now it is a replica of some.
    spec = TopicSpec(name="pairs", replicas=2, configs={}, compacts=False)
    load = TopicLoad(scenario.env, scenario.cluster.addresses, spec, scenario.findings)
    scenario.loop.run_until(lambda: load.is_made, 30_000)
    load.start()
    scenario.loop.run_for(FULL_MS_MAX - 1_000)
    assert scenario.cluster.failed() == []
    scenario.loop.run_for(5_000)
    assert scenario.cluster.failed() == [full]


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_a_leader_does_not_send_without_pause_to_a_member_without_room(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(seed)
    scenario.write(300)
    scenario.settle()
    leader = scenario.leader
    full, away = (name for name in scenario.cluster.names if name != leader)
    start_full(scenario, full)
    # What is written now cannot be committed, and the leader begins anew with it and a mark.
    scenario.kill(away)
    scenario.start_writing()
    scenario.loop.run_for(500)
    scenario.kill(leader)
    scenario.boot(leader)
    scenario.loop.run_for(8_000)
    assert scenario.leaders() == [leader]
    counts: Counter[str] = Counter()
    step = RaftCore.step

    def counted(core: RaftCore, message: AnyMessage, *, has_room: bool = True) -> None:
        if message.group == scenario.group:
            counts[type(message).__name__] += 1
        step(core, message, has_room=has_room)

    monkeypatch.setattr(RaftCore, "step", counted)
    scenario.loop.run_for(1_000)
    assert 0 < counts["AppendRequest"] < 10
    assert counts["NotHere"] > 0


@pytest.mark.parametrize("seed", first_of(range(3), 1))
def test_metadata_for_which_there_was_no_space_is_written_when_there_is(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = Scenario(seed, SimOptions(snapshot_records=10))
    scenario.write(50)
    scenario.settle()
    names = scenario.cluster.names
    deciding = next(name for name in names if scenario.broker(name).controller.is_leader)
    late, other = (name for name in names if name != deciding)
    scenario.kill(late)
    for number in range(40):
        keep(scenario, 10_000_000 + number)
    scenario.loop.run_for(3_000)
    drive = scenario.world.machines[late].drive
    save = MetadataStore.save
    offsets: list[int] = []

    def without_space(
        store: MetadataStore, payload: bytes, offset: Offset, on_saved: Callable[[], None]
    ) -> None:
        if not offsets and store is scenario.broker(late).metadata_store:
            drive.faults.capacity_bytes = drive.used_bytes()
            offsets.append(offset)
        save(store, payload, offset, on_saved)

    # The leader's snapshot takes the place of its log, which takes nothing until that is written.
    monkeypatch.setattr(MetadataStore, "save", without_space)
    scenario.boot(late)
    scenario.loop.run_until(lambda: bool(offsets), 10_000)
    scenario.loop.run_for(3_000)
    assert len(scenario.told("snapshot of the metadata cannot be written")) == 1
    assert not scenario.broker(late).life.is_ready
    drive.faults.capacity_bytes = None
    scenario.loop.run_until(lambda: scenario.broker(late).life.is_ready, 10_000)
    # It is one of those that commit metadata again.
    scenario.kill(other)
    keep(scenario, 77)
    assert scenario.cluster.failed() == []


@pytest.mark.parametrize(
    "restarted",
    [pytest.param(True, marks=pytest.mark.extended), False],
    ids=["started so", "running"],
)
def test_as_many_controllers_stay_as_are_needed_to_make_space(restarted: bool) -> None:
    """Two of three disks are full, and every two brokers share partitions of two replicas."""
    scenario = Scenario(21)
    scenario.write(300)
    scenario.settle()
    spec = TopicSpec(
        name="pairs", partitions=3, assignments=((1, 2), (2, 3), (3, 1)), configs={}, producers=3
    )
    load = TopicLoad(scenario.env, scenario.cluster.addresses, spec, scenario.findings)
    scenario.loop.run_until(lambda: load.is_made, 30_000)
    load.start()
    scenario.loop.run_for(5_000)
    full = [name for name in scenario.cluster.names if name != scenario.leader]
    if restarted:
        fill(scenario, *full)
        for name in full:
            scenario.boot(name)
    else:
        for name in full:
            drive = scenario.world.machines[name].drive
            drive.faults.capacity_bytes = drive.used_bytes() + 7 * KIB
            scenario.broker(name).store._check_space()  # else it looks only once more is written
    scenario.start_writing()
    scenario.loop.run_for(60_000)
    # One leaves its pairs to the others; without the second one nobody could be told anything.
    assert len(scenario.cluster.failed()) == 1
    for topic in (TOPIC, "pairs"):
        change = ConfigChange(name="retention.bytes", value=str(KEPT_BYTES))
        do(scenario, ChangeConfig(topic=topic, changes=[change]))
    scenario.loop.run_for(5_000)
    scenario.cluster.restart_failed()
    scenario.loop.run_until(lambda: all(takes_records(scenario, name) for name in full), 30_000)
    scenario.load.stop_producing()
    load.stop_producing()
    scenario.loop.run_until(lambda: load.is_acknowledged, 60_000)
    scenario.loop.run_until(lambda: scenario.load.is_acknowledged, 60_000)
    assert scenario.cluster.failed() == []
