"""What RabbitMQ's own tools need of the API's answers: `rabbitmqadmin`, and health checks."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.admin.test_rabbitmq_channels import LOGIN, Asking, consume
from tests.unit.gateway_amqp.kit import Ground

#: Those that a queue does not have, or nobody asked for: RabbitMQ has null there, too.
NULL_IN_RABBITMQ = ("policy", "operator_policy")
LISTS = (
    "bindings",
    "channels",
    "connections",
    "consumers",
    "exchanges",
    "nodes",
    "operator-policies",
    "parameters",
    "permissions",
    "policies",
    "queues",
    "topic-permissions",
    "users",
    "vhost-limits",
    "vhosts",
)


@pytest.fixture
def ground() -> Ground:
    return Ground(seed=5, brokers=3)


@pytest.fixture
def asking(ground: Ground) -> Asking:
    return Asking(ground)


def nulls(item: Any, path: str = "") -> list[str]:
    """Return where null stands in an item of a list; `rabbitmqadmin` asks for its length."""
    if isinstance(item, dict):
        return [
            each
            for name, value in item.items()
            if name not in NULL_IN_RABBITMQ
            for each in nulls(value, f"{path}.{name}")
        ]
    return [path] if item is None else []


def told(asking: Asking, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    answer = asking._browser.ask(method, f"/rabbitmq/api{path}", LOGIN, data)
    return answer.status, answer.json


def test_no_list_has_null_with_a_client_of_another_protocol_and_a_dead_broker(
    ground: Ground, asking: Asking
) -> None:
    client = ground.client(1)
    client.open(1)
    consume(client, 1, client.queue(), "here", 7)
    names = [client.queue() for _ in range(9)]
    ground.wait(3_000)
    before = {each["name"] for each in asking.get("/queues") if "messages" in each}
    assert before >= set(names)
    ground.kill(3)
    found = {name: asking.get(f"/{name}") for name in LISTS}
    for name, items in found.items():
        assert [each for item in items for each in nulls(item)] == [], name
    # What was asked for with no leader to answer it, and what a dead broker would say.
    assert any("messages" not in each for each in found["queues"])
    (dead,) = [each for each in found["nodes"] if "mem_used" not in each]
    assert (dead["name"], dead["running"]) == ("kafkaesque@3", False)
    channels = {each["protocol"]: each["channels"] for each in found["connections"]}
    assert channels.pop("AMQP 0-9-1") == 1
    assert channels
    assert set(channels.values()) == {0}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("DELETE", "/exchanges/%2F/amq.direct", None),
        ("PUT", "/exchanges/%2F/amq.mine", {"type": "direct"}),
        ("PUT", "/queues/%2F/amq.mine", {}),
        ("POST", "/bindings/%2F/e/amq.default/q/nothing", {}),
    ],
)
def test_what_nobody_may_do_is_answered_as_rabbitmq_does(
    asking: Asking, method: str, path: str, body: Any
) -> None:
    """`rabbitmqadmin` says so at 401, and ends with a traceback at 403."""
    status, said = told(asking, method, path, body)
    assert (status, said["error"]) == (401, "not_authorised")
    assert said["reason"]


def test_the_health_of_a_node_is_that_of_the_one_that_is_named(
    ground: Ground, asking: Asking
) -> None:
    path = "/healthchecks/node"
    assert told(asking, "GET", f"{path}/nosuch")[0] == 404
    for name in ("kafkaesque@1", "kafkaesque@3"):
        assert told(asking, "GET", f"{path}/{name}") == (200, {"status": "ok"})
    ground.kill(3)
    status, said = told(asking, "GET", f"{path}/kafkaesque@3")
    assert (status, said["status"]) == (503, "failed")
    assert "broker 3 does not answer" in said["reason"]
    assert told(asking, "GET", f"{path}/kafkaesque@1") == (200, {"status": "ok"})
