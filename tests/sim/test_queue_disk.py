"""What a queue's log takes on disk behind a message that stays at its head, on each replica."""

import random

import pytest

from kafkaesque.broker.metadata import queue_planner
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.queues import hosts
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.sim.options import SimOptions
from kafkaesque.storage import live_plan
from kafkaesque.tables import replicated
from tests.sim.power import cut_power_of_a_majority
from tests.sim.queue_scenario import QUEUE, QueueScenario
from tests.sim.seeds import some_of

#: What a log may take besides twice what lives: what came since the last snapshot but one, what is
#: not worth a run, and segments that are not closed.
CONSTANT_BYTES = 72 * 1024
BODY_BYTES = 500
LOCK_MS = 10_000_000
#: A record's overhead, and that of the batch that may be left of its own.
OVERHEAD_BYTES = 120


class Poisoned(QueueScenario):
    """A queue with a message at its head that nobody settles, and some more behind it."""

    def __init__(self, seed: int, *, keeps_every: int = 0) -> None:
        super().__init__(seed, sim_options=SimOptions(activities=("compaction",)))
        self.random = random.Random(seed)
        self.keeps_every = keeps_every
        self.count = self.settled = 0
        #: By offset what was put and is not settled.
        self.kept: dict[int, bytes] = {}
        #: All that was ever put.
        self.bodies: dict[int, bytes] = {}
        self.held: list[q.QueueMessage] = []
        self.state = self.queue().partitions[0]
        self.put_next(1)
        self.hold(self.take(1, lock_ms=LOCK_MS))

    def body(self) -> bytes:
        self.count += 1
        return b"%d " % self.count + self.random.randbytes(BODY_BYTES)

    def put_next(self, count: int) -> None:
        bodies = [self.body() for _ in range(count)]
        put = dict(zip(self.put(*bodies), bodies, strict=True))
        self.kept.update(put)
        self.bodies.update(put)

    def hold(self, messages: list[q.QueueMessage]) -> None:
        for each in messages:
            assert each.value == self.kept[each.offset]
        self.held += messages

    def churn(self, rounds: int) -> None:
        """Put messages, take them, and settle all but some."""
        for _ in range(rounds):
            self.put_next(6)
            taken = self.take(6, lock_ms=LOCK_MS)
            every = self.keeps_every
            self.hold([each for each in taken if every and each.offset % every == 0])
            done = [each for each in taken if not every or each.offset % every]
            assert self.done(*done) == []
            self.settled += len(done)
            for each in done:
                del self.kept[each.offset]

    def partition_of(self, name: str) -> Partition:
        found = self.broker(name).partitions.get(self.state.group)
        assert found is not None
        return found

    def is_open(self, name: str) -> bool:
        broker = self.cluster.brokers.get(name)
        group = self.state.group
        found = None if broker is None else broker.partitions.get(group)
        return found is not None and found.replica is not None

    def is_leading(self, name: str) -> bool:
        return self.is_open(name) and self.partition_of(name).is_leader

    def come_back(self, name: str) -> None:
        """Start a broker again, and wait until it has all."""
        self.boot(name)
        self.loop.run_until(lambda: self.is_open(name), 60_000)
        self.loop.run_until(self.is_even, 60_000)
        # Until then the others may answer it over connections that it has no more.
        self.loop.run_for(3_000)

    def come_to_rest(self) -> None:
        """Wait until all have all, and have cleaned; a last batch tells them that all have it."""
        for _ in range(3):
            self.loop.run_for(2_000)
            self.churn(1)
        self.loop.run_until(self.is_even, 60_000)

    def is_even(self) -> bool:
        names = self.running()
        if not all(map(self.is_open, names)):
            return False
        ends = {self.partition_of(name).log.end_offset for name in names}
        return len(ends) == 1 and self.partition_of(names[0]).high_watermark in ends

    def check_disk(self) -> None:
        live = len(self.kept) * (BODY_BYTES + OVERHEAD_BYTES)
        for name in self.running():
            size = self.partition_of(name).log.size_bytes
            assert size <= 2 * live + CONSTANT_BYTES, (name, size, live)

    def check_states(self) -> None:
        states = {self.hosted(name).queue.snapshot()[1] for name in self.running()}
        assert len(states) == 1
        for name in self.running():
            live = self.hosted(name).queue.state.live
            assert list(live.offsets()) == sorted(self.kept), name

    def check_bodies(self, name: str) -> None:
        """Take all that lives, by way of one broker; each has its body, and nothing else comes."""
        assert self.fail(*self.held) == []
        self.held = []
        found: dict[int, bytes] = {}
        while taken := self.take(100, broker=name, lock_ms=LOCK_MS):
            found.update({each.offset: each.value or b"" for each in taken})
            self.held += taken
        assert found == self.kept


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is small, as brokers' own segments here."""
    monkeypatch.delitem(queue_planner.LOG_CONFIGS, "segment.bytes")
    monkeypatch.setattr(live_plan, "FREED_BYTES_MIN", 16 * 1024)
    monkeypatch.setattr(replicated, "SNAPSHOT_BYTES", 16 * 1024)
    monkeypatch.setattr(replicated, "SNAPSHOT_RECORD_BYTES", 16 * 1024)
    monkeypatch.setattr(hosts, "SWEEP_MS", 200)


