"""Selectors against an evaluator by SQL-92's truth tables, and LIKE against a plain one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.selectors.like import LikePattern
from kafkaesque.routing.selectors.selector import Selector

TRUE, FALSE, UNKNOWN = 2, 0, 1


@dataclass(frozen=True)
class Part:
    """A part of a selector: its text, and what it is made of."""

    text: str
    kind: str
    parts: tuple[Part, ...] = ()
    value: object = None


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


scalars = st.one_of(
    st.integers(-5, 5),
    st.sampled_from((0.5, -2.0, 1.0)),
    st.sampled_from(("", "a", "ab", "'", "%")),
)
header_values = st.one_of(scalars, st.booleans(), st.none())
messages = st.dictionaries(st.sampled_from("abc"), header_values)


def literal(value: object) -> Part:
    if isinstance(value, bool):
        return Part(str(value).upper(), "literal", (), value)
    text = quoted(value) if isinstance(value, str) else repr(value)
    return Part(f"({text})" if text.startswith("-") else text, "literal", (), value)


values = st.recursive(
    st.one_of(
        st.sampled_from("abcd").map(lambda name: Part(name, "name", (), name)),
        st.sampled_from("abcd").map(lambda name: Part(f"$.{name}", "path", (), name)),
        scalars.map(literal),
    ),
    lambda inner: st.tuples(inner, st.sampled_from("+-*/"), inner).map(
        lambda each: Part(f"({each[0].text} {each[1]} {each[2].text})", each[1], (each[0], each[2]))
    ),
    max_leaves=4,
)


def compared(each: tuple[Part, str, Part]) -> Part:
    return Part(f"{each[0].text} {each[1]} {each[2].text}", each[1], (each[0], each[2]))


def between(each: tuple[Part, bool, Part, Part]) -> Part:
    left, is_not, low, high = each
    text = f"{left.text} {'NOT ' if is_not else ''}BETWEEN {low.text} AND {high.text}"
    found = Part(text, "between", (left, low, high))
    return Part(text, "not", (found,)) if is_not else found


def listed(each: tuple[Part, bool, list[int | float | str]]) -> Part:
    left, is_not, options = each
    words = ", ".join(quoted(o) if isinstance(o, str) else repr(o) for o in options)
    text = f"{left.text} {'not ' if is_not else ''}in ({words})"
    found = Part(text, "in", (left,), tuple(options))
    return Part(text, "not", (found,)) if is_not else found


conditions = st.one_of(
    st.tuples(values, st.sampled_from(("=", "<>", "<", "<=", ">", ">=")), values).map(compared),
    st.tuples(values, st.booleans(), values, values).map(between),
    st.tuples(values, st.booleans(), st.lists(scalars, min_size=1, max_size=3)).map(listed),
    values.map(lambda left: Part(f"{left.text} IS NULL", "null", (left,))),
    values.map(lambda left: Part(f"{left.text} IS NOT NULL", "not", (Part("", "null", (left,)),))),
    st.sampled_from("abc").map(lambda name: Part(name, "name", (), name)),
)
selectors = st.recursive(
    conditions,
    lambda inner: st.one_of(
        inner.map(lambda each: Part(f"NOT ({each.text})", "not", (each,))),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda each: Part(" AND ".join(f"({e.text})" for e in each), "and", tuple(each))
        ),
        st.lists(inner, min_size=2, max_size=3).map(
            lambda each: Part(" or ".join(f"({e.text})" for e in each), "or", tuple(each))
        ),
    ),
    max_leaves=6,
)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def value_of(part: Part, message: Mapping[str, object]) -> object:
    """Return a value; None for NULL."""
    if part.kind == "literal":
        return part.value
    if part.kind in ("name", "path"):
        return message.get(str(part.value))
    left, right = (value_of(each, message) for each in part.parts)
    if not is_number(left) or not is_number(right):
        return None
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    match part.kind:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case _:
            return None if right == 0 else left / right


def compare(sign: str, left: object, right: object) -> int:
    if left is None or right is None:
        return UNKNOWN
    is_alike = (is_number(left) and is_number(right)) or type(left) is type(right)
    if not is_alike or (isinstance(left, bool) and sign not in ("=", "<>")):
        return FALSE
    is_less, is_same = left < right, left == right  # type: ignore[operator]
    found = {
        "=": is_same,
        "<>": not is_same,
        "<": is_less,
        "<=": is_less or is_same,
        ">": not is_less and not is_same,
        ">=": not is_less,
    }[sign]
    return TRUE if found else FALSE


def truth(part: Part, message: Mapping[str, object]) -> int:
    """Return the truth value by the tables: AND is the least, OR the greatest, NOT turns round."""
    match part.kind:
        case "and":
            return min(truth(each, message) for each in part.parts)
        case "or":
            return max(truth(each, message) for each in part.parts)
        case "not":
            return TRUE - truth(part.parts[0], message)
        case "null":
            return TRUE if value_of(part.parts[0], message) is None else FALSE
        case "name":
            value = message.get(str(part.value))
            return UNKNOWN if not isinstance(value, bool) else TRUE if value else FALSE
        case "between":
            value, low, high = (value_of(each, message) for each in part.parts)
            return min(compare(">=", value, low), compare("<=", value, high))
        case "in":
            value = value_of(part.parts[0], message)
            assert isinstance(part.value, tuple)
            return max(compare("=", value, each) for each in part.value)
        case sign:
            left, right = (value_of(each, message) for each in part.parts)
            return compare(sign, left, right)


@given(selector=selectors, headers=messages)
def test_a_selector_is_what_the_truth_tables_say(
    selector: Part, headers: dict[str, object]
) -> None:
    compiled = Selector(selector.text)
    message = RoutedMessage(headers=headers, body=msgspec.json.encode(headers))
    wanted = {TRUE: True, FALSE: False}.get(truth(selector, headers))
    assert compiled.value(message) is wanted
    assert compiled.matches(message) is (wanted is True)


signs = st.sampled_from("ab%_")


@given(pattern=st.text(signs, max_size=8), text=st.text(st.sampled_from("ab%_"), max_size=10))
def test_like_is_what_its_definition_says(pattern: str, text: str) -> None:
    @cache
    def matches(at: int, position: int) -> bool:
        if at == len(pattern):
            return position == len(text)
        if pattern[at] == "%":
            return any(matches(at + 1, later) for later in range(position, len(text) + 1))
        if position == len(text):
            return False
        return pattern[at] in ("_", text[position]) and matches(at + 1, position + 1)

    assert LikePattern(pattern).matches(text) is matches(0, 0)


words = st.sampled_from(
    "a b 'x' 1 2.5 = <> < ( ) , + - * / . AND OR NOT IN LIKE BETWEEN IS NULL ESCAPE TRUE $.a $ [0] "
    "\" ' é".split()
)


@given(text=st.one_of(st.text(max_size=60), st.lists(words, max_size=12).map(" ".join)))
def test_every_text_is_a_selector_or_says_where_it_is_none(text: str) -> None:
    try:
        Selector(text).value(RoutedMessage(headers={"a": 1}))
    except BadSelector as error:
        if not 0 <= error.position <= len(text):
            raise
