"""Kills brokers at random under load, and checks that nothing acknowledged is lost or doubled.

    scripts/kills                    a hundred kills (about ten minutes)
    scripts/kills --times 10         fewer
    scripts/kills --seed 42          the same victims and pauses again

Three brokers on 127.0.0.1, each a process; idempotent producers and a consumer group at work all
the time. Brokers are killed with SIGKILL, one at a time, while another recovers, or all at once,
and stopped for a while with SIGSTOP. In the end: everything acknowledged is in the log exactly once
and where it was acknowledged, offsets are without gaps, each producer's records are in order, the
group was given everything, and the replicas are equal byte for byte.
"""

from __future__ import annotations

import argparse
import os
import secrets
import sys
import tempfile
from pathlib import Path

from bench.kills.check import shortened
from bench.kills.run import Report, Run, RunBroken, describe_times, times
from bench.kills.schedule import Blow, make_schedule
from bench.processes import BrokerNotReadyError

EXIT_WITH_PROBLEMS = 1


def read_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/kills",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--times", type=int, default=100, help="kills (100)")
    parser.add_argument("--seed", type=int, help="which victims and pauses (drawn)")
    parser.add_argument("--rate", type=int, default=500, help="records sent per second (500)")
    parser.add_argument("--data", type=Path, help="where brokers keep their data for the run")
    parser.add_argument("--keep", action="store_true", help="leave data and logs, problems or not")
    return parser.parse_args()


def show(report: Report) -> None:
    """Print what came of a run."""
    count, size_bytes = report.replicas
    print(
        f"\nseed {report.seed}: {report.kills} kills and {report.pauses} pauses in "
        f"{report.seconds:.0f} s\n"
        f"  sent {report.sent}, acknowledged {report.acknowledged}, "
        f"given to the group {report.given} ({report.given_again} of them again; longest silence "
        f"{report.group_silence_s:.1f} s)\n"
        f"  replicas compared: {count} partitions, {size_bytes / 1e6:.1f} MB each\n"
        f"  until everything recovered and in sync: {describe_times(report.settled_s)}\n"
        "  until every partition that the victim led acknowledges again:"
    )
    for blow in Blow:
        brokers, clients = times(report.failovers, blow)
        if brokers:
            print(
                f"    {blow.value} ({len(brokers)}): {describe_times(brokers)}; "
                f"at the clients {describe_times(clients)}"
            )
    if not report.problems:
        print("  nothing lost, nothing doubled, no gaps, replicas equal")
    for problem in shortened(report.problems):
        print(f"  PROBLEM: {problem}")


def main() -> int:
    """Run; return the exit status."""
    arguments = read_arguments()
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    # What brokers report is wanted when something is wrong.
    os.environ.setdefault("KAFKAESQUE_LOG_LEVEL", "info")
    directory = Path(tempfile.mkdtemp(prefix="kills-", dir=arguments.data))
    print(f"seed {seed}, data and logs in {directory}", flush=True)
    run = Run(
        make_schedule(seed, arguments.times),
        seed=seed,
        directory=directory,
        per_second=arguments.rate,
        say=lambda line: print(line, flush=True),
    )
    try:
        run.run()
    except (RunBroken, BrokerNotReadyError) as error:
        run.report.problems.insert(0, str(error))
    show(run.report)
    if run.report.problems or arguments.keep:
        print(f"data and logs are left in {directory}")
    else:
        run.close()
        directory.rmdir()
    if run.has_stuck_members:
        sys.stdout.flush()
        os._exit(EXIT_WITH_PROBLEMS)
    return EXIT_WITH_PROBLEMS if run.report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
