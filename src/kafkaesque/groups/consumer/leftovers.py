"""What is still in the log of groups of the new kind that are gone.

A group's records are deleted one by one, and a write can fail. What is left then must not be read
as a group again: a new coordinator would bring back a group that became a classic one or was
deleted, or members of a namesake that was there before. So the keys are kept until they are
written off.
"""

from collections.abc import Iterable

from kafkaesque.groups.consumer.records import (
    KEY_ORDER,
    ConsumerGroupKey,
    KeyKind,
    write_consumer_key,
)
from kafkaesque.tables.log_table import LogRecord


class Leftovers:
    """Keys that are in the log and stand for nothing, by group."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[str, dict[ConsumerGroupKey, None]] = {}

    def add(self, group_id: str, keys: Iterable[ConsumerGroupKey]) -> None:
        """Note keys that could not be written off."""
        self._keys.setdefault(group_id, {}).update(dict.fromkeys(keys))

    def take(self, group_id: str) -> dict[ConsumerGroupKey, None]:
        """Return a group's, which are the caller's now."""
        return self._keys.pop(group_id, {})

    def group_ids(self) -> list[str]:
        """Return the groups that have any."""
        return list(self._keys)


def tombstones(
    group_id: str, keys: Iterable[ConsumerGroupKey]
) -> tuple[list[ConsumerGroupKey], list[LogRecord]]:
    """Return keys in the order in which they are to be deleted, and what deletes them.

    The group itself comes last: until then it can be recognized as one. Only a classic one that is
    deleted with what it has replaced comes later: until then nobody takes the other for a group.
    """
    order = sorted(keys, key=lambda key: (key.kind is KeyKind.CLASSIC_GROUP, -KEY_ORDER[key.kind]))
    return order, [LogRecord(write_consumer_key(group_id, key), None) for key in order]
