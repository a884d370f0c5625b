"""A leader that cannot read its own log says so, and hands over if that helps anybody."""

import re
from typing import Any

import pytest

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import OPEN_AGAIN_MS
from kafkaesque.broker.peers.messages import LeaderReport
from kafkaesque.env.report_limit import LINES_MAX, WINDOW_MS
from kafkaesque.model.errors import DiskFailed
from kafkaesque.sim.options import SimOptions
from kafkaesque.storage import log_reads
from kafkaesque.storage.segment_table import SegmentTable
from tests.sim.scenario import Scenario

#: A byte of the batch header that tells where the batch ends, and one of the records behind it.
BROKEN_HEADER, BROKEN_RECORDS = 16, 80
#: Where a bit is flipped in a batch, or its file ends; nothing tells of a file that ends before it.
DAMAGES = [
    pytest.param(BROKEN_HEADER, False, id="header"),
    pytest.param(BROKEN_RECORDS, False, id="records"),
    pytest.param(0, True, id="cut before"),
    pytest.param(BROKEN_HEADER, True, id="cut in header"),
    pytest.param(BROKEN_RECORDS, True, id="cut in records"),
]


def behind(scenario: Scenario) -> tuple[str, str, str]:
    """Write while one follower is away; return the leader, the follower that is not, and it."""
    leader = scenario.leader
    near, far = (name for name in scenario.cluster.names if name != leader)
    scenario.write(20)
    scenario.settle()
    scenario.kill(far)
    # More than a leader keeps in memory, in more than one segment.
    scenario.write(1_500)
    assert scenario.leaders() == [leader]
    assert len(scenario.partition(leader).log.segments.segments) > 3
    return leader, near, far


@pytest.mark.parametrize(("byte", "is_cut"), DAMAGES)
def test_a_follower_gets_from_another_leader_what_this_one_cannot_read(
    byte: int, is_cut: bool
) -> None:
    scenario = Scenario(1)
    leader, near, far = behind(scenario)
    scenario.damage(leader, segment=1, batch=9, byte=byte, is_cut=is_cut)
    scenario.boot(far)
    scenario.loop.run_until(lambda: scenario.end(far) == scenario.end(near), 30_000)
    scenario.loop.run_for(2_000)
    told = scenario.told("the log cannot be read")
    assert told
    assert all(re.search(r" events-0: .* events-0/\d{20}\.log: ", line) for line in told), told
    assert scenario.leaders() == [near]
    assert scenario.committed(far) == scenario.committed(near)
    scenario.write(10)
    assert scenario.findings.anomalies == []


def move_a_batch(scenario: Scenario, name: str) -> None:
    """Let a batch of a closed segment say that it begins an offset later: no checksum tells."""
    for batch in range(1, 20):
        found, at = scenario.batch_in_closed_segment(name, 1, batch)
        content: Any = scenario.world.machines[name].drive.volume.find(found.path)
        header = bytes(content.content[at : at + 61])
        if not header[7] & 1 and header[26]:  # it has two records or more
            scenario.damage(name, segment=1, batch=batch, byte=7)
            return
    raise AssertionError("no such batch")


def test_a_batch_that_has_moved_is_not_replicated() -> None:
    """It looks like one behind a hole of compaction, but for the next one, which it overlaps."""
    scenario = Scenario(1)
    leader, near, far = behind(scenario)
    move_a_batch(scenario, leader)
    scenario.boot(far)
    scenario.loop.run_until(lambda: scenario.end(far) == scenario.end(near), 30_000)
    scenario.loop.run_for(2_000)
    assert scenario.leaders() == [near]
    assert scenario.told("which does not fit to what follows")
    assert not scenario.told("dropping a Raft message")
    assert scenario.committed(far) == scenario.committed(near)


