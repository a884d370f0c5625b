"""`kafkaesque topic reassign`: replicas are moved, the moves listed or stopped."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    NUMBER_MAX,
    BootstrapOption,
    JsonOption,
    PartitionOption,
    TimeoutOption,
    wrong_usage,
)
from kafkaesque.cli.screen import Screen, counted

if TYPE_CHECKING:
    from kafkaesque.cli.moving_replicas import Where
    from kafkaesque.cli.replica_moves import Layout


def reassign(
    name: Annotated[str | None, typer.Argument(metavar="TOPIC", show_default=False)] = None,
    replicas: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Brokers, the preferred leader first."),
    ] = None,
    partition: PartitionOption = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop moves in progress.")] = False,
    list_moves: Annotated[
        bool, typer.Option("--list", help="Show moves in progress; without TOPIC, of all topics.")
    ] = False,
    timeout: TimeoutOption = 3600.0,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Move a topic's replicas to these brokers; returns when they are there.

    Ends with 5 if that takes longer than the timeout; the moves continue. The option
    leader.replication.throttled.rate limits their speed.

    \b
    Example:
      kafkaesque topic reassign orders --replicas 2,3,4
      kafkaesque topic reassign orders --partition 0 --replicas 4,2,3
      kafkaesque topic reassign --list
      kafkaesque topic reassign orders --cancel
    """
    from kafkaesque.cli.doctor.findings import in_words
    from kafkaesque.cli.replica_moves import (
        await_moves,
        choose,
        read_layout,
        request_moves,
        same_nodes,
    )

    if [replicas is not None, cancel, list_moves].count(True) != 1:
        raise wrong_usage("give one of --replicas, --list and --cancel", "--replicas 1,2,3")
    if name is None and not list_moves:
        raise wrong_usage("name a topic", "kafkaesque topic list")
    nodes = None if replicas is None else _brokers(replicas)
    layout = read_layout(bootstrap)
    screen = Screen(json=json)
    if list_moves:
        _list_moves(screen, layout, name, partition)
        return
    chosen = choose(layout, str(name), partition)
    if nodes is None:
        _cancel(screen, bootstrap, layout, chosen, timeout, is_all=partition is None)
        return
    request_moves(bootstrap, dict.fromkeys(chosen, nodes))
    await_moves(screen, bootstrap, dict.fromkeys(chosen, same_nodes(nodes)), timeout)
    _tell(screen, chosen, f"on {in_words(nodes)}", nodes)


def _cancel(
    screen: Screen,
    bootstrap: str,
    layout: "Layout",
    chosen: "Sequence[Where]",
    timeout_s: float,
    *,
    is_all: bool,
) -> None:
    """Stop moves; of a topic as a whole it does not matter where nothing moves."""
    from kafkaesque.cli.replica_moves import await_moves, none_of, request_moves

    idle = request_moves(bootstrap, dict.fromkeys(chosen), is_idle_well=is_all)
    stopped = [where for where in chosen if where not in idle]
    if not stopped:
        topic = chosen[0].topic
        screen.done(
            f"no replica of {topic} moves: there is nothing to cancel",
            {"topic": topic, "partitions": [], "replicas": None},
        )
        return
    moving = layout.moving
    gone = {where: none_of(moving[where].adding if where in moving else ()) for where in stopped}
    await_moves(screen, bootstrap, gone, timeout_s)
    _tell(screen, stopped, "where they were", None)


def _tell(
    screen: Screen, partitions: "Sequence[Where]", what: str, nodes: list[int] | None
) -> None:
    topic = partitions[0].topic
    numbers = [each.partition for each in partitions]
    screen.done(
        f"the replicas of {topic} are {what}: {counted(len(numbers), 'partition')}",
        {"topic": topic, "partitions": numbers, "replicas": nodes},
    )


def _list_moves(
    screen: Screen, layout: "Layout", name: str | None, partitions: list[int] | None
) -> None:
    from kafkaesque.cli.moving_replicas import moves_document, moves_table
    from kafkaesque.cli.replica_moves import choose

    if name is not None:
        choose(layout, name, None)  # raises if there is no such topic
    found = {
        where: move
        for where, move in layout.moving.items()
        if name in (None, where.topic) and (not partitions or where.partition in partitions)
    }
    screen.show(moves_table(found), moves_document(found))
    if not found:
        screen.note("no replica moves")


def _brokers(words: str) -> list[int]:
    given = [word.strip() for word in words.split(",")]
    if all(word.isdecimal() and int(word) <= NUMBER_MAX for word in given):
        return [int(word) for word in given]
    raise wrong_usage(f"--replicas {words} is no list of brokers", "--replicas 1,2,3")
