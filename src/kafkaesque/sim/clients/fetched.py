"""Batches that a fetch was answered with, maybe by a machine with a damaged disk."""

from collections.abc import Sequence
from typing import Final

from kafkaesque.model.batch import BatchHeader

#: Of one, decompressed.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024


def are_in_place(
    batches: Sequence[BatchHeader], position: int, end: int, *, has_holes: bool = False
) -> bool:
    """Tell whether batches follow one another from a position on, and end before `end`.

    Their offsets lie outside their checksums: a flipped bit moves a batch, and nothing else tells.
    In a compacted log that `has_holes` one may have been moved into a hole, and nobody notices.
    """
    expected = position
    for batch in batches:
        # The first may begin before the position.
        begins = batch.base_offset if expected > position else max(batch.base_offset, position)
        is_next = begins == expected or (has_holes and begins > expected)
        if not is_next or not expected < batch.next_offset <= end:
            return False
        expected = batch.next_offset
    return True
