"""Lines out of a stream that is cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.protocols.text.lines import LINE_BYTES_MAX, LineReader, Mark

BOUND = 10

pieces = st.lists(
    st.one_of(
        st.binary(max_size=2 * BOUND + 3),
        st.sampled_from([b"\n", b"\r\n", b"\r", b"\x04\n", b"\xff\xec\r\n", b"x" * BOUND]),
    )
)


def expected(data: bytes) -> list[bytes | Mark]:
    """What stands in a stream, line by line."""
    *whole, rest = data.split(b"\n")
    lines = [line.removesuffix(b"\r") for line in whole]
    found: list[bytes | Mark] = []
    for line in lines:
        if line in (b"\x04", b"\xff\xec"):
            found.append(Mark.END)
        else:
            found.append(line if len(line) <= BOUND else Mark.TOO_LONG)
    if len(rest) > BOUND + 1:
        found.append(Mark.TOO_LONG)
    return found


@given(pieces=pieces, cuts=st.lists(st.integers(1, 12), min_size=1))
def test_lines_do_not_depend_on_where_the_stream_is_cut(
    pieces: list[bytes], cuts: list[int]
) -> None:
    # Ctrl-D counts as soon as it is alone in the buffer, so it is left out of cut streams.
    data = b"".join(pieces).replace(b"\x04", b"").replace(b"\xff\xec", b"")
    reader = LineReader(BOUND)
    found: list[bytes | Mark] = []
    at = turn = 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        found += reader.feed(data[at : at + size])
        at += size
        turn += 1
    assert found == expected(data)


@given(data=st.binary(max_size=100))
def test_what_has_no_ending_at_the_end_is_no_line(data: bytes) -> None:
    reader = LineReader()
    found = [*reader.feed(data + b"."), *reader.finish()]
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")[:-1]]
    ends = (b"\x04", b"\xff\xec")
    expected = [Mark.END if line in ends else line for line in lines]
    assert found == [*expected, Mark.UNFINISHED]
    assert reader.finish() == []


@pytest.mark.parametrize("rest", [b"", b" ", b"\r"])
def test_blanks_at_the_end_are_nothing(rest: bytes) -> None:
    reader = LineReader()
    assert [*reader.feed(b"HELP\n" + rest), *reader.finish()] == [b"HELP"]


def test_a_line_too_long_that_does_not_end_is_told_once() -> None:
    reader = LineReader(BOUND)
    assert [*reader.feed(b"x" * 20), *reader.feed(b"y"), *reader.finish()] == [Mark.TOO_LONG]


def test_a_line_may_be_as_long_as_the_bound_and_no_longer() -> None:
    reader = LineReader()
    assert reader.feed(b"a" * LINE_BYTES_MAX + b"\r\n") == [b"a" * LINE_BYTES_MAX]
    assert reader.feed(b"a" * LINE_BYTES_MAX + b"a\r\nb\n") == [Mark.TOO_LONG, b"b"]


def test_a_line_that_never_ends_is_told_once_and_kept_never() -> None:
    reader = LineReader(BOUND)
    found = [each for _ in range(50) for each in reader.feed(b"x" * 7)]
    assert found == [Mark.TOO_LONG]
    assert len(reader._rest) == 0
    assert reader.feed(b"x\nHELP\n") == [b"HELP"]


@pytest.mark.parametrize("typed", [b"\x04", b"\xff\xec", b"\x04\r\n", b"\xff\xec\n"])
def test_control_d_is_the_end(typed: bytes) -> None:
    reader = LineReader()
    assert reader.feed(b"HELP\n" + typed) == [b"HELP", Mark.END]


def test_control_d_within_a_line_is_part_of_it() -> None:
    assert LineReader().feed(b"PUBS a \x04\n") == [b"PUBS a \x04"]
