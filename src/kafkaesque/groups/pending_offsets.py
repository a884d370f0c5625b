"""Offsets that were committed within transactions which are still open.

They are in the log, as batches of their transaction, and count for nothing until its marker is
there. Then they count, or are gone. One that is overtaken by an offset that was written after it,
outside of transactions or in one that was committed before its own, never counts: what stands last
in the log is what holds, because it is what compaction leaves.
"""

from collections import deque
from collections.abc import Iterator

from kafkaesque.groups.offsets import OffsetChange
from kafkaesque.groups.results import CommittedOffset
from kafkaesque.model.ids import TopicPartition

_Key = tuple[str, TopicPartition]


class PendingOffsets:
    """Pending offsets of all groups of a table, by producer."""

    __slots__ = ("_by_producer", "_counts", "_in_flight", "_last_number")

    def __init__(self) -> None:
        #: With numbers that grow in the order of the log.
        self._by_producer: dict[int, dict[_Key, tuple[int, CommittedOffset]]] = {}
        self._last_number = 0
        self._in_flight: dict[_Key, deque[CommittedOffset]] = {}
        #: How many producers have one pending, or on its way to the log, of each partition.
        self._counts: dict[str, dict[TopicPartition, int]] = {}

    def groups(self) -> list[str]:
        """Return the groups that have pending offsets."""
        return list(self._counts)

    def partitions(self, group_id: str) -> dict[TopicPartition, int]:
        """Return the partitions of which a group has pending offsets; not to be changed."""
        return self._counts.get(group_id, {})

    def changes(self) -> Iterator[OffsetChange]:
        """Yield what is pending of all groups, and what may be when writes in flight have ended."""
        for pending in self._by_producer.values():
            for key, (_, committed) in pending.items():
                yield OffsetChange(*key, committed)
        for key, queue in self._in_flight.items():
            for committed in queue:
                yield OffsetChange(*key, committed)

    def stage(self, group_id: str, partition: TopicPartition, committed: CommittedOffset) -> None:
        """Note that one is on its way to the log."""
        self._in_flight.setdefault((group_id, partition), deque()).append(committed)
        self._hold(group_id, partition)

    def settle(
        self, producer_id: int, group_id: str, partition: TopicPartition, *, is_written: bool
    ) -> None:
        """Note that the oldest in flight of this partition is in the log, or never will be."""
        queue = self._in_flight[group_id, partition]
        committed = queue.popleft()
        if not queue:
            del self._in_flight[group_id, partition]
        self._release(group_id, partition)
        if is_written:
            self.add(producer_id, group_id, partition, committed)

    def add(
        self, producer_id: int, group_id: str, partition: TopicPartition, committed: CommittedOffset
    ) -> None:
        """Note one that is in the log, behind all that were noted before."""
        pending = self._by_producer.setdefault(producer_id, {})
        if (group_id, partition) not in pending:
            self._hold(group_id, partition)
        self._last_number += 1
        pending[group_id, partition] = (self._last_number, committed)

    def overtake(self, group_id: str, partition: TopicPartition) -> None:
        """Forget what is pending of a partition: something was written after it."""
        self._overtake((group_id, partition), self._last_number + 1)

    def _overtake(self, key: _Key, number: int) -> None:
        group_id, partition = key
        if partition not in self._counts.get(group_id, {}):
            return
        for producer_id, pending in list(self._by_producer.items()):
            if key in pending and pending[key][0] < number:
                del pending[key]
                self._release(group_id, partition)
                if not pending:
                    del self._by_producer[producer_id]

    def end(self, producer_id: int, *, is_commit: bool) -> list[OffsetChange]:
        """A producer's transaction has ended: return what counts from now on.

        That overtakes what is pending of others, and stands before it in the log.
        """
        pending = self._by_producer.pop(producer_id, {})
        for group_id, partition in pending:
            self._release(group_id, partition)
        if not is_commit:
            return []
        for key, (number, _) in pending.items():
            self._overtake(key, number)
        return [OffsetChange(*key, committed) for key, (_, committed) in pending.items()]

    def _hold(self, group_id: str, partition: TopicPartition) -> None:
        counts = self._counts.setdefault(group_id, {})
        counts[partition] = counts.get(partition, 0) + 1

    def _release(self, group_id: str, partition: TopicPartition) -> None:
        counts = self._counts[group_id]
        counts[partition] -= 1
        if not counts[partition]:
            del counts[partition]
            if not counts:
                del self._counts[group_id]
