"""Transactions of a partition against a list of everything that was ever appended."""

from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.ids import Offset
from kafkaesque.transactions.aborted_index import (
    FILE_HEADER,
    AbortedTransaction,
    pack_entry,
    read_entries,
)
from kafkaesque.transactions.producer_entries import remembered_batches
from kafkaesque.transactions.producer_snapshot import read_snapshot, write_snapshot
from kafkaesque.transactions.producer_state import ProducerStateConfig, ProducerStateTable
from kafkaesque.transactions.producer_verdicts import (
    AlreadyEnded,
    NeedsVerification,
    SequencedBatch,
    Verdict,
)
from kafkaesque.transactions.verification_guards import Guard

#: Few, so that producers without a transaction give way all the time.
CONFIG = ProducerStateConfig(producers_max=3)
WALL_MS = 1_700_000_000_000
PRODUCERS = st.integers(0, 5)
COUNTS = st.integers(1, 3)


class Known(NamedTuple):
    """What the log says of a producer."""

    epoch: int
    last_sequence: int
    first_open: int
    coordinator_epoch: int
    marker_offset: int


def read(log: list[SequencedBatch], end: int) -> dict[int, Known]:
    """Go over the whole log up to an offset."""
    known: dict[int, Known] = {}
    for batch in log:
        if batch.first_offset + batch.record_count > end:
            break
        old = known.get(batch.producer_id, Known(-1, -1, -1, -1, -1))
        if batch.marker is not None:
            last = old.last_sequence if old.epoch == batch.epoch else -1
            new = Known(batch.epoch, last, -1, batch.marker.coordinator_epoch, batch.first_offset)
        else:
            first = old.first_open
            if batch.is_transactional and first < 0:
                first = batch.first_offset
            last = batch.first_sequence + batch.record_count - 1
            new = old._replace(epoch=batch.epoch, last_sequence=last, first_open=first)
        known[batch.producer_id] = new
    return known


def stable(log: list[SequencedBatch], high_watermark: int) -> int:
    """Where the first transaction begins that is open before the high watermark, or that."""
    firsts = [each.first_open for each in read(log, high_watermark).values()]
    return min([first for first in firsts if first >= 0], default=high_watermark)


def aborted(log: list[SequencedBatch]) -> list[AbortedTransaction]:
    """Every marker that has aborted something."""
    found = []
    for batch in log:
        offset = batch.first_offset
        if batch.marker is None or batch.marker.type is MarkerType.COMMIT:
            continue
        before = read(log, offset).get(batch.producer_id)
        if before is not None and before.first_open >= 0:
            first = before.first_open
            found.append(
                AbortedTransaction(batch.producer_id, first, offset, stable(log, offset + 1))
            )
    return found


def judge_marker(
    old: Known | None, epoch: int, coordinator_epoch: int, is_epoch_bumped: bool
) -> Verdict | AlreadyEnded:
    """The rules for markers."""
    if old is None:
        return Verdict.ACCEPT
    if epoch < old.epoch:
        return Verdict.INVALID_PRODUCER_EPOCH
    if coordinator_epoch < old.coordinator_epoch:
        return Verdict.TRANSACTION_COORDINATOR_FENCED
    if epoch == old.epoch and old.first_open >= 0 and is_epoch_bumped:
        return Verdict.INVALID_PRODUCER_EPOCH
    if old.first_open < 0 and (epoch, coordinator_epoch) == (old.epoch, old.coordinator_epoch):
        return AlreadyEnded(Offset(old.marker_offset))
    return Verdict.ACCEPT


