"""Kills at random what a Spark query from topic to topic consists of; counts its results.

    scripts/chaos --spark                two hundred kills (half an hour and more)
    scripts/chaos --spark --kills 10     fewer
    scripts/chaos --spark --seed 42      the same victims and pauses again
    scripts/chaos --spark --guarantee at-least-once --kills 40
                                         a weaker sink, which has to be found out

Three brokers, and a standalone cluster of Spark with two workers, all on 127.0.0.1. A query reads
a topic that grows all the time, transforms its records in Python, shuffles them, and writes them
to another topic, exactly once. Every few seconds the driver, an executor, a Python worker of Spark
or a broker that leads a partition is killed with SIGKILL. In the end all results are read back by
librdkafka, and their multiset has to be the one that is computed directly from the input.
"""

from __future__ import annotations

import argparse
import math
import secrets
import shutil
import statistics
import sys
import tempfile
from pathlib import Path

from bench.processes import BrokerNotReadyError
from bench.spark_chaos.run import Report, Run, RunBroken
from bench.spark_chaos.schedule import Kind, make_schedule
from kafkaesque.spark.errors import ConnectorError

EXIT_WITH_PROBLEMS = 1
PROBLEMS_SHOWN_MAX = 20


def read_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/chaos --spark",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--kills", type=int, default=200, help="how many (200)")
    parser.add_argument("--seed", type=int, help="which victims and pauses (drawn)")
    parser.add_argument("--rate", type=int, default=100, help="records sent per second (100)")
    parser.add_argument(
        "--pause", type=float, default=2.0, help="longest pause between kills, s (2)"
    )
    parser.add_argument("--seconds", type=float, default=math.inf, help="no kills after this time")
    parser.add_argument(
        "--guarantee",
        choices=("exactly-once", "at-least-once"),
        default="exactly-once",
        help="the sink's; with at-least-once kills double results, and the run fails",
    )
    parser.add_argument("--data", type=Path, help="where data and logs of the run are kept")
    parser.add_argument("--keep", action="store_true", help="leave data and logs, problems or not")
    return parser.parse_args()


def problems_of(report: Report) -> list[str]:
    """Return what is wrong, in sentences."""
    counts = {
        "lost": report.lost,
        "there more than once": report.doubled,
        "there that no input makes": report.foreign,
    }
    found = [f"{count} results are {what}" for what, count in counts.items() if count]
    return [*report.problems, *found]


def show(report: Report) -> None:
    """Print what came of a run."""
    kinds = ", ".join(f"{kind.value} {report.kills[kind]}" for kind in Kind)
    print(
        f"\nseed {report.seed}: {report.kills.total()} kills ({kinds}) in {report.seconds:.0f} s\n"
        f"  records sent {report.fed}; results {report.found}, of {report.expected} computed"
        " directly from them\n"
        f"  lost {report.lost}, doubled {report.doubled}, foreign {report.foreign}\n"
        f"  queries that failed and were started again {report.query_failures},"
        f" drivers that ended by themselves {report.drivers_ended}\n"
        "  from a kill to the next result:"
    )
    for kind, silences in report.silence_s.items():
        median, longest = statistics.median(silences), max(silences)
        print(f"    {kind.value}: median {median:.1f} s, max {longest:.1f} s ({len(silences)})")
    problems = problems_of(report)
    for problem in problems[:PROBLEMS_SHOWN_MAX]:
        print(f"  PROBLEM: {problem}")
    if not problems:
        print("  each result is there exactly once")


def main() -> int:
    """Run; return the exit status."""
    arguments = read_arguments()
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    folder = Path(tempfile.mkdtemp(prefix="chaos-", dir=arguments.data))
    print(f"seed {seed}, data and logs in {folder}", flush=True)
    run = Run(
        make_schedule(seed, arguments.kills, arguments.pause),
        seed=seed,
        folder=folder,
        per_second=arguments.rate,
        kills_s_max=arguments.seconds,
        guarantee=arguments.guarantee,
        say=lambda line: print(line, flush=True),
    )
    try:
        run.run()
    except (RunBroken, BrokerNotReadyError, ConnectorError, TimeoutError) as error:
        run.report.problems.insert(0, str(error))
    except KeyboardInterrupt:
        run.report.problems.insert(0, "it was interrupted, and nothing was counted")
    show(run.report)
    is_well = not problems_of(run.report)
    if is_well and not arguments.keep:
        run.close()
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"data and logs are left in {folder}")
    return 0 if is_well else EXIT_WITH_PROBLEMS


if __name__ == "__main__":
    sys.exit(main())
