"""What is remembered of one idempotent producer of a partition."""

from struct import Struct
from typing import NamedTuple

from kafkaesque.model.ids import Offset
from kafkaesque.transactions.producer_verdicts import Duplicate

#: "No producer id", as Kafka writes it.
NO_PRODUCER_ID = -1
#: Sequence numbers go up to here and begin at 0 again.
SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
#: The last sequence number of a producer that has written nothing in its epoch.
NO_SEQUENCE = -1
#: Batches that are remembered per producer; clients have at most as many in flight.
BATCHES_REMEMBERED = 5

#: A remembered batch: last sequence, last offset, last offset minus first, timestamp.
BATCH = Struct(">iqiq")
last_batch = BATCH.unpack_from
BATCHES_BYTES = BATCH.size * BATCHES_REMEMBERED


class TransactionEntry(NamedTuple):
    """What is remembered of a producer's transactions."""

    #: Where the open one begins, -1 if none is open.
    first_offset: int = -1
    #: What the last marker says, -1 if there was none.
    coordinator_epoch: int = -1
    #: Where it lies.
    marker_offset: int = -1


class ProducerEntry(NamedTuple):
    """What is remembered of one producer."""

    epoch: int
    #: `NO_SEQUENCE` after a marker that has brought the epoch.
    last_sequence: int
    #: When it was last heard of, or the timestamp of its last batch, whichever is later.
    seen_wall_ms: int
    #: Remembered batches, oldest first, each packed as `BATCH`: hundreds of thousands of producers
    #: are to fit into memory, and a batch is looked at only when something is wrong.
    batches: bytes
    #: None for a producer that has never had a transaction here.
    transaction: TransactionEntry | None = None

    @property
    def first_open_offset(self) -> int:
        """Where its open transaction begins; -1 if none is open."""
        return -1 if self.transaction is None else self.transaction.first_offset

    @property
    def last_offset(self) -> int:
        """Where its last batch or marker ends."""
        marker_offset = -1 if self.transaction is None else self.transaction.marker_offset
        if not self.batches:
            return marker_offset
        batch_offset: int = last_batch(self.batches, -BATCH.size)[1]
        return max(marker_offset, batch_offset)


def remembered_batches(entry: ProducerEntry) -> list[Duplicate]:
    """Return where a producer's remembered batches lie, oldest first."""
    return [
        Duplicate(Offset(last_offset - delta), Offset(last_offset), timestamp_ms)
        for _, last_offset, delta, timestamp_ms in BATCH.iter_unpack(entry.batches)
    ]


def find_batch(entry: ProducerEntry, first_sequence: int, record_count: int) -> Duplicate | None:
    """Return the remembered batch with exactly these numbers, but for ended transactions' ones.

    Nobody sends a batch again whose transaction it has ended. But a producer that ends one while it
    does not know what of it was written may number the next one's records as it did those
    (librdkafka does when it aborts): as duplicates they would be acknowledged, and lost.
    """
    wanted = sequence_after(first_sequence, record_count - 1)
    ended_at = -1 if entry.transaction is None else entry.transaction.marker_offset
    for last_sequence, last_offset, delta, timestamp_ms in BATCH.iter_unpack(entry.batches):
        if last_sequence == wanted and delta == record_count - 1 and last_offset > ended_at:
            return Duplicate(Offset(last_offset - delta), Offset(last_offset), timestamp_ms)
    return None


def sequence_after(sequence: int, count: int) -> int:
    """Return the sequence number that is `count` after this one; after the highest comes 0."""
    return (sequence + count) % (SEQUENCE_MAX + 1)
