"""Frames and headers that make no sense: that connection is closed, and nobody else notices."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator

import pytest

from kafkaesque.protocols.kafka.api import ApiKey, write_request_header
from kafkaesque.protocols.kafka.api_table import CODEC_VERSIONS
from kafkaesque.protocols.kafka.error_codes import ErrorCode
from kafkaesque.protocols.kafka.frames import read_response, write_request
from kafkaesque.protocols.kafka.messages.api_versions_request import ApiVersionsRequest
from kafkaesque.protocols.kafka.messages.list_groups_request import ListGroupsRequest
from kafkaesque.protocols.kafka.messages.metadata_request import MetadataRequest
from tests.clients.bad_input import MIB, Victim, Wire
from tests.property.kafka_oracle import kio_bytes, samples

#: The largest frame that a broker takes (socket.request.max.bytes).
FRAME_BYTES_MAX = 100 * MIB
#: Requests of more bytes are cut at every second, third ... byte.
CUTS_MAX = 120
#: Connections that are open at the same time while requests are cut.
AT_ONCE = 60

INT32_MAX = 2**31 - 1
#: A varint that never ends, one of more than 32 bits, and the largest.
ENDLESS, TOO_WIDE, LARGEST = b"\xff" * 12, b"\xff\xff\xff\xff\x1f", b"\xff\xff\xff\xff\x0f"


@pytest.fixture(scope="module")
def victim() -> Iterator[Victim]:
    with Victim() as made:
        yield made


@pytest.fixture(autouse=True)
def others_notice_nothing(victim: Victim) -> Iterator[None]:
    with victim.watched():
        yield


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def served(victim: Victim) -> dict[int, tuple[int, int]]:
    """Return what the broker says that it speaks: API key -> first and last version."""
    with victim.connect() as wire:
        request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
        answer = wire.ask(ApiKey.API_VERSIONS, 3, request)
    # Produce is advertised from version 0 on for the sake of old clients, as in Kafka.
    firsts = {key: CODEC_VERSIONS[key][0] for key in CODEC_VERSIONS}
    return {
        each.api_key: (max(each.min_version, firsts[each.api_key]), each.max_version)
        for each in answer.api_keys
    }


def is_refused(victim: Victim, data: bytes) -> bool:
    """Tell whether the broker closes the connection on which this comes, without a word."""
    with victim.connect() as wire:
        wire.send(data)
        return wire.is_closed_by_broker()


# -- lengths


@pytest.mark.parametrize("length", [-1, -2, -(2**31), FRAME_BYTES_MAX + 1, INT32_MAX])
def test_a_length_that_is_not_allowed(victim: Victim, length: int) -> None:
    assert is_refused(victim, struct.pack(">i", length) + b"x" * 100)


@pytest.mark.parametrize(
    "rubbish",
    [
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        bytes.fromhex("16030100f1010000ed0303") + bytes(200),
        b"\x00\x00\x00\x00",
        b"\x00\x00\x00\x08" + bytes(8),
        b"\x00\x00\x10\x00" + b"\xff" * 4096,
    ],
    ids=["http", "tls", "empty frame", "zeros", "ones"],
)
def test_what_is_not_kafka_at_all(victim: Victim, rubbish: bytes) -> None:
    assert is_refused(victim, rubbish)


def test_the_largest_frame_that_is_allowed_costs_only_what_has_come(victim: Victim) -> None:
    with victim.connect() as wire:
        before = victim.process.rss_bytes()
        wire.send(struct.pack(">i", FRAME_BYTES_MAX) + bytes(100))
        assert not wire.is_closed_by_broker(0.5)
        assert victim.process.rss_bytes() - before < FRAME_BYTES_MAX // 4


# -- cut at every byte


def sample_requests(victim: Victim) -> Iterator[tuple[ApiKey, bytes]]:
    """Yield, for each API, requests of its first and last version with something in every field."""
    for key, versions in served(victim).items():
        for version in dict.fromkeys(versions):
            header = write_request_header(key, version, 1, "test")
            for sample in samples(f"{CODEC_VERSIONS[key][3]}_request", version, 1):
                yield ApiKey(key), header + kio_bytes(sample)


def cuts(request: bytes) -> range:
    return range(0, len(request), 1 + len(request) // CUTS_MAX)


def in_parcels(frames: Iterable[bytes]) -> Iterator[list[bytes]]:
    parcel: list[bytes] = []
    for frame in frames:
        parcel.append(frame)
        if len(parcel) == AT_ONCE:
            yield parcel
            parcel = []
    yield parcel


def test_requests_of_every_api_cut_at_every_byte_are_refused(victim: Victim) -> None:
    frames = [
        framed(request[:cut]) for _, request in sample_requests(victim) for cut in cuts(request)
    ]
    assert len(frames) > 3000
    for parcel in in_parcels(frames):
        wires = [victim.connect() for _ in parcel]
        for wire, frame in zip(wires, parcel, strict=True):
            wire.send(frame)
        for wire, frame in zip(wires, parcel, strict=True):
            assert wire.is_closed_by_broker(), frame
            wire.socket.close()


def test_clients_that_leave_within_a_request_of_every_api(victim: Victim) -> None:
    frames = [
        framed(request)[:cut]
        for _, request in sample_requests(victim)
        for cut in cuts(framed(request))
    ]
    for parcel in in_parcels(frames):
        wires = [victim.connect() for _ in parcel]
        for wire, frame in zip(wires, parcel, strict=True):
            wire.send(frame)
            wire.socket.close()


def test_clients_that_stall_within_a_request_are_waited_for(victim: Victim) -> None:
    request = framed(next(each for key, each in sample_requests(victim) if key is ApiKey.FETCH))
    wires: list[Wire] = []
    for cut in range(1, len(request), 1 + len(request) // 200):
        wires.append(victim.connect())
        wires[-1].send(request[:cut])
    time.sleep(0.5)
    for wire in wires:
        assert not wire.is_closed_by_broker(0.001)
        wire.socket.close()


def test_a_request_that_comes_byte_by_byte_is_served(victim: Victim) -> None:
    request = write_request(ApiKey.METADATA, 9, 7, "test", MetadataRequest(topics=[]))
    with victim.connect() as wire:
        for at in range(len(request)):
            wire.send(request[at : at + 1])
            time.sleep(0.001)
        assert wire.answer(ApiKey.METADATA, 9).controller_id == 1


# -- headers


def header(
    key: int, version: int, *, client_id: bytes = b"\xff\xff", tags: bytes = b"", body: bytes = b""
) -> bytes:
    return framed(struct.pack(">hhi", key, version, 1) + client_id + tags + body)


@pytest.mark.parametrize("key", [-1, 4, 999, 32767, -32768])
def test_an_api_that_does_not_exist(victim: Victim, key: int) -> None:
    assert is_refused(victim, header(key, 0))


def test_versions_that_do_not_exist(victim: Victim) -> None:
    for key, (first, last) in served(victim).items():
        if key == ApiKey.API_VERSIONS:
            continue
        for version in (first - 1, last + 1, -1, 32767, -32768):
            assert is_refused(victim, header(key, version, tags=b"\0" * 50)), (key, version)


@pytest.mark.parametrize("version", [5, 99, 32767, -1])
def test_a_version_of_api_versions_that_does_not_exist_is_told_those_that_do(
    victim: Victim, version: int
) -> None:
    with victim.connect() as wire:
        wire.send(header(ApiKey.API_VERSIONS, version, tags=b"\0" * 50))
        answer = read_response(memoryview(wire.frame()), ApiKey.API_VERSIONS, 0)[1]
        assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [each.api_key for each in answer.api_keys] == [ApiKey.API_VERSIONS]
        # And that in the order of the requests, on a connection that goes on.
        assert wire.ask(ApiKey.LIST_GROUPS, 4, ListGroupsRequest()).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    "client_id", [b"\xff\xfe", b"\x80\x00", b"\x7f\xffabc", b"\x00\x05ab", b"\x00"]
)
def test_a_client_id_whose_length_lies(victim: Victim, client_id: bytes) -> None:
    assert is_refused(victim, header(ApiKey.METADATA, 1, client_id=client_id))


@pytest.mark.parametrize(
    "tags",
    [
        ENDLESS,
        TOO_WIDE,
        LARGEST + bytes(1000),
        b"\x01\x00" + LARGEST,
        b"\x01\x00" + ENDLESS,
        b"\x02\x00\x01x",
        # Empty fields by the million: they would take a second and more to skip.
        b"\x80\x80\x80\x04" + bytes(2 * 8 * MIB),
    ],
    ids=["endless", "too wide", "many", "long", "endless length", "one missing", "by the million"],
)
def test_tagged_fields_that_lie(victim: Victim, tags: bytes) -> None:
    with victim.watched(busy_s_max=0.8):
        assert is_refused(victim, header(ApiKey.METADATA, 9, tags=tags))


# -- varints and lengths in a body

#: Metadata v9: an array of topics, each with a name; three booleans and tagged fields follow.
METADATA_END = b"\x00\x00\x00\x00"


@pytest.mark.parametrize(
    "topics",
    [
        ENDLESS,
        TOO_WIDE,
        LARGEST,
        b"\x03\x02a\x00",
        b"\x02" + ENDLESS,
        b"\x02" + LARGEST + b"a\x00",
        b"\x02\x00\x00",
        b"\x02\x00\x02a",
        b"\x02\x03\xc3\x28\x00",
        # One byte more than a string may have, wherever its length could be written.
        b"\x02\x81\x80\x02" + b"a" * 32768 + b"\x00",
        # More elements than any request may have, though all are there.
        b"\xc1\x9a\x0c" + b"\x02a\x00" * 200_000,
    ],
    ids=[
        "endless",
        "too wide",
        "4 billion",
        "one missing",
        "endless name",
        "name of 4 GB",
        "null name",
        "cut name",
        "not utf-8",
        "name too long",
        "too many",
    ],
)
def test_a_body_with_a_broken_varint_or_length(victim: Victim, topics: bytes) -> None:
    assert is_refused(victim, header(ApiKey.METADATA, 9, tags=b"\0", body=topics + METADATA_END))


@pytest.mark.parametrize("count", [-2, -(2**31), 1, 1000, INT32_MAX])
def test_an_array_whose_count_lies(victim: Victim, count: int) -> None:
    assert is_refused(victim, header(ApiKey.METADATA, 1, body=struct.pack(">i", count)))


def test_more_than_a_request_needs_is_passed_over(victim: Victim) -> None:
    # librdkafka leaves bytes behind its Metadata requests, and Kafka takes them.
    body = struct.pack(">i", 0) + b"padding" * 100
    with victim.connect() as wire:
        wire.send(header(ApiKey.METADATA, 1, body=body))
        assert wire.answer(ApiKey.METADATA, 1).controller_id == 1
