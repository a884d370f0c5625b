"""The admin API's subjects of schemas, on a simulated cluster."""

import pytest

from kafkaesque.registry.records import Entry, ReferenceValue, SchemaKey, SchemaValue
from tests.unit.admin.api_ground import ApiGround

TEXT = '{"type": "record", "name": "Order", "fields": []}'


@pytest.fixture
def ground() -> ApiGround:
    return ApiGround(7)


def register(ground: ApiGround, subject: str, version: int, number: int, *refers_to: str) -> None:
    done: list[object] = []
    value = SchemaValue(
        subject=subject,
        version=version,
        id=number,
        schema=TEXT,
        references=tuple(ReferenceValue(name=e, subject=e, version=1) for e in refers_to),
    )
    entries = [Entry(SchemaKey(subject=subject, version=version), value)]
    schemas = ground.cluster.brokers["b1"].doors.schemas
    schemas.change(lambda _: (None, entries), done.append)
    ground.run_until(lambda: bool(done))
    assert done == [None]


@pytest.mark.parametrize("host", ["b1", "b2", "b3"])
def test_subjects_are_shown_with_their_newest_version(ground: ApiGround, host: str) -> None:
    register(ground, "person", 1, 1)
    register(ground, "orders-value", 1, 2)
    register(ground, "orders-value", 2, 3, "person")
    seen = ground.get("/schemas", host)
    assert (seen["total"], seen["is_current"]) == (2, True)
    orders, person = seen["items"]
    assert (orders["name"], orders["version"], orders["id"], orders["versions"]) == (
        "orders-value",
        2,
        3,
        2,
    )
    assert (person["type"], person["compatibility"]) == ("AVRO", "BACKWARD")
    view = ground.get("/schemas/orders-value", host)
    assert [each["version"] for each in view["versions"]] == [2, 1]
    assert view["versions"][0]["schema"] == TEXT
    assert view["versions"][0]["references"][0]["subject"] == "person"
    assert ground.get("/schemas/person", host)["versions"][0]["referenced_by"] == 1
    assert ground.get("/schemas", host, q="ORDERS")["total"] == 1


def test_without_a_subject_there_is_none(ground: ApiGround) -> None:
    assert ground.get("/schemas")["items"] == []
    assert ground.ask("GET", "/schemas/nobody").status == 404
    assert ground.ask("GET", "/schemas?sort=colour").status == 400
