"""Sends batches to the partitions' leaders, one round under way while the next is made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.produce_request import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.connection import Connection
from kafkaesque.spark.errors import Passing, Refused, check
from kafkaesque.spark.offsets import Partition

_VERSION = 9
_ALL_IN_SYNC = -1


@dataclass(slots=True)
class _Round:
    """Batches that are under way: at most one for each partition."""

    waiting: dict[Partition, bytearray]
    #: Where the answers are to come from, and the requests' numbers.
    requests: list[tuple[Connection, int]]


class BatchSender:
    """Delivers batches in each partition's order; a batch of a producer id counts once."""

    def __init__(self, cluster: Cluster, transactional_id: str | None) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._round: _Round | None = None

    def send(self, batches: Mapping[Partition, bytearray]) -> None:
        """Send a batch to each partition, after those sent before have been acknowledged.

        Raises: as `finish`.
        """
        self.finish()
        self._round = _Round(dict(batches), [])
        try:
            self._start(self._round)
        except (Passing, OSError):
            # `finish` tries again, and tells if it is in vain.
            self._cluster.close()
            self._round.requests.clear()

    def finish(self) -> None:
        """Wait until all that was sent is acknowledged by all replicas in sync.

        Raises:
            Fenced: somebody newer writes with this transactional id.
            Refused: a broker does not accept a batch. Unavailable: no answer in time.
        """
        current, self._round = self._round, None
        if current is None:
            return

        def attempt() -> None:
            if not current.requests:
                self._start(current)
            troubles: list[Passing] = []
            requests, current.requests = current.requests, []
            for leader, number in requests:
                troubles += self._take(leader.receive(number), current.waiting)
            if current.waiting:
                raise troubles[0] if troubles else Passing("a leader did not answer for all")

        self._cluster.retry("writing", attempt)

    def _start(self, current: _Round) -> None:
        by_leader: dict[str, tuple[Connection, dict[str, list[PartitionProduceData]]]] = {}
        for (topic, partition), batch in current.waiting.items():
            leader = self._cluster.leader(topic, partition)
            _, topics = by_leader.setdefault(leader.address, (leader, {}))
            topics.setdefault(topic, []).append(PartitionProduceData(partition, batch))
        timeout_ms = int(self._cluster.options.request_timeout_s * 1000)
        for leader, topics in by_leader.values():
            data = [TopicProduceData(name=name, partition_data=d) for name, d in topics.items()]
            request = ProduceRequest(self._transactional_id, _ALL_IN_SYNC, timeout_ms, data)
            current.requests.append((leader, leader.send(ApiKey.PRODUCE, _VERSION, request)))

    def _take(self, answer: Any, waiting: dict[Partition, bytearray]) -> list[Passing]:
        """Strike off what has been written and return the troubles that may pass."""
        troubles: list[Passing] = []
        for topic in answer.responses:
            for each in topic.partition_responses:
                try:
                    self._check(topic.name, each)
                except Passing as trouble:
                    troubles.append(trouble)
                else:
                    waiting.pop((topic.name, each.index), None)
        return troubles

    def _check(self, topic: str, each: Any) -> None:
        what = f"writing to partition {topic}-{each.index}"
        if each.error_code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            return
        if each.error_code == ErrorCode.MESSAGE_TOO_LARGE:
            raise Refused(
                f"{what}: a record or batch is larger than the topic's max.message.bytes",
                each.error_code,
            )
        if each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Refused(f"partition {topic}-{each.index} does not exist", each.error_code)
        check(each.error_code, what)
