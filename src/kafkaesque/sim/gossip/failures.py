"""How soon a cluster knows of a failure, and how seldom it believes in one that was none."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from kafkaesque.membership.config import MembershipConfig
from kafkaesque.membership.entries import MemberState
from kafkaesque.membership.ready import Change, MemberChanged
from kafkaesque.model.ids import NodeId
from kafkaesque.sim.gossip.world import GossipWorld, Machine, NetworkOptions
from kafkaesque.sim.loop import NS_PER_MS

#: Virtual time that is allowed for what has to happen.
PATIENCE_MS: Final = 120_000
#: After starvation, until all are to see all.
SETTLE_MS: Final = 10_000
#: One datagram in a hundred is lost, one in a thousand comes twice.
LOSSY: Final = NetworkOptions(one_lost_of=100, one_doubled_of=1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Detection:
    """Milliseconds from a failure until all others knew of it, one for each failure."""

    suspect_ms: list[int]
    dead_ms: list[int]


def detect(
    seed: int, members: int, failures: int, *, how: str, config: MembershipConfig | None = None
) -> Detection:
    """Let one member after another fail, and come back.

    `how`: "kill" ends a process, and nobody holds a connection to it; "kill, linked", all do;
    "power" switches its machine off.
    """
    world = GossipWorld(seed, config=config, network=LOSSY, has_links=how == "kill, linked")
    world.start_all(members)
    world.loop.run_until(world.all_agree, PATIENCE_MS, every_ms=20)
    chance = random.Random(f"{seed}/{members}/{how}")
    suspect_ms, dead_ms = [], []
    for _ in range(failures):
        world.loop.run_for(chance.randrange(500, 1_500))
        victim = chance.randrange(1, members + 1)
        began_ms = world.now_ms
        if how == "power":
            world.cut_power(victim)
        else:
            world.kill(victim)
        suspect_ms.append(_until_known(world, victim, MemberState.SUSPECT, began_ms))
        dead_ms.append(_until_known(world, victim, MemberState.DEAD, began_ms))
        other = victim % members + 1
        world.start(victim, seeds=[other])
        world.loop.run_until(world.all_agree, PATIENCE_MS, every_ms=20)
    return Detection(suspect_ms=suspect_ms, dead_ms=dead_ms)


def _until_known(world: GossipWorld, node: int, state: MemberState, began_ms: int) -> int:
    world.loop.run_until(lambda: world.is_known(node, state), PATIENCE_MS, every_ms=1)
    return world.now_ms - began_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Starvation:
    """What befalls members that get too little of a processor."""

    members: int = 20
    minutes: float = 10
    #: So many of them are starved at a time, each for a while; then others are.
    starved: int = 4
    spell_ms_min: int = 10_000
    spell_ms_max: int = 60_000
    #: A starved member gets a slice of the processor, and then none for a pause.
    slice_ms_min: int = 2
    slice_ms_max: int = 100
    pause_ms_min: int = 100
    pause_ms_max: int = 4_000


@dataclass(slots=True, kw_only=True)
class StarvationReport:
    """What came of it; a death is false if the process lived, and all of them did."""

    node_minutes: float = 0.0
    pauses: int = 0
    paused_ms: int = 0
    suspicions: int = 0
    #: Incarnations that were declared dead: of members that were not being starved, and of those
    #: that were.
    deaths_of_healthy: int = 0
    deaths_of_starved: int = 0
    #: Members that do not see all alive when it is over, after a while.
    strayed: int = 0

    def add(self, other: "StarvationReport") -> None:
        """Count another run in."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class _Starver:
    """Takes the processor from some members and gives it back."""

    def __init__(self, world: GossipWorld, options: Starvation) -> None:
        self.world: Final = world
        self.options: Final = options
        self.report: Final = StarvationReport()
        self.victims: Final[set[NodeId]] = set()
        self.is_over = False
        self._condemned: Final[set[tuple[NodeId, int]]] = set()
        self._chance: Final = world.loop.chance("starvation")
        world.on_change = self._on_change

    def begin(self) -> None:
        for _ in range(self.options.starved):
            self._new_spell()

    def end(self) -> None:
        self.is_over = True
        for node in self.world.machines:
            self.world.resume(node)

    def _new_spell(self) -> None:
        if self.is_over:
            return
        victim = self._chance.choice(sorted(set(self.world.machines) - self.victims))
        self.victims.add(victim)
        spell_ms = self._chance.randint(self.options.spell_ms_min, self.options.spell_ms_max)
        self._pause(victim, self.world.now_ms + spell_ms)

    def _pause(self, victim: NodeId, end_ms: int) -> None:
        if self.is_over or self.world.now_ms >= end_ms:
            self.victims.discard(victim)
            self._new_spell()
            return
        options = self.options
        # Short pauses are more frequent than long ones.
        ratio = options.pause_ms_max / options.pause_ms_min
        pause_ms = round(options.pause_ms_min * ratio ** self._chance.random())
        self.report.pauses += 1
        self.report.paused_ms += pause_ms
        self.world.pause(victim)
        self._later(pause_ms, lambda: self._resume(victim, end_ms))

    def _resume(self, victim: NodeId, end_ms: int) -> None:
        self.world.resume(victim)
        slice_ms = self._chance.randint(self.options.slice_ms_min, self.options.slice_ms_max)
        self._later(slice_ms, lambda: self._pause(victim, end_ms))

    def _later(self, ms: int, then: Callable[[], None]) -> None:
        self.world.loop.after(ms * NS_PER_MS, "starve", then)

    def _on_change(self, machine: Machine, change: Change) -> None:
        if not isinstance(change, MemberChanged) or change.new is None:
            return
        new, old = change.new, change.old
        if new.state is MemberState.SUSPECT and (old is None or old.version != new.version):
            self.report.suspicions += 1
        elif new.state is MemberState.DEAD:
            # Whoever was paused hears of it later, when it may no longer be so.
            if (new.node, new.incarnation) in self._condemned:
                return
            self._condemned.add((new.node, new.incarnation))
            if new.node in self.victims:
                self.report.deaths_of_starved += 1
            else:
                self.report.deaths_of_healthy += 1


