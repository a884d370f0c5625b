"""Lengths and counts are checked before anything is allocated for them."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kafkaesque.protocols.kafka import fetch_path, produce_path, wire
from kafkaesque.protocols.kafka.errors import MalformedRequest
from kafkaesque.protocols.kafka.messages import (
    delete_topics_request,
    fetch_request,
    find_coordinator_request,
    metadata_request,
    produce_request,
)

Read = Callable[[memoryview], Any]

#: Many times more than any of these few bytes may cost, far below what they ask for.
PEAK_BYTES_MAX = 200_000
LARGEST_REQUEST_BYTES_MAX = 50_000_000
HUGE_VARINT = b"\xff\xff\xff\xff\x07"
HUGE_INT = b"\x7f\xff\xff\xff"
PRODUCE_HEAD = b"\x00\xff\xff\x00\x00\x00\x01"
PRODUCE_HEAD_V3 = b"\xff\xff\xff\xff\x00\x00\x00\x01"
FETCH_HEAD = bytes(25)


def peak_bytes(read: Read, data: bytes) -> int:
    """Returns the most memory that refusing `data` takes."""
    view = memoryview(data)
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRequest):
            read(view)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def produce(version: int) -> Read:
    return lambda buf: produce_path.read_produce_request(buf, 0, version)


def fetch(version: int) -> Read:
    return lambda buf: fetch_path.read_fetch_request(buf, 0, version)


@pytest.mark.parametrize(
    ("read", "data"),
    [
        (metadata_request.READ[12], HUGE_VARINT + bytes(20)),
        (metadata_request.READ[1], HUGE_INT + bytes(20)),
        (metadata_request.READ[1], b"\x80\x00\x00\x00" + bytes(20)),
        (metadata_request.READ[1], b"\xff\xff\xff\xfe" + bytes(20)),
        (metadata_request.READ[1], b"\x00\x00\x00\x01\x7f\xff" + bytes(20)),
        (metadata_request.READ[1], b"\x00\x00\x00\x01\xff\xff" + bytes(20)),
        (delete_topics_request.READ[5], HUGE_VARINT + bytes(20)),
        (produce_request.READ[9], PRODUCE_HEAD + HUGE_VARINT + bytes(20)),
        (produce(9), PRODUCE_HEAD + HUGE_VARINT + bytes(20)),
        (produce(9), PRODUCE_HEAD + b"\x02\x02t" + HUGE_VARINT + bytes(20)),
        (produce(9), PRODUCE_HEAD + b"\x02\x02t\x02\0\0\0\0" + HUGE_VARINT + bytes(20)),
        (produce(9), PRODUCE_HEAD + b"\x00" + bytes(20)),
        (produce(13), PRODUCE_HEAD + HUGE_VARINT + bytes(60)),
        (produce(3), PRODUCE_HEAD_V3 + HUGE_INT + bytes(20)),
        (produce(3), PRODUCE_HEAD_V3 + b"\xff\xff\xff\xff" + bytes(20)),
        (produce(3), PRODUCE_HEAD_V3 + b"\0\0\0\1\0\1t" + HUGE_INT + bytes(20)),
        (produce(3), PRODUCE_HEAD_V3 + b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0" + HUGE_INT),
        (fetch(12), FETCH_HEAD + HUGE_VARINT + bytes(60)),
        (fetch(12), FETCH_HEAD + b"\x02\x02t" + HUGE_VARINT + bytes(60)),
        (fetch(12), FETCH_HEAD + b"\x01" + HUGE_VARINT + bytes(60)),
        (fetch(12), FETCH_HEAD + b"\x01\x02\x02t" + HUGE_VARINT + bytes(60)),
        (fetch(11), FETCH_HEAD + HUGE_INT + bytes(60)),
        (fetch(11), FETCH_HEAD + b"\0\0\0\0\0\0\0\1\0\1t" + HUGE_INT + bytes(60)),
        (fetch(11), FETCH_HEAD + b"\0\0\0\0\0\0\0\1\0\1t\xff\xff\xff\xff" + bytes(60)),
        (fetch(11), FETCH_HEAD + b"\xff\xff\xff\xff" + bytes(60)),
        (fetch_request.READ[12], FETCH_HEAD + HUGE_VARINT + bytes(60)),
    ],
)
def test_a_length_that_lies_costs_nothing(read: Read, data: bytes) -> None:
    assert peak_bytes(read, data) < PEAK_BYTES_MAX


@pytest.mark.parametrize(
    ("read", "head", "element"),
    [
        (find_coordinator_request.READ[4], b"\x00", b"\x01"),
        (produce(9), PRODUCE_HEAD, b"\x01\x01\x00"),
        (produce_request.READ[9], PRODUCE_HEAD, b"\x01\x01\x00"),
        (produce(9), PRODUCE_HEAD + b"\x02\x01", b"\0\0\0\0\0\0"),
        (fetch(12), FETCH_HEAD, b"\x01\x01\x00"),
        (fetch(12), FETCH_HEAD + b"\x01", b"\x01\x01\x00"),
    ],
)
def test_more_elements_than_the_bound_are_refused(read: Read, head: bytes, element: bytes) -> None:
    """The elements are really there, so it is only their number that is wrong."""
    n = wire.ELEMENTS_MAX + 1
    data = head + wire.uvarint(n + 1) + element * n + bytes(100)
    assert peak_bytes(read, data) < PEAK_BYTES_MAX


def test_the_largest_request_that_is_read_is_affordable() -> None:
    """The smallest elements on the wire are the dearest in memory, measured by their size."""
    n = wire.ELEMENTS_MAX - 1
    data = memoryview(PRODUCE_HEAD + wire.uvarint(n + 1) + b"\x01\x01\x00" * n + b"\0")
    tracemalloc.start()
    try:
        produce(9)(data)
        assert tracemalloc.get_traced_memory()[1] < LARGEST_REQUEST_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_elements_of_nested_arrays_count_together() -> None:
    count = 1000
    partitions = b"\x02t" + wire.uvarint(count + 1) + b"\0\0\0\0\0\0" * count + b"\0"
    topics = wire.ELEMENTS_MAX // count + 1
    data = PRODUCE_HEAD + wire.uvarint(topics + 1) + partitions * topics + b"\0"
    with pytest.raises(MalformedRequest, match="no room"):
        produce(9)(memoryview(data))
    with pytest.raises(MalformedRequest, match="no room"):
        produce_request.READ[9](memoryview(data))


@pytest.mark.parametrize(
    "n", [0, 1, 127, 128, 16383, 16384, 2097151, 2097152, 2**28 - 1, 2**28, 2**32 - 1]
)
def test_varints_come_back(n: int) -> None:
    encoded = wire.uvarint(n)
    assert wire.read_uvarint(memoryview(encoded + b"\x01"), 0) == (n, len(encoded))
    for cut in range(len(encoded)):
        with pytest.raises(IndexError):
            wire.read_uvarint(memoryview(encoded[:cut]), 0)


@pytest.mark.parametrize("tail", [b"\x10", b"\x7f", b"\x80", b"\xff\x01"])
def test_varints_of_more_than_32_bits_are_malformed(tail: bytes) -> None:
    with pytest.raises(MalformedRequest):
        wire.read_uvarint(memoryview(b"\xff\xff\xff\xff" + tail), 0)


def test_null_in_many_bytes_is_still_null() -> None:
    """A varint may be longer than it has to be; a name must not be null in any spelling."""
    assert wire.uvarint_tail(memoryview(b"\x80\x00"), 1, 0x80) == (0, 2)
    with pytest.raises(MalformedRequest):
        produce(9)(memoryview(PRODUCE_HEAD + b"\x02\x80\x00" + bytes(20)))
    with pytest.raises(MalformedRequest):
        produce_request.READ[9](memoryview(PRODUCE_HEAD + b"\x02\x80\x00" + bytes(20)))


def test_records_are_slices_of_the_frame() -> None:
    message = produce_request.ProduceRequest(
        topic_data=[
            produce_request.TopicProduceData(
                name="t", partition_data=[produce_request.PartitionProduceData(0, b"r" * 1000)]
            )
        ]
    )
    for version in produce_request.WRITE:
        parts: list[Any] = []
        produce_request.WRITE[version](message, parts)
        frame = bytearray(b"".join(parts))
        with memoryview(frame) as view:
            call = produce(version)(view)
            records = call.topics[0][1][0][1]
            assert bytes(records) == b"r" * 1000
            frame[frame.index(b"rrr")] = ord("X")
            assert records[0] == ord("X")
            records.release()
