"""`kafkaesque group`: consumer groups, their lag, and where they go on."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Final

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    wrong_usage,
)
from kafkaesque.cli.completion import GroupArgument, group_names
from kafkaesque.cli.exit_codes import FAILED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.isolation import Isolation
from kafkaesque.cli.offset_words import OFFSET_MAX, parse_place
from kafkaesque.cli.screen import Cell, Screen, Table, counted
from kafkaesque.model.sink_markers import keeps_sink_marker

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

    from kafkaesque.cli.consumer_lag import Lag
    from kafkaesque.cli.group_states import Group
    from kafkaesque.cli.offset_resets import ResetPlan

app = new_app(help="Consumer groups: list, describe, reset-offsets, delete.")

#: A place that only a group has: where it is.
CURRENT: Final = "current"


@app.command("list")
def list_all(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List the groups with their state and protocol (classic, consumer or share).

    KIND is consumers, or sink-marker: the group in which an exactly-once Spark sink keeps which
    micro-batch it wrote last.

    Ends with 1 if some are missing, because a broker does not answer or they have no coordinator.

    \b
    Example:
      kafkaesque group list
    """
    from kafkaesque.cli.group_states import list_groups
    from kafkaesque.cli.kafka import Connection

    connection = Connection(bootstrap)
    screen = Screen(json=json)
    problems: list[str] = []
    found = list_groups(connection.bootstrap, problems.append)
    rows = [(each.group, each.state, each.protocol, each.kind) for each in found]
    columns = ("GROUP", "STATE", "PROTOCOL", "KIND")
    screen.show(Table(columns=columns, rows=rows), [asdict(each) for each in found])
    _end_with(screen, problems)


