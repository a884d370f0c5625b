"""What a leader knows of why messages of a partition wait: the part `why-partitions`."""

from typing import Final

from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import PartPage, PartServer
from kafkaesque.admin.api.why_links import (
    OpenTransaction,
    WhyPartition,
    WhyPartitionAnswer,
    WhyPartitionQuestion,
)
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.chassis.readable_logs import (
    extent_of,
    is_view,
    readable_end,
    replicas_led,
)
from kafkaesque.model.errors import InvalidRequest

WHY_PARTITIONS: Final = PartPage(
    name="why-partitions", question=WhyPartitionQuestion, answer=WhyPartitionAnswer
)
#: Partitions that one question names.
PARTITIONS_MAX: Final = 1_000
#: Transactions that are told of one partition.
OPEN_MAX: Final = 10


def register(context: Context, server: PartServer) -> None:
    """Have this part served."""
    server.register(WHY_PARTITIONS, lambda question, done: done(_answer(context, question)))


def _answer(context: Context, question: WhyPartitionQuestion) -> WhyPartitionAnswer:
    if sum(map(len, question.partitions.values())) > PARTITIONS_MAX:
        raise InvalidRequest(f"at most {PARTITIONS_MAX} partitions are described at once")
    refusal = context.doors.condition.store.refusal
    told = None if refusal is None else str(refusal)
    led = replicas_led(context.doors, question.partitions)
    found = [_describe(context, topic, partition, told) for topic, partition in led]
    return WhyPartitionAnswer(partitions=found, disk_refusal=told)


def _describe(
    context: Context, topic: str, partition: Partition, refusal: str | None
) -> WhyPartition:
    config, replica = partition.config, partition.replica
    is_open = partition.last_stable_offset < partition.high_watermark
    producers = partition.producers.describe() if is_open else []
    open_ones = sorted(
        (
            OpenTransaction(
                each.producer_id,
                each.epoch,
                each.transaction_start_offset,
                each.last_timestamp_ms,
            )
            for each in producers
            if each.transaction_start_offset >= 0
        ),
        key=lambda each: each.start_offset,
    )
    start, stable, end = (
        partition.log_start_offset,
        partition.last_stable_offset,
        partition.log.end_offset,
    )
    if is_view(partition):
        start, stable = extent_of(context.doors, partition)
        end = stable
    return WhyPartition(
        topic=topic,
        partition=partition.state.partition,
        start_offset=start,
        high_watermark=readable_end(context.doors, partition),
        stable_offset=stable,
        end_offset=end,
        in_sync=[] if replica is None else sorted(replica.in_sync()),
        min_in_sync=config.min_insync_replicas,
        disk_refusal=refusal,
        open=open_ones[:OPEN_MAX],
        cleanup_policy=",".join(config.cleanup_policy),
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
    )
