"""The audit log while brokers are killed: what was noted is written once, in chains without faults.

A broker that is killed takes with it what it had noted within `UNSYNCED_MS`; nothing else is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.access.audit import AuditEntry, AuditEvent, AuditKind, Outcome
from kafkaesque.access.audit_verifier import AuditVerifier
from kafkaesque.broker.broker import SWEEP_MS, Broker
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.upkeep.audit_writer import AUDIT_PARTITION, CHECKPOINT_MS, AuditWriter
from kafkaesque.gateway.kafka.gateway import KafkaGateway
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import RequestRefused, RequestTimedOut
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import decode_batch
from kafkaesque.sim.agreement import read_committed
from kafkaesque.sim.cluster import KAFKA_PORT, SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import NS_PER_MS
from kafkaesque.sim.options import SimOptions
from tests.sim.seeds import first_of

#: From one sweep to the next, and until what it writes is synced at a majority.
UNSYNCED_MS = SWEEP_MS + 250
EVENT_MS = 40
BYTES_MAX = 1024 * 1024


class Audited:
    """Three brokers, each of which notes a numbered event again and again."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.loop = self.world.loop
        self.cluster = SimCluster(
            self.world, SimOptions(), {KAFKA_PORT: KafkaGateway}, is_secured=True
        )
        self.cluster.start()
        self.loop.run_until(lambda: len(self.ready()) == 3, 60_000)
        #: What was noted, with the process that did, and when.
        self.noted: dict[str, tuple[Broker, int]] = {}
        self.is_noting = True
        self._note()

    @property
    def now_ms(self) -> int:
        return self.loop.now_ns // NS_PER_MS

    def ready(self) -> list[Broker]:
        return [
            broker
            for name, broker in self.cluster.brokers.items()
            if self.world.machines[name].running and broker.life.is_ready
        ]

    def _note(self) -> None:
        for broker in self.ready() if self.is_noting else ():
            if not broker.life.is_stopping:
                name = f"topic-{len(self.noted)}"
                self.noted[name] = (broker, self.now_ms)
                broker.audit.note(change(name))
        self.loop.after(EVENT_MS * NS_PER_MS, "events", self._note)

    def replica(self, name: str) -> Partition | None:
        broker = self.cluster.brokers[name]
        if not self.world.machines[name].running:
            return None
        try:
            return broker.partitions.find(AUDIT_PARTITION)
        except RequestRefused:
            return None

    def leader(self) -> str | None:
        for name in self.cluster.names:
            replica = self.replica(name)
            if replica is not None and replica.replica is not None and replica.is_leader:
                return name
        return None

    def settle(self) -> None:
        """Note nothing more, and have everything written."""
        self.is_noting = False
        self.loop.run_until(lambda: len(self.ready()) == 3, 120_000)
        self.loop.run_for(5_000)
        self.loop.run_until(lambda: all(not len(each.audit.trail) for each in self.ready()), 60_000)
        self.loop.run_for(5_000)

    def entries(self) -> tuple[AuditVerifier, list[AuditEntry]]:
        leader = self.leader()
        assert leader is not None
        replica = self.replica(leader)
        assert replica is not None
        data = read_committed(replica)
        verifier, found = AuditVerifier(0), []
        for batch in scan_batches(data).batches:
            for record in decode_batch(data, BYTES_MAX, at=batch.at):
                entry = verifier.take(record.offset, record.key, record.value)
                if entry is not None:
                    found.append(entry)
        return verifier, found


def writer_of(broker: Broker) -> AuditWriter:
    assert broker.audit_writer is not None
    return broker.audit_writer


def change(topic: str) -> AuditEvent:
    return AuditEvent(at_ms=0, kind=AuditKind.CHANGE, resource=topic, outcome=Outcome.DONE)


def lost(run: Audited, entries: list[AuditEntry]) -> dict[str, tuple[Broker, int]]:
    """What was noted and is not in the log."""
    there = {entry.event.resource for entry in entries}
    return {name: noted for name, noted in run.noted.items() if name not in there}


