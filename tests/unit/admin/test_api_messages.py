"""Messages over the admin API: pages of them, what they are shown as, and searches."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.admin.api.messages import LISTED_BYTES_MAX, Form, SearchFilter, show
from kafkaesque.admin.api.scan_part import Room
from kafkaesque.admin.api.scan_part import search as search_batches
from kafkaesque.admin.api.search_matcher import Matcher
from kafkaesque.admin.api.searching import SEARCHES_MAX
from kafkaesque.admin.decoding.bounds import Allowance
from kafkaesque.admin.decoding.decoder import Decoder
from kafkaesque.admin.decoding.schema_book import SchemaBook
from kafkaesque.broker.requests.commands import FetchResult
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.records import Record
from tests.unit.admin.api_ground import CHANGE, ApiGround, text

DAY_MS = 1_790_000_000_000
PER_PARTITION = 120


@pytest.fixture(scope="module")
def filled() -> Iterator[ApiGround]:
    """Three partitions of 120 messages each, one for each second, in batches of ten."""
    ground = ApiGround(11)
    ground.create("orders", 3)
    for partition in range(3):
        for first in range(0, PER_PARTITION, 10):
            ground.publish(
                "orders",
                partition,
                *(
                    Record(
                        0,
                        DAY_MS + 1_000 * number + partition,
                        f"k{number}".encode(),
                        json.dumps({"no": number, "at": {"p": f"p{partition}"}}).encode(),
                        (("source", b"shop"),),
                    )
                    for number in range(first, first + 10)
                ),
            )
    yield ground
    assert ground.lines == []


def offsets(page: Any) -> list[tuple[int, int]]:
    return [(each["partition"], each["offset"]) for each in page["items"]]


# -- pages


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_the_newest_messages_of_all_partitions_come_first(filled: ApiGround, host: str) -> None:
    page = filled.get("/topics/orders/messages", host, limit=4)
    assert offsets(page) == [(2, 119), (1, 119), (0, 119), (2, 118)]
    value = page["items"][0]["value"]
    assert (value["kind"], json.loads(value["text"])["no"]) == ("json", 119)
    assert page["items"][0]["headers"][0]["value"]["text"] == "shop"
    positions = {each["partition"]: each for each in page["positions"]}
    assert (positions[2]["first"], positions[2]["next"]) == (118, 120)
    assert (positions[2]["start_offset"], positions[2]["end_offset"]) == (0, 120)


def test_the_oldest_messages_come_first_on_demand(filled: ApiGround) -> None:
    page = filled.get("/topics/orders/messages", limit=4, order="oldest")
    assert offsets(page) == [(0, 0), (1, 0), (2, 0), (0, 1)]


def test_pages_of_a_partition_follow_one_another(filled: ApiGround) -> None:
    found: list[tuple[int, int]] = []
    offset = 0
    while True:
        page = filled.get("/topics/orders/messages", partition=1, offset=offset, limit=50)
        found += offsets(page)
        (position,) = page["positions"]
        offset = position["next"]
        if offset == position["end_offset"]:
            break
    assert found == [(1, number) for number in range(PER_PARTITION)]


def test_messages_of_a_time_are_found_in_all_partitions(filled: ApiGround) -> None:
    page = filled.get("/topics/orders/messages", at=DAY_MS + 60_000, limit=3)
    assert offsets(page) == [(0, 60), (1, 60), (2, 60)]
    nothing = filled.get("/topics/orders/messages", at=DAY_MS + 10_000_000)
    assert nothing["items"] == []


def test_an_offset_beyond_the_end_shows_nothing(filled: ApiGround) -> None:
    page = filled.get("/topics/orders/messages", partition=0, offset=5_000)
    (position,) = page["positions"]
    assert (page["items"], position["next"]) == ([], PER_PARTITION)


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("offset=3", 400),
        ("partition=7", 404),
        ("partition=-1", 400),
        ("limit=501", 400),
        ("show=yaml", 400),
        ("order=random", 400),
    ],
    ids=["offset", "partition", "negative", "limit", "show", "order"],
)
def test_a_page_that_makes_no_sense_is_refused(filled: ApiGround, query: str, status: int) -> None:
    assert filled.ask("GET", f"/topics/orders/messages?{query}").status == status


# -- what they are shown as


@pytest.mark.parametrize(
    ("data", "kind", "shown"),
    [
        (None, "null", ""),
        (b"", "text", ""),
        (b'{"n": 12345678901234567890}', "json", '{"n": 12345678901234567890}'),
        (b"[1]", "json", "[1]"),
        (b"42", "text", "42"),
        (b'{"n": ', "text", '{"n": '),
        ("grüße 😀".encode(), "text", "grüße 😀"),
        (b"<img src=x onerror=alert(1)>", "text", "<img src=x onerror=alert(1)>"),
        (b"\xff\x00", "hex", "ff00"),
        (b"a\x00b", "hex", "610062"),
        (b"[" * 100_000, "text", "[" * LISTED_BYTES_MAX),
    ],
    ids="null empty object array number broken utf8 html bytes zero deep".split(),
)
def test_bytes_are_shown_as_what_they_are(data: bytes | None, kind: str, shown: str) -> None:
    content = show(data, Form())
    assert (content.kind, content.text) == (kind, shown)
    assert content.bytes == len(data or b"")


def test_a_character_that_is_cut_in_two_does_not_make_a_text_hex() -> None:
    content = show("ü".encode() * 10, Form(bytes_max=7))
    assert (content.kind, content.text, content.is_cut, content.bytes) == ("text", "üüü", True, 20)


def test_as_hex_everything_can_be_shown() -> None:
    assert show(b"abc", Form(kind="hex")).text == "616263"


def test_a_single_message_is_shown_as_a_whole() -> None:
    ground = ApiGround(12)
    ground.create("big")
    ground.publish("big", 0, text("x" * 100_000))
    listed = ground.get("/topics/big/messages")["items"][0]["value"]
    assert (len(listed["text"]), listed["is_cut"]) == (LISTED_BYTES_MAX, True)
    alone = ground.get("/topics/big/messages", limit=1)["items"][0]["value"]
    assert (len(alone["text"]), alone["is_cut"], alone["bytes"]) == (100_000, False, 100_000)


# -- search


def search(ground: ApiGround, host: str = "b1", **body: object) -> tuple[list[Any], Any]:
    """Return matches and the last line."""
    told = ground.ask("POST", "/search", {"topic": "orders", **body}, host)
    assert told.status == 200, told.body
    assert told.headers["content-type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in told.body.splitlines()]
    assert [each["kind"] for each in lines].count("end") == 1
    assert lines[-1]["kind"] == "end"
    return [each["message"] for each in lines if each["kind"] == "match"], lines[-1]


@pytest.mark.parametrize(
    ("wanted", "count"),
    [
        ({"contains": '"no": 77,'}, 3),
        ({"contains": "shop"}, 360),
        ({"contains": "nowhere"}, 0),
        ({"key": "k7"}, 3),
        ({"json_path": "no", "json_value": "7"}, 3),
        ({"json_path": "at.p", "json_value": "p1"}, 120),
        ({"json_path": "at.p"}, 360),
        ({"json_path": "at.q"}, 0),
        ({"json_path": "no.p"}, 0),
        ({"since": DAY_MS + 100_000}, 60),
        ({"since": DAY_MS + 100_000, "before": DAY_MS + 110_000}, 30),
        ({"key": "k7", "json_path": "at.p", "json_value": "p2"}, 1),
        ({}, 360),
    ],
    ids="text header nothing key number nested there absent deeper since span both all".split(),
)
def test_a_search_finds_what_fits_and_nothing_else(
    filled: ApiGround, wanted: dict[str, object], count: int
) -> None:
    matches, end = search(filled, filter=wanted, limit=1_000)
    assert len(matches) == count == end["matches"]
    assert end["reason"] == "complete"
    assert len({(each["partition"], each["offset"]) for each in matches}) == count
    if "since" not in wanted:
        assert end["records"] == end["total"] == 360


@pytest.mark.parametrize("host", ["b2", "b3"])
def test_any_broker_searches(filled: ApiGround, host: str) -> None:
    matches, _ = search(filled, host, filter={"key": "k7"})
    assert len(matches) == 3


def test_a_search_that_ends_at_its_limit_goes_on_where_it_was(filled: ApiGround) -> None:
    found: list[tuple[int, int]] = []
    positions: dict[str, int] = {}
    for _ in range(100):
        matches, end = search(
            filled, filter={"json_path": "at.p", "json_value": "p1"}, limit=7, positions=positions
        )
        found += [(each["partition"], each["offset"]) for each in matches]
        positions = end["positions"]
        if end["reason"] == "complete":
            break
    assert sorted(found) == [(1, number) for number in range(PER_PARTITION)]


def test_some_partitions_alone_are_searched(filled: ApiGround) -> None:
    matches, end = search(filled, filter={"key": "k7"}, partitions=[2])
    assert [each["partition"] for each in matches] == [2]
    assert (end["total"], list(end["positions"])) == (120, ["2"])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"topic": "nothing"}, 404),
        ({"topic": "orders", "filter": {"json_path": "a..b"}}, 400),
        ({"topic": "orders", "filter": {"json_path": ".".join("abcdefghijk")}}, 400),
        ({"topic": "orders", "filter": {"json_path": 'a"b'}}, 400),
        ({"topic": "orders", "filter": {"code": "1"}}, 400),
        ({"topic": "orders", "limit": 0}, 400),
        ({"topic": "orders", "seconds": 1000}, 400),
        ({"topic": "orders", "partitions": [0, 99]}, 400),
        ({"topic": "orders", "positions": {"first": 1}}, 400),
        ({}, 400),
    ],
    ids="topic path deep quote unknown limit seconds partition position empty".split(),
)
def test_a_search_that_makes_no_sense_is_refused(
    filled: ApiGround, body: dict[str, object], status: int
) -> None:
    assert filled.ask("POST", "/search", body).status == status


def test_a_search_tells_which_partitions_it_could_not_look_at() -> None:
    ground = ApiGround(13)
    ground.create("orders", 3, factor=1)
    for partition in range(3):
        ground.publish("orders", partition, text("needle"))
    leaders = {
        each["partition"]: each["leader"] for each in ground.get("/topics/orders")["partitions"]
    }
    ground.kill("b3")
    matches, end = search(ground, filter={"contains": "needle"})
    lost = {str(partition) for partition, leader in leaders.items() if leader == 3}
    assert lost
    assert set(end["missing"]) == lost
    assert len(matches) == 3 - len(lost)
    assert end["reason"] == "complete"


def test_so_many_searches_run_at_a_time_and_those_that_are_left_are_over() -> None:
    ground = ApiGround(14)
    ground.create("orders", 1)
    ground.publish("orders", 0, text("x"))
    # Nobody answers them.
    for broker in ground.cluster.brokers.values():
        broker.doors.parts.answer_with(lambda request, on_done: None)
    body = json.dumps({"topic": "orders"}).encode()
    headers = {**CHANGE, "Content-Type": "application/json"}
    browsers = [ground.browser() for _ in range(SEARCHES_MAX + 1)]
    for each in browsers:
        each.begin("POST", "/api/v1/search", headers, body)
    ground.world.loop.run_for(200)
    # They arrive in any order.
    assert sorted(each.status for each in browsers) == [200] * SEARCHES_MAX + [429]
    running = next(each for each in browsers if each.status == 200)
    assert running.connection is not None
    running.connection.abort()
    ground.world.loop.run_for(200)
    last = ground.browser()
    last.begin("POST", "/api/v1/search", headers, body)
    ground.world.loop.run_for(200)
    assert last.status == 200


def test_what_was_aborted_is_not_shown() -> None:
    options = BatchOptions(transactional=True, producer_id=7, producer_epoch=0, base_sequence=0)
    records = bytes(encode_batch([text("gone")], options))
    result = FetchResult(
        records=records, aborted=[(7, 0)], last_stable_offset=1, log_start_offset=0
    )
    room = Room(records=10, bytes=1_000)
    found = search_batches(
        result, Matcher(SearchFilter()), range(1), room, Form(), Decoder(SchemaBook(), Allowance())
    )
    assert (found.messages, found.next) == ([], 1)
