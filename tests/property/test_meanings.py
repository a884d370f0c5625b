"""What properties of AMQP mean to other protocols, there and back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.chassis.meanings import properties_of, shown_headers, shown_key, stored_of
from kafkaesque.model.message_headers import NOT_AFTER, PRIORITY, STORED_AMQP
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.protocols.amqp.stored_message import read_stored, write_stored
from kafkaesque.protocols.amqp.wire import Timestamp

NOW_MS = 1_700_000_000_000
#: Texts of a property: short strings.
texts = st.text(st.characters(codec="utf-8"), max_size=60)
numbers = st.integers(0, 255)
#: Names of headers that mean nothing to brokers.
names = texts.filter(lambda name: not name.startswith("kafkaesque.")).map(lambda name: "x-" + name)
plain_properties = st.builds(
    Properties,
    content_type=st.none() | texts,
    content_encoding=st.none() | texts,
    correlation_id=st.none() | texts,
    reply_to=st.none() | texts,
    message_id=st.none() | texts,
    type=st.none() | texts,
    user_id=st.none() | texts,
    app_id=st.none() | texts,
    delivery_mode=st.just(2),
    priority=st.none() | numbers,
    timestamp=st.none() | st.integers(0, 2**32).map(Timestamp),
    headers=st.none() | st.dictionaries(names, texts, min_size=1, max_size=4),
)


def record_headers(
    properties: Properties, key: str = "key"
) -> tuple[tuple[str, bytes | None], ...]:
    return ((STORED_AMQP, write_stored("exchange", key, write_properties(properties))),)


@given(plain_properties)
def test_there_and_back_is_the_same(properties: Properties) -> None:
    shown = shown_headers(record_headers(properties))
    assert STORED_AMQP not in dict(shown)
    assert properties_of(shown, NOW_MS) == properties


@given(texts, texts, st.binary(min_size=2, max_size=60))
def test_what_is_stored_is_read(exchange: str, key: str, properties: bytes) -> None:
    stored = read_stored(write_stored(exchange, key, properties))
    assert stored == (exchange, key, properties)


@given(st.binary(max_size=80))
def test_what_is_not_ours_says_nothing(raw: bytes) -> None:
    stored = read_stored(raw)
    assert stored is None or write_stored(*stored) == raw
    headers = ((STORED_AMQP, raw),)
    assert isinstance(shown_headers(headers), tuple)


@pytest.mark.parametrize(
    ("field", "shown"),
    [
        ("text", b"text"),
        (b"\xff", b"\xff"),
        (7, b"7"),
        (1.5, b"1.5"),
        (True, b"true"),
        (None, None),
        ([1, "a"], b'[1,"a"]'),
        ({"a": [None]}, b'{"a":[null]}'),
    ],
)
def test_fields_of_a_table_are_bytes_elsewhere(field: object, shown: bytes | None) -> None:
    headers = record_headers(Properties(headers={"x": field}))
    assert dict(shown_headers(headers))["x"] == shown


def test_what_brokers_say_is_not_what_a_publisher_says() -> None:
    """A header of a name that brokers use would say something else to them."""
    headers = record_headers(Properties(headers={PRIORITY: "9", "sqs.message": "{}"}))
    assert shown_headers(headers) == ()


def test_expiry_is_a_time_elsewhere_and_what_is_left_here() -> None:
    headers = (*record_headers(Properties()), (NOT_AFTER, b"%d" % (NOW_MS + 5_000)))
    shown = shown_headers(headers)
    assert dict(shown)["expires-at"] == b"%d" % (NOW_MS + 5_000)
    assert properties_of(shown, NOW_MS + 1_000).expiration == "4000"
    assert properties_of(shown, NOW_MS + 9_000).expiration == "0"


def test_a_routing_key_is_the_key() -> None:
    headers = record_headers(Properties(), "a.b")
    assert shown_key(headers, None) == b"a.b"
    assert shown_key(headers, b"own") == b"own"
    assert shown_key((), None) is None
    assert stored_of(()) is None


def test_of_headers_with_one_name_the_first_counts() -> None:
    said: Any = (("a", b"1"), ("a", b"2"), ("content-type", b"x" * 300), ("b", b"\xff"))
    found = properties_of(said, NOW_MS)
    # A property is short; a longer one is a header.
    assert found.headers == {"a": "1", "content-type": "x" * 300, "b": b"\xff"}
