"""Selectors: what they mean, what is wrong with texts that are none, and their bounds."""

import time
from decimal import Decimal

import pytest

from kafkaesque.routing.errors import BadSelector
from kafkaesque.routing.message import JSON_BYTES_MAX, RoutedMessage
from kafkaesque.routing.selectors.like import TEXT_LENGTH_MAX, LikePattern
from kafkaesque.routing.selectors.selector import NESTING_MAX, Selector, read_selector
from kafkaesque.routing.selectors.tokens import SELECTOR_LENGTH_MAX

MESSAGE = RoutedMessage(
    key="orders.eu",
    headers={
        "color": "red",
        "weight": 12,
        "price": 9.5,
        "is_new": True,
        "nothing": None,
        "content-type": "x",
        "raw": b"text",
        "odd": b"\xff",
        "quote": "it's 5%_",
        "properties": "p",
    },
    properties={"priority": 7, "delivery_mode": 2, "message_id": "m1"},
    body=b'{"order": {"total": 99.5, "items": [{"sku": "a"}, {"sku": "b"}], "unit price": 3,'
    b' "note": null, "big": 36893488147419103232}}',
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("color = 'red'", True),
        ("color <> 'red'", False),
        ("missing = 'red'", None),
        ("missing <> 'red'", None),
        ("NOT missing = 'red'", None),
        ("missing IS NULL", True),
        ("color IS NOT NULL", True),
        ("nothing IS NULL", True),
        ("missing = 1 OR color = 'red'", True),
        ("missing = 1 AND color = 'blue'", False),
        ("missing = 1 AND color = 'red'", None),
        ("weight > 10 and weight < 13", True),
        ("weight >= 12.0 AND weight <= 12", True),
        ("weight BETWEEN 10 AND 12", True),
        ("weight NOT BETWEEN 10 AND 12", False),
        ("weight BETWEEN missing AND 11", False),
        ("weight BETWEEN 1 AND missing", None),
        ("color IN ('red', 'blue')", True),
        ("color NOT IN ('blue')", True),
        ("weight IN (1, 12.0)", True),
        ("weight IN (-12)", False),
        ("missing NOT IN ('blue')", None),
        ("is_new IN (1)", False),
        ("color LIKE 'r%'", True),
        ("color LIKE 'r_d'", True),
        ("color LIKE '_'", False),
        ("color NOT LIKE '%e%'", False),
        ("missing LIKE '%'", None),
        ("weight LIKE '%'", False),
        ("quote LIKE 'it''s 5!%!_' ESCAPE '!'", True),
        ("quote LIKE '%!%_' ESCAPE '!'", True),
        ("is_new", True),
        ("NOT is_new", False),
        ("color", None),
        ("weight + 1", None),
        ("is_new = TRUE", True),
        ("is_new = 1", False),
        ("is_new > FALSE", False),
        ("color = 1", False),
        ("NOT color = 1", True),
        ("color < 'rfe'", True),
        ("raw = 'text'", True),
        ("odd = 'text'", False),
        ("odd IS NULL", False),
        ("weight + 2 * 3 = 18", True),
        ("(weight + 2) * 3 = 42", True),
        ("weight - 2 - 3 = 7", True),
        ("weight / 8 = 1.5", True),
        ("weight / 0 = 1", None),
        ("-weight = - - -12", True),
        ("+weight = 12", True),
        ("color + 1 = 2", None),
        ("9223372036854775807 + 1 > 9223372036854775806", True),
        ("1e308 * 10 > 1", None),
        ("1.5E1 = 15 AND .5 = 0.5 AND 7. = 7 AND 62L = 62 AND 2d = 2", True),
        ("\"content-type\" = 'x'", True),
        ("JMSPriority = 7", True),
        ("JMSDeliveryMode = 'PERSISTENT'", True),
        ("JMSMessageID LIKE 'm_'", True),
        ("properties.priority = 7", True),
        ("properties.routing_key = 'orders.eu'", True),
        ("headers.priority IS NULL", True),
        ("properties = 'p' AND headers.properties = 'p'", True),
        ("$.order.total > 99", True),
        ("$.order.items[1].sku = 'b'", True),
        ("$.order.items[2].sku = 'b'", None),
        ("$.order.items.sku IS NULL", True),
        ("$.order.items IS NOT NULL", True),
        ("$.order.items = 1", False),
        ('$.order["unit price"] = 3', True),
        ('$.order."unit price" = 3', True),
        ("$.order.note IS NULL", True),
        ("$.order.big > 1", True),
        ("$[0] IS NULL", True),
        ("$x IS NULL", True),
        ("color = 'red' AND (missing = 1 OR NOT (price > 10))", True),
    ],
)
def test_what_a_selector_says(text: str, value: bool | None) -> None:
    selector = Selector(text)
    assert selector.value(MESSAGE) is value
    assert selector.matches(MESSAGE) is (value is True)


