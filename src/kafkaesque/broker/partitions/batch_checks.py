"""What a producer sends is checked before it is believed; what takes long is checked off the loop.

Theory of operation. `check_produced` looks into a batch as far as that takes less than about a
millisecond. A compressed batch may take more: it may hold 64 MiB of zeros in 2 KiB. Then a
`LongCheck` comes back in place of the header, and nothing has happened. Whoever produces has
`BatchChecks` run it, waits with everything that has to come after this batch, and produces the
batch again with the check that was done. All that may have changed meanwhile, leadership above all,
is looked at then.

Where the topic wants another codec than the producer chose (`compression.type`), every batch is
such a check, which also makes the batch that is appended in the producer's place. Those of one
partition are made one after another: who does not wait for the answer to one batch before the next
is sent has them in this order.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from kafkaesque.broker.options.topic_config import TopicConfig
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import (
    NO_TIMESTAMP,
    BatchHeader,
    check_batches,
    read_payload,
    walk_compressed_quickly,
    walk_payload,
)
from kafkaesque.model.errors import NotLeader, OverBound, RequestRefused
from kafkaesque.model.recompression import recompress
from kafkaesque.model.record_errors import (
    BatchTooLarge,
    InvalidRecord,
    InvalidTimestamp,
    KeysMissing,
)
from kafkaesque.model.records import decode_columns

#: What one produced batch may decompress to.
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
#: What is decompressed on the loop: 0.1 to 0.8 ms, by codec and by the size of its records.
QUICK_BYTES_MAX = 256 * 1024
#: A longer batch is hardly one that decompresses to less, so it is not even tried.
QUICK_BATCH_BYTES_MAX = 64 * 1024
#: Checks at work at the same time: each may take twice what a batch may decompress to.
RUNNING_MAX = 2
#: Checks that wait for their turn; there is at most one for each connection.
WAITING_MAX = 20_000
#: Records of a batch that are named one by one where they are at fault: as many as librdkafka puts
#: into one batch by default.
RECORDS_NAMED_MAX = 10_000

Records = bytearray | memoryview


class Checked(NamedTuple):
    """A batch that may be appended."""

    header: BatchHeader
    #: The batch with the topic's codec; None where that of the producer stays.
    records: bytearray | None = None


class LongCheck:
    """The check of one batch that is left to do; then its outcome."""

    __slots__ = ("_batch", "_earliest_ms", "_records", "checked", "config", "error", "owner")

    def __init__(
        self,
        owner: object,
        records: Records,
        batch: BatchHeader,
        config: TopicConfig,
        earliest_ms: int | None = None,
    ) -> None:
        self._records = records
        self._batch = batch
        self._earliest_ms = earliest_ms
        #: For which partition it was checked, and by what rules.
        self.owner = owner
        self.config = config
        #: The outcome: one of the two.
        self.checked: Checked | None = None
        self.error: RequestRefused | None = None

    def records_of(self, header: BatchHeader) -> Records:
        """Return the batch that has this header: the one that was made, or the producer's."""
        checked = self.checked
        if checked is None or checked.header is not header or checked.records is None:
            return self._records
        return checked.records

    def take_error(self) -> RequestRefused | None:
        """Return the error, which is not kept: it may be raised, and would hold this and itself."""
        error, self.error = self.error, None
        return error

    @property
    def is_recompressing(self) -> bool:
        """Whether a batch is made, whose place is before those that come later."""
        wanted = self.config.compression
        return wanted is not None and wanted.codec != self._batch.codec

    def work(self) -> Checked:
        """Check, and compress anew; touches nothing but the records. Raises `RecordError`."""
        batch, config = self._batch, self.config
        payload = read_payload(self._records, batch, DECOMPRESSED_BYTES_MAX)
        header = walk_payload(batch, payload) if batch.is_compressed else batch
        _check_columns(self._records, config, self._earliest_ms)
        if config.compression is None or not self.is_recompressing:
            return Checked(header)
        records, made = recompress(header, payload, config.compression)
        if len(records) > config.max_message_bytes:
            raise BatchTooLarge(
                f"the batch has {len(records)} bytes when compressed as compression.type says; "
                f"max.message.bytes allows {config.max_message_bytes}",
                0,
            )
        return Checked(made, records)


