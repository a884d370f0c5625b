"""Where groups are: what they have committed, and the ends of what they read."""

from collections.abc import Callable, Iterable, Sequence

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafkaesque.cli.addresses import REQUEST_TIMEOUT_S
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka import Connection, result_of
from kafkaesque.cli.missing_rules import Right, missing_rule, on_group, on_topic

Partition = tuple[str, int]

READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
READ_COMMITTED = IsolationLevel.READ_COMMITTED


def committed_offsets(admin: AdminClient, group: str) -> dict[Partition, int]:
    """Return the offsets that a group has committed.

    Raises:
        CommandFailed: its coordinator does not answer.
    """
    request = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = (
        result_of(request[group], f"group {group}", on_group("describe", group)).topic_partitions
        or []
    )
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def list_offsets(
    admin: AdminClient,
    partitions: Iterable[Partition],
    spec: Callable[[Partition], OffsetSpec],
) -> dict[Partition, int]:
    """Return the offset of each partition that its specification means; -1 where there is none.

    Raises:
        CommandFailed: a partition does not exist or has no leader.
    """
    found, failures = find_offsets(admin, partitions, spec)
    if failures:
        raise failures[0]
    return found


def find_offsets(
    admin: AdminClient,
    partitions: Iterable[Partition],
    spec: Callable[[Partition], OffsetSpec],
    isolation_level: IsolationLevel = READ_UNCOMMITTED,
) -> tuple[dict[Partition, int], list[CommandFailed]]:
    """Return the offset of each partition that can be asked, and why others cannot."""
    request = {TopicPartition(*each): spec(each) for each in partitions}
    if not request:
        return {}, []
    found, failures = {}, []
    answers = admin.list_offsets(
        request, isolation_level=isolation_level, request_timeout=REQUEST_TIMEOUT_S
    )
    for each, future in answers.items():
        try:
            what = f"partition {each.topic}-{each.partition}"
            result = result_of(future, what, on_topic("describe", each.topic))
        except CommandFailed as failure:
            failures.append(failure)
        else:
            found[each.topic, each.partition] = result.offset
    return found, failures


def commit_for(admin: AdminClient, group: str, offsets: dict[Partition, int]) -> Sequence[str]:
    """Commit in the name of a group that has no members; return what was refused, in sentences.

    Raises:
        CommandFailed: all of it was refused.
    """
    if not offsets:
        return []
    wanted = [TopicPartition(*partition, offset) for partition, offset in offsets.items()]
    request = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])
    read = on_group("read", group)
    done = result_of(next(iter(request.values())), f"group {group}", read)
    refused = [
        _refusal(each.error, f"{each.topic}-{each.partition}", on_topic("read", each.topic))
        for each in done.topic_partitions or ()
        if each.error is not None
    ]
    return list(dict.fromkeys(refused))


def _refusal(error: KafkaError, partition: str, right: Right) -> str:
    missing = missing_rule(error.code(), Connection.latest, right)
    if missing is not None:
        return f"{missing.message}; {missing.hint}"
    return f"{partition}: {error.str()}"
