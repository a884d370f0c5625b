"""Rules that change messages: what each step does, what cannot be done, and bounds."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.routing.message import JSON_BYTES_MAX, RoutedMessage
from kafkaesque.routing.transformations.errors import BadRule, TransformationFailed
from kafkaesque.routing.transformations.rules import Rule, read_rule, write_rule
from kafkaesque.routing.transformations.transformation import (
    RESULT_LENGTH_MAX,
    STEPS_MAX,
    Transformation,
    Transformed,
)

BODY: dict[str, object] = {
    "customer": "c1",
    "total": "12.50",
    "items": [{"sku": "a"}, {"sku": "b"}],
    "note": None,
    "big": 36893488147419103232,
}


def rule(*steps: Mapping[str, object], when: str | None = None) -> Rule:
    raw = {"steps": list(steps)} | ({"when": when} if when else {})
    return read_rule(json.dumps(raw).encode())


def message(body: object = BODY, **headers: object) -> RoutedMessage:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return RoutedMessage(headers=headers, properties={"type": "order"}, body=raw)


def applied(*steps: dict[str, object], **headers: object) -> Transformed:
    body = {name: value for name, value in BODY.items() if name != "big"}
    return Transformation(rule(*steps)).apply(message(body, **headers))


def body_of(found: Transformed) -> dict[str, object]:
    decoded: dict[str, object] = json.loads(bytes(found.body))
    return decoded


def test_rename() -> None:
    found = applied(
        {"do": "rename", "at": "$.customer", "to": "$.ids.customer"},
        {"do": "rename", "at": "color", "to": "headers.colour"},
        {"do": "rename", "at": "properties.type", "to": "$.type"},
        {"do": "rename", "at": "$.missing", "to": "headers.missing"},
        {"do": "rename", "at": "$.note", "to": "headers.note"},
        color="red",
    )
    assert found.headers == {"colour": "red", "note": None}
    assert found.properties == {}
    body = body_of(found)
    assert body["ids"] == {"customer": "c1"}
    assert body["type"] == "order"
    assert "customer" not in body


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("12.50", "number", 12.5),
        ("12", "number", 12),
        (" 12 ", "whole number", 12),
        (12.0, "whole number", 12),
        ("-9223372036854775807", "whole number", -9223372036854775807),
        (True, "text", "true"),
        (12, "text", "12"),
        (1.5, "text", "1.5"),
        (b"raw", "text", "raw"),
        ("TRUE", "truth", True),
        (0, "truth", False),
    ],
)
def test_cast(value: object, kind: str, wanted: object) -> None:
    found = applied({"do": "cast", "at": "h", "to": kind}, h=value).headers["h"]
    assert found == wanted
    assert type(found) is type(wanted)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("many", "number"),
        ("1e999", "number"),
        ("nan", "number"),
        (12.5, "whole number"),
        ("9" * 20, "whole number"),
        ("1" * 5000, "number"),
        ([1], "text"),
        (b"\xff", "text"),
        ("maybe", "truth"),
    ],
)
def test_values_that_cannot_be_cast(value: object, kind: str) -> None:
    with pytest.raises(TransformationFailed, match=f"what is at h cannot become a {kind}"):
        applied({"do": "cast", "at": "h", "to": kind}, h=value)


def test_what_is_not_there_is_not_cast_or_split_or_dropped() -> None:
    found = applied(
        {"do": "cast", "at": "h", "to": "number"},
        {"do": "cast", "at": "$.note", "to": "number"},
        {"do": "split", "at": "h", "by": " ", "into": ["i"]},
        {"do": "drop", "at": "$.items[7].sku"},
        {"do": "drop", "at": "h"},
    )
    assert found.headers == {}
    assert body_of(found)["note"] is None


def test_template() -> None:
    found = applied(
        {
            "do": "template",
            "at": "properties.routing_key",
            "text": "{{orders}}.{headers.region}.{$.items[1].sku}.{$.note}{missing}.{n}",
        },
        region="eu",
        n=7,
    )
    assert found.properties["routing_key"] == "{orders}.eu.b..7"


def test_drop_and_set() -> None:
    found = applied(
        {"do": "drop", "at": "$.items[0]"},
        {"do": "drop", "at": '$["note"]'},
        {"do": "set", "at": "$.items[0].sku", "value": "z"},
        {"do": "set", "at": "version", "value": 2},
        {"do": "set", "at": "$.void", "value": None},
    )
    assert body_of(found) == {
        "customer": "c1",
        "total": "12.50",
        "items": [{"sku": "z"}],
        "void": None,
    }
    assert found.headers == {"version": 2}


def test_split() -> None:
    into = ["$.first", "headers.rest", "headers.never"]
    found = applied({"do": "split", "at": "name", "by": " ", "into": into[:2]}, name="a b c")
    assert (body_of(found)["first"], found.headers["rest"]) == ("a", "b c")
    found = applied({"do": "split", "at": "name", "by": " ", "into": into}, name="a b")
    assert found.headers == {"name": "a b", "rest": "b"}


def test_a_message_stays_as_it_is() -> None:
    given = message(BODY, h=1)
    before = given.json
    steps = ({"do": "set", "at": "h", "value": 2}, {"do": "drop", "at": "$.big"})
    found = Transformation(rule(*steps)).apply(given)
    assert found.headers == {"h": 2}
    assert given.headers == {"h": 1}
    assert given.json == before == BODY


def test_a_body_that_no_step_concerns_keeps_its_bytes() -> None:
    raw = b'{ "a" : 1.0 }'
    given = message(raw, h=1)
    assert Transformation(rule({"do": "drop", "at": "h"})).apply(given).body is given.body
    reads_only = rule({"do": "template", "at": "h", "text": "{$.a}"})
    found = Transformation(reads_only).apply(given)
    assert found.body is given.body
    assert found.headers == {"h": "1.0"}


def test_a_rule_is_for_messages_that_its_selector_takes() -> None:
    transformation = Transformation(rule({"do": "drop", "at": "h"}, when="h = 1"))
    assert transformation.apply(message(h=1)).headers == {}
    assert transformation.apply(message(b"no JSON", h=2)) == Transformed(
        {"h": 2}, {"type": "order"}, b"no JSON"
    )


def test_an_empty_body_is_filled() -> None:
    found = Transformation(rule({"do": "set", "at": "$.a.b", "value": 1})).apply(message(b""))
    assert body_of(found) == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("step", "body", "what"),
    [
        ({"do": "set", "at": "$.a", "value": 1}, b"no JSON", "the body is no JSON"),
        ({"do": "set", "at": "$.a.b", "value": 1}, b'{"a": 1}', "something is in the way"),
        ({"do": "set", "at": "$.a[3]", "value": 1}, b'{"a": []}', "something is in the way"),
        ({"do": "template", "at": "h", "text": "{$.a}"}, b'{"a": []}', "part of a text"),
        ({"do": "split", "at": "$.a", "by": ",", "into": ["h"]}, b'{"a": {}}', "be split"),
        (
            {"do": "set", "at": "$.b", "value": "x" * 4000},
            b'{"a": "' + b"x" * (JSON_BYTES_MAX - 100) + b'"}',
            "more than 1048576 bytes",
        ),
        (
            {"do": "template", "at": "h", "text": "{$.a}"},
            b'{"a": "' + b"x" * (RESULT_LENGTH_MAX + 1) + b'"}',
            "more than 65536 characters",
        ),
    ],
)
def test_messages_that_a_step_cannot_be_done_with(
    step: dict[str, object], body: bytes, what: str
) -> None:
    with pytest.raises(TransformationFailed, match=what):
        Transformation(rule(step)).apply(message(body))


@pytest.mark.parametrize(
    ("value", "what"), [("\udcff", "written as JSON"), (b"raw", "cast it to a text first")]
)
def test_values_that_are_not_jsons(value: object, what: str) -> None:
    with pytest.raises(TransformationFailed, match=what):
        applied({"do": "rename", "at": "h", "to": "$.h"}, h=value)


def test_what_was_taken_before_is_read_again() -> None:
    """Rules that are kept are compiled when a broker starts, also those that are refused now."""
    found = rule({"do": "set", "at": "$", "value": 1}, when="a OR 1")
    assert Transformation(found).apply(message(a=True)).headers == {"a": True, "$": 1}
    quoted = rule({"do": "set", "at": 'headers."$"', "value": 1})
    assert not any(place.lacks_quotes for place in Transformation(quoted).places)


def test_large_whole_numbers_of_a_body_stay_exact() -> None:
    steps = rule({"do": "set", "at": "$.a", "value": 1})
    assert body_of(Transformation(steps).apply(message(BODY))) == {**BODY, "a": 1}


@pytest.mark.parametrize(
    ("step", "what"),
    [
        ({"do": "drop", "at": "a b"}, "step 1: 'a b' is no place"),
        ({"do": "drop", "at": "$."}, "is no place"),
        ({"do": "drop", "at": "$.a = 1"}, "is no place"),
        ({"do": "drop", "at": "'"}, "does not end"),
        ({"do": "drop", "at": "body.a"}, "only headers and properties have a dot"),
        ({"do": "template", "at": "a", "text": "{b"}, "stands alone at character 1"),
        ({"do": "template", "at": "a", "text": "{}"}, "is no place"),
        ({"do": "template", "at": "a", "text": "x" * 5000}, "at most 4096"),
        ({"do": "template", "at": "a", "text": "{b}" * 65}, "at most 64 places"),
        ({"do": "split", "at": "a", "by": "", "into": ["b"]}, "a separator"),
        ({"do": "split", "at": "a", "by": ",", "into": []}, "1 to 64 places"),
        ({"do": "set", "at": "a", "value": "x" * 5000}, "at most 4096"),
        ({"do": "dance", "at": "a"}, "cannot be read"),
        ({"do": "set", "at": "a", "value": [1]}, "cannot be read"),
        ({"do": "cast", "at": "a", "to": "date"}, "cannot be read"),
    ],
)
def test_steps_that_are_none(step: dict[str, object], what: str) -> None:
    with pytest.raises(BadRule, match=what):
        Transformation(rule(step))


def test_rules_that_are_none() -> None:
    with pytest.raises(BadRule, match="at most 64 steps"):
        Transformation(rule(*[{"do": "drop", "at": "a"}] * (STEPS_MAX + 1)))
    with pytest.raises(BadRule, match=r"when: a value is missing"):
        Transformation(rule(when="a ="))
    with pytest.raises(BadRule, match="cannot be read"):
        read_rule(b"[" * 100_000)


places = st.sampled_from(("a", "headers.b", "properties.c", "$.a", "$.a.b", "$.l[0]", "$.l[1].x"))
steps = st.one_of(
    st.fixed_dictionaries({"do": st.just("rename"), "at": places, "to": places}),
    st.fixed_dictionaries({"do": st.just("drop"), "at": places}),
    st.fixed_dictionaries(
        {
            "do": st.just("cast"),
            "at": places,
            "to": st.sampled_from(("text", "number", "whole number", "truth")),
        }
    ),
    st.fixed_dictionaries({"do": st.just("set"), "at": places, "value": st.integers(0, 3)}),
    st.fixed_dictionaries(
        {
            "do": st.just("split"),
            "at": places,
            "by": st.just(","),
            "into": st.lists(places, min_size=1, max_size=2),
        }
    ),
    st.fixed_dictionaries(
        {"do": st.just("template"), "at": places, "text": places.map(lambda each: f"<{{{each}}}>")}
    ),
)
bodies = st.one_of(
    st.sampled_from(
        (b"", b"{}", b"null", b"1", b"x", b'{"a": {"b": "1,2"}, "l": [1, {"x": true}]}')
    ),
    st.binary(max_size=10),
)


@given(
    chosen=st.lists(steps, max_size=5),
    headers=st.dictionaries(st.sampled_from("ab"), st.one_of(st.text(max_size=3), st.integers())),
    body=bodies,
)
def test_a_rule_gives_the_same_each_time_or_fails_each_time(
    chosen: list[dict[str, object]], headers: dict[str, object], body: bytes
) -> None:
    found = rule(*chosen)
    assert read_rule(write_rule(found)) == found

    def outcome() -> Transformed | str:
        given_message = RoutedMessage(headers=headers, body=body)
        try:
            return Transformation(found).apply(given_message)
        except TransformationFailed as error:
            return str(error)
        finally:
            assert given_message.headers is headers

    before = dict(headers)
    assert outcome() == outcome()
    assert headers == before