@pytest.mark.parametrize(("seed", "keeps_every"), [(1, 0), (2, 20), (3, 3)])
def test_disk_is_bounded_by_what_lives_on_each_replica(seed: int, keeps_every: int) -> None:
    queues = Poisoned(seed, keeps_every=keeps_every)
    queues.churn(150)
    queues.come_to_rest()
    queues.check_disk()
    queues.check_states()
    for name in queues.running():
        queues.check_bodies(name)


@pytest.mark.parametrize("seed", some_of(range(30, 33)))
def test_what_came_after_the_snapshot_stays(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots are rarer than segments: most of what is closed is behind the newest one."""
    monkeypatch.setattr(replicated, "SNAPSHOT_RECORD_BYTES", 48 * 1024)
    queues = Poisoned(seed)
    for _ in range(6):
        queues.churn(20)
        queues.put_next(30)
        queues.loop.run_for(1_500)
        queues.churn(4)
    queues.loop.run_until(queues.is_even, 60_000)
    queues.check_states()
    queues.check_bodies(queues.follower())


@pytest.mark.parametrize("write_caching", ["false", "true"])
def test_nothing_is_removed_that_a_replica_lacks_and_all_of_it_when_it_is_back(
    write_caching: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(queue_planner.LOG_CONFIGS, "write.caching", write_caching)
    queues = Poisoned(4, keeps_every=10)
    queues.churn(20)
    away = queues.follower()
    queues.kill(away)
    queues.loop.run_for(3_000)
    before = {name: queues.broker(name).log_cleaner.count for name in queues.running()}
    queues.churn(150)
    queues.loop.run_for(5_000)
    after = {name: queues.broker(name).log_cleaner.count for name in queues.running()}
    assert before == after, "the one that is away could come to lead"
    queues.come_back(away)
    queues.come_to_rest()
    queues.check_disk()
    queues.check_states()
    queues.check_bodies(away)


def test_a_replica_that_has_lost_its_disk_gets_the_cleaned_log() -> None:
    queues = Poisoned(5, keeps_every=10)
    queues.churn(100)
    queues.come_to_rest()
    lost = queues.follower()
    queues.kill(lost)
    queues.world.machines[lost].drive.volume.clear()
    queues.loop.run_for(1_000)
    queues.boot(lost)
    queues.loop.run_until(lambda: queues.is_open(lost), 60_000)
    queues.churn(20)
    queues.loop.run_until(queues.is_even, 60_000)
    queues.come_to_rest()
    queues.check_disk()
    queues.check_states()
    for name in queues.running():
        if name != lost:
            queues.kill(name)
            queues.loop.run_for(1_000)
            queues.come_back(name)
    queues.check_bodies(lost)


def test_the_leader_changes_in_the_midst_of_a_run() -> None:
    queues = Poisoned(6, keeps_every=7)
    for name in queues.running():
        queues.broker(name).options.values["log.cleaner.io.max.bytes.per.second"] = 20_000.0
    queues.churn(120)
    queues.loop.run_for(300)
    leader = queues.queue_leader()
    cleaner = queues.broker(leader).log_cleaner
    queues.loop.run_until(lambda: cleaner.is_running, 10_000)
    log = queues.partition_of(leader).log
    segments = log.layout
    queues.loop.run_until(lambda: log.layout > segments, 30_000)
    assert cleaner.is_running
    queues.kill(leader)
    queues.loop.run_for(5_000)
    queues.churn(30)
    queues.come_back(leader)
    for name in queues.running():
        queues.broker(name).options.values["log.cleaner.io.max.bytes.per.second"] = 1e9
    queues.loop.run_until(queues.is_even, 60_000)
    queues.come_to_rest()
    queues.check_disk()
    queues.check_states()
    queues.check_bodies(queues.queue_leader())


@pytest.mark.parametrize("seed", some_of(range(10, 13)))
def test_brokers_die_and_lose_power_again_and_again(seed: int) -> None:
    queues = Poisoned(seed, keeps_every=9)
    for _ in range(8):
        queues.churn(queues.random.randrange(10, 40))
        queues.loop.run_for(queues.random.randrange(1, 400))
        victim = queues.random.choice(queues.running())
        machine = queues.world.machines[victim]
        machine.cut_power() if queues.random.random() < 0.5 else machine.kill()
        queues.loop.run_for(12_000)
        if queues.random.random() < 0.5:
            queues.churn(queues.random.randrange(1, 10))
        queues.come_back(victim)
        queues.check_states()
    queues.come_to_rest()
    queues.check_disk()
    queues.check_states()
    queues.check_bodies(queues.queue_leader())
    assert queues.findings.anomalies == []


def test_a_replica_whose_snapshot_a_majority_has_lost_does_not_lead_before_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With `write.caching` two lose power, and take what the third had cleaned by from its log."""
    monkeypatch.setitem(queue_planner.LOG_CONFIGS, "write.caching", "true")
    queues = Poisoned(20, keeps_every=10)
    keeper = queues.queue_leader()
    others = [name for name in queues.running() if name != keeper]
    for name in others:
        queues.broker(name).options.values["log.cleaner.enable"] = False
    queues.churn(40)
    for name in others:
        queues.broker(name).store.request_checkpoint()
    queues.loop.run_for(1_000)
    queues.churn(100)
    queues.loop.run_for(3_000)
    log = queues.partition_of(keeper).log
    cleaned_to, bodies = log.clean_state.end_offset, dict(queues.bodies)
    cut_power_of_a_majority(queues, keeper, lambda: any(queues.is_leading(name) for name in others))
    queues.loop.run_until(lambda: all(map(queues.is_open, others)), 60_000)
    queues.loop.run_until(lambda: queues.is_even() and not queues.partition_of(keeper).is_leader)
    assert log.end_offset < cleaned_to, "what it had cleaned by is gone"
    assert queues.hosted(keeper).queue.is_incomplete
    queues.loop.run_for(3_000)
    leader = queues.partition_of(queues.queue_leader()).replica
    assert leader is not None
    leader.core.transfer_leadership(queues.broker(keeper).node)
    leader.driver.touch(leader)
    queues.loop.run_until(lambda: queues.is_leading(keeper), 10_000)
    queues.loop.run_until(lambda: queues.leads(others[0], QUEUE) or queues.leads(others[1], QUEUE))
    assert queues.hosted(keeper).queue.is_incomplete
    live = queues.hosted(queues.queue_leader()).queue.state.live
    queues.kept = {offset: bodies[offset] for offset in live.offsets()}
    queues.held = []
    queues.churn(30)
    queues.come_to_rest()
    queues.check_states()
    assert not queues.hosted(keeper).queue.is_incomplete
