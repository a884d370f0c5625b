"""Arguments and headers as they are given on the command line."""

from __future__ import annotations

import json

import pytest

from kafkaesque.cli.exchange_arguments import parse_arguments, parse_headers, shown_arguments


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7),
        ("1e3", 1000.0),
        ("true", True),
        ('{"a": [1]}', {"a": [1]}),
        ("plain", "plain"),
        ('"1"', "1"),
        ("", ""),
        # These are no numbers in JSON, and nobody could read them.
        ("NaN", "NaN"),
        ("-Infinity", "-Infinity"),
        ("1e999", "1e999"),
        ("[-1e999]", "[-1e999]"),
    ],
)
def test_a_value_has_the_type_that_json_gives_it_and_else_is_text(text: str, value: object) -> None:
    for parse in (parse_arguments, parse_headers):
        assert parse([f"name={text}"]) == {"name": value}
    given = shown_arguments(json.dumps({"name": value}))
    assert parse_arguments([given]) == {"name": value}
