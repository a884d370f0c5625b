"""Places in a log, as a person writes them."""

from __future__ import annotations

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


@pytest.mark.parametrize("word", ["", "soon", "1.5", "2026-13-01", "Earliest"])
def test_any_other_word_is_wrong_usage(word: str) -> None:
    with pytest.raises(CommandFailed, match="neither an offset nor a time") as failure:
        parse_place(word)
    assert failure.value.exit_code == 2
