"""`kafkaesque cluster drain`, `remove` and `rebalance`: brokers that come and go."""

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    BrokerArgument,
    JsonOption,
    TimeoutOption,
)
from kafkaesque.cli.exit_codes import FAILED, TIMED_OUT
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.screen import Cell, Screen, Table, counted

if TYPE_CHECKING:
    from kafkaesque.cli.moving_replicas import Where
    from kafkaesque.cli.replica_moves import Layout
    from kafkaesque.model.ids import NodeId

#: So often a drain looks for what was put on the broker meanwhile: topics that were created.
ROUNDS_MAX = 10

PlanOption = Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")]


def add_commands(app: typer.Typer) -> None:
    """Add the commands to `cluster`."""
    app.command()(drain)
    app.command()(remove)
    app.command()(rebalance)
    app.command()(upgrade)


def drain(
    broker: BrokerArgument,
    timeout: TimeoutOption = 3600.0,
    dry_run: PlanOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Move everything off a broker: partitions, and the logs of queues and share groups.

    It keeps running, and can be removed afterwards.

    Returns when nothing is left on it: stop it then, and run `cluster remove`. Ends with 5 if that
    takes longer than the timeout; the moves continue. The option
    leader.replication.throttled.rate limits their speed.

    \b
    Example:
      kafkaesque cluster drain 3
      kafkaesque cluster drain 3 --dry-run
    """
    from kafkaesque.cli.replica_moves import await_moves, none_of, read_layout, request_moves
    from kafkaesque.model.ids import NodeId

    screen = Screen(json=json)
    layout = read_layout(bootstrap)
    node = NodeId(broker)
    if node not in layout.racks and not any(node in each for each in layout.placed.values()):
        raise _no_such_broker(broker, list(layout.racks))
    if dry_run:
        _show_plan(screen, _plan_drain(node, layout), layout.placed)
        return
    deadline = time.monotonic() + timeout
    moved: dict[Where, None] = {}
    for _ in range(ROUNDS_MAX):
        held = [where for where, replicas in layout.placed.items() if node in replicas]
        if not held:
            break
        moves = _plan_drain(node, layout)
        request_moves(bootstrap, moves)
        moved |= dict.fromkeys(moves)
        # What was on its way off it already is waited for, too.
        gone = dict.fromkeys(held, none_of([node]))
        await_moves(screen, bootstrap, gone, max(0.0, deadline - time.monotonic()))
        layout = read_layout(bootstrap)
    else:
        raise CommandFailed(
            f"broker {broker} gets new replicas as fast as they are moved away, because topics are"
            " being created",
            hint=f"stop it, and then: kafkaesque cluster drain {broker}",
            exit_code=TIMED_OUT,
        )
    screen.done(
        f"broker {broker} holds no replicas any more: {counted(len(moved), 'partition')} moved",
        {"broker": broker, "moved": [str(where) for where in moved]},
    )


def _plan_drain(node: "NodeId", layout: "Layout") -> "dict[Where, tuple[NodeId, ...]]":
    from kafkaesque.broker.metadata.placement import plan_drain
    from kafkaesque.model.errors import InvalidReplicationFactor

    try:
        return plan_drain(node, layout.lasting, layout.racks)
    except InvalidReplicationFactor as error:
        raise CommandFailed(
            f"broker {node} cannot be drained: {error}",
            hint="start another broker, or give the topic or queue fewer replicas: "
            "kafkaesque topic reassign TOPIC --replicas A,B, kafkaesque queue reassign QUEUE "
            "--replicas A,B",
        ) from None


def remove(
    broker: BrokerArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Remove a broker from the cluster. It must hold nothing and be stopped.

    If it is started again, it is part of the cluster again.

    \b
    Example:
      kafkaesque cluster drain 4
      kafkaesque cluster remove 4
    """
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.cli.missing_rules import check_rule, on_cluster
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages.unregister_broker_request import (
        UnregisterBrokerRequest,
    )

    answer = ask(bootstrap, ApiKey.UNREGISTER_BROKER, 0, UnregisterBrokerRequest(broker))
    check_rule(answer.error_code, bootstrap, on_cluster("alter"))
    if answer.error_code:
        raise CommandFailed(str(answer.error_message), hint="kafkaesque cluster status")
    Screen(json=json).done(f"broker {broker} is removed", {"broker": broker, "removed": True})


def rebalance(
    leaders_only: Annotated[
        bool, typer.Option("--leaders", help="Move no replica; let preferred leaders lead.")
    ] = False,
    timeout: TimeoutOption = 3600.0,
    dry_run: PlanOption = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Spread replicas and leaders evenly over the brokers that are up, with the fewest moves.

    Ends with 1 if a preferred leader is not up or not in sync, or a partition has no leader.

    \b
    Example:
      kafkaesque cluster rebalance --dry-run
      kafkaesque cluster rebalance --leaders
    """
    from kafkaesque.broker.metadata.placement import plan_balance
    from kafkaesque.cli.replica_moves import (
        await_moves,
        elect_preferred,
        read_layout,
        request_moves,
        same_nodes,
    )

    screen = Screen(json=json)
    layout = read_layout(bootstrap)
    settled = {w: each for w, each in layout.placed.items() if w not in layout.moving}
    moves = {} if leaders_only else plan_balance(settled, layout.racks, lambda where: where.topic)
    if dry_run:
        if leaders_only:
            _show_leaders(screen, layout)
        else:
            _show_plan(screen, moves, layout.placed)
            _note_leaders(screen, len(layout.to_lead.keys() - moves.keys()))
        return
    if moves:
        request_moves(bootstrap, moves)
        wanted = {where: same_nodes(target) for where, target in moves.items()}
        await_moves(screen, bootstrap, wanted, timeout)
    elected, refused = elect_preferred(bootstrap)
    screen.done(
        f"{counted(len(moves), 'partition')} moved, {counted(len(elected), 'leader')} changed",
        {
            "moved": [str(where) for where in moves],
            "elected": len(elected),
            "refused": {str(where): why for where, why in refused.items()},
        },
    )
    if refused:
        # Users' topics before the brokers' own, whose names say little.
        where, why = min(refused.items(), key=lambda each: (each[0].topic.startswith("__"), each))
        where = next((each for each in layout.placed if each[:2] == where[:2]), where)
        more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
        CommandFailed(f"{where}: {why}{more}", hint="kafkaesque doctor").show()
        raise typer.Exit(FAILED)


def upgrade(
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Let the cluster use the features of this release, when every broker runs it.

    There is no way back to the previous release.

    \b
    Example:
      kafkaesque cluster upgrade
    """
    from kafkaesque.broker.metadata.features import KNOWN
    from kafkaesque.cli.kafka_request import ask
    from kafkaesque.cli.missing_rules import check_rule, on_cluster
    from kafkaesque.protocols.kafka.api_table import ApiKey
    from kafkaesque.protocols.kafka.messages.update_features_request import (
        FeatureUpdateKey,
        UpdateFeaturesRequest,
    )

    levels = {name: high for name, (_, high) in KNOWN.items()}
    updates = [FeatureUpdateKey(feature=name, max_version_level=n) for name, n in levels.items()]
    request = UpdateFeaturesRequest(feature_updates=updates)
    answer = ask(bootstrap, ApiKey.UPDATE_FEATURES, 1, request)
    failed = next((each for each in (answer, *answer.results) if each.error_code), None)
    if failed is not None:
        check_rule(failed.error_code, bootstrap, on_cluster("alter"))
        raise CommandFailed(str(failed.error_message), hint="kafkaesque cluster status")
    told = ", ".join(f"{name} is at level {level}" for name, level in levels.items())
    Screen(json=json).done(told, {"levels": levels})


def _show_plan(
    screen: Screen,
    moves: Mapping["Where", Sequence[int]],
    placed: Mapping["Where", Sequence[int]],
) -> None:
    rows: list[tuple[Cell, ...]] = [
        (str(where), _list(placed[where]), _list(target)) for where, target in moves.items()
    ]
    document = [
        {"partition": str(where), "replicas": list(placed[where]), "target": list(target)}
        for where, target in moves.items()
    ]
    screen.show(Table(columns=("PARTITION", "REPLICAS", "TARGET"), rows=rows), document)


def _show_leaders(screen: Screen, layout: "Layout") -> None:
    """Show which leaders would change."""
    rows: list[tuple[Cell, ...]] = [
        (str(where), layout.led[where][0], node) for where, node in layout.to_lead.items()
    ]
    document = [
        {"partition": partition, "leader": leader, "target": target}
        for partition, leader, target in rows
    ]
    screen.show(Table(columns=("PARTITION", "LEADER", "TARGET"), rows=rows), document)
    screen.note(f"{counted(len(rows), 'leader')} would change")


def _note_leaders(screen: Screen, count: int) -> None:
    if count:
        screen.note(
            f"{counted(count, 'leader')} would change, too:"
            " kafkaesque cluster rebalance --leaders --dry-run"
        )


def _list(nodes: Sequence[int]) -> str:
    return ",".join(map(str, nodes))


def _no_such_broker(broker: int, there: Sequence[int]) -> CommandFailed:
    return CommandFailed(
        f"there is no broker {broker}; there are {_list(sorted(there))}",
        hint="kafkaesque cluster status",
    )
