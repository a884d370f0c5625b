"""RabbitMQ's permission patterns as names and prefixes, and back."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkaesque.admin.rabbitmq.errors import ApiRefused
from kafkaesque.admin.rabbitmq.name_patterns import Term, read_pattern, write_pattern

TERMS = st.lists(
    st.builds(Term, st.text("ab.-*$|(\\", min_size=1, max_size=4), st.booleans()),
    min_size=0,
    max_size=4,
)


@pytest.mark.parametrize(
    ("pattern", "terms"),
    [
        ("", []),
        ("^$", []),
        (".*", [Term("", True)]),
        ("^.*$", [Term("", True)]),
        ("^orders$", [Term("orders", False)]),
        ("^orders", [Term("orders", True)]),
        ("^orders.*", [Term("orders", True)]),
        (r"^orders\..*$", [Term("orders.", True)]),
        ("^(orders|bills-.*)$", [Term("orders", False), Term("bills-", True)]),
        ("^(orders|bills)", [Term("orders", True), Term("bills", True)]),
        ("^(?:orders|bills).*$", [Term("orders", True), Term("bills", True)]),
        (r"^amq\.gen.*|^mine$", [Term("amq.gen", True), Term("mine", False)]),
    ],
)
def test_what_rules_can_say_is_read(pattern: str, terms: list[Term]) -> None:
    assert read_pattern(pattern) == terms


@pytest.mark.parametrize(
    "pattern",
    [
        "orders",
        "^or.ers$",
        "^[ab]$",
        r"^\d$",
        "^a+",
        "^(a|(b))$",
        "^a$|b",
        "^(|a)$",
        "^a\\",
        "(",
        "$",
    ],
)
def test_what_rules_cannot_say_is_refused(pattern: str) -> None:
    with pytest.raises(ApiRefused, match="no pattern that rules can say"):
        read_pattern(pattern)


@example([Term("\\", False), Term("|", False)], "")
@given(TERMS, st.text("ab.-*$|(\\", max_size=6))
def test_what_is_written_means_the_same(terms: list[Term], name: str) -> None:
    pattern = write_pattern(terms)
    assert set(read_pattern(pattern)) == set(terms)
    fits = any(name.startswith(t.text) if t.is_prefix else name == t.text for t in terms)
    # As RabbitMQ asks: somewhere in the name. `^$` fits the empty name, which nothing has.
    assert bool(re.search(pattern, name)) == fits or not (terms or name)
