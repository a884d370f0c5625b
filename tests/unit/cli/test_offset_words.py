"""Places in a log, as a person writes them."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.offset_words import Place, PlaceKind, parse_place


@pytest.mark.parametrize(
    ("word", "kind", "number"),
    [
        ("earliest", PlaceKind.EARLIEST, 0),
        ("latest", PlaceKind.LATEST, 0),
        ("0", PlaceKind.OFFSET, 0),
        ("42", PlaceKind.OFFSET, 42),
        ("-10", PlaceKind.TAIL, 10),
        ("2026-01-31T12:00:00+00:00", PlaceKind.TIME, 1769860800000),
        ("2026-01-31T12:00:00.250Z", PlaceKind.TIME, 1769860800250),
    ],
)
def test_a_word_is_a_place(word: str, kind: PlaceKind, number: int) -> None:
    assert parse_place(word) == Place(kind=kind, number=number)


def test_a_time_without_a_zone_is_local() -> None:
    expected = int(datetime(2026, 1, 31).astimezone().timestamp() * 1000)
    assert parse_place("2026-01-31") == Place(kind=PlaceKind.TIME, number=expected)


@pytest.mark.parametrize(
    ("word", "seconds"),
    [
        ("PT0S", 0),
        ("PT2H", 7200),
        ("pt1h30m", 5400),
        ("P7D", 604800),
        ("P1W", 604800),
        ("P1DT12H", 129600),
        ("PT0.5S", 0.5),
    ],
)
def test_a_duration_is_counted_back_from_now(word: str, seconds: float) -> None:
    before_ms = int((time.time() - seconds) * 1000)
    place = parse_place(word)
    after_ms = int((time.time() - seconds) * 1000)
    assert place.kind is PlaceKind.TIME
    assert before_ms <= place.number <= after_ms


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("9" * 19, "no log has an offset as large"),
        ("-" + "9" * 30, "no log has an offset as large"),
        ("1969-12-31T23:59:59+00:00", "lies before 1970"),
        ("0001-01-01", "lies before 1970"),
        ("P99999D", "lies before 1970"),
        ("PT" + "9" * 400 + "S", "lies before 1970"),
    ],
)
def test_what_no_log_can_have_is_wrong_usage(word: str, sentence: str) -> None:
    with pytest.raises(CommandFailed, match=sentence) as failure:
        parse_place(word)
    assert failure.value.exit_code == 2


@pytest.mark.parametrize(
    "word",
    ["", "soon", "1.5", "2026-13-01", "Earliest", "P", "PT", "P1DT", "P1M", "P1Y", "PT-1H", "2h"],
)
def test_any_other_word_is_wrong_usage(word: str) -> None:
    with pytest.raises(CommandFailed, match="neither an offset nor a time") as failure:
        parse_place(word)
    assert failure.value.exit_code == 2
