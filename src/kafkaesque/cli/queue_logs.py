"""Logs that are no topics: those of queues, and of share groups' cursors over topics."""

from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.metadata.queue_names import DEFAULT_VHOST
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask, greet_all
from kafkaesque.cli.missing_rules import check_rule, on_cluster
from kafkaesque.cli.troubles import CLOSED
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.messages.describe_logs_request import DescribeLogsRequest
from kafkaesque.protocols.kafka.messages.describe_logs_response import (
    DescribedLog,
    DescribeLogsResponse,
    LogPartition,
)
from kafkaesque.protocols.kafka.wire import ZERO_UUID

_VERSION: Final = 0
#: Logs that are asked for at a time; brokers answer with no more.
LOGS_PER_REQUEST: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLog:
    """A log that is no topic."""

    #: By which requests name it.
    name: str
    #: What it is, for people.
    label: str
    partitions: tuple[LogPartition, ...]


def read_logs(bootstrap: str) -> list[QueueLog]:
    """Return all logs that are no topics; none if the brokers know of none, as Apache Kafka's.

    Raises:
        CommandFailed: nobody answers, or no rule allows to describe the cluster.
    """
    found: list[QueueLog] = []
    after, has_more = ZERO_UUID, True
    while has_more:
        request = DescribeLogsRequest(after, LOGS_PER_REQUEST)
        try:
            answer: DescribeLogsResponse = ask(bootstrap, ApiKey.DESCRIBE_LOGS, _VERSION, request)
        except CommandFailed as failure:
            # Brokers close the connection on a request that they do not know, and go on.
            if CLOSED not in failure.message or any(greet_all(bootstrap).values()):
                raise
            return []
        check_rule(answer.error_code, bootstrap, on_cluster("describe"))
        for each in answer.logs:
            found.append(
                QueueLog(name=each.log, label=_label(each), partitions=tuple(each.partitions))
            )
            after = each.log_id
        has_more = answer.has_more and bool(answer.logs)
    return found


def _label(log: DescribedLog) -> str:
    if log.share_group:
        return f"share group {log.share_group}, topic {log.topic}"
    where = "" if log.vhost == DEFAULT_VHOST else f" of virtual host {log.vhost}"
    return f"queue {log.queue}{where}"
