"""Keeps a state in line with a topic of one partition, read when somebody wants to know.

Theory of operation. A round of reading goes up to the end that the leader names, so what was
committed before it began is in the state when it ends. Who comes while a round goes on waits for
the next one. Nobody reads in vain: a broker that is asked nothing reads nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from kafkaesque.broker.controller.internal_topic import KnownMetadata
from kafkaesque.broker.requests.commands import EARLIEST, FetchResult
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import OffsetOutOfRange, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch

#: Of one question to the leader; the rest comes in later turns.
READ_BYTES_MAX: Final = 256 * 1024
READ_MS_MAX: Final = 5_000

OnRead = Callable[[bool], None]


class FetchLog(Protocol):
    """What is needed of `Forwarder`."""

    def fetch(
        self,
        where: TopicPartition,
        offset: int,
        bytes_max: int,
        timeout_ms: int,
        on_done: Callable[[FetchResult | RequestRefused], None],
    ) -> None:
        """Read at the leader."""


class TopicReader:
    """See the module."""

    __slots__ = (
        "_apply",
        "_clear",
        "_clock",
        "_is_reading",
        "_log",
        "_message_bytes_max",
        "_metadata",
        "_position",
        "_read_next",
        "_read_now",
        "_topic_id",
        "_where",
        "end_offset",
        "trouble",
    )

    def __init__(
        self,
        topic: str,
        *,
        clock: Clock,
        metadata: KnownMetadata,
        log: FetchLog,
        message_bytes_max: int,
        clear: Callable[[], None],
        apply: Callable[[Record], None],
    ) -> None:
        """`clear` empties the state, `apply` brings the next record into it."""
        self._where: Final = TopicPartition(topic, 0)
        self._clock: Final = clock
        self._metadata: Final = metadata
        self._log: Final = log
        self._message_bytes_max: Final = message_bytes_max
        self._clear: Final = clear
        self._apply: Final = apply
        #: Of which topic the state is; made again it is another.
        self._topic_id: bytes | None = None
        self._position = EARLIEST
        #: Where the log ended when it was read last; -1: that is not known.
        self.end_offset = -1
        self._is_reading = False
        #: Why the last round of reading failed; empty: it did not.
        self.trouble = ""
        #: Who waits for the round of reading that goes on, and for one that begins after it.
        self._read_now: list[OnRead] = []
        self._read_next: list[OnRead] = []

    def catch_up(self, on_read: OnRead) -> None:
        """Call with True once the state has all that was committed before this call.

        False says that the leader could not be asked: the state is as old as it is.
        """
        topic = self._metadata.state.topics.get(self._where.topic)
        if topic is None:
            self._begin_anew(None)
            on_read(True)
            return
        if topic.topic_id != self._topic_id:
            self._begin_anew(topic.topic_id)
        self._read_next.append(on_read)
        if not self._is_reading:
            self._begin_round()

    def forget(self) -> None:
        """Have the next round begin at the log's start, unless one goes on."""
        if not self._is_reading:
            self._begin_anew(None)

    def _begin_anew(self, topic_id: bytes | None) -> None:
        self._clear()
        self._topic_id = topic_id
        self._position = EARLIEST
        self.end_offset = -1

    def _begin_round(self) -> None:
        self._is_reading = True
        self._read_now, self._read_next = self._read_next, []
        self._read()

    def _read(self) -> None:
        topic_id = self._topic_id

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            if topic_id != self._topic_id:
                self._clock.call_soon(self._read)
            elif isinstance(outcome, FetchResult):
                self._take(outcome)
            elif isinstance(outcome, OffsetOutOfRange) and self._position != EARLIEST:
                self._begin_anew(topic_id)
                self._clock.call_soon(self._read)
            else:
                self._end_round(str(outcome))

        self._log.fetch(self._where, self._position, READ_BYTES_MAX, READ_MS_MAX, on_fetched)

    def _take(self, result: FetchResult) -> None:
        view = memoryview(result.records)
        headers = scan_batches(view).batches
        if view and not headers:
            self._end_round(f"what stands there at offset {self._position} is damaged")
            return
        for header in headers:
            try:
                records = decode_batch(view, self._message_bytes_max, at=header.at)
            except RecordError as error:
                self._end_round(f"what stands there is damaged: {error}")
                return
            for record in records:
                if record.offset >= self._position:
                    self._apply(record)
            self._position = header.next_offset
        if headers and self._position < result.last_stable_offset:
            self._clock.call_soon(self._read)
            return
        # Compaction may have removed what stood at the end. A leader that is new may not know yet
        # what is committed: what was read stays read.
        self._position = self.end_offset = max(self._position, result.last_stable_offset)
        self._end_round()

    def _end_round(self, trouble: str = "") -> None:
        self.trouble = trouble
        waiting, self._read_now = self._read_now, []
        self._is_reading = False
        if self._read_next:
            self._begin_round()
        for each in waiting:
            each(not trouble)
