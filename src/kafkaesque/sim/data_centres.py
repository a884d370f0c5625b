"""What is left of a partition when a data centre is lost: the lectures' tables, played (ADR 16).

A *layout* says where brokers and controllers are. In "three" each of three data centres has a
broker; in "two and a half" two have brokers, and the half one has a controller alone, so that the
controllers keep their majority whichever of the two is lost.

The course of one row: producers write with `acks=all`. For a moment one replica hears nothing of
the leader, so that it lacks what is acknowledged then. A data centre is lost, with a power cut. It
stays away for a while, and what can still be written and read is looked at; then it comes back, and
everything that was acknowledged is looked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY, RecoveryState
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.records import decode_batch
from kafkaesque.sim.agreement import read_committed
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.topic_load import TopicLoad, TopicSpec
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.sim.env import World
from kafkaesque.sim.loop import NS_PER_MS, SimStuck
from kafkaesque.sim.options import SimOptions

TOPIC: Final = "events"
#: So long the data centre is away, and so long one replica lacks what is acknowledged before.
AWAY_MS: Final = 40_000
DEAF_MS: Final = 300
SETTLE_MS: Final = 60_000
LOOK_MS: Final = 10
RECORDS_BYTES_MAX: Final = 1 << 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where brokers are: the data centre of each, in the order of their ids, controllers first."""

    name: str
    data_centres: tuple[str, ...]
    #: The brokers of the partition, the preferred leader first, by their number.
    replicas: dict[int, tuple[int, ...]]


