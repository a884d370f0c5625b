"""The admin API's transformations on a simulated cluster, and RabbitMQ's definitions with them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.admin.api_ground import ApiGround
from tests.unit.admin.told import Told

RULE = {"steps": [{"do": "set", "at": "headers.by", "value": "a"}]}


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(7)


def put(ground: ApiGround, name: str, rule: object = RULE, query: str = "") -> int:
    body = {"rule": json.dumps(rule)}
    return ground.ask("PUT", f"/transformations/{name}{query}", body).status


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_a_transformation_is_put_listed_shown_and_deleted(ground: ApiGround, host: str) -> None:
    ground.create_queue("errors")
    assert put(ground, "t", query="?dry_run=true") == 200
    assert ground.get("/transformations", host)["items"] == []
    assert put(ground, "t") == 200
    assert put(ground, "u", {**RULE, "when": "a = 1", "failures": "errors"}) == 200
    arguments = json.dumps({"x-transformation": "t"})
    body = {"to": "queue", "destination": "errors", "arguments": arguments}
    assert ground.ask("POST", "/exchanges/amq.fanout/bind", body).status == 200
    listed = ground.get("/transformations", host)
    assert [(each["name"], each["bindings"]) for each in listed["items"]] == [("t", 1), ("u", 0)]
    shown = ground.get("/transformations/u", host)["transformation"]
    assert json.loads(shown["rule"]) == {**RULE, "when": "a = 1", "failures": "errors"}
    assert [each["name"] for each in ground.get("/transformations", host, q="U")["items"]] == ["u"]
    told = ground.ask("DELETE", "/transformations/t")
    assert (told.status, told.json["error"]) == (409, "TransformationInUse")
    assert ground.ask("DELETE", "/transformations/u").status == 200
    assert ground.ask("GET", "/transformations/u").status == 404


@pytest.mark.parametrize(
    ("rule", "status", "said"),
    [
        ({"steps": []}, 400, "without a step"),
        ({"steps": [{"do": "fly", "at": "a"}]}, 400, "fly"),
        ({"steps": [{"do": "drop", "at": "a", "to": "b"}]}, 400, "unknown field"),
        ({**RULE, "whne": "a = 1"}, 400, "unknown field"),
        ({**RULE, "failures": "nowhere"}, 404, "no queue 'nowhere'"),
    ],
)
def test_what_is_no_rule_is_refused(
    ground: ApiGround, rule: object, status: int, said: str
) -> None:
    told = ground.ask("PUT", "/transformations/t", {"rule": json.dumps(rule)})
    assert (told.status, said in told.json["message"]) == (status, True), told.body


def tried(ground: ApiGround, body: dict[str, object], host: str = "b1", name: str = "t") -> Told:
    return ground.ask("POST", f"/transformations/{name}/try", body, host=host)


def texts(message: dict[str, Any]) -> dict[str, str]:
    """The headers of a message that was tried."""
    return {each["name"]: each["value"] for each in message["headers"]}


RENAME = {"do": "rename", "at": "$.old", "to": "$.new"}


@pytest.mark.parametrize("host", ["b1", "b3"])
def test_a_stored_rule_or_a_given_one_is_tried(ground: ApiGround, host: str) -> None:
    assert put(ground, "t", {"when": "a = '1'", "steps": RULE["steps"]}) == 200
    ground.get("/transformations/t", host)
    found = tried(ground, {"headers": {"a": "1"}, "body": "{}"}, host).json
    assert (found["applies"], texts(found["before"])) == (True, {"a": "1"})
    assert texts(found["after"]) == {"a": "1", "by": "a"}
    found = tried(ground, {"body": "{}"}, host).json
    assert (found["applies"], found["after"]) == (False, found["before"])
    rule = json.dumps({"steps": [RENAME], "failures": "errors"})
    # What it is called then does not matter: it is about to be made.
    found = tried(ground, {"rule": rule, "body": '{"old": 7}'}, host, "new").json
    assert (found["after"]["body"]["text"], found["failure"]) == ('{"new":7}', None)
    found = tried(ground, {"rule": rule, "body": "no JSON"}, host, "new").json
    assert (found["after"], found["failures"]) == (None, "errors")
    assert "no JSON" in found["failure"]
    properties = {"content_type": "text/plain"}
    rule = json.dumps({"steps": [{"do": "set", "at": "properties.type", "value": "order"}]})
    found = tried(ground, {"rule": rule, "properties": properties, "body": "a"}, host).json
    assert found["after"]["properties"] == [
        {"name": "content_type", "value": "text/plain"},
        {"name": "type", "value": "order"},
    ]


@pytest.mark.parametrize("host", ["b1", "b2"])
def test_a_rule_is_tried_with_a_message_that_stays_in_its_queue(
    ground: ApiGround, host: str
) -> None:
    assert put(ground, "t", {"steps": [RENAME]}) == 200
    ground.create_queue("mails")
    ground.put("mails", '{"old": 12345678901234567890}', '{"old": 2}')
    found = tried(ground, {"queue": "mails"}, host).json
    assert found["before"]["body"]["text"] == '{"old": 12345678901234567890}'
    assert found["after"]["body"]["text"] == '{"new":12345678901234567890}'
    next_one = tried(ground, {"queue": "mails", "offset": found["offset"] + 1}).json
    assert next_one["after"]["body"]["text"] == '{"new":2}'
    assert len(ground.get("/queues/mails/messages")["items"]) == 2
    assert ground.get("/queues/mails")["queue"]["ready"] == 2


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 404, "no transformation 't'"),
        ({"rule": "{}"}, 400, "steps"),
        ({"rule": '{"steps": []}'}, 400, "without a step"),
        ({"rule": json.dumps(RULE), "queue": "nowhere"}, 404, "nowhere"),
        (
            {"rule": json.dumps(RULE), "queue": "mails", "offset": 5},
            404,
            "no message from offset 5",
        ),
        ({"rule": json.dumps(RULE), "queue": "mails", "partition": 9}, 404, "partition"),
        ({"rule": json.dumps(RULE), "queue": "mails", "body": "a"}, 400, "not both"),
    ],
)
def test_what_cannot_be_tried_is_refused(
    ground: ApiGround, body: dict[str, object], status: int, said: str
) -> None:
    ground.create_queue("mails")
    told = tried(ground, body)
    assert (told.status, said in told.json["message"]) == (status, True), told.body
