"""Plans faults from a seed, and commits them in time.

`make_plan` is a pure function of its arguments: a plan can be printed, cut down by hand to the
faults that matter, and run again. `Nemesis` commits a plan; when the plan's time is over everything
is healed, so that a checker may ask for progress afterwards.
"""

import random
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.sim.faults import AROUND_CONTROLLER, KINDS, Fault, Ground
from kafkaesque.sim.loop import NS_PER_MS

#: Faults of one plan.
FAULTS_MAX: Final = 10_000

#: What any cluster must survive without losing anything that it has acknowledged.
SURVIVABLE: Final = (
    "kill",
    "restart",
    "rolling restart",
    "absence",
    "power cut",
    "pause",
    "block",
    "flapping",
    "delay",
    "loss",
    "reset",
    "clock jump",
    "clock rate",
    "slow disk",
)
#: Of them, what a process without a disk can meet alone, and what lies between machines.
OF_CLOCKS: Final = ("clock jump", "clock rate")
OF_PROCESSES: Final = ("kill", "absence", "pause", "reset", "clock jump", "clock rate")
OF_LINKS: Final = ("block", "flapping", "delay", "loss")
#: What costs a broker everything. One and the same machine of a plan, so that the others, which are
#: a majority of every group of three, remember all that was acknowledged.
LOSING: Final = ("lost disk",)
#: What fences a broker, or costs it its copy: to be struck by on a minority only.
DAMAGING: Final = (
    "full disk",
    "failing syncs",
    "failing writes",
    "failing reads",
    "misdirected writes",
    "bit flip",
    "truncation",
)
#: Everything, to be struck by as said above: the faults that cost a copy on one machine of a plan.
ALL: Final = (*SURVIVABLE, *LOSING, *DAMAGING)
#: From the beginning of one fault to the beginning of the next, at most.
GAP_MS_MAX: Final = 5_000
#: How long all machines are without power, and when it is cut again after they have got it back.
DARK_MS: Final = (50, 1_500)
CUT_AFTER_MS: Final = (50, 2_000)
#: From one cut of a single link to the next it is so many times as long as between faults.
CUT_LINKS_TIMES: Final = 4
#: From one fault around the controller to the next, at most; how long most of them last, and the
#: others, so that metadata get old.
CONTROLLER_GAP_MS_MAX: Final = 30_000
CONTROLLER_MS: Final = (50, 4_000)
CONTROLLER_LONG_MS: Final = (4_000, 30_000)
#: One in so many of them is long.
CONTROLLER_LONG_ONE_IN: Final = 3
#: How long a majority is away, how long before that who is left then was, and when it comes back
#: after they have begun to go; within what time they go; from one such loss to the next.
LOST_MS: Final = (6_000, 14_000)
BEHIND_MS: Final = (1_000, 5_000)
BACK_MS: Final = (-500, 2_000)
APART_MS_MAX: Final = 1_000
LOST_FIRST_MS: Final = (500, 3_000)
BETWEEN_LOST_MS: Final = (5_000, 25_000)
#: These take long.
_LONG: Final = ("absence", "rolling restart")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanOptions:
    """How much goes wrong."""

    duration_ms: int = 20_000
    #: Nothing goes wrong before, so that a cluster can form.
    calm_ms: int = 1_000
    #: From the beginning of one fault to the beginning of the next, on average.
    between_ms: int = 1_500
    lasting_ms_min: int = 50
    lasting_ms_max: int = 4_000
    #: How long a machine stays away when it does for long, or all are restarted in turn.
    absence_ms_max: int = 10_000
    kinds: tuple[str, ...] = SURVIVABLE
    #: One process fault in so many strikes all machines at once.
    all_one_in: int = 10
    #: The only machine that faults of the kinds `DAMAGING` strike; None: any.
    damaged: str | None = None


def make_plan(
    seed: int, names: Sequence[str], options: PlanOptions, label: str = "nemesis"
) -> list[Fault]:
    """Return faults on machines of these names, in the order of their beginning.

    Plans of one seed with different labels have nothing to do with each other.

    Raises:
        ValueError: a kind of fault does not exist.
    """
    for kind in options.kinds:
        if kind not in KINDS:
            raise ValueError(f"there is no fault {kind!r}: {', '.join(KINDS)}")
    chance = random.Random(f"{seed}/{label}")
    loser = draw_loser(seed, names)
    plan: list[Fault] = []
    at = options.calm_ms
    while at < options.duration_ms and len(plan) < FAULTS_MAX:
        kind = chance.choice(options.kinds)
        longest_ms = options.absence_ms_max if kind in _LONG else options.lasting_ms_max
        lasting = chance.randint(options.lasting_ms_min, longest_ms)
        targets = (loser,) if kind in LOSING else _targets(kind, names, options, chance)
        plan.append(
            Fault(
                kind=kind,
                targets=targets,
                begin_ms=at,
                end_ms=min(at + lasting, options.duration_ms),
                strength=_strength(kind, chance),
            )
        )
        at += chance.randint(1, min(2 * options.between_ms, GAP_MS_MAX))
    return plan


