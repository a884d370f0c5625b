"""What a table on a partition needs of the log stays there, and new replicas have it by that."""

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.model.errors import RequestRefused
from kafkaesque.sim.options import SimOptions
from kafkaesque.tables import replicated
from kafkaesque.tables.log_table import RequestToken
from tests.sim.lock_table import NOT_LEADER, Host, host_of, make_kind
from tests.sim.scenario import TOPIC, Scenario
from tests.unit.tables.locks import Acquire, Answer, Done, Granted, Keep, Request

NUMBER = 3
TIMEOUT_MS = 5_000


def prepare(broker: Broker) -> None:
    broker.partitions.table_kinds.append(make_kind(NUMBER, TOPIC))


class Locks(Scenario):
    """A topic whose partition has a table of locks."""

    def __init__(self, seed: int, *, compacts: bool = False) -> None:
        options = SimOptions(activities=("compaction",) if compacts else ())
        super().__init__(seed, options, compacts=compacts, prepare=prepare)
        self.tokens = 0

    def host(self, name: str) -> Host:
        return host_of(self.partition(name), NUMBER)

    def token(self) -> RequestToken:
        self.tokens += 1
        return RequestToken(self.tokens)

    def ask(self, request: Request, name: str = "") -> Answer:
        answers: list[Answer] = []
        self.host(name or self.leader).ask(request, answers.append)
        self.loop.run_until(lambda: answers != [], TIMEOUT_MS)
        (answer,) = answers
        return answer

    def acquire(self, name: str) -> Answer:
        return self.ask(Acquire(token=self.token(), name=name, owner="me", ms=60_000))

    def keep(self, offset: int) -> None:
        assert self.ask(Keep(token=self.token(), offset=offset)) == Done(is_done=True)

    def delete(self, offset: int) -> None:
        done: list[object] = []
        broker, partition = self.broker(self.leader), self.partition(self.leader)
        broker.log_starts.delete(partition, offset, TIMEOUT_MS, done.append)
        self.loop.run_until(lambda: done != [], 2 * TIMEOUT_MS)
        assert not isinstance(done[0], RequestRefused), done

    def starts(self) -> set[int]:
        self.loop.run_for(1_000)
        return {self.partition(name).log_start_offset for name in self.running()}

    def states(self) -> set[bytes]:
        return {self.host(name).table.snapshot()[1] for name in self.running()}


@pytest.fixture(autouse=True)
def often_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replicated, "SNAPSHOT_BYTES", 100)
    monkeypatch.setattr(replicated, "SNAPSHOT_FACTOR", 0)


def test_records_are_deleted_no_further_than_the_table_allows() -> None:
    locks = Locks(1)
    locks.write(40)
    locks.keep(10)
    for number in range(20):
        assert locks.acquire(f"lock {number}") == Granted(name=f"lock {number}", attempt=1)
    locks.settle()
    locks.delete(locks.partition(locks.leader).high_watermark)
    assert locks.starts() == {10}
    locks.keep(30)
    locks.settle()
    locks.delete(locks.partition(locks.leader).high_watermark)
    assert locks.starts() == {30}


def test_without_a_floor_the_newest_snapshot_stays() -> None:
    locks = Locks(2)
    for number in range(30):
        locks.acquire(f"lock {number}")
    locks.write(20)
    locks.settle()
    table = locks.host(locks.leader).table
    held = table.start_held_at()
    assert held is not None
    assert 0 < held < table.end_offset
    locks.delete(table.end_offset)
    assert locks.starts() == {held}


@pytest.mark.parametrize("is_new", [False, True], ids=["killed", "with a new disk"])
def test_a_replica_has_the_table_again_by_the_log_that_is_left(is_new: bool) -> None:
    locks = Locks(3)
    locks.acquire("first")
    for number in range(30):
        locks.acquire(f"lock {number}")
    locks.write(20)
    locks.settle()
    locks.delete(locks.host(locks.leader).table.end_offset)
    assert min(locks.starts()) > 0
    other = next(name for name in locks.running() if name != locks.leader)
    locks.kill(other)
    if is_new:
        locks.cluster.readmit(other)
    else:
        locks.boot(other)
    locks.loop.run_until(lambda: locks.find(other) is not None, 30_000)
    locks.loop.run_until(lambda: locks.host(other).table.is_based, 30_000)
    locks.settle()
    assert len(locks.states()) == 1
    assert locks.starts() == {locks.partition(locks.leader).log_start_offset}


def test_a_new_leader_goes_on_and_those_who_waited_are_told() -> None:
    locks = Locks(4)
    assert locks.acquire("a") == Granted(name="a", attempt=1)
    old = locks.leader
    answers: list[Answer] = []
    locks.host(old).ask(
        Acquire(token=locks.token(), name="b", owner="me", ms=60_000), answers.append
    )
    assert answers == []
    locks.world.wire.block(old, "client")
    for other in locks.running():
        if other != old:
            locks.world.wire.block(old, other)
            locks.world.wire.block(other, old)
    locks.loop.run_until(lambda: len(locks.leaders()) == 1 and locks.leader != old, 60_000)
    locks.loop.run_for(500)
    assert answers == [NOT_LEADER]
    new = locks.leader
    request = Acquire(token=locks.token(), name="a", owner="other", ms=10)
    assert not isinstance(locks.ask(request, new), Granted), "it is held"
    assert locks.host(new).table.is_leading
    assert not locks.host(old).table.is_leading


def test_compaction_leaves_what_the_table_needs() -> None:
    locks = Locks(5, compacts=True)
    locks.keep(0)
    for number in range(10):
        locks.acquire(f"lock {number}")
    locks.write(1_200)
    locks.loop.run_for(10_000)
    assert locks.partition(locks.leader).log.clean_state.end_offset == 0
    locks.keep(locks.partition(locks.leader).high_watermark)
    for number in range(10):
        locks.acquire(f"another {number}")
    locks.write(300)
    locks.loop.run_for(10_000)
    assert locks.partition(locks.leader).log.clean_state.end_offset > 0