@app.command()
def describe(
    group: GroupArgument,
    isolation: Annotated[
        Isolation,
        typer.Option(help="read_committed: as seen by members that read only committed messages."),
    ] = Isolation.READ_UNCOMMITTED,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show members, committed offsets and lag, partition by partition.

    LAG is in messages; BEHIND-S is the age of the oldest of them in seconds. For the
    marker of an exactly-once Spark sink, it shows the micro-batch that was written last.
    For a share group, START is the first record that is not done with.

    \b
    Example:
      kafkaesque group describe billing
    """
    from kafkaesque.cli.consumer_lag import measure_lag
    from kafkaesque.cli.group_offsets import committed_offsets
    from kafkaesque.cli.group_states import GroupKind, describe_group
    from kafkaesque.cli.kafka import Connection

    connection = Connection(bootstrap)
    admin = connection.admin()
    described = describe_group(admin, group)
    if described is None:
        _show_share_group(Screen(json=json), connection.bootstrap, group)
        return
    if described.kind is GroupKind.SINK_MARKER:
        _show_marker(Screen(json=json), described, committed_offsets(admin, group))
        return
    committed_only = isolation is Isolation.READ_COMMITTED
    lag = measure_lag(connection, admin, described, committed_only=committed_only)
    document = {
        "group": group,
        "state": described.state,
        "protocol": described.protocol,
        "kind": described.kind,
        "members": len(described.members),
        "isolation": isolation,
        "lag_messages": lag.messages,
        "lag_ms": lag.time_ms,
        "partitions": [asdict(row) for row in lag.rows],
        "problems": lag.problems,
    }
    facts: list[tuple[Cell, ...]] = [
        ("group", group),
        ("state", described.state),
        ("protocol", described.protocol),
        ("kind", described.kind),
        ("members", len(described.members)),
        ("lag", lag.messages),
        ("behind-s", _seconds(lag.time_ms)),
    ]
    screen = Screen(json=json)
    screen.show([Table(title="group", columns=("FACT", "VALUE"), rows=facts), _rows(lag)], document)
    _end_with(screen, lag.problems)


@app.command("reset-offsets")
def reset_offsets(
    group: GroupArgument,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="TOPIC[:PARTITION,...]", help="May be repeated."),
    ] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics with committed offsets.")
    ] = False,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="earliest, latest, current, an offset, a time, or how long ago (PT2H, P7D).",
        ),
    ] = None,
    shift: Annotated[
        int | None, typer.Option(metavar="N", help="Move by N offsets; negative moves back.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Do it, or only show what would be done.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Set a group's offsets. Shows what would be done; --execute does it.

    The group must have no members at that time. An offset outside the log becomes the nearer end.
    `current` keeps offsets that are still in the log.

    \b
    Example:
      kafkaesque group reset-offsets billing --topic orders --to earliest
      kafkaesque group reset-offsets billing --topic orders:0,3 --shift -10 --execute
      kafkaesque group reset-offsets billing --topic orders --to 2026-01-31T12:00 --execute
      kafkaesque group reset-offsets billing --all-topics --to PT2H --execute
    """
    if (to is None) == (shift is None):
        raise wrong_usage("give --to or --shift", "--to earliest")
    if bool(topic) == all_topics:
        raise wrong_usage("give --topic or --all-topics", "--topic orders")
    _check_shift(shift)
    _refuse_sink_markers([group], "moved", "kafkaesque group list    (KIND says which are which)")
    place = None if to is None or to == CURRENT else parse_place(to)
    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.offset_resets import plan_reset

    connection = Connection(bootstrap)
    admin = connection.admin()
    plan = plan_reset(connection, admin, group, topic or (), place, shift)
    problems: Sequence[str] = ()
    if execute:
        problems = _carry_out(admin, group, plan)
    screen = Screen(json=json)
    rows = [(row.topic, row.partition, row.before, row.after) for row in plan.rows]
    screen.show(
        Table(columns=("TOPIC", "PARTITION", "BEFORE", "AFTER"), rows=rows),
        {
            "group": group,
            "executed": execute,
            "partitions": [asdict(row) for row in plan.rows],
            "problems": problems,
        },
    )
    if not execute and not json:
        screen.note(_dry_run_note(group, plan))
    _end_with(screen, problems)


@app.command()
def delete(
    groups: Annotated[
        list[str],
        typer.Argument(metavar="GROUP...", show_default=False, autocompletion=group_names),
    ],
    allow_duplicates: Annotated[
        bool,
        typer.Option(
            "--allow-duplicates",
            help="Also the markers of exactly-once Spark sinks: a query that runs again may write "
            "its last micro-batch a second time.",
        ),
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete groups with their committed offsets; they must have no members.

    Each group is deleted separately; if one cannot be deleted, the others still are.
    Markers of exactly-once Spark sinks are refused without --allow-duplicates.

    \b
    Example:
      kafkaesque group delete billing
    """
    from kafkaesque.cli.kafka import Connection
    from kafkaesque.cli.outcomes import tell_deleted

    named = list(dict.fromkeys(groups))
    if not allow_duplicates:
        _refuse_sink_markers(named, "deleted", "--allow-duplicates, if the query is gone for good")
    admin = Connection(bootstrap).admin()
    tell_deleted(Screen(json=json), admin.delete_consumer_groups(named), "group")


def _carry_out(admin: "AdminClient", group: str, plan: "ResetPlan") -> Sequence[str]:
    from kafkaesque.cli.group_offsets import commit_for

    if plan.members:
        raise _at_work(group, plan.members)
    if plan.share is not None:
        return plan.share.go_on_at(plan.offsets)
    return commit_for(admin, group, plan.offsets)


def _show_share_group(screen: Screen, bootstrap: str, group: str) -> None:
    """Show a share group, if there is one of the name."""
    from kafkaesque.cli.share_groups import ShareGroupAdmin

    admin = ShareGroupAdmin(bootstrap, group)
    described = admin.describe()
    if described is None:
        raise CommandFailed(f"group {group} does not exist", hint="kafkaesque group list")
    progress = sorted(admin.progress(), key=lambda each: (each.topic, each.partition))
    lag = sum(each.lag_messages or 0 for each in progress)
    facts: list[tuple[Cell, ...]] = [
        ("group", group),
        ("state", described.state),
        ("protocol", described.protocol),
        ("members", len(described.members)),
        ("lag", lag),
    ]
    readers: dict[tuple[str, int], list[str]] = {}
    for member in described.members:
        for place in member.partitions:
            readers.setdefault(place, []).append(member.client_id)
    rows = [
        (
            each.topic,
            each.partition,
            each.start,
            each.lag_messages,
            ", ".join(readers.get((each.topic, each.partition), ())),
        )
        for each in progress
    ]
    screen.show(
        [
            Table(title="group", columns=("FACT", "VALUE"), rows=facts),
            Table(
                title="partitions",
                columns=("TOPIC", "PARTITION", "START", "LAG", "CLIENTS"),
                rows=rows,
            ),
        ],
        {
            "group": group,
            "state": described.state,
            "protocol": described.protocol,
            "kind": described.kind,
            "members": [asdict(each) for each in described.members],
            "lag_messages": lag,
            "partitions": [asdict(each) for each in progress],
        },
    )


def _show_marker(screen: Screen, group: "Group", batches: "Mapping[tuple[str, int], int]") -> None:
    """Show which micro-batch was written last; that is no place in the log, and has no lag."""
    facts: list[tuple[Cell, ...]] = [
        ("group", group.name),
        ("state", group.state),
        ("protocol", group.protocol),
        ("kind", group.kind),
    ]
    rows = [(*where, batch) for where, batch in sorted(batches.items())]
    documents = [{"topic": row[0], "partition": row[1], "batch": row[2]} for row in rows]
    columns = ("TOPIC", "PARTITION", "BATCH")
    screen.show(
        [
            Table(title="group", columns=("FACT", "VALUE"), rows=facts),
            Table(title="last micro-batch", columns=columns, rows=rows),
        ],
        {
            "group": group.name,
            "state": group.state,
            "protocol": group.protocol,
            "kind": group.kind,
            "batches": documents,
        },
    )


def _refuse_sink_markers(groups: Sequence[str], what: str, hint: str) -> None:
    """Refuse to touch what tells an exactly-once Spark sink that it need not write again.

    Raises:
        CommandFailed: one of the groups keeps such a marker; nothing was done.
    """
    from kafkaesque.cli.doctor.findings import named

    markers = [each for each in groups if keeps_sink_marker(each)]
    if markers:
        is_one = len(markers) == 1
        raise CommandFailed(
            f"{named(markers)}: {'this is the marker' if is_one else 'these are markers'} of an "
            f"exactly-once Spark sink, not {'a consumer group' if is_one else 'consumer groups'}; "
            f"if {'it is' if is_one else 'they are'} {what}, a micro-batch that Spark repeats is "
            "written a second time",
            hint=hint,
        )


def _check_shift(shift: int | None) -> None:
    if shift is not None and abs(shift) > OFFSET_MAX:
        raise wrong_usage(f"no log is as long as --shift {shift}")


def _at_work(group: str, members: int) -> CommandFailed:
    return CommandFailed(
        f"group {group} has {counted(members, 'active member')}",
        hint="stop its consumers first; one that was killed counts until its session times out"
        " (45 seconds by default)",
    )


def _dry_run_note(group: str, plan: "ResetPlan") -> str:
    note = "Nothing was changed. Add --execute to do it"
    if plan.members:
        return f"{note}, when the group has no members; it has {plan.members} now."
    return (
        f"{note}." if plan.exists else f"{note}; group {group} does not exist, and is created then."
    )


def _end_with(screen: Screen, problems: Sequence[str]) -> None:
    """Say what went wrong; where something did, it was done only in part."""
    for problem in problems:
        screen.note(problem)
    if problems:
        raise typer.Exit(FAILED)


def _rows(lag: "Lag") -> Table:
    columns = ("TOPIC", "PARTITION", "COMMITTED", "START", "END", "LAG", "BEHIND-S", "CLIENT",
               "HOST", "MEMBER")  # fmt: skip
    rows = [
        (
            row.topic,
            row.partition,
            row.committed,
            row.start,
            row.end,
            row.lag_messages,
            _seconds(row.lag_ms),
            row.client,
            row.host,
            row.member,
        )
        for row in lag.rows
    ]
    return Table(title="partitions", columns=columns, rows=rows)


def _seconds(time_ms: int | None) -> float | None:
    return None if time_ms is None else time_ms / 1000
