"""The thousand hours: ten thousand seeds of the simulator with every fault, compiled, on all cores.

    scripts/seeds                  seeds 0 to 9999; some seven hours of one core
    scripts/seeds --seeds 200      fewer

Each seed is six minutes of cluster time. Compiles the simulator first (`bench.compiled_simulator`),
where there is a C compiler. Goes on where it stopped: what was run on this very code stands in the
file of results, which begins with what the project keeps (`bench/kept_seeds.jsonl.xz`), if that is
of this code. Whatever is kept can be run again, and has the same history:

    kafkaesque sim run --seed 4711 --faults all

Ends with 4 if a seed is not well, as `kafkaesque sim run` does.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.compiled_simulator import compile_in, has_compiler, prepare
from kafkaesque.cli.exit_codes import DAMAGED
from kafkaesque.cli.failure import CommandFailed
from kafkaesque.cli.sim_results import ResultsFile, name_code

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "bench" / "kept_seeds.jsonl.xz"
BUILD = ROOT / "build" / "simulator"
#: As results say it.
HOW = "--faults 'all'"
SEEDS = 10_000
#: A compiled process keeps some 15 MB of each seed: after so many, new ones begin.
SEEDS_AT_A_TIME = 100


def read_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/seeds",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"so many ({SEEDS})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="at a time (all cores)")
    parser.add_argument(
        "--results", type=Path, default=Path("seeds.jsonl"), help="is added to (seeds.jsonl)"
    )
    parser.add_argument("--as-it-is", action="store_true", help="compile nothing")
    parser.add_argument(
        "--keep", action="store_true", help=f"run nothing; keep the results in {KEPT.name}"
    )
    return parser.parse_args()


def find_simulator(as_it_is: bool) -> Path:
    """Return the command that runs seeds: compiled from these sources where that can be done."""
    ours = Path(sys.executable).with_name("kafkaesque")
    directory = BUILD / name_code()
    compiled = directory / "kafkaesque"
    if as_it_is or compiled.exists():
        return ours if as_it_is else compiled
    if not has_compiler():
        print("there is no C compiler: the simulator runs as it is, and takes twice as long")
        return ours
    # A compilation that was ended has left something.
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    print(f"compiling the simulator in {directory.relative_to(ROOT)} (minutes)", flush=True)
    prepare(directory)
    compile_in(directory)
    return compiled


def begin_with_kept(results: Path) -> None:
    """Make the file of results of what is kept, if it is not there."""
    if not results.exists() and KEPT.exists():
        results.write_bytes(lzma.decompress(KEPT.read_bytes()))


def of_this_code(results: Path) -> dict[int, Any]:
    """Return what this code has run with every fault, by seed.

    Raises:
        CommandFailed: the file has something else in it, such as half a line.
    """
    return {line["seed"]: line for line in ResultsFile(results, HOW).done()}


def keep(results: Path) -> None:
    """Keep what was run on this code, by seed."""
    ours = of_this_code(results)
    text = "".join(json.dumps(ours[seed]) + "\n" for seed in sorted(ours))
    KEPT.write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(ours)} seeds of this code are kept in {KEPT.relative_to(ROOT)}")


def run(arguments: argparse.Namespace) -> int:
    """Run seeds, some at a time, then tell of all; return the exit code."""
    words = [str(find_simulator(arguments.as_it_is)), "sim", "run", "--faults", "all"]
    words += ["--results", str(arguments.results), "--jobs", str(arguments.jobs)]
    begin_with_kept(arguments.results)
    done = of_this_code(arguments.results)
    for first in range(0, arguments.seeds, SEEDS_AT_A_TIME):
        count = min(SEEDS_AT_A_TIME, arguments.seeds - first)
        if done.keys() >= set(range(first, first + count)):
            continue
        some = [*words, "--first", str(first), "--seeds", str(count)]
        code = subprocess.run(some, check=False).returncode
        if code not in (0, DAMAGED):
            return code
    return subprocess.run([*words, "--seeds", str(arguments.seeds)], check=False).returncode


def main() -> int:
    """Run, or keep what was run; return the exit code."""
    arguments = read_arguments()
    try:
        if not arguments.keep:
            return run(arguments)
        keep(arguments.results)
        return 0
    except CommandFailed as failure:
        failure.show()
        return failure.exit_code
    except KeyboardInterrupt:
        print(f"stopped; the same command continues ({arguments.results})", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
