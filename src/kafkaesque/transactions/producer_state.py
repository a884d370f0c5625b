"""What a partition knows of its idempotent producers.

Theory of operation. A producer numbers the records that it sends to a partition. For each producer
id the partition remembers the epoch, the last sequence number and its last five batches. A batch
that continues the numbers is accepted; one that equals a remembered batch is a duplicate of it and
gets the same answer; anything else is out of order. A higher epoch begins at 0 again and fences the
lower ones. A producer of which nothing is remembered may begin anywhere: its records may simply
have been deleted, or it has been silent for longer than we remember.

The state follows the log's end, not what is committed: `append` goes with every batch that is
appended, on leaders and followers. When the log's end is cut off, `truncate` puts things back as
they were, which is why what each append replaced is kept until `on_committed`. Snapshots hold what
is below an offset that is committed; replaying the batch headers from there on gives the rest.

Source: KIP-98, KIP-185 (five batches), KIP-360 (unknown producers); Apache Kafka's
ProducerStateManager for which error goes with what.
"""

from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from struct import Struct
from typing import NamedTuple

from kafkaesque.model.errors import ConfigError, InvariantBroken
from kafkaesque.model.ids import Offset

#: "No producer id", as Kafka writes it.
NO_PRODUCER_ID = -1
#: Sequence numbers go up to here and begin at 0 again.
SEQUENCE_MAX = 2**31 - 1
EPOCH_MAX = 2**15 - 1
#: Batches that are remembered per producer; clients have at most as many in flight.
BATCHES_REMEMBERED = 5

_NO_OFFSETS = Offset(0)

#: A remembered batch: last sequence, last offset, last offset minus first, timestamp.
BATCH = Struct(">iqiq")
_BATCHES_BYTES = BATCH.size * BATCHES_REMEMBERED


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStateConfig:
    """Options and bounds of one partition's producer state.

    Raises:
        ConfigError: a value is below 1.
    """

    #: producer.id.expiration.ms
    producer_expiration_ms: int = 24 * 60 * 60 * 1000
    #: Producers that are remembered; the one that has been silent for longest gives way.
    producers_max: int = 20_000
    #: Appends that are not committed; the replication bounds them far below.
    appends_in_flight_max: int = 1_000_000

    def __post_init__(self) -> None:
        values = (self.producer_expiration_ms, self.producers_max, self.appends_in_flight_max)
        if min(values) < 1:
            raise ConfigError(f"producer state: {values} must all be at least 1")


class Verdict(Enum):
    """What to do with a batch that is no duplicate."""

    ACCEPT = auto()
    #: Its numbers do not follow.
    OUT_OF_ORDER_SEQUENCE = auto()
    #: A producer with a higher epoch has taken over.
    INVALID_PRODUCER_EPOCH = auto()
    #: It carries numbers that no producer can mean.
    INVALID_RECORD = auto()


class Duplicate(NamedTuple):
    """The batch is in the log already.

    Its answer is that of the first one, and may be given only once `last_offset` is committed.
    """

    first_offset: Offset
    last_offset: Offset
    timestamp_ms: int


class SequencedBatch(NamedTuple):
    """What a batch's header says that matters here."""

    producer_id: int
    epoch: int
    first_sequence: int
    #: Positions that it takes in the log.
    record_count: int
    first_offset: Offset
    timestamp_ms: int


class ProducerEntry(NamedTuple):
    """What is remembered of one producer."""

    epoch: int
    last_sequence: int
    #: When it was last heard of, or the timestamp of its last batch, whichever is later.
    seen_wall_ms: int
    #: Remembered batches, oldest first, each packed as `BATCH`: hundreds of thousands of producers
    #: are to fit into memory, and a batch is looked at only when something is wrong.
    batches: bytes


class _Undo(NamedTuple):
    first_offset: int
    last_offset: int
    producer_id: int
    before: ProducerEntry | None


