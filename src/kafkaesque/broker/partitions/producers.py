"""What a partition knows of its idempotent producers, kept with its log.

Theory of operation. The state is that of the log's end. It lives in memory; files beside the
segments (see `producer_files`), with `aborted-transactions` beside them, hold it as of some
committed offset, and the headers of the batches after that offset, and the markers of transactions,
give the rest when the partition is opened.

Records that are deleted from the front take the headers with them that would give the state again,
and it is to outlast them, as it does in Kafka: a producer that sends once more what was deleted is
to be told that it was there. So the state is made durable first (`cover`), as of an offset at or
after the new start. A replica whose log is to begin at the leader's start gets the leader's state
(`adopt`).

So the state may be ahead of the log: adopted, or a file's, after a power cut that took the log's
end. Then it waits until the log has come up to it. What the log itself says on the way is noted
apart (`_behind`), for two reasons: it knows the aborted transactions, which such a state lacks; and
it is the truth should this replica come to lead, or be cut, before it has come so far, because then
committed batches were lost. Where batches are acknowledged from the page cache that is normal, and
a file that is ahead of the log counts for nothing.

There a log may also be cut behind what was committed. Then the state is made anew, as when the
partition is opened, but off the loop: what comes into the log meanwhile waits in a queue. When that
is full, or this replica comes to lead, the rest is read at once, waiting.
"""

from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NamedTuple

from kafkaesque.broker.partitions.aborted_file import AbortedFile
from kafkaesque.broker.partitions.batch_reader import BatchReader
from kafkaesque.broker.partitions.producer_files import ProducerFiles
from kafkaesque.broker.partitions.producer_refusals import refuse
from kafkaesque.broker.replication.replica import AppendedBatch
from kafkaesque.broker.replication.stored_batches import replay
from kafkaesque.env.disk import Buffer, Disk
from kafkaesque.model.batch import Attribute, BatchHeader, read_batch_header
from kafkaesque.model.batch_encoder import EndMarker, decode_end_marker
from kafkaesque.model.errors import (
    DiskFailed,
    DiskFull,
    InvalidProducerEpoch,
    InvariantBroken,
    OutOfOrderSequence,
    TransactionUnverified,
)
from kafkaesque.model.ids import Offset
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import decode_batch
from kafkaesque.storage.compaction_plan import AbortedColumns
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.transactions.connection_fence import ConnectionFence
from kafkaesque.transactions.producer_entries import NO_PRODUCER_ID, remembered_batches
from kafkaesque.transactions.producer_snapshot import (
    BadProducerSnapshot,
    read_snapshot,
    write_snapshot,
)
from kafkaesque.transactions.producer_state import ProducerStateConfig, ProducerStateTable
from kafkaesque.transactions.producer_verdicts import (
    AlreadyEnded,
    Duplicate,
    NeedsVerification,
    SequencedBatch,
    Verdict,
)
from kafkaesque.transactions.verification_guards import Guard

#: Batches that wait while the state is made anew.
QUEUED_MAX = 20_000
#: The file is written anew when this many offsets have come since.
SAVE_INTERVAL_OFFSETS = 100_000
#: And after this many where no producer is known: a start reads all that has come since.
SAVE_INTERVAL_WITHOUT_PRODUCERS = 10_000
#: Aborted transactions that end within one range that is read; the range ends early then.
MARKERS_PER_READ_MAX = 1_000
#: What the record of a control batch may decompress to.
_MARKER_BYTES_MAX = 64 * 1024

_TRANSACTIONAL = int(Attribute.TRANSACTIONAL)
_CONTROL = int(Attribute.CONTROL)
_ACCEPT = Verdict.ACCEPT


