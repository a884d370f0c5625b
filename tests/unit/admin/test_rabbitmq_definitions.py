"""Permissions and definitions of RabbitMQ's API, on a guarded port and at ports of clients."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from typing import Any

import pytest

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.admin.rabbitmq.definitions import PER_TURN_MAX
from tests.unit.admin.test_rabbitmq_rights import ask as ask_api
from tests.unit.admin.told import Told
from tests.unit.admin.visits import AdminCluster
from tests.unit.gateway_kafka.secured import PASSWORD, add_user, allow

_O, _T = Operation, ResourceType
SALT = b"salt"
SECRET = "a password of before"


def hashed(password: str, algorithm: str = "sha256") -> str:
    """A password as RabbitMQ keeps it."""
    digest = hashlib.new(algorithm, SALT + password.encode()).digest()
    return base64.b64encode(SALT + digest).decode()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdminCluster]:
    made = AdminCluster(tmp_path_factory.mktemp("definitions"))
    add_user(made.live, "root")
    for path in ("/vhosts/b", "/queues/%2F/orders", "/queues/%2F/bills", "/queues/b/orders"):
        assert ask(made, "PUT", path, {}).status == 201
    yield made
    made.close()


def ask(
    cluster: AdminCluster,
    method: str,
    path: str,
    body: Any = None,
    *,
    user: str = "root",
    password: str = PASSWORD,
) -> Told:
    return ask_api(cluster, method, path, body, user=user, password=password)


def ask_page(cluster: AdminCluster, path: str) -> Any:
    told = cluster.ask("GET", path, token=cluster.token("root"))
    assert told.status == 200, told
    return told.json


def add(cluster: AdminCluster, name: str) -> None:
    told = ask(cluster, "PUT", f"/users/{name}", {"password": PASSWORD, "tags": ""})
    assert told.status in (201, 204), told


def queues(cluster: AdminCluster, user: str) -> list[tuple[str, str]]:
    told = ask(cluster, "GET", "/queues", user=user)
    assert told.status == 200, told
    return [(each["vhost"], each["name"]) for each in told.json]


def grant(cluster: AdminCluster, vhost: str, user: str, **patterns: str) -> int:
    body = {"configure": "^$", "write": "^$", "read": "^$", **patterns}
    return ask(cluster, "PUT", f"/permissions/{vhost}/{user}", body).status


def test_permissions_are_given_shown_changed_and_taken(cluster: AdminCluster) -> None:
    add(cluster, "anna")
    assert ask(cluster, "GET", "/users/anna/permissions").json == []
    assert ask(cluster, "GET", "/permissions/%2F/anna").status == 404
    assert grant(cluster, "%2F", "anna", read=".*", write="^(bills|orders-.*)$") == 201
    shown = ask(cluster, "GET", "/permissions/%2F/anna", user="anna").json
    assert shown == {
        "user": "anna",
        "vhost": "/",
        "configure": "^$",
        "write": "^(bills|orders-.*)$",
        "read": ".*",
    }
    # Of this virtual host, and of no other one.
    assert queues(cluster, "anna") == [("/", "bills"), ("/", "orders")]
    vhosts = ask(cluster, "GET", "/vhosts", user="anna").json
    assert [each["name"] for each in vhosts] == ["/"]
    assert grant(cluster, "b", "anna", read="^orders$") == 201
    assert ("b", "orders") in queues(cluster, "anna")
    assert len(ask(cluster, "GET", "/users/anna/permissions").json) == 2
    everybody = ask(cluster, "GET", "/vhosts/b/permissions").json
    # Other tests give to other users.
    assert "anna" in [each["user"] for each in everybody]
    # What is put replaces what was there, in this virtual host.
    assert grant(cluster, "%2F", "anna", read="^bills$") == 204
    assert queues(cluster, "anna") == [("/", "bills"), ("b", "orders")]
    assert ask(cluster, "DELETE", "/permissions/%2F/anna").status == 204
    assert queues(cluster, "anna") == [("b", "orders")]
    assert ask(cluster, "DELETE", "/permissions/%2F/anna").status == 404


def test_what_rules_cannot_say_is_refused_and_changes_nothing(cluster: AdminCluster) -> None:
    add(cluster, "bob")
    assert grant(cluster, "%2F", "bob", read="^orders$", write="^o.ders$") == 400
    # RabbitMQ has 404 for what is asked for and taken alone.
    assert grant(cluster, "nowhere", "bob", read=".*") == 400
    assert grant(cluster, "%2F", "nobody", read=".*") == 400
    assert queues(cluster, "bob") == []
    body = {"configure": ".*", "write": ".*", "read": ".*"}
    assert ask(cluster, "PUT", "/permissions/%2F/bob", body, user="bob").status == 401
    assert ask(cluster, "GET", "/permissions", user="bob").status == 401
    assert ask(cluster, "GET", "/users/anna/permissions", user="bob").status == 401


def test_topic_permissions_are_given_shown_changed_and_taken(cluster: AdminCluster) -> None:
    for name in ("tina", "theo"):
        add(cluster, name)
    path = "/topic-permissions/%2F/tina"

    def shown() -> list[dict[str, str]]:
        # Other tests give to other users.
        every = ask(cluster, "GET", "/topic-permissions").json
        return [each for each in every if each["user"] in ("tina", "theo")]

    assert ask(cluster, "GET", path).status == 404
    body = {"exchange": "amq.topic", "write": "^{username}-.*", "read": ".*"}
    assert ask(cluster, "PUT", path, body).status == 201
    assert ask(cluster, "PUT", path, {**body, "write": "^a"}).status == 204
    assert ask(cluster, "PUT", path, {**body, "exchange": "logs"}).status == 201
    assert ask(cluster, "PUT", "/topic-permissions/b/theo", body).status == 201
    first = {"user": "tina", "vhost": "/", "exchange": "amq.topic", "write": "^a", "read": ".*"}
    second = {**body, "user": "tina", "vhost": "/", "exchange": "logs"}
    third = {**body, "user": "theo", "vhost": "b"}
    # Whoever it is may see their own.
    for where in (path, "/users/tina/topic-permissions"):
        assert ask(cluster, "GET", where, user="tina").json == [first, second]
        assert ask(cluster, "GET", where, user="theo").status == 401
    assert ask(cluster, "GET", "/vhosts/b/topic-permissions").json == [third]
    assert shown() == [third, first, second]
    assert ask(cluster, "DELETE", f"{path}/logs").status == 204
    assert ask(cluster, "DELETE", f"{path}/logs").status == 404
    assert ask(cluster, "GET", path).json == [first]
    assert ask(cluster, "DELETE", path).status == 204
    assert ask(cluster, "DELETE", path).status == 404
    assert ask(cluster, "DELETE", "/users/theo").status == 204
    assert shown() == []


def test_topic_permissions_are_checked_and_the_administrators(cluster: AdminCluster) -> None:
    add(cluster, "tom")
    path, body = "/topic-permissions/%2F/tom", {"exchange": "amq.topic", "write": "a", "read": "a"}
    assert ask(cluster, "PUT", path, {**body, "write": "(?=a)"}).status == 400
    for there in ("nowhere/tom", "%2F/nobody"):
        assert ask(cluster, "PUT", f"/topic-permissions/{there}", body).status == 400
        assert ask(cluster, "DELETE", f"/topic-permissions/{there}").status == 404
    assert ask(cluster, "PUT", path, body, user="tom").status == 401
    assert ask(cluster, "GET", "/topic-permissions", user="tom").status == 401
    assert ask(cluster, "GET", "/vhosts/%2F/topic-permissions", user="tom").status == 401
    assert ask(cluster, "PUT", path, body).status == 201
    assert ask(cluster, "DELETE", path, user="tom").status == 401
    assert ask(cluster, "DELETE", path).status == 204


def test_topic_permissions_of_a_virtual_host_that_is_gone_are_in_no_definitions(
    cluster: AdminCluster,
) -> None:
    """A file with them could not be imported: the virtual host is not in it."""
    add(cluster, "tara")
    body = {"exchange": "amq.topic", "write": "a", "read": "a"}
    assert ask(cluster, "PUT", "/vhosts/gone").status == 201
    assert ask(cluster, "PUT", "/topic-permissions/gone/tara", body).status == 201

    def given() -> list[str]:
        found = ask(cluster, "GET", "/definitions").json
        assert ask(cluster, "POST", "/definitions", found).status == 204
        every = (found["topic_permissions"], ask(cluster, "GET", "/topic-permissions").json)
        (named, listed) = ([each["vhost"] for each in some] for some in every)
        assert named == listed
        return named

    assert "gone" in given()
    assert ask(cluster, "DELETE", "/vhosts/gone").status == 204
    assert "gone" not in given()
    # They hold for the next one of the name, as rules do.
    assert ask(cluster, "PUT", "/vhosts/gone").status == 201
    assert "gone" in given()
    assert ask(cluster, "DELETE", "/users/tara").status == 204
    assert ask(cluster, "DELETE", "/vhosts/gone").status == 204


def test_a_topic_permission_limits_what_the_api_publishes_and_binds(cluster: AdminCluster) -> None:
    add(cluster, "tess")
    assert grant(cluster, "%2F", "tess", write=".*", read=".*") == 201
    body = {"exchange": "amq.topic", "write": "^a", "read": "^b"}
    assert ask(cluster, "PUT", "/topic-permissions/%2F/tess", body).status == 201
    for key, status in (("a.1", 200), ("b.1", 401)):
        message = {"routing_key": key, "payload": "x"}
        path = "/exchanges/%2F/amq.topic/publish"
        assert ask(cluster, "POST", path, message, user="tess").status == status
    for key, status in (("b.#", 201), ("#", 401)):
        path, binding = "/bindings/%2F/e/amq.topic/q/orders", {"routing_key": key}
        assert ask(cluster, "POST", path, binding, user="tess").status == status


def test_rules_that_were_made_in_other_ways_are_shown_too(cluster: AdminCluster) -> None:
    add(cluster, "carl")
    allow(cluster.live, "carl", _O.READ, _T.QUEUE, "*")
    allow(cluster.live, "carl", _O.WRITE, _T.QUEUE, "vhost:b/or*")
    allow(cluster.live, "carl", _O.CREATE, _T.EXCHANGE, "logs")
    shown = {each["vhost"]: each for each in ask(cluster, "GET", "/users/carl/permissions").json}
    assert shown["/"]["configure"] == "^logs$"
    assert (shown["/"]["read"], shown["/"]["write"]) == (".*", "^$")
    assert (shown["b"]["read"], shown["b"]["write"]) == (".*", "^or.*$")


TOPIC = {"user": "root", "vhost": "/", "exchange": "amq.topic", "write": "a", "read": "a"}
FILE: dict[str, Any] = {
    "rabbit_version": "3.12.1",
    "users": [
        {
            "name": "shop",
            "password_hash": hashed(SECRET),
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": ["monitoring"],
            "limits": {},
        },
        {
            "name": "old",
            "password_hash": hashed(SECRET, "sha512"),
            "hashing_algorithm": "rabbit_password_hashing_sha512",
            "tags": "administrator,builders",
        },
        {"name": "later", "password_hash": "", "tags": []},
        {"name": "plain", "password": SECRET, "tags": ["builders"]},
    ],
    "vhosts": [{"name": "/"}, {"name": "shop"}],
    "permissions": [
        {"user": "shop", "vhost": "shop", "configure": ".*", "write": ".*", "read": ".*"}
    ],
    "topic_permissions": [
        {"user": "shop", "vhost": "shop", "exchange": "tills", "write": "^bill\\.", "read": "^x"}
    ],
    "parameters": [
        {
            "component": "operator_policy",
            "vhost": "shop",
            "name": "limit",
            "value": {
                "pattern": ".",
                "apply-to": "queues",
                "definition": {"max-length": 50},
                "priority": 0,
            },
        }
    ],
    "global_parameters": [{"name": "cluster_name", "value": "rabbit@before"}],
    "policies": [
        {
            "vhost": "shop",
            "name": "ha",
            "pattern": "^bills",
            "apply-to": "queues",
            "definition": {"ha-mode": "all", "message-ttl": 90_000},
            "priority": 3,
        }
    ],
    "queues": [
        {
            "name": "bills",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "quorum", "x-max-length": 100},
        },
        {
            "name": "events",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {"x-queue-type": "stream", "x-max-age": "7D"},
        },
        {
            "name": "lost",
            "vhost": "shop",
            "durable": True,
            "auto_delete": False,
            "arguments": {},
        },
    ],
    "exchanges": [
        {
            "name": "tills",
            "vhost": "shop",
            "type": "topic",
            "durable": True,
            "auto_delete": False,
            "internal": False,
            "arguments": {"alternate-exchange": "rest"},
        }
    ],
    "bindings": [
        {
            "source": "tills",
            "vhost": "shop",
            "destination": "bills",
            "destination_type": "queue",
            "routing_key": "bill.#",
            "arguments": {},
        }
    ],
}


def test_a_file_of_rabbitmq_is_brought_in_and_comes_out_again(cluster: AdminCluster) -> None:
    for _ in range(2):
        # What is there and the same is as good.
        told = ask(cluster, "POST", "/definitions", FILE)
        assert told.status == 204, told
    shop = {"user": "shop", "password": SECRET}
    assert ask(cluster, "GET", "/whoami", **shop).json == {"name": "shop", "tags": ["monitoring"]}
    assert ask(cluster, "GET", "/whoami", user="shop", password="another").status == 401
    old = ask(cluster, "GET", "/whoami", user="old", password=SECRET).json
    assert old["tags"] == ["administrator"]
    assert ask(cluster, "GET", "/whoami", user="plain", password=SECRET).status == 200
    assert ask(cluster, "GET", "/whoami", user="later", password="any").status == 401
    bills = ask(cluster, "GET", "/queues/shop/bills", **shop).json
    assert (bills["type"], bills["policy"], bills["operator_policy"]) == ("quorum", "ha", "limit")
    events = ask(cluster, "GET", "/queues/shop/events", **shop).json
    assert events["type"] == "stream"
    topic = ask_page(cluster, "/api/v1/topics/shop.events/options")
    assert {each["name"]: each["value"] for each in topic["options"]}["retention.ms"] == "604800000"
    body = {"routing_key": "bill.7", "payload": "x"}
    told = ask(cluster, "POST", "/exchanges/shop/tills/publish", body, **shop)
    assert told.json == {"routed": True}

    found = ask(cluster, "GET", "/definitions").json
    users = {each["name"]: each for each in found["users"]}
    assert users["shop"]["password_hash"] == hashed(SECRET)
    assert users["old"]["hashing_algorithm"] == "rabbit_password_hashing_sha512"
    # A password that was given here is a verifier, which is told nobody.
    assert users["plain"]["password_hash"] == users["root"]["password_hash"] == ""
    assert "password" not in users["plain"]
    for part in ("queues", "exchanges", "policies", "parameters", "bindings"):
        here = [each for each in found[part] if each["vhost"] == "shop"]
        assert sorted(here, key=repr) == sorted(FILE[part], key=repr), part
    assert FILE["permissions"][0] in found["permissions"]
    assert FILE["topic_permissions"][0] in found["topic_permissions"]

    alone = ask(cluster, "GET", "/definitions/shop").json
    assert alone["users"] == []
    assert "vhost" not in alone["queues"][0]
    assert ask(cluster, "PUT", "/vhosts/twin").status == 201
    assert ask(cluster, "POST", "/definitions/twin", alone).status == 204
    twin = ask(cluster, "GET", "/definitions/twin").json
    assert {**twin, "as_of": 0} == {**alone, "as_of": 0}


def test_rules_come_between_the_queues_that_they_name_and_those_that_name_them(
    cluster: AdminCluster,
) -> None:
    rule = {"failures": "unconverted", "steps": [{"do": "set", "at": "by", "value": "a"}]}
    other = {**rule, "failures": "new"}
    kept = {"durable": True, "auto_delete": False}
    wanted: dict[str, Any] = {
        "parameters": [
            {"component": "transformation", "name": "v1", "value": other},
            {"component": "transformation", "name": "v2", "value": rule},
        ],
        "queues": [
            {"name": "new", "arguments": {"x-transformation-out": "v2"}, **kept},
            {"name": "newest", "arguments": {"x-transformation-out": "v1"}, **kept},
            {"name": "unconverted", "arguments": {}, **kept},
        ],
    }
    for name in ("rules", "rules-again"):
        assert ask(cluster, "PUT", f"/vhosts/{name}").status == 201
        told = ask(cluster, "POST", f"/definitions/{name}", wanted)
        assert told.status == 204, told
        found = ask(cluster, "GET", f"/definitions/{name}").json
        assert found["queues"] == wanted["queues"]
        wanted = found
    body: dict[str, Any] = {"routing_key": "new", "payload": "x", "properties": {}}
    told = ask(cluster, "POST", "/exchanges/rules/amq.default/publish", body)
    assert told.json == {"routed": True}
    body = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
    (message,) = ask(cluster, "POST", "/queues/rules/new/get", body).json
    assert message["properties"]["headers"] == {"by": "a"}


def test_a_password_takes_the_place_of_one_that_was_brought_over(cluster: AdminCluster) -> None:
    body = {"password_hash": hashed(SECRET), "tags": ""}
    assert ask(cluster, "PUT", "/users/moved", body).status == 201
    assert ask(cluster, "GET", "/whoami", user="moved", password=SECRET).status == 200
    body = {"password": "a newer password", "tags": ""}
    assert ask(cluster, "PUT", "/users/moved", body).status == 204
    assert ask(cluster, "GET", "/whoami", user="moved", password=SECRET).status == 401
    assert ask(cluster, "GET", "/whoami", user="moved", password="a newer password").status == 200
    body = {"password_hash": hashed(SECRET), "tags": ""}
    assert ask(cluster, "PUT", "/users/moved", body).status == 204
    assert ask(cluster, "GET", "/whoami", user="moved", password="a newer password").status == 401
    assert ask(cluster, "GET", "/whoami", user="moved", password=SECRET).status == 200


def test_a_password_and_a_hash_are_not_given_together_and_a_bad_hash_changes_nothing(
    cluster: AdminCluster,
) -> None:
    body: dict[str, Any] = {"password_hash": hashed(SECRET), "tags": ""}
    assert ask(cluster, "PUT", "/users/both", body).status == 201
    for bad in (
        {**body, "password": "another"},
        {"password": "another", "password_hash": "", "tags": ""},
        {"password_hash": "AAAA", "tags": ""},
        {"password_hash": "?", "tags": ""},
    ):
        told = ask(cluster, "PUT", "/users/both", bad)
        assert told.status == 400, (bad, told)
        assert ask(cluster, "GET", "/users/both").json["password_hash"] == body["password_hash"]
    told = ask(cluster, "PUT", "/users/both", {"password_hash": "AAAA", "tags": ""})
    assert "4 bytes of salt and 32 of the hash" in told.json["reason"]
    assert ask(cluster, "GET", "/whoami", user="both", password=SECRET).status == 200


def test_a_hash_is_shown_to_administrators_alone(cluster: AdminCluster) -> None:
    body = {"password_hash": hashed(SECRET), "tags": "monitoring"}
    assert ask(cluster, "PUT", "/users/shown", body).status == 201
    for user, expected in (("root", body["password_hash"]), ("shown", "")):
        password = PASSWORD if user == "root" else SECRET
        told = ask(cluster, "GET", "/users/shown", user=user, password=password).json
        listed = ask(cluster, "GET", "/users", user=user, password=password).json
        assert told["password_hash"] == expected
        assert told in listed
        assert told["hashing_algorithm"] == "rabbit_password_hashing_sha256"


GRANT = {"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""}
BINDING = {"source": "amq.headers", "vhost": "/", "destination": "orders"}


@pytest.mark.parametrize(
    ("part", "item"),
    [
        ("users", {"name": "u", "password_hash": "AAAA", "tags": ""}),
        ("users", {"name": "u", "password_hash": "?", "tags": ""}),
        (
            "users",
            {
                "name": "u",
                "password_hash": hashed("x", "md5"),
                "hashing_algorithm": "rabbit_password_hashing_md5",
                "tags": "",
            },
        ),
        ("users", {"name": "*", "password": "x", "tags": ""}),
        ("vhosts", {"name": "__own"}),
        ("queues", {"name": "q", "vhost": "nowhere", "durable": True}),
        ("queues", {"name": "q", "vhost": "new", "arguments": {"x-max-length": "9"}}),
        ("queues", {"name": "orders", "vhost": "/", "durable": False}),
        ("permissions", {"user": "u", "vhost": "/", "configure": "a", "write": "", "read": ""}),
        ("topic_permissions", {**TOPIC, "write": "("}),
        ("topic_permissions", {**TOPIC, "user": "nobody"}),
        ("topic_permissions", {**TOPIC, "vhost": "nowhere"}),
        ("bindings", {"source": "s", "vhost": "/", "destination": "q", "destination_type": "x"}),
        ("parameters", {"component": "operator_policy", "name": "p", "value": {"pattern": 3}}),
        ("users", {"tags": ""}),
        ("permissions", {**GRANT, "user": "nobody"}),
        ("queues", {"name": "q", "durable": True}),
        ("exchanges", {"name": "x", "type": "direct"}),
        ("bindings", {"source": "amq.direct", "destination": "orders"}),
        ("bindings", {**BINDING, "arguments": {"x-match": "some"}}),
        ("bindings", {**BINDING, "arguments": {"x-filter": "a ="}}),
        ("bindings", {**BINDING, "arguments": {"x-transformation": "none"}}),
        ("bindings", {**BINDING, "destination": "nothing"}),
        ("bindings", {**BINDING, "source": "nothing"}),
        ("policies", {"vhost": "new", "name": "p", "pattern": "[", "definition": {"expires": 1}}),
        ("policies", {"vhost": "new", "name": "p", "pattern": "", "definition": {"strange": 1}}),
        ("exchanges", {"name": "x", "vhost": "new", "type": "strange"}),
        ("exchanges", {"name": "amq.x", "vhost": "new", "type": "direct"}),
        (
            "parameters",
            {"component": "transformation", "name": "t", "vhost": "new", "value": {"steps": []}},
        ),
    ],
)
def test_an_import_is_checked_as_a_whole_before_it_begins(
    cluster: AdminCluster, part: str, item: dict[str, Any]
) -> None:
    file: dict[str, Any] = {"vhosts": [{"name": "new"}]}
    file[part] = [*file.get(part, []), item]
    told = ask(cluster, "POST", "/definitions", file)
    assert told.status == 400, told
    assert ask(cluster, "GET", "/vhosts/new").status == 404


@pytest.mark.parametrize(
    ("part", "item", "differing"),
    [
        ("queues", {"name": "q", "durable": True}, {"arguments": {"x-max-length": 4}}),
        ("queues", {"name": "q", "durable": True}, {"durable": False}),
        ("exchanges", {"name": "x", "type": "direct"}, {"type": "fanout"}),
    ],
)
def test_what_is_in_a_file_twice_has_to_be_the_same(
    cluster: AdminCluster, part: str, item: dict[str, Any], differing: dict[str, Any]
) -> None:
    item = {**item, "vhost": "twice"}
    file = {"vhosts": [{"name": "twice"}], part: [item, item, {**item, **differing}]}
    told = ask(cluster, "POST", "/definitions", file)
    assert told.status == 400, told
    assert repr(item["name"]) in told.json["reason"]
    assert ask(cluster, "GET", "/vhosts/twice").status == 404
    file[part].pop()
    assert ask(cluster, "POST", "/definitions", file).status == 204
    assert ask(cluster, "DELETE", "/vhosts/twice").status == 204


def test_a_mistake_behind_many_things_is_found_before_anything_is_changed(
    cluster: AdminCluster,
) -> None:
    queues = [{"name": f"q{number}", "vhost": "many"} for number in range(PER_TURN_MAX * 2)]
    bindings: list[dict[str, Any]] = [
        {**BINDING, "vhost": "many", "destination": each["name"]} for each in queues
    ]
    file: dict[str, Any] = {"vhosts": [{"name": "many"}], "queues": queues, "bindings": bindings}
    bindings[-1] = {**bindings[-1], "arguments": {"x-match": "some"}}
    told = ask(cluster, "POST", "/definitions", file)
    assert told.status == 400, told
    assert "x-match" in told.json["reason"]
    assert ask(cluster, "GET", "/vhosts/many").status == 404
    assert not [each for each in cluster.live.reports if "could not be" in each]


def test_an_import_is_checked_with_what_is_there_and_what_comes_before_in_the_file(
    cluster: AdminCluster,
) -> None:
    """Each of them needs another one, which is there or comes with the file."""
    there = {
        "vhosts": [{"name": "half"}],
        "exchanges": [{"name": "first", "vhost": "half", "type": "headers"}],
        "queues": [{"name": "old", "vhost": "half"}],
        "parameters": [
            {
                "component": "transformation",
                "name": "known",
                "vhost": "half",
                "value": {"steps": [{"do": "set", "at": "a", "value": 1}], "failures": "old"},
            }
        ],
    }
    assert ask(cluster, "POST", "/definitions", there).status == 204
    ends = [("first", "old"), ("first", "new"), ("second", "old"), ("second", "new")]
    more = {
        "exchanges": [{"name": "second", "vhost": "half", "type": "headers"}],
        "queues": [{"name": "new", "vhost": "half"}],
        "bindings": [
            {
                "source": source,
                "destination": queue,
                "vhost": "half",
                "arguments": {"x-match": "any", "x-transformation": "known"},
            }
            for source, queue in ends
        ],
    }
    for _ in range(2):
        told = ask(cluster, "POST", "/definitions", more)
        assert told.status == 204, told
    assert len(ask(cluster, "GET", "/definitions/half").json["bindings"]) == len(ends)
    assert ask(cluster, "DELETE", "/vhosts/half").status == 204


def test_definitions_are_administrators(cluster: AdminCluster) -> None:
    add(cluster, "dora")
    for method, path in (
        ("GET", "/definitions"),
        ("POST", "/definitions"),
        ("GET", "/definitions/b"),
        ("POST", "/definitions/b"),
    ):
        body: dict[str, Any] | None = {} if method == "POST" else None
        assert ask(cluster, method, path, body, user="dora").status == 401