class ProducerStateTable:
    """The producers of one partition."""

    __slots__ = ("_committed_offset", "_config", "_end_offset", "_entries", "_undo")

    def __init__(self, config: ProducerStateConfig, end_offset: Offset = _NO_OFFSETS) -> None:
        self._config = config
        #: In the order of each producer's last append.
        self._entries: dict[int, ProducerEntry] = {}
        self._undo: deque[_Undo] = deque()
        self._end_offset: int = end_offset
        self._committed_offset: int = end_offset

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def end_offset(self) -> Offset:
        """The offset after the last batch that the state knows of."""
        return Offset(self._end_offset)

    def check(
        self, producer_id: int, epoch: int, first_sequence: int, record_count: int
    ) -> Verdict | Duplicate:
        """Judge a batch that a client wants appended; nothing changes.

        A batch without a producer id is always accepted.
        """
        if producer_id == NO_PRODUCER_ID:
            return Verdict.ACCEPT
        if not (
            producer_id >= 0
            and 0 <= epoch <= EPOCH_MAX
            and 0 <= first_sequence <= SEQUENCE_MAX
            and record_count > 0
        ):
            return Verdict.INVALID_RECORD
        entry = self._entries.get(producer_id)
        if entry is None:
            return Verdict.ACCEPT
        if entry.epoch == epoch:
            if first_sequence == _after(entry.last_sequence, 1):
                return Verdict.ACCEPT
            found = _find(entry, first_sequence, record_count)
            return Verdict.OUT_OF_ORDER_SEQUENCE if found is None else found
        if epoch < entry.epoch:
            return Verdict.INVALID_PRODUCER_EPOCH
        return Verdict.ACCEPT if first_sequence == 0 else Verdict.OUT_OF_ORDER_SEQUENCE

    def append(self, batch: SequencedBatch, seen_wall_ms: int) -> None:
        """Take note of a batch that is appended to the log (buffered; it may be cut off again).

        Followers and replays call it without `check`: what stands in the log is accepted. A replay
        says `on_committed` now and then, so that not all of it is kept for a `truncate`.

        Raises:
            InvariantBroken: it lies before the state's end, or the bound in flight is passed.
        """
        first_offset = batch.first_offset
        last_offset = first_offset + batch.record_count - 1
        if first_offset < self._end_offset or batch.record_count < 1:
            raise InvariantBroken(f"{batch} does not follow offset {self._end_offset - 1}")
        self._end_offset = last_offset + 1
        producer_id = batch.producer_id
        if producer_id == NO_PRODUCER_ID:
            return
        before = self._entries.pop(producer_id, None)
        remembered = before.batches if before is not None and before.epoch == batch.epoch else b""
        last_sequence = _after(batch.first_sequence, batch.record_count - 1)
        packed = BATCH.pack(
            last_sequence, last_offset, last_offset - first_offset, batch.timestamp_ms
        )
        self._entries[producer_id] = ProducerEntry(
            batch.epoch,
            last_sequence,
            max(seen_wall_ms, batch.timestamp_ms),
            (remembered + packed)[-_BATCHES_BYTES:],
        )
        self._keep(_Undo(first_offset, last_offset, producer_id, before))
        if len(self._entries) > self._config.producers_max:
            oldest = next(iter(self._entries))
            self._keep(_Undo(first_offset, last_offset, oldest, self._entries.pop(oldest)))

    def on_committed(self, offset: Offset) -> None:
        """Note that everything before `offset` (the high watermark) will never be cut off."""
        if offset <= self._committed_offset:
            return
        self._committed_offset = offset
        undo = self._undo
        while undo and undo[0].last_offset < offset:
            undo.popleft()

    def truncate(self, offset: Offset) -> None:
        """Forget every batch that does not lie wholly before `offset`: the log's end is cut off.

        Raises:
            InvariantBroken: something committed would be cut off.
        """
        if offset < self._committed_offset:
            raise InvariantBroken(f"cut at {offset}, but {self._committed_offset} is committed")
        end_offset: int = offset
        while self._undo and self._undo[-1].last_offset >= offset:
            undo = self._undo.pop()
            end_offset = min(end_offset, undo.first_offset)
            _take_back(self._entries, undo)
        self._end_offset = min(self._end_offset, end_offset)

    def remove_expired(self, now_wall_ms: int) -> int:
        """Forget producers that have been silent for too long; return how many."""
        limit = now_wall_ms - self._config.producer_expiration_ms
        expired = [each for each, entry in self._entries.items() if entry.seen_wall_ms <= limit]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def entries_before(self, offset: Offset) -> list[tuple[int, ProducerEntry]]:
        """Return all producers as the log before `offset` has them, longest silent first.

        Raises:
            InvariantBroken: the state does not reach back, or does not reach, to there.
        """
        if not self._committed_offset <= offset <= self._end_offset:
            raise InvariantBroken(
                f"the state of offset {offset} is not known, only that from "
                f"{self._committed_offset} to {self._end_offset}"
            )
        entries = dict(self._entries)
        for undo in reversed(self._undo):
            if undo.last_offset < offset:
                break
            _take_back(entries, undo)
        return sorted(entries.items(), key=lambda item: remembered_batches(item[1])[-1].last_offset)

    def load(self, entries: list[tuple[int, ProducerEntry]]) -> None:
        """Begin with what a snapshot holds."""
        if self._entries or self._undo:
            raise InvariantBroken("a snapshot is loaded into an empty state only")
        self._entries = dict(entries)

    def _keep(self, undo: _Undo) -> None:
        if len(self._undo) >= self._config.appends_in_flight_max:
            raise InvariantBroken(f"{len(self._undo)} appends are not committed")
        self._undo.append(undo)


def remembered_batches(entry: ProducerEntry) -> list[Duplicate]:
    """Return where a producer's remembered batches lie, oldest first."""
    return [
        Duplicate(Offset(last_offset - delta), Offset(last_offset), timestamp_ms)
        for _, last_offset, delta, timestamp_ms in BATCH.iter_unpack(entry.batches)
    ]


def _find(entry: ProducerEntry, first_sequence: int, record_count: int) -> Duplicate | None:
    """Return the remembered batch with exactly these numbers."""
    wanted = _after(first_sequence, record_count - 1)
    for last_sequence, last_offset, delta, timestamp_ms in BATCH.iter_unpack(entry.batches):
        if last_sequence == wanted and delta == record_count - 1:
            return Duplicate(Offset(last_offset - delta), Offset(last_offset), timestamp_ms)
    return None


def _after(sequence: int, count: int) -> int:
    """Return the sequence number that is `count` after this one; after the highest comes 0."""
    return (sequence + count) % (SEQUENCE_MAX + 1)


def _take_back(entries: dict[int, ProducerEntry], undo: _Undo) -> None:
    entries.pop(undo.producer_id, None)
    if undo.before is not None:
        entries[undo.producer_id] = undo.before
