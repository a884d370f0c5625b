"""The registry's HTTP API: every answer and every error, by status, code and body."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.clients.registry_cluster import RegistryCluster, ask


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RegistryCluster]:
    directory: Path = tmp_path_factory.mktemp("registry")
    with RegistryCluster(3, directory) as started:
        yield started


NOWHERE = {"name": "x", "subject": "no", "version": 1}


def avro(*fields: str, name: str = "R") -> str:
    """Return a record's schema; fields with a `?` have a default."""
    made = [
        {"name": each.rstrip("?"), "type": "int", **({"default": 0} if each.endswith("?") else {})}
        for each in fields
    ]
    return json.dumps({"type": "record", "name": name, "fields": made})


def register(url: str, subject: str, schema: str, **more: object) -> tuple[int, Any]:
    return ask(f"{url}/subjects/{subject}/versions", "POST", {"schema": schema, **more})


def test_a_schema_is_registered_found_and_listed(cluster: RegistryCluster) -> None:
    url = cluster.url(1)
    status, made = register(url, "life-value", avro("a", name="Life"))
    assert status == 200, made
    number = made["id"]
    assert register(cluster.url(2), "life-value", avro("a", name="Life")) == (200, {"id": number})
    text = '{"type":"record","name":"Life","fields":[{"name":"a","type":"int"}]}'
    assert ask(f"{cluster.url(3)}/schemas/ids/{number}") == (200, {"schema": text})
    assert ask(f"{url}/schemas/ids/{number}/schema") == (200, json.loads(text))
    assert ask(f"{url}/schemas/ids/{number}/subjects") == (200, ["life-value"])
    assert ask(f"{url}/schemas/ids/{number}/versions") == (
        200,
        [{"subject": "life-value", "version": 1}],
    )
    whole = {"subject": "life-value", "version": 1, "id": number, "schema": text}
    assert ask(f"{url}/subjects/life-value/versions/latest") == (200, whole)
    asked = {"schema": avro("a", name="Life")}
    assert ask(f"{url}/subjects/life-value", "POST", asked) == (200, whole)
    assert "life-value" in ask(f"{url}/subjects")[1]
    # The same schema has the same id in every subject.
    assert register(url, "other-value", avro("a", name="Life")) == (200, {"id": number})


def test_two_brokers_that_register_at_once_give_each_schema_one_id(
    cluster: RegistryCluster,
) -> None:
    schemas = [avro("a", name=f"Race{number}") for number in range(12)]

    def one(task: tuple[int, str]) -> tuple[int, Any]:
        broker, schema = task
        return register(cluster.url(broker), f"race-{schemas.index(schema) % 3}", schema)

    for broker in (1, 2, 3):
        ask(f"{cluster.url(broker)}/config/race-{broker - 1}", "PUT", {"compatibility": "NONE"})
    tasks = [(broker, schema) for schema in schemas for broker in (1, 2, 3)]
    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(one, tasks))
    ids: dict[str, set[int]] = {}
    for (_, schema), (status, made) in zip(tasks, answers, strict=True):
        assert status == 200, made
        ids.setdefault(schema, set()).add(made["id"])
    assert all(len(each) == 1 for each in ids.values()), ids
    numbers = sorted(number for each in ids.values() for number in each)
    assert numbers == list(range(numbers[0], numbers[0] + len(schemas)))
    for subject in range(3):
        assert ask(f"{cluster.url(1)}/subjects/race-{subject}/versions") == (200, [1, 2, 3, 4])


