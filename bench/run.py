"""Measures Kafkaesque and, beside it in the same run, Apache Kafka; prints a table, writes JSON.

    scripts/bench                          everything, as docs/performance.md shows it
    scripts/bench --quick                  a few minutes, one round, to see that it works
    scripts/bench --only latency           one measure; may be given more than once
    scripts/bench --peer none              ours alone
    scripts/bench --before ../checkout     this checkout beside another one of ours

Both sides run the same load (bench/load.c on librdkafka), on 127.0.0.1, in turns; a ratio is the
median over the rounds of ours divided by the peer's in the same round.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.apache_kafka import SERVER_VERSION, ApacheKafka, fetch_server
from bench.contest import Contest, Outcome, Settings, SideMaker
from bench.load import LoadError, compile_load
from bench.maven import PeerUnavailableError
from bench.measures import MEASURES
from bench.ours import Kafkaesque, of_checkout

EXIT_CANNOT_RUN = 2
EXIT_WITH_PROBLEMS = 1


def read_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", action="append", choices=list(MEASURES), metavar="NAME")
    parser.add_argument("--quick", action="store_true", help="one short round, fewer cases")
    parser.add_argument("--seconds", type=float, help="length of each run (5; quick: 1.5)")
    parser.add_argument("--rounds", type=int, help="runs of each case and side (3; quick: 1)")
    parser.add_argument("--peer", choices=["kafka", "none"], default="kafka")
    parser.add_argument("--before", type=Path, metavar="CHECKOUT", help="the peer: these brokers")
    parser.add_argument("--ours", choices=["yes", "no"], default="yes", help=argparse.SUPPRESS)
    parser.add_argument("--data", type=Path, help="where brokers keep their data for the run")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--markdown", type=Path, help="write the table to this file, too")
    return parser.parse_args()


def make_settings(arguments: argparse.Namespace) -> Settings:
    """Return the settings that the options stand for."""
    quick = bool(arguments.quick)
    return Settings(
        rounds=arguments.rounds or (1 if quick else 3),
        seconds=arguments.seconds or (1.5 if quick else 5.0),
        quick=quick,
        recovery_bytes=100_000_000 if quick else 1_000_000_000,
        bytes_max=200_000_000 if quick else 1_000_000_000,
        directory=arguments.data,
    )


def make_sides(arguments: argparse.Namespace) -> dict[str, SideMaker]:
    """Return the sides that can be had here; says so when the peer cannot."""
    sides: dict[str, SideMaker] = {}
    if arguments.ours == "yes":
        sides[Kafkaesque.name] = Kafkaesque
    if arguments.before is not None:
        before = of_checkout(arguments.before)
        sides[before.name] = before
    elif arguments.peer == "kafka":
        try:
            fetch_server()
            sides[ApacheKafka.name] = ApacheKafka
        except PeerUnavailableError as error:
            print(f"{error}\nMeasuring without it.", file=sys.stderr)
    return sides


def machine() -> dict[str, str]:
    """Return what the figures were made on."""
    models = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    found = {
        "processor": f"{len(models)} x {models[0]}" if models else platform.machine(),
        "memory": f"{memory_kib / 1024 / 1024:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }
    git = shutil.which("git")
    if git is not None:
        command = [git, "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found["commit"] = done.stdout.strip()
    return found


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    for limit, digits in ((100, 0), (10, 1), (1, 2)):
        if abs(value) >= limit:
            return f"{value:,.{digits}f}"
    return f"{value:.3f}"


def _peer(contest: Contest) -> str:
    """Return the name of the side that ours is compared with."""
    others = (name for name in contest.side_names if name != Kafkaesque.name)
    return next(others, ApacheKafka.name)


def _row(outcome: Outcome, peer: str) -> list[str]:
    case = outcome.case
    ratio = outcome.ratio(Kafkaesque.name, peer)
    return [
        case.measure,
        case.detail,
        case.unit,
        _number(outcome.median(Kafkaesque.name)),
        _number(outcome.median(peer)),
        "-" if ratio is None else f"{ratio:.2f}",
        "higher" if case.higher_is_better else "lower",
    ]


def markdown(contest: Contest, about: Mapping[str, str]) -> str:
    """Return the results as a Markdown table with what they were made on."""
    peer = _peer(contest)
    title = f"{peer} {SERVER_VERSION}" if peer == ApacheKafka.name else peer
    head = ["measure", "case", "unit", Kafkaesque.name, title, "ratio", "better"]
    rows = [head, ["---"] * len(head), *(_row(each, peer) for each in contest.outcomes.values())]
    settings = contest.settings
    lines = [
        ", ".join(f"{name} {value}" for name, value in about.items() if value),
        "",
        f"Medians of {settings.rounds} round(s), {settings.seconds:g} s each; command: "
        f"`scripts/bench {' '.join(sys.argv[1:])}`".rstrip("` ")
        + "`",
        "",
        *("| " + " | ".join(row) + " |" for row in rows),
    ]
    if contest.problems:
        lines += ["", "Problems:", "", *(f"- {problem}" for problem in contest.problems)]
    return "\n".join(lines) + "\n"


def as_json(contest: Contest, about: Mapping[str, str]) -> dict[str, Any]:
    """Return the results, every round of them, as plain data."""
    return {
        "machine": dict(about),
        "command": ["scripts/bench", *sys.argv[1:]],
        "rounds": contest.settings.rounds,
        "seconds": contest.settings.seconds,
        "problems": contest.problems,
        "results": [
            {
                "measure": outcome.case.measure,
                "case": outcome.case.detail,
                "unit": outcome.case.unit,
                "higher_is_better": outcome.case.higher_is_better,
                "figures": outcome.figures,
                "ratio": outcome.ratio(Kafkaesque.name, _peer(contest)),
            }
            for outcome in contest.outcomes.values()
        ],
    }


def main() -> int:
    """Measure what the options ask for; 1 when something failed on the way, 2 when nothing runs."""
    arguments = read_arguments()
    # A plain kill ends it in order, too, with what has been measured so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        compile_load()
    except LoadError as error:
        print(error, file=sys.stderr)
        return EXIT_CANNOT_RUN
    contest = Contest(make_sides(arguments), make_settings(arguments))
    try:
        for name in arguments.only or MEASURES:
            MEASURES[name](contest)
    except KeyboardInterrupt:
        contest.note("ended before everything was measured")
    about = machine()
    table = markdown(contest, about)
    print(table)
    if arguments.markdown is not None:
        arguments.markdown.write_text(table, encoding="utf-8")
    if arguments.json is not None:
        text = json.dumps(as_json(contest, about), indent=1) + os.linesep
        arguments.json.write_text(text, encoding="utf-8")
    return EXIT_WITH_PROBLEMS if contest.problems else 0


if __name__ == "__main__":
    sys.exit(main())
