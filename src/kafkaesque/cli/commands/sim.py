"""`kafkaesque sim`: a whole cluster on a simulated clock, network and disk, from one seed."""

import gc
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from json import dumps
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import (
    JsonOption,
    check_output,
    new_app,
    number_option,
    wrong_usage,
)
from kafkaesque.cli.exit_codes import DAMAGED
from kafkaesque.cli.screen import Screen, counted
from kafkaesque.cli.sim_results import ResultsFile, Tally, make_line

if TYPE_CHECKING:
    from kafkaesque.sim.runner import SimReport

ANOMALIES_SHOWN_MAX = 20
BROKERS = 3
BROKERS_MAX = 9
#: Runs make much garbage and few cycles of it: looking for cycles less often saves a tenth.
GARBAGE_OBJECTS = 50_000
#: Kills of leaders that follow one another in one cluster.
KILLS_OF_A_SEED = 100
#: Power cuts that follow one another in one cluster.
CUTS_OF_A_SEED = 25

JobsOption = Annotated[
    int | None, typer.Option(min=1, help="Seeds to run at the same time.", show_default="all cores")
]

app = new_app(help="Run a simulated cluster with faults, from a seed.")


@app.callback()
def sim() -> None:
    """Run a simulated cluster with faults, from a seed."""