def starve(
    seed: int, options: Starvation, config: MembershipConfig | None = None
) -> StarvationReport:
    """Let a cluster work while some of its members starve, in turn; nobody dies."""
    world = GossipWorld(seed, config=config, network=LOSSY)
    world.start_all(options.members)
    world.loop.run_until(world.all_agree, PATIENCE_MS, every_ms=20)
    starver = _Starver(world, options)
    starver.begin()
    world.loop.run_for(options.minutes * 60_000)
    starver.end()
    report = starver.report
    report.node_minutes = options.members * options.minutes
    world.loop.run_for(SETTLE_MS)
    everybody = set(world.machines)
    report.strayed = sum(set(core.live()) != everybody for core in world.running())
    return report


def plain_swim() -> MembershipConfig:
    """Return the dials of SWIM with suspicion and nothing else, for comparison.

    There is no judgement of one's own health, a short fixed time for suspects whoever accuses, and
    nothing known of one's own pauses.
    """
    return MembershipConfig(
        health_max=0,
        suspicion_ms_min=1_000,
        suspicion_ms_max=1_000,
        suspicion_confirmations=0,
        stall_ms=10**9,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """How a parted cluster found together."""

    #: Until each side held the other for dead.
    parted_ms: int
    #: From the end of the partition until all saw all alive.
    healed_ms: int
    #: Verdicts on members of a side's own, at any time.
    deaths_within_side: int


@dataclass(slots=True)
class _SideWatch:
    sides: tuple[frozenset[NodeId], frozenset[NodeId]]
    deaths: int = field(default=0)

    def on_change(self, machine: Machine, change: Change) -> None:
        if isinstance(change, MemberChanged) and change.new is not None:
            if change.new.state is MemberState.DEAD:
                pair = {machine.node, change.new.node}
                self.deaths += any(pair <= side for side in self.sides)


def part_and_heal(seed: int, members: int, on_first_side: int) -> Healing:
    """Part a cluster until both sides have given each other up, and heal it."""
    world = GossipWorld(seed, network=LOSSY)
    world.start_all(members)
    world.loop.run_until(world.all_agree, PATIENCE_MS, every_ms=20)
    world.loop.run_for(2_000)
    first = frozenset(NodeId(node) for node in range(1, on_first_side + 1))
    second = frozenset(world.machines) - first
    watch = _SideWatch((first, second))
    world.on_change = watch.on_change
    began_ms = world.now_ms
    world.part(first, second)

    def are_apart() -> bool:
        sides = watch.sides
        return all(
            set(core.live()) == (sides[0] if core.node in sides[0] else sides[1])
            for core in world.running()
        )

    world.loop.run_until(are_apart, PATIENCE_MS, every_ms=20)
    parted_ms = world.now_ms - began_ms
    world.loop.run_for(5_000)
    world.heal()
    began_ms = world.now_ms
    world.loop.run_until(world.all_agree, PATIENCE_MS, every_ms=20)
    return Healing(
        parted_ms=parted_ms,
        healed_ms=world.now_ms - began_ms,
        deaths_within_side=watch.deaths,
    )
