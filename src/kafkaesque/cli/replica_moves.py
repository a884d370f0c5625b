"""Replicas that are moved: asked for, and watched until they are where they are to be.

librdkafka has no request for it: Kafka's own messages are sent. Whoever leads the controllers is
asked where everything is: another broker may not have heard of it yet.
"""

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkaesque.cli.alive_brokers import controller_first, read_alive
from kafkaesque.cli.exit_codes import TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.long_wait import LongWait
from kafkaesque.cli.missing_rules import check_rule, on_cluster
from kafkaesque.cli.moving_replicas import Move, Where, read_moving
from kafkaesque.cli.queue_logs import read_logs
from kafkaesque.cli.screen import Screen, counted
from kafkaesque.cli.terminal import takes_escapes
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
from kafkaesque.protocols.kafka.messages.metadata_request import (
    MetadataRequest,
    MetadataRequestTopic,
)
from kafkaesque.protocols.kafka.messages.metadata_response import MetadataResponse

POLL_S = 0.3
REQUEST_TIMEOUT_MS = 30_000
#: Partitions that one request names.
PER_REQUEST_MAX = 1_000
#: Partitions that one sentence names.
NAMED_MAX = 5
#: So long a wait goes on though nobody says how far it is: a controller is elected meanwhile.
SILENCE_S_MAX = 60.0
_METADATA_VERSION = 7
_ELECT_VERSION = 2
_PREFERRED, _UNCLEAN = 0, 1
#: So much longer than the brokers may take it is waited for their answer.
ANSWER_SPARE_S = 5.0