def plan_cut_links(seed: int, names: Sequence[str], options: PlanOptions) -> list[Fault]:
    """Return faults that cut a single link, both ways, again and again.

    Who keeps a majority, but does not hear of the controller, goes on to lead, and lags.
    """
    chance = random.Random(f"{seed}/cut links")
    plan: list[Fault] = []
    at = options.calm_ms
    while at < options.duration_ms and len(names) > 1 and len(plan) < FAULTS_MAX:
        left, right = chance.sample(names, 2)
        end_ms = at + chance.randint(options.lasting_ms_min, options.lasting_ms_max)
        targets = (left, right, right, left)
        plan.append(
            Fault(
                kind="block",
                targets=targets,
                begin_ms=at,
                end_ms=min(end_ms, options.duration_ms),
                strength=0.0,
            )
        )
        at += chance.randint(1, 2 * CUT_LINKS_TIMES * options.between_ms)
    return plan


def plan_power_cuts(seed: int, names: Sequence[str], times: int) -> tuple[list[Fault], int]:
    """Return so many power cuts of all machines at once, one after another, and when it is over.

    In between there is time to come back and to be used, mostly; some follow at once.
    """
    chance = random.Random(f"{seed}/power cuts")
    plan, at = [], CUT_AFTER_MS[-1]
    for _ in range(times):
        back = at + chance.randint(*DARK_MS)
        plan.append(Fault(kind="power cut", targets=tuple(names), begin_ms=at, end_ms=back))
        at = back + chance.randint(*CUT_AFTER_MS)
    return plan, at


def plan_around_controller(seed: int, names: Sequence[str], options: PlanOptions) -> list[Fault]:
    """Return faults on links of whoever is controller, in the order of their beginning.

    They have nothing to do with those of `make_plan`, and come beside them. Mostly one broker is
    struck, sometimes all but the controller.
    """
    chance = random.Random(f"{seed}/around the controller")
    plan: list[Fault] = []
    at = options.calm_ms + chance.randint(1, CONTROLLER_GAP_MS_MAX)
    while at < options.duration_ms and len(plan) < FAULTS_MAX:
        kind = chance.choice(AROUND_CONTROLLER)
        is_long = chance.randrange(CONTROLLER_LONG_ONE_IN) == 0
        lasting = chance.randint(*(CONTROLLER_LONG_MS if is_long else CONTROLLER_MS))
        struck = min(chance.choice((1, 1, 1, 2, len(names))), len(names) - 1)
        fault = Fault(
            kind=kind,
            targets=tuple(chance.sample(names, 1 + struck)),
            begin_ms=at,
            end_ms=min(at + lasting, options.duration_ms),
            strength=_strength(kind, chance),
        )
        plan.append(fault)
        at += chance.randint(1, CONTROLLER_GAP_MS_MAX)
    return plan


def plan_lost_majorities(
    seed: int, names: Sequence[str], replicas: Sequence[Sequence[str]], duration_ms: int
) -> list[Fault]:
    """Return absences of all but one of the machines that hold a partition, again and again.

    In half of them who is left was away before, and has less than they. They are dead, or cut off
    from all machines, together or each alone: clients reach them still.
    """
    chance = random.Random(f"{seed}/lost majorities")
    plan: list[Fault] = []

    def add(kind: str, targets: Iterable[str], begin: int, end: int) -> None:
        if end < duration_ms:
            plan.append(Fault(kind=kind, targets=tuple(targets), begin_ms=begin, end_ms=end))

    at = chance.randint(*LOST_FIRST_MS)
    while at < duration_ms and len(plan) < FAULTS_MAX:
        left, *gone = chance.sample(chance.choice(replicas), len(replicas[0]))
        if chance.randrange(2) == 0:
            gone_ms = at + chance.randint(*BEHIND_MS)
            add("absence", [left], at, gone_ms + chance.randint(*BACK_MS))
            at = gone_ms
        kind = chance.choice(("absence", "absence", "power cut", "block", "block each"))
        end = at + chance.randint(*LOST_MS)
        if kind == "block":
            pairs = _both_ways(gone, [name for name in names if name not in gone])
            add("block", [name for pair in pairs for name in pair], at, end)
        for each in gone:
            begin = at + chance.randrange(APART_MS_MAX)
            if kind == "block each":
                pairs = _both_ways([each], [name for name in names if name != each])
                add("block", [name for pair in pairs for name in pair], begin, end)
            elif kind != "block":
                add(kind, [each], begin, end + chance.randrange(APART_MS_MAX))
        at = end + chance.randint(*BETWEEN_LOST_MS)
    return plan


def draw_loser(seed: int, names: Sequence[str]) -> str:
    """Return the one machine of a seed's plan that loses its disk."""
    return random.Random(f"{seed}/loser").choice(names)


