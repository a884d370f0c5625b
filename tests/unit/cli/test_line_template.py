"""`consume --template`: what a line shows of a message."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.line_template import template_writer

Headers = list[tuple[str, bytes | None]]


@dataclass
class Printed:
    """A message as librdkafka gives it."""

    key_: bytes | None = None
    value_: bytes | None = None
    headers_: Headers | None = None
    timestamp_: tuple[int, int] = (1, 1_790_000_000_123)

    def topic(self) -> str:
        return "orders"

    def partition(self) -> int:
        return 3

    def offset(self) -> int:
        return 42

    def key(self) -> bytes | None:
        return self.key_

    def value(self) -> bytes | None:
        return self.value_

    def headers(self) -> Headers | None:
        return self.headers_

    def timestamp(self) -> tuple[int, int]:
        return self.timestamp_


MESSAGE = Printed(
    key_=b"k\xff",
    value_=b'{"customer": {"id": "c1", "n": 12345678901234567890}, "tags": ["a", "\xc3\xa9"]}',
    headers_=[("trace", b"old"), ("trace", b"new"), ("x.y", b"dots"), ("none", None)],
)


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("", b""),
        ("plain", b"plain"),
        ("{topic}-{partition} {offset}", b"orders-3 42"),
        ("{timestamp}|{timestamp_ms}", b"2026-09-21T14:13:20.123Z|1790000000123"),
        ("{key}", b"k\xff"),
        ("{key:hex} {key:base64} {key:size}", b"6bff a/8= 2"),
        ("{value.customer.id}:{value.customer.n}", b"c1:12345678901234567890"),
        ("{value.customer}", b'{"id": "c1", "n": 12345678901234567890}'),
        ("{value.tags.1}", "é".encode()),
        ("{value.tags.9}{value.nothing.at.all}{key.a}", b""),
        ("{header.trace} {header.x.y} {header.none}{header.absent}", b"new dots "),
        ("{header.trace:json}", b'"new"'),
        (r"a\tb\\n\q{{}}", b"a\tb\\n\\q{}"),
    ],
)
def test_a_template_shows_parts_of_a_message(template: str, line: bytes) -> None:
    assert template_writer(template)(MESSAGE) == line + b"\n"


def test_what_a_message_has_not_got_leaves_nothing() -> None:
    nothing = Printed(timestamp_=(0, -1))
    line = template_writer("{key}{value}{timestamp}{header.a}{value.a}|{value:json}{value:size}")
    assert line(nothing) == b"|null-1\n"


def test_headers_are_shown_in_their_order() -> None:
    shown = template_writer("{headers}")(Printed(headers_=[("a", b"1"), ("a", None)]))
    assert shown == b'[["a", "1"], ["a", null]]\n'


def test_what_is_no_json_has_no_values() -> None:
    for value in (b"{", b"\xff", b"[" * 100_000, b"7"):
        assert template_writer("{value.a}")(Printed(value_=value)) == b"\n"


def test_a_time_that_has_no_name_is_shown_as_a_number() -> None:
    assert (
        template_writer("{timestamp}")(Printed(timestamp_=(1, 10**17))) == b"1" + b"0" * 17 + b"\n"
    )


@pytest.mark.parametrize(
    "template",
    [
        "{",
        "}",
        "{}",
        "{0}",
        "{nothing}",
        "{topic.name}",
        "{topic:hex}",
        "{value.}",
        "{header}",
        "{value:upper}",
        "{value.a:hex}",
        "{value!r}",
        "{value.__class__!s}",
    ],
)
def test_what_cannot_be_meant_is_refused(template: str) -> None:
    with pytest.raises(CommandFailed) as caught:
        template_writer(template)
    assert caught.value.exit_code == 2
    assert caught.value.hint or ":" in caught.value.message
