"""One task's transaction: whoever was before is fenced, and the micro-batch is written once.

The records and the marker that names the micro-batch become visible together or not at all. The
marker is an offset of a group named like the transactional id (ADR 11).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.errors import MalformedRequest
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
from kafkaesque.spark.connection import Connection
from kafkaesque.spark.errors import Passing, check
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


@dataclass(frozen=True, slots=True)
class _Request:
    """A request to one of the two coordinators, and the error codes in its answer."""

    coordinator: int
    api_key: ApiKey
    version: int
    message: Message
    codes: Callable[[Any], Iterable[int]]


class _Asking:
    """A request that is on its way while something else is done; made again where it fails."""

    def __init__(self, cluster: Cluster, transactional_id: str, request: _Request) -> None:
        self._cluster = cluster
        self._id = transactional_id
        self._request = request
        self._under_way: tuple[Connection, int] | None = None

    def start(self) -> None:
        """Send it; where that cannot be done, `finish` does, and tells."""
        with suppress(Passing, OSError, MalformedRequest):
            self._under_way = self._send()

    def finish(self) -> Any:
        """Return the answer.

        Raises:
            Fenced, Refused: that is the answer. Unavailable: none came in time.
        """
        what = f"{self._request.api_key.name} of {self._id}"

        def attempt() -> Any:
            under_way, self._under_way = self._under_way, None
            connection, number = under_way or self._send()
            answer = connection.receive(number)
            for code in self._request.codes(answer):
                check(code, what)
            return answer

        return self._cluster.retry(what, attempt)

    def settle(self) -> None:
        """Wait for the answer, whatever it is, so that the request cannot come later."""
        if self._under_way is not None:
            connection, number = self._under_way
            with suppress(OSError, MalformedRequest):
                connection.receive(number)

    def _send(self) -> tuple[Connection, int]:
        request = self._request
        coordinator = self._cluster.coordinator(request.coordinator, self._id)
        return coordinator, coordinator.send(request.api_key, request.version, request.message)


class Transaction:
    """A transactional id's newest epoch; `open` before anything else."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self.transactional_id = transactional_id
        self.producer_id = -1
        self.producer_epoch = -1
        self._cluster = cluster
        self._timeout_ms = timeout_ms
        self._added: set[Partition] = set()
        #: Making the marker's group part of the transaction, and the marker itself.
        self._adding_group: _Asking | None = None
        self._marking: _Asking | None = None

    def open(self) -> Marker | None:
        """Fence whoever had this id, end what it had open, and return what it committed last.

        Raises:
            Unavailable: no answer in time.
        """
        message = InitProducerIdRequest(self.transactional_id, self._timeout_ms)
        request = _Request(TRANSACTION, ApiKey.INIT_PRODUCER_ID, _INIT, message, _code)
        answer = self._asking(request).finish()
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
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(*each) for each in topics.items()],
        )
        request = _Request(
            TRANSACTION, ApiKey.ADD_PARTITIONS_TO_TXN, _ADD, message, _codes_of_added
        )
        adding = self._asking(request)
        adding.start()
        if self._adding_group is None:
            self._adding_group = self._add_group()
            self._adding_group.start()
        adding.finish()
        self._added.update(new)

    def send_marker(self, marker: Marker) -> None:
        """Make the marker part of the transaction; its answer is waited for by `commit`.

        Raises:
            Fenced: somebody newer has this id.
        """
        if self._adding_group is not None:
            self._adding_group.finish()
        self._marking = self._asking(self._marker_request(marker))
        self._marking.start()

    def commit(self) -> None:
        """Make all that was sent visible, together with the marker; all has been acknowledged.

        Raises:
            Fenced: somebody newer has this id; nothing of it counts, unless it did before.
        """
        if self._marking is not None:
            self._marking.finish()
        self._end(is_commit=True)

    def abort(self) -> None:
        """Take back what was sent.

        Raises:
            Fenced: somebody newer has this id, and has done so.
        """
        for asking in (self._adding_group, self._marking):
            if asking is not None:
                asking.settle()
        if self._adding_group is not None:
            self._end(is_commit=False)

    def _end(self, *, is_commit: bool) -> None:
        ids = (self.transactional_id, self.producer_id, self.producer_epoch)
        message = EndTxnRequest(*ids, is_commit)
        self._asking(_Request(TRANSACTION, ApiKey.END_TXN, _END, message, _code)).finish()
        self._added.clear()

    def _read_marker(self) -> Marker | None:
        message = OffsetFetchRequest(
            group_id=self.transactional_id, topics=None, require_stable=True
        )
        request = _Request(GROUP, ApiKey.OFFSET_FETCH, _FETCH_OFFSETS, message, _codes_of_fetched)
        answer = self._asking(request).finish()
        found = [
            _parse(each.committed_offset, each.metadata)
            for topic in answer.topics
            for each in topic.partitions
            if each.committed_offset != _NONE_COMMITTED
        ]
        return max(found, key=lambda marker: marker.batch_id, default=None)

    def _add_group(self) -> _Asking:
        ids = (self.transactional_id, self.producer_id, self.producer_epoch)
        message = AddOffsetsToTxnRequest(*ids, self.transactional_id)
        return self._asking(
            _Request(TRANSACTION, ApiKey.ADD_OFFSETS_TO_TXN, _ADD_OFFSETS, message, _code)
        )

    def _marker_request(self, marker: Marker) -> _Request:
        # An offset belongs to a partition that exists: the first that was written to.
        topic, partition = min(self._added)
        words = json.dumps({"rows": marker.rows, "bytes": marker.size_bytes})
        offset = TxnOffsetCommitRequestPartition(
            partition, marker.batch_id, committed_metadata=words
        )
        message = TxnOffsetCommitRequest(
            self.transactional_id,
            self.transactional_id,
            self.producer_id,
            self.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(topic, [offset])],
        )
        return _Request(GROUP, ApiKey.TXN_OFFSET_COMMIT, _COMMIT_OFFSETS, message, _codes_of_topics)

    def _asking(self, request: _Request) -> _Asking:
        return _Asking(self._cluster, self.transactional_id, request)


def _code(answer: Any) -> list[int]:
    return [answer.error_code]


def _codes_of_topics(answer: Any) -> list[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]


def _codes_of_fetched(answer: Any) -> list[int]:
    return [answer.error_code, *_codes_of_topics(answer)]


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
