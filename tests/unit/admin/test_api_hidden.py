"""What answers of the admin API leave out for those who may not see a topic, or the clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.admin.api.calls import Call
from kafkaesque.broker.tracer import Tracer
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.sink_markers import PROGRESS_MARK
from kafkaesque.protocols.mqtt import packets as p
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.admin.test_api_client_sessions import Api
from tests.unit.admin.test_api_traces import TRACE, commit_all, traced
from tests.unit.admin.test_why import begin_transaction
from tests.unit.gateway_mqtt.kit import Ground as MqttGround

_O, _T = Operation, ResourceType


def hide(monkeypatch: pytest.MonkeyPatch, *without: tuple[Operation, ResourceType, str]) -> None:
    """Have all who ask be without these rights, and have all others."""
    monkeypatch.setattr(Call, "could", lambda _, *needed: needed not in without)


@pytest.mark.parametrize("clean", [True, False])
def test_a_will_is_shown_to_those_who_may_read_its_topic(
    monkeypatch: pytest.MonkeyPatch, *, clean: bool
) -> None:
    ground = MqttGround(3)
    will = p.Will(topic="lamps/gone", payload=b"secret")
    ground.client("lamp", clean=clean, expiry_s=0 if clean else 3_600, will=will)
    api = Api(ground)
    (seen,) = api.get("/sessions")["items"]
    path = f"/sessions/{seen['id']}"
    assert api.get(path)["will"]["value"]["text"] == "secret"
    hide(monkeypatch, (_O.READ, _T.TOPIC, "lamps/gone"))
    told = api.get(path)
    assert (told["will"]["name"], told["will"]["value"]) == ("lamps/gone", None)
    assert told["session"]["has_will"] is True
    hide(monkeypatch, (_O.DESCRIBE, _T.TOPIC, "lamps/gone"))
    told = api.get(path)
    assert (told["will"]["name"], told["will"]["value"]) == (None, None)


@pytest.fixture
def ground() -> ApiGround:
    made = ApiGround(47)
    made.create("orders", 2)
    made.create("salaries", 1)
    return made


HIDDEN = (_O.DESCRIBE, _T.TOPIC, "salaries")


def test_a_transactions_topics_are_those_that_may_be_seen(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_transaction(ground, "salaries")
    assert "salaries" in json.dumps(ground.get("/why/producers/shop"))
    hide(monkeypatch, HIDDEN)
    told = ground.get("/why/producers/shop")
    assert told["cause"] == "transaction"
    assert "salaries" not in json.dumps(told)


def test_a_querys_lag_is_that_of_the_topics_that_may_be_seen(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        ground.publish("orders", 0, text(f"m{number}"))
        ground.publish("salaries", 0, text(f"m{number}"))
    wheres = (TopicPartition("orders", 0), TopicPartition("salaries", 0))
    commit_all(ground, "flow", dict.fromkeys(wheres, (1, PROGRESS_MARK)))

    def flow() -> Any:
        (told,) = ground.get("/pipelines")["items"]
        return told["topics"], told["lag"], told["unknown"]

    assert flow() == (["orders", "salaries"], 4, 0)
    hide(monkeypatch, HIDDEN)
    assert flow() == (["orders"], 2, 0)
    hide(monkeypatch, HIDDEN, (_O.DESCRIBE, _T.TOPIC, "orders"))
    assert flow() == ([], 0, 0)


def test_a_streams_origins_are_those_that_may_be_seen(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = {"name": "all", "sources": [{"name": "orders"}, {"name": "salaries"}]}
    ground.create("all", nats_stream=json.dumps(said))
    assert ground.get("/streams")["items"][0]["origins"] == ["orders", "salaries"]
    hide(monkeypatch, HIDDEN)
    (seen,) = ground.get("/streams")["items"]
    assert (seen["origins"], seen["subjects"]) == (["orders"], [])


def test_who_consumes_is_in_a_trace_for_those_who_may_see_clients(
    ground: ApiGround, monkeypatch: pytest.MonkeyPatch
) -> None:
    for broker in ground.cluster.brokers.values():
        broker.doors.activity.tracer = Tracer(broker.doors.clock, broker.doors.dice)
    ground.publish("orders", 0, traced(TRACE))
    for broker in ground.cluster.brokers.values():
        tracer = broker.doors.activity.tracer
        assert tracer is not None
        for offset in (0, 1):
            tracer.on_asked(1, TopicPartition("orders", 0), offset, "app")
    path = f"/traces/{TRACE}"

    def clients() -> set[str]:
        return {each["client_id"] for each in ground.get(path)["spans"]}

    assert clients() == {"", "app"}
    hide(monkeypatch, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME))
    assert clients() == {""}
    assert len(ground.get(path)["spans"]) > 1
