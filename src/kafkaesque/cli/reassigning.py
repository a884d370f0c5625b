"""What `topic reassign` and `queue reassign` do: move the replicas of one log, or stop that."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaesque.cli import replica_moves
from kafkaesque.cli.arguments import NUMBER_MAX, wrong_usage
from kafkaesque.cli.doctor.findings import in_words
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.missing_rules import forbidden, on_cluster
from kafkaesque.cli.moving_replicas import Where, moves_document, moves_table
from kafkaesque.cli.replica_moves import Layout
from kafkaesque.cli.screen import Screen, counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassigned:
    """A topic, or a queue, whose replicas are moved."""

    bootstrap: str
    #: What its log is called in requests.
    log: str
    #: What it is called by the user, and what it is: `topic` or `queue`.
    name: str
    kind: str
    partitions: Sequence[int] | None

    def chosen(self, layout: Layout) -> list[Where]:
        """Return the partitions that are meant.

        Raises:
            CommandFailed: there is no such topic or partition.
        """
        hint = f"kafkaesque {self.kind} describe {self.name}"
        return replica_moves.choose(layout, self.log, self.partitions, hint)


def read_layout_to_change(bootstrap: str) -> Layout:
    """Return where everything is, for a command that moves some of it.

    Raises:
        CommandFailed: nobody answers, no controller leads, or no rule allows to move replicas.
    """
    try:
        return replica_moves.read_layout(bootstrap)
    except CommandFailed as failure:
        # The right to alter is needed next, and implies this one.
        if failure.message.endswith(str(on_cluster("describe"))):
            raise forbidden(on_cluster("alter"), bootstrap) from None
        raise


def move(
    screen: Screen, what: Reassigned, layout: Layout, nodes: list[int], timeout_s: float
) -> None:
    """Move replicas to these brokers, and wait until they are there.

    Raises:
        CommandFailed: nobody answers, it is refused, or it takes longer.
    """
    chosen = what.chosen(layout)
    replica_moves.request_moves(what.bootstrap, dict.fromkeys(chosen, nodes))
    replica_moves.await_moves(
        screen, what.bootstrap, dict.fromkeys(chosen, replica_moves.same_nodes(nodes)), timeout_s
    )
    _tell(screen, what, chosen, f"on {in_words(nodes)}", nodes)


def cancel(screen: Screen, what: Reassigned, layout: Layout, timeout_s: float) -> None:
    """Stop moves; of a topic as a whole it does not matter where nothing moves.

    Raises:
        CommandFailed: nobody answers, it is refused, or it takes longer.
    """
    chosen, is_all = what.chosen(layout), what.partitions is None
    idle = replica_moves.request_moves(what.bootstrap, dict.fromkeys(chosen), is_idle_well=is_all)
    stopped = [where for where in chosen if where not in idle]
    if not stopped:
        screen.done(
            f"no replica of {what.name} moves: there is nothing to cancel",
            {what.kind: what.name, "partitions": [], "replicas": None},
        )
        return
    new = {where: each.adding for where, each in layout.moving.items()}
    gone = {where: replica_moves.none_of(new.get(where, ())) for where in stopped}
    replica_moves.await_moves(screen, what.bootstrap, gone, timeout_s)
    _tell(screen, what, stopped, "where they were", None)


def list_moves(screen: Screen, what: Reassigned | None, layout: Layout) -> None:
    """Show what moves of one topic or queue, or of all.

    Raises:
        CommandFailed: there is no such topic.
    """
    found = dict(layout.moving)
    if what is not None:
        replica_moves.choose(layout, what.log, None)  # raises if there is no such topic
        numbers = what.partitions
        found = {
            where: each
            for where, each in found.items()
            if where.topic == what.log and (not numbers or where.partition in numbers)
        }
    screen.show(moves_table(found), moves_document(found))
    if not found:
        screen.note("no replica moves")


def _tell(
    screen: Screen,
    what: Reassigned,
    partitions: Sequence[Where],
    told: str,
    nodes: list[int] | None,
) -> None:
    numbers = [each.partition for each in partitions]
    screen.done(
        f"the replicas of {what.name} are {told}: {counted(len(numbers), 'partition')}",
        {what.kind: what.name, "partitions": numbers, "replicas": nodes},
    )


def brokers_of(words: str) -> list[int]:
    """Return the brokers that `--replicas` names.

    Raises:
        CommandFailed: it is no list of numbers.
    """
    given = [word.strip() for word in words.split(",")]
    if all(word.isdecimal() and int(word) <= NUMBER_MAX for word in given):
        return [int(word) for word in given]
    raise wrong_usage(f"--replicas {words} is no list of brokers", "--replicas 1,2,3")
