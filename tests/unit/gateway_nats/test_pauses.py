"""CONSUMER.PAUSE at simulated brokers."""

from __future__ import annotations

import pytest

from kafkaesque.gateway.nats.jetstream.times import rfc3339
from tests.unit.gateway_nats.kit import Ground
from tests.unit.gateway_nats.test_jetstream import Api, new_consumer, new_stream

FAR = "2100-01-01T00:00:00Z"
FAR_SHOWN = "2100-01-01T00:00:00.000000000Z"
NEVER = "0001-01-01T00:00:00Z"
SECOND = 1_000_000_000


@pytest.fixture
def three() -> Ground:
    return Ground(seed=3, brokers=3)


def soon(ground: Ground, ms: int) -> str:
    return rfc3339(ground.env.clock.wall_ms() + ms)


def test_a_pull_at_another_broker_waits_until_the_consumer_goes_on(three: Ground) -> None:
    api, other = Api(three, 1), Api(three, 2)
    stream = new_stream(api)
    # An attempt that counted would be the last one.
    consumer = new_consumer(api, stream, max_deliver=1)
    pause = f"CONSUMER.PAUSE.{stream}.{consumer}"
    # It waits at the queue's leader before anybody speaks of a pause.
    other.pull(stream, consumer, batch=2, expires=60 * SECOND)
    other.client.flush()
    paused = api.ask(pause, pause_until=FAR)
    assert (paused["paused"], paused["pause_until"]) == (True, FAR_SHOWN)
    assert paused["type"] == "io.nats.jetstream.api.v1.consumer_pause_response"
    assert paused["pause_remaining"] > 10**18
    api.publish(f"{stream}.a", b"x")
    three.wait(2_000)
    assert b"MSG" not in other.client.waiting
    assert api.ask(pause) == {
        "type": "io.nats.jetstream.api.v1.consumer_pause_response",
        "paused": False,
        "pause_until": NEVER,
    }
    assert other.client.message()[4] == b"x"


def test_a_pause_ends_by_itself_and_is_seen_in_the_info(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    api.publish(f"{stream}.a", b"x")
    until = soon(three, 3_000)
    assert api.ask(f"CONSUMER.PAUSE.{stream}.{consumer}", pause_until=until)["paused"] is True
    info = Api(three, 2).ask(f"CONSUMER.INFO.{stream}.{consumer}")
    assert info["paused"] is True
    assert 0 < info["pause_remaining"] <= 3 * SECOND
    assert info["config"]["pause_until"] == until
    assert info["config"]["metadata"] == {"_nats.req.level": "1"}
    api.pull(stream, consumer, batch=1, no_wait=True)
    assert api.status() == "NATS/1.0 404 No Messages"
    api.pull(stream, consumer, batch=1, expires=SECOND)
    assert api.status() == "NATS/1.0 408 Request Timeout"
    began_ms = three.env.clock.now_ms()
    api.pull(stream, consumer, batch=1, expires=20 * SECOND)
    assert api.client.message()[4] == b"x"
    assert three.env.clock.now_ms() - began_ms >= 1_000
    info = api.ask(f"CONSUMER.INFO.{stream}.{consumer}")
    assert not {"paused", "pause_remaining"} & info.keys()


def test_what_is_out_is_acknowledged_while_nothing_is_given_out(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, max_ack_pending=1)
    for body in (b"x", b"y"):
        api.publish(f"{stream}.a", body)
    api.pull(stream, consumer, batch=1, expires=SECOND)
    token = api.client.message()[2]
    api.ask(f"CONSUMER.PAUSE.{stream}.{consumer}", pause_until=FAR)
    api.ack(token)
    assert api.ask(f"CONSUMER.INFO.{stream}.{consumer}")["num_ack_pending"] == 0


@pytest.mark.parametrize("ack_policy", ["explicit", "none"])
def test_what_is_pushed_waits_too(three: Ground, ack_policy: str) -> None:
    api = Api(three)
    stream = new_stream(api)
    inbox = f"{stream}-pushed"
    api.client.subscribe(inbox, "pushed")
    kept = {"durable_name": "P"} if ack_policy == "explicit" else {"name": "P"}
    config = {"deliver_subject": inbox, "ack_policy": ack_policy, **kept}
    beat = {"idle_heartbeat": SECOND // 5, "pause_until": FAR}
    made = api.ask(f"CONSUMER.CREATE.{stream}.P", stream_name=stream, config={**config, **beat})
    assert (made["paused"], made["config"]["pause_until"]) == (True, FAR_SHOWN)
    Api(three, 2).publish(f"{stream}.a", b"x")
    # Signs of life come all the same.
    assert api.status() == "NATS/1.0 100 Idle Heartbeat"
    three.wait(2_000)
    assert b"x" not in api.client.take().split(b"\r\n")
    Api(three, 1).ask(f"CONSUMER.PAUSE.{stream}.P", pause_until="1970-01-01T00:00:00Z")
    found = api.client.message()
    while b"Idle" in found[3]:
        found = api.client.message()
    assert found[4] == b"x"


def test_a_change_of_a_consumer_leaves_its_pause(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream, pause_until=FAR)
    changed = {"durable_name": consumer, "ack_policy": "explicit", "ack_wait": 7 * SECOND}
    info = api.ask(
        f"CONSUMER.CREATE.{stream}.{consumer}", stream_name=stream, config=changed, action="update"
    )
    assert (info["config"]["ack_wait"], info["config"]["pause_until"]) == (7 * SECOND, FAR_SHOWN)
    # A client may give back what it was shown.
    again = api.ask(
        f"CONSUMER.CREATE.{stream}.{consumer}",
        stream_name=stream,
        config={**info["config"], "metadata": {"_nats.req.level": "1", "own": "x"}},
    )
    assert again["config"]["metadata"] == {"_nats.req.level": "1", "own": "x"}
    three.kill(2)
    assert Api(three, 3).ask(f"CONSUMER.INFO.{stream}.{consumer}")["paused"] is True


def test_a_paused_consumer_that_is_waited_for_does_not_go(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    made = api.ask(
        f"CONSUMER.CREATE.{stream}", stream_name=stream, config={"ack_policy": "explicit"}
    )
    api.ask(f"CONSUMER.PAUSE.{stream}.{made['name']}", pause_until=soon(three, 10_000))
    api.publish(f"{stream}.a", b"x")
    api.pull(stream, made["name"], batch=1, expires=30 * SECOND)
    assert api.client.message()[4] == b"x"
    three.wait(9_000)
    assert api.ask(f"CONSUMER.NAMES.{stream}")["consumers"] == []


def test_pauses_that_make_no_sense(three: Ground) -> None:
    api = Api(three)
    stream = new_stream(api)
    consumer = new_consumer(api, stream)
    for operation, body, number in (
        (f"CONSUMER.PAUSE.{stream}.none", {"pause_until": FAR}, 10014),
        (f"CONSUMER.PAUSE.none.{consumer}", {"pause_until": FAR}, 10059),
        (f"CONSUMER.PAUSE.{stream}.{consumer}", {"pause_until": "tomorrow"}, 10025),
        (f"CONSUMER.PAUSE.{stream}.{consumer}", {"pause_until": 7}, 10025),
        (f"CONSUMER.PAUSE.{stream}", {}, 10003),
    ):
        assert api.ask(operation, **body)["error"]["err_code"] == number, operation
