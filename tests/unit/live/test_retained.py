"""Retained messages on one broker."""

from __future__ import annotations

import pytest

from kafkaesque.broker.doors.live import RetainedPage
from kafkaesque.broker.live import retained_log
from kafkaesque.broker.requests.commands import ChangeConfig, ConfigChange, DeleteTopic
from kafkaesque.model.errors import MessageTooLarge, OverBound, RequestRefused
from kafkaesque.routing.names import MQTT, NameKey
from tests.sim.live_scenario import LiveScenario, message


@pytest.fixture
def ground() -> LiveScenario:
    return LiveScenario(brokers=1)


def test_nothing_is_retained_where_nobody_has_retained(ground: LiveScenario) -> None:
    assert ground.retained("never/#") == []


def test_the_last_message_of_a_name_is_found_with_all_it_says(ground: LiveScenario) -> None:
    sent = message(
        "plant/7",
        b"21",
        content_type="text/plain",
        correlation=b"\0",
        reply=NameKey("answers/1"),
        expires_ms=99_000_000_000_000,
        headers=(("unit", b"C"), ("unit", b"F")),
        qos=2,
        is_text=True,
    )
    assert ground.retain(message("plant/7", b"20")) is None
    assert ground.retain(sent) is None
    (found,) = ground.retained("plant/+")
    for name in ("key", "body", "content_type", "correlation", "reply", "expires_ms", "headers"):
        assert getattr(found, name) == getattr(sent, name), name
    assert (found.qos, found.is_text, found.is_retained) == (2, True, True)


def test_an_empty_body_clears_the_name(ground: LiveScenario) -> None:
    assert ground.retain(message("gone", b"1")) is None
    assert [each.body for each in ground.retained("gone")] == [b"1"]
    assert ground.retain(message("gone")) is None
    assert ground.retained("gone") == []


def test_what_has_expired_is_not_found(ground: LiveScenario) -> None:
    now_ms = ground.any().env.clock.wall_ms()
    assert ground.retain(message("short", b"1", expires_ms=now_ms + 1_000)) is None
    assert len(ground.retained("short")) == 1
    ground.loop.run_for(1_500)
    assert ground.retained("short") == []


def test_many_are_found_page_by_page(ground: LiveScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retained_log, "PAGE_MAX", 7)
    outcomes: list[RequestRefused | None] = []
    for number in range(50):
        ground.live().retain(message(f"many/{number}/x", b"%d" % number), outcomes.append)
    ground.loop.run_until(lambda: len(outcomes) == 50, 10_000)
    assert set(outcomes) == {None}
    found = ground.retained("many/+/x")
    assert sorted(int(each.body) for each in found) == list(range(50))
    pages: list[RetainedPage | RequestRefused] = []
    ground.live().retained(MQTT.read_filter("many/#"), pages.append)
    ground.loop.run_until(lambda: pages != [], 10_000)
    (page,) = pages
    assert isinstance(page, RetainedPage)
    assert len(page.messages) == 7


def test_bounds_are_told(ground: LiveScenario, monkeypatch: pytest.MonkeyPatch) -> None:
    ground.retain(message("bound/1", b"1"))
    ground.retained("bound/#")
    monkeypatch.setattr(retained_log, "NAMES_MAX", 1)
    assert isinstance(ground.retain(message("bound/2", b"1")), OverBound)
    assert ground.retain(message("bound/1", b"2")) is None
    assert ground.retain(message("bound/2")) is None
    monkeypatch.setattr(retained_log, "MESSAGE_BYTES_MAX", 100)
    assert isinstance(ground.retain(message("bound/1", b"x" * 100)), MessageTooLarge)
    monkeypatch.setattr(retained_log, "WAITING_BYTES_MAX", 10)
    assert isinstance(ground.retain(message("bound/1", b"x" * 10)), OverBound)


def test_a_large_message_goes_alone(ground: LiveScenario) -> None:
    outcomes: list[RequestRefused | None] = []
    sizes = (10, 3 * 1024 * 1024, 10, 700_000, 700_000)
    for number, size in enumerate(sizes):
        ground.live().retain(message(f"size/{number}", b"x" * size), outcomes.append)
    ground.loop.run_until(lambda: len(outcomes) == len(sizes), 20_000)
    assert set(outcomes) == {None}
    assert [len(each.body) for each in ground.retained("size/#")] == list(sizes)


def test_nobody_deletes_the_topic_or_has_it_delete_by_time(ground: LiveScenario) -> None:
    ground.retain(message("kept", b"1"))
    done: list[object] = []
    topic_id = ground.any().state.topics["__retained"].topic_id
    client = ground.any().controller_client
    client.submit(DeleteTopic(name="__retained", topic_id=topic_id), 5_000, done.append)
    ground.loop.run_until(lambda: len(done) == 1, 10_000)
    change = ConfigChange(name="cleanup.policy", value="delete")
    client.submit(ChangeConfig(topic="__retained", changes=[change]), 5_000, done.append)
    ground.loop.run_until(lambda: len(done) == 2, 10_000)
    assert all(isinstance(each, RequestRefused) for each in done), done