def check_plan(plan: Sequence[Fault], names: Collection[str]) -> None:
    """Check a plan that was written by hand.

    Raises:
        ValueError: a fault does not exist, ends before it begins, or strikes what is not there.
    """
    for fault in plan:
        if fault.kind not in KINDS:
            raise ValueError(f"there is no fault {fault.kind!r}: {', '.join(KINDS)}")
        if not 0 <= fault.begin_ms <= fault.end_ms:
            raise ValueError(f"{fault} begins at {fault.begin_ms} and ends at {fault.end_ms} ms")
        unknown = [name for name in fault.targets if name not in names]
        if unknown:
            raise ValueError(f"{fault}: there are {', '.join(names)}, and no {unknown[0]}")


def _targets(
    kind: str, names: Sequence[str], options: PlanOptions, chance: random.Random
) -> tuple[str, ...]:
    if kind in OF_LINKS:
        pairs = _shape(list(names), chance)
        return tuple(name for pair in pairs for name in pair)
    if kind in DAMAGING and options.damaged is not None:
        return (options.damaged,)
    if (
        kind in ("kill", "restart", "power cut", "pause")
        and chance.randrange(options.all_one_in) == 0
    ):
        return tuple(names)
    if kind == "rolling restart":
        return tuple(chance.sample(names, len(names)))
    return (chance.choice(names),)


def _shape(names: list[str], chance: random.Random) -> list[tuple[str, str]]:
    """Draw which links are struck: every shape that partitions are known to have."""
    chance.shuffle(names)
    half = len(names) // 2 + chance.randrange(2)
    left, right = names[:half], names[half:]
    alone, others = names[:1], names[1:]
    shape = chance.randrange(6)
    if shape == 0:  # Two halves.
        return _both_ways(left, right)
    if shape == 1:  # One machine alone.
        return _both_ways(alone, others)
    if shape == 2:  # One machine hears nothing, and is heard.
        return _one_way(others, alone)
    if shape == 3:  # One machine is heard by nobody, and hears.
        return _one_way(alone, others)
    if shape == 4:  # A bridge: two halves that both reach one machine.
        return _both_ways(left[1:], right)
    # Any set of directed links.
    pairs = [(a, b) for a in names for b in names if a != b]
    return chance.sample(pairs, chance.randint(1, len(pairs))) if pairs else []


def _one_way(sources: Iterable[str], targets: Iterable[str]) -> list[tuple[str, str]]:
    targets = list(targets)
    return [(source, target) for source in sources for target in targets]


def _both_ways(left: Sequence[str], right: Sequence[str]) -> list[tuple[str, str]]:
    return _one_way(left, right) + _one_way(right, left)


def _strength(kind: str, chance: random.Random) -> float:
    strengths: dict[str, Callable[[], float]] = {
        "flapping": lambda: float(chance.choice((20, 200, 1_000))),
        "delay": lambda: float(chance.choice((5, 50, 300, 1_500))),
        "slow controller": lambda: float(chance.choice((50, 300, 1_500, 5_000))),
        "loss": lambda: chance.choice((0.02, 0.1, 0.4)),
        "reset": lambda: chance.choice((0.3, 1.0)),
        "clock jump": lambda: float(
            chance.choice((-86_400_000, -5_000, -50, 50, 5_000, 3_600_000))
        ),
        "clock rate": lambda: chance.choice((0.8, 0.95, 1.05, 1.25)),
        "slow disk": lambda: float(chance.choice((5, 50, 300))),
        # 7,000 is a little less than brokers keep free here: one that begins so takes no records.
        "full disk": lambda: float(chance.choice((0, 1_000, 7_000, 100_000))),
        "truncation": lambda: chance.choice((0.0, 0.5, 0.99)),
    }
    draw = strengths.get(kind)
    if draw is not None:
        return draw()
    return 1.0 if kind.startswith(("failing", "misdirected")) else 0.0


class Nemesis:
    """Commits a plan."""

    def __init__(self, ground: Ground) -> None:
        self._ground: Final = ground
        self._world: Final = ground.world
        #: Whether the plan is over and everything is healed.
        self.ended = False

    def commit(self, plan: Sequence[Fault], duration_ms: int) -> None:
        """Let the plan begin now; after `duration_ms` everything is healed."""
        loop = self._world.loop
        for fault in plan:
            self._after(fault.begin_ms, self._ground.begin, fault)
            if fault.end_ms < duration_ms:
                self._after(fault.end_ms, self._ground.end, fault)
        loop.after(duration_ms * NS_PER_MS, "nemesis ends", self._heal)

    def _after(self, ms: int, act: Callable[[Fault], None], fault: Fault) -> None:
        def happen() -> None:
            if not self.ended:
                act(fault)

        self._world.loop.after(ms * NS_PER_MS, "nemesis", happen)

    def _heal(self) -> None:
        self.ended = True
        self._ground.heal()
