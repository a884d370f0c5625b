"""What a search cannot look at: it goes on after it, says so, and takes no memory for it."""

from __future__ import annotations

import json
import re
import struct
import tracemalloc
from typing import Any

import pytest

from kafkaesque.admin.api import scan_part
from kafkaesque.admin.api.messages import Form, SearchFilter
from kafkaesque.admin.api.scan_part import (
    DECOMPRESSED_BYTES_MAX,
    PASSED_OVER_MAX,
    UNPACKED_BYTES_MAX,
    Found,
    Room,
    search,
)
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.admin.decoding.bounds import Allowance
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import SchemaBook
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.compression import Codec
from kafkaesque.model.records import Record
from tests.documentation.blocks import ROOT
from tests.documentation.table import blocks_run_by, this_file
from tests.unit.admin.api_ground import ApiGround, text

HEADER_BYTES, LENGTH_AT, CRC_AT, ATTRIBUTES_AT = 61, 8, 17, 21
LAST_DELTA_AT, COUNT_AT = 23, 57
MESSAGES_PAGE = ROOT / "console" / "src" / "pages" / "Messages.svelte"
PASSED_OVER_NOTE = re.compile(r">(Passed over: .*)</p>")
#: A frame of zstd: a window of 128 KiB, and 1 GiB in blocks of one byte that is repeated.
BLOCK_BYTES = 128 * 1024
BLOCK = (BLOCK_BYTES << 3 | 1 << 1).to_bytes(3, "little") + b"x"
GIGABYTE = b"\x28\xb5\x2f\xfd\x00\x38" + BLOCK * (2**30 // BLOCK_BYTES)


def plain(offset: int) -> bytes:
    return bytes(encode_batch([Record(offset, 1, None, b"needle")]))


def with_payload(offset: int, codec: int, payload: bytes, count: int = 1) -> bytes:
    """Return a batch of so many records that holds any bytes."""
    batch = bytearray(plain(offset)[:HEADER_BYTES] + payload)
    struct.pack_into(">i", batch, LAST_DELTA_AT, count - 1)
    struct.pack_into(">i", batch, COUNT_AT, count)
    struct.pack_into(">h", batch, ATTRIBUTES_AT, codec)
    struct.pack_into(">i", batch, LENGTH_AT, len(batch) - 12)
    struct.pack_into(">I", batch, CRC_AT, crc32c(batch[ATTRIBUTES_AT:]))
    return bytes(batch)


def searched(batches: list[bytes], first: int = 0, end: int = 0) -> Found:
    """Search in what one question may take; without an end each batch has one record."""
    end = end or len(batches)
    result = FetchResult(
        records=b"".join(batches), aborted=[], last_stable_offset=end, log_start_offset=0
    )
    matcher, room = Matcher(SearchFilter(contains="needle")), Room(1_000, 10**6)
    decoder = Decoder(SchemaBook(), Allowance())
    return search(result, matcher, range(first, end), room, Form(), decoder)


def passed(found: Found) -> list[tuple[int, int]]:
    return [(each.first, each.next) for each in found.passed_over]


def test_a_batch_that_unpacks_to_a_gigabyte_is_passed_over_and_takes_no_memory() -> None:
    batches = [plain(0), with_payload(1, Codec.ZSTD, GIGABYTE), plain(2)]
    searched(batches[:1])
    tracemalloc.start()
    try:
        found = searched(batches)
        assert tracemalloc.get_traced_memory()[1] < 3 * DECOMPRESSED_BYTES_MAX
    finally:
        tracemalloc.stop()
    assert (passed(found), found.next) == ([(1, 2)], 2), "that was enough for one question"
    assert found.passed_over[0].reason == "more than 67108864 bytes when decompressed"
    assert [each.offset for each in found.messages] == [0]
    assert [each.offset for each in searched(batches, found.next).messages] == [2]


def test_the_console_says_what_was_passed_over_as_its_page_shows() -> None:
    batch = with_payload(1200, Codec.ZSTD, GIGABYTE, 100)
    (each,) = searched([batch], 1200, 1300).passed_over
    (note,) = PASSED_OVER_NOTE.findall(MESSAGES_PAGE.read_text())
    filled = {
        "{each.partition}": "0",
        "{each.first}": str(each.first),
        "{each.next - 1}": str(each.next - 1),
        "{each.reason}": each.reason,
    }
    for place, value in filled.items():
        assert place in note
        note = note.replace(place, value)
    (block,) = blocks_run_by(this_file(__file__), "docs/console.md")
    assert block.content == f"{note}\n"


@pytest.mark.parametrize(
    ("codec", "payload", "reason"),
    [
        (Codec.ZSTD, b"no zstd", "bad zstd data"),
        (Codec.SNAPPY, b"no snappy", "bad snappy data"),
        (Codec.NONE, b"\xff", "record"),
    ],
    ids=["zstd", "snappy", "record"],
)
def test_a_broken_batch_does_not_hide_those_after_it(
    codec: int, payload: bytes, reason: str
) -> None:
    found = searched([plain(0), with_payload(1, codec, payload), plain(2)])
    assert (passed(found), found.next) == ([(1, 2)], 3)
    assert reason in found.passed_over[0].reason
    assert [each.offset for each in found.messages] == [0, 2]


def test_neighbours_are_told_together_and_a_question_tells_so_many() -> None:
    broken = [with_payload(at, Codec.ZSTD, b"") for at in range(5)]
    assert passed(searched(broken, 2)) == [(2, 5)]
    count = 3 * PASSED_OVER_MAX
    found = searched(
        [plain(at) if at % 2 else with_payload(at, Codec.ZSTD, b"") for at in range(count)]
    )
    assert (len(found.passed_over), found.next) == (PASSED_OVER_MAX, 2 * PASSED_OVER_MAX - 1)


def test_a_question_decompresses_so_much() -> None:
    size = UNPACKED_BYTES_MAX // 4
    batches = [
        bytes(encode_batch([Record(at, 1, None, bytes(size))], BatchOptions(codec=Codec.ZSTD)))
        for at in range(10)
    ]
    found = searched(batches)
    assert (found.next, passed(found)) == (4, [])
    assert UNPACKED_BYTES_MAX <= found.unpacked < UNPACKED_BYTES_MAX + 2 * size


def test_the_searcher_is_told_what_was_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = ApiGround(17)
    ground.create("orders", 2)
    zeros = Record(0, 1, None, bytes(200_000))
    for records in ([text("needle")], [zeros, zeros], [text("needle")]):
        ground.publish("orders", 1, *records, codec=Codec.ZSTD)
    monkeypatch.setattr(scan_part, "DECOMPRESSED_BYTES_MAX", 100_000)
    monkeypatch.setattr(scan_part, "UNPACKED_BYTES_MAX", 100_000)
    body = {"topic": "orders", "filter": {"contains": "needle"}}
    told: Any = ground.ask("POST", "/search", body, "b2")
    lines = [json.loads(line) for line in told.body.splitlines()]
    reason = "more than 100000 bytes when decompressed"
    expected = [{"partition": 1, "first": 1, "next": 3, "reason": reason}]
    assert lines[-1]["reason"] == "complete"
    assert lines[-1]["passed_over"] == expected
    assert [e["message"]["offset"] for e in lines if e["kind"] == "match"] == [0, 3]
    page = ground.get("/topics/orders/messages", partition=1, offset=0)
    assert page["passed_over"] == expected
    assert [each["offset"] for each in page["items"]] == [0]


def test_a_page_tells_what_lies_on_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ground = ApiGround(17)
    ground.create("orders", 2)
    ground.publish("orders", 0, Record(0, 1, None, b"a"), Record(0, 2, None, b"b"))
    ground.publish("orders", 1, Record(0, 3, None, b"c"))
    ground.publish("orders", 1, Record(0, 4, None, bytes(200_000)), codec=Codec.ZSTD)
    monkeypatch.setattr(scan_part, "DECOMPRESSED_BYTES_MAX", 100_000)
    page = ground.get("/topics/orders/messages", order="oldest", limit=2)
    assert [each["value"]["text"] for each in page["items"]] == ["a", "b"]
    assert page["passed_over"] == []
    after = {each["partition"]: each["next"] for each in page["positions"]}
    page = ground.get("/topics/orders/messages", partition=1, offset=after[1], limit=2)
    assert [each["value"]["text"] for each in page["items"]] == ["c"]
    assert [each["first"] for each in page["passed_over"]] == [1]
