"""What a producer sends is checked before it is believed; what takes long is checked off the loop.

Theory of operation. `check_produced` looks into a batch as far as that takes less than about a
millisecond. A compressed batch may take more: it may hold 64 MiB of zeros in 2 KiB. Then a
`LongCheck` comes back in place of the header, and nothing has happened. Whoever produces has
`BatchChecks` run it, waits with everything that has to come after this batch, and produces the
batch again with the check that was done. All that may have changed meanwhile, leadership above all,
is looked at then.
"""

from array import array
from collections import deque
from collections.abc import Callable

from kafkaesque.broker.topic_config import TopicConfig
from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.batch import (
    BatchHeader,
    check_batches,
    walk_compressed,
    walk_compressed_quickly,
)
from kafkaesque.model.errors import OverBound, RequestRefused
from kafkaesque.model.record_errors import InvalidRecord, KeysMissing
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


class LongCheck:
    """The check of one batch that is left to do; then its outcome."""

    __slots__ = ("_batch", "_records", "config", "error", "header", "owner")

    def __init__(
        self, owner: object, records: Records, batch: BatchHeader, config: TopicConfig
    ) -> None:
        self._records = records
        self._batch = batch
        #: For which partition it was checked, and by what rules.
        self.owner = owner
        self.config = config
        #: The outcome: one of the two.
        self.header: BatchHeader | None = None
        self.error: RequestRefused | None = None

    def take_error(self) -> RequestRefused | None:
        """Return the error, which is not kept: it may be raised, and would hold this and itself."""
        error, self.error = self.error, None
        return error

    def work(self) -> BatchHeader:
        """Check; touches nothing but the records. Raises `RecordError`."""
        header = walk_compressed(self._records, self._batch, DECOMPRESSED_BYTES_MAX)
        _check_keys(self._records, self.config)
        return header


def check_produced(owner: object, records: Records, config: TopicConfig) -> BatchHeader | LongCheck:
    """Check what a producer sent for one partition, which is one batch, unless that takes long.

    Raises:
        RecordError: it is not what a producer may send.
    """
    batches = check_batches(records, config.max_message_bytes)
    if len(batches) != 1:
        raise InvalidRecord(f"a request holds one batch per partition, not {len(batches)}")
    batch = batches[0]
    if batch.is_compressed:
        walked = None
        if batch.size_bytes <= QUICK_BATCH_BYTES_MAX:
            walked = walk_compressed_quickly(records, batch, QUICK_BYTES_MAX)
        if walked is None:
            return LongCheck(owner, records, batch, config)
        batch = walked
    _check_keys(records, config)
    return batch


def _check_keys(records: Records, config: TopicConfig) -> None:
    if "compact" in config.cleanup_policy:
        columns = decode_columns(records, DECOMPRESSED_BYTES_MAX)
        if min(columns.key_lengths) < 0:
            raise _keys_missing(columns.key_lengths)


def _keys_missing(key_lengths: "array[int]") -> KeysMissing:
    places = [place for place, length in enumerate(key_lengths) if length < 0]
    return KeysMissing(
        f"{len(places)} of {len(key_lengths)} records have no key; the topic is compacted",
        tuple(places[:RECORDS_NAMED_MAX]),
    )


class BatchChecks:
    """Runs long checks, a few at a time, in the order in which they come."""

    def __init__(self, disk: Disk, clock: Clock) -> None:
        self._disk = disk
        self._clock = clock
        self._waiting: deque[tuple[LongCheck, Callable[[], None]]] = deque()
        self._running = 0
        self._is_closed = False

    def run(self, check: LongCheck, on_done: Callable[[], None]) -> None:
        """Run a check; `on_done` is called in a later turn, when the check has its outcome."""
        if len(self._waiting) >= WAITING_MAX:
            check.error = OverBound(f"{WAITING_MAX} batches wait to be checked")
            self._clock.call_soon(on_done)
            return
        self._waiting.append((check, on_done))
        self._maybe_begin()

    def close(self) -> None:
        """Call nobody any more: nothing is to be appended from here on."""
        self._is_closed = True
        self._waiting.clear()

    def _maybe_begin(self) -> None:
        while self._waiting and self._running < RUNNING_MAX and not self._is_closed:
            self._running += 1
            self._begin(*self._waiting.popleft())

    def _begin(self, check: LongCheck, on_done: Callable[[], None]) -> None:
        def finish(header: object, error: Exception | None) -> None:
            self._running -= 1
            if self._is_closed:
                return
            self._maybe_begin()
            if isinstance(header, BatchHeader):
                check.header = header
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
