"""One task's transaction: whoever was before is fenced, and the micro-batch is written once.

The records and the marker that names the micro-batch become visible together or not at all. The
marker is an offset of a group named like the transactional id (ADR 11).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from kafkaesque.protocols.kafka.messages.add_partitions_to_txn_request import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kafkaesque.protocols.kafka.messages.end_txn_request import EndTxnRequest
from kafkaesque.protocols.kafka.messages.init_producer_id_request import InitProducerIdRequest
from kafkaesque.protocols.kafka.messages.offset_fetch_request import OffsetFetchRequest
from kafkaesque.protocols.kafka.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kafkaesque.protocols.kafka.wire import Message
from kafkaesque.spark.cluster import GROUP, TRANSACTION, Cluster
from kafkaesque.spark.errors import check
from kafkaesque.spark.offsets import Partition

#: The last versions in which the client itself adds partitions and keeps its epoch.
_INIT, _ADD, _ADD_OFFSETS, _COMMIT_OFFSETS, _END = 4, 3, 3, 3, 3
_FETCH_OFFSETS = 7
_NONE_COMMITTED = -1


@dataclass(frozen=True, slots=True)
class Marker:
    """What the task wrote that committed last."""

    batch_id: int
    rows: int
    size_bytes: int


class Transaction:
    """A transactional id's newest epoch; `open` before anything else."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._added: set[Partition] = set()

    def open(self) -> Marker | None:
        """Fence whoever had this id, end what it had open, and return what it committed last.

        Raises:
            Unavailable: no answer in time.
        """
        request = InitProducerIdRequest(self.transactional_id, self._timeout_ms)
        answer = self._ask(ApiKey.INIT_PRODUCER_ID, _INIT, request, lambda a: (a.error_code,))
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        return self._read_marker()

    def add(self, partitions: Iterable[Partition]) -> None:
        """Make partitions part of the transaction, before anything is sent to them.

        Raises:
            Fenced: somebody newer has this id.
        """
        new = sorted(set(partitions) - self._added)
        if not new:
            return
        topics: dict[str, list[int]] = {}
        for topic, partition in new:
            topics.setdefault(topic, []).append(partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(*each) for each in topics.items()],
        )
        self._ask(ApiKey.ADD_PARTITIONS_TO_TXN, _ADD, request, _codes_of_added)
        self._added.update(new)

    def commit(self, marker: Marker) -> None:
        """Make all that was sent visible, together with the marker; all has been acknowledged.

        Raises:
            Fenced: somebody newer has this id; nothing of it counts, unless it did before.
        """
        self._write_marker(marker)
        self._end(is_commit=True)

    def abort(self) -> None:
        """Take back what was sent.

        Raises:
            Fenced: somebody newer has this id, and has done so.
        """
        if self._added:
            self._end(is_commit=False)

    def _end(self, *, is_commit: bool) -> None:
        ids = (self.transactional_id, self.producer_id, self.producer_epoch)
        request = EndTxnRequest(*ids, is_commit)
        self._ask(ApiKey.END_TXN, _END, request, lambda answer: (answer.error_code,))
        self._added.clear()

    def _read_marker(self) -> Marker | None:
        request = OffsetFetchRequest(
            group_id=self.transactional_id, topics=None, require_stable=True
        )

        def attempt() -> Marker | None:
            coordinator = self._cluster.coordinator(GROUP, self.transactional_id)
            answer = coordinator.ask(ApiKey.OFFSET_FETCH, _FETCH_OFFSETS, request)
            what = f"reading the marker of {self.transactional_id}"
            check(answer.error_code, what)
            found: list[Marker] = []
            for topic in answer.topics:
                for each in topic.partitions:
                    check(each.error_code, what)
                    if each.committed_offset != _NONE_COMMITTED:
                        found.append(_parse(each.committed_offset, each.metadata))
            return max(found, key=lambda marker: marker.batch_id, default=None)

        return self._cluster.retry(f"reading the marker of {self.transactional_id}", attempt)

    def _write_marker(self, marker: Marker) -> None:
        ids = (self.transactional_id, self.producer_id, self.producer_epoch)
        self._ask(
            ApiKey.ADD_OFFSETS_TO_TXN,
            _ADD_OFFSETS,
            AddOffsetsToTxnRequest(*ids, self.transactional_id),
            lambda answer: (answer.error_code,),
        )
        # An offset belongs to a partition that exists: the first that was written to.
        topic, partition = min(self._added)
        words = json.dumps({"rows": marker.rows, "bytes": marker.size_bytes})
        offset = TxnOffsetCommitRequestPartition(
            partition, marker.batch_id, committed_metadata=words
        )
        request = TxnOffsetCommitRequest(
            self.transactional_id,
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, [offset])],
        )

        def attempt() -> None:
            coordinator = self._cluster.coordinator(GROUP, self.transactional_id)
            answer = coordinator.ask(ApiKey.TXN_OFFSET_COMMIT, _COMMIT_OFFSETS, request)
            for found in answer.topics:
                for each in found.partitions:
                    check(each.error_code, f"writing the marker of {self.transactional_id}")

        self._cluster.retry(f"writing the marker of {self.transactional_id}", attempt)

    def _ask(self, api_key: ApiKey, version: int, request: Message, codes: Any) -> Any:
        what = f"{api_key.name} of {self.transactional_id}"

        def attempt() -> Any:
            coordinator = self._cluster.coordinator(TRANSACTION, self.transactional_id)
            answer = coordinator.ask(api_key, version, request)
            for code in codes(answer):
                check(code, what)
            return answer

        return self._cluster.retry(what, attempt)


def _codes_of_added(answer: Any) -> list[int]:
    """Return the codes that say something: one failure makes the others OPERATION_NOT_ATTEMPTED."""
    codes = [
        each.partition_error_code
        for topic in answer.results_by_topic_v3_and_below
        for each in topic.results_by_partition
    ]
    said = [code for code in codes if code != ErrorCode.OPERATION_NOT_ATTEMPTED]
    return said or codes


def _parse(offset: int, metadata: str | None) -> Marker:
    try:
        found = json.loads(metadata or "")
        return Marker(offset, int(found["rows"]), int(found["bytes"]))
    except (ValueError, KeyError, TypeError):
        return Marker(offset, -1, -1)