def test_what_is_not_there_is_said_by_its_code(cluster: RegistryCluster) -> None:
    url = cluster.url(1)
    register(url, "there", avro("a"))
    for path, code in (
        ("subjects/nobody/versions", 40401),
        ("subjects/nobody/versions/1", 40401),
        ("subjects/there/versions/9", 40402),
        ("schemas/ids/999999", 40403),
        ("config/there", 40408),
        ("mode/there", 40409),
    ):
        status, said = ask(f"{url}/{path}")
        assert (status, said["error_code"]) == (404, code), path
    assert ask(f"{url}/subjects/there/versions/x")[1]["error_code"] == 42202
    assert ask(f"{url}/subjects/there/versions/0")[1]["error_code"] == 42202
    status, said = ask(f"{url}/subjects/there", "POST", {"schema": avro("other")})
    assert (status, said["error_code"]) == (404, 40403)
    assert ask(f"{url}/nothing")[0] == 404
    assert ask(f"{url}/subjects", "PUT", {})[0] == 405


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"schema": "{"}, 422, 42201),
        ({"schema": '{"type":"record","name":"R"}'}, 422, 42201),
        ({"schema": '"no.such.Type"'}, 422, 42201),
        ({"schema": "{}", "schemaType": "XML"}, 422, 42201),
        ({"schema": '{"type":"strange"}', "schemaType": "JSON"}, 422, 42201),
        ({"schema": '{"$ref":"#/nowhere"}', "schemaType": "JSON"}, 422, 42201),
        ({"schema": "message M {", "schemaType": "PROTOBUF"}, 422, 42201),
        ({"schema": "message M { optional No n = 1; }", "schemaType": "PROTOBUF"}, 422, 42201),
        ({"schema": "x" * 600_000}, 422, 42209),
        ({"schema": avro("a"), "references": [NOWHERE]}, 422, 42201),
        ({"nothing": 1}, 422, 422),
        (b"{", 400, 400),
        (b"\xff", 400, 400),
    ],
    ids=[str(number) for number in range(13)],
)  # fmt: skip
def test_what_is_no_schema_is_refused(
    cluster: RegistryCluster, body: object, status: int, code: int
) -> None:
    got, said = ask(f"{cluster.url(1)}/subjects/bad/versions", "POST", body)
    assert (got, said["error_code"]) == (status, code), said
    assert ask(f"{cluster.url(1)}/subjects/bad/versions")[1]["error_code"] == 40401


def test_rules_and_metadata_are_refused_and_not_dropped(cluster: RegistryCluster) -> None:
    url = cluster.url(1)
    empty: dict[str, dict[str, str]] = {"properties": {}, "tags": {}}
    rules = {"domainRules": [{"name": "hide", "kind": "TRANSFORM", "type": "ENCRYPT"}]}
    for more in ({"ruleSet": rules}, {"metadata": {"properties": {"owner": "me"}}}):
        status, said = register(url, "ruled-value", avro("a"), **more)
        assert (status, said["error_code"]) == (422, 42201)
        assert f"does not keep {next(iter(more))!r}" in said["message"]
    assert ask(f"{url}/subjects/ruled-value/versions")[0] == 404
    assert register(url, "ruled-value", avro("a"), ruleSet=None, metadata=empty)[0] == 200
    level = {"compatibility": "FULL", "alias": "", "normalize": False}
    assert ask(f"{url}/config/ruled-value", "PUT", level) == (200, {"compatibility": "FULL"})
    for option in ("normalize", "defaultRuleSet", "alias"):
        wanted = {"compatibility": "NONE", option: {"domainRules": [1]}}
        status, said = ask(f"{url}/config/ruled-value", "PUT", wanted)
        assert status == 422
        assert repr(option) in said["message"]
    assert ask(f"{url}/config/ruled-value")[1] == {"compatibilityLevel": "FULL"}


def test_what_does_not_fit_is_refused_and_says_where(cluster: RegistryCluster) -> None:
    url = cluster.url(1)
    register(url, "fits", avro("a"))
    status, said = register(url, "fits", avro("a", "b"))
    assert (status, said["error_code"]) == (409, 409)
    assert "/fields/b" in said["message"]
    tried = f"{url}/compatibility/subjects/fits/versions"
    assert ask(f"{tried}/latest", "POST", {"schema": avro("a", "b")})[1] == {"is_compatible": False}
    said = ask(f"{tried}?verbose=true", "POST", {"schema": avro("a", "b")})[1]
    assert "/fields/b" in said["messages"][0]
    assert ask(f"{tried}/1", "POST", {"schema": avro("a", "b?")})[1] == {"is_compatible": True}
    assert ask(f"{url}/config/fits", "PUT", {"compatibility": "NONE"}) == (
        200,
        {"compatibility": "NONE"},
    )
    assert register(url, "fits", avro("a", "b"))[0] == 200
    assert ask(f"{url}/config/fits") == (200, {"compatibilityLevel": "NONE"})
    assert ask(f"{url}/config/fits", "DELETE") == (200, {"compatibilityLevel": "NONE"})
    assert ask(f"{url}/config") == (200, {"compatibilityLevel": "BACKWARD"})
    assert ask(f"{url}/config/fits?defaultToGlobal=true")[1] == {"compatibilityLevel": "BACKWARD"}
    assert ask(f"{url}/config", "PUT", {"compatibility": "SIDEWAYS"})[1]["error_code"] == 42203


