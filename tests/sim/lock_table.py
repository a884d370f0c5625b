"""Clients of a table on a partition, which go around its gateway: a table that only tests have.

They ask whichever broker says that it leads, as a gateway on that broker would, and write down what
was asked and answered, in true time. The checker knows: *an attempt given twice*; *a lock that went
back* (asked for after an answer, and given an earlier attempt); *a lock that ended early*, given to
somebody else while it was held; *a grant that is lost*, which no replica's table remembers; and
*tables that differ* from replica to replica, or from what the log says.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_tables import PartitionTableHost, PartitionTableKind
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.model.ids import Offset
from kafkaesque.sim.clients.topic_load import TopicSpec
from kafkaesque.sim.faults import Fault
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.options import SimOptions
from kafkaesque.sim.runner import SimReport, _Run
from kafkaesque.tables.log_table import RequestToken
from kafkaesque.tables.logged import read_logged
from tests.unit.tables.locks import (
    Acquire,
    Answer,
    Busy,
    Done,
    Expired,
    Granted,
    Keep,
    LockTable,
    Release,
    Request,
    Undo,
)

TOPIC = "locks"
NAMES = ("a", "b", "c", "d")
NUMBERS = (3, 4)
#: Clocks run at most so much faster or slower than true time.
RATE_MAX = 1.25

NOT_LEADER = Done(is_done=False)

Host = PartitionTableHost[Request, Answer, Expired, Undo]


def make_kind(
    number: int, topic: str = TOPIC
) -> PartitionTableKind[Request, Answer, Expired, Undo]:
    return PartitionTableKind(
        number=number,
        is_for=lambda state: state.topic == topic,
        make_table=LockTable,
        perform=lambda _: None,
        not_leader=NOT_LEADER,
        over_bound=NOT_LEADER,
    )


@dataclass(slots=True)
class Asked:
    request: Acquire | Release
    asked_ms: float
    number: int
    answered_ms: float = -1
    answer: Answer | None = None


class LockTableRun(_Run):
    """A run of the simulator in which tables of locks live on a topic's partition."""

    def __init__(self, seed: int, options: SimOptions, plan: Sequence[Fault] | None = None) -> None:
        super().__init__(seed, options, plan)
        self._chance = self._world.loop.chance("locks")
        self.asked: list[Asked] = []
        self._is_over = False
        self._cluster.prepare = self._prepare

    @staticmethod
    def _prepare(broker: Broker) -> None:
        broker.partitions.table_kinds += [make_kind(number) for number in NUMBERS]

    def _make_topics(self) -> None:
        super()._make_topics()
        configs = {
            **self._loads[0].spec.configs,
            "cleanup.policy": "delete",
            "retention.bytes": "20000",
        }
        spec = TopicSpec(
            name=TOPIC, replicas=self._replicas, producers=1, configs=configs, expires=True
        )
        self._add_load(spec)

    def _start_clients(self) -> None:
        super()._start_clients()
        self._ask_later()

    # -- asking

    @property
    def _now_ms(self) -> float:
        return self._world.loop.now_ns / NS_PER_MS

    def _ask_later(self) -> None:
        pause_ms = self._chance.randrange(5, 60)
        self._world.loop.after(pause_ms * NS_PER_MS, "locks", self._ask)

    def _ask(self) -> None:
        if self._is_over:
            return
        self._ask_later()
        leaders = [
            partition
            for name, partition in self._replicas_here()
            if partition.is_leader and not self._world.machines[name].paused
        ]
        if not leaders:
            return
        partition = self._chance.choice(leaders)
        for _ in range(self._chance.randrange(1, 4)):
            self._ask_one(partition, self._chance.choice(NUMBERS))

    def _ask_one(self, partition: Partition, number: int) -> None:
        token = RequestToken(len(self.asked) + 1)
        name = self._chance.choice(NAMES)
        held = [each for each in self._granted(number) if each.request.name == name]
        what = self._chance.randrange(10)
        host = host_of(partition, number)
        if what == 0:
            offset = max(0, partition.high_watermark - 50)
            host.ask(Keep(token=RequestToken(-token), offset=offset), lambda _: None)
            return
        request: Acquire | Release
        if held and what < 4:
            answer = held[-1].answer
            assert isinstance(answer, Granted)
            request = Release(token=token, name=name, attempt=answer.attempt)
        else:
            ms = self._chance.randrange(20, 3_000)
            request = Acquire(token=token, name=name, owner=f"o{token}", ms=ms)
        asked = Asked(request, self._now_ms, number)
        self.asked.append(asked)

        def on_result(answer: Answer) -> None:
            assert asked.answer is None, "answered twice"
            asked.answer, asked.answered_ms = answer, self._now_ms

        host.ask(request, on_result)

    def _granted(self, number: int) -> list[Asked]:
        return [
            each
            for each in self.asked
            if each.number == number and isinstance(each.answer, Granted)
        ]

    def _replicas_here(self) -> list[tuple[str, Partition]]:
        found = []
        for name, broker in self._cluster.brokers.items():
            topic = broker.state.topics.get(TOPIC)
            if not self._world.machines[name].running or topic is None:
                continue
            partition = broker.partitions.get(topic.partitions[0].group)
            if partition is not None and partition.replica is not None:
                found.append((name, partition))
        return found

    # -- checking

    def _settle(self) -> None:
        self._is_over = True
        super()._settle()
        self._await("tables", self._are_tables_committed)
        for number in NUMBERS:
            self._check_answers(number)
            self._check_tables_of(number)

    def _are_tables_committed(self) -> bool:
        tables = [
            host_of(partition, number).table
            for _, partition in self._replicas_here()
            for number in NUMBERS
        ]
        return all(table.committed_offset == table.end_offset for table in tables) and (
            len({table.end_offset for table in tables}) == 1
        )

    def _check_tables_of(self, number: int) -> None:
        states = {}
        for name, partition in self._replicas_here():
            table = host_of(partition, number).table
            states[name] = table.snapshot()[1]
            assert isinstance(table, LockTable)
            if not table.is_based:
                self._findings.note(f"locks: {name} lost the table")
                continue
            with self._cluster.unhindered():
                again = LockTable(number, partition.log_start_offset)
                for header, data in replay(partition.log, partition.log_start_offset):
                    again.apply(header, data, Offset(header.base_offset), read_logged(header, data))
            if again.snapshot()[1] != states[name]:
                self._findings.note(f"locks: {name} has another table than its log says")
            for each in self._granted(number):
                answer = each.answer
                assert isinstance(answer, Granted)
                if table.state.attempts.get(answer.name, 0) < answer.attempt:
                    self._findings.note(f"locks: {name} lost the grant {answer}")
        if len(set(states.values())) > 1:
            self._findings.note(f"locks: tables differ: {sorted(states)}")

    def _check_answers(self, number: int) -> None:
        released = {
            (each.request.name, each.request.attempt): each.asked_ms
            for each in reversed(self.asked)
            if each.number == number and isinstance(each.request, Release)
        }
        grants = self._granted(number)
        for at, first in enumerate(grants):
            for second in grants[at + 1 :]:
                if first.request.name == second.request.name:
                    self._check_pair(first, second, released)

    def _check_pair(
        self, first: Asked, second: Asked, released: dict[tuple[str, int], float]
    ) -> None:
        """`first` was asked for before `second`."""
        one, other = first.answer, second.answer
        assert isinstance(one, Granted)
        assert isinstance(other, Granted)
        if one.attempt == other.attempt:
            self._findings.note(f"locks: an attempt given twice: {one}")
            return
        if other.attempt < one.attempt:
            if first.answered_ms < second.asked_ms:
                self._findings.note(f"locks: a lock went back: {one}, then {other}")
            first, second, one = second, first, other
        request = first.request
        assert isinstance(request, Acquire)
        due_ms = first.asked_ms + request.ms / RATE_MAX
        let_go_ms = released.get((one.name, one.attempt), due_ms)
        if second.answered_ms < min(due_ms, let_go_ms):
            self._findings.note(f"locks: a lock ended early: {one}")

    def _counts(self) -> dict[str, int]:
        answered = [each for each in self.asked if each.answer is not None]
        return {
            **super()._counts(),
            "grants": sum(isinstance(each.answer, Granted) for each in answered),
            "busy": sum(isinstance(each.answer, Busy) for each in answered),
            "refused": sum(each.answer is NOT_LEADER for each in answered),
            "log start": max((p.log_start_offset for _, p in self._replicas_here()), default=0),
        }


def host_of(partition: Partition, number: int) -> Host:
    assert partition.tables is not None
    for host in partition.tables.all:
        if isinstance(host, PartitionTableHost) and host.kind.number == number:
            return host
    raise AssertionError(f"{partition.name} has no table {number}")


def run_locks(seed: int, options: SimOptions, plan: Sequence[Fault] | None = None) -> SimReport:
    return LockTableRun(seed, options, plan).go()
