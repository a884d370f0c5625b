"""Series and live values over the admin API, and its HTTP: bodies, streams, and who may ask."""

import itertools
import json
from typing import Any

import pytest

from kafkaesque.admin.api.calls import Call
from kafkaesque.admin.api.cluster import ClusterPages
from kafkaesque.admin.api.part_pages import BROKER, Nothing
from kafkaesque.admin.api.plots import LISTENERS_MAX
from kafkaesque.admin.api.searching import ANSWER_BYTES_MAX
from kafkaesque.admin.connection import BODY_BYTES_MAX, STALL_MS_MAX
from kafkaesque.admin.hosts import CHANGE_HEADER, why_refused
from kafkaesque.admin.http import Answer, Request
from kafkaesque.admin.series import NAMES, Ring
from kafkaesque.broker.doors.parts import Parts
from kafkaesque.env.network import LOW_WATER_BYTES
from kafkaesque.model.ids import NodeId
from tests.unit.admin.api_ground import CHANGE, ApiGround, Browser, text


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(21)


# -- series


def test_a_ring_keeps_the_newest_samples_in_order() -> None:
    ring = Ring(1_000, 3)
    for at in range(1, 6):
        ring.add(at, {name: float(at * 10) for name in NAMES})
    assert ring.read(["bytes_in"], 0) == ([3, 4, 5], [[30.0, 40.0, 50.0]])
    assert ring.read(["bytes_in", "requests"], 4) == ([5], [[50.0], [50.0]])
    assert ring.read(["bytes_in"], 5) == ([], [[]])


def test_every_broker_has_a_sample_for_each_second(ground: ApiGround) -> None:
    ground.create("orders", 1)
    ground.world.loop.run_for(5_000)
    ground.publish("orders", 0, text("a"), text("b"))
    ground.world.loop.run_for(5_000)
    seen = ground.get("/series", names="messages_in,connections")
    assert [each["broker"] for each in seen["brokers"]] == [1, 2, 3]
    total = 0.0
    for each in seen["brokers"]:
        at = each["at"]
        assert len(at) >= 10
        assert all(900 < later - earlier < 1_100 for earlier, later in itertools.pairwise(at))
        assert set(each["values"]) == {"messages_in", "connections"}
        total += each["values"]["messages_in"][-1]
    assert total == 2
    assert [each["is_counter"] for each in seen["series"]] == [True, False]
    last = seen["brokers"][0]["at"][-3]
    later = ground.get("/series", names="messages_in", after=last)
    assert all(at > last for at in later["brokers"][0]["at"])


def test_the_samples_of_hours_are_further_apart(ground: ApiGround) -> None:
    ground.world.loop.run_for(45_000)
    seen = ground.get("/series", names="messages_in", step=10_000)["brokers"][0]
    assert seen["step_ms"] == 10_000
    assert 4 <= len(seen["at"]) <= 6


def test_a_series_that_is_not_there_is_refused(ground: ApiGround) -> None:
    told = ground.ask("GET", "/series", names="colour")
    assert told.status == 400
    assert "messages_in" in told.json["message"]


# -- live


def events(browser: Browser) -> list[tuple[int, Any]]:
    """Return numbers and data of the events that have come."""
    found = []
    for block in browser.body.decode().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line)
        if "id" in lines:
            found.append((int(lines["id"]), json.loads(lines["data"])))
    return found


def listen(ground: ApiGround, host: str = "b1", **headers: str) -> Browser:
    browser = ground.browser(host)
    browser.begin("GET", "/api/v1/live?names=messages_in", headers, None)
    ground.world.loop.run_for(100)
    return browser


def test_samples_come_as_they_are_taken_from_all_brokers(ground: ApiGround) -> None:
    browser = listen(ground)
    assert (browser.status, browser.headers["content-type"]) == (200, "text/event-stream")
    ground.world.loop.run_for(9_000)
    told = events(browser)
    assert 4 <= len(told) <= 6
    at: dict[int, list[int]] = {}
    for _, event in told:
        assert event["missing"] == {}
        for each in event["brokers"]:
            assert set(each["values"]) == {"messages_in"}
            at.setdefault(each["broker"], []).extend(each["at"])
    assert set(at) == {1, 2, 3}
    for times in at.values():
        assert times == sorted(set(times))
        assert len(times) >= 8


