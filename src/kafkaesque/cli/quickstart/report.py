"""The table at the end, and what to try next."""

from pathlib import Path

from kafkaesque.cli.exit_codes import DAMAGED, FAILED, OK
from kafkaesque.cli.quickstart.job import Result
from kafkaesque.cli.screen import Screen, Table


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
        ("failover, worst partition", f"{worst * 1000:.0f} ms (led by the dead: {partitions})"),
        ("back in sync after restart", "-" if result.back_s is None else f"{result.back_s:.1f} s"),
        ("publishing took", f"{result.publishing_s:.1f} s"),
        ("everything took", f"{result.total_s:.1f} s"),
    ]
    print()
    Screen().show(Table(title="What happened", columns=("WHAT", "RESULT"), rows=rows), None)
    print()
    print("\n".join(_verdict(result)))
    print("\n".join(_next_steps(kept, result.address)))
    if not log.is_clean or got.missed:
        return DAMAGED
    return OK if result.acknowledged == result.flights else FAILED


def _verdict(result: Result) -> list[str]:
    log, got = result.log, result.deliveries
    if log.is_clean and not got.missed and result.acknowledged == result.flights:
        return ["Nothing was lost, duplicated, damaged or out of order.", ""]
    return ["This is NOT as it should be. Please report it, with the lines above.", ""]


def _next_steps(kept: Path | None, address: str) -> list[str]:
    kafkaesque = ".venv/bin/kafkaesque"
    lines = ["Try next:", ""]
    if kept is not None:
        lines += [
            f"  {kafkaesque} up --data {kept}    the same cluster, with its data",
            f"  {kafkaesque} consume flights --from-beginning --max 5 -b {address}",
            f"  {kafkaesque} group describe passengers -b {address}",
            f"  {kafkaesque} log verify {kept}",
        ]
    else:
        lines += [
            f"  {kafkaesque} up                              a cluster of your own",
            f"  {kafkaesque} publish greetings hello",
            f"  {kafkaesque} consume greetings --from-beginning --max 1",
            f"  {kafkaesque} --help",
        ]
    return lines
