"""Which batches wait for one that was refused, and for how long."""

import pytest

from kafkaesque.broker.partitions import refused_batches
from kafkaesque.broker.partitions.refused_batches import GAPS_MS, RefusedBatches, is_after
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record

LAST_SEQUENCE = 2**31 - 1


class Case:
    def __init__(self) -> None:
        self.now_ms = 0
        self.refused = RefusedBatches(lambda: self.now_ms)

    def refuse(self, sequence: int, epoch: int = 0, producer_id: int = 1) -> None:
        self.refused.note(batch(sequence, epoch, producer_id))

    def waits(self, sequence: int, expected: int, epoch: int = 0, producer_id: int = 1) -> bool:
        header = read_batch_header(batch(sequence, epoch, producer_id))
        return self.refused.keeps_back(header, expected)


def batch(sequence: int, epoch: int = 0, producer_id: int = 1) -> bytes:
    options = BatchOptions(producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)
    return bytes(encode_batch([Record(0, 5, None, b"v", ())], options))


def test_later_ones_wait_and_the_first_does_not() -> None:
    case = Case()
    assert not case.refused
    case.refuse(7)
    assert case.refused
    assert case.waits(8, expected=7)
    assert not case.waits(7, expected=7)
    assert not case.waits(6, expected=7)
    assert not case.waits(8, expected=7, producer_id=2)
    assert not case.waits(0, expected=0, epoch=1)


def test_the_first_refused_is_the_one_that_is_waited_for() -> None:
    case = Case()
    case.refuse(7)
    case.refuse(9)
    assert case.waits(8, expected=7)
    case.refuse(5)
    assert case.waits(6, expected=5)


def test_nothing_waits_for_what_the_log_has_from_elsewhere() -> None:
    case = Case()
    case.refuse(7)
    assert not case.waits(12, expected=9)
    assert not case.refused


def test_refusals_of_later_ones_do_not_make_it_longer() -> None:
    case = Case()
    case.refuse(7)
    case.now_ms = GAPS_MS - 1
    case.refuse(8)
    assert case.waits(8, expected=7)
    case.now_ms = GAPS_MS
    assert not case.waits(8, expected=7)
    assert not case.refused


def test_a_new_epoch_replaces_what_was_refused_in_the_last() -> None:
    case = Case()
    case.refuse(7)
    case.refuse(0, epoch=1)
    assert case.waits(1, expected=0, epoch=1)
    assert not case.waits(8, expected=7)


def test_numbers_begin_anew_after_the_last() -> None:
    assert is_after(0, LAST_SEQUENCE)
    assert not is_after(LAST_SEQUENCE, 0)
    assert not is_after(3, 3)
    case = Case()
    case.refuse(LAST_SEQUENCE)
    assert case.waits(0, expected=LAST_SEQUENCE)


def test_what_is_no_batch_or_has_no_producer_is_not_remembered() -> None:
    case = Case()
    case.refused.note(b"")
    case.refused.note(b"x" * 100)
    case.refused.note(encode_batch([Record(0, 5, None, b"v", ())]))
    assert not case.refused


def test_it_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refused_batches, "_PRODUCERS_MAX", 3)
    case = Case()
    for producer_id in range(5):
        case.refuse(7, producer_id=producer_id)
    assert [case.waits(8, 7, producer_id=each) for each in range(5)] == [False] * 2 + [True] * 3
