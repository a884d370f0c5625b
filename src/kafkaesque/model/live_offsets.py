"""Which records of a log are still needed, as the one who knows tells the one who removes."""

from dataclasses import dataclass
from typing import Protocol


class OffsetRanges(Protocol):
    """A set of offsets that counts by ranges; it can be handed to another process."""

    def __contains__(self, offset: int) -> bool:
        """Whether an offset is in the set."""

    def count_between(self, first: int, end: int) -> int:
        """Return how many of the offsets from `first` to before `end` are in the set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRecords:
    """What is needed of a log's beginning: nothing else there is ever read again."""

    #: What is said concerns the log before this offset.
    end_offset: int
    #: The records that live.
    offsets: OffsetRanges
    #: Control batches of no producer whose record has this key are not needed either.
    control_key: bytes
