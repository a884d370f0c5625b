"""Which batches of a partition a reader of committed transactions is shown.

The same that Kafka's consumers do with the answer of a fetch: a producer's batches are skipped from
the offset on where its aborted transaction begins, up to its next marker.

Source: KIP-98, "Consumer".
"""

from collections import deque
from collections.abc import Iterable

from kafkaesque.model.batch import BatchHeader


class CommittedFilter:
    """Looks at the batches of a range, one after the other."""

    __slots__ = ("_coming", "_skipped")

    def __init__(self, aborted: Iterable[tuple[int, int]]) -> None:
        """`aborted`: producer ids, and the offsets where their aborted transactions begin."""
        self._coming = deque(sorted((offset, producer_id) for producer_id, offset in aborted))
        #: Producers in the middle of an aborted transaction.
        self._skipped: set[int] = set()

    def is_shown(self, batch: BatchHeader) -> bool:
        """Tell whether the batch has records that a reader may see."""
        while self._coming and self._coming[0][0] < batch.next_offset:
            self._skipped.add(self._coming.popleft()[1])
        if batch.is_control:
            self._skipped.discard(batch.producer_id)
            return False
        return not (batch.is_transactional and batch.producer_id in self._skipped)
