"""`kafkaesque group`: consumer groups, their lag, and where they go on."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    BOOTSTRAP_DEFAULT,
    BootstrapOption,
    JsonOption,
    new_app,
    wrong_usage,
)
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.offset_words import Place, PlaceKind, parse_place
from kafkaesque.cli.screen import Cell, Screen, Table, counted

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient, ConsumerGroupDescription, OffsetSpec

    from kafkaesque.cli.kafka import Connection

app = new_app(help="Consumer groups: list, describe, reset-offsets, delete.")

GroupArgument = Annotated[str, typer.Argument(metavar="GROUP", show_default=False)]
Partition = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """How far a group is in one partition; `lag` is None where it has committed nothing."""

    topic: str
    partition: int
    committed: int | None
    end: int
    lag: int | None
    member: str | None
    client: str | None
    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRow:
    """What a reset changes in one partition."""

    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """One group."""

    group: str
    state: str
    members: int
    lag: int
    partitions: list[LagRow]


@app.command("list")
def list_groups(bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT, json: JsonOption = False) -> None:
    """List the groups.

    \b
    Example:
      kafkaesque group list
    """
    from kafkaesque.cli.kafka import Connection, result_of

    admin = Connection(bootstrap).admin()
    found = result_of(admin.list_consumer_groups(), "consumer groups").valid
    rows = sorted((each.group_id, each.state.name.lower()) for each in found or ())
    Screen(json=json).show(
        Table(columns=("GROUP", "STATE"), rows=rows),
        [{"group": group, "state": state} for group, state in rows],
    )


@app.command()
def describe(
    group: GroupArgument,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Show members, committed offsets and lag, partition by partition.

    \b
    Example:
      kafkaesque group describe billing
    """
    from kafkaesque.cli.kafka import Connection

    admin = Connection(bootstrap).admin()
    described = _described(admin, group)
    found = Description(
        group=group,
        state=described.state.name.lower(),
        members=len(described.members),
        lag=0,
        partitions=_lag_rows(admin, group, described),
    )
    total = sum(row.lag or 0 for row in found.partitions)
    Screen(json=json).show(_tables(found, total), {**asdict(found), "lag": total})


