"""How many bytes wait to be read: estimated, as Kafka tells no sizes of ranges of offsets."""

from __future__ import annotations

from collections.abc import Mapping

from kafkaesque.model.batch import scan_batches
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.errors import check
from kafkaesque.spark.offsets import Offsets, Partition

_VERSION = 12
#: A broker answers with a whole batch where one is longer.
SAMPLE_BYTES = 16 << 10
#: Partitions that are looked at; the others are taken to be like them.
SAMPLES_MAX = 64
#: What an offset is taken for where nothing can be looked at.
_OFFSET_BYTES_GUESS = 1024.0


def waiting_bytes(cluster: Cluster, starts: Offsets, ends: Offsets) -> int:
    """Return about how many bytes the brokers keep from `starts` to `ends`.

    Of each partition (of the 64 in which most offsets wait) the batches at its start are fetched,
    16 KiB or one batch: what an offset takes there, it is taken to take in all that waits. So the
    estimate is good for what is read next, and may be far off for what comes much later.

    Raises:
        Unavailable: a leader did not answer in time. Refused: there is no such partition.
    """
    sizes = {each: end - starts[each] for each, end in ends.items() if end > starts[each]}
    looked_at = sorted(sizes, key=lambda each: (-sizes[each], each))[:SAMPLES_MAX]
    samples = _samples(cluster, {each: starts[each] for each in looked_at})
    found = {each: size / offsets for each, (size, offsets) in samples.items()}
    mean = sum(found.values()) / len(found) if found else _OFFSET_BYTES_GUESS
    return round(sum(size * found.get(each, mean) for each, size in sizes.items()))


def _samples(cluster: Cluster, wanted: Mapping[Partition, int]) -> dict[Partition, tuple[int, int]]:
    """Return bytes and offsets of the batches at these offsets, where there are any."""
    found: dict[Partition, tuple[int, int]] = {}

    def attempt() -> None:
        # A request for each: only the first batch of an answer may be longer than was asked for.
        requests = [
            (each, leader, leader.send(ApiKey.FETCH, _VERSION, _request(each, offset)))
            for each, offset in wanted.items()
            if each not in found
            for leader in (cluster.leader(*each),)
        ]
        answers = [(each, leader.receive(number)) for each, leader, number in requests]
        for (topic, partition), answer in answers:
            what = f"looking at partition {topic}-{partition}"
            check(answer.error_code, what)
            for part in (part for each in answer.responses for part in each.partitions):
                if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    continue
                check(part.error_code, what)
                batches = scan_batches(part.records or b"").batches
                if batches:
                    offsets = batches[-1].next_offset - batches[0].base_offset
                    found[topic, partition] = sum(each.size_bytes for each in batches), offsets

    if wanted:
        cluster.retry("looking at how much waits", attempt)
    return found


def _request(each: Partition, offset: int) -> FetchRequest:
    topic, partition = each
    wanted = FetchPartition(
        partition=partition, fetch_offset=offset, partition_max_bytes=SAMPLE_BYTES
    )
    return FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=SAMPLE_BYTES,
        isolation_level=0,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
