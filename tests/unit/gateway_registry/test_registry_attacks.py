"""The registry's port: whatever a schema is, and whoever has a browser send it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest
from referencing.jsonschema import DRAFT202012

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.broker.listeners import REGISTRY, AccessMode, default_listener
from kafkaesque.env.network import Address
from kafkaesque.gateway.registry import reading
from kafkaesque.gateway.registry.gateway import RegistryGateway
from kafkaesque.registry import compatibility
from kafkaesque.registry.json_schema import OBJECTS_MAX, JsonSchema
from tests.unit.admin.told import Told
from tests.unit.admin.visits import Visit
from tests.unit.gateway_kafka.live import LiveCluster
from tests.unit.gateway_kafka.secured import PASSWORD, SECRET, SUPER, add_user, allow

USER = "app"


class Ground:
    """A broker with a registry where people log in."""

    def __init__(self, live: LiveCluster) -> None:
        self.live = live
        node = live.nodes[1]
        self.gateway = RegistryGateway(node.broker.doors, node.chassis)
        listener = default_listener(REGISTRY, Address("127.0.0.1", 0), access=AccessMode.REQUIRED)
        self.address = self.gateway.start(listener)
        add_user(live, USER)
        for operation in (Operation.READ, Operation.WRITE):
            allow(live, USER, operation, ResourceType.SUBJECT, "app-*")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Told:
        said = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        every = {"Authorization": f"Basic {said}", **headers}
        visit = Visit(self.live, self.address)
        told = visit.ask(method, path, every, body)
        visit.close()
        return told

    def register(self, schema: str, kind: str = "AVRO", **headers: str) -> Told:
        body = {"schema": schema, "schemaType": kind}
        return self.ask("POST", "/subjects/app-x/versions", body, **headers)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    live = LiveCluster(
        tmp_path_factory.mktemp("registry"),
        access=AccessMode.REQUIRED,
        secrets=[SECRET],
        super_users=[SUPER],
    )
    made = Ground(live)
    yield made
    made.gateway.stop()
    live.close()


@pytest.fixture(autouse=True)
def _without_reports_of_others(ground: Ground) -> None:
    ground.live.reports.clear()


def test_a_page_cannot_use_the_password_that_a_browser_keeps(ground: Ground) -> None:
    """A browser that was asked for a name and a password adds them to what any page sends."""
    path, body = "/subjects/app-page/versions", {"schema": '"string"', "schemaType": "AVRO"}
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        assert ground.ask("POST", path, body, **headers).status == 403
    assert "app-page" not in ground.ask("GET", "/subjects").json
    # An address that somebody types.
    assert ground.ask("GET", "/subjects", **{"Sec-Fetch-Site": "none"}).status == 200


DEEP = 5_000
BAD: dict[str, tuple[str, str]] = {
    "half a letter": ("AVRO", '{"type": "record", "name": "a", "doc": "\\ud800", "fields": []}'),
    "half a letter in JSON Schema": ("JSON", '{"title": "\\udc00"}'),
    "no number": ("JSON", '{"minimum": 1e999}'),
    "nested lists": ("JSON", '{"enum": [' + "[" * DEEP + "]" * DEEP + "]}"),
    "nested arrays": ("AVRO", '{"type": "array", "items": ' * DEEP + '"int"' + "}" * DEEP),
    "nested messages": ("PROTOBUF", 'syntax = "proto3";' + "message A {" * DEEP),
    "nested options": ("PROTOBUF", 'syntax = "proto3"; option (a) = ' + "{" * DEEP),
    "a word at the end": ("PROTOBUF", 'syntax = "proto3"; message A { message'),
    "nothing": ("PROTOBUF", ""),
    "a descriptor of nothing": ("PROTOBUF", "AAAA"),
    "a list": ("AVRO", "[]"),
    "a name of another kind": ("AVRO", '{"type": "record", "name": 1, "fields": []}'),
    "types of types": ("AVRO", '{"type": {"type": {"type": {}}}}'),
    "items of nothing": ("JSON", '{"items": 7}'),
    "a reference to itself": ("JSON", '{"$ref": "#"}'),
    "a reference elsewhere": ("JSON", '{"$ref": "http://169.254.169.254/latest"}'),
}


@pytest.mark.parametrize("kind", BAD)
def test_no_schema_stops_a_broker(ground: Ground, kind: str) -> None:
    schema_type, schema = BAD[kind]
    assert ground.register(schema, schema_type).status in (200, 409, 422)
    body = {"schema": schema, "schemaType": schema_type}
    path = "/compatibility/subjects/app-x/versions"
    assert ground.ask("POST", path, body).status in (200, 422)
    assert ground.ask("GET", "/subjects/app-x/versions/latest").status in (200, 404)
    ground.live.run_for(0.05)
    assert not ground.live.fatal
    # Others are served, and the registry changes.
    assert ground.register(json.dumps({"type": "enum", "name": "E", "symbols": ["A"]})).status in (
        200,
        409,
    )
    assert not [each for each in ground.live.reports if "could not be" in each]


@pytest.mark.parametrize(
    "schema", ['{"prefixItems": 1}', '{"prefixItems": {"a": 1}}', '{"prefixItems": [true, 7]}']
)
def test_keywords_of_another_draft_are_compared_as_far_as_they_can_be(
    ground: Ground, schema: str
) -> None:
    """Draft 7 takes them whatever they are."""
    path = f"/subjects/app-draft-{len(schema)}/versions"
    body = {"schema": schema, "schemaType": "JSON"}
    assert ground.ask("POST", path, body).status == 200
    other = {"schema": '{"prefixItems": [{"type": "string"}]}', "schemaType": "JSON"}
    told = ground.ask("POST", path, other)
    assert told.status == 409
    assert not [each for each in ground.live.reports if "could not be" in each]


def test_what_would_take_long_to_check_is_refused(ground: Ground) -> None:
    """512 KiB of a newer draft took ten seconds, in which the broker served nobody."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    for count, status in ((100, 200), (OBJECTS_MAX, 422)):
        properties: dict[str, Any] = {f"a{number}": {} for number in range(count)}
        schema = json.dumps({"$schema": draft, "properties": properties})
        body = {"schema": schema, "schemaType": "JSON"}
        assert ground.ask("POST", "/subjects/app-parts/versions", body).status == status


