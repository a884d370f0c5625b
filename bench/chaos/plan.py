"""What goes wrong when: drawn from a seed before anything starts.

The words are those of the simulator's nemesis (`kafkaesque.sim.nemesis`), and a plan is a pure
function of its arguments: it can be printed, and the same seed strikes the same brokers at the same
times again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.sim.faults import Fault

#: How the clients' machine is called, beside the brokers "1", "2" and so on.
CLIENTS: Final = "clients"

#: From the beginning of one fault to the next.
BETWEEN_MS_MIN: Final = 1_500
BETWEEN_MS_MAX: Final = 4_900
#: Nothing goes wrong before, so that the clients have begun.
CALM_MS: Final = 2_000
#: One kill or pause in so many strikes all brokers at once.
ALL_ONE_IN: Final = 12
#: One fault of links in so many cuts off clients, too.
CLIENTS_ONE_IN: Final = 4
_DRAWS_MAX: Final = 50
#: How the broker that comes and goes leaves: by kill -9, or drained, stopped and taken out.
KILLED: Final = 0.0
IN_ORDER: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What is known of a kind of fault before it happens."""

    #: How likely it is drawn, beside the others.
    weight: int
    lasting_ms: tuple[int, int]
    #: Whether the broker's process is its own for that time, and nobody else's.
    takes_process: bool = False
    #: Whether it may cost a broker its copies: it strikes one and the same broker of a plan, so
    #: that the others, a majority of every group, keep all that was acknowledged.
    is_losing: bool = False
    is_of_links: bool = False
    #: Faults of one resource of a broker come one after the other.
    resource: str = ""
    #: Drawn from these; what they mean depends on the kind.
    strengths: tuple[float, ...] = (0.0,)


KINDS: Final[dict[str, Kind]] = {
    "kill": Kind(weight=6, lasting_ms=(0, 1_500), takes_process=True),
    "absence": Kind(weight=2, lasting_ms=(4_000, 12_000), takes_process=True),
    "pause": Kind(weight=5, lasting_ms=(300, 8_000), takes_process=True),
    "restart": Kind(weight=3, lasting_ms=(0, 0), takes_process=True),
    "rolling restart": Kind(weight=1, lasting_ms=(0, 0), takes_process=True),
    "block": Kind(weight=6, lasting_ms=(500, 9_000), is_of_links=True),
    "flapping": Kind(
        weight=3, lasting_ms=(3_000, 10_000), is_of_links=True, strengths=(200, 1_000, 2_500)
    ),
    "delay": Kind(
        weight=3, lasting_ms=(1_000, 9_000), is_of_links=True, strengths=(5, 50, 300, 1_500)
    ),
    "loss": Kind(weight=3, lasting_ms=(1_000, 9_000), is_of_links=True, strengths=(0.02, 0.1, 0.4)),
    "clock jump": Kind(
        weight=4,
        lasting_ms=(0, 0),
        strengths=(-86_400_000, -5_000, -50, 50, 5_000, 3_600_000),
    ),
    "slow disk": Kind(
        weight=3, lasting_ms=(1_000, 9_000), resource="syncs", strengths=(5, 50, 300)
    ),
    "full disk": Kind(
        weight=2, lasting_ms=(2_000, 9_000), resource="space", strengths=(0, 1_000, 100_000)
    ),
    "failing syncs": Kind(
        weight=2, lasting_ms=(200, 3_000), takes_process=True, resource="syncs", is_losing=True
    ),
    "failing writes": Kind(
        weight=2, lasting_ms=(200, 3_000), takes_process=True, resource="writes", is_losing=True
    ),
    "failing reads": Kind(
        weight=1, lasting_ms=(200, 3_000), takes_process=True, resource="reads", is_losing=True
    ),
    "bit flip": Kind(weight=2, lasting_ms=(3_000, 9_000), takes_process=True, is_losing=True),
    "truncation": Kind(weight=2, lasting_ms=(3_000, 9_000), takes_process=True, is_losing=True),
    "lost disk": Kind(weight=1, lasting_ms=(0, 2_000), takes_process=True, is_losing=True),
    "one more broker": Kind(weight=1, lasting_ms=(8_000, 25_000), strengths=(KILLED, IN_ORDER)),
    "reassignment": Kind(weight=2, lasting_ms=(0, 0)),
}

#: What needs a network of our own.
OF_LINKS: Final = tuple(name for name, kind in KINDS.items() if kind.is_of_links)
#: How long a rolling restart keeps the brokers to itself.
_ROLLING_MS: Final = 25_000
#: After a fault that took the process a broker is left alone for so long, to come up.
_RECOVERY_MS: Final = 1_500
#: And after one that cost it copies, to get them back.
_COPYING_MS: Final = 8_000


