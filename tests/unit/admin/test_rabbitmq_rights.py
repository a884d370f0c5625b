"""What each operation of RabbitMQ's management API needs, and what it shows to whom."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.access.credentials import ScramVerifier
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from tests.unit.admin.told import Told
from tests.unit.admin.visits import AdminCluster
from tests.unit.gateway_kafka.secured import PASSWORD, add_user, allow

_O, _T = Operation, ResourceType
READER = "reader"
ROOT = "/rabbitmq/api"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[AdminCluster]:
    made = AdminCluster(tmp_path)
    for name in (READER, "root"):
        add_user(made.live, name)
    for path in ("/queues/%2F/mails", "/queues/%2F/secrets", "/exchanges/%2F/shop", "/vhosts/b"):
        assert ask(made, "PUT", path, {}, user="root").status == 201
    body = {"routing_key": "mails", "payload": "a mail"}
    told = ask(made, "POST", "/exchanges/%2F/amq.default/publish", body, user="root")
    assert told.json == {"routed": True}
    yield made
    made.close()


def ask(
    cluster: AdminCluster,
    method: str,
    path: str,
    body: Any = None,
    *,
    user: str = READER,
    password: str = PASSWORD,
) -> Told:
    """Ask as RabbitMQ's tools do: with a name and a password, and no header of ours."""
    visit = cluster.visit()
    said = base64.b64encode(f"{user}:{password}".encode()).decode()
    told = visit.ask(method, ROOT + path, {"Authorization": f"Basic {said}"}, body)
    visit.close()
    return told


def names(told: Told) -> list[str]:
    assert told.status == 200, told
    return [each["name"] for each in told.json]


def test_strangers_are_told_to_log_in(cluster: AdminCluster) -> None:
    for path in ("/overview", "/nothing", "/queues"):
        visit = cluster.visit()
        told = visit.ask("GET", ROOT + path)
        visit.close()
        assert told.status == 401
        assert told.headers["www-authenticate"].startswith("Basic")
    assert ask(cluster, "GET", "/whoami", password="wrong password").status == 401


GET = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
MESSAGE = {"routing_key": "mails", "payload": "x"}
SHOP = {"routing_key": "a", "payload": "x"}
CASES: dict[str, tuple[str, str, Any, int, list[tuple[Operation, ResourceType, str]]]] = {
    "declare": ("PUT", "/queues/%2F/new", {}, 201, [(_O.CREATE, _T.QUEUE, "new")]),
    "show": ("GET", "/queues/%2F/mails", None, 200, [(_O.DESCRIBE, _T.QUEUE, "mails")]),
    "get": ("POST", "/queues/%2F/mails/get", GET, 200, [(_O.READ, _T.QUEUE, "mails")]),
    "purge": (
        "DELETE",
        "/queues/%2F/secrets/contents",
        None,
        204,
        [(_O.READ, _T.QUEUE, "secrets")],
    ),
    "delete": ("DELETE", "/queues/%2F/new", None, 204, [(_O.DELETE, _T.QUEUE, "new")]),
    "publish by name": (
        "POST",
        "/exchanges/%2F/amq.default/publish",
        MESSAGE,
        200,
        [(_O.WRITE, _T.QUEUE, "mails")],
    ),
    "publish": (
        "POST",
        "/exchanges/%2F/shop/publish",
        SHOP,
        200,
        [(_O.WRITE, _T.EXCHANGE, "shop")],
    ),
    "bind": (
        "POST",
        "/bindings/%2F/e/shop/q/mails",
        {"routing_key": "a"},
        201,
        [(_O.READ, _T.EXCHANGE, "shop"), (_O.WRITE, _T.QUEUE, "mails")],
    ),
    "unbind": (
        "DELETE",
        "/bindings/%2F/e/shop/q/mails/a",
        None,
        204,
        [(_O.READ, _T.EXCHANGE, "shop"), (_O.WRITE, _T.QUEUE, "mails")],
    ),
    "declare exchange": (
        "PUT",
        "/exchanges/%2F/other",
        {},
        201,
        [(_O.CREATE, _T.EXCHANGE, "other")],
    ),
    "delete exchange": (
        "DELETE",
        "/exchanges/%2F/other",
        None,
        204,
        [(_O.DELETE, _T.EXCHANGE, "other")],
    ),
    "create vhost": ("PUT", "/vhosts/c", None, 201, [(_O.CREATE, _T.VHOST, "c")]),
    "delete vhost": ("DELETE", "/vhosts/c", None, 204, [(_O.DELETE, _T.VHOST, "c")]),
    "nodes": ("GET", "/nodes", None, 200, [(_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)]),
    "connections": ("GET", "/connections", None, 200, [(_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)]),
    "channels": ("GET", "/channels", None, 200, [(_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)]),
    "consumers": ("GET", "/consumers", None, 200, [(_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)]),
    "users": ("GET", "/users", None, 200, [(_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)]),
    "put user": ("PUT", "/users/new", {}, 201, [(_O.ALTER, _T.CLUSTER, CLUSTER_NAME)]),
    "delete user": ("DELETE", "/users/new", None, 204, [(_O.ALTER, _T.CLUSTER, CLUSTER_NAME)]),
}

#: What has to be done before, so that there is something to take away.
BEFORE = {
    "delete": "declare",
    "unbind": "bind",
    "delete exchange": "declare exchange",
    "delete vhost": "create vhost",
    "delete user": "put user",
}


