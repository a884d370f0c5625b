"""What a partition knows of its idempotent producers.

Theory of operation. A producer numbers the records that it sends to a partition. For each producer
id the partition remembers the epoch, the last sequence number and its last five batches. A batch
that continues the numbers is accepted; one that equals a remembered batch is a duplicate of it and
gets the same answer, unless a transaction has ended between them; anything else is out of order. A
higher epoch begins at 0 again and fences the lower ones. A producer of which nothing is remembered
may begin anywhere: its records may simply have been deleted, or it has been silent for longer than
we remember.

A transactional batch opens the producer's transaction here, if none is open; a marker ends it. The
first batch of a transaction waits until its coordinator has confirmed it. A marker may carry a
higher epoch, with which the producer begins at 0 again; it is refused where it comes from an older
epoch, or from a coordinator that is one no more, and need not be written where it is there already.
Producers with an open transaction are remembered until it ends.

The state follows the log's end, not what is committed: `append` goes with every batch that is
appended, on leaders and followers. When the log's end is cut off, `truncate` puts things back as
they were, which is why what each append replaced is kept until `on_committed`. Snapshots hold what
is below an offset that is committed; replaying the batch headers from there on gives the rest.

Source: KIP-98, KIP-185 (five batches), KIP-360 (unknown producers), KIP-890 (verification, bumped
epochs), KIP-1228 (late markers); Apache Kafka's ProducerStateManager for which error goes with
what.
"""

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.errors import ConfigError, InvariantBroken
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.aborted_index import AbortedIndex, AbortedTransaction
from kafkaesque.transactions.open_transactions import NEVER, OpenTransactions
from kafkaesque.transactions.producer_entries import (
    BATCH,
    BATCHES_BYTES,
    EPOCH_MAX,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    SEQUENCE_MAX,
    ProducerEntry,
    TransactionEntry,
    find_batch,
    last_batch,
    sequence_after,
)
from kafkaesque.transactions.producer_verdicts import (
    AlreadyEnded,
    Duplicate,
    NeedsVerification,
    SequencedBatch,
    Verdict,
)
from kafkaesque.transactions.verification_guards import Guard, VerificationGuards

_NO_OFFSETS = Offset(0)


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
    #: Open transactions. Their producers are remembered beyond `producers_max`.
    transactions_open_max: int = 20_000
    #: Aborted transactions that are in the log. With so many, none begins until the log's start has
    #: moved.
    transactions_aborted_max: int = 10_000_000
    #: Appends that are not committed; the replication bounds them far below.
    appends_in_flight_max: int = 1_000_000

    def __post_init__(self) -> None:
        values = (
            self.producer_expiration_ms,
            self.producers_max,
            self.transactions_open_max,
            self.transactions_aborted_max,
            self.appends_in_flight_max,
        )
        if min(values) < 1:
            raise ConfigError(f"producer state: {values} must all be at least 1")


#: Looked up once: every batch of an idempotent producer gets it.
_ACCEPT = Verdict.ACCEPT


class _Undo(NamedTuple):
    first_offset: int
    last_offset: int
    producer_id: int
    before: ProducerEntry | None


