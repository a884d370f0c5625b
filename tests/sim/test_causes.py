"""Causes are injected, and `why` has to name the right one first; see `tests/sim/causes`.

Here is a sample. `python -m tests.sim.causes` injects 200 and more, and prints the table.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import Any, cast

import pytest

from kafkaesque.admin.api import why
from kafkaesque.admin.api.why_links import BLOCKING, Link
from tests.sim.causes.every import INJECTIONS, draw, one_round
from tests.sim.causes.ground import CauseGround
from tests.sim.causes.table import HEALTHY, KINDS, Case, Injection, Verdict, judge, run

ANSWER_MS_MAX = 1_000
RIGHT_MIN = 0.95


def wrong(verdicts: Iterable[Verdict]) -> list[str]:
    return [f"{e.injection.kind}, seed {e.seed}: {e.said}" for e in verdicts if not e.is_right]


def named(name: str) -> Injection:
    return next(each for each in INJECTIONS if each.name == name)


def one_of_each_kind(seed: int) -> list[Injection]:
    """Draw an injection of each kind; one that leaves the cluster whole, where there is one."""
    random = Random(seed)
    chosen = []
    for kind in (*KINDS, HEALTHY):
        ways = [each for each in INJECTIONS if each.kind == kind]
        chosen.append(random.choice([each for each in ways if not each.is_rough] or ways))
    return chosen


def test_every_kind_has_its_injections() -> None:
    assert {each.kind for each in INJECTIONS} == {*KINDS, HEALTHY}
    assert len({(each.kind, each.name) for each in INJECTIONS}) == len(INJECTIONS)


def test_one_cause_of_each_kind_is_named_first() -> None:
    verdicts = list(one_round(7, one_of_each_kind(7)))
    assert wrong(verdicts) == []
    assert max(each.virtual_ms for each in verdicts) < ANSWER_MS_MAX


@pytest.mark.parametrize(
    ("name", "seed"),
    [
        ("the only replica hangs", 3),
        ("the asked broker is cut off", 3),
        # Asked at once: later it is known.
        ("the leader is cut off and asked elsewhere", 0),
        ("a producer that has tried", 3),
        ("a consumer that has tried to join", 0),
    ],
)
def test_a_cause_that_cannot_be_known_is_not_called_certain(name: str, seed: int) -> None:
    found = named(name)
    verdict = run(found, CauseGround(seed, is_secured=found.is_secured), seed)
    assert verdict.is_right, verdict.said
    assert ", doubtful: " in verdict.said
    assert verdict.virtual_ms < ANSWER_MS_MAX


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = Link(name="lag", state=BLOCKING, what="it is the consumer")
    monkeypatch.setattr(why, "record_links", lambda *_: [said])
    verdict = run(named("records are deleted"), CauseGround(3), 3)
    assert not verdict.is_right
    assert verdict.is_misleading


class Answering:
    """A cluster that answers this."""

    now_ms = 0

    def __init__(self, cause: str | None, *, is_certain: bool) -> None:
        links = [] if cause is None else [{"name": cause, "state": "unknown"}]
        words: dict[str, Any] = {"what": "it is so", "evidence": [], "command": None}
        self._told = {
            "cause": cause,
            "is_certain": is_certain,
            "links": [{**each, **words} for each in links],
        }

    def get(self, path: str, host: str, **query: Any) -> Any:
        return self._told


@pytest.mark.parametrize("is_doubtful", [False, True])
@pytest.mark.parametrize("is_certain", [False, True])
@pytest.mark.parametrize("cause", [None, "lag", "quota"])
def test_an_answer_is_right_if_the_cause_is_and_what_is_said_of_its_certainty(
    cause: str | None, *, is_certain: bool, is_doubtful: bool
) -> None:
    case = Case(cause="lag", path="groups/g", query={}, is_doubtful=is_doubtful)
    ground = cast("CauseGround", Answering(cause, is_certain=is_certain))
    verdict = judge(ground, INJECTIONS[0], case, 0, "b1")
    assert verdict.is_right is (cause == "lag" and is_certain is not is_doubtful)
    # Whoever believes it is misled, by a wrong cause as by a right one that cannot be known.
    assert verdict.is_misleading is (is_certain and (cause != "lag" or is_doubtful))


@pytest.mark.extended
def test_200_causes() -> None:
    verdicts = list(draw(200))
    injected = [each for each in verdicts if each.injection.kind != HEALTHY]
    assert len(injected) >= 200
    right = sum(each.is_right for each in injected)
    assert right >= RIGHT_MIN * len(injected), wrong(verdicts)
    assert [each.said for each in verdicts if each.is_misleading] == []
    assert wrong(each for each in verdicts if each.injection.kind == HEALTHY) == []
    assert max(each.virtual_ms for each in verdicts) < ANSWER_MS_MAX
