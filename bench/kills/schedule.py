"""Which broker is hit when, how, and for how long: drawn from a seed before anything starts."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import Enum

ELECTION_CHANCE = 0.8


class Blow(Enum):
    """What happens to brokers."""

    KILL = "kill"
    #: While the broker that was hit before is still recovering.
    OVERLAP = "overlapping kill"
    #: All at once: nobody is left to take over.
    KILL_ALL = "kill of all"
    #: SIGSTOP, and SIGCONT later: the process notices nothing but the time.
    PAUSE = "pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One blow."""

    blow: Blow
    #: The broker's place in the list of brokers; of no meaning when all are hit.
    victim: int
    #: Waited before, once everything has recovered (overlapping: once the last victim was started).
    wait_s: float
    #: How long it is dead, or stands still.
    down_s: float
    #: Whether preferred leaders are elected before: else who came back leads nothing.
    elects: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How long things take at most."""

    wait_s_max: float = 1.5
    overlap_wait_s_max: float = 0.6
    kill_down_s_max: float = 3.0
    #: Shorter: between the two there is no majority.
    overlap_down_s_max: float = 0.5
    pause_s_min: float = 0.5
    pause_s_max: float = 5.0


FULL_PACE = Pace()


def make_schedule(
    seed: int, kills: int, *, brokers: int = 3, pace: Pace = FULL_PACE
) -> list[Event]:
    """Return events with this many kills (one of all brokers counts once), and pauses between."""
    dice = random.Random(seed)
    events: list[Event] = []
    killed = 0
    while killed < kills:
        draw = dice.random()
        victim = dice.randrange(brokers)
        wait_s = dice.uniform(0.0, pace.wait_s_max)
        elects = dice.random() < ELECTION_CHANCE
        if draw < 0.2:
            pause_s = dice.uniform(pace.pause_s_min, pace.pause_s_max)
            events.append(
                Event(blow=Blow.PAUSE, victim=victim, wait_s=wait_s, down_s=pause_s, elects=elects)
            )
            continue
        killed += 1
        blow, down_s_max = Blow.KILL, pace.kill_down_s_max
        if draw < 0.27:
            blow, down_s_max = Blow.KILL_ALL, pace.overlap_down_s_max
        elif draw < 0.45 and events and events[-1].blow is not Blow.PAUSE:
            blow, down_s_max = Blow.OVERLAP, pace.overlap_down_s_max
            wait_s = dice.uniform(0.0, pace.overlap_wait_s_max)
        down_s = dice.uniform(0.0, down_s_max)
        events.append(Event(blow=blow, victim=victim, wait_s=wait_s, down_s=down_s, elects=elects))
    return events