class _Planner:
    """Draws faults; knows until when each broker is taken by those that were drawn."""

    def __init__(self, seed: int, brokers: int, duration_ms: int) -> None:
        self._dice = random.Random(f"{seed}/chaos")
        self._names = [str(number) for number in range(1, brokers + 1)]
        self._loser = self._dice.choice(self._names)
        self._duration_ms = duration_ms
        self._taken: dict[tuple[str, str], int] = {}

    def draw(self, at: int, kinds: Sequence[str]) -> Fault | None:
        """Return a fault that begins at `at`; None if everything is taken."""
        weights = [KINDS[kind].weight for kind in kinds]
        for _ in range(_DRAWS_MAX):
            name = self._dice.choices(kinds, weights)[0]
            fault = self._make(name, KINDS[name], at)
            places = self._places(fault)
            if all(self._taken.get(place, 0) <= at for place in places):
                for place in places:
                    self._taken[place] = self._free_at(fault)
                return fault
        return None

    def _make(self, name: str, kind: Kind, at: int) -> Fault:
        dice = self._dice
        return Fault(
            kind=name,
            targets=self._targets(name, kind),
            begin_ms=at,
            end_ms=min(at + dice.randint(*kind.lasting_ms), self._duration_ms),
            strength=float(dice.choice(kind.strengths)),
        )

    def _targets(self, name: str, kind: Kind) -> tuple[str, ...]:
        dice = self._dice
        if kind.is_of_links:
            names = list(self._names)
            if dice.randrange(CLIENTS_ONE_IN) == 0:
                names.append(CLIENTS)
            return tuple(each for pair in draw_links(names, dice) for each in pair)
        if kind.is_losing:
            return (self._loser,)
        if name == "rolling restart":
            dice.shuffle(names := list(self._names))
            return tuple(names)
        if name in ("one more broker", "reassignment"):
            return (str(len(self._names) + 1),)
        if name in ("kill", "pause") and dice.randrange(ALL_ONE_IN) == 0:
            return tuple(self._names)
        return (dice.choice(self._names),)

    def _places(self, fault: Fault) -> list[tuple[str, str]]:
        kind = KINDS[fault.kind]
        places = []
        if kind.takes_process:
            places += [("process", name) for name in fault.targets]
        if kind.resource:
            places += [(kind.resource, name) for name in fault.targets]
        if fault.kind in ("one more broker", "reassignment"):
            places.append((fault.kind, ""))
        return places

    def _free_at(self, fault: Fault) -> int:
        if fault.kind == "rolling restart":
            return fault.begin_ms + _ROLLING_MS
        if fault.kind in ("bit flip", "truncation", "lost disk"):
            return fault.end_ms + _COPYING_MS
        return fault.end_ms + _RECOVERY_MS


def make_plan(seed: int, brokers: int, duration_ms: int, kinds: Sequence[str]) -> list[Fault]:
    """Return faults of these kinds on so many brokers, in the order of their beginning.

    From one to the next there are at most `BETWEEN_MS_MAX`, if what was drawn leaves room for it.

    Raises:
        ValueError: a kind of fault does not exist, or there is none.
    """
    check_kinds(kinds)
    planner = _Planner(seed, brokers, duration_ms)
    pace = random.Random(f"{seed}/pace")
    plan: list[Fault] = []
    at = CALM_MS
    while at < duration_ms:
        fault = planner.draw(at, kinds)
        if fault is not None:
            plan.append(fault)
        at += pace.randint(BETWEEN_MS_MIN, BETWEEN_MS_MAX)
    return plan


def check_kinds(kinds: Iterable[str]) -> None:
    """Raises ValueError if there is a kind that does not exist, or none at all."""
    kinds = list(kinds)
    for kind in kinds:
        if kind not in KINDS:
            raise ValueError(f"there is no fault {kind!r}: {', '.join(KINDS)}")
    if not kinds:
        raise ValueError(f"no fault is left of {', '.join(KINDS)}")


# -- which links are struck: every shape that partitions are known to have

Links = list[tuple[str, str]]


def draw_links(names: Sequence[str], dice: random.Random) -> Links:
    """Return directed links between machines of these names, at least one."""
    shuffled = list(names)
    dice.shuffle(shuffled)
    shape: Callable[[list[str], random.Random], Links] = dice.choice(SHAPES)
    return shape(shuffled, dice)


def _one_way(sources: Iterable[str], targets: Iterable[str]) -> Links:
    targets = list(targets)
    return [(source, target) for source in sources for target in targets]


def _both_ways(left: Sequence[str], right: Sequence[str]) -> Links:
    return _one_way(left, right) + _one_way(right, left)


def majority_and_minority(names: list[str], dice: random.Random) -> Links:
    """Two parts that do not reach each other."""
    half = (len(names) - 1) // 2 + dice.randrange(2) * (len(names) % 2 == 0)
    return _both_ways(names[: max(1, half)], names[max(1, half) :])


def alone(names: list[str], _: random.Random) -> Links:
    """One machine reaches nobody."""
    return _both_ways(names[:1], names[1:])


def deaf(names: list[str], _: random.Random) -> Links:
    """One machine hears nothing, and is heard."""
    return _one_way(names[1:], names[:1])


def mute(names: list[str], _: random.Random) -> Links:
    """One machine is heard by nobody, and hears."""
    return _one_way(names[:1], names[1:])


def bridge(names: list[str], _: random.Random) -> Links:
    """Two parts that both reach one machine between them."""
    half = 1 + (len(names) - 1) // 2
    return _both_ways(names[1:half], names[half:])


def any_links(names: list[str], dice: random.Random) -> Links:
    """Any of the directed links."""
    pairs = [(a, b) for a in names for b in names if a != b]
    return dice.sample(pairs, dice.randint(1, len(pairs)))


SHAPES: Final = (majority_and_minority, alone, deaf, mute, bridge, any_links)
