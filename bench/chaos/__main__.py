"""Real brokers, real clients, and everything that goes wrong with machines; then it is judged.

    scripts/chaos                       half an hour
    scripts/chaos --minutes 5 --seed 42 the same faults at the same times again
    scripts/chaos --only kill,block     these faults only; `--only help` lists them
    scripts/chaos --queues              queues alone: our client for Python, Amazon's for SQS, and
                                        the simulator's

Each broker is a process with a network namespace and a file system of its own; nothing of it
touches the machine's own network, and nothing is left when the run ends, however it ends. That
needs root; without, the faults of the network are left out, and the run says so. What is checked,
and what is promised: docs/chaos.md. The exit code is 1 if there is any anomaly.
"""

from __future__ import annotations

import argparse
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

from bench.chaos.ground import has_command
from bench.chaos.machine import compile_interposer
from bench.chaos.plan import KINDS, OF_LINKS, check_kinds, make_plan
from bench.chaos.run import Options, Report, Run
from bench.kills.check import shortened

EXIT_WITH_ANOMALIES = 1
EXIT_USAGE = 2
#: Says to the process within the namespaces that it is there.
_INSIDE = "KAFKAESQUE_CHAOS_INSIDE"
UNSHARE = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")


def read_arguments() -> argparse.Namespace:
    """Return the command line's options."""
    parser = argparse.ArgumentParser(
        prog="scripts/chaos",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="of faults (30)")
    parser.add_argument("--seed", type=int, help="which faults, on whom and when (drawn)")
    parser.add_argument("--brokers", type=int, choices=(3, 5), default=3, help="(3)")
    parser.add_argument("--only", help="faults, with commas between")
    parser.add_argument("--without", help="faults that are left out, with commas between")
    parser.add_argument("--queues", action="store_true", help="clients of queues alone, and more")
    parser.add_argument("--data", type=Path, help="where ledger, logs and disks are kept")
    parser.add_argument("--plan", action="store_true", help="print the plan, and run nothing")
    return parser.parse_args()


def wanted_kinds(arguments: argparse.Namespace) -> list[str]:
    """Return the kinds of faults that were asked for; raises ValueError if one does not exist."""
    kinds = list(KINDS)
    if arguments.only:
        kinds = [each.strip() for each in arguments.only.split(",")]
    if arguments.without:
        without = [each.strip() for each in arguments.without.split(",")]
        check_kinds(without)
        kinds = [each for each in kinds if each not in without]
    check_kinds(kinds)
    return kinds


def can_unshare() -> bool:
    """Return whether namespaces can be made here, with a TUN device in them."""
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    probe = [*UNSHARE, "ip", "tuntap", "add", "dev", "probe", "mode", "tun"]
    return subprocess.run(probe, capture_output=True).returncode == 0


def leave_out(kinds: list[str], *, has_network: bool, has_interposer: bool) -> list[str]:
    """Return the kinds that can be had here; says what cannot."""
    missing: dict[str, list[str]] = {}
    if not has_network:
        missing["network namespaces and TUN devices cannot be made (that needs root)"] = [
            *OF_LINKS,
            "full disk",
        ]
    if not has_interposer:
        missing["there is no C compiler for bench/chaos/interpose.c"] = [
            *("clock jump", "slow disk", "failing syncs", "failing writes", "failing reads")
        ]
    if "reassignment" in kinds and not has_command("topic", "reassign"):
        missing["there is no `kafkaesque topic reassign`"] = ["reassignment"]
    for reason, without in missing.items():
        gone = [kind for kind in kinds if kind in without]
        if gone:
            print(f"left out, because {reason}: {', '.join(gone)}", flush=True)
        kinds = [kind for kind in kinds if kind not in without]
    return kinds


def show(report: Report, seed: int, directory: Path) -> None:
    """Print what came of a run."""
    total = sum(report.counts.values())
    print(f"\nseed {seed}: {total} faults in {report.seconds:.0f} s")
    for kind, count in sorted(report.counts.items(), key=lambda each: -each[1]):
        print(f"  {count:5} {kind}")
    print(
        f"  {report.disk_failures} calls were made to fail; {report.own_ends} times a broker ended "
        f"because of its disk, {report.repairs} times it gave its disk up and was restarted"
    )
    if report.departures:
        print(f"  {report.departures} times a broker left in order: drained, stopped, removed")
    for name, count in report.operations.items():
        print(f"  {count:8} {name}")
    partitions, size_bytes = report.replicas
    print(f"  replicas compared: {partitions} partitions, {size_bytes / 1e6:.1f} MB each")
    if report.operations["records sent"]:
        print(
            f"  longest time without an acknowledgement: {report.longest_silence_s:.1f} s, "
            f"from {report.longest_silence_from_s:.1f} s on"
        )
    print(
        f"  after healing: clients done in {report.healed_s:.1f} s, all in sync "
        f"{report.settled_s:.1f} s later"
    )
    told = ", ".join(f"{name} {count}" for name, count in report.errors.items())
    print(f"  what clients were told: {told or 'nothing'}")
    if not report.anomalies:
        print("0 anomalies")
    else:
        print(f"{len(report.anomalies)} ANOMALIES; ledger.jsonl and the logs are in {directory}")
    for anomaly in shortened(report.anomalies):
        print(f"  {anomaly}")


def main() -> int:
    """Run; return the exit status."""
    arguments = read_arguments()
    try:
        kinds = wanted_kinds(arguments)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    is_inside = os.environ.get(_INSIDE) == "1"
    if not is_inside and not arguments.plan and can_unshare():
        command = [*UNSHARE, sys.executable, "-m", "bench.chaos", *sys.argv[1:]]
        return subprocess.run(command, env={**os.environ, _INSIDE: "1"}).returncode
    seed = secrets.randbelow(1 << 31) if arguments.seed is None else arguments.seed
    duration_ms = int(arguments.minutes * 60_000)
    if arguments.plan:
        for fault in make_plan(seed, arguments.brokers, duration_ms, kinds):
            print(f"{fault.begin_ms / 1_000:8.1f} s  {fault}")
        return 0
    os.environ.setdefault("KAFKAESQUE_LOG_LEVEL", "info")
    directory = Path(tempfile.mkdtemp(prefix="chaos-", dir=arguments.data))
    interposer = compile_interposer(directory)
    kinds = leave_out(kinds, has_network=is_inside, has_interposer=interposer is not None)
    options = Options(
        seed=seed,
        brokers=arguments.brokers,
        plan=make_plan(seed, arguments.brokers, duration_ms, kinds),
        duration_ms=duration_ms,
        directory=directory,
        has_network=is_inside,
        interposer=interposer,
        has_spare="one more broker" in kinds,
        only_queues=arguments.queues,
    )
    print(f"seed {seed}: ledger, logs and disks in {directory}", flush=True)
    return carry_out(options)


def carry_out(options: Options) -> int:
    """Run, show what came of it, and tidy up; return the exit status."""
    run = Run(options, say=lambda line: print(line, flush=True))
    try:
        run.run()
    except Exception as error:
        traceback.print_exc()
        run.report.anomalies.append(f"the run broke off: {error!r}")
    show(run.report, options.seed, options.directory)
    if run.report.anomalies:
        return EXIT_WITH_ANOMALIES
    run.close()
    shutil.rmtree(options.directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