def test_a_follower_that_has_taken_a_moved_batch_is_asked_seldom(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An earlier release has sent it: the copy has to be made anew, and nobody is kept busy."""

    def believe(*_: object) -> Any:
        yield from ()

    monkeypatch.setattr(SegmentTable, "_check_behind_hole", believe)
    monkeypatch.setattr(log_reads, "_is_followed", lambda *_: True)
    scenario = Scenario(2)
    leader, near, far = behind(scenario)
    move_a_batch(scenario, leader)
    scenario.boot(far)
    scenario.loop.run_until(lambda: scenario.told("dropping a Raft message") != [], 30_000)
    stuck = scenario.end(far)
    scenario.loop.run_for(WINDOW_MS)
    assert len(scenario.told("dropping a Raft message")) == LINES_MAX
    (kept_back,) = scenario.told("more of this kind")
    (count,) = re.findall(r"and (\d+) more", kept_back)
    assert int(count) <= 40, "about four in a second, when the leader asks again"
    scenario.write(10)
    assert scenario.end(far) == stuck < scenario.end(near)
    assert scenario.findings.anomalies == []


@pytest.mark.parametrize(("byte", "is_cut"), DAMAGES)
def test_who_alone_has_everything_goes_on_leading(byte: int, is_cut: bool) -> None:
    """The other one lags behind: it gets what is good, and is not asked to lead."""
    scenario = Scenario(2)
    leader, near, far = behind(scenario)
    offset = scenario.damage(leader, segment=1, batch=9, byte=byte, is_cut=is_cut)
    term = scenario.partition(leader).leader_epoch
    scenario.kill(near)
    scenario.boot(far)
    scenario.loop.run_until(lambda: scenario.end(far) == offset, 30_000)
    reader = scenario.read_from_start()
    for _ in range(30):
        scenario.loop.run_for(1_000)
        assert scenario.leaders() == [leader]
    assert scenario.partition(leader).leader_epoch == term
    assert reader.position >= offset, "what is good is read here"
    assert 1 <= len(scenario.told("the log cannot be read")) <= 4, "told, and not all the time"
    assert not scenario.told("to lead instead")
    scenario.boot(near)
    scenario.loop.run_until(lambda: scenario.end(far) == scenario.end(near), 30_000)
    assert scenario.committed(far) == scenario.committed(near)


@pytest.mark.parametrize(
    ("byte", "is_cut"), [each for each in DAMAGES if "records" not in str(each.id)]
)
def test_a_consumer_gets_from_another_leader_what_this_one_cannot_find(
    byte: int, is_cut: bool
) -> None:
    scenario = Scenario(3)
    leader = scenario.leader
    scenario.write(1_500)
    scenario.settle()
    scenario.damage(leader, segment=1, batch=9, byte=byte, is_cut=is_cut)
    reader = scenario.read_from_start()
    end = scenario.end(leader)
    scenario.loop.run_until(lambda: reader.position == end, 10_000)
    assert scenario.told("the log cannot be read")
    assert scenario.leaders() != [leader]
    assert scenario.findings.anomalies == []


def test_leadership_rests_where_every_disk_is_hurt() -> None:
    """Consumers come to each replica's damage, again and again."""
    scenario = Scenario(4)
    scenario.write(1_500)
    scenario.settle()
    for number, name in enumerate(scenario.cluster.names):
        scenario.damage(name, segment=1 + number, batch=3, byte=BROKEN_HEADER)
    readers = [scenario.read_from_start()]
    end = scenario.end(scenario.leader)
    terms: set[int] = set()
    unled_ms = 0
    for at in range(600):
        if at % 50 == 0:
            readers.append(scenario.read_from_start())
        scenario.loop.run_for(100)
        leaders = scenario.leaders()
        unled_ms += 0 if leaders else 100
        terms.update(scenario.partition(name).leader_epoch for name in leaders)
    assert 2 <= len(terms) <= 12, "each hands over at once, and after 10, 30 and 70 seconds"
    assert unled_ms <= 1_000
    assert readers[0].position == end, "no batch is hurt everywhere, so all are read"
    scenario.write(10)


def test_full_disks_everywhere_do_not_chase_leadership_around() -> None:
    scenario = Scenario(5)
    scenario.write(100)
    scenario.settle()
    for name in scenario.cluster.names:
        drive = scenario.world.machines[name].drive
        # Less than a broker keeps free, and enough for what it writes without being asked.
        drive.faults.capacity_bytes = drive.used_bytes() + 4_000
        scenario.broker(name).store._check_space()
    for producer in scenario.load.producers:
        producer.is_stopped = False
        producer._next(0)
    terms: set[int] = set()
    unled = 0
    for _ in range(600):
        scenario.loop.run_for(100)
        leaders = scenario.leaders()
        unled += not leaders
        terms.update(scenario.partition(name).leader_epoch for name in leaders)
    assert 2 <= len(terms) <= 10
    assert unled <= 5, "what is there can be read"
    for name in scenario.cluster.names:
        scenario.world.machines[name].drive.faults.capacity_bytes = None
    scenario.write(100)
    assert scenario.findings.anomalies == []


def test_a_partition_that_cannot_be_read_when_it_is_opened_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenario = Scenario(6)
    scenario.write(100)
    scenario.settle()
    name = scenario.leader
    tried: list[float] = []
    restore = Partition.restore

    def failing(self: Partition, log: Any) -> None:
        tried.append(scenario.loop.now_ns / 1e6)
        if len(tried) <= 3:
            raise DiskFailed("cannot read: Input/output error")
        restore(self, log)

    monkeypatch.setattr(Partition, "restore", failing)
    scenario.kill(name)
    scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.find(name) is not None, 10 * OPEN_AGAIN_MS)
    assert len(tried) == 4
    assert len(scenario.told("cannot be opened, trying again")) == 3
    scenario.loop.run_for(5 * OPEN_AGAIN_MS)
    assert len(tried) == 4, "nobody goes on trying"
    scenario.write(10)
    scenario.settle()
    assert scenario.end(name) == scenario.end(scenario.leader)


