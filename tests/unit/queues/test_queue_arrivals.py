"""What a queue reads in the headers of messages as they arrive."""

from __future__ import annotations

import pytest

from kafkaesque.model import message_headers as names
from kafkaesque.model.batch import read_batch_header, scan_batches
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record
from kafkaesque.queues.arrival import Arrivals, Details, arrival_of

WALL_MS = 1_000_000


def details(**headers: bytes) -> tuple[Details, ...]:
    said = tuple((getattr(names, name.upper()), value) for name, value in headers.items())
    data = encode_batch([Record(0, WALL_MS, None, b"a", said)])
    return arrival_of(read_batch_header(data), data, 7).details


def test_durations_count_from_when_the_message_was_written() -> None:
    (found,) = details(delay=b"500", time_to_live=b"900")
    assert (found.not_before_ms, found.not_after_ms) == (WALL_MS + 500, WALL_MS + 900)


def test_a_moment_counts_before_a_duration() -> None:
    (found,) = details(delay=b"500", not_before=b"77", time_to_live=b"5", not_after=b"78")
    assert (found.not_before_ms, found.not_after_ms) == (77, 78)


def test_no_time_is_beyond_the_latest() -> None:
    (found,) = details(delay=b"9" * 18)
    assert found.not_before_ms == 2**48 - 1


@pytest.mark.parametrize("said", [b"0", b"-5", b"x", b"9" * 19])
def test_a_duration_that_makes_no_sense_says_nothing(said: bytes) -> None:
    assert details(delay=said) == ()


@pytest.mark.parametrize("name", [names.NOT_BEFORE, names.DELAY, names.TIME_TO_LIVE])
def test_a_batch_that_many_queues_get_arrives_the_same_in_each(name: str) -> None:
    headers = ((names.PRIORITY, b"3"), (name, b"5"))
    records = [Record(at, 9, b"k", b"v" * at, headers if at else ()) for at in range(3)]
    data, arrivals = bytes(encode_batch(records)), Arrivals()
    header = read_batch_header(data)
    others = [Record(at, 9, b"k", b"w" * at, headers) for at in range(3)]
    other = bytes(encode_batch(others))
    for base_offset, wall_ms in ((7, 0), (70, 0), (3, 0), (3, 50), (8, 50)):
        expected = arrival_of(header, data, base_offset, wall_ms)
        assert len(expected.details) == 2
        # Other bytes, as each queue has its own.
        for copy in (bytearray(data), memoryview(bytearray(data))):
            assert arrivals.read(header, copy, base_offset, wall_ms) == expected
    # As long as the other one, and from the same moment.
    other_header = read_batch_header(other)
    expected = arrival_of(other_header, other, 8, 50)
    assert arrivals.read(other_header, other, 8, 50) == expected


def test_batches_that_are_read_again_from_the_log_are_told_apart() -> None:
    batches = []
    for text in (b"3", b"5", b"7"):
        said = ((names.PRIORITY, text), (names.IDENTITY, text * 16))
        batches.append(encode_batch([Record(0, WALL_MS, None, text * 2, said)]))
    log, arrivals = b"".join(batches), Arrivals()
    # As a replay gives them: headers count from the piece that was read, the bytes are cut out.
    for offset, header in enumerate(scan_batches(log)[0]):
        data = memoryview(log)[header.at : header.end]
        expected = arrival_of(header, data, offset)
        assert arrivals.read(header, data, offset, 0) == expected


def test_a_compressed_batch_is_read_at_its_time() -> None:
    said = ((names.DELAY, b"5"),)
    data = encode_batch([Record(0, 9, None, b"a", said)], BatchOptions(codec=Codec.GZIP))
    header, arrivals = read_batch_header(data), Arrivals()
    for wall_ms in (0, 50):
        expected = arrival_of(header, data, 7, wall_ms)
        assert arrivals.read(header, data, 7, wall_ms) == expected
