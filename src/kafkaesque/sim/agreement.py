"""Whether a cluster has come to rest: everybody runs, knows the same and has the same.

`disagreement` says what is missing first, which is what a run that got stuck reports. What costs
little is looked at first, the bytes of the logs last.
"""

from collections.abc import Callable, Sequence

from kafkaesque.broker.broker import Broker
from kafkaesque.broker.listeners import KAFKA
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.env.disk import Buffer
from kafkaesque.gateway.kafka.cluster_view import ClusterView
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.ids import Offset
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.sim.clients.committed_reader import is_abort
from kafkaesque.sim.cluster import SimCluster

READ_BYTES = 1 << 20

Members = Sequence[tuple[str, Broker]]
Replicas = dict[str, Partition]


def disagreement(cluster: SimCluster) -> str | None:
    """Return what keeps the cluster from resting, None if nothing does."""
    with cluster.unhindered():
        return _disagreement(cluster)


def _disagreement(cluster: SimCluster) -> str | None:
    members = cluster.trusted()
    found = _find_absent(cluster, members) or _find_other_metadata(members)
    if found is not None:
        return found
    moving = list(members[0][1].state.moving.values())
    if moving:
        return f"replicas of {moving[0].topic_partition} move to {moving[0].target}"
    partitions = list(members[0][1].state.partitions_by_group.values())
    for look in (_find_unled, _find_other_ends, _find_other_bytes):
        for state in partitions:
            replicas = _replicas_of(state, members)
            found = look(state, replicas, members)
            if found is not None:
                return f"{state.topic_partition}, group {state.group}: {found}"
    return None


def describe(cluster: SimCluster) -> list[str]:
    """Return a line for each replica in the cluster, for people."""
    lines = []
    for name, broker in cluster.brokers.items():
        for replica in broker.driver.replicas():
            core = replica.core
            lines.append(
                f"{name} group {replica.group}: {core.role.value} in term {core.term}, leader "
                f"{core.leader}, index {core.log.start_index} to {core.log.last_index}, synced "
                f"{core.log.synced_index}, committed {core.commit_index}, in sync {core.in_sync}"
                f"{', closed' if replica.is_closed else ''}"
            )
    return lines


def _find_absent(cluster: SimCluster, members: Members) -> str | None:
    expected = cluster.options.brokers - cluster.options.loses_damaged
    if len(members) < expected:
        return f"only {[name for name, _ in members]} run"
    for name, broker in members:
        if broker.life.failure is not None:
            return f"{name} has failed: {broker.life.failure}"
        if not broker.life.is_ready or broker.life.is_stopping:
            return f"{name} is not ready"
    return None


def _find_other_metadata(members: Members) -> str | None:
    if not any(broker.controller.is_leader for _, broker in members):
        return "there is no controller"
    offsets = {name: broker.controller.applied_offset for name, broker in members}
    if len(set(offsets.values())) > 1:
        return f"metadata is applied up to {offsets}"
    if len({broker.state.write_snapshot() for _, broker in members}) > 1:
        return "brokers have applied the same records and have different metadata"
    return None


def _replicas_of(state: PartitionState, members: Members) -> Replicas:
    found: Replicas = {}
    for name, broker in members:
        if broker.node in state.replicas:
            partition = broker.partitions.get(state.group)
            if partition is not None and partition.replica is not None:
                found[name] = partition
    return found


def _find_unled(state: PartitionState, replicas: Replicas, members: Members) -> str | None:
    placed = [name for name, broker in members if broker.node in state.replicas]
    if list(replicas) != placed:
        return f"it is open on {list(replicas)}, not on {placed}"
    leaders = [name for name, partition in replicas.items() if partition.is_leader]
    if len(leaders) != 1:
        return f"it is led by {leaders}"
    nodes = {name: broker.node for name, broker in members}
    leader = replicas[leaders[0]].replica
    missing = [name for name in placed if leader and nodes[name] not in leader.in_sync()]
    if missing:
        return f"{missing} are not in sync"
    for name, broker in members:
        known = broker.leaders.leader(state.group)
        if known != nodes[leaders[0]]:
            return f"{name} takes {known} for the leader, which is {leaders[0]}"
        told = ClusterView(broker.doors, KAFKA).place(state).in_sync
        if leader and {*told} != {*leader.in_sync()}:
            return f"{name} tells clients that {[*told]} are in sync, not {[*leader.in_sync()]}"
    return None


