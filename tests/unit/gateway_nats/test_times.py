"""Durations as Go writes them, which is how JetStream's clients know them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaesque.gateway.nats.jetstream.times import read_duration, write_duration


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0s", 0),
        ("5ns", 5),
        ("1.5ms", 1_500_000),
        ("8.549s", 8_549_000_000),
        ("1s", 10**9),
        ("1m30s", 90 * 10**9),
        ("2h0m1.25s", 7_201_250_000_000),
    ],
)
def test_durations(text: str, ns: int) -> None:
    assert read_duration(text) == ns
    if ns:
        assert write_duration(ns) == text


@pytest.mark.parametrize(
    "text", ["", "1", "s", "1s ", "-1s", "1d", "1s1", "1.s", "\u00b2s", "2562048h"]
)
def test_what_is_no_duration(text: str) -> None:
    assert read_duration(text) is None


@given(st.integers(min_value=1, max_value=10**6))
def test_whole_milliseconds_come_back(ms: int) -> None:
    assert read_duration(write_duration(ms * 1_000_000)) == ms * 1_000_000
