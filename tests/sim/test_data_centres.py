"""The lectures' tables: what stays writable without a data centre, and what is lost with it."""

from typing import Any

import pytest

from kafkaesque.sim.data_centres import AWAY_MS, Outcome, Row, play, rows

#: A majority is left: an election. None is: the brokers' silence, the session, and some more.
ELECTION_MS = 6_000
RECOVERY_MS = 20_000


def expect(row: Row) -> tuple[int | None, int | None, bool]:
    """Return within which time it is written and read again, and whether messages are lost."""
    if row.replication_factor == 4:
        return RECOVERY_MS, RECOVERY_MS, False
    if row.replication_factor == 2:
        # One is left: enough to go on, and too few for min.insync.replicas=2.
        return (RECOVERY_MS if row.min_insync == 1 else None), RECOVERY_MS, False
    if row.layout.name == "three data centres" or row.lost == "B":
        return ELECTION_MS, ELECTION_MS, False
    # Two of three are lost.
    if row.is_unclean_allowed:
        return None, RECOVERY_MS, True
    return None, None, False


def is_within(measured: int | None, limit: int | None) -> bool:
    return measured is None if limit is None else measured is not None and measured <= limit


def _rows() -> list[Any]:
    """Return the rows; those that end as one before them does are `extended`."""
    found: list[Any] = []
    ends: set[tuple[int | None, int | None, bool]] = set()
    for row in rows():
        found.append(pytest.param(row, marks=pytest.mark.extended) if expect(row) in ends else row)
        ends.add(expect(row))
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("row", _rows(), ids=lambda row: row.name.replace(" ", "-"))
def test_a_lost_data_centre(row: Row) -> None:
    outcome: Outcome = play(row)
    writable_ms, readable_ms, is_lossy = expect(row)
    assert RECOVERY_MS < AWAY_MS
    assert is_within(outcome.writable_after_ms, writable_ms), outcome
    assert is_within(outcome.readable_after_ms, readable_ms), outcome
    assert outcome.is_unclean == is_lossy
    assert (outcome.lost > 0) == is_lossy, outcome
    assert outcome.given_up >= outcome.lost
    if not is_lossy:
        assert outcome.given_up == 0
        assert outcome.anomalies == ()
