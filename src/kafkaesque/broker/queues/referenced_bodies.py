"""Reads messages of a queue whose bodies stand in topics (ADR 48)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Final

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.queues.bodies import (
    Bodies,
    Found,
    Locate,
    OnDamaged,
    OnRead,
    OnRecords,
    RecordGone,
    size_of,
)
from kafkaesque.broker.queues.damages import Damages
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.errors import LeaderNotAvailable, OffsetOutOfRange, RequestRefused
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.model.log_reference import LogReference, read_reference
from kafkaesque.model.message_headers import LOG_REFERENCE, PREFIX
from kafkaesque.model.records import Record

#: Partitions of topics of which records are kept, because other queues refer to the same ones.
SOURCES_MAX: Final = 16
#: What is read of a topic at a time.
PIECE_BYTES: Final = 256 * 1024
TIMEOUT_MS: Final = 10_000
_MARK: Final = LOG_REFERENCE.encode()

_Source = tuple[TopicId, int]
_NONE: Final = Found({}, ())


class ReferencedBodies(Bodies):
    """Finds messages of one queue by offset: in its log, or where its log says they are."""

    __slots__ = ("_has_references", "_sources")

    def __init__(self, locate: Locate, on_damaged: OnDamaged, sources: ReferencedLogs) -> None:
        super().__init__(locate, on_damaged)
        self._sources = sources
        #: Whether any record was read that may be a reference: most queues never have one.
        self._has_references = False

    def read(self, offsets: Sequence[int], bytes_max: int, on_done: OnRecords) -> None:
        """See `Bodies`. A message that its topic does not have any more is not in the log."""
        super().read(offsets, bytes_max, partial(self._on_found, bytes_max, on_done))

    def take_piece(self, offset: int, data: bytes) -> bool:
        """See `Bodies`."""
        self._has_references = self._has_references or _MARK in data
        return super().take_piece(offset, data)

    def _on_found(self, bytes_max: int, on_done: OnRecords, found: Found | RequestRefused) -> None:
        if not self._has_references or isinstance(found, RequestRefused):
            on_done(found)
            return
        references: dict[int, LogReference] = {}
        for offset, record in found.records.items():
            reference = None if record.value else read_reference(record.headers)
            if reference is not None:
                references[offset] = reference
        if references:
            _Filling(found, references, bytes_max, on_done).begin(self._sources)
        else:
            on_done(found)


class ReferencedLogs:
    """Reads topics for all queues of a broker."""

    __slots__ = ("_damages", "_forwarder", "_kept", "_metadata")

    def __init__(self, metadata: MetadataView, forwarder: Forwarder, damages: Damages) -> None:
        self._metadata = metadata
        self._forwarder = forwarder
        self._damages = damages
        self._kept: Final[OrderedDict[_Source, Bodies]] = OrderedDict()

    def read(
        self, source: _Source, offsets: Sequence[int], bytes_max: int, on_done: OnRecords
    ) -> None:
        """Return the records at rising offsets, as `Bodies` does; none of a topic that is gone."""
        if source[0] in self._metadata.state.topics_by_id:
            self._bodies(source).read(offsets, bytes_max, on_done)
            return

        def on_current(is_current: bool) -> None:
            if source[0] in self._metadata.state.topics_by_id:
                self._bodies(source).read(offsets, bytes_max, on_done)
            elif is_current:
                on_done(_NONE)
            else:
                on_done(LeaderNotAvailable("it could not be found out whether a topic exists"))

        # This broker may not have heard of it yet.
        self._metadata.when_current(TIMEOUT_MS, on_current)

    def _bodies(self, source: _Source) -> Bodies:
        found = self._kept.get(source)
        if found is None:
            found = self._kept[source] = Bodies(
                partial(self._locate, source), partial(self._on_damaged, source)
            )
            if len(self._kept) > SOURCES_MAX:
                self._kept.popitem(last=False)
        self._kept.move_to_end(source)
        return found

    def _on_damaged(self, source: _Source, offset: int) -> bool:
        topic = self._metadata.state.topics_by_id.get(source[0])
        return topic is not None and self._damages.note(topic.partitions[source[1]], offset)

    def _locate(self, source: _Source, offset: int, on_read: OnRead) -> None:
        topic = self._metadata.state.topics_by_id.get(source[0])
        if topic is None:
            on_read(RecordGone())
            return
        self._forwarder.fetch(
            TopicPartition(topic.name, source[1]),
            offset,
            PIECE_BYTES,
            TIMEOUT_MS,
            partial(_on_fetched, on_read),
            reads_all=True,
        )


def _on_fetched(on_read: OnRead, outcome: FetchResult | RequestRefused) -> None:
    if isinstance(outcome, FetchResult):
        on_read(outcome.records)
    elif isinstance(outcome, OffsetOutOfRange):
        on_read(RecordGone())
    else:
        on_read(outcome)


class _Filling:
    """What was read of a queue, while its bodies are read from topics."""

    __slots__ = ("_bytes_max", "_found", "_on_done", "_read", "_references", "_refused", "_waiting")

    def __init__(
        self,
        found: Found,
        references: dict[int, LogReference],
        bytes_max: int,
        on_done: OnRecords,
    ) -> None:
        self._found = found
        self._references = references
        self._bytes_max = bytes_max
        self._on_done = on_done
        self._read: dict[_Source, Found] = {}
        self._refused: RequestRefused | None = None
        self._waiting = 0

    def begin(self, sources: ReferencedLogs) -> None:
        """Read what is referred to."""
        wanted: dict[_Source, set[int]] = {}
        for reference in self._references.values():
            source = reference.topic_id, reference.partition
            wanted.setdefault(source, set()).add(reference.offset)
        self._waiting = len(wanted)
        for source, offsets in wanted.items():
            sources.read(source, sorted(offsets), self._bytes_max, partial(self._on_read, source))

    def _on_read(self, source: _Source, found: Found | RequestRefused) -> None:
        if isinstance(found, RequestRefused):
            self._refused = found
        else:
            self._read[source] = found
        self._waiting -= 1
        if not self._waiting:
            self._on_done(self._filled() if self._refused is None else self._refused)

    def _filled(self) -> Found:
        """Return the messages, as many as have the bytes that were asked for, but at least one."""
        unread = {source: set(found.left) for source, found in self._read.items()}
        records: dict[int, Record] = {}
        left = self._bytes_max
        rising = sorted(self._found.records.items())
        for number, (offset, record) in enumerate(rising):
            filled: Record | None = record
            reference = self._references.get(offset)
            if reference is not None:
                source = reference.topic_id, reference.partition
                if reference.offset in unread[source]:
                    return self._up_to(records, rising[number:])
                filled = _filled(record, reference, self._read[source].records)
            if filled is None:
                continue
            size = size_of(filled)
            if records and size > left:
                return self._up_to(records, rising[number:])
            left -= size
            records[offset] = filled
        return Found(records, self._found.left)

    def _up_to(self, records: dict[int, Record], rest: Sequence[tuple[int, Record]]) -> Found:
        return Found(records, [*(offset for offset, _ in rest), *self._found.left])


def _filled(record: Record, reference: LogReference, records: dict[int, Record]) -> Record | None:
    """Return a message with its body; None: the topic does not have it any more."""
    source = records.get(reference.offset)
    if source is None or not reference.fits(source.value):
        return None
    headers = tuple(each for each in record.headers if each[0] != LOG_REFERENCE)
    if reference.has_headers:
        # A topic has all that publishers say; what brokers say stands in the queue's record.
        said = (each for each in source.headers if not each[0].startswith(PREFIX))
        headers = (*said, *headers)
    return record._replace(value=source.value, headers=headers)
