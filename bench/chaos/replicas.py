"""What is there in the end: the log as clients read it, and the replicas' files against each other.

The files are read by their format alone, without the broker's own storage.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.chaos.checks import Partition
from bench.chaos.history import NOBODY, Where, read_value
from bench.kills.check import replica_digests
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.records import decode_batch

READ_COUNT_MAX = 1_000
_BATCH_BYTES_MAX = 64 << 20


class NotReadError(RuntimeError):
    """A log could not be read to its end."""


def _reader(bootstrap_servers: str, *, is_committed: bool) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "the-checker",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "isolation.level": "read_committed" if is_committed else "read_uncommitted",
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )


def end_offsets(
    bootstrap_servers: str, places: Sequence[Where], timeout_s: float
) -> dict[Where, int]:
    """Return where each partition ends; raises KafkaException if one does not answer in time."""
    reader = _reader(bootstrap_servers, is_committed=False)
    try:
        return {
            where: reader.get_watermark_offsets(TopicPartition(*where), timeout=timeout_s)[1]
            for where in places
        }
    finally:
        reader.close()


def read_log(
    bootstrap_servers: str,
    ends: Mapping[Where, int],
    *,
    is_committed: bool,
    sent: int,
    timeout_s: float,
) -> dict[Where, Partition]:
    """Return all records of the partitions up to their ends.

    Raises:
        NotReadError: they were not given in time, or only with an error.
    """
    log = {where: Partition() for where in ends}
    reader = _reader(bootstrap_servers, is_committed=is_committed)
    places = [TopicPartition(*where, OFFSET_BEGINNING) for where in ends]
    reader.assign(places)
    deadline = time.monotonic() + timeout_s
    left = [where for where in ends if ends[where]]
    last_error = ""
    try:
        while left:
            if time.monotonic() > deadline:
                raise NotReadError(f"not read to the end in {timeout_s:.0f} s: {left} {last_error}")
            for message in reader.consume(READ_COUNT_MAX, 0.2):
                error = message.error()
                if error is not None:
                    last_error = str(error)
                    continue
                number = read_value(message.value())
                log[str(message.topic()), int(message.partition() or 0)].add(
                    int(message.offset() or 0),
                    NOBODY if number is None or number >= sent else number,
                )
            at = {(each.topic, each.partition): each.offset for each in reader.position(places)}
            left = [where for where in left if at[where] < ends[where]]
    finally:
        reader.close()
    return log


# -- replicas


def _records(directory: Path) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield offset, key and value of the records in a partition's segments that have a key."""
    for segment in sorted(directory.glob("*.log")):
        data = segment.read_bytes()
        for header in scan_batches(data).batches:
            if header.is_control:
                continue
            for record in decode_batch(data, _BATCH_BYTES_MAX, at=header.at):
                if record.key is not None:
                    yield record.offset, bytes(record.key), record.value


def read_table(directory: Path) -> dict[bytes, tuple[int, bytes]]:
    """Return the newest record of each key that has a value, as compaction has to keep it."""
    table: dict[bytes, tuple[int, bytes | None]] = {}
    for offset, key, value in _records(directory):
        if table.get(key, (-1, None))[0] < offset:
            table[key] = offset, None if value is None else bytes(value)
    return {key: (at, value) for key, (at, value) in table.items() if value is not None}


def check_replicas(
    homes: Mapping[str, Path],
    holders: Mapping[str, frozenset[str]],
    compacted: Sequence[str],
    anomalies: list[str],
) -> tuple[int, int]:
    """Compare all replicas of each partition; return how many partitions and bytes there are.

    `homes` are the data directories by broker, `holders` who has replicas of which partition; one
    that has nothing of a partition in which others have something diverges. Of compacted topics
    (their names' beginnings) the newest records of the keys are compared, because each replica is
    compacted by itself.
    """
    digests = {name: replica_digests(home) for name, home in homes.items() if home.is_dir()}
    size_bytes = 0
    for partition in sorted(holders):
        found = {
            name: digests.get(name, {}).get(partition, (0, ""))
            for name in sorted(holders[partition])
        }
        size_bytes += max(size for size, _ in found.values())
        if len({each if each[0] else None for each in found.values()}) == 1:
            continue
        if not partition.startswith(tuple(compacted)):
            sizes = {name: size for name, (size, _) in found.items()}
            anomalies.append(f"divergence of replicas: {partition}; bytes by broker {sizes}")
            continue
        tables = {name: read_table(homes[name] / partition) for name in found}
        first, *others = tables
        for other in others:
            different = set(tables[first].items()) ^ set(tables[other].items())
            if different:
                key, (at, _) = min(different)
                anomalies.append(
                    f"divergence of replicas: {partition}: {len(different)} keys differ between "
                    f"brokers {first} and {other}, the first {key!r} at {at}"
                )
    return len(holders), size_bytes
