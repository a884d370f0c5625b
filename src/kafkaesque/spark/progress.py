"""A query's progress as offsets of a group, for those who watch its lag."""

from __future__ import annotations

from collections.abc import Mapping

from kafkaesque.model.sink_markers import PROGRESS_MARK
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkaesque.spark.cluster import GROUP, Cluster
from kafkaesque.spark.errors import check
from kafkaesque.spark.offsets import Partition

_VERSION = 8


def commit_progress(cluster: Cluster, group_id: str, offsets: Mapping[Partition, int]) -> None:
    """Commit the offsets at which a query goes on, as a client without membership.

    Raises:
        Unavailable: no answer in time. Refused: the group has members of its own, or a topic of
            the offsets is gone.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        part = OffsetCommitRequestPartition(partition, offset, committed_metadata=PROGRESS_MARK)
        topics.setdefault(topic, []).append(part)
    request = OffsetCommitRequest(
        group_id,
        topics=[
            OffsetCommitRequestTopic(name=topic, partitions=parts)
            for topic, parts in topics.items()
        ],
    )

    def attempt() -> None:
        coordinator = cluster.coordinator(GROUP, group_id)
        answer = coordinator.ask(ApiKey.OFFSET_COMMIT, _VERSION, request)
        for topic in answer.topics:
            for each in topic.partitions:
                check(each.error_code, f"committing to group {group_id!r}")

    if topics:
        cluster.retry(f"committing to group {group_id!r}", attempt)
