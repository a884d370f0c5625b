"""What was just put into queues is read once, kept for who waits for it, and for no longer."""

from __future__ import annotations

import pytest

from kafkaesque.broker.queues import put_batches
from kafkaesque.broker.queues.bodies import Bodies, Found, OnRead
from kafkaesque.broker.queues.put_batches import NewestBatches, PutBatch, PutBatches
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.message_headers import IDENTITY
from kafkaesque.model.records import Record, decode_batch

COUNT = 3
IDENTITY_BYTES = b"i" * 16


def put(size: int = 10) -> bytes:
    headers = ((IDENTITY, IDENTITY_BYTES),)
    return bytes(encode_batch([Record(at, 7, b"k", b"v" * size, headers) for at in range(COUNT)]))


def appended(raw: bytes, base_offset: int, time_ms: int | None) -> bytes:
    """The batch as it stands in a log."""
    records = [each._replace(offset=each.offset + base_offset) for each in decode_batch(raw, 10**6)]
    return bytes(encode_batch(records, BatchOptions(append_time_ms=time_ms)))


class Log:
    """One queue's, of which nothing can be read."""

    def __init__(self) -> None:
        self.reads: list[int] = []
        self.bodies = Bodies(self.locate, lambda offset: True)

    def locate(self, offset: int, on_read: OnRead) -> None:
        self.reads.append(offset)
        on_read(b"")

    def has(self, *offsets: int) -> bool:
        found: list[Found | RequestRefused] = []
        self.bodies.read(offsets, 10**6, found.append)
        (only,) = found
        return isinstance(only, Found) and list(only.records) == list(offsets)


def test_a_batch_for_many_queues_is_read_once() -> None:
    batches, raw = PutBatches(), put()
    batch = batches.read(raw)
    assert batches.read(raw) is batch
    assert batch.records == decode_batch(raw, 10**6)
    assert batch.identities == [IDENTITY_BYTES] * COUNT
    assert batch.sizes == [11] * COUNT
    same_again = bytes(bytearray(raw))
    assert batches.read(same_again) is not batch


def test_a_long_batch_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    batches, raw = PutBatches(), put()
    monkeypatch.setattr(put_batches, "REMEMBERED_BYTES_MAX", len(raw) - 1)
    assert batches.read(raw) is not batches.read(raw)


@pytest.mark.parametrize("time_ms", [None, 99])
def test_what_is_kept_is_what_the_log_has(time_ms: int | None) -> None:
    raw, batch = put(), PutBatch(put())
    for base_offset in (5, 8, 8):
        stored = appended(raw, base_offset, time_ms)
        assert list(batch.at(read_batch_header(stored)).values()) == decode_batch(stored, 10**6)


def test_what_was_just_put_is_not_read_from_the_log() -> None:
    log, raw = Log(), put()
    NewestBatches().keep(log.bodies, PutBatch(raw), read_batch_header(appended(raw, 5, 99)))
    assert log.has(5, 6, 7)
    assert log.has(6)
    assert not log.reads


def test_what_may_never_be_committed_is_forgotten() -> None:
    log, raw = Log(), put()
    NewestBatches().keep(log.bodies, PutBatch(raw), read_batch_header(appended(raw, 5, 99)))
    log.bodies.forget()
    assert not log.has(5)
    assert log.reads == [5]


@pytest.mark.parametrize("bound", ["NEWEST_MAX", "NEWEST_BYTES_MAX"])
def test_what_all_queues_keep_is_bounded(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, newest, logs = put(), NewestBatches(), [Log() for _ in range(6)]
    monkeypatch.setattr(put_batches, bound, 4 if bound == "NEWEST_MAX" else 4 * len(raw) + 1)
    for log in logs:
        newest.keep(log.bodies, PutBatch(raw), read_batch_header(appended(raw, 5, 99)))
    assert [log.has(5) for log in logs] == [False] * 2 + [True] * 4


def test_messages_for_which_there_is_no_room_are_left() -> None:
    log, raw, found = Log(), put(size=100), list[Found | RequestRefused]()
    batch = PutBatch(raw)
    NewestBatches().keep(log.bodies, batch, read_batch_header(appended(raw, 5, 99)))
    log.bodies.read([5, 6, 7], batch.counted - 1, found.append)
    assert isinstance(found[0], Found)
    assert (list(found[0].records), list(found[0].left)) == ([5, 6], [7])