@pytest.mark.parametrize("case", CASES)
def test_an_operation_is_refused_without_its_rules(cluster: AdminCluster, case: str) -> None:
    if case in BEFORE:
        method, path, body, status, _ = CASES[BEFORE[case]]
        assert ask(cluster, method, path, body, user="root").status == status
    method, path, body, status, needed = CASES[case]
    assert ask(cluster, method, path, body).status in (401, 404)
    for operation, kind, name in needed:
        allow(cluster.live, READER, operation, kind, f"{name}-not")
        if operation is not _O.DESCRIBE:
            # That it is there may be known, and nothing more.
            allow(cluster.live, READER, _O.DESCRIBE, kind, name)
        assert ask(cluster, method, path, body).status in (401, 404)
        allow(cluster.live, READER, operation, kind, name)
    told = ask(cluster, method, path, body)
    assert told.status == status, told


def test_lists_show_what_may_be_seen(cluster: AdminCluster) -> None:
    assert names(ask(cluster, "GET", "/queues")) == []
    assert names(ask(cluster, "GET", "/vhosts")) == []
    assert names(ask(cluster, "GET", "/exchanges")) == ["", ""]
    assert ask(cluster, "GET", "/bindings").json == []
    allow(cluster.live, READER, _O.READ, _T.QUEUE, "mails")
    allow(cluster.live, READER, _O.WRITE, _T.EXCHANGE, "shop")
    allow(cluster.live, READER, _O.DESCRIBE, _T.VHOST, "b")
    assert names(ask(cluster, "GET", "/queues")) == ["mails"]
    assert names(ask(cluster, "GET", "/queues/%2F")) == ["mails"]
    assert names(ask(cluster, "GET", "/exchanges/%2F")) == ["", "shop"]
    assert names(ask(cluster, "GET", "/vhosts")) == ["b"]
    (binding,) = ask(cluster, "GET", "/bindings").json
    assert binding["destination"] == "mails"
    totals = ask(cluster, "GET", "/overview").json["object_totals"]
    assert (totals["queues"], totals["exchanges"]) == (1, 3)


def test_tags_are_roles_with_rules(cluster: AdminCluster) -> None:
    def tags(user: str, password: str) -> list[str]:
        told = ask(cluster, "GET", "/whoami", user=user, password=password)
        assert told.status == 200, told
        assert told.json["name"] == user
        return list(told.json["tags"])

    assert tags(READER, PASSWORD) == ["management"]
    for user, tag in (("boss", "administrator"), ("watcher", "monitoring")):
        body = {"password": "a new password", "tags": [tag]}
        assert ask(cluster, "PUT", f"/users/{user}", body, user="root").status == 201
        assert tags(user, "a new password") == [tag]
    assert ask(cluster, "GET", "/users/watcher", user="watcher", password="a new password").json
    boss = {"user": "boss", "password": "a new password"}
    assert names(ask(cluster, "GET", "/vhosts", **boss)) == ["/", "b"]
    # Whoever may change the cluster does not read queues by that.
    assert names(ask(cluster, "GET", "/queues", **boss)) == []
    assert ask(cluster, "DELETE", "/users/watcher", **boss).status == 204
    told = ask(cluster, "GET", "/whoami", user="watcher", password="a new password")
    assert told.status == 401


def test_who_is_made_again_has_no_rights_of_before(cluster: AdminCluster) -> None:
    body = {"password": "a new password"}
    again = {"user": "again", "password": "a new password"}
    assert ask(cluster, "PUT", "/users/again", body, user="root").status == 201
    allow(cluster.live, "again", _O.READ, _T.QUEUE, "*")
    assert "mails" in names(ask(cluster, "GET", "/queues", **again))
    assert ask(cluster, "DELETE", "/users/again", user="root").status == 204
    assert ask(cluster, "PUT", "/users/again", body, user="root").status == 201
    assert names(ask(cluster, "GET", "/queues", **again)) == []


def test_a_queue_that_was_made_has_its_numbers_at_once(cluster: AdminCluster) -> None:
    """Its leader begins a moment after the commit."""
    for number in range(10):
        path = f"/queues/%2F/new-{number}"
        assert ask(cluster, "PUT", path, {}, user="root").status == 201
        assert ask(cluster, "GET", path, user="root").json["messages"] == 0


def test_who_may_not_bind_with_a_key_may_not_end_its_binding(cluster: AdminCluster) -> None:
    allow(cluster.live, READER, _O.READ, _T.EXCHANGE, "amq.topic")
    allow(cluster.live, READER, _O.WRITE, _T.QUEUE, "mails")
    limit = {"exchange": "amq.topic", "write": "", "read": "^mine\\."}
    path = f"/topic-permissions/%2F/{READER}"
    assert ask(cluster, "PUT", path, limit, user="root").status == 201
    bindings = "/bindings/%2F/e/amq.topic/q/mails"
    for key in ("mine.a", "others.a"):
        told = ask(cluster, "POST", bindings, {"routing_key": key}, user="root")
        assert told.status == 201
    assert ask(cluster, "DELETE", f"{bindings}/mine.a").status == 204
    assert ask(cluster, "DELETE", f"{bindings}/others.a").status == 401
    assert ask(cluster, "GET", f"{bindings}/others.a", user="root").status == 200


def test_a_user_that_is_made_logs_in_by_each_mechanism(cluster: AdminCluster) -> None:
    body = {"password": PASSWORD, "tags": ""}
    for _ in range(2):
        assert ask(cluster, "PUT", "/users/carol", body, user="root").status in (201, 204)
        found = cluster.live.broker.doors.access.state.credentials_of("carol")
        kinds = {each.mechanism for each in found if isinstance(each, ScramVerifier)}
        assert kinds == {"SCRAM-SHA-256", "SCRAM-SHA-512"}
