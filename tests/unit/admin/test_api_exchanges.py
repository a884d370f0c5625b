"""The admin API's exchanges on a simulated cluster: shown, changed, asked for a route."""

import pytest

from tests.unit.admin.api_ground import ApiGround


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(7)


def declare(ground: ApiGround, name: str, kind: str = "topic", **more: object) -> None:
    told = ground.ask("POST", "/exchanges", {"name": name, "type": kind, **more})
    assert told.status == 201, told.body


def bind(ground: ApiGround, source: str, to: str, destination: str, key: str = "") -> None:
    body = {"to": to, "destination": destination, "key": key}
    told = ground.ask("POST", f"/exchanges/{source}/bind", body)
    assert told.status == 200, told.body


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_an_exchange_is_shown_with_what_leads_from_it_and_to_it(
    ground: ApiGround, host: str
) -> None:
    ground.create_queue("errors")
    ground.create("audit")
    declare(ground, "logs", arguments='{"alternate-exchange": "amq.fanout"}')
    declare(ground, "all", "fanout")
    bind(ground, "logs", "queue", "errors", "*.error")
    bind(ground, "logs", "topic", "audit", "#")
    bind(ground, "all", "exchange", "logs")
    seen = ground.get("/exchanges/logs", host)
    assert (seen["exchange"]["type"], seen["exchange"]["alternate"]) == ("topic", "amq.fanout")
    assert (seen["from_total"], seen["to_total"]) == (2, 1)
    assert [(e["key"], e["to"], e["destination"]) for e in seen["bindings_from"]] == [
        ("#", "topic", "audit"),
        ("*.error", "queue", "errors"),
    ]
    assert [each["source"] for each in seen["bindings_to"]] == ["all"]
    listed = {each["name"]: each for each in ground.get("/exchanges", host)["items"]}
    assert listed["logs"]["bindings"] == 2
    assert listed["amq.topic"]["is_built_in"]
    assert not listed["logs"]["is_built_in"]
    assert "amq.default" in listed


def test_exchanges_are_searched_sorted_and_paged(ground: ApiGround) -> None:
    for name in ("plums", "apples", "pears"):
        declare(ground, name)

    def names(**query: object) -> list[str]:
        return [each["name"] for each in ground.get("/exchanges", "b1", **query)["items"]]

    assert names(q="PL") == ["apples", "plums"]
    assert names(vhost="other") == []
    first = ground.get("/exchanges", q="p", limit=2, sort="-name")
    rest = ground.get("/exchanges", q="p", limit=2, sort="-name", after=first["next"])
    assert [e["name"] for e in first["items"] + rest["items"]] == names(q="p", sort="-name")
    assert ground.ask("GET", "/exchanges?sort=colour").status == 400


def test_where_a_message_would_go_is_told_and_nothing_is_published(ground: ApiGround) -> None:
    ground.create_queue("errors")
    declare(ground, "logs")
    bind(ground, "logs", "queue", "errors", "*.error")

    def route(exchange: str, key: str) -> list[str]:
        told = ground.ask("POST", f"/exchanges/{exchange}/route", {"key": key})
        assert told.status == 200, told.body
        return [*told.json["queues"], *told.json["topics"]]

    assert route("logs", "db.error") == ["errors"]
    assert route("logs", "db.warning") == []
    assert route("amq.default", "errors") == ["errors"]
    (part,) = ground.get("/queues/errors")["parts"]
    assert part["arrived"] == 0


def test_each_change_has_a_dry_run_and_names_its_command(ground: ApiGround) -> None:
    ground.create_queue("errors")
    body = {"name": "logs {}", "type": "headers", "is_auto_delete": True}
    told = ground.ask("POST", "/exchanges?dry_run=true", body)
    assert told.json["what"] == "exchange logs {} would be declared"
    assert told.json["command"] == (
        "kafkaesque exchange create 'logs {}' --type headers --auto-delete"
    )
    assert ground.ask("GET", "/exchanges/logs%20%7B%7D").status == 404
    declare(ground, "logs", "headers")
    arguments = '{"x-match": "all", "size": 12345678901234567890}'
    binding = {"to": "queue", "destination": "errors", "arguments": arguments}
    dry = ground.ask("POST", "/exchanges/logs/bind?dry_run=true", binding)
    assert dry.json["is_dry_run"]
    assert ground.get("/exchanges/logs")["from_total"] == 0
    done = ground.ask("POST", "/exchanges/logs/bind", binding)
    assert done.json["command"] == (
        "kafkaesque binding create logs --queue errors -a x-match=all -a size=12345678901234567890"
    )
    (made,) = ground.get("/exchanges/logs")["bindings_from"]
    assert "12345678901234567890" in made["arguments"]
    assert ground.ask("POST", "/exchanges/logs/unbind", binding).status == 200
    assert ground.get("/exchanges/logs")["from_total"] == 0
    told = ground.ask("DELETE", "/exchanges/logs?dry_run=true")
    assert told.json["what"] == (
        "exchange logs would be deleted with the 0 bindings that begin there"
    )
    assert ground.ask("DELETE", "/exchanges/logs").status == 200
    assert ground.ask("GET", "/exchanges/logs").status == 404


@pytest.mark.parametrize("flags", ["", "?dry_run=true"])
def test_what_cannot_be_is_refused_with_a_reason(ground: ApiGround, flags: str) -> None:
    declare(ground, "logs")

    def refusal(method: str, path: str, body: object = None) -> tuple[int, str]:
        told = ground.ask(method, f"{path}{flags}", body)
        return told.status, told.json["message"]

    status, message = refusal("POST", "/exchanges", {"name": "new", "type": "square"})
    assert (status, "square" in message) == (400, True)
    status, message = refusal("POST", "/exchanges", {"name": "new", "arguments": "[1]"})
    assert (status, "JSON object" in message) == (400, True)
    status, message = refusal("POST", "/exchanges", {"name": "logs", "type": "fanout"})
    assert status == 409, message
    lost = {"to": "queue", "destination": "nobody"}
    status, message = refusal("POST", "/exchanges/logs/bind", lost)
    assert (status, "nobody" in message) == (404, True)
    status, message = refusal("DELETE", "/exchanges/amq.topic")
    assert status == 403, message
    status, message = refusal("DELETE", "/exchanges/nobody")
    assert (status, message) == (404, "there is no exchange 'nobody' in vhost '/'")


def test_virtual_hosts_are_counted(ground: ApiGround) -> None:
    ground.create_queue("errors")
    (only,) = ground.get("/vhosts")["items"]
    assert (only["name"], only["queues"], only["exchanges"] >= 6) == ("/", 1, True)
