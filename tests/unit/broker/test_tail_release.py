"""Which entries a broker's replicas keep in memory: those that are on their way to another one."""

from __future__ import annotations

from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.model.records import Record
from tests.unit.admin.api_ground import ApiGround

RECORDS = 20


def partitions(ground: ApiGround) -> dict[str, Partition]:
    """Return the topic's partition on each broker that runs."""
    found = {}
    for name, broker in ground.cluster.brokers.items():
        partition = broker.partitions.get(broker.state.topic("t").partitions[0].group)
        assert partition is not None
        found[name] = partition
    return found


def kept(partition: Partition) -> list[int]:
    """Return the offsets of which a replica has the bytes in memory."""
    tail = partition.log.segments.tail
    return [each for each in range(2 * RECORDS) if tail.kept_from(each, 0) is not None]


def publish(ground: ApiGround) -> None:
    for _ in range(RECORDS):
        ground.publish("t", 0, Record(0, 0, None, b"x" * 10, ()))
        ground.world.loop.run_for(100)


def test_bytes_are_kept_while_a_replica_lacks_them() -> None:
    ground = ApiGround(7)
    ground.create("t")
    publish(ground)
    for each in partitions(ground).values():
        # What all have goes when the next entry comes: of the last one nobody may know yet.
        assert set(kept(each)) <= {RECORDS - 2, RECORDS - 1}
    leader = next(name for name, each in partitions(ground).items() if each.is_leader)
    ground.kill(next(each for each in ("b2", "b3") if each != leader))
    publish(ground)
    lacked = list(range(RECORDS, 2 * RECORDS))
    for name, each in partitions(ground).items():
        if name in ("b1", leader):
            assert [offset for offset in kept(each) if offset >= RECORDS] == lacked
