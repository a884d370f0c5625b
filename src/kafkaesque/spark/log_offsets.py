"""Asking the partitions' leaders where their logs begin and end, and what was when."""

from __future__ import annotations

from collections.abc import Mapping

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.connection import Connection
from kafkaesque.spark.errors import Passing, Refused, check
from kafkaesque.spark.offsets import Offsets, Partition

_VERSION = 6
#: What a leader answers where no record is as late as the time that was asked for.
NOT_FOUND = -1


def list_offsets(
    cluster: Cluster, wanted: Mapping[Partition, int], *, is_read_committed: bool
) -> Offsets:
    """Return an offset for each partition: of LATEST, EARLIEST or the first one at a time.

    With `is_read_committed` the latest is the last stable offset.

    Raises:
        Unavailable: a leader did not answer in time. Refused: there is no such partition.
    """
    found: Offsets = {}

    def attempt() -> None:
        missing = {each: time for each, time in wanted.items() if each not in found}
        by_leader: dict[str, tuple[Connection, dict[Partition, int]]] = {}
        for (topic, partition), time in missing.items():
            leader = cluster.leader(topic, partition)
            _, part = by_leader.setdefault(leader.address, (leader, {}))
            part[topic, partition] = time
        numbers = [
            (leader, leader.send(ApiKey.LIST_OFFSETS, _VERSION, _request(part, is_read_committed)))
            for leader, part in by_leader.values()
        ]
        troubles: list[Passing] = []
        for leader, number in numbers:
            troubles += _take(leader.receive(number), found)
        if troubles:
            raise troubles[0]

    if wanted:
        cluster.retry("asking for offsets", attempt)
    return {each: found[each] for each in wanted}


def _request(part: Mapping[Partition, int], is_read_committed: bool) -> ListOffsetsRequest:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for (topic, partition), time in part.items():
        topics.setdefault(topic, []).append(ListOffsetsPartition(partition, -1, time))
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(is_read_committed),
        topics=[ListOffsetsTopic(topic, partitions) for topic, partitions in topics.items()],
    )


def _take(answer: object, found: Offsets) -> list[Passing]:
    """Put offsets into `found` and return the troubles that may pass."""
    troubles: list[Passing] = []
    for topic in getattr(answer, "topics", ()):
        for each in topic.partitions:
            what = f"partition {topic.name}-{each.partition_index}"
            try:
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise Refused(f"{what} does not exist", each.error_code)
                check(each.error_code, what)
            except Passing as trouble:
                troubles.append(trouble)
            else:
                found[topic.name, each.partition_index] = each.offset
    return troubles
