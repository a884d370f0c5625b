"""What each operation of the admin API needs, asked at the wire."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkaesque.access.key_keeper import FileKeyKeeper
from kafkaesque.access.operations import CLUSTER_NAME, Operation, ResourceType
from kafkaesque.access.secret import Secret
from kafkaesque.admin import gateway
from kafkaesque.admin.api.authorization import ROWS, find_rows
from kafkaesque.broker.doors.parts import Parts
from kafkaesque.broker.requests.commands import GroupOffset
from kafkaesque.chassis.rights import Rights
from kafkaesque.model.errors import InvariantBroken
from tests.unit.admin.told import Told
from tests.unit.admin.visits import AdminCluster
from tests.unit.gateway_kafka.secured import add_user, allow, forget_rules

_O, _T = Operation, ResourceType
READER = "reader"
VALUE = {"value": "hello"}
RULE = {"principal": "User:a", "operations": ["read"], "resource_type": "topic", "name": "t"}
TRANSFORMATION = {"rule": '{"steps": [{"do": "drop", "at": "headers.a"}]}'}
BINDING = {"to": "queue", "destination": "mails"}
SEARCH = {"topic": "orders-eu", "filter": {}}

#: Operation of the API: method, path, body; and what is enough for it.
CALLS: dict[str, tuple[str, str, Any, tuple[Operation, ResourceType, str]]] = {
    "showCluster": ("GET", "/cluster", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "listBrokers": ("GET", "/brokers", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "showBroker": ("GET", "/brokers/1", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "showControllers": ("GET", "/controllers", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "showFindings": ("GET", "/doctor", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "listConnections": ("GET", "/connections", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "closeConnection": (
        "DELETE",
        "/connections/1/0?dry_run=true",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "listClientSessions": ("GET", "/sessions", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "showClientSession": ("GET", "/sessions/1:0", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "listStreamConsumers": (
        "GET",
        "/streams/orders-eu/consumers",
        None,
        (_O.DESCRIBE, _T.TOPIC, "orders-eu"),
    ),
    "endClientSession": (
        "DELETE",
        "/sessions/1:0?dry_run=true",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "listListeners": ("GET", "/listeners", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "showSeries": ("GET", "/series", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "listen": ("GET", "/live", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "createTopic": ("POST", "/topics?dry_run=true", {"name": "new"}, (_O.CREATE, _T.TOPIC, "new")),
    "showTopic": ("GET", "/topics/orders-eu", None, (_O.DESCRIBE, _T.TOPIC, "orders-eu")),
    "deleteTopic": (
        "DELETE",
        "/topics/orders-eu?dry_run=true",
        None,
        (_O.DELETE, _T.TOPIC, "orders-eu"),
    ),
    "showOptions": (
        "GET",
        "/topics/orders-eu/options",
        None,
        (_O.DESCRIBE_CONFIGS, _T.TOPIC, "orders-eu"),
    ),
    "changeOptions": (
        "PATCH",
        "/topics/orders-eu/options?dry_run=true",
        {"options": {"retention.ms": "1000000"}},
        (_O.ALTER_CONFIGS, _T.TOPIC, "orders-eu"),
    ),
    "listTopicGroups": (
        "GET",
        "/topics/orders-eu/groups",
        None,
        (_O.DESCRIBE, _T.TOPIC, "orders-eu"),
    ),
    "listMessages": ("GET", "/topics/orders-eu/messages", None, (_O.READ, _T.TOPIC, "orders-eu")),
    "publish": (
        "POST",
        "/topics/orders-eu/messages?dry_run=true",
        VALUE,
        (_O.WRITE, _T.TOPIC, "orders-eu"),
    ),
    "search": ("POST", "/search", SEARCH, (_O.READ, _T.TOPIC, "orders-eu")),
    "createQueue": ("POST", "/queues?dry_run=true", {"name": "new"}, (_O.CREATE, _T.QUEUE, "new")),
    "showQueue": ("GET", "/queues/mails", None, (_O.DESCRIBE, _T.QUEUE, "mails")),
    "deleteQueue": ("DELETE", "/queues/mails?dry_run=true", None, (_O.DELETE, _T.QUEUE, "mails")),
    "showQueueOptions": ("GET", "/queues/mails/options", None, (_O.DESCRIBE, _T.QUEUE, "mails")),
    "changeQueueOptions": (
        "PATCH",
        "/queues/mails/options?dry_run=true",
        {"options": {"max.priority": "3"}},
        (_O.ALTER, _T.QUEUE, "mails"),
    ),
    "browseQueue": ("GET", "/queues/mails/messages", None, (_O.READ, _T.QUEUE, "mails")),
    "purgeQueue": ("POST", "/queues/mails/purge", None, (_O.READ, _T.QUEUE, "mails")),
    "redriveQueue": ("POST", "/queues/mails/redrive", {}, (_O.READ, _T.QUEUE, "mails")),
    "declareExchange": (
        "POST",
        "/exchanges?dry_run=true",
        {"name": "new"},
        (_O.CREATE, _T.EXCHANGE, "new"),
    ),
    "showExchange": ("GET", "/exchanges/logs", None, (_O.DESCRIBE, _T.EXCHANGE, "logs")),
    "deleteExchange": (
        "DELETE",
        "/exchanges/logs?dry_run=true",
        None,
        (_O.DELETE, _T.EXCHANGE, "logs"),
    ),
    "showTransformation": ("GET", "/transformations/v2", None, (_O.DESCRIBE, _T.VHOST, "/")),
    "tryTransformation": ("POST", "/transformations/v2/try", {}, (_O.DESCRIBE, _T.VHOST, "/")),
    "putTransformation": (
        "PUT",
        "/transformations/v2?dry_run=true",
        TRANSFORMATION,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "deleteTransformation": (
        "DELETE",
        "/transformations/v2?dry_run=true",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "routeMessage": ("POST", "/exchanges/logs/route", {}, (_O.DESCRIBE, _T.EXCHANGE, "logs")),
    "bind": ("POST", "/exchanges/logs/bind?dry_run=true", BINDING, (_O.READ, _T.EXCHANGE, "logs")),
    "unbind": (
        "POST",
        "/exchanges/logs/unbind?dry_run=true",
        BINDING,
        (_O.READ, _T.EXCHANGE, "logs"),
    ),
    "showGroup": ("GET", "/groups/team", None, (_O.DESCRIBE, _T.GROUP, "team")),
    "resetOffsets": (
        "POST",
        "/groups/team/offsets?dry_run=true",
        {"topic": "orders-eu", "to": "earliest"},
        (_O.READ, _T.GROUP, "team"),
    ),
    "deleteGroup": ("DELETE", "/groups/team?dry_run=true", None, (_O.DELETE, _T.GROUP, "team")),
    "abortTransaction": (
        "POST",
        "/transactions/shop/abort?dry_run=true",
        None,
        (_O.WRITE, _T.TRANSACTIONAL_ID, "shop"),
    ),
    "abortHanging": (
        "POST",
        "/topics/orders-eu/partitions/0/abort?dry_run=true",
        {"start_offset": 0},
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "reassign": (
        "POST",
        "/topics/orders-eu/reassign?dry_run=true",
        {"replicas": [1]},
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "whyRecord": (
        "GET",
        "/why/topics/orders-eu/partitions/0?offset=0",
        None,
        (_O.DESCRIBE, _T.TOPIC, "orders-eu"),
    ),
    "whyGroup": ("GET", "/why/groups/team", None, (_O.DESCRIBE, _T.GROUP, "team")),
    "whyMessage": ("GET", "/why/queues/work?message=0", None, (_O.DESCRIBE, _T.QUEUE, "work")),
    "whyRouted": ("GET", "/why/exchanges/logs?key=a", None, (_O.DESCRIBE, _T.EXCHANGE, "logs")),
    "listKeys": ("GET", "/keys", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "rewrapKeys": ("POST", "/keys/rewrap", None, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "rotateKey": ("POST", "/topics/orders-eu/keys", None, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "shredKey": ("DELETE", "/topics/orders-eu/keys/1", None, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "showSubject": (
        "GET",
        "/schemas/orders-value",
        None,
        (_O.DESCRIBE, _T.SUBJECT, "orders-value"),
    ),
    "listUsers": ("GET", "/users", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "listRoles": ("GET", "/roles", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "listRules": ("GET", "/rules", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "listCertificates": ("GET", "/certificates", None, (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)),
    "explain": (
        "GET",
        "/explain?operation=read&resource_type=topic&name=t",
        None,
        (_O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME),
    ),
    "putUser": (
        "POST",
        "/users?dry_run=true",
        {"name": "new", "password": "long enough"},
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "changeUser": ("PATCH", "/users/nobody?dry_run=true", {}, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "deleteUser": (
        "DELETE",
        "/users/nobody?dry_run=true",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "makeAccessKey": ("POST", "/users/*/access-keys", None, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "deleteAccessKey": (
        "DELETE",
        "/access-keys/none?dry_run=true",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "putRole": (
        "POST",
        "/roles?dry_run=true",
        {"name": "new"},
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "deleteRole": (
        "DELETE",
        "/roles/none?dry_run=true",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "addRules": ("POST", "/rules?dry_run=true", RULE, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "deleteRule": ("DELETE", "/rules/0?dry_run=true", None, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "rotateQueueKey": ("POST", "/queues/mails/keys", None, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "shredQueueKey": ("DELETE", "/queues/mails/keys/1", None, (_O.ALTER, _T.CLUSTER, CLUSTER_NAME)),
    "addSecondFactor": (
        "POST",
        "/users/nobody/second-factor",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "endSessions": (
        "DELETE",
        "/users/nobody/sessions",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
    "removeSecondFactor": (
        "DELETE",
        "/users/nobody/second-factor",
        None,
        (_O.ALTER, _T.CLUSTER, CLUSTER_NAME),
    ),
}
#: What is answered where it is allowed: there is no such person, role or queue, and no key keeper.
ANSWERS = {
    "showSubject": 404,
    "closeConnection": 404,
    "changeUser": 404,
    "deleteUser": 404,
    "makeAccessKey": 400,
    "deleteAccessKey": 404,
    "deleteRole": 404,
    "deleteRule": 404,
    "whyMessage": 404,
    "addSecondFactor": 404,
    "removeSecondFactor": 404,
    "endSessions": 404,
    "rewrapKeys": 400,
    "rotateKey": 400,
    "shredKey": 400,
    "rotateQueueKey": 400,
    "shredQueueKey": 400,
    "showClientSession": 404,
    "endClientSession": 404,
    "abortTransaction": 503,
    "abortHanging": 404,
}
#: Keys are the cluster's, and named by their topic or queue; so is where replicas are.
NAMED_KEYS = {
    "abortHanging": (_T.TOPIC, "orders-eu"),
    "reassign": (_T.TOPIC, "orders-eu"),
    "rotateKey": (_T.TOPIC, "orders-eu"),
    "shredKey": (_T.TOPIC, "orders-eu"),
    "rotateQueueKey": (_T.QUEUE, "mails"),
    "shredQueueKey": (_T.QUEUE, "mails"),
}
#: Topics and queues that are answered as ones that do not exist.
HIDDEN = {"orders-eu", "mails", "logs"}


def hidden_in(path: str) -> set[str]:
    return HIDDEN & set(path.partition("?")[0].split("/"))


#: They show what the client may see, or are how it logs in.
WITHOUT_NEEDS = {
    "listTopics",
    "listQueues",
    "listVhosts",
    "listSubjects",
    "listExchanges",
    "listTransformations",
    "listGroups",
    "listTransactions",
    "listOpenTransactions",
    "listRetained",
    "listStreams",
    "listTraces",
    "showTrace",
    "listPipelines",
    "showPipeline",
    "whyProducer",
    "logIn",
    "showSession",
    "logOut",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    made = AdminCluster(tmp_path_factory.mktemp("rights"))
    for name in (READER, "root"):
        add_user(made.live, name)
    for name in ("orders-eu", "salaries"):
        body = {"name": name, "partitions": 1, "replication_factor": 1}
        told = made.ask("POST", "/api/v1/topics", body=body, token=made.token("root"))
        assert told.status == 201, told
    for name in ("mails", "secrets"):
        told = made.ask("POST", "/api/v1/queues", body={"name": name}, token=made.token("root"))
        assert told.status == 201, told
    body = {"name": "logs", "type": "topic"}
    told = made.ask("POST", "/api/v1/exchanges", body=body, token=made.token("root"))
    assert told.status == 201, told
    path = "/api/v1/transformations/v2"
    told = made.ask("PUT", path, body=TRANSFORMATION, token=made.token("root"))
    assert told.status == 200, told
    _commit(made, "team", "orders-eu", "salaries")
    _commit(made, "others", "salaries")
    yield made
    made.close()


def _commit(cluster: AdminCluster, group: str, *topics: str) -> None:
    """Has a group commit an offset in topics."""
    done: list[object] = []
    live = cluster.live
    offsets = [GroupOffset(topic=each, partition=0, offset=0) for each in topics]
    live.nodes[1].broker.doors.groups.commit(group, offsets, 60_000, done.append)
    live.wait(lambda: bool(done), "offsets are committed")
    assert not isinstance(done[0], Exception), done


@pytest.fixture
def token(cluster: AdminCluster) -> Iterator[str]:
    yield cluster.token(READER)
    forget_rules(cluster.live, READER)


def ask(cluster: AdminCluster, token: str, name: str) -> Told:
    method, path, body, _ = CALLS[name]
    visit = cluster.visit()
    if name in ("listen", "search"):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        visit.send(method, "/api/v1" + path, {**headers, "x-kafkaesque-request": "1"}, body)
        status = int(visit.head().split()[1])
        visit.close()
        return Told(status=status, headers={}, body=b"")
    visit.close()
    return cluster.ask(method, "/api/v1" + path, body=body, token=token)


def test_all_operations_are_asked_for_here(cluster: AdminCluster) -> None:
    names = {each.name for each in cluster.gateways[1].api.routes}
    assert names == set(CALLS) | WITHOUT_NEEDS == set(ROWS)


@pytest.mark.parametrize("name", CALLS)
def test_an_operation_is_refused_without_its_rule(
    cluster: AdminCluster, token: str, name: str
) -> None:
    operation, kind, resource = CALLS[name][3]
    is_hidden = resource in ("orders-eu", "team", "mails", "logs", "orders-value")
    assert ask(cluster, token, name).status == (404 if is_hidden or name in NAMED_KEYS else 403)
    # Nor by what is allowed with another resource, or another operation.
    if name in NAMED_KEYS:
        # Otherwise it is answered that there is no such topic or queue.
        allow(cluster.live, READER, _O.DESCRIBE, *NAMED_KEYS[name])
    allow(cluster.live, READER, operation, kind, f"{resource}-not")
    if operation is not _O.DESCRIBE:
        allow(cluster.live, READER, _O.DESCRIBE, kind, resource)
    assert ask(cluster, token, name).status == (
        404 if is_hidden and operation is _O.DESCRIBE else 403
    )
    allow(cluster.live, READER, operation, kind, resource)
    if name == "resetOffsets":
        # Its topic is looked for only behind the group.
        assert ask(cluster, token, name).status == 404
        allow(cluster.live, READER, _O.DESCRIBE, _T.TOPIC, "orders-eu")
        assert ask(cluster, token, name).status == 403
        allow(cluster.live, READER, _O.READ, _T.TOPIC, "orders-eu")
    if name in ("bind", "unbind"):
        assert ask(cluster, token, name).status == 403
        allow(cluster.live, READER, _O.WRITE, _T.QUEUE, "mails")
    told = ask(cluster, token, name)
    assert told.status == ANSWERS.get(name, 200), told
    assert b"no rule allows" not in told.body


@pytest.mark.parametrize("name", [each for each in CALLS if hidden_in(CALLS[each][1])])
def test_what_is_hidden_is_answered_as_one_that_is_not_there(
    cluster: AdminCluster, token: str, name: str
) -> None:
    method, path, body, _ = CALLS[name]
    (shown,) = hidden_in(path)
    there_is_not = path.replace(shown, f"{shown}-no")
    hidden = cluster.ask(method, "/api/v1" + path, body=body, token=token)
    missing = cluster.ask(method, "/api/v1" + there_is_not, body=body, token=token)
    assert hidden.status == missing.status == 404
    assert hidden.body.replace(shown.encode(), f"{shown}-no".encode()) == missing.body


def test_lists_show_what_may_be_seen(cluster: AdminCluster, token: str) -> None:
    def names(path: str, field: str) -> list[str]:
        told = cluster.ask("GET", f"/api/v1{path}", token=token)
        assert told.status == 200
        assert told.json["total"] == len(told.json["items"])
        return [each[field] for each in told.json["items"]]

    assert names("/topics?internal=true", "name") == []
    assert names("/groups", "group") == []
    assert names("/queues", "name") == []
    allow(cluster.live, READER, _O.DESCRIBE, _T.QUEUE, "mails")
    assert names("/queues", "name") == names("/queues?sort=-ready", "name") == ["mails"]
    assert names("/exchanges", "name") == names("/vhosts", "name") == []
    allow(cluster.live, READER, _O.DESCRIBE, _T.EXCHANGE, "logs")
    allow(cluster.live, READER, _O.DESCRIBE, _T.VHOST, "/")
    assert (names("/exchanges", "name"), names("/vhosts", "name")) == (["logs"], ["/"])
    allow(cluster.live, READER, _O.READ, _T.TOPIC, "orders-*")
    allow(cluster.live, READER, _O.READ, _T.GROUP, "team")
    assert names("/topics?internal=true", "name") == ["orders-eu"]
    assert names("/groups", "group") == ["team"]
    assert names("/topics/orders-eu/groups", "group") == ["team"]
    group = cluster.ask("GET", "/api/v1/groups/team", token=token).json
    assert {each["topic"] for each in group["offsets"]} == {"orders-eu"}
    root = cluster.ask("GET", "/api/v1/groups/team", token=cluster.token("root")).json
    assert {each["topic"] for each in root["offsets"]} == {"orders-eu", "salaries"}


def test_a_rule_for_all_names_does_not_reach_the_brokers_own_topics(
    cluster: AdminCluster, token: str
) -> None:
    for operation in (_O.READ, _O.WRITE, _O.ALTER_CONFIGS):
        allow(cluster.live, READER, operation, _T.TOPIC, "*")
    path = "/api/v1/topics/__consumer_offsets"
    assert cluster.ask("GET", path, token=token).status == 404
    assert cluster.ask("GET", f"{path}/messages", token=token).status == 404
    allow(cluster.live, READER, _O.WRITE, _T.TOPIC, "__consumer_offsets")
    told = cluster.ask("POST", f"{path}/messages", body=VALUE, token=token)
    assert told.status == 400
    assert b"written by brokers only" in told.body


def test_the_controller_judges_changes_of_keys_again(
    cluster: AdminCluster, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = cluster.live.nodes[1].broker.doors.keys
    first, second = (Secret(bytes([number]) * 32) for number in (1, 2))
    monkeypatch.setattr(keys, "keeper", FileKeyKeeper((first,), os.urandom))
    root = cluster.token("root")
    assert cluster.ask("POST", "/api/v1/topics/orders-eu/keys", token=root).status == 200
    monkeypatch.setattr(keys, "keeper", FileKeyKeeper((second, first), os.urandom))
    # As on a broker that has not heard that something was taken away.
    with monkeypatch.context() as stale:
        stale.setattr(Rights, "may", lambda *_: True)
        for name in ("rotateKey", "shredKey", "rewrapKeys"):
            told = ask(cluster, token, name)
            assert told.status == 403, (name, told)
            assert b"Cluster authorization failed" in told.body
    assert cluster.ask("POST", "/api/v1/keys/rewrap", token=root).status == 200


def test_a_dry_run_tells_nothing_of_queues_that_may_not_be_seen(
    cluster: AdminCluster, token: str
) -> None:
    allow(cluster.live, READER, _O.CREATE, _T.QUEUE, "new")
    allow(cluster.live, READER, _O.ALTER, _T.QUEUE, "mails")
    allow(cluster.live, READER, _O.READ, _T.QUEUE, "mails")

    def ask(method: str, path: str, body: object) -> Told:
        return cluster.ask(method, f"/api/v1{path}?dry_run=true", body=body, token=token)

    for name in ("secrets", "secrets-no"):
        options = {"options": {"dead.letter.queue": name}}
        for told in (
            ask("POST", "/queues", {"name": "new", **options}),
            ask("PATCH", "/queues/mails/options", options),
            ask("POST", "/queues/mails/redrive", {"to": name}),
        ):
            assert told.status == 403, told
    through = {"options": {"dead.letter.exchange": "amq.topic"}}
    assert ask("PATCH", "/queues/mails/options", through).status == 403
    allow(cluster.live, READER, _O.WRITE, _T.QUEUE, "secrets")
    assert ask("POST", "/queues/mails/redrive", {"to": "secrets"}).status == 200


def test_a_rule_is_tried_with_messages_of_queues_that_may_be_read(
    cluster: AdminCluster, token: str
) -> None:
    def told(queue: str) -> tuple[int, str]:
        path, body = "/api/v1/transformations/v2/try", {"queue": queue}
        answer = cluster.ask("POST", path, body=body, token=token)
        return answer.status, answer.json["error"]

    allow(cluster.live, READER, _O.DESCRIBE, _T.VHOST, "/")
    assert told("mails") == told("nowhere") == (404, "UnknownQueue")
    allow(cluster.live, READER, _O.DESCRIBE, _T.QUEUE, "mails")
    assert told("mails") == (403, "Forbidden")
    allow(cluster.live, READER, _O.READ, _T.QUEUE, "mails")
    # It is empty.
    assert told("mails") == (404, "UnknownMessage")


def test_creating_is_allowed_on_the_cluster_as_well(cluster: AdminCluster, token: str) -> None:
    assert ask(cluster, token, "createTopic").status == 403
    allow(cluster.live, READER, _O.CREATE, _T.CLUSTER, CLUSTER_NAME)
    assert ask(cluster, token, "createTopic").status == 200


@pytest.mark.parametrize("path", gateway.NEEDS)
def test_a_page_needs_a_rule(cluster: AdminCluster, token: str, path: str) -> None:
    is_health = path.startswith("/health/")
    assert cluster.ask("GET", path, token=token).status == (200 if is_health else 403)
    allow(cluster.live, READER, _O.DESCRIBE, _T.CLUSTER, CLUSTER_NAME)
    assert cluster.ask("GET", path, token=token).status == 200


def test_an_operation_without_a_row_does_not_start(cluster: AdminCluster) -> None:
    (route,) = (e for e in cluster.gateways[1].api.routes if e.name == "showTopic")
    assert find_rows([route])
    with pytest.raises(InvariantBroken, match="has no row that says what it needs"):
        find_rows([replace(route, name="showSomethingNew")])


def test_a_page_without_a_row_does_not_start(
    cluster: AdminCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = cluster.live.nodes[1]
    monkeypatch.delitem(cast("dict[str, Operation]", gateway.NEEDS), "/members")
    parts = cast("Parts", SimpleNamespace(answer_with=lambda _: None))
    doors = replace(node.broker.doors, parts=parts)
    with pytest.raises(InvariantBroken, match="/members"):
        gateway.AdminGateway(doors, node.chassis)