class ProducerDescription(NamedTuple):
    """What people may want to know of a producer; -1 where there is nothing."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int
    transaction_start_offset: int
    #: Where its last batch or marker ends.
    last_offset: int


class CleanedProducers(NamedTuple):
    """What a compaction has to know of producers."""

    aborted: AbortedColumns
    #: The last offset of each producer's last batch, or of its marker if it has no batch.
    last_offsets: dict[int, int]


class PartitionProducers:
    """The producers of one partition."""

    def __init__(self, config: ProducerStateConfig, wall_ms: Callable[[], int], disk: Disk) -> None:
        self._config = config
        self._wall_ms = wall_ms
        self._disk = disk
        self._table = ProducerStateTable(config)
        self._fence = ConnectionFence(config.producers_max)
        self._aborted_file = AbortedFile(disk)
        self._files = ProducerFiles(disk)
        self._log: GroupLog | None = None
        self._saved_offset = 0
        #: A log that begins up to here takes nothing with it that a power cut could not.
        self._covered_offset = 0
        #: And up to here it may go all the same, because the disk is full.
        self._excused_offset = 0
        #: What the log says up to its end, while the state is ahead of it; and the state as bytes.
        self._behind: PartitionProducers | None = None
        self._ahead_data = b""
        #: The formation of the leader that told it.
        self._ahead_formation = 0
        #: That is being made durable, and the log is still what it was before.
        self._is_adopting = False
        self._is_compacted = False
        #: Reads the log while the state is made anew; the batches that have come since, each with
        #: its bytes if it is a control batch; and what is committed of them.
        self._reader: BatchReader | None = None
        self._queued: deque[tuple[BatchHeader, int, Buffer]] = deque()
        self._queued_committed = Offset(0)

    # -- judging and noting

    def check(self, batch: BatchHeader) -> Duplicate | None:
        """Return where a repeated batch already is; None means that it is new and fits.

        Raises:
            OutOfOrderSequence: its sequence numbers do not follow.
            InvalidProducerEpoch: a newer incarnation of the producer has written.
            InvalidRecord: it has a producer id and impossible numbers.
            InvalidTxnState: it is in no transaction, and one of its producer is open.
            TransactionUnverified: it would open a transaction that nobody has confirmed.
            OverBound: it would open a transaction, and there are too many.
        """
        verdict = self._table.check(
            batch.producer_id,
            batch.producer_epoch,
            batch.base_sequence,
            batch.record_count,
            batch.attributes & _TRANSACTIONAL != 0,
        )
        if verdict is _ACCEPT:
            return None
        if isinstance(verdict, Duplicate):
            return verdict
        if isinstance(verdict, NeedsVerification):
            raise TransactionUnverified(
                f"producer {batch.producer_id} writes in a transaction that its coordinator has not"
                " confirmed",
                verdict.guard,
            )
        if verdict is Verdict.OUT_OF_ORDER_SEQUENCE:
            raise OutOfOrderSequence(
                f"sequence {batch.base_sequence} of producer {batch.producer_id} does not "
                "follow what it has sent before"
            )
        raise refuse(verdict, batch.producer_id, batch.producer_epoch)

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """Return the number for a record that the broker appends for a producer."""
        return self._table.next_sequence(producer_id, epoch)

    def skip(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Take a number for what follows, though some before it never came here."""
        self._table.skip(producer_id, epoch, sequence)

    def check_transaction(self, producer_id: int, epoch: int, connection: int) -> None:
        """Refuse to append for a producer's transaction; raises what `check` raises.

        A request over an older `connection` than this producer has used already is a late one.
        """
        if self._fence.is_late(producer_id, epoch, connection):
            raise InvalidProducerEpoch(
                f"producer {producer_id} has used a newer connection since then"
            )
        sequence = self.next_sequence(producer_id, epoch)
        verdict = self._table.check(producer_id, epoch, sequence, 1, True)
        if isinstance(verdict, NeedsVerification):
            raise TransactionUnverified(
                f"producer {producer_id} commits offsets in a transaction that is not confirmed",
                verdict.guard,
            )
        if isinstance(verdict, Verdict) and verdict is not Verdict.ACCEPT:
            raise refuse(verdict, producer_id, epoch)
        self._fence.note(producer_id, epoch, connection)

    def verified(self, guard: tuple[int, int, int]) -> bool:
        """Let the first batch of a transaction pass that its coordinator has confirmed.

        `guard` is that of `TransactionUnverified`; False if the confirmation came too late.
        """
        return self._table.verified(Guard._make(guard))

    def confirm_transaction(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transactional_id: str
    ) -> None:
        """Let the first batch of a transaction pass of which a coordinator speaks by itself."""
        self._table.confirm(producer_id, epoch, coordinator_epoch, transactional_id)

    def expect_transaction(self, producer_id: int, transactional_id: str) -> None:
        """Somebody writes for this transactional id: what was confirmed for another one is void."""
        self._table.expect(producer_id, transactional_id)

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, is_epoch_bumped: bool
    ) -> Offset | None:
        """Return where a repeated marker already is; None means that it is to be written.

        Raises:
            InvalidProducerEpoch: it is of an older epoch than the producer's.
            TransactionCoordinatorFenced: a newer coordinator has written a marker.
            InvalidRecord: it has impossible numbers.
        """
        verdict = self._table.check_marker(
            producer_id, epoch, coordinator_epoch, is_epoch_bumped=is_epoch_bumped
        )
        if verdict is Verdict.ACCEPT:
            return None
        if isinstance(verdict, AlreadyEnded):
            return verdict.marker_offset
        raise refuse(verdict, producer_id, epoch)

    def note(self, batch: BatchHeader, base_offset: int) -> None:
        """Take note of a batch that stands, or is about to stand, at the log's end."""
        if batch.producer_id < 0:
            self._table.append_plain(base_offset, batch.last_offset_delta + 1)
            return
        self._table.append(
            SequencedBatch(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_offset_delta + 1,
                Offset(base_offset),
                batch.max_timestamp_ms,
                batch.attributes & _TRANSACTIONAL != 0,
            ),
            self._wall_ms(),
        )

    def note_control(self, batch: BatchHeader, data: Buffer, base_offset: int) -> None:
        """Take note of a batch with a broker's mark, which may end a transaction."""
        if batch.producer_id == NO_PRODUCER_ID:
            # What a table has decided, mostly; it ends no transaction.
            self._table.append_plain(base_offset, batch.last_offset_delta + 1)
            return
        marker = _marker_in(data)
        self._table.append(
            SequencedBatch(
                batch.producer_id if marker is not None else NO_PRODUCER_ID,
                batch.producer_epoch,
                batch.base_sequence,
                batch.last_offset_delta + 1,
                Offset(base_offset),
                batch.max_timestamp_ms,
                True,
                marker,
            ),
            self._wall_ms(),
        )

    def on_appended(self, batches: Sequence[AppendedBatch]) -> None:
        """Take note of batches that this broker did not propose itself."""
        if self._reader is not None:
            self._queue(self._reader, batches)
            return
        end_offset = self._table.end_offset
        for batch in batches:
            noter = self
            if self._behind is not None:
                noter = self._noter(batch.base_offset)
                end_offset = noter._table.end_offset
            if batch.base_offset >= end_offset:
                noter._note_any(read_batch_header(batch.data), batch.data, batch.base_offset)

    def _note_any(self, header: BatchHeader, data: Buffer, base_offset: int) -> None:
        if header.attributes & _CONTROL:
            self.note_control(header, data, base_offset)
        else:
            self.note(header, base_offset)

    def on_leading(self, end_offset: Offset) -> None:
        """What is appended from here on stands at an offset that this replica chooses."""
        if self._reader is not None:
            self._reader.finish()
        if self._behind is not None:
            if end_offset >= self._table.end_offset:
                self._catch_up()
            else:
                self._fall_back()
        # Others may have led meanwhile, and refused to write a marker that was there already.
        self._table.forget_confirmed()

    def truncate(self, end_offset: Offset) -> None:
        """The log's end was cut off.

        Raises:
            InvariantBroken: that was committed, and the topic never had `write.caching`.
        """
        if self._reader is not None:
            if end_offset < self._reader.end:
                self._make_anew(end_offset)
                return
            while self._queued and self._queued[-1][0].last_offset >= end_offset:
                self._queued.pop()
            self._queued_committed = min(self._queued_committed, end_offset)
            return
        behind = self._behind
        if behind is not None and end_offset < self._table.end_offset:
            if end_offset >= behind._table.end_offset:
                return  # Nothing was cut but marks.
            self._fall_back()
        is_volatile = self._log is not None and self._log.was_cached
        if is_volatile and end_offset < self._table.committed_offset:
            self._make_anew(end_offset)
        else:
            self._table.truncate(end_offset)

    def begin_at(self, end_offset: Offset) -> None:
        """The log, which was to begin later than it ends, begins at its end.

        A state that is ahead of it is kept, for the log may come to it yet; see `forget_ahead`.
        """
        (self if self._behind is None else self._behind).reset(end_offset)

    def forget_ahead(self, formation: int) -> None:
        """A state that is ahead of the log is given up if it was told before a formation."""
        if not self._is_adopting and self._ahead_formation < formation:
            self._fall_back()

    def on_following(self) -> None:
        """Another leader: with `write.caching` it may not have what one before it has told."""
        is_read_anew = self._is_adopting or self._reader is not None
        if not is_read_anew and self._log is not None and self._log.was_cached:
            self._fall_back()

    def on_committed(self, high_watermark: Offset) -> None:
        """What is before the high watermark stays."""
        if self._reader is not None:
            self._queued_committed = high_watermark
            return
        self._table.on_committed(high_watermark)
        if self._behind is not None:
            self._behind.on_committed(high_watermark)
            if high_watermark >= self._table.end_offset:
                self._catch_up()

    def expire(self, wall_ms: int) -> None:
        """Forget producers that have been silent for long."""
        self._table.remove_expired(wall_ms)

    def reset(self, start_offset: Offset) -> None:
        """Begin anew with a log that begins there."""
        self._table = ProducerStateTable(self._config, start_offset)
        self._behind, self._ahead_data = None, b""
        self._saved_offset = self._covered_offset = self._excused_offset = 0
        self._aborted_file.forget()
        if self._reader is not None:
            self._reader.cancel()
            self._reader = None
        self._queued.clear()
        self._queued_committed = Offset(0)

    # -- a log that was cut behind what was committed

    def _make_anew(self, end_offset: Offset) -> None:
        """Learn from the log, which ends there, what it says of producers."""
        log = self._log
        if log is None:
            raise InvariantBroken("producers of a log that is not known")
        is_empty = self._reader is None and not len(self._table) and not self._table.aborted
        if is_empty:
            # Of nobody is anything known: so it is, too, where some of them have been forgotten.
            self.reset(end_offset)
            self._files.forget(log.identity.directory)
            return
        self._load(log, is_compacted=self._is_compacted)
        first = self if self._behind is None else self._behind
        self._saved_offset = self._table.end_offset
        reader = self._reader = BatchReader(
            log=log,
            disk=self._disk,
            position=first._table.end_offset,
            end=end_offset,
            on_batch=lambda header, data: self._note_stored(header, data, end_offset),
            on_done=lambda error: self._on_made_anew(end_offset),
        )
        reader.start()

    def _on_made_anew(self, end_offset: Offset) -> None:
        """All has been read, or cannot be: then those that are not known may begin anew."""
        self._reader = None
        queued, self._queued = self._queued, deque()
        self._catch_up()
        self._table.skip_to(end_offset)
        self._table.on_committed(end_offset)
        for header, base_offset, data in queued:
            noter = self._noter(base_offset)
            if base_offset >= noter._table.end_offset:
                noter._note_any(header, data, base_offset)
                noter._table.on_committed(min(self._queued_committed, noter._table.end_offset))
        self.on_committed(max(self._queued_committed, end_offset))

    def _queue(self, reader: BatchReader, batches: Sequence[AppendedBatch]) -> None:
        for batch in batches:
            header = read_batch_header(batch.data)
            is_control = header.attributes & _CONTROL
            data = bytes(batch.data) if is_control else b""
            self._queued.append((header, batch.base_offset, data))
        if len(self._queued) >= QUEUED_MAX:
            reader.finish()

    # -- a state that is ahead of the log

    def _noter(self, base_offset: int) -> "PartitionProducers":
        """Return who takes note of a batch that comes into the log."""
        if self._behind is not None and base_offset < self._table.end_offset:
            return self._behind
        self._catch_up()
        return self

    def _catch_up(self) -> None:
        """The log is where the state is."""
        behind, self._behind = self._behind, None
        self._ahead_data = b""
        if behind is not None:
            self._table.aborted.load(behind._table.aborted)

    def _fall_back(self) -> None:
        """The log will not come to where the state is: only what it says itself is true."""
        behind, self._behind = self._behind, None
        self._ahead_data = b""
        if behind is not None and self._log is not None:
            self._table = behind._table
            self._saved_offset = self._covered_offset = 0
            self._files.forget(self._log.identity.directory)

    # -- asking

    @property
    def _log_table(self) -> ProducerStateTable:
        """What is known of the log as far as it is here: a state that is ahead knows less of it."""
        return self._table if self._behind is None else self._behind._table

    @property
    def first_unstable_offset(self) -> int:
        """Where the first transaction begins that is not decided; after every offset if all are."""
        table = self._log_table
        first = table.first_unstable_offset
        return first if self._reader is None else min(first, table.end_offset)

    def aborted_between(
        self, from_offset: Offset, to_offset: Offset
    ) -> tuple[Offset, list[tuple[int, int]]]:
        """Return up to where a reader may go, and what was aborted there.

        That is `to_offset`, or earlier where very many transactions were aborted; and producer ids
        with the offsets from which their batches are to be skipped, up to the next marker.
        """
        aborted = self._log_table.aborted
        if not aborted:
            return to_offset, []
        end = aborted.range_end(from_offset, to_offset, MARKERS_PER_READ_MAX)
        found = aborted.overlapping(from_offset, end)
        return Offset(end), [(each.producer_id, each.first_offset) for each in found]

    def before_compaction(self, end_offset: int) -> CleanedProducers | None:
        """Return what a compaction of the log before an offset, which is stable, has to know.

        None while that is not known.
        """
        table = self._table
        if self._behind is not None or self._reader is not None:
            return None
        table.skip_to(table.committed_offset)
        return CleanedProducers(
            AbortedColumns(*table.aborted.columns_before(end_offset)),
            table.last_offsets_before(table.committed_offset),
        )

    def forget_aborted(self, end_offset: int) -> None:
        """Compaction has left nothing of what was aborted before an offset, but for markers."""
        self._table.aborted.forget_before(end_offset)

    def describe(self) -> list[ProducerDescription]:
        """Return what is remembered of all producers."""
        described = []
        for producer_id, entry in self._table.entries():
            batches = remembered_batches(entry)
            first_offset, coordinator_epoch, _ = entry.transaction or (-1, -1, -1)
            seen_ms = batches[-1].timestamp_ms if batches else entry.seen_wall_ms
            told = (producer_id, entry.epoch, entry.last_sequence, seen_ms, coordinator_epoch)
            described.append(ProducerDescription(*told, first_offset, entry.last_offset))
        return described

    # -- keeping

    def restore(self, log: GroupLog, *, is_compacted: bool = False) -> None:
        """Bring the state to the log's end, from the files and the batches after it; waits.

        With `is_compacted` the log itself says what was aborted: of what the file says, data and
        marker may be gone.

        Raises:
            StorageCorrupt: a batch of the log is damaged.
        """
        self._log = log
        self._is_compacted = is_compacted
        self._load(log, is_compacted=is_compacted)
        self._saved_offset = self._table.end_offset
        committed_index = min(max(log.commit_hint, log.start_index), log.last_index)
        committed_offset = log.offset_after(committed_index)
        first = self if self._behind is None else self._behind
        for header, data in replay(log, first._table.end_offset):
            self._note_stored(header, data, committed_offset)
        if self._table.end_offset <= log.end_offset:
            self._catch_up()

    def _note_stored(self, header: BatchHeader, data: Buffer, committed_offset: Offset) -> None:
        noter = self._noter(header.base_offset)
        if header.base_offset < noter._table.end_offset:
            return
        noter._note_any(header, data, header.base_offset)
        if header.next_offset <= committed_offset:
            # So that no more is kept for taking back than can be taken back.
            noter._table.on_committed(Offset(header.next_offset))

    def _load(self, log: GroupLog, *, is_compacted: bool) -> None:
        """Begin with what the files say."""
        directory, start_offset = log.identity.directory, log.start_offset
        is_compacted = is_compacted or log.clean_state.end_offset > 0
        self.reset(start_offset)
        stored = self._files.load(self._config, directory, start_offset)
        if stored is None:
            return  # What is left of the log says it again.
        table, last_aborted = stored.snapshot
        is_ahead = table.end_offset > log.end_offset
        if is_ahead and log.was_cached:
            self._files.forget(directory)
            return
        self._table = table
        if stored.is_covered:
            # Up to here. What the name of the file stood for before it may come back, and covers
            # no more for sure.
            self._covered_offset = start_offset
        aborted = self._aborted_file.load(directory, table.end_offset)
        last_found = aborted[-1].last_offset if aborted else -1
        is_torn = last_found != last_aborted and last_aborted >= start_offset
        if is_ahead or is_torn or (is_compacted and aborted):
            # Where the file cannot be believed, the log says it again.
            self._wait_for_log(start_offset, stored.data, stored.formation)
            return
        table.aborted.load(aborted)
        table.aborted.forget_before(start_offset)

    def _wait_for_log(self, start_offset: Offset, data: bytes, formation: int) -> None:
        """The state is that of a place to which the log has yet to come."""
        self._aborted_file.forget()
        self._behind = PartitionProducers(self._config, self._wall_ms, self._disk)
        self._behind.reset(start_offset)
        self._ahead_data = data
        self._ahead_formation = formation

    def save(self, log: GroupLog, high_watermark: Offset) -> None:
        """Write the file and leave its sync to the kernel: a torn one is noticed and not needed."""
        if self._behind is not None or self._reader is not None:
            return  # As it is, it was loaded, or is durable; or it is not known yet.
        if self._table.end_offset == self._saved_offset or high_watermark < self._saved_offset:
            return
        self._table.skip_to(high_watermark)
        self._aborted_file.save(log.identity.directory, self._table.aborted, high_watermark)
        self._files.write(log.identity.directory, write_snapshot(self._table, high_watermark))
        self._saved_offset = high_watermark

    def maybe_save(self, log: GroupLog, high_watermark: Offset) -> None:
        """Write the file if much has come since the last time; forget what the log has given up."""
        self._table.aborted.forget_before(log.start_offset)
        if self._reader is not None:
            return
        has_any = bool(len(self._table))
        if has_any and log.start_offset > self._covered_offset:
            self.cover(log, high_watermark, lambda _: None)  # There may be space again.
        interval = SAVE_INTERVAL_OFFSETS if has_any else SAVE_INTERVAL_WITHOUT_PRODUCERS
        if high_watermark - self._saved_offset >= interval:
            try:
                self.save(log, high_watermark)
            except DiskFailed:
                self._saved_offset = high_watermark  # the log itself will say more clearly

    # -- beyond the log's start

    def is_covered(self, start_offset: Offset) -> bool:
        """Whether nothing is lost for good when the log begins at an offset."""
        covered = max(self._covered_offset, self._excused_offset)
        return start_offset <= covered or (not len(self._table) and self._reader is None)

    def cover(self, log: GroupLog, high_watermark: Offset, on_done: Callable[[bool], None]) -> None:
        """Make durable, off the loop, what the log before the high watermark says of producers.

        `on_done(True)` when the log may begin anywhere up to there. That is also so where the disk
        is full, because then space is worth more; False: it is to be tried again later.
        """
        if self._is_adopting or self._reader is not None:
            on_done(False)
        else:
            self._cover(log, high_watermark, on_done)

    def _cover(
        self, log: GroupLog, high_watermark: Offset, on_done: Callable[[bool], None]
    ) -> None:
        offset, data = self._state(log, high_watermark)

        def on_written(error: DiskFailed | None) -> None:
            if isinstance(error, DiskFull):
                self._excused_offset = max(self._excused_offset, offset)
            elif error is None:
                self._covered_offset = max(self._covered_offset, offset)
                self._saved_offset = max(self._saved_offset, offset)
            on_done(error is None or isinstance(error, DiskFull))

        try:
            formation = 0 if self._behind is None else self._ahead_formation
            self._files.write_synced(log, data, on_written, formation)
        except DiskFailed as error:
            on_written(error)

    def _state(self, log: GroupLog, high_watermark: Offset) -> tuple[Offset, bytes]:
        """Return the state as of a committed offset that is not before the high watermark."""
        table = self._table
        if self._behind is not None:
            return table.end_offset, self._ahead_data
        table.skip_to(high_watermark)
        offset = max(high_watermark, table.committed_offset)
        # What is missing there makes the next start slow, and no more.
        with suppress(DiskFailed):
            self._aborted_file.save(log.identity.directory, table.aborted, offset)
        return offset, write_snapshot(table, offset)

    def write_state(self, high_watermark: Offset) -> bytes:
        """Return, on a leader, what a log that begins at its start cannot say; see `adopt`.

        That is at most 150 bytes for each producer, of which there are no more than the bounds on
        producers and on open transactions allow: a few megabytes, far below what a frame may have.
        """
        table = self._table
        if self._behind is not None or self._reader is not None or not len(table):
            return b""
        table.skip_to(high_watermark)
        return write_snapshot(table, max(high_watermark, table.committed_offset))

    def adopt(
        self, state: bytes, start_offset: Offset, on_done: Callable[[], None], formation: int = 0
    ) -> None:
        """Begin anew with what a leader knows; the log is to begin at an offset then, and follows.

        `on_done` when that is durable, or at once if there is nothing to keep. Where it cannot be
        written, it is known until this process ends.
        """
        self.reset(start_offset)
        log = self._log
        try:
            table = read_snapshot(self._config, state).table if state else None
        except BadProducerSnapshot:
            table = None  # What the log says is what it has been before leaders told more.
        if log is None or table is None or table.end_offset < start_offset:
            on_done()
            return
        self._table = table
        self._wait_for_log(start_offset, state, formation)
        self._is_adopting = True

        def on_covered(_: bool) -> None:
            self._is_adopting = False
            on_done()

        self._cover(log, start_offset, on_covered)


def _marker_in(data: Buffer) -> EndMarker | None:
    """Return what a control batch says; None if it is something that is not known here."""
    try:
        return decode_end_marker(decode_batch(data, _MARKER_BYTES_MAX)[0])
    except (RecordError, IndexError):
        return None
