"""What is killed when: drawn from a seed before anything starts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

OVERLAP_CHANCE = 0.2
OVERLAP_S_MAX = 1.5


class Kind(Enum):
    """Whom SIGKILL hits."""

    DRIVER = "driver"
    EXECUTOR = "executor"
    WORKER = "Python worker"
    LEADER = "broker leader"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """One kill."""

    kind: Kind
    #: Whether it comes before the query has written anything since the last kill.
    is_overlapping: bool
    #: Waited before.
    wait_s: float
    #: Which of those that could be hit, from 0 to 1.
    choice: float
    #: How long a broker stays away.
    down_s: float


def make_schedule(seed: int, kills: int, wait_s_max: float) -> list[Kill]:
    """Return the kills: of each kind as many, in a drawn order."""
    dice = random.Random(seed)
    kinds = [list(Kind)[number % len(Kind)] for number in range(kills)]
    dice.shuffle(kinds)
    found = []
    for kind in kinds:
        is_overlapping = dice.random() < OVERLAP_CHANCE
        wait_s = dice.uniform(0.0, OVERLAP_S_MAX if is_overlapping else wait_s_max)
        found.append(
            Kill(
                kind=kind,
                is_overlapping=is_overlapping,
                wait_s=wait_s,
                choice=dice.random(),
                down_s=dice.uniform(0.0, 1.5),
            )
        )
    return found
