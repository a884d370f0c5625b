"""No number of a request is without bounds: what is beyond 64 bits is refused before it is used."""

from __future__ import annotations

import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import msgspec.inspect as shapes
import pytest

from kafkaesque.admin.api.api import make_routes
from kafkaesque.admin.api.calls import Route
from kafkaesque.admin.api.plots import PlotPages
from kafkaesque.admin.api.searching import SearchPages
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.sink_markers import PROGRESS_MARK
from tests.unit.admin.api_ground import ApiGround, text
from tests.unit.admin.test_api_traces import commit_all
from tests.unit.admin.told import Told


def every_route() -> list[Route]:
    """Return all operations; nothing is asked of a broker before a request comes."""
    context = cast("Any", SimpleNamespace(now=lambda: 0, doors=SimpleNamespace(clock=None)))
    nobody = cast("Any", None)
    return make_routes(context, PlotPages(context), SearchPages(context), nobody)


def unbounded(shape: Any, place: str, inside: tuple[type, ...] = ()) -> Iterator[str]:
    """Yield where a type takes any whole number, or takes whatever comes."""
    match shape:
        case shapes.IntType():
            bounds = (shape.ge, shape.gt), (shape.le, shape.lt)
            if any(all(each is None for each in either) for either in bounds):
                yield place
        case shapes.AnyType() | shapes.RawType():
            yield place
        case shapes.StructType():
            if shape.cls not in inside:
                for field in shape.fields:
                    yield from unbounded(field.type, f"{place}.{field.name}", (*inside, shape.cls))
        case shapes.UnionType():
            for each in shape.types:
                yield from unbounded(each, place, inside)
        case shapes.DictType():
            yield from unbounded(shape.key_type, f"{place}[key]", inside)
            yield from unbounded(shape.value_type, f"{place}[value]", inside)
        case shapes.TupleType():
            for each in shape.item_types:
                yield from unbounded(each, f"{place}[]", inside)
        case shapes.ListType() | shapes.VarTupleType() | shapes.SetType() | shapes.FrozenSetType():
            yield from unbounded(shape.item_type, f"{place}[]", inside)
        case (
            shapes.StrType()
            | shapes.BoolType()
            | shapes.FloatType()
            | shapes.NoneType()
            | shapes.LiteralType()
            | shapes.EnumType()
        ):
            pass
        case _:
            # What is not known here may hold a number.
            yield place


def test_every_number_of_a_request_has_bounds() -> None:
    routes = every_route()
    assert len(routes) > 80
    found = [
        f"{route.name}: {place}"
        for route in routes
        for kind in (route.query, route.body)
        if kind is not None
        for place in unbounded(shapes.type_info(kind), kind.__name__)
    ]
    assert found == []


def test_what_a_client_has_committed_hides_nobodys_groups() -> None:
    ground = ApiGround(6)
    ground.create("orders", 3)
    wheres = [TopicPartition("orders", partition) for partition in range(3)]
    for each in wheres:
        ground.publish("orders", each.partition, text("a"))
    for group, offset in (("flow", -(2**63)), ("past", 2**63 - 1)):
        commit_all(ground, group, dict.fromkeys(wheres, (offset, PROGRESS_MARK)))
    for path in ("/pipelines", "/groups", "/topics/orders/groups"):
        told = ground.get(path)
        assert [each["missing"] for each in told["sources"]] == [None] * 3, path
        assert [each["lag"] for each in told["items"]] == [3, 0], path
    assert ground.get("/groups/flow")["lag"] == 3


@pytest.fixture(scope="module")
def ground() -> ApiGround:
    ground = ApiGround(5)
    ground.create("orders", factor=1)
    ground.publish("orders", 0, text("a"))
    ground.create_queue("mails")
    return ground


def call_with(ground: ApiGround, number: int) -> dict[str, Told]:
    """Return what requests with a number in each place of theirs are answered."""
    rule = {"steps": [{"do": "set", "at": "headers.by", "value": number}]}
    dry = {"dry_run": "true"}
    return {
        "replicas": ground.ask("POST", "/topics/orders/reassign", {"replicas": [number]}),
        "partitions": ground.ask(
            "POST", "/topics/orders/reassign", {"replicas": [1], "partitions": [number]}, **dry
        ),
        "record": ground.ask("GET", "/why/topics/orders/partitions/0", offset=number),
        "message": ground.ask("GET", "/why/queues/mails", message=number),
        "message's partition": ground.ask("GET", "/why/queues/mails", message=0, partition=number),
        "rule": ground.ask("PUT", "/transformations/t", {"rule": json.dumps(rule)}),
        "messages": ground.ask("GET", "/topics/orders/messages", partition=0, offset=number),
        "time": ground.ask("GET", "/topics/orders/messages", partition=0, at=number),
        "queue": ground.ask("GET", "/queues/mails/messages", offset=number),
        "partition": ground.ask("POST", "/topics/orders/messages", {"partition": number}, **dry),
        "reset": ground.ask(
            "POST",
            "/groups/g/offsets",
            {"topic": "orders", "to": "latest", "partitions": [number]},
            **dry,
        ),
        "search": ground.ask("POST", "/search", {"topic": "orders", "positions": {"0": number}}),
        "since": ground.ask("POST", "/search", {"topic": "orders", "filter": {"since": number}}),
    }


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1, 10**300])
def test_a_number_beyond_64_bits_is_refused_in_a_sentence(ground: ApiGround, number: int) -> None:
    for place, told in call_with(ground, number).items():
        assert told.status == 400, (place, told)
        words = told.json["message"]
        assert "Expected `int`" in words or "out of range" in words, (place, words)


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_the_ends_of_64_bits_are_answered(ground: ApiGround, number: int) -> None:
    for place, told in call_with(ground, number).items():
        assert told.status in (200, 400, 404), (place, told)
    assert ground.get("/topics")["total"] == 1
