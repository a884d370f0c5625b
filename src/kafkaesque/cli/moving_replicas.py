"""Replicas that are on their way from broker to broker, as whoever leads the controllers says."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkaesque.broker.metadata.topic_names import QUEUE_LOG_PREFIX
from kafkaesque.cli.doctor.findings import NAMED_MAX, in_words, named
from kafkaesque.cli.exit_codes import UNREACHABLE
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.kafka_request import ask
from kafkaesque.cli.missing_rules import missing_rule, on_cluster
from kafkaesque.cli.queue_logs import read_logs
from kafkaesque.cli.screen import Cell, Table
from kafkaesque.protocols.kafka.api_table import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.list_partition_reassignments_request import (
    ListPartitionReassignmentsRequest,
)
from kafkaesque.protocols.kafka.messages.list_partition_reassignments_response import (
    ListPartitionReassignmentsResponse,
)

#: So long a broker may look for a controller.
TIMEOUT_MS = 10_000


class Where(NamedTuple):
    """A partition of a topic, or of a log that is none."""

    topic: str
    partition: int
    #: What it is, for people, if it is no topic.
    label: str = ""

    def __str__(self) -> str:
        return f"{self.label or self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Where a partition's replicas come from, and where they go."""

    #: Whoever has a copy, or is to get one.
    replicas: Sequence[int]
    adding: Sequence[int]
    removing: Sequence[int]

    @property
    def origin(self) -> list[int]:
        """The replicas that serve until those that are added have caught up."""
        return [node for node in self.replicas if node not in self.adding]

    @property
    def target(self) -> list[int]:
        """The replicas that there are to be, the preferred leader first."""
        return [node for node in self.replicas if node not in self.removing]


Moves = Mapping[Where, Move]


def read_moving(bootstrap: str, timeout_ms: int = TIMEOUT_MS) -> dict[Where, Move]:
    """Return what moves; what is not there has arrived, or was never asked for.

    Raises:
        CommandFailed: nobody answers, or no controller leads.
    """
    request = ListPartitionReassignmentsRequest(timeout_ms, None)
    answer: ListPartitionReassignmentsResponse = ask(
        bootstrap, ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, request
    )
    missing = missing_rule(answer.error_code, bootstrap, on_cluster("describe"))
    if missing is not None:
        missing.message = f"it is not known which replicas move: {missing.message}"
        raise missing
    if answer.error_code:
        why = answer.error_message or ErrorCode(answer.error_code).name
        raise CommandFailed(
            f"it is not known which replicas move: {why}", hint="kafkaesque cluster controllers"
        )
    labels: dict[str, str] = {}
    if any(topic.name.startswith(QUEUE_LOG_PREFIX) for topic in answer.topics):
        labels = {each.name: each.label for each in read_logs(bootstrap)}
    return {
        Where(topic.name, each.partition_index, labels.get(topic.name, "")): Move(
            replicas=list(each.replicas),
            adding=list(each.adding_replicas),
            removing=list(each.removing_replicas),
        )
        for topic in answer.topics
        for each in topic.partitions
    }


def moves_of_topics(
    bootstrap: str, topics: Sequence[str], note: Callable[[str], None]
) -> dict[Where, Move]:
    """Return what moves of these topics; that nobody can say so is noted.

    Raises:
        CommandFailed: no broker answers.
    """
    try:
        moving = read_moving(bootstrap)
    except CommandFailed as failure:
        if failure.exit_code == UNREACHABLE:
            raise
        note(failure.message)
        return {}
    return {where: move for where, move in moving.items() if where.topic in topics}


def missing_in_sync(
    replicas: Sequence[int], in_sync: Sequence[int], move: Move | None
) -> list[int]:
    """Return which replicas are to be in sync and are not.

    While they move these are the old ones, until all the new ones are in sync.
    """
    there = set(in_sync)
    if move is not None:
        if there.issuperset(move.target):
            return []
        replicas = move.origin
    return [node for node in replicas if node not in there]


def moves_table(moves: Moves) -> Table:
    """Return what moves, from which brokers to which."""
    rows: list[tuple[Cell, ...]] = [
        (str(where), _list(move.origin), _list(move.target))
        for where, move in sorted(moves.items(), key=_place)
    ]
    return Table(title="moves", columns=("PARTITION", "FROM", "TO"), rows=rows)


def moves_document(moves: Moves) -> list[dict[str, object]]:
    """Return the same for programs."""
    return [
        {
            "topic": where.topic,
            "partition": where.partition,
            "from": move.origin,
            "to": move.target,
            **({"log": where.label} if where.label else {}),
        }
        for where, move in sorted(moves.items(), key=_place)
    ]


def sentences(moves: Moves) -> list[str]:
    """Return what moves in words, each pair of places once."""
    ways: dict[tuple[str, str], list[str]] = {}
    for where, move in sorted(moves.items(), key=_place):
        way = (in_words(move.origin), in_words(move.target))
        ways.setdefault(way, []).append(str(where))
    told = [
        f"replicas move from {origin} to {target}: {named(names)}"
        for (origin, target), names in list(ways.items())[:NAMED_MAX]
    ]
    rest = len(ways) - NAMED_MAX
    return [*told, f"and {rest} more: kafkaesque topic reassign --list"] if rest > 0 else told


def _place(moved: tuple[Where, Move]) -> Where:
    return moved[0]


def _list(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))
