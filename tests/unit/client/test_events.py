"""Publish and subscribe: who gets which events, and when it ends."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from kafkaesque import AsyncClient, Client, Event, Filter
from kafkaesque.client import errors
from kafkaesque.client.events.filters import as_filter
from kafkaesque.client.events.listener import expiry_s
from kafkaesque.client.streams.records import StreamRecord
from kafkaesque.testing import LiveCluster
from tests.waiting import eventually

SOON_S = 20.0


class Inbox:
    """What a callback was called with."""

    def __init__(self, act: Callable[[StreamRecord], object] = lambda _: None) -> None:
        self.values: list[object] = []
        self.errors: list[str] = []
        self._act = act

    def __call__(self, event: StreamRecord) -> None:
        self.values.append(event.value)
        self._act(event)

    def note(self, error: Exception, _: StreamRecord) -> None:
        self.errors.append(type(error).__name__)

    def wait_for(self, *values: object) -> None:
        eventually(lambda: len(self.values) >= len(values), lambda: f"{self.values}")
        assert sorted(self.values, key=str) == sorted(values, key=str)


@pytest.fixture
def name(request: pytest.FixtureRequest, client: Client) -> str:
    found = str(request.node.name).translate(str.maketrans("[]", "--"))
    client.publish(Event(found, "before anybody listens"))
    return found


def test_events_from_now_on_are_handed_over(client: Client, name: str) -> None:
    inbox = Inbox()
    handle = client.subscribe(name, inbox)
    assert client.publish(Event(name, {"id": 7}, key="k", headers={"h": "v"})).offset == 1
    inbox.wait_for({"id": 7})
    client.unsubscribe(handle)
    assert not handle.is_active
    client.publish(Event(name, "after"))
    time.sleep(0.3)
    assert inbox.values == [{"id": 7}]


def test_a_pattern_has_topics_that_come_later(client: Client, name: str) -> None:
    inbox = Inbox()
    client.publish(Event(f"{name}.eu.old", "passed over"))
    client.subscribe(f"{name}.*.new", inbox)
    client.publish(Event(f"{name}.eu.old", "no"))
    client.publish(Event(f"{name}.eu.new", 1))
    client.publish(Event(f"{name}.eu.new", 2))
    inbox.wait_for(1, 2)


def test_an_expression_looks_at_headers_and_json(client: Client, name: str) -> None:
    inbox = Inbox()
    client.subscribe(Filter(name, "region = 'eu' AND $.amount > 10"), inbox)
    for region, amount in (("eu", 5), ("eu", 50), ("us", 60), ("eu", 70)):
        client.publish(Event(name, {"amount": amount}, headers={"region": region}))
    inbox.wait_for({"amount": 50}, {"amount": 70})


def test_every_subscriber_gets_every_event(client: Client, name: str) -> None:
    inboxes = [Inbox(), Inbox()]
    for inbox in inboxes:
        client.subscribe(name, inbox)
    client.publish(Event(name, 1))
    for inbox in inboxes:
        inbox.wait_for(1)


def test_a_subscription_expires(client: Client, name: str) -> None:
    inbox = Inbox()
    handle = client.subscribe(name, inbox, 0.5)
    assert handle.is_active
    eventually(lambda: not handle.is_active, "it has expired")
    client.publish(Event(name, 1))
    time.sleep(0.3)
    assert (inbox.values, handle.error) == ([], None)


def test_a_callback_that_raises_gets_the_next_event(client: Client, name: str) -> None:
    def act(event: StreamRecord) -> None:
        raise ValueError

    inbox = Inbox(act)
    client.subscribe(name, inbox, on_error=inbox.note)
    with client.producer() as producer:
        producer.send_raw(name, None, b"{")
    client.publish(Event(name, 1))
    client.publish(Event(name, 2))
    inbox.wait_for(1, 2)
    eventually(lambda: inbox.errors == ["Undecodable", "ValueError", "ValueError"], "all are told")


def test_a_callback_may_unsubscribe(client: Client, name: str) -> None:
    inbox = Inbox(lambda _: client.unsubscribe(handle))
    handle = client.subscribe(name, inbox)
    client.publish(Event(name, 1))
    inbox.wait_for(1)
    eventually(lambda: not handle.is_active, "it has ended")


def test_events_survive_the_leader(cluster: LiveCluster, client: Client, name: str) -> None:
    inbox = Inbox()
    client.subscribe(name, inbox)
    client.publish(Event(name, 1))
    leader = cluster.leader(name)
    assert leader is not None
    cluster.kill(leader)
    client.publish(Event(name, 2))
    inbox.wait_for(1, 2)
    cluster.heal()
    eventually(cluster.is_whole, "the cluster is whole again")


@pytest.mark.parametrize(
    "wanted",
    ["a*", "a.#b", "a b", "ä", "", Filter("a", "x >"), Filter("a", "x = 'open"), "a." * 500],
)
def test_a_filter_that_makes_no_sense_is_refused(client: Client, wanted: Filter | str) -> None:
    with pytest.raises(errors.InvalidArgument):
        client.subscribe(wanted, print)


def test_what_is_not_there_is_said(client: Client) -> None:
    with pytest.raises(errors.TopicNotFound):
        client.subscribe("no.such.topic", print)
    with pytest.raises(errors.InvalidArgument):
        client.subscribe("#", print, -1.0)
    with pytest.raises(errors.InvalidArgument):
        client.subscribe("#", print, datetime(2030, 1, 1))  # noqa: DTZ001


def test_an_expiry_is_a_duration_or_a_moment() -> None:
    for when in (timedelta(hours=1), 3600.0, datetime.now(UTC) + timedelta(hours=1)):
        found = expiry_s(when)
        assert found is not None
        assert 3500 < found - time.monotonic() < 3601


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("#", ["a", "a.b"], ["__consumer_offsets"]),
        ("*", ["a", "a-b_1"], ["a.b", "__consumer_offsets"]),
        ("a.#", ["a", "a.b", "a.b.c"], ["b", "ab", "b.a"]),
        ("#.a", ["a", "b.a", "c.b.a"], ["ab", "a.b", "ba"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b"], ["a", "ab", "a.bb", "aa.b"]),
        ("a.*.b", ["a.x.b"], ["a.b", "a.x.y.b"]),
        ("*.#", ["a", "a.b"], []),
        ("a.*.#", ["a.b", "a.b.c"], ["a"]),
    ],
)
def test_patterns_and_their_expressions_agree(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    compiled = as_filter(pattern)
    for each in matching:
        assert compiled.matches_topic(each), each
        assert re.match(compiled.topics, each), each
    for each in others:
        assert not compiled.matches_topic(each), each
        assert each.startswith("__") or not re.match(compiled.topics, each), each


def test_with_asyncio(cluster: LiveCluster, name: str) -> None:
    values: list[object] = []

    async def main() -> None:
        all_came = asyncio.Event()

        async def note(event: StreamRecord) -> None:
            values.append(event.value)
            if len(values) == 2:
                all_came.set()

        async with AsyncClient(cluster.bootstrap_servers) as client:
            handle = await client.subscribe(Filter(name, "$.n > 1"), note)
            for n in range(4):
                await client.publish(Event(name, {"n": n}))
            await asyncio.wait_for(all_came.wait(), SOON_S)
            was_active = handle.is_active
            await client.unsubscribe(handle)
            assert (was_active, handle.is_active) == (True, False)
            with pytest.raises(errors.TopicNotFound):
                await client.subscribe("no.such.topic", note)

    asyncio.run(main())
    assert values == [{"n": 2}, {"n": 3}]