@app.command()
def run(
    seed: Annotated[int | None, typer.Option(min=0, help="Run this seed, with details.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Run this many seeds.")] = None,
    first: Annotated[
        int, typer.Option("--first", "--first-seed", min=0, help="With --seeds: the first one.")
    ] = 0,
    seconds: Annotated[
        float | None,
        number_option(least=0.1, help="Simulated time with faults.", show_default="10; all: 360"),
    ] = None,
    brokers: Annotated[
        int | None, typer.Option(min=1, max=BROKERS_MAX, show_default="3; all: 3, 4 or 5")
    ] = None,
    faults: Annotated[
        str, typer.Option(help="What goes wrong: survivable, 'lost disks', or all.")
    ] = "survivable",
    activity: Annotated[
        list[str] | None,
        typer.Option(help="Run this too, instead of what the seed chooses; may be repeated."),
    ] = None,
    jobs: JobsOption = None,
    history: Annotated[
        Path | None,
        typer.Option(help="With --seed: write the end of its history here, if there is a problem."),
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="Add each result to this file; skip seeds that are in it already."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run brokers, clients and faults from a seed, and check what the clients saw.

    The same seed gives the same history, byte for byte. Ends with 4 when a seed shows a problem;
    `--seed` with that number shows it again. With --json, one line for each seed.

    With --faults all a run takes six simulated minutes, in which clients work around some of the
    faults and rest between them; one broker's disk is also damaged and lost.

    \b
    Example:
      kafkaesque sim run --seed 7
      kafkaesque sim run --seeds 10000 --faults all --results seeds.jsonl
      kafkaesque sim run --seeds 100 --activity exactly-once
    """
    if (seed is None) == (seeds is None):
        raise wrong_usage("one of --seed and --seeds says what to run", "--seed 7")
    way = _Way(faults=faults, seconds=seconds, brokers=brokers, activities=tuple(activity or ()))
    way.check()
    check_output(results, "--results")
    check_output(history, "--history")
    chosen = [seed] if seed is not None else list(range(first, first + (seeds or 0)))
    file = None if results is None else ResultsFile(results, str(way))
    tally = _run_all(way, chosen, jobs, file, tells=seed is not None, json=json, history=history)
    if not json and seed is None:
        print(f"{tally.seeds - len(tally.bad)} of {counted(tally.seeds, 'seed')} without a problem")
        print(f"in all: {tally}")
        if tally.counts:
            print(f"also {_told(tally.counts)}")
    if tally.bad:
        if not json and seed is None:
            Screen().note(f"again: kafkaesque sim run --seed {tally.bad[0]} {way}")
        raise typer.Exit(DAMAGED)


@app.command("power-cuts")
def power_cuts(
    times: Annotated[int, typer.Option(min=1, help="Number of power cuts.")] = 1_000,
    first: Annotated[
        int, typer.Option("--first", "--first-seed", min=0, help="The first seed.")
    ] = 0,
    brokers: Annotated[int, typer.Option(min=1, max=BROKERS_MAX)] = BROKERS,
    jobs: JobsOption = None,
    json: JsonOption = False,
) -> None:
    """Cut the power of all brokers at once, again and again, while clients write and read.

    Each time, unsynced data is lost or torn. A cluster gets up to 25 cuts, then the next seed
    starts another one. Ends with 4 if an acknowledged message is lost, or anything else is wrong.
    With --json, one line for each seed.

    \b
    Example:
      kafkaesque sim power-cuts --times 1000
    """
    way = _Way(brokers=brokers, cuts=CUTS_OF_A_SEED)
    whole, rest = divmod(times, CUTS_OF_A_SEED)
    chosen = list(range(first, first + whole))
    begun = time.monotonic()
    tally = _run_all(way, chosen, jobs, None, json=json)
    if rest:
        last = _run_all(replace(way, cuts=rest), [first + whole], jobs, None, json=json)
        tally.bad += last.bad
        tally.faults += last.faults
        tally.acknowledged += last.acknowledged
    if not json:
        print(
            f"{counted(tally.faults, 'power cut')} of {counted(brokers, 'broker')} at once;"
            f" {counted(tally.acknowledged, 'message')} acknowledged,"
            f" {'PROBLEMS FOUND' if tally.bad else 'none lost'}; {time.monotonic() - begun:.0f} s"
        )
    if tally.bad:
        raise typer.Exit(DAMAGED)


@app.command("queue-kills")
def queue_kills(
    times: Annotated[int, typer.Option(min=1, help="Number of kills.")] = 1_000,
    in_flight: Annotated[
        int, typer.Option(min=1, help="Messages in flight at a kill, about.")
    ] = 10_000,
    first: Annotated[
        int, typer.Option("--first", "--first-seed", min=0, help="The first seed.")
    ] = 0,
    json: JsonOption = False,
) -> None:
    """Kill the leader of a queue again and again, while workers have thousands of messages.

    A cluster gets up to 100 kills, then the next seed starts another one. Half of the messages are
    in ordered groups, and failures make dead letters. Prints how often each promise of queues was
    broken. Ends with 4 if a message or an attempt is lost, a lock ends early, or anything else is
    wrong. With --json, one line for each seed.

    \b
    Example:
      kafkaesque sim queue-kills --times 1000
    """
    from kafkaesque.sim.queues.kills import kill_leaders

    kills, is_bad, seed, begun = 0, False, first, time.monotonic()
    least, most = in_flight * 100, 0
    broken, counts = Counter[str](), Counter[str]()
    while kills < times:
        report = kill_leaders(seed, min(KILLS_OF_A_SEED, times - kills), in_flight)
        kills, seed = kills + max(1, report.kills), seed + 1
        is_bad = is_bad or bool(report.anomalies)
        least, most = min(least, report.in_flight_least), max(most, report.in_flight_most)
        broken.update(report.broken)
        counts.update(report.counts)
        if json:
            print(dumps(asdict(report)))
        else:
            for anomaly in report.anomalies[:ANOMALIES_SHOWN_MAX]:
                print(f"seed {report.seed}: {anomaly}")
    if not json:
        print(
            f"{counted(kills, 'kill')} of leaders; {least} to {most} messages in flight;"
            f" {'PROBLEMS FOUND' if is_bad else 'nothing lost'}; {time.monotonic() - begun:.0f} s"
        )
        print(", ".join(f"{count} {promise}" for promise, count in broken.items()))
        print(f"of {_told(counts)}")
    if is_bad:
        raise typer.Exit(DAMAGED)


@app.command()
def scenarios(
    seed: Annotated[int, typer.Option(min=0, help="Decides all random choices.")] = 1,
    json: JsonOption = False,
) -> None:
    """Lose a data centre, and see what can still be written and read, and what is lost.

    Plays the usual layouts on virtual time: three data centres; two and a half, in which the half
    one has a controller alone; partitions of two, three and four replicas, with unclean elections
    allowed and not. Ends with 4 if something is lost without such an election.

    \b
    Example:
      kafkaesque sim scenarios
    """
    from kafkaesque.cli.data_centre_table import show_table

    if show_table(seed, json=json):
        raise typer.Exit(DAMAGED)


@app.command()
def gossip(
    seed: Annotated[int, typer.Option(min=0, help="Decides all random choices.")] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(help="rumours, rounds, failures, partitions or starvation; also several."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything: minutes.")] = False,
    jobs: JobsOption = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the charts to this file, as SVG.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure membership in the simulator: how news spreads, and how failures are found.

    Runs the code with which brokers find one another, on virtual time. Ends with 4 if a kill took
    more than a second to be known, or a starved process was declared dead.

    \b
    Example:
      kafkaesque sim gossip --quick
      kafkaesque sim gossip --only rumours --plot gossip.svg
    """
    from kafkaesque.cli.gossip_study import run_study

    problems = run_study(seed, only or [], is_quick=quick, jobs=jobs, plot=plot, json=json)
    if problems:
        raise typer.Exit(DAMAGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """How seeds are run."""

    faults: str = "survivable"
    seconds: float | None = None
    #: None: as the seed draws them with all faults, else three.
    brokers: int | None = None
    activities: tuple[str, ...] = ()
    #: Nothing but so many power cuts of all brokers.
    cuts: int = 0

    def check(self) -> None:
        """Refuse words that are none."""
        from kafkaesque.sim.options import ACTIVITIES, FAULTS

        for each in self.activities:
            if each not in ACTIVITIES:
                raise wrong_usage(f"--activity {each} is not one of {', '.join(ACTIVITIES)}")
        if self.faults not in FAULTS:
            raise wrong_usage(f"--faults {self.faults} is not one of {', '.join(FAULTS)}")

    def __str__(self) -> str:
        words = [] if self.faults == "survivable" else [f"--faults '{self.faults}'"]
        words += [] if self.seconds is None else [f"--seconds {self.seconds:g}"]
        words += [] if self.brokers is None else [f"--brokers {self.brokers}"]
        return " ".join([*words, *(f"--activity {each}" for each in self.activities)])


def _run_all(
    way: _Way,
    seeds: list[int],
    jobs: int | None,
    file: ResultsFile | None,
    *,
    json: bool,
    tells: bool = False,
    history: Path | None = None,
) -> Tally:
    """Run seeds; `tells` of each, and not only of those in which something is wrong."""
    screen, tally, left = Screen(json=json), Tally(), set(seeds)
    for line in file.done() if file is not None else ():
        tally.add(line)
        left.discard(line["seed"])
    with screen.progress("seeds", len(left), is_hidden=tells) as bar:
        for report, cpu_seconds in _reports(way, sorted(left), jobs or os.cpu_count() or 1):
            bar.advance()
            line = make_line(report, cpu_seconds)
            tally.add(line)
            if file is not None:
                file.add(line)
            if json:
                screen.show_json({**_without_lines(report), "ok": report.ok})
            elif tells or not report.ok:
                _tell(report)
            if history is not None and report.lines:
                history.write_text("".join(f"{line}\n" for line in report.lines), "utf-8")
    return tally


def _reports(way: _Way, seeds: list[int], jobs: int) -> "Iterator[tuple[SimReport, float]]":
    one = partial(_run_one, way=way)
    if len(seeds) <= 1 or jobs == 1:
        yield from map(one, seeds)
        return
    # Processes of their own, not forks: a run must not depend on what ran before it.
    context = get_context("spawn")
    with ProcessPoolExecutor(max_workers=min(jobs, len(seeds)), mp_context=context) as pool:
        yield from pool.map(one, seeds)


def _run_one(seed: int, way: _Way) -> "tuple[SimReport, float]":
    """Run a seed; return its report, and the seconds of a core that it took."""
    from kafkaesque.sim.nemesis import plan_power_cuts
    from kafkaesque.sim.options import (
        LONG_RUN,
        SimOptions,
        draw_brokers,
        draw_options,
        name_brokers,
        with_faults,
        with_lost_majorities,
    )
    from kafkaesque.sim.runner import run_seed

    begun, thresholds = time.process_time(), gc.get_threshold()
    base = LONG_RUN if way.faults == "all" else SimOptions()
    brokers = way.brokers or draw_brokers(seed, way.faults)
    options = draw_options(
        seed,
        replace(base, brokers=brokers, replicas=min(base.replicas, brokers)),
    )
    if way.seconds is not None:
        options = replace(options, duration_ms=int(way.seconds * 1000))
    options = replace(options, activities=way.activities or options.activities)
    options = with_faults(seed, with_lost_majorities(seed, options), way.faults)
    options = replace(options, activities=way.activities or options.activities)
    plan = None
    if way.cuts:
        plan, end_ms = plan_power_cuts(seed, name_brokers(brokers), way.cuts)
        options = replace(options, duration_ms=end_ms)
    gc.set_threshold(GARBAGE_OBJECTS)
    try:
        report = run_seed(seed, options, plan)
    finally:
        gc.set_threshold(*thresholds)
    return report, time.process_time() - begun


def _without_lines(report: "SimReport") -> dict[str, object]:
    document = asdict(report)
    del document["lines"]
    return document


def _tell(report: "SimReport") -> None:
    print(
        f"seed {report.seed}: {'ok' if report.ok else 'NOT OK'};"
        f" {counted(report.faults, 'fault')} in {report.simulated_ms / 1000:.1f} simulated seconds;"
        f" {counted(report.sent, 'message')} sent,"
        f" {report.acknowledged} acknowledged, {report.read} read; history {report.digest[:16]}"
    )
    if report.counts:
        print(f"  {_told(report.counts)}")
    for anomaly in report.anomalies[:ANOMALIES_SHOWN_MAX]:
        print(f"  {anomaly}")
    if len(report.anomalies) > ANOMALIES_SHOWN_MAX:
        print(f"  and {len(report.anomalies) - ANOMALIES_SHOWN_MAX} more")


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
