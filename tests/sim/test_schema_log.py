"""Brokers that register schemas at once, while leaders are killed: one order, and no id twice."""

from collections.abc import Sequence

import pytest

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.metadata.topic_names import SCHEMAS_TOPIC
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.registry.planner import Registered, plan_registration, plan_subject_deletion
from kafkaesque.registry.records import Entry
from kafkaesque.registry.schemas import Schema, SchemaType
from kafkaesque.registry.state import RegistryState
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.env import World

SUBJECTS = 3
COUNT = 80
PAUSE_MS = 20
PLENTY_MS = 60_000


def schema_of(number: int) -> Schema:
    # Each can read the others: the names of fields differ, and all have defaults.
    text = (
        f'{{"type":"record","name":"R","fields":[{{"name":"f{number}","type":"int","default":0}}]}}'
    )
    return Schema(type=SchemaType.AVRO, text=text)


class Registrars:
    """Everybody registers the same schemas, through a broker each, one after the other."""

    def __init__(self, seed: int, count: int) -> None:
        self.world = World(seed)
        self.cluster = SimCluster(self.world)
        self.cluster.start()
        self.loop = self.world.loop
        self.clock = self.world.add_machine("registrars").boot().clock
        self.count = count
        #: What brokers have confirmed.
        self.confirmed: list[tuple[int, int]] = []
        self.doubts = 0
        self.loop.run_until(lambda: len(self.brokers()) == 3 and self.is_founded(), PLENTY_MS)

    def brokers(self) -> list[Broker]:
        running = [name for name in self.cluster.names if self.world.machines[name].running]
        return [self.cluster.brokers[name] for name in running if name in self.cluster.brokers]

    def is_founded(self) -> bool:
        return all(len(broker.state.brokers) == 3 for broker in self.brokers())

    def begin(self) -> None:
        for name in self.cluster.names:
            self.register(name, 0)

    def register(self, name: str, number: int) -> None:
        if number >= self.count:
            return
        broker = self.cluster.brokers.get(name)
        if broker is None or not self.world.machines[name].running:
            self.clock.call_later(200, lambda: self.register(name, number))
            return
        said: list[object] = []

        def plan(state: RegistryState) -> tuple[Registered, Sequence[Entry]]:
            made = plan_registration(state, f"s{number % SUBJECTS}", schema_of(number))
            return made, made.entries

        def on_done(outcome: Registered | RequestRefused) -> None:
            said.append(outcome)
            if isinstance(outcome, Registered):
                self.confirmed.append((number, outcome.value.id))
                self.clock.call_later(PAUSE_MS, lambda: self.register(name, number + 1))
                return
            self.doubts += isinstance(outcome, RequestTimedOut)
            self.clock.call_later(100, lambda: self.register(name, number))

        def maybe_again() -> None:
            # The broker was killed meanwhile.
            if not said:
                said.append(None)
                self.register(name, number)

        broker.doors.schemas.change(plan, on_done)
        self.clock.call_later(20_000, maybe_again)

    def wait_for(self, count: int) -> None:
        self.loop.run_until(lambda: len(self.confirmed) >= count, PLENTY_MS)

    def leader(self) -> str | None:
        for name in self.cluster.names:
            broker = self.cluster.brokers.get(name)
            if broker is None or not self.world.machines[name].running:
                continue
            topic = broker.state.topics.get(SCHEMAS_TOPIC)
            partition = broker.partitions.get(topic.partitions[0].group) if topic else None
            if partition is not None and partition.is_leader:
                return name
        return None

    def delete(self, subject: str, *, permanent: bool) -> object:
        done: list[object] = []

        def plan(state: RegistryState) -> tuple[object, Sequence[Entry]]:
            gone = plan_subject_deletion(state, subject, permanent=permanent)
            return gone.versions, gone.entries

        self.brokers()[0].doors.schemas.change(plan, done.append)
        self.loop.run_until(lambda: bool(done), PLENTY_MS)
        return done[0]

    def states(self) -> list[RegistryState]:
        read: list[bool] = []
        brokers = self.brokers()
        for broker in brokers:
            broker.doors.schemas.catch_up(read.append)
        self.loop.run_until(lambda: len(read) == len(brokers), PLENTY_MS)
        assert all(read)
        return [broker.doors.schemas.state for broker in brokers]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ids_and_versions_are_given_once_whoever_dies(seed: int) -> None:
    run = Registrars(seed, COUNT)
    run.begin()
    conflicts = 0
    for _ in range(3):
        wanted = len(run.confirmed) + 10
        run.wait_for(wanted)
        conflicts = max(conflicts, *(each.doors.schemas.conflicts for each in run.brokers()))
        leader = run.leader()
        if leader is not None:
            run.world.machines[leader].kill()
            run.loop.run_for(300)
            run.cluster.boot(run.world.machines[leader])
    run.loop.run_until(
        lambda: {number for number, _ in run.confirmed} == set(range(COUNT)), 120_000
    )
    run.loop.run_until(lambda: len(run.brokers()) == 3, PLENTY_MS)
    assert conflicts > 0, "nobody was faster than anybody"
    ids: dict[int, set[int]] = {}
    for number, given in run.confirmed:
        ids.setdefault(number, set()).add(given)
    assert all(len(each) == 1 for each in ids.values()), ids
    assert sorted(min(each) for each in ids.values()) == list(range(1, COUNT + 1))
    for state in run.states():
        for subject in range(SUBJECTS):
            found = state.versions(f"s{subject}")
            assert [each.version for each in found] == list(range(1, len(found) + 1))
        for number, (given,) in ids.items():
            assert state.id_of(schema_of(number)) == given


def test_a_subject_is_deleted_in_pieces_and_ids_do_not_come_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafkaesque.broker.schemas.schema_log.BATCH_BYTES_MAX", 400)
    run = Registrars(4, 12)
    run.begin()
    run.loop.run_until(lambda: {number for number, _ in run.confirmed} == set(range(12)), 120_000)
    for permanent in (False, True):
        done: list[object] = []

        def plan(
            state: RegistryState, *, is_last: bool = permanent
        ) -> tuple[object, Sequence[Entry]]:
            gone = plan_subject_deletion(state, "s0", permanent=is_last)
            return gone.versions, gone.entries

        run.brokers()[0].doors.schemas.change(plan, done.append)
        run.loop.run_until(lambda: bool(done), PLENTY_MS)  # noqa: B023
        assert done == [[1, 2, 3, 4]]
    for state in run.states():
        assert list(state.subjects(deleted=True)) == ["s1", "s2"]
        assert state.next_id == 13
