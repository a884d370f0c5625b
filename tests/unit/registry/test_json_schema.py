"""Whether one JSON Schema takes all that another one takes, against documents that are tried."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema.validators import Draft7Validator

from kafkaesque.registry.errors import InvalidSchema
from kafkaesque.registry.json_schema import JsonSchema


def fits(old: object, new: object) -> bool:
    """Tell whether the new schema takes all that the old one takes."""
    said = JsonSchema(json.dumps(new), {}).cannot_read(JsonSchema(json.dumps(old), {}))
    return not list(said)


NUMBER, TEXT = {"type": "number"}, {"type": "string"}
WITH_DEFAULT = {**TEXT, "default": "x"}
OPEN = {"type": "object", "properties": {"a": NUMBER}}
CLOSED = {**OPEN, "additionalProperties": False}


@pytest.mark.parametrize(
    ("old", "new", "is_wider"),
    [
        ({"type": "integer"}, NUMBER, True),
        (NUMBER, {"type": "integer"}, False),
        (TEXT, {"type": ["string", "null"]}, True),
        ({"type": ["string", "null"]}, TEXT, False),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, True),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, False),
        ({"enum": [1]}, {"enum": [True]}, False),
        ({"const": "a"}, TEXT, True),
        ({**NUMBER, "minimum": 2}, {**NUMBER, "minimum": 1}, True),
        ({**NUMBER, "minimum": 1}, {**NUMBER, "minimum": 2}, False),
        ({**TEXT, "maxLength": 3}, {**TEXT, "maxLength": 4}, True),
        (TEXT, {**TEXT, "maxLength": 4}, False),
        (TEXT, {**TEXT, "minLength": 0}, True),
        (TEXT, {**TEXT, "pattern": "a"}, False),
        ({**NUMBER, "multipleOf": 4}, {**NUMBER, "multipleOf": 2}, True),
        ({**NUMBER, "multipleOf": 2}, {**NUMBER, "multipleOf": 4}, False),
        # Objects that take anything beside their properties, and those that do not.
        (OPEN, {**OPEN, "required": ["a"]}, False),
        ({**OPEN, "required": ["a"]}, OPEN, True),
        (OPEN, {**OPEN, "properties": {"a": NUMBER, "b": TEXT}}, False),
        (CLOSED, {**CLOSED, "properties": {"a": NUMBER, "b": TEXT}}, True),
        (OPEN, {"type": "object"}, True),
        (CLOSED, {"type": "object", "additionalProperties": False}, False),
        (OPEN, CLOSED, False),
        (CLOSED, OPEN, True),
        (
            CLOSED,
            {**CLOSED, "properties": {"a": NUMBER, "b": WITH_DEFAULT}, "required": ["b"]},
            True,
        ),
        ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": NUMBER}, True),
        ({"type": "array", "items": NUMBER}, {"type": "array", "items": TEXT}, False),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, False),
        (TEXT, {"anyOf": [TEXT, NUMBER]}, True),
        ({"anyOf": [TEXT, NUMBER]}, {"anyOf": [NUMBER, TEXT, {"type": "null"}]}, True),
        ({"anyOf": [TEXT, NUMBER]}, {"anyOf": [TEXT]}, False),
        ({"anyOf": [TEXT, NUMBER]}, {"type": ["string", "number"]}, True),
        ({"allOf": [TEXT, {"maxLength": 3}]}, {"allOf": [{"maxLength": 4}]}, True),
        ({"allOf": [TEXT]}, {"allOf": [TEXT, {"maxLength": 4}]}, False),
        ({"not": {"type": ["string", "null"]}}, {"not": TEXT}, True),
        ({"not": TEXT}, {"not": {"type": ["string", "null"]}}, False),
        (TEXT, True, True),
        (TEXT, False, False),
        (False, TEXT, True),
        (TEXT, {**TEXT, "title": "x", "description": "y"}, True),
        (TEXT, {**TEXT, "if": {"const": "a"}, "then": False}, False),
    ],
    ids=[str(number) for number in range(41)],
)  # fmt: skip
def test_rules(old: object, new: object, is_wider: bool) -> None:
    assert fits(old, new) == is_wider


def test_references_are_followed_into_themselves_and_others() -> None:
    def tree(kind: str) -> dict[str, object]:
        node = {"type": "object", "properties": {"v": {"type": kind}, "n": {"$ref": "#/$defs/n"}}}
        return {"$ref": "#/$defs/n", "$defs": {"n": node}}

    assert fits(tree("integer"), tree("number"))
    assert not fits(tree("number"), tree("integer"))
    outer = JsonSchema(
        '{"properties":{"a":{"$ref":"inner.json"}}}', {"inner.json": '{"type":"string"}'}
    )
    wider = JsonSchema('{"properties":{"a":{"$ref":"inner.json"}}}', {"inner.json": "true"})
    assert list(wider.cannot_read(outer)) == []
    assert list(outer.cannot_read(wider))


def test_what_stands_beside_a_reference_counts_from_2019_on() -> None:
    new = "https://json-schema.org/draft/2020-12/schema"
    for draft, is_wider in (("http://json-schema.org/draft-07/schema#", True), (new, False)):
        old = {"$schema": draft, "$defs": {"t": TEXT}, "properties": {"a": {"$ref": "#/$defs/t"}}}
        beside = {"$ref": "#/$defs/t", "maxLength": 3}
        assert fits(old, {**old, "properties": {"a": beside}}) == is_wider


def test_properties_by_pattern_are_not_forgotten() -> None:
    old = {"type": "object", "patternProperties": {"^x": TEXT}, "additionalProperties": False}
    assert not fits(old, {"type": "object", "additionalProperties": NUMBER})
    assert not fits(old, {**old, "properties": {"x1": NUMBER}})
    assert fits(old, {**old, "properties": {"x1": TEXT}})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        '{"type":"strange"}',
        '{"$ref":"#/no"}',
        '{"$ref":"http://x.example/y"}',
        "[" * 99999,
    ],
)
def test_what_is_no_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        JsonSchema(text, {})


leaves = st.sampled_from(
    [
        {},
        True,
        False,
        {"type": "integer"},
        {"type": "number", "minimum": 1},
        {"type": "string", "maxLength": 1},
        {"enum": [1, "a", None]},
        {"type": ["null", "boolean"]},
    ]
)
schemas = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
        st.builds(lambda one, two: {"allOf": [one, two]}, inner, inner),
        st.builds(lambda one: {"not": one}, inner),
        st.builds(lambda one: {"type": "array", "items": one}, inner),
        st.builds(
            lambda one, two, rest, required: {
                "type": "object",
                "properties": {"a": one, "b": two},
                "additionalProperties": rest,
                "required": required,
            },
            inner,
            inner,
            st.booleans(),
            st.lists(st.sampled_from("ab"), unique=True),
        ),
    ),
    max_leaves=5,
)
values = st.recursive(
    st.sampled_from([None, True, 0, 1, 2.5, "", "a", "ab"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)
    ),
    max_leaves=4,
)


@given(old=schemas, new=schemas, value=values)
def test_what_is_said_to_fit_is_taken(old: object, new: object, value: object) -> None:
    # By a draft of which each keyword is looked at, so that no answer is wrong the other way.
    if Draft7Validator(old).is_valid(value) and fits(old, new):
        assert Draft7Validator(new).is_valid(value)
