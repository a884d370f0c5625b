"""Committed offsets, and those that are on their way to being.

Readers see only what is committed to the log. Whoever removes sees all that may be there once the
writes in flight have ended, so that deleting a group also deletes what it is just committing, and
what somebody else is deleting in vain. Writes end in the order in which they began (`writes.py`).
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkaesque.groups.results import CommittedOffset
from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import TopicPartition


class OffsetChange(NamedTuple):
    """An offset to be stored, or None to be removed."""

    group_id: str
    partition: TopicPartition
    committed: CommittedOffset | None


class OffsetStore:
    """The offsets of all groups of a table."""

    __slots__ = ("_committed", "_in_flight")

    def __init__(self) -> None:
        self._committed: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        self._in_flight: dict[str, dict[TopicPartition, deque[CommittedOffset | None]]] = {}

    def committed(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Return what readers see of a group; not to be changed."""
        return self._committed.get(group_id, {})

    def groups(self) -> list[str]:
        """Return the groups that have offsets, committed or in flight."""
        return list(dict.fromkeys((*self._committed, *self._in_flight)))

    def knows(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether the partition has an offset, or may have one when a write in flight has ended."""
        if partition in self._committed.get(group_id, {}):
            return True
        return _newest(self._in_flight.get(group_id, {}).get(partition, ())) is not None

    def known_items(self, group_id: str) -> Iterator[tuple[TopicPartition, CommittedOffset]]:
        """Yield every partition that the group may have an offset of, with the newest one.

        One that is just being removed is among them, because its removal may fail.
        """
        committed = self._committed.get(group_id, {})
        in_flight = self._in_flight.get(group_id, {})
        for partition, newest in committed.items():
            yield partition, _newest(in_flight.get(partition, ())) or newest
        for partition, queue in in_flight.items():
            if partition not in committed and (found := _newest(queue)) is not None:
                yield partition, found

    def size_max(self, group_id: str) -> int:
        """Return how many offsets the group has at most, counting those in flight."""
        committed = self._committed.get(group_id, {})
        return len(committed) + len(self._in_flight.get(group_id, {}))

    def stage(self, change: OffsetChange) -> None:
        """Note that a change is being written."""
        partitions = self._in_flight.setdefault(change.group_id, {})
        partitions.setdefault(change.partition, deque()).append(change.committed)

    def settle(self, change: OffsetChange, *, is_written: bool) -> None:
        """Note that the oldest change in flight of this partition has ended."""
        partitions = self._in_flight.get(change.group_id, {})
        queue = partitions.get(change.partition)
        if not queue or queue.popleft() is not change.committed:
            raise InvariantBroken(f"{change} ended without having begun, or out of order")
        if not queue:
            del partitions[change.partition]
            if not partitions:
                del self._in_flight[change.group_id]
        if is_written:
            self.apply(change)

    def apply(self, change: OffsetChange) -> None:
        """Take over a change that is in the log."""
        group = self._committed.get(change.group_id)
        if change.committed is not None:
            if group is None:
                group = self._committed[change.group_id] = {}
            group[change.partition] = change.committed
        elif group is not None:
            group.pop(change.partition, None)
            if not group:
                del self._committed[change.group_id]


def _newest(queue: Iterable[CommittedOffset | None]) -> CommittedOffset | None:
    newest = None
    for committed in queue:
        newest = committed or newest
    return newest