def test_references_are_looked_up_in_what_was_gone_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For each reference the whole schema was gone through: four hundred took seconds."""
    visited = 0
    subresources = DRAFT202012.subresources_of

    def count(*given: Any) -> Any:
        nonlocal visited
        visited += 1
        return subresources(*given)

    monkeypatch.setattr(type(DRAFT202012), "subresources_of", lambda _, *given: count(*given))
    many = 40
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {f"d{number}": {"$id": f"http://a/{number}"} for number in range(many)},
        "properties": {f"a{number}": {"$ref": f"http://a/{number}"} for number in range(many)},
    }
    JsonSchema(json.dumps(schema), {})
    assert 0 < visited < 10 * many


def test_long_histories_are_not_compared_to_their_end(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = "/subjects/app-history/versions"
    for number in range(3):
        schema = json.dumps({"type": "string", "description": str(number)})
        assert ground.ask("POST", path, {"schema": schema, "schemaType": "JSON"}).status == 200
    allow(ground.live, USER, Operation.ALTER_CONFIGS, ResourceType.SUBJECT, "app-*")
    transitive = {"compatibility": "BACKWARD_TRANSITIVE"}
    assert ground.ask("PUT", "/config/app-history", transitive).status == 200
    body = {"schema": '{"type": "string"}', "schemaType": "JSON"}
    monkeypatch.setattr(compatibility, "COMPARED_LENGTH_MAX", 50)
    told = ground.ask("POST", path, body)
    assert told.status == 409
    assert "too long" in told.json["message"]
    monkeypatch.undo()
    assert ground.ask("POST", path, body).status == 200


def test_a_defect_costs_its_request(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is decided in a later turn would otherwise stop the broker."""

    def fail(text: str, references: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr(
        compatibility, "_PARSERS", dict.fromkeys(compatibility._PARSERS, fail), raising=True
    )
    assert ground.register('{"type": "map", "values": "int"}').status == 500
    monkeypatch.undo()
    assert not ground.live.fatal
    assert ground.ask("GET", "/subjects").status == 200


def test_what_is_parsed_is_kept_within_bounds(ground: Ground) -> None:
    for number in range(12):
        schema = json.dumps({"description": f"{number}" + "x" * 500_000})
        body = {"schema": schema, "schemaType": "JSON"}
        told = ground.ask("POST", "/subjects/app-none", body)
        assert told.status == 404, told
    assert compatibility._kept.length <= compatibility.KEPT_LENGTH_MAX


def test_an_answer_has_a_length(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody reads would wait in memory, once for each connection."""
    for number in range(4):
        schema = json.dumps({"description": str(number)})
        body = {"schema": schema, "schemaType": "JSON"}
        told = ground.ask("POST", f"/subjects/app-long-{number}/versions", body)
        assert told.status == 200
    listed = "/schemas?subjectPrefix=app-long"
    assert len(ground.ask("GET", listed).json) == 4
    monkeypatch.setattr(reading, "TEXTS_LENGTH_MAX", 50)
    assert ground.ask("GET", listed).status == 400
    assert len(ground.ask("GET", f"{listed}&limit=2&offset=2").json) == 2


def test_a_body_that_is_nested_is_no_defect(ground: Ground) -> None:
    reports = len(ground.live.reports)
    visit = Visit(ground.live, ground.address)
    said = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    body = b'{"schema": ' + b"[" * 3_000
    head = (
        "POST /subjects/app-x/versions HTTP/1.1\r\nHost: localhost\r\n"
        f"Authorization: Basic {said}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    visit._writer.write(head.encode() + body)
    assert visit.head().split()[1] in ("400", "422")
    visit.close()
    assert ground.live.reports[reports:] == []
