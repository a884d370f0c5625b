"""ListOffsets and OffsetForLeaderEpoch: where a log begins, ends, and was at some time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.chassis.readable_logs import extent_of, is_view, readable_replica
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.model.errors import OffsetNotAvailable, RequestRefused, StorageFailed
from kafkaesque.model.ids import Offset, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.list_offsets_request import (
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from kafkaesque.protocols.kafka.messages.list_offsets_response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkaesque.protocols.kafka.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
)
from kafkaesque.protocols.kafka.messages.offset_for_leader_epoch_response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kafkaesque.storage.group_log import GroupLog

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

#: Timestamps below zero stand for places in the log: each with the first version that has it.
_PLACES_SINCE_VERSION = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
#: From this version on clients know the error "offset not available".
_VERSION_WITH_OFFSET_NOT_AVAILABLE = 5

_READ_COMMITTED = 1
_UNKNOWN = -1

OnFound = Callable[[ListOffsetsPartitionResponse], None]


def on_list_offsets(context: Context, call: Call) -> None:
    """Say where logs begin and end, or which offset a time has; asks the disk off the loop."""
    request: ListOffsetsRequest = call.read()
    _ListOffsets(context.doors, call, request).start()


class _ListOffsets:
    """A request whose partitions are looked up; some of them off the loop."""

    __slots__ = ("_call", "_doors", "_request", "_topics")

    def __init__(self, doors: Doors, call: Call, request: ListOffsetsRequest) -> None:
        self._doors = doors
        self._call = call
        self._request = request
        self._topics: list[ListOffsetsTopicResponse] = []

    def start(self) -> None:
        """Look up every partition; the answer follows the last one."""
        pieces: list[Callable[[Callable[[], None]], None]] = []
        named: dict[tuple[str, int], int] = {}
        for topic in self._request.topics:
            for wanted in topic.partitions:
                key = (topic.name, wanted.partition_index)
                named[key] = named.get(key, 0) + 1
        for topic in self._request.topics:
            outcomes: list[ListOffsetsPartitionResponse] = []
            self._topics.append(ListOffsetsTopicResponse(topic.name, outcomes))
            for wanted in topic.partitions:
                index = wanted.partition_index
                if named[topic.name, index] > 1:
                    outcomes.append(_failed(index, ErrorCode.INVALID_REQUEST))
                    continue
                outcomes.append(_failed(index, ErrorCode.UNKNOWN_SERVER_ERROR))
                pieces.append(self._piece(topic.name, wanted, outcomes))
        Queue(self._doors.clock, pieces, self._answer).start()

    def _piece(
        self,
        name: str,
        wanted: ListOffsetsPartition,
        outcomes: list[ListOffsetsPartitionResponse],
    ) -> Callable[[Callable[[], None]], None]:
        place = len(outcomes) - 1

        def run(on_done: Callable[[], None]) -> None:
            def on_found(found: ListOffsetsPartitionResponse) -> None:
                outcomes[place] = found
                on_done()

            try:
                self._look_up(name, wanted, on_found)
            except RequestRefused as refusal:
                on_found(_failed(wanted.partition_index, code_of(refusal)))

        return run

    def _answer(self) -> None:
        self._call.answer(ListOffsetsResponse(topics=self._topics))

    # -- one partition

    def _look_up(self, name: str, wanted: ListOffsetsPartition, on_found: OnFound) -> None:
        index, timestamp = wanted.partition_index, wanted.timestamp
        if timestamp < 0 and self._call.version < _PLACES_SINCE_VERSION.get(timestamp, 1 << 15):
            on_found(_failed(index, ErrorCode.UNSUPPORTED_VERSION))
            return
        partition = readable_replica(self._doors, TopicPartition(name, index))
        partition.check_leader(wanted.current_leader_epoch)
        if timestamp in (EARLIEST, EARLIEST_LOCAL):
            start = partition.log_start_offset
            epoch = epoch_at(partition.log, start)
            if is_view(partition):
                start = extent_of(self._doors, partition).start
            on_found(_found(index, _UNKNOWN, start, epoch))
        elif timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            # Nothing is ever moved to another tier.
            on_found(_found(index, _UNKNOWN, _UNKNOWN, _UNKNOWN))
        elif timestamp == LATEST:
            if _is_lagging(partition):
                on_found(self._not_available(index))
            else:
                on_found(_found(index, _UNKNOWN, self._end(partition), partition.leader_epoch))
        elif timestamp == MAX_TIMESTAMP:
            partition.log.max_timestamp(self._on_located(partition, index, on_found))
        else:
            partition.log.offset_for_timestamp(
                timestamp, self._on_located(partition, index, on_found)
            )

    def _end(self, partition: Partition) -> Offset:
        """Return the offset after the last record that this client may read."""
        if is_view(partition):
            return extent_of(self._doors, partition).end
        if self._request.isolation_level == _READ_COMMITTED:
            return partition.last_stable_offset
        return partition.high_watermark

    def _not_available(self, index: int) -> ListOffsetsPartitionResponse:
        if self._call.version >= _VERSION_WITH_OFFSET_NOT_AVAILABLE:
            return _failed(index, ErrorCode.OFFSET_NOT_AVAILABLE)
        return _failed(index, ErrorCode.LEADER_NOT_AVAILABLE)

    def _on_located(
        self, partition: Partition, index: int, on_found: OnFound
    ) -> Callable[[tuple[int, Offset] | Exception | None], None]:
        def on_located(found: tuple[int, Offset] | Exception | None) -> None:
            try:
                on_found(self._judge(partition, index, found))
            except RequestRefused as refusal:
                on_found(_failed(index, code_of(refusal)))

        return on_located

    def _judge(
        self, partition: Partition, index: int, found: tuple[int, Offset] | Exception | None
    ) -> ListOffsetsPartitionResponse:
        """Return what a client may be told of a record that is in the log, maybe uncommitted."""
        if isinstance(found, OffsetNotAvailable):
            return self._not_available(index)
        if isinstance(found, RequestRefused):
            raise found
        if isinstance(found, Exception):
            raise StorageFailed(f"the log cannot be read: {found}")
        # Leadership may have been lost while the disk was read.
        partition.check_leader()
        if found is not None:
            timestamp_ms, offset = found
            if offset < self._end(partition):
                return _found(index, timestamp_ms, offset, epoch_at(partition.log, offset))
        if _is_lagging(partition):
            return self._not_available(index)
        return _found(index, _UNKNOWN, _UNKNOWN, _UNKNOWN)


def _found(
    index: int, timestamp_ms: int, offset: int, leader_epoch: int
) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, 0, timestamp_ms, offset, leader_epoch)


def _failed(index: int, code: ErrorCode) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(index, code, _UNKNOWN, _UNKNOWN, _UNKNOWN)


def _is_lagging(partition: Partition) -> bool:
    """Whether a fresh leader does not know yet how much of its log earlier leaders committed.

    Until an entry of its own term is committed, its high watermark may be behind what consumers
    have already seen (KIP-207).
    """
    replica = partition.replica
    return (
        replica is not None
        and not replica.term_committed
        and partition.high_watermark < replica.next_offset
    )


def epoch_at(log: GroupLog, offset: int) -> int:
    """Return the leader epoch of the record at an offset, or the newest one before; -1 if none."""
    spans = log.term_spans
    at = bisect_right([span.first_index for span in spans], log.index_of_offset(offset))
    return spans[at - 1].term if at else _UNKNOWN


# -- OffsetForLeaderEpoch


def on_offset_for_leader_epoch(context: Context, call: Call) -> None:
    """Say where epochs ended, so that clients find out where their log and this one part."""
    request: OffsetForLeaderEpochRequest = call.read()
    topics = [
        OffsetForLeaderTopicResult(
            topic.topic,
            [_end_of_epoch(context.doors, topic.topic, wanted) for wanted in topic.partitions],
        )
        for topic in request.topics
    ]
    call.answer(OffsetForLeaderEpochResponse(topics=topics))


def _end_of_epoch(doors: Doors, name: str, wanted: OffsetForLeaderPartition) -> EpochEndOffset:
    try:
        partition = readable_replica(doors, TopicPartition(name, wanted.partition))
        partition.check_leader(wanted.current_leader_epoch)
    except RequestRefused as refusal:
        return EpochEndOffset(code_of(refusal), wanted.partition, _UNKNOWN, _UNKNOWN)
    epoch, end_offset = partition.end_of_epoch(wanted.leader_epoch)
    return EpochEndOffset(0, wanted.partition, epoch, end_offset)
