"""Batches as they are put into queues: read once for all that get the same one, and kept a moment.

A message that is published to many queues is put into each as the same bytes, one queue after the
other. And who waits for messages is given those that were just put: so these are not read back from
the log.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from kafkaesque.broker.queues.bodies import Bodies, size_of
from kafkaesque.model.batch import Attribute, BatchHeader
from kafkaesque.model.message_headers import IDENTITY, PREFIX
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues.arrival import counted_size_of

#: What the records of one batch may take.
BATCH_BYTES_MAX: Final = 64 * 1024 * 1024
#: Longer batches are not remembered for the next queue.
REMEMBERED_BYTES_MAX: Final = 1024 * 1024
#: Batches that the queues of a broker keep because they were just put, and their bytes.
NEWEST_MAX: Final = 1_024
NEWEST_BYTES_MAX: Final = 4 * 1024 * 1024
_PREFIX: Final = PREFIX.encode()


class PutBatch:
    """A plain batch of messages; it is read when that is first asked for."""

    __slots__ = (
        "_at_offset",
        "_identities",
        "_may_say_words",
        "_place",
        "_records",
        "_sizes",
        "counted",
        "raw",
    )

    def __init__(self, raw: bytes) -> None:
        self.raw: Final = raw
        self._records: list[Record] | None = None
        self._may_say_words: bool | None = None
        self._identities: list[bytes] = []
        self._sizes: list[int] = []
        #: What its messages count for where they are taken, once they are read.
        self.counted = 0
        #: Its messages where and when they were last said to be.
        self._place: tuple[int, int | None] = (-1, None)
        self._at_offset: dict[int, Record] = {}

    @property
    def records(self) -> list[Record]:
        """Its messages, as they came.

        Raises:
            RecordError: it is damaged.
        """
        if self._records is None:
            self._records = decode_batch(self.raw, BATCH_BYTES_MAX)
            self.counted = sum(map(size_of, self._records))
        return self._records

    @property
    def may_say_words(self) -> bool:
        """Whether its messages may say what only clients of queues and brokers say."""
        if self._may_say_words is None:
            self._may_say_words = _PREFIX in self.raw
        return self._may_say_words

    @property
    def identities(self) -> list[bytes]:
        """The identities of its messages; empty: none."""
        if not self._identities:
            self._identities = [identity_of_record(each) for each in self.records]
        return self._identities

    @property
    def sizes(self) -> list[int]:
        """What its messages count for in a queue."""
        if not self._sizes:
            self._sizes = [counted_size_of(each) for each in self.records]
        return self._sizes

    def at(self, appended: BatchHeader) -> dict[int, Record]:
        """Return its messages by their offsets in a log, as they are there after this append.

        Nobody may change what is returned: other queues have it, too.
        """
        has_time = appended.attributes & Attribute.APPEND_TIME
        time_ms = appended.max_timestamp_ms if has_time else None
        if self._place != (appended.base_offset, time_ms):
            self._place = (appended.base_offset, time_ms)
            self._at_offset = {
                offset: Record(offset, its_ms if time_ms is None else time_ms, key, value, headers)
                for offset, (_, its_ms, key, value, headers) in enumerate(
                    self.records, appended.base_offset
                )
            }
        return self._at_offset


class PutBatches:
    """The last batch that was put, for the queue that gets the same bytes next."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = PutBatch(b"")

    def read(self, raw: bytes) -> PutBatch:
        """Return what a batch has; the same object for the same bytes object."""
        if raw is self._last.raw:
            return self._last
        batch = PutBatch(raw)
        if len(raw) <= REMEMBERED_BYTES_MAX:
            self._last = batch
        return batch


class NewestBatches:
    """Bounds what all queues of a broker keep because it was just put."""

    __slots__ = ("_bytes", "_kept")

    def __init__(self) -> None:
        self._kept: Final[deque[tuple[Bodies, int, int]]] = deque()
        self._bytes = 0

    def keep(self, bodies: Bodies, batch: PutBatch, appended: BatchHeader) -> None:
        """Have a queue keep a batch that has its place in its log, if there is room."""
        first, size = appended.base_offset, len(batch.raw)
        records = batch.at(appended)
        if not bodies.keep(first, first + len(records), size, records, batch.counted):
            return
        self._kept.append((bodies, first, size))
        self._bytes += size
        while len(self._kept) > NEWEST_MAX or self._bytes > NEWEST_BYTES_MAX:
            oldest, first, size = self._kept.popleft()
            self._bytes -= size
            oldest.drop(first)


def identity_of_record(record: Record) -> bytes:
    """Return the identity that a message says it has; empty: none."""
    for name, value in record.headers:
        if name == IDENTITY and value is not None and len(value) == 16:
            return value
    return b""