class TransactionMachine(RuleBasedStateMachine):
    """A partition's log, written by clients and coordinators, and what the table makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ProducerStateTable(CONFIG)
        self.log: list[SequencedBatch] = []
        self.committed = 0
        self.start = 0
        self.stable = 0
        #: Guards that a client waits for, and whether they must be void by now.
        self.guards: dict[Guard, bool] = {}

    @property
    def end(self) -> int:
        return self.log[-1].first_offset + self.log[-1].record_count if self.log else 0

    @property
    def known(self) -> dict[int, Known]:
        return read(self.log, self.end)

    def remembered(self, producer_id: int) -> Known | None:
        """What is left of it: without an open transaction it may have given way to others."""
        entry = dict(self.table.entries()).get(producer_id)
        if entry is None:
            return None
        _, coordinator_epoch, marker_offset = entry.transaction or (-1, -1, -1)
        first_open = self.known[producer_id].first_open
        return Known(entry.epoch, entry.last_sequence, first_open, coordinator_epoch, marker_offset)

    def append(self, batch: SequencedBatch) -> None:
        self.table.append(batch, WALL_MS)
        self.log.append(batch)

    def void(self, producer_id: int) -> None:
        for guard in self.guards:
            if guard.producer_id == producer_id:
                self.guards[guard] = True

    # -- clients

    @rule(producer_id=PRODUCERS, count=COUNTS, is_transactional=st.booleans(), bump=st.booleans())
    def send(self, producer_id: int, count: int, is_transactional: bool, bump: bool) -> None:
        old = self.remembered(producer_id)
        epoch = 0 if old is None else old.epoch + bump
        first = 0 if old is None or bump else old.last_sequence + 1
        is_open = old is not None and old.first_open >= 0
        verdict = self.table.check(producer_id, epoch, first, count, is_transactional)
        if not is_transactional:
            assert verdict is (Verdict.INVALID_TXN_STATE if is_open else Verdict.ACCEPT)
        elif is_open and not bump:
            assert verdict is Verdict.ACCEPT
        elif isinstance(verdict, NeedsVerification):
            self.guards[verdict.guard] = False
        if verdict is not Verdict.ACCEPT:
            return
        if is_transactional and not is_open:
            self.void(producer_id)
        offset = Offset(self.end)
        batch = SequencedBatch(producer_id, epoch, first, count, offset, WALL_MS, is_transactional)
        self.append(batch)

    @rule(producer_id=PRODUCERS, count=COUNTS)
    def send_in_a_transaction(self, producer_id: int, count: int) -> None:
        old = self.remembered(producer_id)
        epoch, first = (0, 0) if old is None else (old.epoch, old.last_sequence + 1)
        verdict = self.table.check(producer_id, epoch, first, count, True)
        if isinstance(verdict, NeedsVerification):
            assert self.table.verified(verdict.guard)
            self.guards.pop(verdict.guard, None)
        self.send(producer_id, count, True, False)

    @precondition(lambda self: self.guards)
    @rule(data=st.data())
    def confirm(self, data: st.DataObject) -> None:
        guard = data.draw(st.sampled_from(list(self.guards)))
        if self.guards.pop(guard):
            assert not self.table.verified(guard)
        elif self.table.verified(guard):
            old = self.remembered(guard.producer_id)
            first = 0 if old is None or old.epoch < guard.epoch else old.last_sequence + 1
            if old is None or guard.epoch >= old.epoch:
                verdict = self.table.check(guard.producer_id, guard.epoch, first, 1, True)
                assert verdict is Verdict.ACCEPT

    # -- coordinators

    @rule(
        producer_id=PRODUCERS,
        kind=st.sampled_from(MarkerType),
        bump=st.integers(-1, 1),
        coordinator_epoch=st.integers(0, 2),
        is_epoch_bumped=st.booleans(),
    )
    def end_transaction(
        self,
        producer_id: int,
        kind: MarkerType,
        bump: int,
        coordinator_epoch: int,
        is_epoch_bumped: bool,
    ) -> None:
        old = self.remembered(producer_id)
        epoch = max(0, (0 if old is None else old.epoch) + bump)
        verdict = self.table.check_marker(
            producer_id, epoch, coordinator_epoch, is_epoch_bumped=is_epoch_bumped
        )
        assert verdict == judge_marker(old, epoch, coordinator_epoch, is_epoch_bumped)
        if verdict is Verdict.ACCEPT:
            marker = EndMarker(type=kind, coordinator_epoch=coordinator_epoch)
            offset = Offset(self.end)
            self.append(SequencedBatch(producer_id, epoch, -1, 1, offset, WALL_MS, True, marker))
        if verdict is Verdict.ACCEPT or isinstance(verdict, AlreadyEnded):
            self.void(producer_id)

    @rule(producer_id=PRODUCERS, kind=st.sampled_from(MarkerType))
    def end_as_it_should_be(self, producer_id: int, kind: MarkerType) -> None:
        old = self.remembered(producer_id)
        coordinator_epoch = 0 if old is None else max(0, old.coordinator_epoch)
        self.end_transaction(producer_id, kind, 1, coordinator_epoch, True)

    # -- the log

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        ends = [batch.first_offset + batch.record_count for batch in self.log]
        later = [end for end in ends if end > self.committed]
        self.committed = data.draw(st.sampled_from([self.committed, *later]))
        self.table.on_committed(Offset(self.committed))

    @rule(data=st.data())
    def cut_off(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.committed, self.end))
        self.table.truncate(Offset(offset))
        self.log = [
            batch for batch in self.log if batch.first_offset + batch.record_count <= offset
        ]
        self.guards = dict.fromkeys(self.guards, True)

    @rule(data=st.data())
    def cut_front(self, data: st.DataObject) -> None:
        self.start = data.draw(st.integers(self.start, self.committed))
        self.table.aborted.forget_before(self.start)

    @rule(torn_bytes=st.integers(0, 40))
    def restart(self, torn_bytes: int) -> None:
        data = write_snapshot(self.table, Offset(self.committed))
        written = self.table.aborted.entries(-1, self.committed)
        file = FILE_HEADER + b"".join(map(pack_entry, written))
        entries = read_entries(file[: max(0, len(file) - torn_bytes)])
        table, last_aborted = read_snapshot(CONFIG, data)
        last = entries[-1].last_offset if entries else -1
        assert (last == last_aborted) == (not written or not torn_bytes)
        if last == last_aborted:
            self.table = table
            self.table.aborted.load(entries)
        else:
            self.table = ProducerStateTable(CONFIG)
        for batch in self.log:
            if batch.first_offset >= self.table.end_offset:
                self.table.append(batch, WALL_MS)
        self.table.on_committed(Offset(self.committed))
        self.table.aborted.forget_before(self.start)
        self.guards = {}

    # -- what must hold

    @invariant()
    def readers_stop_where_the_log_says(self) -> None:
        found = min(self.committed, self.table.first_unstable_offset)
        assert found == stable(self.log, self.committed)
        assert found >= self.stable, "it went back"
        self.stable = found

    @invariant()
    def what_is_remembered_is_what_the_log_says(self) -> None:
        entries = dict(self.table.entries())
        known = self.known
        for producer_id, says in known.items():
            if says.first_open >= 0:
                assert entries[producer_id].first_open_offset == says.first_open
                assert entries[producer_id].last_sequence == says.last_sequence
        for producer_id, entry in entries.items():
            says = known[producer_id]
            assert entry.epoch == says.epoch
            if entry.transaction is not None and entry.transaction.marker_offset >= 0:
                expected = says.first_open, says.coordinator_epoch, says.marker_offset
                assert entry.transaction == expected

    @invariant()
    def compaction_is_told_where_each_producers_last_batch_is(self) -> None:
        wanted = {}
        for producer_id, entry in self.table.entries_before(Offset(self.committed)):
            batches = remembered_batches(entry)
            wanted[producer_id] = batches[-1].last_offset if batches else entry.last_offset
        assert self.table.last_offsets_before(Offset(self.committed)) == wanted

    @invariant()
    def the_index_says_what_was_aborted(self) -> None:
        index = self.table.aborted
        expected = [each for each in aborted(self.log) if each.last_offset >= self.start]
        assert list(index) == expected
        for end in range(self.start, self.end + 1):
            columns = [tuple(column) for column in index.columns_before(end)]
            count = len(columns[0])
            assert columns == [tuple(each[at] for each in expected[:count]) for at in range(3)]
            assert all(each.first_offset >= end for each in expected[count:])
            assert all(each.last_stable_offset < end for each in expected[: max(count - 1, 0)])
        for begin in range(self.start, self.end, 3):
            for end in range(begin + 1, self.end + 1, 4):
                assert index.overlapping(begin, end) == [
                    each
                    for each in expected
                    if each.last_offset >= begin and each.first_offset < end
                ]
                limit = index.range_end(begin, end, 2)
                inside = sum(begin <= each.last_offset < limit for each in expected)
                assert begin < limit <= end
                assert inside <= 2
                assert limit == end or inside == 2


TestTransactions = TransactionMachine.TestCase