def test_whoever_comes_back_gets_what_was_missed(ground: ApiGround) -> None:
    first, other = listen(ground), listen(ground)
    ground.world.loop.run_for(5_000)
    seen = events(first)[-1][0]
    assert first.connection is not None
    first.connection.abort()
    ground.world.loop.run_for(6_000)
    again = listen(ground, **{"Last-Event-ID": str(seen)})
    numbers = [number for number, _ in events(again)]
    assert numbers == [number for number, _ in events(other) if number > seen]
    assert len(numbers) >= 3


@pytest.mark.parametrize("seen", ["x", "5", "99999999999999999999", "-1"])
def test_whoever_missed_what_is_not_kept_is_told_to_read_it_anew(
    ground: ApiGround, seen: str
) -> None:
    listen(ground)
    ground.world.loop.run_for(5_000)
    browser = ground.browser()
    browser.begin("GET", "/api/v1/live", {"Last-Event-ID": seen}, None)
    ground.world.loop.run_for(100)
    assert b"event: gap\n" in browser.body
    assert events(browser) == []
    ground.world.loop.run_for(3_000)
    assert len(events(browser)) >= 1
    assert browser.body.count(b"event: gap\n") == 1


def test_a_dead_broker_is_told_with_the_samples(ground: ApiGround) -> None:
    browser = listen(ground)
    ground.kill("b3")
    ground.world.loop.run_for(5_000)
    _, event = events(browser)[-1]
    assert "broker 3" in event["missing"]["3"]
    assert [each["broker"] for each in event["brokers"]] == [1, 2]


def test_so_many_listen_and_those_that_leave_make_room(ground: ApiGround) -> None:
    browsers = [listen(ground) for _ in range(LISTENERS_MAX + 1)]
    assert [each.status for each in browsers] == [200] * LISTENERS_MAX + [429]
    assert browsers[0].connection is not None
    browsers[0].connection.abort()
    ground.world.loop.run_for(100)
    assert listen(ground).status == 200


def test_without_listeners_nobody_is_asked(ground: ApiGround) -> None:
    browser = listen(ground)
    ground.world.loop.run_for(3_000)
    assert browser.connection is not None
    browser.connection.abort()
    ground.world.loop.run_for(3_000)
    asked: list[str] = []
    ground.cluster.brokers["b2"].doors.parts.answer_with(
        lambda request, on_done: asked.append(request.page)
    )
    ground.world.loop.run_for(20_000)
    assert asked == []


def test_whoever_does_not_read_a_stream_costs_little_and_is_hung_up_on(ground: ApiGround) -> None:
    ground.create("orders")
    for _ in range(20):
        ground.publish("orders", 0, *(text("x" * 8_000) for _ in range(20)))
    browser = ground.browser()
    assert browser.connection is not None
    body = json.dumps({"topic": "orders", "limit": 1_000, "seconds": 120}).encode()
    headers = {**CHANGE, "Content-Type": "application/json"}
    browser.begin("POST", "/api/v1/search", headers, body)
    browser.connection.pause_reading()
    ground.world.loop.run_for(5_000)
    (connection,) = ground.gateways["b1"].connections.values()
    link = connection.connection
    assert link is not None
    # One question's answer beyond the mark, and no further one is asked.
    assert LOW_WATER_BYTES < link.unsent_bytes() < LOW_WATER_BYTES + 2 * ANSWER_BYTES_MAX
    assert link.sent_bytes() < 1_000_000
    ground.world.loop.run_for(2 * STALL_MS_MAX)
    assert not ground.gateways["b1"].connections


