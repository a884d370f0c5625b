"""`kafkaesque topic elect`: preferred leaders, and partitions that are recovered by request."""

from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    PartitionOption,
    TimeoutOption,
    YesOption,
    check_can_ask,
)
from kafkaesque.cli.completion import TopicArgument
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Screen, counted

if TYPE_CHECKING:
    from kafkaesque.cli.moving_replicas import Where

TIMEOUT_S = 30.0


def elect(
    name: TopicArgument,
    partition: PartitionOption = None,
    unclean: Annotated[
        bool,
        typer.Option(
            "--unclean",
            help="Recover partitions without a leader from the surviving replicas.",
        ),
    ] = False,
    yes: YesOption = False,
    timeout: TimeoutOption = TIMEOUT_S,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Let preferred replicas lead; with --unclean, give leaderless partitions a leader.

    A partition that has lost the majority of its replicas waits for them, because only they may
    have all acknowledged messages. With --unclean it continues without them, whatever its options
    say, and what only they have is lost. docs/operations.md says when that is right. Partitions
    that have a leader stay as they are. --unclean asks first; scripts need --yes.

    \b
    Example:
      kafkaesque topic elect orders
      kafkaesque topic elect orders --partition 3 --unclean
    """
    from kafkaesque.cli.long_wait import LongWait
    from kafkaesque.cli.replica_moves import choose, elect_leaders, read_layout

    if unclean:
        check_can_ask("topic elect --unclean", yes=yes)
    chosen = choose(read_layout(bootstrap), name, partition)
    if unclean and not yes:
        typer.confirm(
            f"Partitions of {name} without a leader will lose what only their missing replicas "
            "have. Continue?",
            abort=True,
        )
    with LongWait(Screen().note, f"leaders of {name}"):
        elected, refused = elect_leaders(bootstrap, chosen, is_unclean=unclean, timeout_s=timeout)
    if refused:
        raise _failure(refused, elected, is_unclean=unclean)
    idle = len(chosen) - len(elected)
    kind = "recovered" if unclean else "led by their preferred replicas now"
    left = f"; {idle} needed no election" if idle else ""
    Screen(json=json).done(
        f"{name}: {counted(len(elected), 'partition')} {kind}{left}",
        {"topic": name, "elected": [each.partition for each in elected], "unclean": unclean},
    )


def _failure(
    refused: "dict[Where, str]", elected: "list[Where]", *, is_unclean: bool
) -> CommandFailed:
    where, why = next(iter(refused.items()))
    more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    done = f"; {counted(len(elected), 'other')} done" if elected else ""
    hint = "kafkaesque doctor, and then once more"
    if is_unclean:
        # Who has lost its disk never tells what it has.
        hint += (
            f"; if the disks of all its replicas are lost: kafkaesque topic delete {where.topic}"
        )
        hint += ", and create it again"
    return CommandFailed(f"{where}: {why}{more}{done}", hint=hint)
