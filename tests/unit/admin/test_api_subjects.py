"""Retained names, and streams of JetStream, in the admin API."""

from __future__ import annotations

import pytest

from tests.unit.admin.test_api_client_sessions import Api
from tests.unit.gateway_mqtt.kit import Ground as MqttGround
from tests.unit.gateway_nats.kit import Ground as NatsGround
from tests.unit.gateway_nats.test_jetstream import Api as JetStream
from tests.unit.gateway_nats.test_jetstream import new_consumer, new_stream


@pytest.fixture
def ground() -> MqttGround:
    made = MqttGround(5)
    client = made.client("publisher")
    for name in ("lamps/hall", "lamps/kitchen", "doors/hall", "lamps/kitchen/left"):
        client.publish(name, name.encode(), 1, retain=True)
    return made


def test_retained_names_are_found_by_a_filter_and_paged(ground: MqttGround) -> None:
    api = Api(ground)
    seen = api.get("/retained")
    assert seen["next"] is None
    assert [each["name"] for each in seen["items"]] == [
        "doors/hall",
        "lamps/hall",
        "lamps/kitchen",
        "lamps/kitchen/left",
    ]
    assert (seen["items"][0]["value"]["text"], seen["items"][0]["qos"]) == ("doors/hall", 1)
    lamps = api.get("/retained?filter=lamps/%2B")
    assert [each["name"] for each in lamps["items"]] == ["lamps/hall", "lamps/kitchen"]
    found, after = [], ""
    for _ in range(5):
        page = api.get(f"/retained?limit=1&after={after}")
        found += [each["name"] for each in page["items"]]
        after = page["next"]
        if after is None:
            break
    assert found == [each["name"] for each in seen["items"]]


@pytest.mark.parametrize("query", ["filter=a/%23/b", "filter=", "after=%C3%A9", "limit=0"])
def test_what_is_no_filter_is_refused(ground: MqttGround, query: str) -> None:
    assert Api(ground).ask("GET", f"/retained?{query}")[0] == 400


def test_a_name_that_was_cleared_is_not_there(ground: MqttGround) -> None:
    ground.client("other").publish("lamps/hall", b"", 1, retain=True)
    names = [each["name"] for each in Api(ground).get("/retained?filter=lamps/hall")["items"]]
    assert names == []


def test_streams_and_their_consumers_are_shown_from_any_broker() -> None:
    ground = NatsGround(7, brokers=3)
    jetstream = JetStream(ground)
    stream = new_stream(jetstream, max_msgs=100, max_age=60_000_000_000, description="all")
    for number in range(3):
        jetstream.publish(f"{stream}.new", b"%d" % number)
    consumer = new_consumer(jetstream, stream, filter_subject=f"{stream}.new", max_deliver=4)
    api = Api(ground, 3)
    (seen,) = api.get("/streams")["items"]
    assert (seen["name"], seen["subjects"], seen["description"]) == (stream, [f"{stream}.>"], "all")
    assert (seen["messages_max"], seen["bytes_max"], seen["age_max_ms"]) == (100, None, 60_000)
    assert (seen["last_sequence"], seen["messages"], seen["consumers"]) == (3, 3, 1)
    (told,) = api.get(f"/streams/{stream}/consumers")["items"]
    assert (told["name"], told["queue"]) == (consumer, f"nats/{stream}/{consumer}")
    assert (told["filters"], told["deliveries_max"]) == ([f"{stream}.new"], 4)
    assert api.get(f"/streams?q={stream.lower()}.")["total"] == 1
    assert api.get("/streams?q=nothing")["total"] == 0
    assert api.get("/streams?sort=-messages")["total"] == 1
    assert api.ask("GET", "/streams/none/consumers")[0] == 404
    ground.kill(2)
    ground.wait(15_000)
    assert api.get(f"/streams/{stream}/consumers")["total"] == 1