def test_whoever_reads_slowly_gets_all_of_a_stream(ground: ApiGround) -> None:
    ground.create("orders")
    for _ in range(10):
        ground.publish("orders", 0, *(text("x" * 8_000) for _ in range(20)))
    browser = ground.browser()
    assert browser.connection is not None
    body = json.dumps({"topic": "orders", "limit": 1_000}).encode()
    headers = {**CHANGE, "Content-Type": "application/json"}
    browser.begin("POST", "/api/v1/search", headers, body)
    for _ in range(100):
        browser.connection.pause_reading()
        ground.world.loop.run_for(200)
        browser.connection.resume_reading()
        ground.world.loop.run_for(20)
    assert browser.is_done
    kinds = [json.loads(line)["kind"] for line in browser.body.splitlines()]
    assert (kinds.count("match"), kinds[-1]) == (200, "end")


# -- HTTP


def test_a_body_is_taken_up_to_its_bound(ground: ApiGround) -> None:
    ground.create("orders", max_message_bytes="2000000")
    fits = {"value": "x" * (BODY_BYTES_MAX - 100)}
    assert ground.ask("POST", "/topics/orders/messages", fits).status == 201
    browser = ground.browser()
    headers = {**CHANGE, "Content-Type": "application/json"}
    told = browser.ask("POST", "/api/v1/topics", headers, b"x" * (BODY_BYTES_MAX + 1))
    assert told.status == 413


def test_a_body_in_chunks_is_bounded_too(ground: ApiGround) -> None:
    head = (
        f"POST /api/v1/topics HTTP/1.1\r\nHost: b1\r\nContent-Type: application/json\r\n"
        f"{CHANGE_HEADER}: 1\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    body = b'{"name": "chunked"}'
    chunk = b"%x\r\n%b\r\n" % (len(body), body)
    raw = ground.browser()
    assert raw.connection is not None
    received: list[bytes] = []
    raw.on_bytes = lambda data: received.append(bytes(data))  # type: ignore[method-assign]
    raw.connection.write([head.encode(), chunk, b"0\r\n\r\n"])
    ground.run_until(lambda: b"created" in b"".join(received))
    received.clear()
    piece = b"10000\r\n" + b"x" * 65_536 + b"\r\n"
    raw.connection.write([head.encode(), piece * 17])
    ground.run_until(lambda: b"413" in b"".join(received))


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/api/v1/nothing", 404),
        ("GET", "/api/v1", 404),
        ("GET", "/api/v1/", 404),
        ("GET", "/api/v1/topics/", 404),
        ("PUT", "/api/v1/topics", 405),
        ("DELETE", "/api/v1/cluster", 405),
        ("POST", "/metrics", 405),
        ("HEAD", "/api/v1/cluster", 200),
        ("GET", "/api/v1/openapi.json", 200),
    ],
    ids="nothing root slash empty put delete metrics head document".split(),
)
def test_what_there_is_not_is_said(ground: ApiGround, method: str, path: str, status: int) -> None:
    told = ground.browser().ask(method, path, CHANGE)
    assert told.status == status
    if status == 405:
        assert told.headers["allow"]


@pytest.mark.parametrize(
    ("headers", "is_change", "is_refused"),
    [
        ({"host": "127.0.0.1:8080"}, False, False),
        ({"host": "[::1]:8080"}, False, False),
        ({"host": "localhost:8080"}, False, False),
        ({"host": "LOCALHOST"}, False, False),
        ({"host": "b1:8080"}, False, False),
        ({"host": "10.1.2.3"}, False, False),
        ({"host": "evil.example:8080"}, False, True),
        ({"host": "127.0.0.1.evil.example"}, False, True),
        ({"host": "localhost.evil.example"}, False, True),
        ({"host": ""}, False, True),
        ({}, False, True),
        ({"host": "b1:8080", "origin": "http://b1:8080"}, False, False),
        ({"host": "b1:8080", "origin": "https://b1:8080"}, False, False),
        ({"host": "b1:8080", "origin": "http://b1:8081"}, False, True),
        ({"host": "b1:8080", "origin": "http://evil.example"}, False, True),
        ({"host": "b1:8080", "origin": "null"}, False, True),
        ({"host": "b1:8080", "origin": ""}, False, True),
        ({"host": "b1:8080", "sec-fetch-site": "cross-site"}, False, True),
        ({"host": "b1:8080", "sec-fetch-site": "same-site"}, False, True),
        ({"host": "b1:8080", "sec-fetch-site": "same-origin"}, False, False),
        ({"host": "b1:8080", "sec-fetch-site": "none"}, False, False),
        ({"host": "b1:8080"}, True, True),
        ({"host": "b1:8080", CHANGE_HEADER: "1"}, True, False),
    ],
)
def test_only_our_own_pages_may_ask(
    headers: dict[str, str], is_change: bool, is_refused: bool
) -> None:
    assert (why_refused(headers, {"b1"}, is_change=is_change) is not None) == is_refused


