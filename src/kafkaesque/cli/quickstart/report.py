"""The table at the end, and what to try next."""

from pathlib import Path

from kafkaesque.cli.exit_codes import DAMAGED, FAILED, OK
from kafkaesque.cli.quickstart.job import Result
from kafkaesque.cli.screen import Screen, Table
from kafkaesque.cli.secure_files import APP, APP_PREFIX


def report(result: Result, kept: Path | None) -> int:
    """Print what happened; return the exit code that it deserves."""
    log, got = result.log, result.deliveries
    worst = max(result.gaps_s.values(), default=0.0)
    partitions = ", ".join(map(str, result.partitions))
    rows = [
        ("flights in the data", f"{result.flights:,}"),
        ("published (acknowledged)", f"{result.acknowledged:,}"),
        ("messages in the log", f"{log.messages:,}"),
        ("lost", f"{log.lost:,}"),
        ("duplicated in the log", f"{log.duplicates:,}"),
        ("damaged / out of order / holes", f"{log.damaged} / {log.out_of_order} / {log.holes}"),
        ("consumed by the group", f"{got.distinct:,}"),
        ("missed by the group", f"{got.missed:,}"),
        ("delivered again (rebalance)", f"{got.redelivered:,}"),
        ("failover, worst partition", f"{worst * 1000:.0f} ms (partitions {partitions})"),
        ("back in sync after restart", "-" if result.back_s is None else f"{result.back_s:.1f} s"),
        *_delays(result),
        *_doors(result),
        ("publishing took", f"{result.publishing_s:.1f} s"),
        ("everything took", f"{result.total_s:.1f} s"),
    ]
    print()
    Screen().show(Table(title="What happened", columns=("WHAT", "RESULT"), rows=rows), None)
    print()
    print("\n".join(_verdict(result)))
    print("\n".join(_next_steps(kept, result)))
    if not result.is_right:
        return DAMAGED
    return OK if result.acknowledged == result.flights else FAILED


def _delays(result: Result) -> list[tuple[str, str]]:
    delays = result.delays
    if delays is None:
        return [("delays computed by Spark", "not asked for")]
    words = f"{delays.equal:,} of {delays.expected:,} as computed directly"
    if delays.unexpected:
        words += f", and {delays.unexpected:,} that should not be there"
    return [("delays by Spark, per carrier and hour", f"{words} ({result.spark_s:.0f} s)")]


def _doors(result: Result) -> list[tuple[str, str]]:
    if not result.clients:
        return []
    what = "without a log-in, or at others' topics"
    return [(what, "turned away" if result.is_closed else "let in")]


def _verdict(result: Result) -> list[str]:
    if result.is_right and result.acknowledged == result.flights:
        return ["Nothing was lost, duplicated, damaged or out of order.", ""]
    return ["This is NOT as it should be. Please report it, with the lines above.", ""]


def _next_steps(kept: Path | None, result: Result) -> list[str]:
    kafkaesque, address = ".venv/bin/kafkaesque", result.address
    prefix = APP_PREFIX if result.clients else ""
    topic = prefix + ("flights" if result.delays is None else "delays")
    lines = ["Try next:", ""]
    if kept is not None and result.clients:
        lines += [f"  . {result.clients}/{APP}.env    log in as {APP}, in this terminal"]
    if kept is not None:
        lines += [
            f"  {kafkaesque} up --data {kept}    the same cluster, with its data",
            f"  {kafkaesque} consume {topic} --from-beginning --max 5 -b {address}",
            f"  {kafkaesque} group describe {prefix}passengers -b {address}",
            f"  {kafkaesque} log verify {kept}",
        ]
    else:
        up = "up --secure" if result.clients else "up"
        lines += [
            f"  {kafkaesque} {up:<30}  a cluster of your own",
            *([f"  . kafkaesque-data/clients/{APP}.env"] if result.clients else ()),
            f"  {kafkaesque} publish {prefix}greetings hello",
            f"  {kafkaesque} consume {prefix}greetings --from-beginning --max 1",
            f"  {kafkaesque} --help",
        ]
    return lines
