"""Where a group is to go on: words of the command line become an offset in each partition."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, OffsetSpec

from kafkaesque.cli.arguments import wrong_usage
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.group_offsets import (
    Partition,
    committed_offsets,
    list_offsets,
)
from kafkaesque.cli.group_states import describe_group
from kafkaesque.cli.kafka import Connection
from kafkaesque.cli.missing_topics import missing_topic
from kafkaesque.cli.offset_words import Place, PlaceKind
from kafkaesque.cli.share_groups import ShareGroupAdmin


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetRow:
    """What a reset changes in one partition."""

    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetPlan:
    """What a reset changes, and the group that it is about."""

    exists: bool
    members: int
    rows: list[ResetRow]
    #: Who sets the offsets, if it is a share group.
    share: ShareGroupAdmin | None = None

    @property
    def offsets(self) -> dict[Partition, int]:
        return {(row.topic, row.partition): row.after for row in self.rows}


def plan_reset(
    connection: Connection,
    admin: AdminClient,
    group: str,
    topics: Sequence[str],
    place: Place | None,
    shift: int | None,
) -> ResetPlan:
    """Return where a group is to go on; no topics are all in which it has committed offsets.

    Without a place and a shift it stays where it is, as far as that is within the log.

    Raises:
        CommandFailed: a partition does not exist or has no leader.
    """
    described = describe_group(admin, group, "read")
    share = None
    if described is None:
        share = ShareGroupAdmin(connection.bootstrap, group)
        described = share.describe()
    if described is None or share is None:
        share, before = None, committed_offsets(admin, group)
    else:
        known = ((each.topic, each.partition, each.start) for each in share.progress())
        before = {(topic, number): start for topic, number, start in known if start is not None}
    partitions = _named_partitions(connection, admin, topics or _topics_of(group, before))
    if place is not None:
        after = _find_targets(admin, partitions, place)
    else:
        begun = [each for each in partitions if each in before]
        after = _shift_targets(admin, begun if shift is None else partitions, before, shift or 0)
    return ResetPlan(
        exists=described is not None,
        members=len(described.members) if described else 0,
        rows=[
            ResetRow(topic=name, partition=number, before=before.get((name, number)), after=offset)
            for (name, number), offset in after.items()
        ],
        share=share,
    )


def _named_partitions(
    connection: Connection, admin: AdminClient, words: Sequence[str]
) -> list[Partition]:
    """Return the partitions that words like `orders` and `orders:0,3` name, each once.

    Raises:
        CommandFailed: one of them does not exist, or a word makes no sense.
    """
    topics = connection.metadata(admin).topics
    found: dict[Partition, None] = {}
    for word in words:
        name, colon, numbers = word.partition(":")
        if name not in topics:
            raise missing_topic(connection.bootstrap, name, "read")
        known = sorted(topics[name].partitions)
        if colon and not all(each.isdecimal() for each in numbers.split(",")):
            raise wrong_usage(f"--topic {word!r} is not a topic with partitions", "orders:0,3")
        asked = [int(each) for each in numbers.split(",")] if colon else known
        for number in asked:
            if number not in known:
                raise CommandFailed(
                    f"topic {name} has no partition {number}: it has 0 to {known[-1]}"
                )
            found[name, number] = None
    return list(found)


def _topics_of(group: str, committed: Collection[Partition]) -> list[str]:
    """Return the topics in which a group has committed offsets.

    Raises:
        CommandFailed: there are none.
    """
    found = sorted({topic for topic, _ in committed})
    if not found:
        raise CommandFailed(
            f"group {group} has committed no offsets",
            hint="--topic NAME, for a topic without committed offsets",
        )
    return found


def _find_targets(
    admin: AdminClient, partitions: Sequence[Partition], place: Place
) -> dict[Partition, int]:
    """Return the offset that a place means in each partition, within what the log holds.

    Raises:
        CommandFailed: a partition has no leader.
    """
    wanted: Mapping[Partition, int] = {}
    if place.kind is PlaceKind.TIME:
        time_ms = place.number
        wanted = list_offsets(admin, partitions, lambda _: OffsetSpec.for_timestamp(time_ms))
    first, ends = _bounds(admin, partitions)
    targets = {}
    for each in partitions:
        match place.kind:
            case PlaceKind.EARLIEST:
                offset = first[each]
            case PlaceKind.LATEST:
                offset = ends[each]
            case PlaceKind.OFFSET:
                offset = place.number
            case PlaceKind.TAIL:
                offset = ends[each] - place.number
            case PlaceKind.TIME:
                # Where there is nothing that young, it is what comes next.
                offset = wanted[each] if wanted[each] >= 0 else ends[each]
        targets[each] = min(max(offset, first[each]), ends[each])
    return targets


def _shift_targets(
    admin: AdminClient,
    partitions: Sequence[Partition],
    committed: Mapping[Partition, int],
    shift: int,
) -> dict[Partition, int]:
    """Return the committed offsets, so many further, within what the log holds.

    What the group has not begun, it would begin at the earliest.

    Raises:
        CommandFailed: a partition has no leader.
    """
    first, ends = _bounds(admin, partitions)
    return {
        each: min(max(committed.get(each, first[each]) + shift, first[each]), ends[each])
        for each in partitions
    }


def _bounds(
    admin: AdminClient, partitions: Sequence[Partition]
) -> tuple[dict[Partition, int], dict[Partition, int]]:
    first = list_offsets(admin, partitions, lambda _: OffsetSpec.earliest())
    ends = list_offsets(admin, partitions, lambda _: OffsetSpec.latest())
    return first, ends