def _find_other_ends(_: PartitionState, replicas: Replicas, __: Members) -> str | None:
    def differing(what: str, value: Callable[[Partition], int]) -> str | None:
        values = {name: value(partition) for name, partition in replicas.items()}
        return f"{what}: {values}" if len(set(values.values())) > 1 else None

    for name, partition in replicas.items():
        if partition.high_watermark != partition.log.end_offset:
            return f"{name} has {partition.log.end_offset}, {partition.high_watermark} committed"
    return differing("starts differ", lambda each: each.log.start_offset) or differing(
        "ends differ", lambda each: each.log.end_offset
    )


def _find_other_bytes(_: PartitionState, replicas: Replicas, __: Members) -> str | None:
    keyless = [name for name, partition in replicas.items() if not partition.sealing.is_ready]
    if keyless:
        return f"{keyless} are still unwrapping its keys"
    if any(partition.config.is_compacted for partition in replicas.values()):
        tables = {name: read_table(partition) for name, partition in replicas.items()}
        first = next(iter(tables.values()))
        differing = [name for name, table in tables.items() if table != first]
        return f"replica divergence: the table of {differing} is another" if differing else None
    held = {name: read_committed(partition) for name, partition in replicas.items()}
    if any(partition.tables is not None for partition in replicas.values()):
        # Each replica drops by itself what its table does not need.
        return _find_other_records(
            [_records_by_offset(replicas[name], data) for name, data in held.items()]
        )
    sizes = {name: len(data) for name, data in held.items()}
    return f"replica divergence: {sizes} bytes" if len(set(held.values())) > 1 else None


def _records_by_offset(partition: Partition, data: bytes) -> dict[int, Record]:
    batches = scan_batches(data).batches
    # Each replica's cleaner seals by a salt of its own what it leaves of a batch.
    opened = [partition.sealing.open_one(data[each.at : each.end]) for each in batches]
    return {record.offset: record for each in opened for record in decode_batch(each, READ_BYTES)}


def _find_other_records(replicas: Sequence[dict[int, Record]]) -> str | None:
    known: dict[int, Record] = {}
    for records in replicas:
        for offset, record in records.items():
            if known.setdefault(offset, record) != record:
                return f"replica divergence: offset {offset} is another record"
    return None


def read_committed(partition: Partition) -> bytes:
    """Return the batches of a replica from its start to its high watermark."""
    log, end = partition.log, partition.high_watermark
    pieces: list[bytes] = []
    offset = log.start_offset
    while offset < end:
        ranges = log.locate_blocking(offset, READ_BYTES, end)
        if not ranges:
            break
        data = b"".join(r.file.read_blocking(r.position, r.length) for r in ranges)
        pieces.append(data)
        batches = scan_batches(data).batches
        if not batches:
            break
        offset = Offset(batches[-1].next_offset)
    return b"".join(pieces)


def read_table(partition: Partition) -> dict[bytes, tuple[int, bytes]]:
    """Return offset and value of the last record of each key, as far as it has a value.

    What was aborted does not count: compaction takes it away, on each replica when its time comes.
    """
    data: Buffer = read_committed(partition)
    batches = scan_batches(data).batches
    if any(header.is_sealed for header in batches):
        data = partition.sealing.open(data, batches)
    aborted = _find_aborted(data)
    table: dict[bytes, tuple[int, bytes]] = {}
    for header in scan_batches(data).batches:
        if header.is_control or header.at in aborted:
            continue
        for record in decode_batch(data, READ_BYTES, at=header.at):
            key = record.key or b""
            table.pop(key, None)
            if record.value is not None:
                table[key] = record.offset, bytes(record.value)
    return table


def _find_aborted(data: Buffer) -> set[int]:
    """Return where the batches lie whose transactions were aborted."""
    aborted: set[int] = set()
    #: By producer, the batches of the transaction that is open.
    begun: dict[int, list[int]] = {}
    for header in scan_batches(data).batches:
        if header.is_control:
            ended = begun.pop(header.producer_id, [])
            if any(map(is_abort, decode_batch(data, READ_BYTES, at=header.at))):
                aborted.update(ended)
        elif header.is_transactional:
            begun.setdefault(header.producer_id, []).append(header.at)
    return aborted
