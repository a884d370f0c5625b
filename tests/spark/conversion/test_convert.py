"""Rules on tables: what each step makes of a value, and what it says of one that it cannot take."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kafkaesque.spark.conversion.convert import VALUE_BYTES_MAX, to_canonical
from kafkaesque.spark.conversion.load import load_rules

CANONICAL = """
version = 3
topic = "things"
key = "id"
required = ["id"]
[fields]
id = "string"
text = "string"
time = "timestamp"
day = "date"
whole = "int"
price = "decimal(6,2)"
flag = "boolean"
list = [{ n = "int" }]
nested = { inner = { deep = "string" } }
"""
PRODUCER = """
version = 1
canonical = "thing@3"
topics = ["raw"]
[form]
kind = "json"
[form.fields]
id = "string"
s = "string"
t = "string"
n = "bigint"
list = [{ n = "string" }]
a-b = "string"
[fields]
id = "id"
"""
SALT = "a salt of the tests"
SCHEMA = "key BINARY, value BINARY, topic STRING, partition INT, offset BIGINT, timestamp TIMESTAMP"


@pytest.fixture
def convert(spark: Any, tmp_path: Path) -> Any:
    """Converts JSON objects by one more line under [fields]; returns what is made, and why not."""

    def run(line: str, *values: Any) -> list[dict[str, Any] | str]:
        for folder, name, text in (
            ("canonical", "thing", CANONICAL),
            ("producers", "raw", PRODUCER + line),
        ):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / f"{name}.toml").write_text(text)
        rules = load_rules(tmp_path, salt=SALT)
        at = datetime(2026, 3, 2, tzinfo=UTC)
        rows = []
        for offset, value in enumerate(values):
            body = value if isinstance(value, bytes) else json.dumps(value).encode()
            rows.append((b"k", body, "raw", 1, offset, at))
        table = to_canonical(spark.createDataFrame(rows, SCHEMA), rules.producers[0], rules, "bad")
        return [_made(row) for row in table.collect()]

    return run


def _made(row: Any) -> dict[str, Any] | str:
    told = {each.key: bytes(each.value).decode() for each in row.headers}
    assert (told["rule"], told["topic"], told["partition"]) == ("raw@1", "raw", "1")
    if row.topic == "bad":
        return told["reason"]
    assert row.topic == "things"
    found = json.loads(row.value)
    assert bytes(row.key).decode() == found.pop("id")
    return dict(found)


def of(field: str, *values: Any) -> list[dict[str, Any]]:
    return [{"id": "1", field: value} for value in values]


# The line of a rule, the values of fields, and what is made of each.
STEPS: dict[str, tuple[str, list[dict[str, Any]], Sequence[dict[str, Any] | str]]] = {
    "rename": ('text = "a-b"', of("a-b", "x", None), [{"text": "x"}, {}]),
    "cast": (
        *('whole = "s"', of("s", "7", " 8 ", "7.5", "99999999999", "")),
        [
            {"whole": 7},
            {"whole": 8},
            "the field whole must be a int, and '7.5' (from s) is not one",
            "the field whole must be a int, and '99999999999' (from s) is not one",
            "the field whole must be a int, and '' (from s) is not one",
        ],
    ),
    "narrow": (
        *('whole = "n"', of("n", 2**31 - 1, 2**31)),
        [
            {"whole": 2**31 - 1},
            "the field whole must be a int, and '2147483648' (from n) is not one",
        ],
    ),
    "decimal": (
        *('price = "s"', of("s", "1.5", "10000.00")),
        [
            {"price": 1.5},
            "the field price must be a decimal(6,2), and '10000.00' (from s) is not one",
        ],
    ),
    "boolean": (
        *('flag = "s"', of("s", "true", "no", "maybe")),
        [
            {"flag": True},
            {"flag": False},
            "the field flag must be a boolean, and 'maybe' (from s) is not one",
        ],
    ),
    "time": (
        *('time = "t"', of("t", "2026-03-02T08:00:00+01:00", "2026-03-02 08:00", "noon")),
        [
            {"time": "2026-03-02T07:00:00.000Z"},
            {"time": "2026-03-02T08:00:00.000Z"},
            "the field time must be a timestamp, and 'noon' (from t) is not one",
        ],
    ),
    "zone": (
        *('time = { from = "t", zone = "Asia/Tokyo" }',),
        *(of("t", "2026-03-02T08:00:00Z", "2026-03-02T08:00:00", "2026-03-02"),),
        [
            {"time": "2026-03-02T08:00:00.000Z"},
            {"time": "2026-03-01T23:00:00.000Z"},
            {"time": "2026-03-01T15:00:00.000Z"},
        ],
    ),
    "format": (
        *('time = { from = "t", format = "d.M.yyyy H:mm", zone = "Europe/Berlin" }',),
        *(of("t", "1.7.2026 8:05", "31.6.2026 8:05"),),
        [
            {"time": "2026-07-01T06:05:00.000Z"},
            "the field time must be a timestamp, and '31.6.2026 8:05' (from t) is not one",
        ],
    ),
    "day": (
        *('day = { from = "t", format = "dd/MM/yyyy" }', of("t", "02/03/2026", "2/3/26")),
        [{"day": "2026-03-02"}, "the field day must be a date, and '2/3/26' (from t) is not one"],
    ),
    "unit": (
        *('time = { from = "n", unit = "ms" }', of("n", 1_700_000_000_123, 2**63 - 1)),
        [
            {"time": "2023-11-14T22:13:20.123Z"},
            "the field time must be a timestamp, and '9223372036854775807' (from n) is not one",
        ],
    ),
    "split": (
        *('text = { from = "s", split = ".*", part = -1 }', of("s", "a.*b.*c", "a", "a.*")),
        [{"text": "c"}, {"text": "a"}, {}],
    ),
    "join": (
        *('text = { from = ["s", "t"], join = "-" }',),
        *([{"id": "1", "s": "a", "t": "b"}, {"id": "1", "s": "a"}, {"id": "1"}],),
        [{"text": "a-b"}, {"text": "a"}, {}],
    ),
    "default": (
        *('text = { from = "s", default = "?" }', of("s", "x", None)),
        [{"text": "x"}, {"text": "?"}],
    ),
    "constant": ("price = { value = 2 }", of("s", "x"), [{"price": 2.0}]),
    "metadata": (
        *('text = { from = ["@topic", "@partition", "@offset", "@key"], join = "/" }',),
        *(of("s", "x"), [{"text": "raw/1/0/k"}]),
    ),
    "each": (
        *('list = { from = "list", each = { n = "n" } }',),
        *(of("list", [{"n": "1"}, None, {}], [], None, [{"n": "1"}, {"n": "x"}]),),
        [
            {"list": [{"n": 1}, None, {}]},
            {"list": []},
            {},
            "an element of the list list cannot be converted",
        ],
    ),
    "nested": ('"nested.inner.deep" = "s"', of("s", "x"), [{"nested": {"inner": {"deep": "x"}}}]),
    "redact": (
        *('text = { from = "s", mask = "redact" }', of("s", "secret", None)),
        [{"text": "*****"}, {}],
    ),
    "keep-last": (
        *('text = { from = "s", mask = "keep-last", keep = 4 }',),
        *(of("s", "4111111111111234", "1234", "12", ""),),
        [{"text": "*****1234"}, {"text": "****"}, {"text": "****"}, {"text": "****"}],
    ),
    "hash": (
        *('text = { from = "s", mask = "hash" }', of("s", "jana@example.com", "é", None)),
        [
            {"text": hmac.digest(SALT.encode(), text.encode(), hashlib.sha256).hex()}
            for text in ("jana@example.com", "é")
        ]
        + [{}],
    ),
}


@pytest.mark.parametrize("name", STEPS)
def test_steps(convert: Any, name: str) -> None:
    line, values, expected = STEPS[name]
    assert convert(line, *values) == expected


def test_what_is_no_message_at_all(convert: Any) -> None:
    poison = [b"", b"{", b"\xff", b"[1]", b'{"id": 7} {"id": 8}', b'{"s": "no id"}']
    reasons = convert("", *poison)
    assert [str(reason)[:30] for reason in reasons] == [
        "the value is no JSON object of",
        "the value is no JSON object of",
        "the value is not UTF-8",
        "the value is no JSON object of",
        "the value is no JSON object of",
        "the required field id is missi",
    ]


def test_a_tombstone_is_kept_aside(spark: Any, convert: Any, tmp_path: Path) -> None:
    convert("", {"id": "1"})
    rules = load_rules(tmp_path, salt=SALT)
    table = spark.createDataFrame([(b"k", None, "raw", 1, 5, None)], SCHEMA)
    (row,) = to_canonical(table, rules.producers[0], rules, "bad").collect()
    assert (row.topic, bytes(row.key), row.value) == ("bad", b"k", None)
    assert _made(row) == "there is no value"


def test_what_no_message_can_hold_is_cut_and_says_so(
    spark: Any, convert: Any, tmp_path: Path
) -> None:
    """Escapes make a value larger than it was; more than a message holds cannot be sent on."""
    convert('text = "s"', {"id": "1"})
    rules = load_rules(tmp_path, salt=SALT)
    large = json.dumps({"id": "1", "s": '"' * (VALUE_BYTES_MAX // 2 - 10)}).encode()
    rows = [(b"k", large + b" " * 50, "raw", 1, 0, None), (b"k", b"x" * 950_000, "raw", 1, 1, None)]
    table = to_canonical(spark.createDataFrame(rows, SCHEMA), rules.producers[0], rules, "bad")
    first, second = table.collect()
    assert _made(first) == {"text": '"' * (VALUE_BYTES_MAX // 2 - 10)}
    assert (second.topic, bytes(second.value)) == ("bad", b"x" * VALUE_BYTES_MAX)
    assert ("bytes", b"950000") in [(each.key, bytes(each.value)) for each in second.headers]
