"""Reads a range of a partition: batches as they lie in the log, checked, only what is committed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from kafkaesque.model import records as codec
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.batch_encoder import MarkerType, decode_end_marker
from kafkaesque.model.record_errors import CorruptBatch, Fault, record_error
from kafkaesque.protocols.kafka.api import ApiKey
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.messages.fetch_request import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
)
from kafkaesque.protocols.kafka.messages.fetch_response import AbortedTransaction
from kafkaesque.spark.cluster import Cluster
from kafkaesque.spark.connection import Connection
from kafkaesque.spark.errors import DataLoss, Passing, Refused, check
from kafkaesque.spark.log_offsets import list_offsets
from kafkaesque.spark.offsets import EARLIEST
from kafkaesque.spark.ranges import OffsetRange
from kafkaesque.spark.source_options import SourceOptions
from kafkaesque.spark.subscription import tell

_VERSION = 12
#: What one batch may take when it is decompressed.
BATCH_BYTES_MAX = 1 << 30


class AbortedFilter:
    """Knows, batch after batch of one answer, what belongs to aborted transactions."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = sorted(
            ((each.first_offset, each.producer_id) for each in aborted), reverse=True
        )
        self._producers: set[int] = set()

    def is_aborted(self, batch: BatchHeader, answer: memoryview) -> bool:
        """Whether the batch's records are to be skipped; batches come in the log's order."""
        while self._waiting and self._waiting[-1][0] <= batch.last_offset:
            self._producers.add(self._waiting.pop()[1])
        if batch.producer_id not in self._producers:
            return False
        if batch.is_control:
            (marker,) = codec.decode_batch(answer, BATCH_BYTES_MAX, at=batch.at)[:1] or (None,)
            if marker is not None and decode_end_marker(marker).type is MarkerType.ABORT:
                self._producers.discard(batch.producer_id)
            return True
        return batch.is_transactional


class PartitionReader:
    """Fetches a range; while the caller works on one answer, the next is on its way."""

    def __init__(self, cluster: Cluster, options: SourceOptions, wanted: OffsetRange) -> None:
        self._cluster = cluster
        self._options = options
        self._wanted = wanted
        self._name = f"{wanted.topic}-{wanted.partition}"
        self._position = wanted.start
        #: A batch that begins before it has records that are not to be read.
        self._first = wanted.start
        #: Where an answer for `_position` is to come from, and the request's number.
        self._fetching: tuple[Connection, int] | None = None
        self._moved_at = time.monotonic()

    def read(self) -> Iterator[tuple[memoryview, BatchHeader, int]]:
        """Yield answers and, one after the other, the batches in them that are to be read.

        The number is the first offset that is to be read: a batch may begin before it, and end
        beyond the range.

        Raises:
            DataLoss: offsets are gone, and that is an error. Unavailable: no answer in time.
            CorruptBatch: the bytes are not what was written.
        """
        # Others may have been read since this one was made.
        self._moved_at = time.monotonic()
        while self._position < self._wanted.end:
            found = self._cluster.retry(f"reading {self._name}", self._fetch)
            if found is None:
                self._skip_lost()
                continue
            answer, batches = found
            records = memoryview(answer.records)
            aborted = answer.aborted_transactions if self._options.is_read_committed else None
            aborted_filter = AbortedFilter(aborted or ())
            for batch in batches:
                is_aborted = aborted_filter.is_aborted(batch, records)
                is_beyond = batch.base_offset >= self._wanted.end
                if not (is_aborted or is_beyond or batch.is_control):
                    yield records, batch, self._first

    def _fetch(self) -> tuple[Any, list[BatchHeader]] | None:
        """Return the next answer's partition and its batches; None where the offset is gone."""
        fetching, self._fetching = self._fetching, None
        connection, number = fetching or self._send()
        answer = connection.receive(number)
        check(answer.error_code, f"reading {self._name}")
        if not answer.responses:
            time.sleep(answer.throttle_time_ms / 1000)
            raise Passing("the broker delays its answer because of a quota")
        part = answer.responses[0].partitions[0]
        if part.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        if part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise Refused(f"partition {self._name} does not exist", part.error_code)
        check(part.error_code, f"reading {self._name} at offset {self._position}")
        batches = self._checked(part.records or b"")
        if batches:
            self._position = batches[-1].next_offset
            self._moved_at = time.monotonic()
        else:
            self._wait_for_end(part)
        part.records = part.records or b""
        self._fetch_ahead()
        return part, batches

    def start(self) -> None:
        """Have the first answer on its way before `read` asks for it."""
        if self._fetching is None:
            self._fetch_ahead()

    def _fetch_ahead(self) -> None:
        """Ask for what follows; where that fails, the next turn asks again and tells."""
        if self._position < self._wanted.end:
            with suppress(Passing, OSError):
                self._fetching = self._send()

    def _send(self) -> tuple[Connection, int]:
        leader = self._cluster.leader(self._wanted.topic, self._wanted.partition)
        size = self._options.fetch_bytes
        partition = FetchPartition(
            partition=self._wanted.partition,
            fetch_offset=self._position,
            partition_max_bytes=size,
        )
        request = FetchRequest(
            max_wait_ms=self._options.fetch_wait_ms,
            min_bytes=1,
            max_bytes=size,
            isolation_level=int(self._options.is_read_committed),
            topics=[FetchTopic(topic=self._wanted.topic, partitions=[partition])],
        )
        return leader, leader.send(ApiKey.FETCH, _VERSION, request)

    def _checked(self, records: memoryview | bytes) -> list[BatchHeader]:
        """Return the batches of an answer from the position on; the last may be cut off."""
        scan = scan_batches(records)
        if scan.fault not in (Fault.NONE, Fault.INCOMPLETE) or (records and not scan.batches):
            error = record_error(scan.fault or Fault.INCOMPLETE, scan.end)
            raise CorruptBatch(f"partition {self._name} at offset {self._position}: {error}")
        return [batch for batch in scan.batches if batch.last_offset >= self._position]

    def _wait_for_end(self, part: Any) -> None:
        """Refuse to wait for ever for records that were promised and do not come."""
        waited_s = time.monotonic() - self._moved_at
        if waited_s > self._cluster.options.api_timeout_s:
            raise DataLoss(
                f"partition {self._name} ends at offset {part.last_stable_offset}, before offset"
                f" {self._wanted.end} that was to be read"
            )

    def _skip_lost(self) -> None:
        """Go on where the log begins, if what was before may be missing.

        Raises:
            DataLoss: it may not.
        """
        each = (self._wanted.topic, self._wanted.partition)
        first = list_offsets(self._cluster, {each: EARLIEST}, is_read_committed=False)[each]
        is_before = first > self._position
        where = f"begins at {first}" if is_before else "ends before it"
        message = f"partition {self._name} has no offset {self._position}: it {where}"
        if self._options.fails_on_data_loss:
            raise DataLoss(f"{message}; failOnDataLoss=false would read what is there")
        tell(message)
        self._position = self._first = first if is_before else self._wanted.end
