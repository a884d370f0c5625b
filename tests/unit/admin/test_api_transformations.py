"""The admin API's transformations on a simulated cluster, and RabbitMQ's definitions with them."""

from __future__ import annotations

import json

import pytest

from tests.unit.admin.api_ground import ApiGround

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
