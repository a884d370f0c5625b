"""Sequence checks against a list of everything that was ever appended."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkaesque.model.ids import Offset
from kafkaesque.transactions.producer_entries import SEQUENCE_MAX
from kafkaesque.transactions.producer_snapshot import read_snapshot, write_snapshot
from kafkaesque.transactions.producer_state import ProducerStateConfig, ProducerStateTable
from kafkaesque.transactions.producer_verdicts import Duplicate, SequencedBatch, Verdict

CONFIG = ProducerStateConfig()
WALL_MS = 1_700_000_000_000
PRODUCERS = st.integers(0, 2)
EPOCHS = st.integers(0, 2)
COUNTS = st.integers(1, 4)
#: Near where they wrap, so that they do.
STARTS = st.sampled_from([0, 0, 0, 1, 5, SEQUENCE_MAX - 3, SEQUENCE_MAX])


class Put(NamedTuple):
    """A batch in the model's log."""

    batch: SequencedBatch

    @property
    def last_offset(self) -> int:
        return self.batch.first_offset + self.batch.record_count - 1

    @property
    def last_sequence(self) -> int:
        last = self.batch.first_sequence + self.batch.record_count - 1
        return last if last <= SEQUENCE_MAX else last - SEQUENCE_MAX - 1


def judge(
    log: list[Put], producer_id: int, epoch: int, first: int, count: int
) -> Verdict | Duplicate:
    """The rules, said over the whole log."""
    mine = [put for put in log if put.batch.producer_id == producer_id]
    if not mine:
        return Verdict.ACCEPT
    current = mine[-1].batch.epoch
    if epoch < current:
        return Verdict.INVALID_PRODUCER_EPOCH
    if epoch > current:
        return Verdict.ACCEPT if first == 0 else Verdict.OUT_OF_ORDER_SEQUENCE
    tail: list[Put] = []
    for put in reversed(mine):
        if put.batch.epoch != current:
            break
        tail.append(put)
    for put in tail[:5]:
        if put.batch.first_sequence == first and put.batch.record_count == count:
            first_offset = put.batch.first_offset
            return Duplicate(first_offset, Offset(put.last_offset), put.batch.timestamp_ms)
    expected = 0 if tail[0].last_sequence == SEQUENCE_MAX else tail[0].last_sequence + 1
    return Verdict.ACCEPT if first == expected else Verdict.OUT_OF_ORDER_SEQUENCE


class ProducerMachine(RuleBasedStateMachine):
    """A partition's log, and what its producer state makes of it."""

    def __init__(self) -> None:
        super().__init__()
        self.table = ProducerStateTable(CONFIG)
        self.log: list[Put] = []
        self.committed = 0

    @property
    def end(self) -> int:
        return self.log[-1].last_offset + 1 if self.log else 0

    def put(self, producer_id: int, epoch: int, first: int, count: int) -> None:
        expected = judge(self.log, producer_id, epoch, first, count)
        assert self.table.check(producer_id, epoch, first, count) == expected
        if expected is Verdict.ACCEPT:
            offset = Offset(self.end)
            batch = SequencedBatch(producer_id, epoch, first, count, offset, WALL_MS + self.end)
            self.table.append(batch, WALL_MS)
            self.log.append(Put(batch))

    @rule(producer_id=PRODUCERS, epoch=EPOCHS, first=STARTS, count=COUNTS)
    def send_anything(self, producer_id: int, epoch: int, first: int, count: int) -> None:
        self.put(producer_id, epoch, first, count)

    @rule(producer_id=PRODUCERS, count=COUNTS)
    def send_next(self, producer_id: int, count: int) -> None:
        mine = [put for put in self.log if put.batch.producer_id == producer_id]
        if not mine:
            self.put(producer_id, 0, 0, count)
            return
        last = mine[-1].last_sequence
        self.put(producer_id, mine[-1].batch.epoch, 0 if last == SEQUENCE_MAX else last + 1, count)

    @precondition(lambda self: self.log)
    @rule(data=st.data())
    def send_again(self, data: st.DataObject) -> None:
        batch = data.draw(st.sampled_from(self.log[-12:])).batch
        self.put(batch.producer_id, batch.epoch, batch.first_sequence, batch.record_count)

    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        ends = [put.last_offset + 1 for put in self.log if put.last_offset >= self.committed]
        self.committed = data.draw(st.sampled_from([self.committed, *ends]))
        self.table.on_committed(Offset(self.committed))

    @rule(data=st.data())
    def cut_off(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.committed, self.end))
        self.table.truncate(Offset(offset))
        self.log = [put for put in self.log if put.last_offset < offset]

    @rule()
    def restart(self) -> None:
        data = write_snapshot(self.table, Offset(self.committed))
        self.table = read_snapshot(CONFIG, data).table
        assert self.table.end_offset == self.committed
        for put in self.log:
            if put.batch.first_offset >= self.committed:
                self.table.append(put.batch, WALL_MS)

    @invariant()
    def a_replay_from_nothing_gives_the_same(self) -> None:
        replayed = ProducerStateTable(CONFIG)
        for put in self.log:
            replayed.append(put.batch, WALL_MS)
        replayed.on_committed(Offset(self.committed))
        offset = Offset(self.committed)
        assert write_snapshot(replayed, offset) == write_snapshot(self.table, offset)


TestProducers = ProducerMachine.TestCase


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 4))
def test_no_more_producers_are_remembered_than_the_bound(
    producers: list[int], producers_max: int
) -> None:
    table = ProducerStateTable(ProducerStateConfig(producers_max=producers_max))
    sequences: dict[int, int] = {}
    for number, producer_id in enumerate(producers):
        sequence = sequences.get(producer_id, 0)
        sequences[producer_id] = sequence + 1
        batch = SequencedBatch(producer_id, 0, sequence, 1, Offset(number), WALL_MS)
        table.append(batch, WALL_MS)
        assert len(table) <= producers_max
    newest = list(dict.fromkeys(reversed(producers)))[:producers_max]
    for producer_id in newest:
        last = sequences[producer_id] - 1
        assert isinstance(table.check(producer_id, 0, last, 1), Duplicate)
    table.truncate(Offset(0))
    assert len(table) == 0
