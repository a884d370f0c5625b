"""A consumer of few subjects of a wide stream: its queue hears of no others."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.broker.queues import cursor_host
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.broker.requests.commands import Done
from kafkaesque.queues import requests as r
from tests.unit.gateway_nats.kit import Ground
from tests.unit.gateway_nats.test_jetstream import Api, new_consumer, new_stream

SECOND = 1_000_000_000


@pytest.fixture
def three() -> Ground:
    return Ground(seed=5, brokers=3)


def publish_wide(api: Api, stream: str, count: int, wanted: dict[int, bytes]) -> None:
    for number in range(count):
        subject = f"{stream}.wanted" if number in wanted else f"{stream}.other.{number % 100}"
        api.client.publish(subject, wanted.get(number, b"nobody's"))
    api.client.flush()


def arrived(ground: Ground, stream: str) -> int:
    """Return how many messages have ever come to the queue of the stream's one consumer."""
    counts = [
        host.queue.state.arrived_count
        for broker in ground.cluster.brokers.values()
        for host in broker.queue_hosts._hosts.values()
        if host.is_led
    ]
    return sum(counts)


def info(api: Api, stream: str, consumer: str) -> dict[str, Any]:
    found: dict[str, Any] = api.ask(f"CONSUMER.INFO.{stream}.{consumer}")
    return found


def test_only_what_is_wanted_comes_to_the_queue(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    wanted = {7: b"first", 900: b"second", 1_999: b"third"}
    publish_wide(api, stream, 2_000, wanted)
    consumer = new_consumer(api, stream, filter_subject=f"{stream}.wanted")
    assert info(api, stream, consumer)["num_pending"] == 3
    api.pull(stream, consumer, batch=10, no_wait=True)
    found = [api.client.message() for _ in wanted]
    assert [each[4] for each in found] == list(wanted.values())
    assert api.status() == "NATS/1.0 404 No Messages"
    assert arrived(three, stream) == 3
    for each in found:
        api.ack(each[2])
    said = info(api, stream, consumer)
    assert (said["num_pending"], said["num_ack_pending"]) == (0, 0)
    assert said["ack_floor"]["stream_seq"] == 2_000


def test_the_next_leader_goes_on_where_it_was(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, filter_subject=f"{stream}.wanted")
    publish_wide(api, stream, 500, {3: b"first"})
    api.pull(stream, consumer, batch=1, expires=5 * SECOND)
    api.ack(api.client.message()[2])
    # Somebody waits while nothing comes that is wanted: how far that is is committed.
    api.pull(stream, consumer, batch=1, expires=60 * SECOND)
    three.wait(cursor_host.WAIT_MS + 2 * cursor_host.PASSED_MS)
    assert info(api, stream, consumer)["ack_floor"]["stream_seq"] == 500
    leader = int(info(api, stream, consumer)["cluster"]["leader"].rpartition("-")[2])
    three.kill(leader)
    other = Api(three, leader % 3 + 1)
    publish_wide(other, stream, 10, {5: b"second"})
    other.pull(stream, consumer, batch=1, expires=30 * SECOND)
    assert other.client.message()[4] == b"second"


def test_what_no_consumer_wants_goes_from_a_stream_of_interest(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api, retention="interest")
    consumer = new_consumer(api, stream, filter_subject=f"{stream}.wanted")
    publish_wide(api, stream, 50, {})
    api.pull(stream, consumer, batch=1, expires=30 * SECOND)
    three.wait(cursor_host.WAIT_MS + 2 * cursor_host.PASSED_MS)
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 0


def test_what_a_consumer_does_not_want_goes_though_nobody_asks_it_for_messages(
    three: Ground,
) -> None:
    api = Api(three)
    stream = new_stream(api, retention="interest")
    new_consumer(api, stream, filter_subject=f"{stream}.wanted")
    for _ in range(2):
        api.publish(f"{stream}.other", b"nobody's")
        for _ in range(10):
            if not api.ask(f"STREAM.INFO.{stream}")["state"]["messages"]:
                break
            three.wait(500)
        else:
            pytest.fail("it stays")
    api.publish(f"{stream}.wanted", b"somebody's")
    three.wait(2_000)
    assert api.ask(f"STREAM.INFO.{stream}")["state"]["messages"] == 1


def test_what_arrives_is_not_passed_over_in_the_same_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was read, the table hears at the turn's end; somebody may ask for more before it."""
    one = Ground(seed=5)
    one.wait(2 * cursor_host.PASSED_MS)
    api = Api(one)
    stream = new_stream(api)
    for payload in (b"first", b"second"):
        api.publish(f"{stream}.wanted", payload)
    for _ in range(5):
        api.publish(f"{stream}.other", b"nobody's")
    ask = cursor_host.CursorHost.ask

    def ask_and_want_more(
        host: cursor_host.CursorHost, request: r.Request, on_answer: Any, **options: bool
    ) -> None:
        ask(host, request, on_answer, **options)
        if isinstance(request, r.Arrived):
            host.on_wanted()

    monkeypatch.setattr(cursor_host.CursorHost, "ask", ask_and_want_more)
    monkeypatch.setattr(cursor_host, "READ_BYTES", 200)
    consumer = new_consumer(api, stream, filter_subject=f"{stream}.wanted")
    for payload in (b"first", b"second"):
        api.pull(stream, consumer, batch=1, expires=5 * SECOND)
        assert api.client.message()[4] == payload


def test_other_subjects_come_to_a_pull_that_waits(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, filter_subject=f"{stream}.wanted")
    api.pull(stream, consumer, batch=1, expires=20 * SECOND)
    three.wait(1_000)
    config = {"durable_name": consumer, "ack_policy": "explicit", "filter_subject": f"{stream}.new"}
    api.ask(f"CONSUMER.CREATE.{stream}.{consumer}", stream_name=stream, config=config)
    # The broker that leads the queue has heard of it, while nothing has come.
    three.wait(3_000)
    api.client.publish(f"{stream}.new", b"new")
    assert api.client.message()[4] == b"new"


@pytest.mark.parametrize("is_asked_at_once", [False, True])
def test_who_waits_gets_what_the_cursor_is_set_to(
    is_asked_at_once: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if somebody asks for more before the table has decided about the new place."""
    one = Ground(seed=5)
    api = Api(one)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    api.publish(f"{stream}.a", b"again")
    api.pull(stream, consumer, batch=1, expires=5 * SECOND)
    api.ack(api.client.message()[2])
    api.pull(stream, consumer, batch=1, expires=20 * SECOND)
    one.wait(1_000)
    (broker,) = one.cluster.brokers.values()
    (host,) = (each for each in broker.queue_hosts._hosts.values() if each.is_led)
    ask = cursor_host.CursorHost.ask

    def ask_and_want_more(
        host: cursor_host.CursorHost, request: r.Request, on_answer: Any, **options: bool
    ) -> None:
        ask(host, request, on_answer, **options)
        if is_asked_at_once and isinstance(request, r.Seek):
            host.on_wanted()

    monkeypatch.setattr(cursor_host.CursorHost, "ask", ask_and_want_more)
    seek = q.SeekCursor(log_id=host.state.topic_id, offset=0)
    broker.doors.queues.ask(seek, Done, 5_000, lambda _: None)
    assert api.client.message()[4] == b"again"
