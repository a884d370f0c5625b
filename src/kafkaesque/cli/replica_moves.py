"""Replicas that are moved: asked for, and watched until they are where they are to be.

librdkafka has no request for it: Kafka's own messages are sent.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.screen import Screen, counted
from kafkaesque.model.ids import NodeId
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.alter_partition_reassignments_request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kafkaesque.protocols.kafka.messages.alter_partition_reassignments_response import (
    AlterPartitionReassignmentsResponse,
)
from kafkaesque.protocols.kafka.messages.elect_leaders_request import (
    ElectLeadersRequest,
    TopicPartitions,
)
from kafkaesque.protocols.kafka.messages.elect_leaders_response import ElectLeadersResponse
from kafkaesque.protocols.kafka.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from kafkaesque.protocols.kafka.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponse

POLL_S = 0.3
REQUEST_TIMEOUT_MS = 30_000
#: Partitions that one request names.
PER_REQUEST_MAX = 1_000
#: Partitions that one sentence names.
NAMED_MAX = 5
_METADATA_VERSION = 7
_ELECT_VERSION = 2
_PREFERRED, _UNCLEAN = 0, 1
#: So much longer than the brokers may take it is waited for their answer.
ANSWER_SPARE_S = 5.0


class Where(NamedTuple):
    """A partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything is."""

    #: The brokers that are up, each with its rack.
    racks: Mapping[NodeId, str | None]
    #: The replicas of each partition, the preferred leader first.
    placed: Mapping[Where, tuple[NodeId, ...]]


def read_layout(bootstrap: str) -> Layout:
    """Ask where everything is.

    Raises:
        CommandFailed: nobody answers.
    """
    request = MetadataRequest(None, allow_auto_topic_creation=False)
    answer: MetadataResponse = ask(bootstrap, ApiKey.METADATA, _METADATA_VERSION, request)
    return Layout(
        racks={NodeId(broker.node_id): broker.rack for broker in answer.brokers},
        placed={
            Where(topic.name or "", partition.partition_index): tuple(
                NodeId(node) for node in partition.replica_nodes
            )
            for topic in answer.topics
            for partition in topic.partitions
        },
    )


def read_moving(bootstrap: str) -> dict[Where, tuple[list[int], list[int], list[int]]]:
    """Return replicas, those that are added and those that are removed, where they move.

    Raises:
        CommandFailed: nobody answers.
    """
    request = ListPartitionReassignmentsRequest(REQUEST_TIMEOUT_MS, None)
    answer: ListPartitionReassignmentsResponse = ask(
        bootstrap, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request
    )
    return {
        Where(topic.name, each.partition_index): (
            list(each.replicas),
            list(each.adding_replicas),
            list(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def request_moves(
    bootstrap: str, moves: Mapping[Where, Sequence[int] | None], *, is_idle_well: bool = False
) -> None:
    """Ask for other replicas; None stops a move, which with `is_idle_well` need not be there.

    Raises:
        CommandFailed: nobody answers, or something is refused; the rest is under way then.
    """
    wanted = list(moves.items())
    refused: list[str] = []
    for begin in range(0, len(wanted), PER_REQUEST_MAX):
        topics: dict[str, list[ReassignablePartition]] = {}
        for where, replicas in wanted[begin : begin + PER_REQUEST_MAX]:
            topics.setdefault(where.topic, []).append(
                ReassignablePartition(where.partition, replicas)
            )
        request = AlterPartitionReassignmentsRequest(
            REQUEST_TIMEOUT_MS,
            topics=[ReassignableTopic(name, parts) for name, parts in topics.items()],
        )
        answer: AlterPartitionReassignmentsResponse = ask(
            bootstrap, ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request
        )
        if answer.error_code:
            raise CommandFailed(f"the moves were refused: {answer.error_message}")
        for topic in answer.responses:
            for each in topic.partitions:
                if is_idle_well and each.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    continue
                if each.error_code:
                    refused.append(f"{topic.name}-{each.partition_index}: {each.error_message}")
    if refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise CommandFailed(f"{refused[0]}{more}", hint="kafkaesque cluster status")


def await_moves(screen: Screen, bootstrap: str, moves: Sequence[Where], timeout_s: float) -> None:
    """Wait until the replicas of these partitions are where they are to be.

    Raises:
        CommandFailed: nobody answers, or it takes longer; they go on moving then.
    """
    left = set(moves)
    deadline = time.monotonic() + timeout_s
    with screen.progress("partitions", len(left)) as bar:
        while True:
            still = left & set(read_moving(bootstrap))
            bar.advance(len(left) - len(still))
            left = still
            if not left:
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(POLL_S)
    names = sorted(map(str, left))
    shown = ", ".join(names[:NAMED_MAX]) + (", ..." if len(names) > NAMED_MAX else "")
    raise CommandFailed(
        f"{counted(len(left), 'partition')} still on the move after {timeout_s:g} s: {shown}; they "
        "go on, unless a broker that is to get a copy is down",
        hint="kafkaesque cluster status, or kafkaesque topic reassign TOPIC --cancel",
        exit_code=TIMED_OUT,
    )


def elect_preferred(bootstrap: str) -> int:
    """Let first replicas lead where they are in sync; return of how many partitions.

    Raises:
        CommandFailed: nobody answers.
    """
    request = ElectLeadersRequest(_PREFERRED, None, REQUEST_TIMEOUT_MS)
    answer: ElectLeadersResponse = ask(bootstrap, ApiKey.ELECT_LEADERS, _ELECT_VERSION, request)
    return sum(
        not each.error_code
        for topic in answer.replica_election_results
        for each in topic.partition_result
    )


def elect_leaders(
    bootstrap: str, wanted: Sequence[Where], *, is_unclean: bool, timeout_s: float
) -> tuple[list[Where], dict[Where, str]]:
    """Have leaders elected; return where that was done, and where not, with the reason.

    What needs no election is in neither.

    Raises:
        CommandFailed: nobody answers.
    """
    named: dict[str, list[int]] = {}
    for where in wanted:
        named.setdefault(where.topic, []).append(where.partition)
    kind = _UNCLEAN if is_unclean else _PREFERRED
    topics = [TopicPartitions(name, numbers) for name, numbers in named.items()]
    request = ElectLeadersRequest(kind, topics, int(timeout_s * 1000))
    answer: ElectLeadersResponse = ask(
        bootstrap,
        ApiKey.ELECT_LEADERS,
        _ELECT_VERSION,
        request,
        timeout_s=timeout_s + ANSWER_SPARE_S,
    )
    elected: list[Where] = []
    refused: dict[Where, str] = {}
    for topic in answer.replica_election_results:
        for each in topic.partition_result:
            where = Where(topic.topic, each.partition_id)
            if not each.error_code:
                elected.append(where)
            elif each.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                name = ErrorCode(each.error_code).name
                refused[where] = str(each.error_message or name)
    return elected, refused
