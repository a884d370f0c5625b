"""`kafkaesque topic reassign`: replicas are moved, the moves listed or stopped."""

from typing import Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    PartitionOption,
    TimeoutOption,
    wrong_usage,
)
from kafkaesque.cli.completion import topic_names
from kafkaesque.cli.screen import Screen


def reassign(
    name: Annotated[
        str | None, typer.Argument(metavar="TOPIC", show_default=False, autocompletion=topic_names)
    ] = None,
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
    from kafkaesque.cli import reassigning
    from kafkaesque.cli.replica_moves import read_layout

    if [replicas is not None, cancel, list_moves].count(True) != 1:
        raise wrong_usage("give one of --replicas, --list and --cancel", "--replicas 1,2,3")
    if name is None and not list_moves:
        raise wrong_usage("name a topic", "kafkaesque topic list")
    nodes = None if replicas is None else reassigning.brokers_of(replicas)
    read = read_layout if list_moves else reassigning.read_layout_to_change
    layout = read(bootstrap)
    screen = Screen(json=json)
    topic = None
    if name is not None:
        topic = reassigning.Reassigned(
            bootstrap=bootstrap, log=name, name=name, kind="topic", partitions=partition
        )
    if topic is None or list_moves:
        reassigning.list_moves(screen, topic, layout)
    elif nodes is None:
        reassigning.cancel(screen, topic, layout, timeout)
    else:
        reassigning.move(screen, topic, layout, nodes, timeout)
