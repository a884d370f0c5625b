"""A replicated table that only the tests have, through many seeds with every fault.

    .venv/bin/python -m tests.sim.lock_seeds               seeds 0 to 199
    .venv/bin/python -m tests.sim.lock_seeds --first 1000 --seeds 50

The suite runs the first few of them. Ends with 1 if a seed is not well.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

from kafkaesque.sim.options import SimOptions, with_faults
from kafkaesque.sim.runner import SimReport
from kafkaesque.tables import replicated
from tests.sim.lock_table import run_locks

SEEDS = 200
LOCKS = SimOptions(between_ms=700, min_insync=2)
#: Snapshots come often, so that logs are cut and installed.
SNAPSHOT_BYTES = 1_500


def run_seed(seed: int) -> SimReport:
    """Run one seed with every fault."""
    return run_locks(seed, with_faults(seed, LOCKS, "all"))


def main() -> int:
    """Run seeds, and tell of each that is not well; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="tests.sim.lock_seeds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"so many ({SEEDS})")
    parser.add_argument("--first", type=int, default=0, help="the first one (0)")
    arguments = parser.parse_args()
    replicated.SNAPSHOT_BYTES = SNAPSHOT_BYTES
    counts, failed = Counter[str](), 0
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        report = run_seed(seed)
        counts.update(report.counts)
        if not report.ok:
            failed += 1
            print(f"seed {seed}: {'; '.join(report.anomalies)}", flush=True)
    told = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{arguments.seeds - failed} of {arguments.seeds} seeds without a problem: {told}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
