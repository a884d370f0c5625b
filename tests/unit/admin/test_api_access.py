"""The admin API's users, roles and rules on a real broker, and what it never tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.unit.admin.told import Told
from tests.unit.admin.visits import AdminCluster
from tests.unit.gateway_kafka.secured import add_user as add_root

PASSWORD = "correct horse battery"
RULE = {
    "principal": "User:app",
    "operations": ["read", "write"],
    "resource_type": "topic",
    "pattern": "prefix",
    "name": "orders-",
}


class Ground:
    """A broker, asked by its super user."""

    def __init__(self, root: Path) -> None:
        self.cluster = AdminCluster(root)
        add_root(self.cluster.live, "root")
        self.token = self.cluster.token("root")

    def ask(self, method: str, path: str, body: object = None) -> Told:
        return self.cluster.ask(method, f"/api/v1{path}", body=body, token=self.token)

    def get(self, path: str, **query: str) -> Any:
        told = self.ask("GET", f"{path}?{urlencode(query)}" if query else path)
        assert told.status == 200, told
        return told.json


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path)
    yield made
    made.cluster.close()


def add_user(ground: Ground, name: str = "app", **more: object) -> Told:
    told = ground.ask("POST", "/users", {"name": name, "password": PASSWORD, **more})
    assert told.status == 201, told.body
    return told


def user(ground: Ground, name: str = "app") -> Any:
    (found,) = (e for e in ground.get("/users")["items"] if e["name"] == name)
    return found


def names(ground: Ground) -> list[str]:
    return [each["name"] for each in ground.get("/users")["items"]]


def test_a_user_is_created_changed_and_deleted(ground: Ground) -> None:
    told = add_user(ground)
    assert told.json["command"] == "kafkaesque user create app --password-file FILE"
    seen = user(ground)
    assert {(e["kind"], e["mechanism"]) for e in seen["credentials"]} == {
        ("scram", "SCRAM-SHA-256"),
        ("scram", "SCRAM-SHA-512"),
    }
    assert (seen["is_disabled"], seen["is_super"], seen["sessions"]) == (False, False, 0)
    changes = {"is_disabled": True, "expires_at": 1_900_000_000_000, "networks": ["10.0.0.0/8"]}
    assert ground.ask("PATCH", "/users/app", changes).status == 200
    seen = user(ground)
    assert seen["is_disabled"]
    for each in seen["credentials"]:
        assert (each["expires_ms"], each["networks"]) == (1_900_000_000_000, ["10.0.0.0/8"])
    assert ground.ask("DELETE", "/users/app?dry_run=true").json["what"] == (
        "user app would be deleted"
    )
    assert ground.ask("DELETE", "/users/app").status == 200
    assert names(ground) == ["root"]
    assert ground.ask("DELETE", "/users/app").status == 404


def test_a_user_that_exists_gets_another_password_only_where_that_is_meant(
    ground: Ground,
) -> None:
    add_user(ground)
    again = {"name": "app", "password": "another password"}
    assert ground.ask("POST", "/users", again).status == 409
    told = add_user(ground, replace=True)
    assert told.json["what"] == "user app has another password"


def test_what_can_be_no_user_is_refused_and_its_password_is_not_repeated(ground: Ground) -> None:
    for body in (
        {"name": "app", "password": "short"},
        {"name": "*", "password": PASSWORD},
        {"name": "a\u0007", "password": PASSWORD},
        {"name": "app"},
    ):
        told = ground.ask("POST", "/users", body)
        assert told.status == 400, body
        assert PASSWORD.encode() not in told.body
    assert names(ground) == ["root"]


def test_roles_are_given_and_taken(ground: Ground) -> None:
    add_user(ground)
    assert ground.ask("PATCH", "/users/app", {"add_roles": ["readers"]}).status == 404
    told = ground.ask("POST", "/roles", {"name": "readers", "description": "who looks"})
    assert told.status == 201
    given = ground.ask("PATCH", "/users/app", {"add_roles": ["readers"]})
    assert given.json["command"] == "kafkaesque role grant readers app"
    rule = {**RULE, "principal": "Role:readers"}
    assert ground.ask("POST", "/rules", rule).status == 201
    (role,) = ground.get("/roles")["items"]
    assert (role["users"], role["rules"], role["description"]) == (["app"], 2, "who looks")
    assert ground.ask("PATCH", "/users/app", {"remove_roles": ["readers"]}).status == 200
    assert user(ground)["roles"] == []
    assert ground.ask("DELETE", "/roles/readers").status == 200
    assert ground.get("/rules")["items"] == []


def test_rules_say_what_they_are_for_before_they_are_added(ground: Ground) -> None:
    for name in ("orders-eu", "orders-private", "people"):
        ground.ask("POST", "/topics", {"name": name, "partitions": 1, "replication_factor": 1})
    dry = ground.ask("POST", "/rules?dry_run=true", RULE).json
    assert (dry["matches"], dry["match_total"]) == (["orders-eu", "orders-private"], 2)
    assert dry["command"] == (
        "kafkaesque rule create User:app -o read -o write --topic orders- --prefix"
    )
    assert ground.get("/rules")["items"] == []
    assert ground.ask("POST", "/rules", RULE).status == 201
    items = ground.get("/rules", resource_type="topic", q="ORDERS")["items"]
    assert [each["operation"] for each in items] == ["read", "write"]
    assert ground.get("/rules", principal="User:other")["items"] == []
    told = ground.ask("DELETE", f"/rules/{items[0]['id']}")
    assert "--principal User:app -o read --topic orders- --prefix" in told.json["command"]
    assert [e["operation"] for e in ground.get("/rules")["items"]] == ["write"]
    assert ground.ask("DELETE", f"/rules/{items[0]['id']}").status == 404


def test_an_impossible_rule_is_refused_with_a_reason(ground: Ground) -> None:
    changes: list[tuple[dict[str, object], str]] = [
        ({"operations": ["fly"]}, "fly"),
        ({"resource_type": "house"}, "house"),
        ({"principal": "app"}, "User:name"),
        ({"name": ""}, "needs a name"),
        ({"pattern": "any"}, "any name"),
        ({"host": "nowhere"}, "nowhere"),
    ]
    for change, word in changes:
        for flags in ("", "?dry_run=true"):
            told = ground.ask("POST", f"/rules{flags}", {**RULE, **change})
            assert (told.status, word in told.json["message"]) == (400, True), told.body


def test_it_is_explained_who_may_and_why(ground: Ground) -> None:
    add_user(ground)
    ground.ask("POST", "/rules", RULE)
    deny = {**RULE, "operations": ["write"], "effect": "deny", "name": "orders-private"}
    ground.ask("POST", "/rules", {**deny, "pattern": "literal"})

    def explain(operation: str, name: str, principal: str = "") -> Any:
        query = {"operation": operation, "resource_type": "topic", "name": name}
        return ground.get("/explain", **query, principal=principal)

    seen = explain("describe", "orders-eu")
    assert {each["principal"] for each in seen["grants"]} == {"User:app", "User:root"}
    assert seen["is_allowed"] is None
    assert seen["command"] == "kafkaesque rule explain -o describe --topic orders-eu"
    seen = explain("write", "orders-private", "User:app")
    assert (seen["is_allowed"], [e["principal"] for e in seen["grants"]]) == (False, ["User:root"])
    assert "denied by rule" in seen["because"]
    assert explain("write", "orders-eu", "User:app")["is_allowed"]
    assert explain("read", "orders-eu", "User:other")["because"] == "no rule allows it"
    assert ground.ask("GET", "/explain?operation=fly&resource_type=topic").status == 400


def test_a_topic_that_shows_a_queue_needs_rules_for_both(ground: Ground) -> None:
    add_user(ground)
    made = {"name": "mails", "options": {"kafka.topic": "mails.view"}}
    assert ground.ask("POST", "/queues", made).status == 201

    def explain() -> Any:
        query = {"operation": "read", "resource_type": "topic", "name": "mails.view"}
        seen = ground.get("/explain", **query, principal="User:app")
        assert seen["queue"] == "mails"
        grants = [(each["rule"], each["also"]) for each in seen["grants"] if each["rule"]]
        return seen["is_allowed"], grants

    of_topic = {**RULE, "operations": ["read"], "name": "mails"}
    told = ground.ask("POST", "/rules", of_topic).json
    assert told["matches"] == ["mails.view"]
    assert explain() == (False, [])
    assert ground.ask("POST", "/rules", {**of_topic, "resource_type": "queue"}).status == 201
    allowed, ((topic, queue),) = explain()
    assert (allowed, "on TOPIC" in topic, "on QUEUE" in queue) == (True, True, True)


def test_verifiers_and_salts_are_told_to_nobody(ground: Ground) -> None:
    add_user(ground)
    told = ground.ask("GET", "/users")
    for secret in (b"salt", b"stored", b"digest", b"iterations", PASSWORD.encode()):
        assert secret not in told.body


def test_an_access_key_is_shown_once_and_deleted(ground: Ground) -> None:
    told = ground.ask("POST", "/users/app/access-keys")
    assert (told.status, len(told.json["secret"]) > 20) == (201, True)
    key = told.json["access_key_id"]
    listed = ground.ask("GET", "/users")
    assert told.json["secret"].encode() not in listed.body
    assert [each["access_key_id"] for each in user(ground)["credentials"]] == [key]
    assert ground.ask("DELETE", f"/access-keys/{key}").status == 200
    assert user(ground)["credentials"] == []
    assert ground.ask("DELETE", f"/access-keys/{key}").status == 404


def test_a_user_logs_in_with_the_password_that_was_set(ground: Ground) -> None:
    add_user(ground)
    assert ground.cluster.log_in("app", PASSWORD).status == 201
    assert user(ground)["sessions"] == 1
    assert ground.ask("PATCH", "/users/app", {"is_disabled": True}).status == 200
    assert ground.cluster.log_in("app", PASSWORD).status == 401


def test_super_users_and_listeners_are_told(ground: Ground) -> None:
    assert ground.get("/users")["super_users"] == ["User:root"]
    assert user(ground, "root")["is_super"]
    assert ground.get("/certificates")["names"] == []
