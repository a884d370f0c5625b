"""Looks into brokers for what their tables of queues say: on each replica the same as its log.

*Tables that differ*: two replicas with the same committed log; *another table than the log says*;
*a message in no place, or in two*; *a snapshot that leaves something out*: the log from the newest
one on gives another state.
"""

from typing import Final

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.queues.cursor_host import CursorHost
from kafkaesque.broker.queues.host import TABLE_NUMBER, QueueHost
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.model.ids import Offset
from kafkaesque.queues.state import Place, State
from kafkaesque.queues.table import QueueTable
from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.cluster import SimCluster
from kafkaesque.tables.logged import LoggedKind, read_logged

#: A state, to be compared.
Shown = tuple[object, ...]


class QueueReplicas:
    """See the module."""

    def __init__(
        self, cluster: SimCluster, findings: Findings, vhost: str, names: list[str]
    ) -> None:
        self._cluster: Final = cluster
        self._findings: Final = findings
        self._names: Final = [QueueName(vhost, name) for name in names]

    def look(self) -> None:
        """Compare the replicas whose logs are committed, and what each of them says."""
        for name in self._names:
            seen: dict[tuple[int, int], tuple[str, Shown]] = {}
            for machine, broker in self._cluster.trusted():
                for host, _ in _find(broker, name):
                    if host.queue.is_based:
                        self._look_at(name, machine, host, seen)

    def _look_at(
        self,
        name: QueueName,
        machine: str,
        host: QueueHost,
        seen: dict[tuple[int, int], tuple[str, Shown]],
    ) -> None:
        table = host.queue
        self._check_places(f"{machine} of {name}", table.state)
        if table.committed_offset == table.end_offset:
            end, state = table.end_offset, shown(table.state)
            other, known = seen.setdefault((host.state.partition, end), (machine, state))
            if known != state:
                self._note(f"tables of {name} differ at {end}: {other} and {machine}")

    def check(self) -> None:
        """Compare each replica with its own log."""
        with self._cluster.unhindered():
            for name in self._names:
                for machine, broker in self._cluster.trusted():
                    for host, partition in _find(broker, name):
                        self._check_log(f"{machine} of {name}", host, partition)

    def _check_log(self, where: str, host: QueueHost, partition: Partition) -> None:
        if not host.queue.is_based:
            self._note(f"{where} has lost the table")
            return
        state = shown(host.queue.state)
        start = partition.log_start_offset
        has_own_log = not isinstance(host, CursorHost)
        if _replayed(partition, start, has_own_log=has_own_log) != state:
            self._note(f"{where} has another table than its log says")
        newest = _newest_snapshot(partition, start)
        if newest is None:
            return
        if _replayed(partition, newest, has_own_log=has_own_log) != state:
            self._note(f"{where}: the snapshot at {newest} leaves something out")

    def _check_places(self, where: str, state: State) -> None:
        placed = (
            state.ready_count
            + state.delayed.count
            + state.flight_count
            + state.parked.count
            + len(state.moving)
        )
        offsets = list(state.live.offsets())
        if placed != len(offsets):
            self._note(f"{where} has {placed} messages in places, and {len(offsets)} that live")
        lost = [each for each in offsets if state.place_of(each) is Place.NOWHERE]
        if lost:
            self._note(f"{where}: messages live and are nowhere: {lost[:5]}")
        if state.floor != (offsets[0] if offsets else state.end):
            self._note(f"{where} begins at {state.floor}, not at {offsets[:1]}")

    def _note(self, what: str) -> None:
        self._findings.note(f"queues: {what}")


def leader_of(cluster: SimCluster, name: str, vhost: str = "/") -> tuple[str, State] | None:
    """Return the machine that leads a queue, if there is exactly one, and what it knows."""
    found = leaders_of(cluster, name, vhost)
    return found[0] if len(found) == 1 else None


def leaders_of(cluster: SimCluster, name: str, vhost: str = "/") -> list[tuple[str, State]]:
    """Return the machines that lead a queue's partitions, each with what it knows of its one."""
    return [
        (machine, host.queue.state)
        for machine, broker in cluster.trusted()
        for host, _ in _find(broker, QueueName(vhost, name))
        if host.queue.is_leading and host.queue.is_based
    ]


def _find(broker: Broker, name: QueueName) -> list[tuple[QueueHost, Partition]]:
    """Return a queue's partitions on a broker."""
    queue = broker.state.queues.get(name)
    found: list[tuple[QueueHost, Partition]] = []
    for state in () if queue is None else queue.partitions:
        partition = broker.partitions.get(state.group)
        if partition is None or partition.replica is None or partition.tables is None:
            continue
        hosts = [each for each in partition.tables.all if isinstance(each, QueueHost)]
        found += [(each, partition) for each in hosts]
    return found


def shown(state: State) -> Shown:
    """Return all that a state says, by its parts and not by how it is written."""
    messages = [
        (
            offset,
            state.place_of(offset),
            *(column[offset] for column in (state.owners, state.attempts, state.excused)),
            *(column[offset] for column in (state.sizes, state.parked, state.ready.priorities)),
            *(times[offset] for times in (state.locks, state.delayed, state.expiry)),
            state.group_order.groups[offset],
            state.fair_groups.groups[offset],
            state.moving.get(offset),
        )
        for offset in state.live.offsets()
    ]
    counts = (state.end, state.arrived_count, state.arrived_bytes, state.waiting_bytes)
    tables = (dict(state.sequences), dict(state.sessions), list(state.removed), state.policy)
    flight = (state.flight_count, state.flight_bytes, dict(state.group_order.held))
    return (messages, counts, tables, flight, state.identities.count)


def _replayed(partition: Partition, start: int, *, has_own_log: bool) -> Shown:
    table = QueueTable(TABLE_NUMBER, Offset(start), has_own_log=has_own_log)
    for header, data in replay(partition.log, Offset(start)):
        table.apply(header, data, Offset(header.base_offset), read_logged(header, data))
        table.commit(Offset(header.next_offset))
    return shown(table.state)


def _newest_snapshot(partition: Partition, start: Offset) -> int | None:
    """Return where the newest snapshot begins that is whole."""
    newest = begun = None
    for header, data in replay(partition.log, start):
        logged = read_logged(header, data)
        if logged is None or logged.kind is not LoggedKind.SNAPSHOT:
            continue
        begun = header.base_offset if begun is None else begun
        if not logged.parts_left:
            newest, begun = begun, None
    return newest
