"""What must hold in the end: the log against the ledger, and the replicas against one another."""

from __future__ import annotations

import hashlib
import time
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from bench.kills.ledger import Ledger, Where, read_value
from bench.kills.load import PROBE_KEY, READ_COUNT_MAX, Readings

READ_TIMEOUT_S = 120.0
#: Of each kind of problem so many are listed in full.
LISTED_MAX = 10
_HASHED_BYTES = 1 << 20

Log = dict[Where, "array[int]"]


def _reader(bootstrap_servers: str, group: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "log_level": 0,
            "error_cb": lambda error: None,
        }
    )


def end_offsets(bootstrap_servers: str, places: Iterable[Where]) -> dict[Where, int]:
    """Return where each partition ends; raises KafkaException if one does not answer."""
    reader = _reader(bootstrap_servers, "ends")
    try:
        return {
            where: reader.get_watermark_offsets(TopicPartition(*where), timeout=10.0)[1]
            for where in places
        }
    finally:
        reader.close()


def read_log(
    bootstrap_servers: str, ends: dict[Where, int], problems: list[str], *, tail: int | None = None
) -> Log:
    """Read all partitions up to their ends, each from its beginning or its last `tail` records.

    Returns the records' numbers by offset, -1 for a probe's; what is wrong goes to `problems`.
    """
    starts = {where: 0 if tail is None else max(0, end - tail) for where, end in ends.items()}
    log: Log = {where: array("q") for where in ends}
    left = {where for where, end in ends.items() if end > starts[where]}
    reader = _reader(bootstrap_servers, "checker")
    reader.assign([TopicPartition(*where, starts[where] or OFFSET_BEGINNING) for where in ends])
    deadline = time.monotonic() + READ_TIMEOUT_S
    while left and time.monotonic() < deadline:
        for message in reader.consume(READ_COUNT_MAX, 0.2):
            error = message.error()
            if error is not None:
                problems.append(f"reading the log: {error}")
                continue
            where = (str(message.topic()), int(message.partition() or 0))
            offset = int(message.offset() or 0)
            found = log[where]
            if offset != starts[where] + len(found):
                expected = starts[where] + len(found)
                problems.append(f"{where}: offset {offset} where {expected} was to come")
            number = -1 if message.key() == PROBE_KEY else read_value(message.value())
            if number is None:
                problems.append(f"{where}: nobody sent what stands at {offset}")
            found.append(-2 if number is None else number)
            if offset + 1 >= ends[where]:
                left.discard(where)
    reader.close()
    problems.extend(
        f"{where}: read {len(log[where])} of {ends[where] - starts[where]} records"
        for where in sorted(left)
    )
    return log


def check_log(log: Log, ledger: Ledger, problems: list[str]) -> None:
    """Check that what was acknowledged is there once, in its place, and in its producer's order."""
    found_at: dict[int, int] = {}
    for where, numbers in log.items():
        newest: dict[int, int] = {}
        for offset, number in enumerate(numbers):
            if number < 0:
                continue
            if number >= ledger.sent or ledger.places[ledger.placed[number]] != where:
                problems.append(f"{where}: record {number} at {offset} was never sent there")
                continue
            if number in found_at:
                problems.append(
                    f"{where}: record {number} at {offset} is also at {found_at[number]}"
                )
            found_at[number] = offset
            producer = ledger.producers[number]
            if newest.get(producer, -1) > number:
                problems.append(
                    f"{where}: record {number} at {offset} comes after {newest[producer]}"
                )
            newest[producer] = number
    for number, offset in enumerate(ledger.offsets):
        if offset < 0:
            continue
        where = ledger.places[ledger.placed[number]]
        if number not in found_at:
            problems.append(f"{where}: record {number}, acknowledged at {offset}, is lost")
        elif found_at[number] != offset:
            problems.append(
                f"{where}: record {number}, acknowledged at {offset}, is at {found_at[number]}"
            )


def check_probes(probes: dict[Where, list[int]], log: Log, problems: list[str]) -> None:
    """Check that there is a probe wherever one was acknowledged."""
    for where, offsets in probes.items():
        problems.extend(
            f"{where}: the probe acknowledged at {offset} is not there"
            for offset in offsets
            if not (offset < len(log[where]) and log[where][offset] == -1)
        )
        if len(set(offsets)) < len(offsets):
            problems.append(f"{where}: two probes were acknowledged at one offset")


def check_readings(readings: Readings, log: Log, problems: list[str]) -> None:
    """Check that the group was given the log, all of it."""
    for where, numbers in log.items():
        given = readings.numbers.get(where, array("q"))
        if given == numbers:
            continue
        at = next(
            (i for i, (a, b) in enumerate(zip(given, numbers, strict=False)) if a != b),
            min(len(given), len(numbers)),
        )
        problems.append(
            f"{where}: the group was given {len(given)} of {len(numbers)} records; "
            f"the first difference is at {at}"
        )


def replica_digests(data: Path) -> dict[str, tuple[int, str]]:
    """Return size and digest of each partition's segments, one after the other."""
    digests = {}
    for directory in sorted(each for each in data.iterdir() if each.is_dir()):
        size, digest = 0, hashlib.sha256()
        segments = sorted(directory.glob("*.log"))
        if not segments or directory.name == "wal":
            continue
        for segment in segments:
            with segment.open("rb") as file:
                while piece := file.read(_HASHED_BYTES):
                    size += len(piece)
                    digest.update(piece)
        digests[directory.name] = (size, digest.hexdigest())
    return digests


def check_replicas(directories: Sequence[Path], problems: list[str]) -> tuple[int, int]:
    """Check that all brokers have the same bytes; return how many partitions and bytes."""
    replicas = [replica_digests(directory) for directory in directories]
    names = sorted({name for replica in replicas for name in replica})
    for name in names:
        found = [replica.get(name) for replica in replicas]
        if len(set(found)) > 1:
            sizes = [None if each is None else each[0] for each in found]
            problems.append(f"{name}: the replicas' bytes differ; sizes {sizes}")
    return len(names), sum(size for size, _ in replicas[0].values())


def shortened(problems: Sequence[str]) -> list[str]:
    """Return the problems, of many the first ones and a count."""
    if len(problems) <= LISTED_MAX:
        return list(problems)
    return [*problems[:LISTED_MAX], f"and {len(problems) - LISTED_MAX} more"]
