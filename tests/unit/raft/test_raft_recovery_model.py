"""Every state of small recoveries is visited, and a recovery that lacks something is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkaesque.raft import recovery
from tests.unit.raft.recovery_model import Bounds, Broken, explore

STATES_MAX = 300_000


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("bounds", "states"),
    [
        (Bounds(replicas=2, proposals=2, formations=2), 22_967),
        (Bounds(crashes=0, formations=2), 42_754),
        (Bounds(), 15_344),
        pytest.param(Bounds(replicas=4, crashes=0), 98_608, marks=pytest.mark.extended),
    ],
    ids=["two-replicas", "three-replicas-twice", "three-replicas-and-a-crash", "four-replicas"],
)
def test_nothing_committed_is_lost_in_any_state(bounds: Bounds, states: int) -> None:
    # As many as there were when this was written: fewer would mean that it sees less.
    assert explore(bounds, STATES_MAX) == states


SMALL = Bounds()


def test_one_survivor_less_is_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "survivors_needed", lambda voters: voters - (voters // 2 + 1))
    with pytest.raises(Broken, match="is committed, and"):
        explore(SMALL, STATES_MAX)


def test_who_forgets_that_it_has_entered_a_formation_breaks_it() -> None:
    with pytest.raises(Broken, match="is committed, and"):
        explore(replace(SMALL, is_forgetful=True), STATES_MAX)


def test_who_still_serves_an_earlier_formation_breaks_the_new_one() -> None:
    with pytest.raises(Broken, match="is committed, and"):
        explore(replace(SMALL, is_disloyal=True), STATES_MAX)