@pytest.mark.parametrize("seed", first_of(range(1, 6), 2))
def test_events_survive_the_leader_of_their_partition(seed: int) -> None:
    run = Audited(seed)
    killed: list[tuple[Broker, int]] = []
    for _ in range(3):
        run.loop.run_until(lambda: run.leader() is not None, 60_000)
        run.loop.run_for(2_000)
        leader = run.leader()
        assert leader is not None
        killed.append((run.cluster.brokers[leader], run.now_ms))
        run.world.machines[leader].kill()
        run.loop.run_for(3_000)
        run.cluster.boot(run.world.machines[leader])
        run.loop.run_until(lambda: len(run.ready()) == 3, 120_000)
    run.loop.run_for(1_000)
    run.settle()
    verifier, entries = run.entries()
    assert verifier.faults == []
    assert len(run.noted) > 300
    missing = lost(run, entries)
    for name, (broker, at_ms) in missing.items():
        ends = [ms for process, ms in killed if process is broker]
        assert ends, f"{name} was noted by a broker that lives"
        assert at_ms > ends[0] - UNSYNCED_MS, f"{name} was noted {ends[0] - at_ms} ms before"
    assert len(verifier.unended) == 3
    chains = {(entry.broker, entry.chain) for entry in entries}
    assert len(chains) == 6


def test_a_broker_that_stops_loses_nothing_and_ends_its_chain() -> None:
    run = Audited(7)
    run.loop.run_until(lambda: run.leader() is not None, 60_000)
    run.loop.run_for(2_000)
    stopping = run.cluster.brokers["b2"]
    run.noted["last"] = (stopping, run.now_ms)
    stopping.audit.note(change("last"))
    run.cluster.restart(run.world.machines["b2"])
    run.loop.run_until(lambda: run.cluster.brokers.get("b2", stopping) is not stopping, 60_000)
    run.loop.run_until(lambda: len(run.ready()) == 3, 60_000)
    run.loop.run_for(1_000)
    run.settle()
    verifier, entries = run.entries()
    assert verifier.faults == []
    assert verifier.unended == []
    assert lost(run, entries) == {}
    ends = [entry.broker for entry in entries if entry.event.kind is AuditKind.END]
    assert ends == [2]


@pytest.mark.extended
def test_checkpoints_name_the_other_chains_and_come_where_nothing_happens() -> None:
    run = Audited(8)
    run.loop.run_until(lambda: run.leader() is not None, 60_000)
    run.loop.run_for(2_000)
    run.is_noting = False
    run.loop.run_for(2 * CHECKPOINT_MS)
    verifier, entries = run.entries()
    assert verifier.faults == []
    checkpoints = [each for each in entries if each.event.kind is AuditKind.CHECKPOINT]
    for node in (1, 2, 3):
        of_broker = [set(each.event.detail) for each in checkpoints if each.broker == node]
        others = {f"{each.broker}/{each.chain}" for each in entries if each.broker != node}
        assert len(of_broker) == 2
        assert of_broker[0] == others


@pytest.mark.parametrize("is_written", [True, False])
def test_a_batch_of_which_nobody_knows_is_written_again(
    is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second answer, or batch, gets lost: what is there twice is taken for one."""
    run = Audited(9)
    run.loop.run_until(lambda: run.leader() is not None, 60_000)
    count = 0

    def lose(broker: Broker) -> None:
        produce = writer_of(broker)._produce

        def forgetful(
            where: TopicPartition,
            records: bytes,
            acks: int,
            timeout_ms: int,
            on_done: Callable[[Any], None],
            is_wanted: Callable[[], bool],
        ) -> None:
            nonlocal count
            assert acks == -1, "synced at a majority, or it is lost with its leader"
            count += 1
            is_lost = count % 2 == 0

            def on_outcome(outcome: object) -> None:
                on_done(RequestTimedOut("lost") if is_lost else outcome)

            if is_lost and not is_written:
                run.loop.after(NS_PER_MS, "lost", lambda: on_outcome(None))
            else:
                produce(where, records, acks, timeout_ms, on_outcome, is_wanted)

        monkeypatch.setattr(writer_of(broker), "_produce", forgetful)

    for broker in run.ready():
        lose(broker)
    run.loop.run_for(5_000)
    run.settle()
    verifier, entries = run.entries()
    assert verifier.faults == []
    assert lost(run, entries) == {}
    numbers = [(each.broker, each.number) for each in entries]
    assert (len(numbers) > len(set(numbers))) is is_written
    assert sum(writer_of(each).rewrites for each in run.ready()) > 5
