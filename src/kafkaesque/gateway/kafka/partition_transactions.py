"""DescribeProducers and WriteTxnMarkers: the partitions' side of transactions, from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.topic_names import TRANSACTIONS_TOPIC
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.data_changes import tell_parts
from kafkaesque.gateway.kafka.errors import code_of, message_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.errors import InvalidRequest, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.describe_producers_request import DescribeProducersRequest
from kafkaesque.protocols.kafka.messages.describe_producers_response import (
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kafkaesque.protocols.kafka.messages.write_txn_markers_request import (
    WritableTxnMarker,
    WriteTxnMarkersRequest,
)
from kafkaesque.protocols.kafka.messages.write_txn_markers_response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

#: So long a marker may take to be committed; the request has no timeout of its own.
MARKER_TIMEOUT_MS = 30_000
#: From this version of transactions on a marker's epoch is above that of its batches (KIP-890).
_VERSION_WITH_BUMPED_EPOCHS = 2

Piece = Callable[[Callable[[], None]], None]


# -- DescribeProducers


def on_describe_producers(context: Context, call: Call) -> None:
    """Say which producers partitions know; those that this broker leads (KIP-664)."""
    request: DescribeProducersRequest = call.read()
    pieces: list[Piece] = []
    topics: list[TopicResponse] = []
    for topic in request.topics:
        results = [PartitionResponse(index) for index in topic.partition_indexes]
        topics.append(TopicResponse(topic.name, results))
        pieces += [_description(context.doors, topic.name, result) for result in results]
    response = DescribeProducersResponse(topics=topics)
    Queue(context.clock, pieces, lambda: call.answer(response)).start()


def _description(doors: Doors, name: str, result: PartitionResponse) -> Piece:
    def run(on_done: Callable[[], None]) -> None:
        try:
            partition = doors.reading.partition(TopicPartition(name, result.partition_index))
            partition.check_leader()
        except RequestRefused as refusal:
            result.error_code = code_of(refusal)
            result.error_message = message_of(refusal)
        else:
            # Clients are not told where its last batch ends.
            result.active_producers = [
                ProducerState(*each[:-1]) for each in partition.producers.describe()
            ]
        on_done()

    return run


# -- WriteTxnMarkers


def on_write_txn_markers(context: Context, call: Call) -> None:
    """End transactions in partitions that this broker leads; answered when that is committed.

    Brokers tell each other in another way. Who sends this is a tool that ends a transaction which
    hangs (KIP-664).
    """
    request: WriteTxnMarkersRequest = call.read()
    pieces: list[Piece] = []
    results: list[WritableTxnMarkerResult] = []
    for marker in request.markers:
        topics: list[WritableTxnMarkerTopicResult] = []
        for topic in marker.topics:
            partitions = [
                WritableTxnMarkerPartitionResult(index, ErrorCode.UNKNOWN_SERVER_ERROR)
                for index in topic.partition_indexes
            ]
            topics.append(WritableTxnMarkerTopicResult(topic.name, partitions))
            pieces += [_marking(context.doors, marker, topic.name, each) for each in partitions]
        results.append(WritableTxnMarkerResult(marker.producer_id, topics))
    response = WriteTxnMarkersResponse(markers=results)

    def answer() -> None:
        _tell(context, call, request, results)
        call.answer(response)

    Queue(context.clock, pieces, answer).start()


def _tell(
    context: Context,
    call: Call,
    request: WriteTxnMarkersRequest,
    results: Sequence[WritableTxnMarkerResult],
) -> None:
    """Tell the audit log what was ended without a coordinator's decision."""
    for marker, result in zip(request.markers, results, strict=True):
        is_commit = marker.transaction_result
        change = DataChange.COMMIT_TRANSACTION if is_commit else DataChange.ABORT_TRANSACTION
        for topic in result.topics:
            parts = [
                (each.error_code, f"{each.partition_index}: producer {marker.producer_id}")
                for each in topic.partitions
            ]
            tell_parts(context, call, change, ResourceType.TOPIC, topic.name, parts)


def _check_coordinator_epoch(doors: Doors, epoch: int) -> None:
    """Make sure that a coordinator may have this epoch, as far as is known here.

    After a marker of an epoch that lies far ahead, no coordinator could end a transaction of that
    producer in the partition any more.

    Raises:
        InvalidRequest: none can have it yet.
    """
    topic = doors.cluster.state.topics.get(TRANSACTIONS_TOPIC)
    if topic is None:
        return
    leaders = [doors.cluster.leaders.get(partition.group) for partition in topic.partitions]
    known = [leader.term for leader in leaders if leader is not None]
    if len(known) == len(leaders) and epoch > max(known):
        raise InvalidRequest(f"no coordinator has had the epoch {epoch} yet")


def _marking(
    doors: Doors,
    marker: WritableTxnMarker,
    name: str,
    result: WritableTxnMarkerPartitionResult,
) -> Piece:
    def run(on_done: Callable[[], None]) -> None:
        def on_outcome(outcome: ProduceResult | RequestRefused) -> None:
            result.error_code = code_of(outcome) if isinstance(outcome, RequestRefused) else 0
            on_done()

        try:
            _check_coordinator_epoch(doors, marker.coordinator_epoch)
            doors.reading.partition(TopicPartition(name, result.partition_index)).append_marker(
                EndMarker(
                    type=MarkerType.COMMIT if marker.transaction_result else MarkerType.ABORT,
                    coordinator_epoch=marker.coordinator_epoch,
                ),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                is_epoch_bumped=marker.transaction_version >= _VERSION_WITH_BUMPED_EPOCHS,
                timeout_ms=MARKER_TIMEOUT_MS,
                on_done=on_outcome,
            )
        except RequestRefused as refusal:
            on_outcome(refusal)

    return run
