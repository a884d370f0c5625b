"""Kafka's default partitioner: which partition a key belongs to."""

from kafkaesque.model import kernel


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Return the partition of a key, as every Kafka client with the default partitioner finds it.

    Raises:
        ValueError: `partition_count` is below 1.

    Source: `BuiltInPartitioner.partitionForKey` of Apache Kafka: murmur2 without its sign bit.
    """
    if partition_count < 1:
        raise ValueError(f"a topic has at least one partition, not {partition_count}")
    return (kernel.active.murmur2(key) & 0x7FFFFFFF) % partition_count
