"""Heads of answers and chunks."""

import pytest

from kafkaesque.chassis.http_answers import write_chunk, write_head


def test_a_head_is_its_status_and_its_headers() -> None:
    head = write_head(404, {"A": "b c", "D": ""})
    assert head == b"HTTP/1.1 404 \r\nA: b c\r\nD: \r\n\r\n"


@pytest.mark.parametrize("text", ["a\r\nb: c", "a\nb", "a\rb", "\xe9", "a\x00"])
def test_no_header_writes_another(text: str) -> None:
    for headers in ({"A": text}, {"C": "d", text: "a"}):
        with pytest.raises(ValueError, match="characters"):
            write_head(200, headers)


def test_a_chunk_has_its_size() -> None:
    assert write_chunk(b"x" * 26) == b"1a\r\n" + b"x" * 26 + b"\r\n"