def test_a_deletion_is_soft_first_and_ids_do_not_come_again(cluster: RegistryCluster) -> None:
    url = cluster.url(2)
    first = register(url, "gone", avro("a", name="Gone"))[1]
    register(url, "gone", avro("a", "b?", name="Gone"))
    one, whole = f"{url}/subjects/gone/versions/1", f"{url}/subjects/gone"
    assert ask(f"{one}?permanent=true", "DELETE")[1]["error_code"] == 40407
    assert ask(one, "DELETE") == (200, 1)
    assert ask(one)[1]["error_code"] == 40402
    assert ask(f"{one}?deleted=true")[0] == 200
    assert ask(one, "DELETE")[1]["error_code"] == 40406
    # What was written with it can still be read.
    assert ask(f"{url}/schemas/ids/{first['id']}")[0] == 200
    assert ask(f"{whole}?permanent=true", "DELETE")[1]["error_code"] == 40405
    assert ask(whole, "DELETE") == (200, [2])
    assert ask(whole, "DELETE")[1]["error_code"] == 40404
    assert "gone" not in ask(f"{url}/subjects")[1]
    assert "gone" in ask(f"{url}/subjects?deleted=true")[1]
    assert ask(f"{whole}?permanent=true", "DELETE") == (200, [1, 2])
    assert ask(whole, "DELETE")[1]["error_code"] == 40401
    assert ask(f"{cluster.url(3)}/schemas/ids/{first['id']}")[1]["error_code"] == 40403
    again = register(url, "gone", avro("a", name="Gone"))[1]
    assert again["id"] > first["id"] + 1


def test_modes_say_what_may_be_changed(cluster: RegistryCluster) -> None:
    url = cluster.url(1)
    assert ask(f"{url}/mode") == (200, {"mode": "READWRITE"})
    assert ask(f"{url}/mode/still", "PUT", {"mode": "READONLY"}) == (200, {"mode": "READONLY"})
    assert register(url, "still", avro("a"))[1]["error_code"] == 42205
    assert ask(f"{url}/mode/still", "PUT", {"mode": "IMPORT"}) == (200, {"mode": "IMPORT"})
    made = register(url, "still", avro("a", name="Still"), version=7, id=100_000)
    assert made == (200, {"id": 100_000})
    assert (
        register(url, "still", avro("b", name="Still"), version=8, id=100_000)[1]["error_code"]
        == 42207
    )
    assert ask(f"{url}/subjects/still/versions") == (200, [7])
    assert ask(f"{url}/mode/still", "PUT", {"mode": "SIDEWAYS"})[1]["error_code"] == 42204
    assert ask(f"{url}/mode/still", "DELETE") == (200, {"mode": "IMPORT"})
    assert register(url, "still", avro("a"), id=5)[1]["error_code"] == 42205


def test_references_are_followed_and_kept(cluster: RegistryCluster) -> None:
    url = cluster.url(1)
    register(url, "inner", avro("a", name="Inner"))
    outer = json.dumps(
        {"type": "record", "name": "Outer", "fields": [{"name": "i", "type": "Inner"}]}
    )
    references = [{"name": "Inner", "subject": "inner", "version": 1}]
    assert register(url, "outer", outer)[1]["error_code"] == 42201
    status, made = register(url, "outer", outer, references=references)
    assert status == 200, made
    assert ask(f"{url}/subjects/inner/versions/1/referencedby") == (200, [made["id"]])
    assert ask(f"{url}/subjects/outer/versions/1")[1]["references"] == references
    assert ask(f"{url}/subjects/inner/versions/1", "DELETE")[1]["error_code"] == 42206


def test_pages_of_the_web_are_refused(cluster: RegistryCluster) -> None:
    url = cluster.url(1)
    for headers in (
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Host": "evil.example"},
    ):
        assert ask(f"{url}/subjects", headers=headers)[0] == 403, headers
    # A subject may have any characters.
    assert ask(f"{url}/subjects/a%2Fb%3F/versions", "POST", {"schema": avro("a")})[0] == 200
    assert ask(f"{url}/subjects/a%2Fb%3F/versions") == (200, [1])