@pytest.mark.parametrize("byte", [24, 45, 53], ids=["offset delta", "producer", "sequence"])
def test_who_cannot_trust_its_log_does_not_say_what_producers_have_sent(byte: int) -> None:
    """Seed 102 under all faults: a batch took 131,072 offsets for its own with one flipped bit.

    Its broker then knew nothing of what came after that, led, and refused what everybody sent.
    """
    scenario = Scenario(10, SimOptions(brokers=3))
    scenario.write(1_500)
    scenario.settle()
    name = next(each for each in scenario.cluster.names if each != scenario.leader)
    scenario.damage(name, segment=1, batch=3, byte=byte)
    directory = scenario.partition(name).log.identity.directory
    scenario.kill(name)
    for file in ("producer-state", "producer-state.synced"):
        inode: Any = scenario.world.machines[name].drive.volume.find(f"{directory}/{file}")
        if inode is not None:
            del inode.content[:]
    scenario.boot(name)
    scenario.loop.run_until(lambda: scenario.told("stays offline on this broker") != [], 10_000)
    scenario.kill(scenario.leader)
    scenario.loop.run_for(5_000)
    assert scenario.leaders() == [], "who has it whole is alone, and the other does not count"
    for each in scenario.cluster.names:
        if each not in scenario.running():
            scenario.boot(each)
    scenario.write(10)
    assert scenario.findings.anomalies == []


def test_retries_of_what_cannot_be_opened_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change of the metadata looks at all partitions, and none starts a timer of its own."""
    scenario = Scenario(7, SimOptions(brokers=1, replicas=1))
    scenario.write(10)
    tried: list[float] = []

    def failing(self: Partition, log: Any) -> None:
        tried.append(scenario.loop.now_ns / 1e6)
        raise DiskFailed("cannot read: Input/output error")

    monkeypatch.setattr(Partition, "restore", failing)
    scenario.kill("b1")
    scenario.boot("b1")
    scenario.loop.run_for(OPEN_AGAIN_MS)
    for _ in range(20):
        scenario.broker("b1").partitions.reconcile_soon()
        scenario.loop.run_for(OPEN_AGAIN_MS / 20)
    before = len(tried)
    scenario.loop.run_for(10 * OPEN_AGAIN_MS)
    assert len(tried) - before <= 11


def test_a_stop_is_in_order_though_no_space_is_left_to_note_producers() -> None:
    scenario = Scenario(8)
    scenario.write(100)
    scenario.settle()
    machine = scenario.world.machines["b2"]
    machine.drive.faults.capacity_bytes = machine.drive.used_bytes()
    scenario.cluster.restart(machine)
    scenario.loop.run_until(lambda: not machine.running, 10_000)
    assert scenario.told("its next start reads more")
    machine.drive.faults.capacity_bytes = None
    scenario.loop.run_until(lambda: scenario.find("b2") is not None, 10_000)
    scenario.write(10)
    scenario.settle()
    assert scenario.findings.anomalies == []


def test_a_start_that_is_heard_of_before_its_topic_is_not_forgotten() -> None:
    """Links may be up before the metadata is applied again, and a leader says it once."""
    scenario = Scenario(9)
    scenario.write(100)
    scenario.settle()
    name = next(each for each in scenario.cluster.names if each != scenario.leader)
    start, group = scenario.end(name) // 2, scenario.group
    epoch = scenario.partition(name).leader_epoch
    leader = scenario.broker(scenario.leader).node
    scenario.kill(name)
    scenario.boot(name)
    scenario.loop.run_until(lambda: name in scenario.cluster.brokers, 10_000)
    broker = scenario.broker(name)
    assert group not in broker.state.partitions_by_group, "it has heard of nothing yet"
    broker.log_starts.on_leader_report(LeaderReport(group, epoch, leader, (), start))
    scenario.loop.run_until(lambda: scenario.find(name) is not None, 10_000)
    scenario.loop.run_for(2_000)
    assert scenario.partition(name).log_start_offset == start
