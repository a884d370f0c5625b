"""What lies on a disk is read before anybody needs it, and compared with its checksums."""

from collections.abc import Callable

import pytest

from kafkaesque.admin.health import reasons_against
from kafkaesque.admin.offline_replicas import answer_offline_replicas
from kafkaesque.broker.broker import Broker
from kafkaesque.broker.upkeep.log_scrubber import FIRST_PASS_MS
from kafkaesque.env.disk import FileRange
from kafkaesque.raft.errors import TransferRefused
from kafkaesque.sim.options import SimOptions
from kafkaesque.storage.group_log import GroupLog
from tests.sim.scenario import TOPIC, Scenario

#: A byte of the batch header that tells where the batch ends, and one of the records behind it.
BROKEN_HEADER, BROKEN_RECORDS = 16, 80
COPY = f"{TOPIC}-0"
SEGMENT_BYTES = 8 * 1024


def written(seed: int) -> Scenario:
    """Return a cluster with some closed segments, all of which nobody reads."""
    scenario = Scenario(seed)
    scenario.write(1_500)
    scenario.settle()
    return scenario


def pass_over(scenario: Scenario, name: str, passes: int = 1) -> None:
    """Wait until a broker has read all that it has so many times more."""
    scenario.loop.run_until(lambda: scenario.find(name) is not None, 10_000)
    scrubber = scenario.broker(name).log_scrubber
    wanted = scrubber.passes + passes
    scenario.loop.run_until(lambda: scrubber.passes >= wanted, 2 * FIRST_PASS_MS * passes)


def damaged(broker: Broker) -> list[str]:
    """Return the copies that a broker takes for damaged, checked against what it tells."""
    found = list(broker.log_scrubber.damaged)
    listed = answer_offline_replicas(broker.doors).body
    for name in found:
        assert any(name in reason for reason in reasons_against(broker.doors))
        assert name.encode() in bytes(listed)
    return found


def is_listed(scenario: Scenario, name: str) -> bool:
    """Tell whether a broker says that its copy cannot be read, or not all of it."""
    broker = scenario.cluster.brokers.get(name)
    return broker is not None and COPY.encode() in bytes(answer_offline_replicas(broker.doors).body)


def remove_copy(scenario: Scenario, name: str) -> None:
    """Do what the handbook says: away with the copy of a broker that is down."""
    env = scenario.world.machines[name].boot()
    env.disk.remove_tree(COPY)
    scenario.world.machines[name].kill()


@pytest.mark.parametrize("byte", [BROKEN_HEADER, BROKEN_RECORDS])
def test_a_leader_finds_its_copy_damaged_and_lets_another_lead(byte: int) -> None:
    scenario = written(1)
    leader = scenario.leader
    scenario.damage(leader, segment=1, batch=9, byte=byte)
    pass_over(scenario, leader)
    scenario.loop.run_for(2_000)
    assert damaged(scenario.broker(leader)) == [COPY]
    assert scenario.leaders() != [leader]
    assert [damaged(scenario.broker(each)) for each in scenario.leaders()] == [[]]
    assert scenario.told("the log cannot be read")
    reader = scenario.read_from_start()
    end = scenario.end(scenario.leader)
    scenario.loop.run_until(lambda: reader.position == end, 10_000)
    assert scenario.findings.anomalies == []


def test_a_follower_that_is_damaged_says_so_and_is_whole_when_its_copy_is_made_anew() -> None:
    scenario = written(2)
    leader = scenario.leader
    follower = next(each for each in scenario.cluster.names if each != leader)
    scenario.damage(follower, segment=2, batch=3, byte=BROKEN_RECORDS)
    pass_over(scenario, follower)
    assert damaged(scenario.broker(follower)) == [COPY]
    assert scenario.leaders() == [leader]
    scenario.write(50)
    scenario.settle()
    pass_over(scenario, follower)
    assert damaged(scenario.broker(follower)) == [COPY]
    # It is told after a restart, too: at once, where what is damaged is needed to start.
    scenario.kill(follower)
    scenario.boot(follower)
    scenario.loop.run_until(lambda: is_listed(scenario, follower), 2 * FIRST_PASS_MS)
    scenario.kill(follower)
    remove_copy(scenario, follower)
    scenario.boot(follower)
    scenario.loop.run_until(lambda: scenario.end(follower) == scenario.end(leader), 30_000)
    pass_over(scenario, follower)
    assert damaged(scenario.broker(follower)) == []
    assert scenario.committed(follower) == scenario.committed(leader)


def test_nobody_hands_leadership_to_a_copy_that_is_known_to_be_damaged() -> None:
    scenario = written(9)
    names = scenario.cluster.names
    preferred = names[scenario.partition(names[0]).state.replicas[0] - 1]
    for name in names:
        scenario.broker(name).options.values["leader.imbalance.check.interval.seconds"] = 2
    scenario.loop.run_until(lambda: scenario.leaders() == [preferred], 20_000)
    scenario.damage(preferred, segment=1, batch=9, byte=BROKEN_RECORDS)
    pass_over(scenario, preferred)
    scenario.loop.run_until(lambda: scenario.leaders() not in ([], [preferred]), 10_000)
    (leader,) = scenario.leaders()
    scenario.loop.run_for(60_000)
    assert scenario.leaders() == [leader]
    group = scenario.partition(leader).state.group
    with pytest.raises(TransferRefused, match="damaged"):
        scenario.broker(leader).driver.transfer_leadership(group, scenario.broker(preferred).node)
    # Made anew it is whole, and leads again.
    scenario.kill(preferred)
    remove_copy(scenario, preferred)
    scenario.boot(preferred)
    scenario.loop.run_until(lambda: scenario.leaders() == [preferred], 60_000)
    assert scenario.findings.anomalies == []


