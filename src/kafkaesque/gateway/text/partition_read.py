"""What one CONS gets from one partition."""

from bisect import bisect_left
from collections import deque

from kafkaesque.broker.requests.commands import EARLIEST, LATEST, FetchResult
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.errors import KafkaesqueError, OffsetOutOfRange, RequestRefused
from kafkaesque.model.record_errors import fail
from kafkaesque.model.records import RecordColumns, decode_columns
from kafkaesque.protocols.text.answers import MessageLine
from kafkaesque.protocols.text.messages import TextMessage
from kafkaesque.transactions.committed_filter import CommittedFilter

#: What one batch may decompress to.
DECOMPRESSED_BYTES_MAX = 64 * 1024 * 1024
#: So often a partition is fetched from on and on where all that came was not to be shown.
FETCHES_MAX = 16


class PartitionRead:
    """A position in a partition and the messages that come there.

    An offset before the log's start stands for the start. One after its end stands for itself, and
    there is nothing to show until the log has come so far; but where a group would go on there, the
    log has lost what the group had seen, and it goes on at the end.

    What was aborted is passed over, and what is not decided yet does not come.
    """

    __slots__ = (
        "_end",
        "_fetches_left",
        "_is_next",
        "_is_out_of_range",
        "_messages",
        "bytes_max",
        "failure",
        "gathered_bytes",
        "messages_max",
        "partition",
        "position",
    )

    def __init__(self, partition: int, *, messages_max: int, bytes_max: int, is_next: bool) -> None:
        self.partition = partition
        self.messages_max = messages_max
        self.bytes_max = bytes_max
        #: The next offset to show, or EARLIEST or LATEST as long as nobody has said what that is.
        self.position = EARLIEST
        self.failure: Exception | None = None
        self.gathered_bytes = 0
        self._is_next = is_next
        self._is_out_of_range = False
        self._messages: deque[MessageLine] = deque()
        #: Where the position is when all messages are shown.
        self._end = 0
        self._fetches_left = FETCHES_MAX

    @property
    def asked(self) -> int:
        """What to fetch from."""
        return EARLIEST if self._is_out_of_range else self.position

    def take(self, outcome: object) -> bool:
        """Take a `FetchResult` or a refusal; False if it is to be fetched once more."""
        if isinstance(outcome, OffsetOutOfRange) and not self._is_out_of_range:
            # Ask where the log begins and ends.
            self._is_out_of_range = True
            return False
        if not isinstance(outcome, FetchResult):
            self.failure = (
                outcome
                if isinstance(outcome, RequestRefused)
                else RequestRefused(f"an answer of the kind {type(outcome).__name__}")
            )
            return True
        self._settle(outcome)
        try:
            self._gather(outcome)
        except KafkaesqueError as error:
            self.failure = error
            self._messages.clear()
            return True
        return self._is_enough(outcome)

    def _is_enough(self, result: FetchResult) -> bool:
        """Tell whether there is something to show, or nothing to come; else it goes on."""
        self._fetches_left -= 1
        is_over = self._end == self.position or self._end >= result.last_stable_offset
        if self._messages or is_over or self.messages_max == 0 or self._fetches_left == 0:
            return True
        self.position = self._end
        self._is_out_of_range = False
        return False

    def _settle(self, result: FetchResult) -> None:
        """Turn what was asked for into an offset."""
        if self.position == LATEST:
            self.position = result.last_stable_offset
        elif self.position < result.log_start_offset:
            self.position = result.log_start_offset
        elif self._is_out_of_range and self._is_next:
            self.position = result.last_stable_offset
        self._end = self.position

    def _gather(self, result: FetchResult) -> None:
        view = memoryview(result.records)
        committed = CommittedFilter(result.aborted)
        scan = scan_batches(view)
        for header in scan.batches:
            is_shown = committed.is_shown(header)
            if header.next_offset > self._end and not self._gather_batch(view, header, is_shown):
                return
        if scan.end < len(view) and not self._messages:
            # Who reads text cannot check it; what is good before the damage is shown first.
            fail(scan.fault, scan.end)

    def _gather_batch(self, view: memoryview, header: BatchHeader, is_shown: bool) -> bool:
        """Take a batch's messages; False if there is no room for all of them."""
        if is_shown:
            columns = decode_columns(view, DECOMPRESSED_BYTES_MAX, at=header.at)
            offsets = columns.offsets
            for row in range(bisect_left(offsets, self.position), len(offsets)):
                if not self._has_room:
                    return False
                self._add(columns, row)
                self._end = offsets[row] + 1
        self._end = header.next_offset
        return True

    @property
    def _has_room(self) -> bool:
        count = len(self._messages)
        return count < self.messages_max and (count == 0 or self.gathered_bytes < self.bytes_max)

    def _add(self, columns: RecordColumns, row: int) -> None:
        message = TextMessage(
            headers=columns.headers(row), key=columns.key(row), value=columns.value(row)
        )
        self.gathered_bytes += len(message.key or b"") + len(message.value or b"")
        self._messages.append(
            MessageLine(self.partition, columns.offsets[row], columns.timestamps_ms[row], message)
        )

    # -- showing

    @property
    def has_more(self) -> bool:
        """Whether there is a message to show."""
        return bool(self._messages)

    def show_next(self) -> MessageLine | None:
        """Return the next message and go past it."""
        message = self._messages.popleft() if self._messages else None
        if message is not None:
            self.position = message.offset + 1
        if self.failure is None and not self._messages and self.position >= 0:
            self.position = max(self.position, self._end)
        return message