def check_produced(
    owner: object, records: Records, config: TopicConfig, earliest_ms: int | None = None
) -> BatchHeader | LongCheck:
    """Check what a producer sent for one partition, which is one batch, unless that takes long.

    No record may be older than `earliest_ms`, if that is given.

    Raises:
        RecordError: it is not what a producer may send.
    """
    batches = check_batches(records, config.max_message_bytes)
    if len(batches) != 1:
        raise InvalidRecord(f"a request holds one batch per partition, not {len(batches)}")
    batch = batches[0]
    if config.compression is not None and config.compression.codec != batch.codec:
        return LongCheck(owner, records, batch, config, earliest_ms)
    if batch.is_compressed:
        walked = None
        if batch.size_bytes <= QUICK_BATCH_BYTES_MAX:
            walked = walk_compressed_quickly(records, batch, QUICK_BYTES_MAX)
        if walked is None:
            return LongCheck(owner, records, batch, config, earliest_ms)
        batch = walked
    _check_columns(records, config, earliest_ms)
    return batch


def use_check(
    owner: object,
    check: LongCheck,
    records: Records,
    config: TopicConfig,
    earliest_ms: int | None,
) -> BatchHeader | LongCheck:
    """Return what was found off the loop, if that is still what counts.

    Raises:
        NotLeader: the partition was reopened meanwhile.
        RecordError: what the check has found.
    """
    if check.owner is not owner:
        raise NotLeader("the partition was reopened while the batch was being checked")
    error = check.take_error()
    if error is not None:
        try:
            raise error
        finally:
            del error
    if check.checked is None or check.config != config:
        return check_produced(owner, records, config, earliest_ms)
    return check.checked.header


def _check_columns(records: Records, config: TopicConfig, earliest_ms: int | None) -> None:
    is_compacted = "compact" in config.cleanup_policy
    if not is_compacted and earliest_ms is None:
        return
    columns = decode_columns(records, DECOMPRESSED_BYTES_MAX)
    if is_compacted and min(columns.key_lengths) < 0:
        raise _keys_missing(columns.key_lengths)
    if earliest_ms is not None:
        times_ms = columns.timestamps_ms
        early = [
            place
            for place, time_ms in enumerate(times_ms)
            if time_ms < earliest_ms and time_ms != NO_TIMESTAMP
        ]
        if early:
            raise InvalidTimestamp(
                f"a record has the timestamp {times_ms[early[0]]}, which is further in the past "
                "than message.timestamp.before.max.ms allows",
                places=tuple(early[:RECORDS_NAMED_MAX]),
            )


def _keys_missing(key_lengths: array[int]) -> KeysMissing:
    places = [place for place, length in enumerate(key_lengths) if length < 0]
    return KeysMissing(
        f"{len(places)} of {len(key_lengths)} records have no key; the topic is compacted",
        places=tuple(places[:RECORDS_NAMED_MAX]),
    )


class BatchChecks:
    """Runs long checks, a few at a time, in the order in which they come."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._waiting: deque[tuple[LongCheck, Callable[[], None]]] = deque()
        #: The partitions of which a batch is made, or is to be, each with those to be made later.
        self._behind: dict[object, deque[tuple[LongCheck, Callable[[], None]]]] = {}
        self._behind_count = 0
        self._running = 0
        self._is_closed = False

    def run(self, check: LongCheck, on_done: Callable[[], None]) -> None:
        """Run a check; `on_done` is called in a later turn, when the check has its outcome."""
        if len(self._waiting) + self._behind_count >= WAITING_MAX:
            check.error = OverBound(f"{WAITING_MAX} batches wait to be checked")
            self._clock.call_soon(on_done)
            return
        if check.is_recompressing:
            behind = self._behind.get(check.owner)
            if behind is not None:
                behind.append((check, on_done))
                self._behind_count += 1
                return
            self._behind[check.owner] = deque()
        self._waiting.append((check, on_done))
        self._maybe_begin()

    def close(self) -> None:
        """Call nobody any more: nothing is to be appended from here on."""
        self._is_closed = True
        self._waiting.clear()
        self._behind.clear()

    def _let_next(self, owner: object) -> None:
        behind = self._behind[owner]
        if behind:
            self._behind_count -= 1
            self._waiting.append(behind.popleft())
        else:
            del self._behind[owner]

    def _maybe_begin(self) -> None:
        while self._waiting and self._running < RUNNING_MAX and not self._is_closed:
            self._running += 1
            self._begin(*self._waiting.popleft())

    def _begin(self, check: LongCheck, on_done: Callable[[], None]) -> None:
        def finish(checked: object, error: Exception | None) -> None:
            self._running -= 1
            if self._is_closed:
                return
            if check.is_recompressing:
                self._let_next(check.owner)
            self._maybe_begin()
            if isinstance(checked, Checked):
                check.checked = checked
            else:
                check.error = _without_frames(error)
            on_done()

        self._disk.run(check.work, finish)


def _without_frames(error: Exception | None) -> RequestRefused:
    """Return the error without what it holds: in its frames lie all that was decompressed."""
    if not isinstance(error, RequestRefused):
        return RequestRefused(f"the batch could not be checked: {error!r}")
    error.__context__ = error.__cause__ = None
    return error.with_traceback(None)
