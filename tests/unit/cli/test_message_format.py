"""Lines and messages: what `consume` prints, `publish` reads back."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.message_format import (
    Format,
    Outgoing,
    choose_format,
    line_reader,
    line_writer,
)

Headers = list[tuple[str, bytes | None]]


@dataclass
class Printed:
    """A message as librdkafka gives it."""

    key_: bytes | None = None
    value_: bytes | None = None
    headers_: Headers | None = None

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 42

    def timestamp(self) -> tuple[int, int]:
        return (1, 1700000000000)

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> Headers | None:
        return self.headers_


@pytest.mark.parametrize(
    ("chosen", "separator", "line", "key", "value"),
    [
        (Format.VALUE, None, b"a:b", None, b"a:b"),
        (Format.VALUE, None, b"", None, b""),
        (Format.KEY_VALUE, None, b"k\tv\tw", b"k", b"v\tw"),
        (Format.KEY_VALUE, ":", b"k:v:w", b"k", b"v:w"),
        (Format.KEY_VALUE, "::", b"k:v::w", b"k:v", b"w"),
        (Format.KEY_VALUE, ":", b"no separator", None, b"no separator"),
        (Format.KEY_VALUE, ":", b":v", b"", b"v"),
        (Format.JSON, None, b'{"value": "v"}', None, b"v"),
        (Format.JSON, None, b'{"key": "k", "value": null}', b"k", None),
        (Format.JSON, None, b'{"value": {"x": [1, "\xc3\xa4"]}}', None, b'{"x":[1,"\xc3\xa4"]}'),
        (Format.JSON, None, b'{"value": {"base64": "/w=="}}', None, b"\xff"),
        (Format.JSON, None, b'{"value": 7}', None, b"7"),
    ],
)
def test_lines_become_messages(
    chosen: Format, separator: str | None, line: bytes, key: bytes | None, value: bytes | None
) -> None:
    message = line_reader(chosen, separator)(line)
    assert (message.key, message.value) == (key, value)


@pytest.mark.parametrize("headers", ['{"a": "1", "b": null}', '[["a", "1"], ["b", null]]'])
def test_headers_are_an_object_or_pairs(headers: str) -> None:
    line = f'{{"value": "v", "headers": {headers}, "partition": 2, "timestamp_ms": 5}}'
    message = line_reader(Format.JSON, None)(line.encode())
    assert list(message.headers) == [("a", b"1"), ("b", None)]
    assert (message.partition, message.timestamp_ms) == (2, 5)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"not json",
        b"[]",
        b'{"key": "k"}',
        b'{"value": "v", "headers": 3}',
        b'{"value": "v", "headers": [["a"]]}',
        b'{"value": "v", "headers": [3]}',
        b'{"value": "v", "partition": -1}',
        b'{"value": "v", "partition": true}',
        b'{"value": "v", "timestamp_ms": "now"}',
        b'{"value": {"base64": "?"}}',
        b'{"value": 1, "zork": 2}',
        b'{"value": "\xff"}',
    ],
)
def test_what_is_no_message_is_refused_with_the_line(line: bytes) -> None:
    with pytest.raises(CommandFailed, match="not a message in JSON"):
        line_reader(Format.JSON, None)(line)


@pytest.mark.parametrize(
    ("name", "hint"), [("zork", "there are topic, partition"), ("header", "did you mean headers?")]
)
def test_an_unknown_field_is_refused_by_name(name: str, hint: str) -> None:
    with pytest.raises(CommandFailed) as refused:
        line_reader(Format.JSON, None)(f'{{"value": 1, "{name}": 2}}'.encode())
    assert f"unknown field '{name}': {hint}" in refused.value.message


def test_plain_output_is_the_value_or_key_and_value() -> None:
    message = Printed(key_=b"k", value_=b"v")
    assert line_writer(Format.VALUE, None)(message) == b"v\n"
    assert line_writer(Format.KEY_VALUE, None)(message) == b"k\tv\n"
    assert line_writer(Format.KEY_VALUE, " = ")(message) == b"k = v\n"
    assert line_writer(Format.KEY_VALUE, "=")(Printed(value_=b"v")) == b"v\n"
    assert line_writer(Format.VALUE, None)(Printed()) == b"\n"


def test_json_output_says_everything() -> None:
    message = Printed(key_=b"\xff", value_="ä".encode(), headers_=[("h", b"1"), ("n", None)])
    line = line_writer(Format.JSON, None)(message)
    assert line.endswith(b"}\n")
    assert json.loads(line) == {
        "topic": "t",
        "partition": 3,
        "offset": 42,
        "timestamp_ms": 1700000000000,
        "key": {"base64": "/w=="},
        "value": "ä",
        "headers": [["h", "1"], ["n", None]],
    }


@given(
    key=st.none() | st.binary(),
    value=st.none() | st.binary(),
    headers=st.lists(st.tuples(st.text(), st.none() | st.binary())),
)
def test_json_lines_round_trip(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    line = line_writer(Format.JSON, None)(Printed(key_=key, value_=value, headers_=headers))
    assert line.count(b"\n") == 1
    assert line_reader(Format.JSON, None)(line.removesuffix(b"\n")) == Outgoing(
        key=key, value=value, headers=headers, partition=3, timestamp_ms=1700000000000
    )


def test_a_separator_alone_means_key_value() -> None:
    assert choose_format(None, None) is Format.VALUE
    assert choose_format(None, ":") is Format.KEY_VALUE
    assert choose_format(Format.JSON, None) is Format.JSON