def test_who_is_alone_goes_on_leading_and_says_what_is_wrong() -> None:
    scenario = Scenario(3, SimOptions(brokers=1, replicas=1, controllers=1))
    scenario.write(1_500)
    (name,) = scenario.cluster.names
    offset = scenario.damage(name, segment=0, batch=1, byte=BROKEN_RECORDS)
    pass_over(scenario, name, passes=2)
    assert damaged(scenario.broker(name)) == [COPY]
    assert scenario.leaders() == [name]
    assert 1 <= len(scenario.told("the log cannot be read")) <= 2
    assert offset > 0


def test_what_is_damaged_and_deleted_is_forgotten() -> None:
    scenario = written(4)
    leader = scenario.leader
    follower = next(each for each in scenario.cluster.names if each != leader)
    scenario.damage(follower, segment=0, batch=1, byte=BROKEN_RECORDS)
    pass_over(scenario, follower)
    assert damaged(scenario.broker(follower)) == [COPY]
    log = scenario.partition(follower).log
    start = log.segments.segments[1].base_offset
    answers: list[object] = []
    scenario.broker(leader).log_starts.delete(
        scenario.partition(leader), start, 10_000, answers.append
    )
    scenario.loop.run_until(lambda: bool(answers) and log.start_offset >= start, 10_000)
    pass_over(scenario, follower, passes=2)
    assert damaged(scenario.broker(follower)) == []


def test_a_look_goes_on_where_retention_was_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = written(6)
    follower = next(each for each in scenario.cluster.names if each != scenario.leader)
    scenario.damage(follower, segment=2, batch=3, byte=BROKEN_RECORDS)
    log = scenario.partition(follower).log
    locate = GroupLog.locate_async
    missed: list[int] = []

    def locate_what_goes(
        self: GroupLog,
        offset: int,
        bytes_max: int,
        limit_offset: int,
        on_done: Callable[[list[FileRange] | Exception], None],
    ) -> None:
        if self is not log or missed:
            locate(self, offset, bytes_max, limit_offset, on_done)
            return
        # The segment is given up while it is looked for.
        missed.append(offset)
        self.advance_start(self.segments.segments[1].base_offset)
        on_done([])

    monkeypatch.setattr(GroupLog, "locate_async", locate_what_goes)
    pass_over(scenario, follower)
    assert missed
    assert damaged(scenario.broker(follower)) == [COPY]


@pytest.mark.extended
def test_no_more_is_read_at_a_time_than_is_wanted() -> None:
    scenario = Scenario(5)
    for name in scenario.cluster.names:
        scenario.broker(name).options.values["log.scrub.io.max.bytes.per.second"] = 1_000.0
    scenario.write(1_500)
    scenario.settle()
    scenario.loop.run_for(FIRST_PASS_MS)
    for _ in range(20):
        before = {
            each: scenario.broker(each).log_scrubber.bytes_read for each in scenario.cluster.names
        }
        scenario.loop.run_for(10_000)
        for each in scenario.cluster.names:
            # A segment here is 8 KiB, and is one piece.
            read = scenario.broker(each).log_scrubber.bytes_read - before[each]
            assert 0 < read <= 10 * 1_000 + 2 * SEGMENT_BYTES


def test_nothing_is_read_where_nobody_wants_it() -> None:
    scenario = Scenario(6)
    for name in scenario.cluster.names:
        scenario.broker(name).options.values["log.scrub.interval.ms"] = 0
    scenario.write(1_500)
    scenario.loop.run_for(3 * FIRST_PASS_MS)
    for name in scenario.cluster.names:
        assert scenario.broker(name).log_scrubber.bytes_read == 0


@pytest.mark.parametrize("before_ms", [24 * 3_600_000, pytest.param(0, marks=pytest.mark.extended)])
def test_another_interval_counts_at_once_from_when_the_last_pass_began(before_ms: int) -> None:
    scenario = Scenario(8)
    (name, *_) = scenario.cluster.names
    broker = scenario.broker(name)
    broker.options.values["log.scrub.interval.ms"] = before_ms
    scenario.write(1_500)
    scenario.loop.run_for(2 * FIRST_PASS_MS)
    passes = broker.log_scrubber.passes
    assert passes == (1 if before_ms else 0)
    broker.options.values["log.scrub.interval.ms"] = 2 * FIRST_PASS_MS
    # None has begun yet, so one is late; or one has, a minute ago.
    scenario.loop.run_for(FIRST_PASS_MS / 2)
    assert broker.log_scrubber.passes == 1
    scenario.loop.run_for(FIRST_PASS_MS)
    assert broker.log_scrubber.passes == (2 if before_ms else 1)


def test_a_disk_that_cannot_read_what_lies_there_is_told_of_and_led_from_no_more() -> None:
    scenario = written(7)
    leader = scenario.leader
    scenario.world.machines[leader].drive.faults.failing_reads = 10**6
    scenario.loop.run_until(lambda: scenario.leaders() not in ([], [leader]), 2 * FIRST_PASS_MS)
    told = scenario.told("the log cannot be read")
    assert told
    assert all("Input/output error" in line for line in told), told
    scenario.write(50)
    assert scenario.findings.anomalies == []
