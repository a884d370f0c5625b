"""The experiments of `kafkaesque sim gossip`, cut into pieces that can run at the same time."""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kafkaesque.membership.messages import SyncMode
from kafkaesque.membership.rumours import Interest
from kafkaesque.sim.gossip.epidemics import (
    expected_residue,
    never_hear,
    rounds_until_all_know,
)
from kafkaesque.sim.gossip.failures import (
    Detection,
    Healing,
    Starvation,
    StarvationReport,
    detect,
    part_and_heal,
    plain_swim,
    starve,
)
from kafkaesque.sim.gossip.plot import Line, Panel, draw

EXPERIMENTS: Final = ("rumours", "rounds", "failures", "partitions", "starvation")

#: A killed process is known to be dead by all others within this time.
KNOWN_MS_MAX: Final = 1_000

_KS: Final = range(1, 8)
_HOWS: Final = ("kill", "kill, linked", "power")
_STARVING: Final = ("default", "default, long pauses", "plain SWIM")
#: What is simulated of more nodes than this takes long and differs little.
_MANY: Final = 1_000
#: Long enough for a verdict to be right, so only the others must be spared.
_LONG_PAUSE_MS: Final = 30_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """How much is simulated."""

    nodes: int = 10_000
    repeats: int = 4
    rounds_of: Sequence[int] = (10, 30, 100, 300, 1_000, 3_000, 10_000)
    clusters_of: Sequence[int] = (3, 5, 10, 20, 50)
    kills: int = 100
    power_cuts: int = 10
    node_minutes: float = 5_000
    #: Of the two that are there to be compared with.
    node_minutes_beside: float = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A part of an experiment: what it belongs to, and what is to be called."""

    key: tuple[Any, ...]
    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    options: Mapping[str, Any] | None = None

    def run(self) -> tuple[tuple[Any, ...], Any]:
        """Return the key and what came of it."""
        return self.key, self.call(*self.arguments, **(self.options or {}))


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTable:
    """What an experiment found, for people."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | float]]


def plan(seed: int, scale: Scale, experiments: Sequence[str]) -> list[Piece]:
    """Return the pieces of the experiments, the long ones first."""
    makers = {
        "starvation": _starvation,
        "failures": _failures,
        "rounds": _rounds,
        "rumours": _rumours,
        "partitions": _partitions,
    }
    return [
        piece for name, make in makers.items() if name in experiments for piece in make(seed, scale)
    ]


def _rumours(seed: int, scale: Scale) -> Iterator[Piece]:
    for k in reversed(_KS):
        for coin in (True, False):
            interest = Interest(feedback=True, coin=coin, k=k)
            for repeat in range(scale.repeats):
                key = ("rumours", coin, k, repeat)
                yield Piece(
                    key=key, call=never_hear, arguments=(seed + repeat, scale.nodes, interest)
                )


