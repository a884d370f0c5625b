"""Share groups with Java's share consumer, beside Apache Kafka: throughput and delay.

    scripts/bench --only shares

Both sides are used by the same client of Apache Kafka (`bench/java/ShareLoad.java`). A group takes
and acknowledges records that are there; then records come at a fixed rate, and it is measured how
long after it was due each one is given to a consumer. It needs a JDK and Maven, also where no peer
is measured: without them it is left out.
"""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from typing import Final

from bench.apache_kafka import program_command
from bench.contest import Case, Contest, Figures, Side, topic_of
from bench.java_clients import SOURCES
from bench.load import LoadError
from bench.maven import PeerUnavailableError
from bench.share_peer import make_group

PARTITIONS: Final = 6
CONSUMERS: Final = 4
MESSAGE_BYTES: Final = 1_000
RATE: Final = 2_000
#: Records that are there, for each second of a run.
DRAINED_PER_SECOND: Final = 20_000
RUN_TIMEOUT_S: Final = 400.0
WARM_UP_S: Final = 5.0


def measure_shares(contest: Contest) -> None:
    """Let a share group empty a topic, and follow one that is written at a fixed rate."""
    try:
        program_command(SOURCES / "ShareLoad.java")
    except PeerUnavailableError as error:
        print(f"share groups are left out: {error}", file=sys.stderr)
        return
    for brokers in (1,) if contest.settings.quick else (1, 3):
        with contest.clusters(brokers) as sides:
            seconds = min(WARM_UP_S, contest.settings.seconds)
            for side in sides:
                _drain(side, seconds, sync=False)
                _follow(side, seconds, sync=False)
            for sync in (False, True):
                turn = partial(_measure, contest, "1 broker" if brokers == 1 else "3 brokers", sync)
                contest.take_turns(sides, turn)


def _measure(contest: Contest, where: str, sync: bool, side: Side) -> Figures:
    seconds = contest.settings.seconds
    how = f"{CONSUMERS} consumers, 1 KB, {'sync' if sync else 'no sync'}, {where}"
    drained = _drain(side, seconds, sync=sync)
    followed = _follow(side, seconds, sync=sync)
    throughput = Case(
        measure="share group, records that are there",
        detail=how,
        unit="records/s",
        higher_is_better=True,
    )
    figures = {throughput: int(seconds * DRAINED_PER_SECOND) / drained["seconds"]}
    for name in ("p50", "p99"):
        case = Case(
            measure=f"share group, given after, {name}",
            detail=f"{RATE:,} records/s, {how}",
            unit="ms",
            higher_is_better=False,
        )
        figures[case] = followed[f"{name}_ms"]
    return figures


def _drain(side: Side, seconds: float, *, sync: bool) -> dict[str, float]:
    return _run(side, "drain", int(seconds * DRAINED_PER_SECOND), sync=sync)


def _follow(side: Side, seconds: float, *, sync: bool) -> dict[str, float]:
    return _run(side, "paced", int(seconds * RATE), str(RATE), sync=sync)


def _run(side: Side, mode: str, count: int, *more: str, sync: bool) -> dict[str, float]:
    """Run the program on a topic and with a group of its own, and return its figures.

    Raises:
        LoadError: it failed, or did not end.
    """
    servers = side.bootstrap_servers
    with topic_of(side, partitions=PARTITIONS, sync=sync) as topic:
        words = [mode, servers, topic, make_group(servers), str(CONSUMERS), str(MESSAGE_BYTES)]
        command = [*program_command(SOURCES / "ShareLoad.java"), *words, str(count), *more]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
            )
        except subprocess.TimeoutExpired:
            raise LoadError(f"ShareLoad {mode} did not end") from None
    if done.returncode != 0:
        raise LoadError(f"ShareLoad {mode} ended with {done.returncode}: {done.stderr[-1000:]}")
    pairs = (line.partition("=") for line in done.stdout.splitlines())
    return {name: float(value) for name, _, value in pairs}