def test_a_link_to_the_console_may_stand_on_any_page(ground: ApiGround) -> None:
    browser = ground.browser()
    for site in ("cross-site", "same-site", "none"):
        from_there = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}
        told = browser.ask("GET", "/", from_there)
        assert (told.status, told.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert browser.ask("GET", "/api/v1/cluster", {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert browser.ask("GET", "/members", {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert browser.ask("GET", "/", {"Host": "evil.example"}).status == 403
    assert browser.ask("POST", "/", CHANGE).status == 405


def test_monitoring_asks_under_whatever_name(ground: ApiGround) -> None:
    browser = ground.browser()
    strange = {"Host": "kafkaesque-0.monitoring.internal"}
    assert browser.ask("GET", "/health/live", strange).status == 200
    assert browser.ask("GET", "/metrics", strange).status == 200
    for path in ("/", "/brokers", "/members", "/api/v1/cluster", "/api/v1/openapi.json"):
        assert browser.ask("GET", path, strange).status == 403


def test_a_change_without_its_header_changes_nothing(ground: ApiGround) -> None:
    body = b'{"name": "stolen"}'
    browser = ground.browser()
    told = browser.ask("POST", "/api/v1/topics", {"Content-Type": "application/json"}, body)
    assert (told.status, told.json["error"]) == (403, "Forbidden")
    plain = {**CHANGE, "Content-Type": "text/plain"}
    assert browser.ask("POST", "/api/v1/topics", plain, body).status == 400
    assert browser.ask("DELETE", "/api/v1/topics/none").status == 403
    assert ground.get("/topics")["total"] == 0


def test_a_defect_in_a_later_turn_costs_one_answer(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = ground.gateways["b1"]
    (route,) = [each for each in gateway.api.routes if each.name == "showCluster"]
    pages = route.handle.__self__  # type: ignore[attr-defined]
    assert isinstance(pages, ClusterPages)
    monkeypatch.setattr(pages, "_cluster", lambda gathered: 1 / 0)
    browser = ground.browser()
    told = browser.ask("GET", "/api/v1/cluster")
    assert (told.status, told.json["error"]) == (500, "InternalError")
    assert "/api/v1/cluster could not be answered: " in ground.lines[0]
    # Each request is answered once, on the same connection.
    assert not browser.is_closed
    assert browser.ask("GET", "/api/v1/brokers").json["total"] == 3
    assert ground.get("/brokers")["total"] == 3


def test_a_defect_when_time_is_up_costs_one_answer(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    fan_out = ground.gateways["b1"].api.context.fan_out
    monkeypatch.setattr(Parts, "ask", lambda *_: None)
    said: list[Answer] = []
    request = Request(path="/api/v1/here", query={})
    call: Call[Any, Any] = Call(request, {}, None, None, said.append, lambda _: None)

    def breaks(_: object) -> None:
        raise ZeroDivisionError

    def ask() -> None:
        fan_out.ask_change(BROKER, NodeId(2), Nothing(), breaks, 1_000)

    call.guard(ask)
    ground.world.loop.run_for(2_000)
    assert [each.status for each in said] == [500]
