"""`kafkaesque queue reassign`: the log of a queue is moved, its moves listed or stopped."""

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
from kafkaesque.cli.commands.queue_messages import VhostOption, queue_of
from kafkaesque.cli.completion import QueueArgument
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen


def reassign(
    name: QueueArgument,
    replicas: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help="Brokers, the preferred leader first."),
    ] = None,
    partition: PartitionOption = None,
    cancel: Annotated[bool, typer.Option("--cancel", help="Stop moves in progress.")] = False,
    list_moves: Annotated[bool, typer.Option("--list", help="Show moves in progress.")] = False,
    timeout: TimeoutOption = 3600.0,
    vhost: VhostOption = "/",
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Move a queue's replicas to these brokers; returns when they are there.

    Messages are put and taken meanwhile. Of several partitions all are moved, unless some
    are named. Ends with 5 if it takes longer than the timeout; the moves continue.

    \b
    Example:
      kafkaesque queue reassign orders --replicas 2,3,4
      kafkaesque queue reassign orders --cancel
    """
    from kafkaesque.broker.metadata.queue_names import queue_log
    from kafkaesque.broker.options.queues import TRANSIENT
    from kafkaesque.cli import reassigning
    from kafkaesque.cli.queue_requests import describe
    from kafkaesque.cli.replica_moves import read_layout
    from kafkaesque.model.ids import TopicId

    if [replicas is not None, cancel, list_moves].count(True) != 1:
        raise wrong_usage("give one of --replicas, --list and --cancel", "--replicas 1,2,3")
    nodes = None if replicas is None else reassigning.brokers_of(replicas)
    found = describe(queue_of(bootstrap, vhost, name))
    if any(each.name == TRANSIENT and each.value == "true" for each in found.options):
        raise CommandFailed(
            f"queue {name} is transient: it is in one broker's memory, and has no replicas to move",
            hint="delete it, and create it again at another broker",
        )
    queue = reassigning.Reassigned(
        bootstrap=bootstrap,
        log=queue_log(TopicId(found.log_id)),
        name=name,
        kind="queue",
        partitions=partition,
    )
    read = read_layout if list_moves else reassigning.read_layout_to_change
    layout = read(bootstrap)
    screen = Screen(json=json)
    if list_moves:
        reassigning.list_moves(screen, queue, layout)
    elif nodes is None:
        reassigning.cancel(screen, queue, layout, timeout)
    else:
        reassigning.move(screen, queue, layout, nodes, timeout)