#: Tells of a partition's replicas whether they are those that were asked for.
Arrived = Callable[[Sequence[int]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything is."""

    #: The brokers that are up, each with its rack.
    racks: Mapping[NodeId, str | None]
    #: The replicas of each partition, the preferred leader first; while they move, old and new.
    placed: Mapping[Where, tuple[NodeId, ...]]
    moving: Mapping[Where, Move]
    #: Where there is a leader: who it is, and who is in sync.
    led: Mapping[Where, tuple[NodeId, Sequence[int]]] = field(default_factory=dict)

    @property
    def to_lead(self) -> dict[Where, NodeId]:
        """The preferred replicas that do not lead and could."""
        preferred = {where: self.placed[where][0] for where in self.led if self.placed[where]}
        return {
            where: node
            for where, node in preferred.items()
            if node != self.led[where][0] and node in self.led[where][1] and node in self.racks
        }

    @property
    def lasting(self) -> dict[Where, tuple[NodeId, ...]]:
        """The replicas that there will be when all moves are over."""
        return {
            where: tuple(map(NodeId, self.moving[where].target))
            if where in self.moving
            else replicas
            for where, replicas in self.placed.items()
        }


def read_layout(bootstrap: str) -> Layout:
    """Ask whoever leads the controllers where everything is.

    Raises:
        CommandFailed: nobody answers, or no controller leads.
    """
    asked = controller_first(bootstrap)
    moving = read_moving(asked)
    alive = read_alive(asked)
    partitions = {
        Where(topic.name or "", each.partition_index): _Placed(
            each.replica_nodes, each.leader_id, each.isr_nodes
        )
        for topic in _metadata(asked, None).topics
        for each in topic.partitions
    }
    partitions |= {
        Where(log.name, each.partition_index, log.label): _Placed(
            each.replicas, each.leader_id, each.in_sync
        )
        for log in read_logs(asked)
        for each in log.partitions
    }
    return Layout(
        racks={NodeId(node): broker.rack for node, broker in alive.items()},
        placed={
            where: tuple(NodeId(node) for node in each.replicas)
            for where, each in partitions.items()
        },
        moving=moving,
        led={
            where: (NodeId(each.leader), list(each.in_sync))
            for where, each in partitions.items()
            if each.leader >= 0
        },
    )


class _Placed(NamedTuple):
    replicas: Sequence[int]
    leader: int
    in_sync: Sequence[int]


def choose(
    layout: Layout, topic: str, numbers: Sequence[int] | None, hint: str = ""
) -> list[Where]:
    """Return the partitions of a topic, or of a log, that are named, each once; all if none is.

    Raises:
        CommandFailed: there is no such topic or partition.
    """
    there = {where.partition: where for where in layout.placed if where.topic == topic}
    if not there:
        raise CommandFailed(f"topic {topic} does not exist", hint="kafkaesque topic list")
    name = next(iter(there.values())).label or f"topic {topic}"
    for number in numbers or ():
        if number not in there:
            raise CommandFailed(
                f"{name} has no partition {number}: it has 0 to {len(there) - 1}",
                hint=hint or f"kafkaesque topic describe {topic}",
            )
    return [there[number] for number in dict.fromkeys(numbers or there)]


def _metadata(bootstrap: str, topics: Sequence[MetadataRequestTopic] | None) -> MetadataResponse:
    request = MetadataRequest(topics, allow_auto_topic_creation=False)
    answer: MetadataResponse = ask(bootstrap, ApiKey.METADATA, _METADATA_VERSION, request)
    return answer


def request_moves(
    bootstrap: str, moves: Mapping[Where, Sequence[int] | None], *, is_idle_well: bool = False
) -> list[Where]:
    """Ask for other replicas; None stops a move, which with `is_idle_well` need not be there.

    Returns the partitions of which nothing moved that could have been stopped.

    Raises:
        CommandFailed: nobody answers, or something is refused; the rest is under way then.
    """
    wanted = list(moves.items())
    named = {(where.topic, where.partition): where for where in moves}
    refused: list[str] = []
    hint = "kafkaesque topic reassign --list"
    idle: list[Where] = []
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
        check_rule(answer.error_code, bootstrap, on_cluster("alter"))
        if answer.error_code:
            raise CommandFailed(f"the moves were refused: {answer.error_message}")
        for topic in answer.responses:
            for each in topic.partitions:
                where = named[topic.name, each.partition_index]
                if is_idle_well and each.error_code == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                    idle.append(where)
                    continue
                if each.error_code:
                    refused.append(f"{where}: {each.error_message}")
                if each.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT:
                    hint = "kafkaesque cluster status    (which brokers there are)"
    if refused:
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        raise CommandFailed(f"{refused[0]}{more}", hint=hint)
    return idle


def same_nodes(nodes: Sequence[int]) -> Arrived:
    """Return whether replicas are exactly these, in whatever order."""
    wanted = set(nodes)
    return lambda replicas: set(replicas) == wanted


def none_of(nodes: Sequence[int]) -> Arrived:
    """Return whether replicas are on none of these."""
    unwanted = set(nodes)
    return lambda replicas: unwanted.isdisjoint(replicas)


def await_moves(
    screen: Screen, bootstrap: str, wanted: Mapping[Where, Arrived], timeout_s: float
) -> None:
    """Wait until the replicas of these partitions are where they are to be, and nothing moves.

    A topic that is deleted meanwhile is not waited for.

    Raises:
        CommandFailed: nobody answers for a minute, or it takes longer; they go on moving then.
    """
    left = set(wanted)
    deadline = time.monotonic() + timeout_s
    heard_at = time.monotonic()
    # A bar says the same where there is one.
    note = _silent if takes_escapes(sys.stderr) else screen.note
    with screen.progress("partitions", len(left)) as bar, LongWait(note) as wait:
        while True:
            try:
                still = left & _under_way(read_layout(bootstrap), wanted)
                heard_at = time.monotonic()
            except CommandFailed:
                if time.monotonic() - heard_at > min(SILENCE_S_MAX, timeout_s):
                    raise
                still = left
            bar.advance(len(left) - len(still))
            left = still
            if not left:
                return
            if time.monotonic() >= deadline:
                break
            wait.what = f"{counted(len(left), 'partition')} to be moved: {_some(left)}"
            time.sleep(POLL_S)
    raise CommandFailed(
        f"{counted(len(left), 'partition')} still on the move after {round(timeout_s, 1):g} s: "
        f"{_some(left)}; the moves continue, unless a broker that is to get a copy is down, or "
        "fewer replicas are in sync than min.insync.replicas: kafkaesque doctor says which",
        hint="kafkaesque topic reassign --list, or kafkaesque topic reassign TOPIC --cancel",
        exit_code=TIMED_OUT,
    )


def _under_way(layout: Layout, wanted: Mapping[Where, Arrived]) -> set[Where]:
    return {
        where
        for where, has_arrived in wanted.items()
        if where in layout.moving
        or (where in layout.placed and not has_arrived(layout.placed[where]))
    }


def _some(partitions: Iterable[Where]) -> str:
    names = sorted(map(str, partitions))
    return ", ".join(names[:NAMED_MAX]) + (", ..." if len(names) > NAMED_MAX else "")


def _silent(_: str) -> None:
    """Say nothing."""


def elect_preferred(bootstrap: str) -> tuple[list[Where], dict[Where, str]]:
    """Let first replicas lead in all partitions; return the same as `elect_leaders`.

    Raises:
        CommandFailed: nobody answers, or the whole of it is refused.
    """
    request = ElectLeadersRequest(_PREFERRED, None, REQUEST_TIMEOUT_MS)
    wait_s = REQUEST_TIMEOUT_MS / 1000 + ANSWER_SPARE_S
    answer: ElectLeadersResponse = ask(
        bootstrap, ApiKey.ELECT_LEADERS, _ELECT_VERSION, request, timeout_s=wait_s
    )
    check_rule(answer.error_code, bootstrap, on_cluster("alter"))
    return _elected(answer)


def elect_leaders(
    bootstrap: str, wanted: Sequence[Where], *, is_unclean: bool, timeout_s: float
) -> tuple[list[Where], dict[Where, str]]:
    """Have leaders elected; return where that was done, and where not, with the reason.

    What needs no election is in neither.

    Raises:
        CommandFailed: nobody answers, or the whole of it is refused.
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
    check_rule(answer.error_code, bootstrap, on_cluster("alter"))
    return _elected(answer)


def _elected(answer: ElectLeadersResponse) -> tuple[list[Where], dict[Where, str]]:
    if answer.error_code:
        name = ErrorCode(answer.error_code).name
        raise CommandFailed(f"no leader is elected: {name}", hint="kafkaesque doctor")
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