@pytest.mark.parametrize(
    ("text", "what", "position"),
    [
        ("", "a value is missing, and the selector ends", 0),
        ("color =", "a value is missing", 7),
        ("color = 'red", "does not end", 8),
        ('"color = 1', "does not end", 0),
        ("color = 'red' blue", "should end here", 14),
        ("(color = 'red'", ") is missing", 14),
        ("color == 'red'", "a value is missing", 7),
        ("color ! 'red'", "'!' has no meaning", 6),
        ("color IN ()", "a text in single quotes", 10),
        ("color IN ('a' 'b')", ", is missing", 14),
        ("weight IN (-'a')", "a number is missing", 12),
        ("color LIKE weight", "a text in single quotes", 11),
        ("color LIKE 'a' ESCAPE 'ab'", "one character", 11),
        ("color LIKE 'a!b' ESCAPE '!'", "escapes nothing", 11),
        ("color LIKE 'a!' ESCAPE '!'", "escapes nothing", 11),
        ("weight BETWEEN 1 OR 2", "AND is missing", 17),
        ("weight NOT = 1", "NOT is followed by", 11),
        ("weight IS 1", "NULL is missing", 10),
        ("weight = 9223372036854775808", "above 2^63-1", 9),
        ("weight = 1e999", "too large", 9),
        ("weight = 1.5L", "a whole one", 9),
        ("weight = 12ab", "does not begin with a digit", 9),
        ("body.total = 1", "have a dot", 5),
        ("$. = 1", "a path goes on", 1),
        ("$[x] = 1", "a path goes on", 1),
        ("$.a" + ".a" * 32 + " = 1", "at most 32 steps", 65),
    ],
)
def test_what_is_wrong_with_a_text_that_is_none(text: str, what: str, position: int) -> None:
    with pytest.raises(BadSelector) as caught:
        Selector(text)
    assert what in caught.value.what
    assert caught.value.position == position
    assert f"character {position + 1}" in str(caught.value)


@pytest.mark.parametrize(("opens", "closes"), [("(", ")"), ("NOT ", ""), ("- ", "")])
def test_nesting_has_a_bound(opens: str, closes: str) -> None:
    Selector(opens * NESTING_MAX + "1" + closes * NESTING_MAX).value(MESSAGE)
    with pytest.raises(BadSelector, match="nested at most"):
        Selector(opens * (NESTING_MAX + 1) + "1" + closes * (NESTING_MAX + 1))


def test_a_long_selector_is_refused_and_one_below_the_bound_runs() -> None:
    for link in (" OR a = 1", " AND NOT a = 1", "+1"):
        text = "1 = 1" + link * ((SELECTOR_LENGTH_MAX - 5) // len(link))
        Selector(text).value(MESSAGE)
    with pytest.raises(BadSelector, match="8192 characters"):
        Selector("a" * (SELECTOR_LENGTH_MAX + 1))


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[" * 100_000, b'"' + b"a" * JSON_BYTES_MAX + b'"', b"\xff", b"1e999"]
)
def test_a_body_that_cannot_be_read_is_unknown(body: bytes) -> None:
    assert Selector("$.a = 1").value(RoutedMessage(body=body)) is None


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("'a'", 0),
        ("1", 0),
        ("-weight", 0),
        ("weight + 1", 0),
        ("('a')", 0),
        ("color = 'red' OR 1", 17),
        ("'x' AND color = 'red'", 0),
        ("color = 'red' AND (missing = 1 OR 'b')", 34),
        ("NOT 'a'", 4),
        ("is_new AND NOT (1)", 15),
    ],
)
def test_a_value_is_no_condition(text: str, position: int) -> None:
    with pytest.raises(BadSelector, match="no condition: compare it") as error:
        read_selector(text)
    assert error.value.position == position
    # One that was taken before is still read, and true for nothing that it was not.
    assert Selector(text).text == text


@pytest.mark.parametrize(
    "text",
    [
        "is_new",
        "TRUE",
        "properties.routing_key",
        "$.order.total",
        "(is_new)",
        "NOT is_new OR (TRUE)",
        "1 = 1",
        "(1) + 2 = weight",
        "'a' IN ('a')",
        "'a' LIKE 'a'",
        "1 IS NOT NULL",
        "1 BETWEEN 0 AND 2",
        "NOT (1 = 2) AND 'a' = color",
    ],
)
def test_conditions(text: str) -> None:
    assert read_selector(text).misfit is None


def test_numbers_of_a_protocols_own_types() -> None:
    class Seconds(int):
        pass

    message = RoutedMessage(headers={"price": Decimal("1.5")}, properties={"timestamp": Seconds(5)})
    assert Selector("properties.timestamp = 5 AND JMSTimestamp + 1 = 6").matches(message)
    assert Selector("price BETWEEN 1 AND 2").matches(message)


def test_a_body_is_looked_into_only_if_a_selector_says_so() -> None:
    assert Selector("$.a = 1").looks_into_body
    assert not Selector("a = '$.a'").looks_into_body


def test_no_pattern_takes_long() -> None:
    text = "a" * TEXT_LENGTH_MAX
    for pattern in ("%a_" * 80 + "b", "_" * 100 + "%b%" + "a_%" * 50, "%" + "a" * 200 + "b%"):
        begun = time.process_time()
        assert LikePattern(pattern).matches(text) is False
        assert time.process_time() - begun < 2
    assert LikePattern("%a_").matches(text + "a") is None
    with pytest.raises(ValueError, match="at most 256"):
        LikePattern("%" * 257)
