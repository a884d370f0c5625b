"""DeleteRecords, DescribeLogDirs and AlterReplicaLogDirs: what is done to partitions in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkaesque.access.audit import DataChange
from kafkaesque.access.operations import ResourceType
from kafkaesque.broker.doors import Doors
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.commands import Done
from kafkaesque.gateway.kafka.call import Call
from kafkaesque.gateway.kafka.context import Context
from kafkaesque.gateway.kafka.data_changes import tell_parts
from kafkaesque.gateway.kafka.errors import code_of
from kafkaesque.gateway.kafka.gathering import Queue
from kafkaesque.gateway.kafka.topic_admin import TIMEOUT_MS_MAX, Piece
from kafkaesque.model.errors import (
    DiskFailed,
    LeaderNotAvailable,
    NotLeader,
    OffsetOutOfRange,
    RequestRefused,
)
from kafkaesque.model.ids import Offset, TopicPartition
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDirsRequest,
)
from kafkaesque.protocols.kafka.messages.alter_replica_log_dirs_response import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkaesque.protocols.kafka.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
)
from kafkaesque.protocols.kafka.messages.delete_records_response import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkaesque.protocols.kafka.messages.describe_log_dirs_request import DescribeLogDirsRequest
from kafkaesque.protocols.kafka.messages.describe_log_dirs_response import (
    DescribeLogDirsPartition,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

#: Stands for the high watermark in DeleteRecords.
_HIGH_WATERMARK = -1
_NO_OFFSET = -1


# -- DeleteRecords


def on_delete_records(context: Context, call: Call) -> None:
    """Give up what is before offsets; answered when all replicas in sync have done so."""
    request: DeleteRecordsRequest = call.read()
    timeout_ms = max(0, min(request.timeout_ms, TIMEOUT_MS_MAX))
    pieces: list[Piece] = []
    topics: list[DeleteRecordsTopicResult] = []
    for topic in request.topics:
        results = [
            DeleteRecordsPartitionResult(wanted.partition_index, _NO_OFFSET, 0)
            for wanted in topic.partitions
        ]
        topics.append(DeleteRecordsTopicResult(topic.name, results))
        for wanted, result in zip(topic.partitions, results, strict=True):
            pieces.append(_deletion(context.doors, topic.name, wanted, timeout_ms, result))
    response = DeleteRecordsResponse(topics=topics)

    def answer() -> None:
        for each in topics:
            parts = [
                (p.error_code, f"{p.partition_index}: before {p.low_watermark}")
                for p in each.partitions
            ]
            change = DataChange.DELETE_RECORDS
            tell_parts(context, call, change, ResourceType.TOPIC, each.name, parts)
        call.answer(response)

    Queue(context.clock, pieces, answer).start()


def _deletion(
    doors: Doors,
    name: str,
    wanted: DeleteRecordsPartition,
    timeout_ms: int,
    result: DeleteRecordsPartitionResult,
) -> Piece:
    def run(on_done: Callable[[], None]) -> None:
        try:
            partition = doors.topics.deletable(TopicPartition(name, wanted.partition_index))
            start = _wanted_start(partition, wanted.offset)
        except RequestRefused as refusal:
            result.error_code = code_of(refusal)
            on_done()
            return
        if "delete" not in partition.config.cleanup_policy:
            result.error_code = ErrorCode.POLICY_VIOLATION
            on_done()
            return

        def on_outcome(outcome: Done | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                result.error_code = code_of(outcome)
            else:
                result.low_watermark = partition.log_start_offset
            on_done()

        doors.topics.delete_records(partition, start, timeout_ms, on_outcome)

    return run


def _wanted_start(partition: Partition, wanted: int) -> Offset:
    high_watermark = partition.high_watermark
    offset = high_watermark if wanted == _HIGH_WATERMARK else Offset(wanted)
    if not 0 <= offset <= high_watermark:
        raise OffsetOutOfRange(f"{offset} is not from 0 to the high watermark {high_watermark}")
    return offset


# -- DescribeLogDirs

#: Where the disk does not say.
_UNKNOWN_SIZE = -1


def on_describe_log_dirs(context: Context, call: Call) -> None:
    """Say how large the partitions on this broker are, and the disk's volume (KIP-827)."""
    request: DescribeLogDirsRequest = call.read()
    doors = context.doors
    wanted: dict[str, Sequence[int]] | None = None
    if request.topics is not None:
        wanted = {topic.topic: topic.partitions for topic in request.topics}
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    for partition in doors.reading.all_here():
        state = partition.state
        if wanted is None or state.partition in wanted.get(state.topic, ()):
            topics.setdefault(state.topic, []).append(_describe_size(partition))
    total_bytes, usable_bytes = _space(doors)
    result = DescribeLogDirsResult(
        error_code=ErrorCode.NONE
        if doors.condition.life.failure is None
        else ErrorCode.KAFKA_STORAGE_ERROR,
        log_dir=doors.configuration.file.data_dir,
        topics=[DescribeLogDirsTopic(name, sizes) for name, sizes in topics.items()],
        total_bytes=total_bytes,
        usable_bytes=usable_bytes,
    )
    call.answer(DescribeLogDirsResponse(results=[result]))


def _space(doors: Doors) -> tuple[int, int]:
    disk = doors.condition.disk
    try:
        return disk.total_bytes(), disk.free_bytes()
    except DiskFailed:
        return _UNKNOWN_SIZE, _UNKNOWN_SIZE


def _describe_size(partition: Partition) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=partition.state.partition,
        partition_size=partition.log.size_bytes,
        offset_lag=0,
    )


# -- AlterReplicaLogDirs


def on_alter_replica_log_dirs(context: Context, call: Call) -> None:
    """Say of replicas whether they are in the directory that they are wanted in: there is one."""
    request: AlterReplicaLogDirsRequest = call.read()
    # The last directory that is named for a replica counts.
    wanted = {
        TopicPartition(topic.name, index): each.path
        for each in request.dirs
        for topic in each.topics
        for index in topic.partitions
    }
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for where, path in wanted.items():
        result = AlterReplicaLogDirPartitionResult(
            where.partition, _error_of_move(context.doors, where, path)
        )
        topics.setdefault(where.topic, []).append(result)
    results = [AlterReplicaLogDirTopicResult(name, parts) for name, parts in topics.items()]
    call.answer(AlterReplicaLogDirsResponse(results=results))


def _error_of_move(doors: Doors, where: TopicPartition, path: str) -> ErrorCode:
    if path != doors.configuration.file.data_dir:
        return ErrorCode.LOG_DIR_NOT_FOUND
    if doors.condition.life.failure is not None:
        return ErrorCode.KAFKA_STORAGE_ERROR
    try:
        doors.reading.partition(where)
    except (NotLeader, LeaderNotAvailable):
        return ErrorCode.REPLICA_NOT_AVAILABLE
    except RequestRefused as refusal:
        return code_of(refusal)
    return ErrorCode.NONE