class ProducerStateTable:
    """The producers of one partition."""

    __slots__ = (
        "_committed_offset",
        "_config",
        "_end_offset",
        "_entries",
        "_guards",
        "_open",
        "_undo",
        "aborted",
    )

    def __init__(self, config: ProducerStateConfig, end_offset: Offset = _NO_OFFSETS) -> None:
        self._config = config
        #: In the order of each producer's last append.
        self._entries: dict[int, ProducerEntry] = {}
        self._undo: deque[_Undo] = deque()
        self._open = OpenTransactions()
        self._guards = VerificationGuards(config.producers_max)
        #: Aborted transactions, up to the log's end.
        self.aborted = AbortedIndex()
        self._end_offset: int = end_offset
        self._committed_offset: int = end_offset

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def end_offset(self) -> Offset:
        """The offset after the last batch that the state knows of."""
        return Offset(self._end_offset)

    @property
    def committed_offset(self) -> Offset:
        """The offset up to which nothing is cut off any more, as far as the table was told."""
        return Offset(self._committed_offset)

    @property
    def first_unstable_offset(self) -> int:
        """Where the first transaction begins that is open or whose marker is not committed.

        `NEVER`, which is after every offset, if there is none.
        """
        return self._open.first_unstable

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        record_count: int,
        is_transactional: bool = False,
    ) -> Verdict | Duplicate | NeedsVerification:
        """Judge a batch that a client wants appended; nothing of the log's state changes.

        A batch without a producer id is always accepted. One that opens a transaction is accepted
        once its guard is confirmed.
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
            return self._check_first(producer_id, epoch) if is_transactional else Verdict.ACCEPT
        if entry.epoch == epoch:
            if first_sequence != sequence_after(entry.last_sequence, 1):
                found = find_batch(entry, first_sequence, record_count)
                return Verdict.OUT_OF_ORDER_SEQUENCE if found is None else found
        elif epoch < entry.epoch:
            return Verdict.INVALID_PRODUCER_EPOCH
        elif first_sequence != 0:
            return Verdict.OUT_OF_ORDER_SEQUENCE
        if is_transactional:
            if entry.first_open_offset >= 0 and entry.epoch == epoch:
                return Verdict.ACCEPT
            return self._check_first(producer_id, epoch)
        if entry.transaction is not None and entry.transaction.first_offset >= 0:
            return Verdict.INVALID_TXN_STATE
        return _ACCEPT

    def _check_first(self, producer_id: int, epoch: int) -> Verdict | NeedsVerification:
        """Judge the first batch that a transaction would have here."""
        config = self._config
        if (
            len(self._open) >= config.transactions_open_max
            or len(self.aborted) >= config.transactions_aborted_max
        ):
            return Verdict.OVER_BOUND
        guard = self._guards.demand(producer_id, epoch)
        return Verdict.ACCEPT if guard is None else NeedsVerification(guard)

    def next_sequence(self, producer_id: int, epoch: int) -> int:
        """Return what a producer that counts on here would number its next record with."""
        entry = self._entries.get(producer_id)
        return (
            0 if entry is None or entry.epoch != epoch else sequence_after(entry.last_sequence, 1)
        )

    def skip(self, producer_id: int, epoch: int, sequence: int) -> None:
        """Take `sequence` for what follows: the numbers before it are for others than this log.

        A producer that is not known may begin with any number.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and entry.epoch == epoch:
            self._entries[producer_id] = entry._replace(
                last_sequence=sequence_after(sequence, SEQUENCE_MAX)
            )

    def verified(self, guard: Guard) -> bool:
        """The coordinator has confirmed a transaction: its first batch is let pass.

        False if the guard is void, because a marker has come, or something was cut off: then the
        batch is to be refused, or checked and asked about again.
        """
        return self._guards.confirm(guard)

    def confirm(
        self, producer_id: int, epoch: int, coordinator_epoch: int, transactional_id: str
    ) -> None:
        """A coordinator says, unasked, that a transaction is under way and knows of this partition.

        It counts as `verified`, unless a marker of a newer coordinator has come before it.
        """
        entry = self._entries.get(producer_id)
        if entry is not None:
            if epoch < entry.epoch or entry.first_open_offset >= 0:
                return
            if coordinator_epoch < (entry.transaction or TransactionEntry()).coordinator_epoch:
                return
        self._guards.tell(producer_id, epoch, transactional_id)

    def expect(self, producer_id: int, transactional_id: str) -> None:
        """Somebody writes for this transactional id: what was confirmed for another one is void."""
        self._guards.expect(producer_id, transactional_id)

    def forget_confirmed(self) -> None:
        """Have every first batch of a transaction confirmed anew."""
        self._guards.clear()

    def check_marker(
        self, producer_id: int, epoch: int, coordinator_epoch: int, *, is_epoch_bumped: bool = False
    ) -> Verdict | AlreadyEnded:
        """Judge a marker that a coordinator wants appended.

        With `is_epoch_bumped` (transaction version 2) a marker's epoch is above that of its
        transaction's batches, so that one that comes again cannot end a later transaction.
        """
        if producer_id < 0 or not 0 <= epoch <= EPOCH_MAX or coordinator_epoch < 0:
            return Verdict.INVALID_RECORD
        entry = self._entries.get(producer_id)
        if entry is None:
            return Verdict.ACCEPT
        if epoch < entry.epoch:
            return Verdict.INVALID_PRODUCER_EPOCH
        transaction = entry.transaction or TransactionEntry()
        if coordinator_epoch < transaction.coordinator_epoch:
            return Verdict.TRANSACTION_COORDINATOR_FENCED
        if epoch > entry.epoch:
            return Verdict.ACCEPT
        if transaction.first_offset >= 0:
            return Verdict.INVALID_PRODUCER_EPOCH if is_epoch_bumped else Verdict.ACCEPT
        if coordinator_epoch > transaction.coordinator_epoch:
            return Verdict.ACCEPT
        # Appended or not, it ends what the coordinator may have confirmed before.
        self._guards.drop(producer_id)
        return AlreadyEnded(Offset(transaction.marker_offset))

    def skip_to(self, offset: int) -> None:
        """Nothing is in the log between the state's end and an offset; harmless if that is past."""
        self._end_offset = max(self._end_offset, offset)

    def append_plain(self, first_offset: int, record_count: int) -> None:
        """Take note of a batch that names no producer; raises as `append` does."""
        if first_offset < self._end_offset or record_count < 1:
            raise InvariantBroken(
                f"{record_count} records at offset {first_offset} do not follow offset "
                f"{self._end_offset - 1}"
            )
        self._end_offset = first_offset + record_count

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
        if batch.marker is not None:
            self._append_marker(batch, batch.marker, seen_wall_ms)
            return
        before = self._entries.pop(producer_id, None)
        remembered, transaction = b"", None
        if before is not None:
            transaction = before.transaction
            if before.epoch == batch.epoch:
                remembered = before.batches
        if batch.is_transactional:
            transaction = self._continue(producer_id, transaction, first_offset)
        last_sequence = sequence_after(batch.first_sequence, batch.record_count - 1)
        packed = BATCH.pack(
            last_sequence, last_offset, last_offset - first_offset, batch.timestamp_ms
        )
        self._entries[producer_id] = ProducerEntry(
            batch.epoch,
            last_sequence,
            max(seen_wall_ms, batch.timestamp_ms),
            (remembered + packed)[-BATCHES_BYTES:],
            transaction,
        )
        self._keep(_Undo(first_offset, last_offset, producer_id, before))
        if len(self._entries) > self._config.producers_max:
            self._make_room(first_offset, last_offset)

    def _continue(
        self, producer_id: int, transaction: TransactionEntry | None, first_offset: Offset
    ) -> TransactionEntry:
        """Return a producer's transactions with one that is open; the batch may begin it."""
        known = transaction or TransactionEntry()
        if known.first_offset >= 0:
            return known
        self._guards.drop(producer_id)
        self._open.open(first_offset)
        return known._replace(first_offset=first_offset)

    def _append_marker(self, batch: SequencedBatch, marker: EndMarker, seen_wall_ms: int) -> None:
        producer_id, offset = batch.producer_id, batch.first_offset
        before = self._entries.pop(producer_id, None)
        if before is None:
            before_opened = -1
            known = ProducerEntry(batch.epoch, NO_SEQUENCE, 0, b"")
        else:
            before_opened = before.first_open_offset
            known = before
        if known.epoch != batch.epoch:
            known = known._replace(epoch=batch.epoch, last_sequence=NO_SEQUENCE, batches=b"")
        self._entries[producer_id] = known._replace(
            seen_wall_ms=max(seen_wall_ms, batch.timestamp_ms),
            transaction=TransactionEntry(-1, marker.coordinator_epoch, offset),
        )
        self._keep(_Undo(offset, offset, producer_id, before))
        self._guards.drop(producer_id)
        if before_opened >= 0:
            self._open.end(before_opened, offset)
            if marker.type is MarkerType.ABORT:
                first_open = self._open.first_open
                stable_offset = offset + 1 if first_open == NEVER else first_open
                self.aborted.append(
                    AbortedTransaction(producer_id, before_opened, offset, stable_offset)
                )
        if len(self._entries) > self._config.producers_max:
            self._make_room(offset, offset)

    def _make_room(self, first_offset: Offset, last_offset: int) -> None:
        """Forget the producer that has been silent for longest and has no open transaction.

        Those that are passed over go to the end, where they would be anyway when they go on.
        """
        for _ in range(min(len(self._open) + 1, len(self._entries) - 1)):
            oldest = next(iter(self._entries))
            entry = self._entries.pop(oldest)
            if entry.first_open_offset < 0:
                self._keep(_Undo(first_offset, last_offset, oldest, entry))
                return
            self._entries[oldest] = entry

    def on_committed(self, offset: Offset) -> None:
        """Note that everything before `offset` (the high watermark) will never be cut off."""
        if offset <= self._committed_offset:
            return
        self._committed_offset = offset
        undo = self._undo
        while undo and undo[0].last_offset < offset:
            undo.popleft()
        self._open.on_committed(offset)

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
        self._open.truncate(self._end_offset)
        self.aborted.truncate(self._end_offset)
        self._guards.clear()

    def remove_expired(self, now_wall_ms: int) -> int:
        """Forget producers that have been silent for too long; return how many.

        Those with an open transaction are remembered.
        """
        limit = now_wall_ms - self._config.producer_expiration_ms
        expired = [
            each
            for each, entry in self._entries.items()
            if entry.seen_wall_ms <= limit and entry.first_open_offset < 0
        ]
        for producer_id in expired:
            del self._entries[producer_id]
        return len(expired)

    def entries_before(self, offset: Offset) -> list[tuple[int, ProducerEntry]]:
        """Return all producers as the log before `offset` has them, longest silent first.

        Raises:
            InvariantBroken: the state does not reach back, or does not reach, to there.
        """
        entries = self._entries_as_of(offset)
        return sorted(entries.items(), key=lambda item: item[1].last_offset)

    def last_offsets_before(self, offset: Offset) -> dict[int, int]:
        """Return where the last batch of each producer ends in the log before `offset`.

        Where there is none, that of its marker. Raises what `entries_before` does.
        """
        return {
            producer_id: (
                last_batch(entry.batches, -BATCH.size)[1] if entry.batches else entry.last_offset
            )
            for producer_id, entry in self._entries_as_of(offset).items()
        }

    def _entries_as_of(self, offset: Offset) -> dict[int, ProducerEntry]:
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
        return entries

    def entries(self) -> list[tuple[int, ProducerEntry]]:
        """Return all producers as the log has them at its end."""
        return list(self._entries.items())

    def load(self, entries: list[tuple[int, ProducerEntry]]) -> None:
        """Begin with what a snapshot holds."""
        if self._entries or self._undo:
            raise InvariantBroken("a snapshot is loaded into an empty state only")
        self._entries = dict(entries)
        for _, entry in entries:
            if entry.first_open_offset >= 0:
                self._open.open(entry.first_open_offset)

    def _keep(self, undo: _Undo) -> None:
        if len(self._undo) >= self._config.appends_in_flight_max:
            raise InvariantBroken(f"{len(self._undo)} appends are not committed")
        self._undo.append(undo)


def _take_back(entries: dict[int, ProducerEntry], undo: _Undo) -> None:
    entries.pop(undo.producer_id, None)
    if undo.before is not None:
        entries[undo.producer_id] = undo.before
