"""`kafkaesque sim`: a whole cluster on a simulated clock, network and disk, from one seed."""

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kafkaesque.cli.arguments import JsonOption, new_app, wrong_usage
from kafkaesque.cli.exit_codes import DAMAGED
from kafkaesque.cli.screen import Screen, counted

if TYPE_CHECKING:
    from kafkaesque.sim.runner import SimReport

ANOMALIES_SHOWN_MAX = 20
BROKERS_MAX = 9

app = new_app(help="Run a simulated cluster with faults, from a seed.")


@app.callback()
def sim() -> None:
    """Run a simulated cluster with faults, from a seed."""


@app.command()
def run(
    seed: Annotated[int | None, typer.Option(min=0, help="This one, and tell about it.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="So many of them.")] = None,
    first: Annotated[int, typer.Option(min=0, help="With --seeds: the first one.")] = 0,
    seconds: Annotated[float, typer.Option(min=0.1, help="Simulated time with faults.")] = 10.0,
    brokers: Annotated[int, typer.Option(min=1, max=BROKERS_MAX)] = 3,
    activity: Annotated[
        list[str] | None,
        typer.Option(help="Let this go on beside, and not what the seed draws; also several."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="At the same time.", show_default="all cores")
    ] = None,
    history: Annotated[
        Path | None, typer.Option(help="With --seed: write the end of its history, if it is bad.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run brokers, clients and faults from a seed, and check what the clients saw.

    The same seed gives the same history, byte for byte. Ends with 4 when a seed shows a problem;
    `--seed` with that number shows it again. With --json, one line for each seed.

    \b
    Example:
      kafkaesque sim run --seed 7
      kafkaesque sim run --seeds 10000
      kafkaesque sim run --seeds 100 --activity exactly-once
    """
    if (seed is None) == (seeds is None):
        raise wrong_usage("one of --seed and --seeds says what to run", "--seed 7")
    activities = tuple(activity or ())
    _check_activities(activities)
    chosen = [seed] if seed is not None else list(range(first, first + (seeds or 0)))
    screen = Screen(json=json)
    bad = []
    counts = Counter[str]()
    with screen.progress("seeds", len(chosen), is_hidden=seed is not None) as bar:
        one = partial(_run_one, brokers=brokers, seconds=seconds, activities=activities)
        for report in _reports(one, chosen, jobs or os.cpu_count() or 1):
            bar.advance()
            counts.update(report.counts)
            if not report.ok:
                bad.append(report.seed)
            if json:
                screen.show_json({**_without_lines(report), "ok": report.ok})
            elif seed is not None or not report.ok:
                _tell(report)
            if history is not None and report.lines:
                history.write_text("".join(f"{line}\n" for line in report.lines), "utf-8")
    if not json and seed is None:
        print(f"{len(chosen) - len(bad)} of {len(chosen)} seeds are well")
        if counts:
            print(f"in all: {_told(counts)}")
    if bad:
        if not json and seed is None:
            words = "".join(f" --activity {each}" for each in activities)
            screen.note(f"again: kafkaesque sim run --seed {bad[0]} --seconds {seconds:g}{words}")
        raise typer.Exit(DAMAGED)


@app.command()
def scenarios(
    seed: Annotated[int, typer.Option(min=0, help="All chance comes from it.")] = 1,
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
    seed: Annotated[int, typer.Option(min=0, help="All chance comes from it.")] = 1,
    only: Annotated[
        list[str] | None,
        typer.Option(help="rumours, rounds, failures, partitions or starvation; also several."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Less of everything: minutes.")] = False,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="At the same time.", show_default="all cores")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the charts to this file, as SVG.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Measure membership in the simulator: how news spreads, and how failures are found.

    Runs the code that brokers are to find one another with, on virtual time. Ends with 4 if a
    killed process is not known within a second, or one that only starves is taken for dead.

    \b
    Example:
      kafkaesque sim gossip --quick
      kafkaesque sim gossip --only rumours --plot gossip.svg
    """
    from kafkaesque.cli.gossip_study import run_study

    problems = run_study(seed, only or [], is_quick=quick, jobs=jobs, plot=plot, json=json)
    if problems:
        raise typer.Exit(DAMAGED)


def _check_activities(activities: tuple[str, ...]) -> None:
    if activities:
        from kafkaesque.sim.options import ACTIVITIES

        for each in activities:
            if each not in ACTIVITIES:
                raise wrong_usage(f"--activity {each} is none of {', '.join(ACTIVITIES)}")


def _reports(
    one: "Callable[[int], SimReport]", seeds: list[int], jobs: int
) -> "Iterator[SimReport]":
    if len(seeds) == 1 or jobs == 1:
        yield from map(one, seeds)
        return
    # Processes of their own, not forks: a run must not depend on what ran before it.
    context = get_context("spawn")
    with ProcessPoolExecutor(max_workers=min(jobs, len(seeds)), mp_context=context) as pool:
        yield from pool.map(one, seeds)


def _run_one(seed: int, brokers: int, seconds: float, activities: tuple[str, ...]) -> "SimReport":
    from kafkaesque.sim.options import SimOptions, draw_options
    from kafkaesque.sim.runner import run_seed

    base = SimOptions()
    base = replace(
        base,
        brokers=brokers,
        replicas=min(base.replicas, brokers),
        duration_ms=int(seconds * 1000),
    )
    drawn = draw_options(seed, base)
    return run_seed(seed, replace(drawn, activities=activities or drawn.activities))


def _without_lines(report: "SimReport") -> dict[str, object]:
    document = asdict(report)
    del document["lines"]
    return document


def _tell(report: "SimReport") -> None:
    print(
        f"seed {report.seed}: {'well' if report.ok else 'NOT WELL'};"
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
