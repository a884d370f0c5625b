"""Batches of idempotent producers that were refused for the moment, and keep later ones back.

Requests follow one another without waiting for answers. If one is refused because nobody leads,
the disk is full, or too few replicas are in sync, those behind it leave a gap. Told that they are
out of order, a client may begin a new epoch, in which a batch that was appended and not answered
yet, here or in another partition, is no duplicate any more: librdkafka does. Told as the first one
was that it cannot be now, it sends all of them again as they are.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, NamedTuple

from kafkaesque.env.disk import Buffer
from kafkaesque.model.batch import BatchHeader, read_batch_header
from kafkaesque.model.record_errors import RecordError

#: So long a batch may come after the one before it: clients give a request up after 30 or 60 s.
GAPS_MS: Final = 60_000
#: Producers that are remembered; of more the oldest are forgotten.
_PRODUCERS_MAX: Final = 10_000
#: Sequence numbers that there are.
_SEQUENCES: Final = 2**31


class _Refused(NamedTuple):
    epoch: int
    sequence: int
    until_ms: int


class RefusedBatches:
    """Of each producer the first batch that was refused and has not come again."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._by_producer: dict[int, _Refused] = {}

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def note(self, records: Buffer) -> None:
        """Remember a batch that was not taken, though it may be later."""
        with suppress(RecordError):
            batch = read_batch_header(records)
            if batch.producer_id >= 0:
                self._note(batch)

    def _note(self, batch: BatchHeader) -> None:
        now_ms = self._now_ms()
        before = self._by_producer.pop(batch.producer_id, None)
        if (
            before is None
            or before.epoch != batch.producer_epoch
            or now_ms >= before.until_ms
            or not is_after(batch.base_sequence, before.sequence)
        ):
            before = _Refused(batch.producer_epoch, batch.base_sequence, now_ms + GAPS_MS)
        if len(self._by_producer) >= _PRODUCERS_MAX:
            del self._by_producer[next(iter(self._by_producer))]
        self._by_producer[batch.producer_id] = before

    def keeps_back(self, batch: BatchHeader, expected: int) -> bool:
        """Tell whether a batch has to wait for one that was refused.

        `expected` is the sequence number that the log is waiting for: what was refused here may
        have been taken elsewhere since.
        """
        refused = self._by_producer.get(batch.producer_id)
        if refused is None or refused.epoch != batch.producer_epoch:
            return False
        if is_after(expected, refused.sequence) or self._now_ms() >= refused.until_ms:
            del self._by_producer[batch.producer_id]
            return False
        return is_after(batch.base_sequence, refused.sequence)


def is_after(sequence: int, other: int) -> bool:
    """Tell whether a sequence number comes after another one; they begin anew at 2^31."""
    return 0 < (sequence - other) % _SEQUENCES < _SEQUENCES // 2
