"""The text that is kept of an Avro schema: what Avro's library for Java (1.11) writes for it."""

import json

import pytest

from kafkaesque.registry.avro import AvroSchema
from kafkaesque.registry.errors import SchemaNotFound
from kafkaesque.registry.planner import find_registered, plan_registration
from kafkaesque.registry.records import Entry, SchemaKey, SchemaValue
from kafkaesque.registry.schemas import Schema, SchemaType
from kafkaesque.registry.state import RegistryState


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("'string'", "'string'"),
        ("{'type':'string'}", "'string'"),
        (
            "{'logicalType':'date','type':'int'}",
            "{'type':'int','logicalType':'date'}",
        ),
        ("{'items':{'type':'int'},'doc':'x','type':'array'}", "{'type':'array','items':'int'}"),
        (
            "{'fields':[{'type':'long','doc':'n','name':'id','order':'ascending','default':1,'x':2}],"
            "'z':1,'doc':'d','name':'shop.Order','b':2,'type':'record','aliases':['shop.Old','q.A']}",
            "{'type':'record','name':'Order','namespace':'shop','doc':'d','fields':[{'name':'id',"
            "'type':'long','doc':'n','default':1,'x':2}],'z':1,'b':2,'aliases':['Old','q.A']}",
        ),
        (
            "{'namespace':'a','name':'R','type':'record','fields':["
            "{'name':'f','type':{'type':'fixed','size':2,'name':'F','namespace':'a'}},"
            "{'name':'g','type':['null','a.F']},{'name':'h','order':'IGNORE','type':"
            "{'default':'A','symbols':['A'],'type':'enum','name':'E','namespace':''}},"
            "{'name':'i','type':{'type':'map','values':'a.F'},'aliases':['j','j']}]}",
            "{'type':'record','name':'R','namespace':'a','fields':["
            "{'name':'f','type':{'type':'fixed','name':'F','size':2}},"
            "{'name':'g','type':['null','F']},{'name':'h','type':"
            "{'type':'enum','name':'E','namespace':'','symbols':['A'],'default':'A'},'order':'ignore'},"
            "{'name':'i','type':{'type':'map','values':'F'},'aliases':['j']}]}",
        ),
    ],
)
def test_all_spellings_of_a_schema_have_javas_text(written: str, kept: str) -> None:
    schema = AvroSchema(written.replace("'", '"'), {})
    assert schema.text == kept.replace("'", '"')
    assert AvroSchema(schema.text, {}).text == schema.text


def test_a_normalized_schema_differs_by_the_order_of_its_writers_properties_alone() -> None:
    (first, second) = (
        AvroSchema(json.dumps({"type": "long", **own}), {})
        for own in ({"b": 1, "a": 2}, {"a": 2, "b": 1})
    )
    assert first.text != second.text
    assert first.normalized == second.normalized == '{"type":"long","a":2,"b":1}'


@pytest.mark.parametrize("is_sorted", [False, True])
def test_what_earlier_releases_have_kept_is_found(is_sorted: bool) -> None:
    said = {"name": "R", "type": "record", "fields": []}
    old = json.dumps(said, separators=(",", ":"), sort_keys=is_sorted)
    state = RegistryState()
    value = SchemaValue(subject="s", version=1, id=7, schema=old)
    state.apply(Entry(SchemaKey(subject="s", version=1), value))
    asked = Schema(type=SchemaType.AVRO, text=json.dumps(said, indent=2))
    assert plan_registration(state, "s", asked).entries == ()
    assert find_registered(state, "s", asked, normalize=is_sorted, deleted=False) == value
    other = Schema(type=SchemaType.AVRO, text=json.dumps({**said, "name": "Q"}))
    with pytest.raises(SchemaNotFound):
        find_registered(state, "s", other, normalize=False, deleted=False)
