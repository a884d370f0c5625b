"""Fuzzing of everything that reads bytes of strangers: `scripts/fuzz`.

Atheris changes bytes, sees which of our code they reach, and goes on with those that reach more.
The targets are in `tests/property/fuzz_targets.py`, and in `gateway_targets.py` those of whole
gateways, whose bytes are the choices of a random conversation. What it finds is printed, with the
bytes as a line for `tests/property/fuzz_findings.txt`, which the suite reads.

    scripts/fuzz                         every target, two minutes each
    scripts/fuzz --seconds 600 amqp      one of them, for ten minutes
    scripts/fuzz --list                  which there are
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

SECONDS = 120
BYTES_MAX = 2_000
#: One input takes far less; what takes longer is a finding, too.
INPUT_SECONDS_MAX = 10
MEMORY_MB_MAX = 1_500
EXIT_FOUND, EXIT_USAGE, EXIT_UNAVAILABLE = 1, 2, 3
_INSIDE = "--inside"


def fuzz_one(name: str, seconds: int, folder: str) -> None:
    """Fuzz one target in this process, which ends with it."""
    import atheris

    with atheris.instrument_imports(include=["kafkaesque", "wsproto"]):
        from tests.property.gateway_targets import EVERY_TARGET
    target = EVERY_TARGET[name]
    corpus = Path(folder) / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(target.seeds()):
        (corpus / str(number)).write_bytes(seed)
    limits = {
        "max_total_time": seconds,
        "max_len": BYTES_MAX,
        "timeout": INPUT_SECONDS_MAX,
        "rss_limit_mb": MEMORY_MB_MAX,
        "artifact_prefix": f"{folder}/found-",
        "print_final_stats": 1,
        "verbosity": 0,
    }
    options = [f"-{option}={value}" for option, value in limits.items()]
    atheris.Setup([name, str(corpus), *options], target.run)
    atheris.Fuzz()


def run(name: str, seconds: int) -> bool:
    """Fuzz one target in a process of its own; print what it finds, and return whether it does."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", "bench.fuzz", _INSIDE, folder, "--seconds", str(seconds), name],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        found = sorted(Path(folder).glob("found-*"))
        tried = [
            line.rpartition(" ")[2]
            for line in done.stderr.splitlines()
            if line.startswith("stat::number_of_executed_units")
        ]
        print(f"{name}: {tried[0] if tried else 'no'} inputs, {len(found)} findings", flush=True)
        if done.returncode != 0 or found:
            print(done.stdout[-4000:] + done.stderr[-4000:])
        for each in found:
            print(f"{name} | {each.read_bytes().hex()} | ", flush=True)
        return done.returncode != 0 or bool(found)


def main() -> int:
    """Fuzz what is named, or all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--list", action="store_true")
    parser.add_argument(_INSIDE, dest="folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.folder:
        fuzz_one(options.names[0], options.seconds, options.folder)
    from tests.property.gateway_targets import EVERY_TARGET

    unknown = [each for each in options.names if each not in EVERY_TARGET]
    if unknown or options.list:
        print("\n".join(EVERY_TARGET))
        return EXIT_USAGE if unknown else 0
    try:
        import atheris  # noqa: F401
    except ImportError:
        print("scripts/fuzz installs atheris first", file=sys.stderr)
        return EXIT_UNAVAILABLE
    found = [run(each, options.seconds) for each in options.names or EVERY_TARGET]
    return EXIT_FOUND if any(found) else 0


if __name__ == "__main__":
    sys.exit(main())
