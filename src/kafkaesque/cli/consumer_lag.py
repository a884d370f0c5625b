"""How far a group is behind in each partition, in messages and in time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, OffsetSpec

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.group_offsets import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    Partition,
    committed_offsets,
    find_offsets,
)
from kafkaesque.cli.group_states import Group
from kafkaesque.cli.kafka import Connection
from kafkaesque.cli.oldest_unread import NOTHING, Oldest, Unread, by_leader, find_oldest


@dataclass(frozen=True, slots=True, kw_only=True)
class LagRow:
    """How far a group is in one partition; None is what is not known, or not there."""

    topic: str
    partition: int
    committed: int | None
    #: The first offset that is still in the log.
    start: int | None
    #: Behind the last record that the group can get.
    end: int | None
    #: Offsets from the committed one, or from the start if that lies behind it, to the end.
    lag_messages: int | None
    #: Since the timestamp of the oldest record in there; 0 where there is none.
    lag_ms: int | None
    #: That timestamp.
    oldest_unread_ms: int | None
    member: str | None
    client: str | None
    host: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a group is: the sum of messages, the longest time, and what could not be asked.

    The sum and the time are None where the group has committed nothing.
    """

    messages: int | None
    time_ms: int | None
    rows: list[LagRow]
    problems: list[str]


class _Range(NamedTuple):
    committed: int | None
    start: int | None
    end: int | None

    @property
    def first(self) -> int | None:
        """The first offset that the group is to process."""
        if self.committed is None or self.start is None:
            return None
        return max(self.committed, self.start)

    @property
    def messages(self) -> int | None:
        if self.first is None or self.end is None:
            return None
        return max(0, self.end - self.first)


def measure_lag(
    connection: Connection,
    admin: AdminClient,
    group: Group,
    *,
    committed_only: bool,
) -> Lag:
    """Return a group's lag in all partitions that it has committed or that its members own.

    With `committed_only` the end is the last stable offset, as for members that read only what is
    committed; otherwise it is the high watermark.
    """
    ranges, problems = _ranges(admin, group, committed_only)
    unread = [
        Unread(*where, each.first, each.end)
        for where, each in ranges.items()
        if each.messages and each.first is not None and each.end is not None
    ]
    leaders = _leaders(connection, admin) if unread else {}
    oldest = find_oldest(by_leader(unread, leaders), committed_only=committed_only)
    now_ms = int(time.time() * 1000)
    owners = {partition: member for member in group.members for partition in member.partitions}
    rows = []
    for where, each in ranges.items():
        owner = owners.get(where)
        record = NOTHING if each.messages == 0 else oldest.get(where)
        rows.append(
            LagRow(
                topic=where[0],
                partition=where[1],
                **each._asdict(),
                lag_messages=each.messages,
                lag_ms=lag_ms(record, now_ms),
                oldest_unread_ms=record.timestamp_ms if record else None,
                member=owner.member_id if owner else None,
                client=owner.client_id if owner else None,
                host=owner.host if owner else None,
            )
        )
    return _total(rows, problems)


def lag_ms(oldest: Oldest | None, now_ms: int) -> int | None:
    """Return how long ago the oldest unread record was written; None where that is not known.

    A record from the future, by a clock that is ahead, is as good as new.
    """
    if oldest is None:
        return None
    if oldest.offset is None:
        return 0
    return None if oldest.timestamp_ms is None else max(0, now_ms - oldest.timestamp_ms)


def _total(rows: list[LagRow], problems: Sequence[CommandFailed]) -> Lag:
    counts = [row.lag_messages for row in rows if row.lag_messages is not None]
    times = [row.lag_ms for row in rows if row.lag_ms is not None]
    return Lag(
        messages=sum(counts) if counts else None,
        time_ms=max(times, default=None),
        rows=rows,
        problems=sorted({each.message for each in problems}),
    )


def _ranges(
    admin: AdminClient, group: Group, committed_only: bool
) -> tuple[dict[Partition, _Range], list[CommandFailed]]:
    committed = committed_offsets(admin, group.name)
    owned = {partition for member in group.members for partition in member.partitions}
    partitions = sorted({*committed, *owned})
    # The ends last: what is between them and what was committed earlier is not less than the lag.
    starts, problems = find_offsets(admin, partitions, lambda _: OffsetSpec.earliest())
    level = READ_COMMITTED if committed_only else READ_UNCOMMITTED
    ends, more = find_offsets(admin, starts, lambda _: OffsetSpec.latest(), level)
    ranges = {
        each: _Range(committed.get(each), starts.get(each), ends.get(each)) for each in partitions
    }
    return ranges, [*problems, *more]


def _leaders(connection: Connection, admin: AdminClient) -> dict[Partition, str]:
    """Return the address of each partition's leader, where it has one."""
    found = connection.metadata(admin)
    addresses = {each.id: f"{each.host}:{each.port}" for each in found.brokers.values()}
    return {
        (name, number): addresses[partition.leader]
        for name, topic in found.topics.items()
        for number, partition in topic.partitions.items()
        if partition.leader in addresses
    }
