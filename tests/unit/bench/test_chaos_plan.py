"""The plan of a chaos run is a function of its seed, and strikes no more than can be survived."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from bench.chaos.plan import (
    BETWEEN_MS_MAX,
    CLIENTS,
    KINDS,
    SHAPES,
    alone,
    bridge,
    deaf,
    make_plan,
    mute,
)

HALF_AN_HOUR_MS = 30 * 60_000
ALL = list(KINDS)


def test_the_same_seed_plans_the_same_faults() -> None:
    assert make_plan(7, 3, HALF_AN_HOUR_MS, ALL) == make_plan(7, 3, HALF_AN_HOUR_MS, ALL)
    assert make_plan(7, 3, HALF_AN_HOUR_MS, ALL) != make_plan(8, 3, HALF_AN_HOUR_MS, ALL)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("brokers", [3, 5])
def test_half_an_hour_has_faults_of_all_kinds_at_least_every_five_seconds(
    seed: int, brokers: int
) -> None:
    plan = make_plan(seed, brokers, HALF_AN_HOUR_MS, ALL)
    assert len(plan) >= 360
    assert {fault.kind for fault in plan} == set(KINDS)
    begins = [fault.begin_ms for fault in plan]
    gaps = [after - before for before, after in pairwise(begins)]
    assert max(gaps) <= BETWEEN_MS_MAX <= 5_000
    assert all(fault.begin_ms <= fault.end_ms <= HALF_AN_HOUR_MS for fault in plan)


@pytest.mark.parametrize("seed", range(20))
def test_only_one_broker_of_a_plan_loses_copies(seed: int) -> None:
    plan = make_plan(seed, 3, HALF_AN_HOUR_MS, ALL)
    struck = {fault.targets for fault in plan if KINDS[fault.kind].is_losing}
    assert len(struck) == 1
    assert len(struck.pop()) == 1


@pytest.mark.parametrize("seed", range(20))
def test_a_process_is_struck_by_one_fault_at_a_time(seed: int) -> None:
    until: dict[str, int] = {}
    for fault in make_plan(seed, 3, HALF_AN_HOUR_MS, ALL):
        if not KINDS[fault.kind].takes_process:
            continue
        for name in fault.targets:
            assert until.get(name, -1) < fault.begin_ms, fault
            until[name] = fault.end_ms


def test_unknown_faults_and_none_are_refused() -> None:
    with pytest.raises(ValueError, match="there is no fault 'flood'"):
        make_plan(1, 3, 1_000, ["flood"])
    with pytest.raises(ValueError, match="no fault is left"):
        make_plan(1, 3, 1_000, [])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
@pytest.mark.parametrize("count", [3, 4, 5, 6])
def test_every_shape_cuts_links_between_different_machines(shape: object, count: int) -> None:
    names = [*map(str, range(1, count)), CLIENTS]
    for seed in range(20):
        links = shape(names, random.Random(seed))  # type: ignore[operator]
        assert links
        assert all(source != target and {source, target} <= set(names) for source, target in links)


def test_shapes_are_what_they_are_called() -> None:
    dice = random.Random(1)
    assert sorted(alone(["a", "b", "c"], dice)) == [("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")]
    assert sorted(deaf(["a", "b", "c"], dice)) == [("b", "a"), ("c", "a")]
    assert sorted(mute(["a", "b", "c"], dice)) == [("a", "b"), ("a", "c")]
    # "a" reaches everybody, and nobody else reaches the other side.
    assert sorted(bridge(["a", "b", "c"], dice)) == [("b", "c"), ("c", "b")]
