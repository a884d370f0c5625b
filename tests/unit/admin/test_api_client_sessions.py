"""Sessions of clients in the admin API: kept and live, of three protocols, and how one is ended."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkaesque.protocols.mqtt import packets as p
from kafkaesque.protocols.mqtt.properties import Properties
from tests.unit.admin.api_ground import CHANGE, Browser
from tests.unit.gateway_mqtt.kit import Ground as MqttGround
from tests.unit.gateway_nats.kit import Ground as NatsGround
from tests.unit.gateway_stomp.kit import Ground as StompGround

AnyGround = MqttGround | NatsGround | StompGround
KEPT = "/sessions/mqtt.session.lamp"


class Api:
    """The admin port of one broker."""

    def __init__(self, ground: AnyGround, broker: int = 1) -> None:
        machine = ground.world.add_machine(f"browser{broker}")
        self.browser = Browser(ground.world, machine, ground.cluster.names[broker - 1])

    def ask(self, method: str, path: str) -> tuple[int, Any]:
        headers = {} if method == "GET" else CHANGE
        told = self.browser.ask(method, f"/api/v1{path}", headers)
        return told.status, json.loads(told.body)

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        assert status == 200, body
        return body


@pytest.fixture
def ground() -> MqttGround:
    return MqttGround(3, brokers=3)


def test_a_session_is_shown_from_any_broker_with_its_client_and_without(ground: MqttGround) -> None:
    will = p.Will(
        topic="lamps/gone", payload=b"lamp", properties=Properties(will_delay_interval_s=5)
    )
    lamp = ground.client("lamp", 2, clean=False, expiry_s=3_600, will=will)
    lamp.subscribe("lamps/#", qos=1)
    api = Api(ground, 3)
    (seen,) = api.get("/sessions")["items"]
    assert (seen["id"], seen["client_id"], seen["protocol"]) == (
        "mqtt.session.lamp",
        "lamp",
        "mqtt",
    )
    assert (seen["broker"], seen["is_kept"], seen["has_will"]) == (2, True, True)
    assert (seen["subscriptions"], seen["kept_for_ms"], seen["waiting"]) == (1, 3_600_000, 0)
    told = api.get(KEPT)
    (subscription,) = told["subscriptions"]
    assert (subscription["name"], subscription["qos"]) == ("lamps/#", 1)
    assert (told["will"]["name"], told["will"]["delay_ms"]) == ("lamps/gone", 5_000)
    assert told["will"]["value"]["text"] == "lamp"
    lamp.client.link.abort()
    ground.client("publisher").publish("lamps/on", b"now", 1)
    ground.wait(1_000)
    (seen, _) = api.get("/sessions?sort=-waiting")["items"]
    assert (seen["broker"], seen["has_will"], seen["waiting"]) == (None, None, 1)
    told = api.get(KEPT)
    assert (told["session"]["waiting"], told["will"]) == (1, None)
    assert told["unwanted_ms"] >= 1_000


def test_no_page_shows_the_secret_of_a_session(ground: MqttGround) -> None:
    client = ground.session("lamp")
    client.subscribe("rooms/#", qos=1)
    told = Api(ground).get("/queues/mqtt.session.lamp/options")
    (option,) = [each for each in told["options"] if each["name"] == "mqtt.session"]
    assert '"client_id":"lamp"' in option["value"]
    assert "secret" not in option["value"]


def test_what_is_live_is_its_brokers(ground: MqttGround) -> None:
    lamp = ground.client("lamp", 2)
    lamp.subscribe("a/+", qos=0)
    lamp.subscribe("$share/team/b", qos=1)
    api = Api(ground)
    (seen,) = api.get("/sessions?protocol=mqtt")["items"]
    assert (seen["is_kept"], seen["broker"], seen["subscriptions"]) == (False, 2, 2)
    assert seen["id"] == f"2:{seen['connection']}"
    told = api.get(f"/sessions/{seen['id']}")
    assert [(each["name"], each["group"]) for each in told["subscriptions"]] == [
        ("a/+", ""),
        ("$share/team/b", "team"),
    ]
    assert api.get("/sessions?kept=true")["items"] == []
    assert api.get("/sessions?protocol=nats")["items"] == []


def test_a_session_that_is_kept_is_ended_with_all_that_waits(ground: MqttGround) -> None:
    lamp = ground.client("lamp", 2, clean=False, expiry_s=3_600)
    lamp.subscribe("lamps/#", qos=1)
    api = Api(ground)
    status, told = api.ask("DELETE", f"{KEPT}?dry_run=true")
    what = "the session of lamp would be ended, with its subscriptions and 0 messages"
    assert (status, told["what"]) == (200, what)
    assert told["command"] == "kafkaesque queue delete mqtt.session.lamp --yes"
    assert not lamp.client.is_closed
    assert api.ask("DELETE", KEPT)[0] == 200
    ground.loop.run_until(lambda: lamp.client.is_closed, 60_000)
    assert api.get("/sessions")["items"] == []
    assert api.ask("DELETE", KEPT)[0] == 404
    again = ground.client("lamp", 3, clean=False, expiry_s=3_600)
    assert not again.connack.session_present


def test_a_live_session_is_ended_by_its_broker(ground: MqttGround) -> None:
    lamp = ground.client("lamp", 2)
    api = Api(ground)
    (seen,) = api.get("/sessions")["items"]
    _, told = api.ask("DELETE", f"/sessions/{seen['id']}?dry_run=true")
    assert told["command"] == f"kafkaesque connection close {seen['id']}"
    ground.wait(1_000)
    assert not lamp.client.is_closed
    assert api.ask("DELETE", f"/sessions/{seen['id']}")[0] == 200
    ground.loop.run_until(lambda: lamp.client.is_closed, 60_000)


@pytest.mark.parametrize("query", ["", "?dry_run=true"])
def test_a_connection_that_is_no_session_is_not_ended_as_one(
    ground: MqttGround, query: str
) -> None:
    api = Api(ground)
    (own,) = api.get("/connections?protocol=admin")["items"]
    status, told = api.ask("DELETE", f"/sessions/1:{own['number']}{query}")
    assert (status, told["error"]) == (404, "UnknownSession")
    ground.wait(1_000)
    assert not api.browser.is_closed


def test_what_is_kept_stays_where_only_the_connection_is_closed(ground: MqttGround) -> None:
    lamp = ground.client("lamp", 2, clean=False, expiry_s=3_600)
    lamp.subscribe("lamps/#", qos=1)
    api = Api(ground)
    (seen,) = api.get("/sessions")["items"]
    place = f"/sessions/2:{seen['connection']}"
    stays = "closed; what is kept for the client stays: mqtt.session.lamp"
    _, told = api.ask("DELETE", f"{place}?dry_run=true")
    assert f"would be {stays}" in told["what"]
    _, told = api.ask("DELETE", place)
    assert f"is {stays}" in told["what"]
    ground.loop.run_until(lambda: lamp.client.is_closed, 60_000)
    assert [each["id"] for each in api.get("/sessions")["items"]] == ["mqtt.session.lamp"]


def test_what_is_kept_is_shown_while_half_of_the_brokers_are_dead(ground: MqttGround) -> None:
    lamp = ground.client("lamp", 2, clean=False, expiry_s=3_600)
    lamp.subscribe("lamps/#", qos=1)
    lost = ground.client("lost", 3)
    api = Api(ground)
    assert len(api.get("/sessions")["items"]) == 2
    ground.kill(3)
    ground.loop.run_until(lambda: lost.client.is_closed, 60_000)
    ground.wait(15_000)
    seen = api.get("/sessions")
    assert [each["client_id"] for each in seen["items"]] == ["lamp"]
    assert [each["broker"] for each in seen["sources"] if each["missing"]] == [3]
    assert api.get(KEPT)["subscriptions"][0]["name"] == "lamps/#"
    assert api.ask("GET", "/sessions/3:1")[0] == 503


@pytest.mark.parametrize("name", ["mqtt.session.none", "9:1", "1:99", "orders", "1:²"])
def test_what_is_no_session_is_not_found(ground: MqttGround, name: str) -> None:
    assert Api(ground).ask("GET", f"/sessions/{name.replace('²', '%C2%B2')}")[0] == 404


def test_subjects_of_nats_are_shown_whatever_their_bytes() -> None:
    ground = NatsGround()
    client = ground.client(name="worker")
    client.write(b"SUB orders.* team 1\r\nSUB odd.\xff 2\r\n")
    client.flush()
    api = Api(ground)
    (seen,) = api.get("/sessions")["items"]
    assert (seen["protocol"], seen["client_id"], seen["subscriptions"]) == ("nats", "worker", 2)
    told = api.get(f"/sessions/{seen['id']}")["subscriptions"]
    assert [(each["name"], each["group"]) for each in told] == [("orders.*", "team"), ("odd.�", "")]


def test_a_durable_subscription_of_stomp_is_kept() -> None:
    ground = StompGround()
    client = ground.stomp(headers={"client-id": "desk"})
    client.subscribe("/topic/prices.*", "s1", durable="true")
    api = Api(ground)
    kept = next(each for each in api.get("/sessions")["items"] if each["is_kept"])
    assert (kept["client_id"], kept["broker"], kept["subscriptions"]) == ("desk.s1", 1, 1)
    told = api.get(f"/sessions/{kept['id']}")
    (subscription,) = told["subscriptions"]
    assert (subscription["name"], subscription["exchange"]) == ("prices.*", "amq.topic")
