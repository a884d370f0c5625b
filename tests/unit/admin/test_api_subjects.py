"""Retained names, and streams of JetStream, in the admin API."""

from __future__ import annotations

from typing import Any

import pytest

from kafkaesque.admin.api import streams
from kafkaesque.admin.api.fan_out import FanOut
from kafkaesque.admin.api.part_pages import QueuesQuestion
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.requests.exchange_commands import CreateVhost
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.broker.requests.queue_requests import PutResult
from tests.unit.admin.api_ground import ApiGround
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


@pytest.mark.parametrize("most", [1_000, 0])
def test_a_queue_of_that_name_in_another_virtual_host_is_no_consumer(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Above so many consumers all queues are asked for; see `NAMED_MAX`."""
    monkeypatch.setattr(streams, "NAMED_MAX", most)
    ground = ApiGround(7)
    for number in range(6):
        ground.create(f"flow{number}", factor=1, nats_stream="{}")
    # Of those that answer, the first one leads it: what others say comes later.
    first = min(ground.get("/streams")["items"], key=lambda each: each["leader"])
    flow = first["name"]
    assert first["leader"] < 3
    names = [f"n{number}" for number in range(6)]
    doors = ground.cluster.brokers["b1"].doors
    done: list[Any] = []
    doors.exchanges.submit(CreateVhost(vhost="zoo"), 10_000, done.append)
    ground.run_until(lambda: bool(done))
    for name in names:
        ground.create_queue(name, source_topic=flow, nats_consumer="{}")
        done.clear()
        doors.cluster.submit(CreateQueue(vhost="zoo", name=name), 10_000, done.append)
        ground.run_until(lambda: len(done) == 1)
        doors.queues.put(done[0].log_id, [NewMessage(b"x")] * 5, 10_000, done.append)
        ground.run_until(lambda: len(done) == 2)
        assert isinstance(done[1], PutResult), done
    asked: list[QueuesQuestion] = []
    whole = FanOut.ask_all

    def ask_all(self: FanOut, page: Any, question: Any, on_done: Any) -> None:
        asked.append(question)
        whole(self, page, question, on_done)

    monkeypatch.setattr(FanOut, "ask_all", ask_all)
    seen = ground.get(f"/streams/{flow}/consumers")["items"]
    assert [(each["name"], each["ready"]) for each in seen] == [(name, 0) for name in names]
    assert asked[0].names == ([("/", name) for name in names] if most else None)
