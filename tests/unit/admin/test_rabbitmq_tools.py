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
    return answer.status, answer.json if answer.body else None


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
    assert "broker 3" in said["reason"]
    assert told(asking, "GET", f"{path}/kafkaesque@1") == (200, {"status": "ok"})


GET = {"ackmode": "ack_requeue_true", "encoding": "auto"}


def test_each_message_says_how_many_were_left_when_it_had_been_taken(
    ground: Ground, asking: Asking
) -> None:
    client = ground.client(1)
    client.open(1)
    queue = client.queue()
    ground.wait(3_000)
    for number in range(7):
        client.publish(b"%d" % number, queue)
    ground.wait(1_000)

    def counts(ackmode: str, count: int) -> list[tuple[str, int]]:
        body = {**GET, "ackmode": ackmode, "count": count}
        status, found = told(asking, "POST", f"/queues/%2F/{queue}/get", body)
        assert status == 200, found
        return [(each["payload"], each["message_count"]) for each in found]

    for kept in ("ack_requeue_true", "reject_requeue_true"):
        assert counts(kept, 2) == [("0", 6), ("1", 5)]
    assert counts("ack_requeue_false", 3) == [("0", 6), ("1", 5), ("2", 4)]
    assert counts("reject_requeue_false", 1) == [("3", 3)]
    assert counts("ack_requeue_true", 9) == [("4", 2), ("5", 1), ("6", 0)]


def test_a_message_without_properties_has_an_empty_list_of_them(
    ground: Ground, asking: Asking
) -> None:
    """As RabbitMQ: `rabbitmqadmin` shows a column of them then."""
    client = ground.client(1)
    client.open(1)
    name = client.queue()
    ground.wait(3_000)
    message = {"routing_key": name, "payload": "x", "properties": {}}
    assert told(asking, "POST", "/exchanges/%2F/amq.default/publish", message)[0] == 200
    (found,) = told(asking, "POST", f"/queues/%2F/{name}/get", {**GET, "count": 1})[1]
    assert found["properties"] == []


@pytest.mark.parametrize(
    ("query", "error", "reason"),
    [
        (
            "page=4&page_size=5",
            "page_out_of_range",
            "Page out of range, page: 4 page size: 5, len: 7",
        ),
        (
            "page=0&page_size=5",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 0, page size 5",
        ),
        (
            "page=-1",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number -1, page size undefined",
        ),
        (
            "page=1&page_size=0",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 1, page size 0",
        ),
        (
            "page=1&page_size=501",
            "invalid_pagination_parameters",
            "Invalid pagination parameters: page number 1, page size 501",
        ),
        ("page=a", "bad_request", "Pagination parameters are invalid"),
        ("page=1&page_size=-", "bad_request", "Pagination parameters are invalid"),
        (
            "page=1&name=%5B&use_regex=true",
            "bad_request",
            "name is no regular expression: missing ]: [",
        ),
    ],
)
def test_pages_that_cannot_be_are_refused_in_rabbitmqs_words(
    asking: Asking, query: str, error: str, reason: str
) -> None:
    # There are six, and one more.
    assert told(asking, "PUT", "/exchanges/%2F/seventh", {"type": "direct"})[0] == 201
    status, said = told(asking, "GET", f"/exchanges/%2F?{query}")
    assert (status, said) == (400, {"error": error, "reason": reason})


def test_a_pattern_that_re2_does_not_take_is_refused_without_python(asking: Asking) -> None:
    body = {"pattern": "[", "definition": {"expires": 1}}
    status, said = told(asking, "PUT", "/policies/%2F/p", body)
    assert (status, said["reason"]) == (400, "'[' is no pattern that is supported: missing ]: [")


def test_there_are_no_limits_and_parameters(asking: Asking) -> None:
    for path in ("/vhost-limits", "/vhost-limits/%2F", "/parameters/x", "/parameters/x/%2F"):
        assert told(asking, "GET", path) == (200, []), path
    for path in ("/vhost-limits/nosuch", "/parameters/x/nosuch", "/user-limits/nosuch"):
        assert told(asking, "GET", path)[0] == 404, path