@app.command("reset-offsets")
def reset_offsets(
    group: GroupArgument,
    topic: Annotated[
        list[str],
        typer.Option("--topic", "-t", metavar="TOPIC[:PARTITION,...]", help="May be repeated."),
    ],
    to: Annotated[
        str | None,
        typer.Option(metavar="PLACE", help="earliest, latest, an offset, or a time."),
    ] = None,
    shift: Annotated[
        int | None, typer.Option(metavar="N", help="N further; back, where it is negative.")
    ] = None,
    execute: Annotated[
        bool, typer.Option("--execute/--dry-run", help="Do it, or only show what would be done.")
    ] = False,
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Set where a group goes on. Shows what would be done; --execute does it.

    The group must have no members at that time. Offsets end up within the log.

    \b
    Example:
      kafkaesque group reset-offsets billing --topic orders --to earliest
      kafkaesque group reset-offsets billing --topic orders:0,3 --shift -10 --execute
      kafkaesque group reset-offsets billing --topic orders --to 2026-01-31T12:00 --execute
    """
    if (to is None) == (shift is None):
        raise wrong_usage("one of --to and --shift says where to", "--to earliest")
    place = None if to is None else parse_place(to)
    from kafkaesque.cli.kafka import Connection

    connection = Connection(bootstrap)
    admin = connection.admin()
    partitions = _named_partitions(connection, admin, topic)
    before = _committed(admin, group)
    after = _targets(admin, partitions, before, place, shift)
    rows = [
        ResetRow(topic=name, partition=number, before=before.get((name, number)), after=offset)
        for (name, number), offset in after.items()
    ]
    if execute:
        _execute(admin, group, after)
    screen = Screen(json=json)
    cells = [(row.topic, row.partition, row.before, row.after) for row in rows]
    screen.show(
        Table(columns=("TOPIC", "PARTITION", "BEFORE", "AFTER"), rows=cells),
        {"group": group, "executed": execute, "partitions": [asdict(row) for row in rows]},
    )
    if not execute and not json:
        screen.note("Nothing was changed. The same with --execute does it.")


@app.command()
def delete(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", show_default=False)],
    bootstrap: BootstrapOption = BOOTSTRAP_DEFAULT,
    json: JsonOption = False,
) -> None:
    """Delete groups with their committed offsets; they must have no members.

    \b
    Example:
      kafkaesque group delete billing
    """
    from kafkaesque.cli.kafka import Connection, result_of

    admin = Connection(bootstrap).admin()
    for group, future in admin.delete_consumer_groups(groups).items():
        result_of(future, f"group {group}")
    Screen(json=json).done(f"deleted {', '.join(groups)}", {"deleted": groups})


def _described(admin: "AdminClient", group: str) -> "ConsumerGroupDescription":
    from kafkaesque.cli.kafka import result_of

    request = admin.describe_consumer_groups([group])
    found: ConsumerGroupDescription = result_of(request[group], f"group {group}")
    if found.state.name in ("DEAD", "UNKNOWN"):
        raise CommandFailed(f"group {group} does not exist", hint="kafkaesque group list")
    return found


def _committed(admin: "AdminClient", group: str) -> dict[Partition, int]:
    """Return the offsets that a group has committed."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    from kafkaesque.cli.kafka import result_of

    request = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    found = result_of(request[group], f"group {group}").topic_partitions or []
    return {(each.topic, each.partition): each.offset for each in found if each.offset >= 0}


def _lag_rows(
    admin: "AdminClient", group: str, described: "ConsumerGroupDescription"
) -> list[LagRow]:
    from confluent_kafka.admin import OffsetSpec

    committed = _committed(admin, group)
    owners = {
        (each.topic, each.partition): member
        for member in described.members
        for each in member.assignment.topic_partitions or ()
    }
    partitions = sorted({*committed, *owners})
    ends = list_offsets(admin, partitions, lambda _: OffsetSpec.latest())
    rows = []
    for partition in partitions:
        offset, end, owner = committed.get(partition), ends[partition], owners.get(partition)
        rows.append(
            LagRow(
                topic=partition[0],
                partition=partition[1],
                committed=offset,
                end=end,
                lag=None if offset is None else max(0, end - offset),
                member=owner.member_id if owner else None,
                client=owner.client_id if owner else None,
                host=owner.host if owner else None,
            )
        )
    return rows


def list_offsets(
    admin: "AdminClient",
    partitions: Sequence[Partition],
    spec: "Callable[[Partition], OffsetSpec]",
) -> dict[Partition, int]:
    """Return the offset of each partition that its specification means; -1 where there is none.

    Raises:
        CommandFailed: a partition does not exist or has no leader.
    """
    from confluent_kafka import TopicPartition

    from kafkaesque.cli.kafka import result_of

    if not partitions:
        return {}
    request = {TopicPartition(*each): spec(each) for each in partitions}
    return {
        (each.topic, each.partition): result_of(
            future, f"partition {each.topic}-{each.partition}"
        ).offset
        for each, future in admin.list_offsets(request).items()
    }


def _named_partitions(
    connection: "Connection", admin: "AdminClient", words: Sequence[str]
) -> list[Partition]:
    topics = connection.metadata(admin).topics
    found = []
    for word in words:
        name, colon, numbers = word.partition(":")
        if name not in topics:
            raise CommandFailed(f"topic {name} does not exist", hint="kafkaesque topic list")
        known = sorted(topics[name].partitions)
        if colon and not all(each.isdecimal() for each in numbers.split(",")):
            raise wrong_usage(f"--topic {word!r} is not a topic with partitions", "orders:0,3")
        asked = [int(each) for each in numbers.split(",")] if colon else known
        for number in asked:
            if number not in known:
                raise CommandFailed(
                    f"topic {name} has no partition {number}: it has 0 to {known[-1]}"
                )
        found += [(name, number) for number in asked]
    return found


def _targets(
    admin: "AdminClient",
    partitions: Sequence[Partition],
    committed: dict[Partition, int],
    place: Place | None,
    shift: int | None,
) -> dict[Partition, int]:
    """Return where the group is to go on in each partition, within what the log holds."""
    from confluent_kafka.admin import OffsetSpec

    first = list_offsets(admin, partitions, lambda _: OffsetSpec.earliest())
    ends = list_offsets(admin, partitions, lambda _: OffsetSpec.latest())
    if place is not None and place.kind is PlaceKind.TIME:
        time_ms = place.number
        timed = list_offsets(admin, partitions, lambda _: OffsetSpec.for_timestamp(time_ms))
    targets = {}
    for each in partitions:
        if place is None:
            # What the group has not begun, it would begin at the earliest.
            wanted = committed.get(each, first[each]) + (shift or 0)
        elif place.kind is PlaceKind.TIME:
            wanted = timed[each] if timed[each] >= 0 else ends[each]
        elif place.kind is PlaceKind.TAIL:
            wanted = ends[each] - place.number
        elif place.kind is PlaceKind.OFFSET:
            wanted = place.number
        else:
            wanted = (first if place.kind is PlaceKind.EARLIEST else ends)[each]
        targets[each] = min(max(wanted, first[each]), ends[each])
    return targets


def _execute(admin: "AdminClient", group: str, targets: dict[Partition, int]) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

    from kafkaesque.cli.kafka import result_of

    described = result_of(admin.describe_consumer_groups([group])[group], f"group {group}")
    if described.members:
        raise CommandFailed(
            f"group {group} has {counted(len(described.members), 'member')} at work",
            hint="stop its consumers first",
        )
    offsets = [TopicPartition(*partition, offset) for partition, offset in targets.items()]
    request = admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, offsets)])
    done = result_of(next(iter(request.values())), f"group {group}")
    for each in done.topic_partitions or ():
        if each.error is not None:
            raise CommandFailed(f"{each.topic}-{each.partition}: {each.error.str()}")


def _tables(found: Description, lag: int) -> list[Table]:
    facts: list[tuple[Cell, ...]] = [
        ("group", found.group),
        ("state", found.state),
        ("members", found.members),
        ("lag", lag),
    ]
    columns = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "CLIENT", "HOST", "MEMBER")
    rows = [
        (
            row.topic,
            row.partition,
            row.committed,
            row.end,
            row.lag,
            row.client,
            row.host,
            row.member,
        )
        for row in found.partitions
    ]
    return [
        Table(title="group", columns=("FACT", "VALUE"), rows=facts),
        Table(title="partitions", columns=columns, rows=rows),
    ]