THREE: Final = Layout(
    name="three data centres", data_centres=("A", "B", "C"), replicas={3: (1, 2, 3)}
)
#: Broker 3 is the half data centre: a controller, and none of the partition's replicas.
TWO_AND_A_HALF: Final = Layout(
    name="two and a half",
    data_centres=("A", "B", "half", "A", "B"),
    replicas={2: (1, 2), 3: (1, 4, 2), 4: (1, 4, 2, 5)},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    layout: Layout
    replication_factor: int
    min_insync: int
    is_unclean_allowed: bool
    #: The data centre that is lost; the leader is in A.
    lost: str = "A"

    @property
    def name(self) -> str:
        """Say which one it is."""
        unclean = "on" if self.is_unclean_allowed else "off"
        return (
            f"{self.layout.name}, RF {self.replication_factor}, min ISR {self.min_insync},"
            f" unclean {unclean}, {self.lost} lost"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of it; None where it did not happen while the data centre was away."""

    row: Row
    #: Until a write with `acks=all` was acknowledged, and until there was a leader to read from.
    writable_after_ms: int | None
    readable_after_ms: int | None
    acknowledged: int
    #: Acknowledged messages that were not there in the end.
    lost: int
    #: What the metadata say of it, and of an unclean election.
    given_up: int
    is_unclean: bool
    anomalies: tuple[str, ...]


def rows() -> list[Row]:
    """Return the table: three data centres; two and a half, each way; two replicas."""
    table = [Row(layout=THREE, replication_factor=3, min_insync=2, is_unclean_allowed=False)]
    table += [
        Row(
            layout=TWO_AND_A_HALF,
            replication_factor=replication_factor,
            min_insync=2,
            is_unclean_allowed=is_unclean_allowed,
            lost=lost,
        )
        for replication_factor, lost in ((3, "A"), (3, "B"), (4, "A"))
        for is_unclean_allowed in (False, True)
    ]
    table += [
        Row(
            layout=TWO_AND_A_HALF,
            replication_factor=2,
            min_insync=min_insync,
            is_unclean_allowed=False,
        )
        for min_insync in (1, 2)
    ]
    return table


def play(row: Row, seed: int = 1) -> Outcome:
    """Play one row.

    Raises:
        SimStuck: the cluster did not come to rest.
    """
    return _Play(row, seed).go()


class _Play:
    def __init__(self, row: Row, seed: int) -> None:
        self._row = row
        layout = row.layout
        self._world = World(seed)
        self._loop = self._world.loop
        options = SimOptions(
            brokers=len(layout.data_centres), controllers=3, racks=layout.data_centres
        )
        self._cluster = SimCluster(self._world, options)
        self._findings = Findings()
        replicas = layout.replicas[row.replication_factor]
        self._names = [self._cluster.names[node - 1] for node in replicas]
        spec = TopicSpec(
            name=TOPIC,
            assignments=(replicas,),
            configs={
                "min.insync.replicas": str(row.min_insync),
                "unclean.leader.election.enable": str(row.is_unclean_allowed).lower(),
            },
        )
        env = self._world.add_machine("client").boot()
        self._cluster.start()
        self._load = TopicLoad(env, self._cluster.addresses, spec, self._findings)

    def go(self) -> Outcome:
        """Play it, and look."""
        load, loop = self._load, self._loop
        loop.run_until(lambda: load.is_made and self._leader() is not None, SETTLE_MS)
        load.start()
        loop.run_until(lambda: len(load.observations.acknowledged) >= 300, SETTLE_MS)
        self._deafen()
        acknowledged = len(load.observations.acknowledged)
        lost_ns = loop.now_ns
        for name in self._lost_names():
            self._world.machines[name].cut_power()
        left = self._left()
        for name in left:
            # What was held back of the others is lost with them.
            self._world.wire.unblock(name, left[-1])
        readable = self._time(lambda: self._leader() is not None, lost_ns)
        writable = self._time(
            lambda: len(load.observations.acknowledged) > acknowledged + 20, lost_ns
        )
        loop.run_for(max(0, AWAY_MS - (loop.now_ns - lost_ns) // NS_PER_MS))
        self._world.wire.heal()
        for name in self._lost_names():
            self._cluster.boot(self._world.machines[name])
        self._settle()
        return self._outcome(readable, writable)

    def _deafen(self) -> None:
        """Let one replica that is going to be left miss what is acknowledged."""
        # Of two every commit needs both.
        if self._row.replication_factor > 2:
            for name in self._names:
                self._world.wire.block(name, self._left()[-1])
        self._loop.run_for(DEAF_MS)

    def _left(self) -> list[str]:
        return [name for name in self._names if name not in self._lost_names()]

    def _lost_names(self) -> Sequence[str]:
        places = zip(self._cluster.names, self._row.layout.data_centres, strict=True)
        return [name for name, data_centre in places if data_centre == self._row.lost]

    def _partition(self, name: str) -> Partition | None:
        machine = self._world.machines[name]
        broker = self._cluster.brokers.get(name)
        if broker is None or not machine.running or machine.paused:
            return None
        topic = broker.state.topics.get(TOPIC)
        if topic is None:
            return None
        partition = broker.partitions.get(topic.partitions[0].group)
        return partition if partition is not None and partition.replica is not None else None

    def _leader(self) -> str | None:
        for name in self._names:
            partition = self._partition(name)
            if partition is not None and partition.is_leader:
                return name
        return None

    def _time(self, condition: Callable[[], bool], since_ns: int) -> int | None:
        left_ms = AWAY_MS - (self._loop.now_ns - since_ns) // NS_PER_MS
        if left_ms <= 0:
            return None
        try:
            self._loop.run_until(condition, left_ms, every_ms=LOOK_MS)
        except SimStuck:
            return None
        return (self._loop.now_ns - since_ns) // NS_PER_MS

    def _settle(self) -> None:
        load, loop = self._load, self._loop
        load.stop_producing()
        if not self._has_lost():
            # Else a producer's numbers do not fit what is left: it would have to begin anew.
            loop.run_until(lambda: load.is_acknowledged, SETTLE_MS, every_ms=LOOK_MS)
        loop.run_until(self._is_whole, SETTLE_MS, every_ms=LOOK_MS)

    def _recovery(self) -> RecoveryState:
        leader = self._leader() or self._left()[0]
        state = self._cluster.brokers[leader].state
        return state.recoveries.get(state.topics[TOPIC].partitions[0].group, NO_RECOVERY)

    def _has_lost(self) -> bool:
        return self._recovery().unclean is not None

    def _is_whole(self) -> bool:
        """All replicas are in sync again, and everything is read."""
        leader = self._leader()
        partition = None if leader is None else self._partition(leader)
        if partition is None or partition.replica is None:
            return False
        is_in_sync = len(partition.replica.in_sync()) == len(self._names)
        positions = [consumer.position for consumer in self._load.consumers]
        return is_in_sync and all(each >= partition.high_watermark for each in positions)

    def _values(self, partition: Partition | None) -> set[bytes]:
        if partition is None:
            return set()
        with self._cluster.unhindered():
            data = read_committed(partition)
        return {
            bytes(record.value)
            for header in scan_batches(data).batches
            for record in decode_batch(data, RECORDS_BYTES_MAX, at=header.at)
            if record.value is not None
        }

    def _outcome(self, readable: int | None, writable: int | None) -> Outcome:
        load = self._load
        leader = self._leader() or self._names[0]
        broker = self._cluster.brokers[leader]
        group = broker.state.topics[TOPIC].partitions[0].group
        recovery = self._recovery()
        there = self._values(broker.partitions.get(group))
        lost = [value for _, value in load.observations.acknowledged if value not in there]
        return Outcome(
            row=self._row,
            writable_after_ms=writable,
            readable_after_ms=readable,
            acknowledged=len(load.observations.acknowledged),
            lost=len(lost),
            given_up=recovery.given_up,
            is_unclean=recovery.unclean is not None,
            anomalies=tuple(self._findings.anomalies),
        )
