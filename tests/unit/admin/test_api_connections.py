"""Connections in the admin API: who is connected, how fast, and how one is ended."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest

from kafkaesque.access.audit import AuditEvent
from kafkaesque.admin.api.connection_part import RATE_MS_MAX, RATE_MS_MIN, Glances
from kafkaesque.admin.api.fan_out import FanOut
from kafkaesque.admin.api.part_pages import ConnectionClosed
from kafkaesque.admin.api.values import Origin
from kafkaesque.broker.audit import Audit
from tests.unit.admin.api_ground import CHANGE, ApiGround, Browser


@pytest.fixture
def ground() -> Iterator[ApiGround]:
    made = ApiGround(5)
    yield made
    assert [each for each in made.lines if "administrator" not in each] == []


def connected(ground: ApiGround, host: str, agent: str) -> tuple[Browser, dict[str, Any]]:
    """Return a browser, and its connection as another broker tells it."""
    browser = ground.browser(host)
    browser.ask("GET", "/health/live", {"User-Agent": agent})
    items = ground.get("/connections", "b1", q=agent)["items"]
    (found,) = [each for each in items if each["client_id"] == agent]
    return browser, found


def test_a_connection_says_who_it_is_where_and_since_when(ground: ApiGround) -> None:
    before_ms = ground.get("/cluster")["as_of"]
    ground.world.loop.run_for(5_000)
    _, found = connected(ground, "b3", "probe/1")
    assert (found["broker"], found["protocol"], found["listener"]) == (3, "admin", "admin")
    assert (found["user"], found["client_id"]) == ("ANONYMOUS", "probe/1")
    assert found["peer"].startswith(found["host"])
    assert before_ms + 5_000 <= found["opened_at"] <= before_ms + 10_000
    assert found["bytes_in"] > 0
    assert found["bytes_out"] > 0


def test_rates_are_those_since_somebody_has_looked_last(ground: ApiGround) -> None:
    browser, found = connected(ground, "b2", "busy")
    assert found["rate_in"] is None
    sent = found["bytes_in"]
    ground.world.loop.run_for(RATE_MS_MIN)
    browser.ask("GET", "/health/live", {"User-Agent": "busy"})
    (later,) = ground.get("/connections", "b1", q="busy")["items"]
    grown = later["bytes_in"] - sent
    assert grown > 0
    assert later["rate_in"] == pytest.approx(grown / RATE_MS_MIN * 1000, rel=0.2)
    # Whoever asks at the same time is told the same, not of the last moment alone.
    (again,) = ground.get("/connections", "b3", q="busy")["items"]
    assert again["rate_in"] == pytest.approx(later["rate_in"], rel=0.2)
    ground.world.loop.run_for(RATE_MS_MAX + 1_000)
    (forgotten,) = ground.get("/connections", "b1", q="busy")["items"] or [None]
    assert forgotten is None or forgotten["rate_in"] is None


def test_a_glance_is_compared_with_one_that_is_old_enough() -> None:
    glances = Glances()
    for now_ms, sizes in ((0, (0, 0)), (1_000, (10, 0)), (2_000, (20, 40))):
        glances.begin(now_ms)
        assert now_ms < RATE_MS_MIN or glances.rates(7, now_ms, sizes) == (10.0, 20.0)
        assert glances.rates(8, now_ms, sizes) is None
        glances.end(now_ms, {7: sizes})


@pytest.mark.parametrize(
    ("query", "is_in"),
    [
        ({"protocol": "admin"}, True),
        ({"protocol": "mqtt"}, False),
        ({"broker": "2"}, True),
        ({"broker": "1"}, False),
        ({"user": "ANONYMOUS"}, True),
        ({"user": "app"}, False),
        ({"sort": "-rate_out"}, True),
        ({"sort": "client_id"}, True),
    ],
)
def test_connections_are_chosen_in_the_brokers(
    ground: ApiGround, query: dict[str, str], is_in: bool
) -> None:
    connected(ground, "b2", "chosen")
    found = ground.get("/connections", "b1", **query)["items"]
    assert any(each["client_id"] == "chosen" for each in found) == is_in


def test_a_long_name_of_a_client_is_cut(ground: ApiGround) -> None:
    browser = ground.browser("b1")
    browser.ask("GET", "/health/live", {"User-Agent": "x" * 1_000})
    names = [each["client_id"] for each in ground.get("/connections")["items"]]
    assert "x" * 256 in names


def test_a_connection_is_closed_from_any_broker_and_the_audit_log_says_so(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    browser, found = connected(ground, "b3", "unwanted")
    path = f"/connections/{found['broker']}/{found['number']}"
    told = ground.ask("DELETE", path, None, "b1", dry_run="true").json
    assert told["what"] == f"the connection of {found['peer']} with broker 3 would be closed"
    ground.world.loop.run_for(1_000)
    assert not browser.is_closed
    told = ground.ask("DELETE", path, None, "b1").json
    assert told["command"] == f"kafkaesque connection close 3:{found['number']}"
    ground.run_until(lambda: browser.is_closed)
    assert ground.get("/connections", "b2", q="unwanted")["items"] == []
    again = ground.ask("DELETE", path, None, "b1")
    assert (again.status, again.json["error"]) == (404, "UnknownConnection")
    (event,) = noted
    assert (event.operation, event.detail["connection"]) == (
        "close-connection",
        f"3:{found['number']}",
    )


def test_one_may_close_what_one_asks_by_and_is_answered(ground: ApiGround) -> None:
    browser, found = connected(ground, "b1", "myself")
    told = browser.ask("DELETE", f"/api/v1/connections/1/{found['number']}", CHANGE)
    assert told.status == 200
    ground.run_until(lambda: browser.is_closed)


@pytest.mark.parametrize("path", ["1/x", "9/1", "x/1", "1/-1", "1/" + "9" * 400, "%C2%B2/1"])
def test_what_is_no_connection_is_not_found(ground: ApiGround, path: str) -> None:
    assert ground.ask("DELETE", f"/connections/{path}").status == 404


def test_the_connections_of_a_dead_broker_are_missing_and_cannot_be_closed(
    ground: ApiGround,
) -> None:
    ground.kill("b3")
    seen = ground.get("/connections")
    assert {each["broker"]: each["missing"] is not None for each in seen["sources"]}[3]
    told = ground.ask("DELETE", "/connections/3/1")
    assert (told.status, told.json["error"]) == (503, "BrokerNotAvailable")


@pytest.mark.parametrize(
    ("told", "status"),
    [(Origin(broker=2, missing="it does not answer"), 503), (ConnectionClosed(peer=None), 404)],
)
def test_what_was_not_closed_is_not_told_as_closed_as_rabbitmq_has_it_either(
    ground: ApiGround,
    monkeypatch: pytest.MonkeyPatch,
    told: Origin | ConnectionClosed,
    status: int,
) -> None:
    noted: list[AuditEvent] = []
    monkeypatch.setattr(Audit, "note", lambda _, event: noted.append(event))
    browser, found = connected(ground, "b2", "lasting")
    monkeypatch.setattr(FanOut, "ask_one", lambda *asked: asked[-1](told))
    name = quote(f"{found['peer']} -> kafkaesque@2:{found['listener']}", safe="")
    answer = ground.browser("b1").ask("DELETE", f"/rabbitmq/api/connections/{name}", CHANGE)
    assert answer.status == status
    assert not browser.is_closed
    assert noted == []