def _rounds(seed: int, scale: Scale) -> Iterator[Piece]:
    for count in reversed(scale.rounds_of):
        for mode in SyncMode:
            repeats = scale.repeats if count <= _MANY else max(1, scale.repeats // 2)
            for repeat in range(repeats):
                key = ("rounds", mode, count, repeat)
                arguments = (seed + repeat, count, mode)
                yield Piece(key=key, call=rounds_until_all_know, arguments=arguments)


def _failures(seed: int, scale: Scale) -> Iterator[Piece]:
    for members in reversed(scale.clusters_of):
        for how in _HOWS:
            failures = scale.power_cuts if how == "power" else scale.kills
            yield Piece(
                key=("failures", how, members),
                call=detect,
                arguments=(seed, members, failures),
                options={"how": how},
            )


def _partitions(seed: int, scale: Scale) -> Iterator[Piece]:
    for members, first in ((3, 1), (5, 2), (10, 5), (20, 1), (50, 20)):
        if members <= max(scale.clusters_of):
            key = ("partitions", members, first)
            yield Piece(key=key, call=part_and_heal, arguments=(seed, members, first))


def _starvation(seed: int, scale: Scale) -> Iterator[Piece]:
    for name in _STARVING:
        minutes = scale.node_minutes if name == "default" else scale.node_minutes_beside
        longest_ms = _LONG_PAUSE_MS if name.endswith("long pauses") else Starvation().pause_ms_max
        members, number = Starvation().members, 0
        while minutes > 0:
            share = min(minutes, members * Starvation().minutes)
            options = Starvation(minutes=share / members, pause_ms_max=longest_ms)
            config = plain_swim() if name == "plain SWIM" else None
            key = ("starvation", name, number)
            yield Piece(key=key, call=starve, arguments=(seed + number, options, config))
            minutes -= share
            number += 1


class Findings:
    """What came of the pieces."""

    def __init__(self, found: Mapping[tuple[Any, ...], Any]) -> None:
        self._found: Final = found

    def _of(self, *start: object) -> list[Any]:
        return [value for key, value in self._found.items() if key[: len(start)] == start]

    def _keys(self, name: str, place: int) -> list[Any]:
        return sorted({key[place] for key in self._found if key[0] == name})

    def tables(self, scale: Scale) -> list[StudyTable]:
        """Return a table for each experiment that was made."""
        tables = {
            "rumours": self._rumours_table,
            "rounds": self._rounds_table,
            "failures": self._failures_table,
            "partitions": self._partitions_table,
            "starvation": self._starvation_table,
        }
        return [make(scale) for name, make in tables.items() if self._of(name)]

    def _rumours_table(self, scale: Scale) -> StudyTable:
        rows = []
        for k in _KS:
            row: list[str | int | float] = [k, round(scale.nodes * expected_residue(k))]
            for coin in (True, False):
                residues = self._of("rumours", coin, k)
                row += [round(statistics.mean(residues), 1), f"{min(residues)}-{max(residues)}"]
            rows.append(row)
        return StudyTable(
            title=f"rumours: how many of {scale.nodes} nodes never hear of one",
            columns=("k", "theory", "coin", "from-to", "counter", "from-to"),
            rows=rows,
        )

    def _rounds_table(self, scale: Scale) -> StudyTable:
        rows = []
        for count in self._keys("rounds", 2):
            means = [self._mean_rounds(mode, count) for mode in SyncMode]
            rows.append([count, *means])
        return StudyTable(
            title="rounds: comparisons with one by lot until all nodes know",
            columns=("nodes", *(mode.name.lower().replace("_", "-") for mode in SyncMode)),
            rows=rows,
        )

    def _mean_rounds(self, mode: SyncMode, count: int) -> float:
        return round(
            statistics.mean(len(known) - 1 for known in self._of("rounds", mode, count)), 1
        )

    def _failures_table(self, scale: Scale) -> StudyTable:
        rows = []
        for how in _HOWS:
            for members in self._keys("failures", 2):
                (found,) = self._of("failures", how, members)
                rows.append([how, members, len(found.dead_ms), *_figures(found)])
        return StudyTable(
            title="failures: milliseconds until all others know",
            columns=(
                "failure",
                "nodes",
                "times",
                "suspect, median",
                "longest",
                "dead, median",
                "longest",
            ),
            rows=rows,
        )

    def _partitions_table(self, scale: Scale) -> StudyTable:
        rows = [
            _partition_row(members, first, found)
            for members in self._keys("partitions", 1)
            for first in self._keys("partitions", 2)
            for found in self._of("partitions", members, first)
        ]
        return StudyTable(
            title="partitions: milliseconds",
            columns=("sides", "parted until", "healed after", "deaths within a side"),
            rows=rows,
        )

    def _starvation_table(self, scale: Scale) -> StudyTable:
        rows: list[list[str | int | float]] = []
        for name in _STARVING:
            total = StarvationReport()
            for report in self._of("starvation", name):
                total.add(report)
            rows.append(
                [
                    name,
                    round(total.node_minutes),
                    total.pauses,
                    round(total.paused_ms / 60_000),
                    total.suspicions,
                    total.deaths_of_healthy,
                    total.deaths_of_starved,
                    total.strayed,
                ]
            )
        return StudyTable(
            title="starvation: false deaths of members that get too little of a processor",
            columns=(
                "dials",
                "node-minutes",
                "pauses",
                "minutes paused",
                "suspicions",
                "deaths of healthy",
                "deaths of starved",
                "strayed",
            ),
            rows=rows,
        )

    def problems(self) -> list[str]:
        """Return what is not as it is promised."""
        problems = [
            f"{how}, {members} nodes: {max(found.dead_ms)} ms until all others knew"
            for how in _HOWS[:2]
            for members in self._keys("failures", 2)
            for found in self._of("failures", how, members)
            if max(found.dead_ms) > KNOWN_MS_MAX
        ]
        for name in _STARVING[:2]:
            for report in self._of("starvation", name):
                false = report.deaths_of_healthy
                false += report.deaths_of_starved if name == "default" else 0
                if false or report.strayed:
                    problems.append(f"{name}: {false} false deaths, {report.strayed} strayed")
        return problems

    def plot(self, scale: Scale) -> str:
        """Return the charts of the experiments that were made."""
        panels = []
        if self._of("rumours"):
            panels.append(self._rumours_panel(scale))
        if self._of("rounds"):
            panels.append(self._rounds_panel())
        if self._of("failures"):
            panels.append(self._failures_panel())
        return draw(panels)

    def _rumours_panel(self, scale: Scale) -> Panel:
        theory = [(k, scale.nodes * expected_residue(k)) for k in _KS]
        lines = [Line(name="theory", points=theory, has_dots=False)]
        for coin, name in ((True, "coin"), (False, "counter")):
            points = [(k, statistics.mean(self._of("rumours", coin, k))) for k in _KS]
            # Nobody at all has no place on a logarithmic axis.
            points = [(k, mean) for k, mean in points if mean]
            lines.append(Line(name=name, points=points, is_drawn=False))
        return Panel(
            title=f"Rumours: who never hears, of {scale.nodes:,}",
            x_name="k",
            y_name="nodes",
            lines=lines,
            y_is_logarithmic=True,
        )

    def _rounds_panel(self) -> Panel:
        lines = []
        for mode in SyncMode:
            points = [(n, self._mean_rounds(mode, n)) for n in self._keys("rounds", 2)]
            lines.append(Line(name=mode.name.lower().replace("_", "-"), points=points))
        return Panel(
            title="Repair: rounds until all know",
            x_name="nodes",
            y_name="rounds",
            lines=lines,
            x_is_logarithmic=True,
        )

    def _failures_panel(self) -> Panel:
        lines = []
        for how, name in (("kill", "killed: dead"), ("power", "switched off: suspect")):
            points = []
            for members in self._keys("failures", 2):
                (found,) = self._of("failures", how, members)
                times = found.dead_ms if how == "kill" else found.suspect_ms
                points.append((members, max(times)))
            lines.append(Line(name=name, points=points))
        return Panel(
            title="Failures: longest time until all know",
            x_name="nodes",
            y_name="ms",
            lines=lines,
        )


def _figures(found: Detection) -> list[int]:
    return [
        round(statistics.median(found.suspect_ms)),
        max(found.suspect_ms),
        round(statistics.median(found.dead_ms)),
        max(found.dead_ms),
    ]


def _partition_row(members: int, first: int, found: Healing) -> list[str | int | float]:
    sides = f"{first} and {members - first}"
    return [sides, found.parted_ms, found.healed_ms, found.deaths_within_side]
