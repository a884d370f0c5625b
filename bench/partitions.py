"""What many partitions cost three brokers: idle, at a start, and when one of them is killed.

    .venv/bin/python -m bench.partitions [--counts 1,100,1000,10000] [--seconds 20] [--plot FILE]

For each count a new cluster, with all partitions on all three brokers. Messages between brokers are
counted by the kernel, as segments with data on the connections to their peer ports, so what is
counted is what was sent, heartbeats and all. Times are until every running broker names a leader
that runs for each partition. Everything runs on this machine.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from bench.ours import Kafkaesque
from bench.processes import BrokerProcess, ask_metadata
from kafkaesque.sim.gossip.plot import Line, Panel, draw

BROKERS = 3
TOPIC_PARTITIONS_MAX = 1000
COUNTS = (1, 100, 1000, 10_000)
SETTLE_S = 10.0
WAIT_S_MAX = 600.0
LOOK_INTERVAL_S = 0.05
MIB = 1024 * 1024
COLUMNS = (
    "partitions",
    "messages/s between brokers",
    "B/s",
    "% of a core a broker",
    "MiB a broker",
    "created, s",
    "started, s",
    "failover after kill -9, s",
)

_SENT = re.compile(r"\bdata_segs_out:(\d+)")
_BYTES = re.compile(r"\bbytes_sent:(\d+)")


@dataclass(frozen=True, slots=True)
class Traffic:
    """What was sent between brokers since their connections began."""

    messages: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Idle:
    """What a cluster does in which nothing happens; the last two of one broker, in the mean."""

    messages_per_s: float
    bytes_per_s: float
    core_percent: float
    resident_mib: float


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured with so many partitions; `COLUMNS` names it, in this order."""

    partitions: int
    idle: Idle
    created_s: float
    started_s: float
    failover_s: float

    def cells(self) -> list[str]:
        """Return it in words."""
        idle = [f"{each:,.3g}" if each < 100 else f"{each:,.0f}" for each in astuple(self.idle)]
        times = [f"{each:.2f}" for each in (self.created_s, self.started_s, self.failover_s)]
        return [f"{self.partitions:,}", *idle, *times]


def traffic(peer_ports: Sequence[int]) -> Traffic:
    """Return what has been sent on the connections that stand between brokers."""
    command = ["ss", "-tinHO", "state", "established"]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    ports = {f":{port}" for port in peer_ports}
    messages = size_bytes = 0
    for line in lines:
        addresses = line.split()[2:4]
        if any(address[address.rindex(":") :] in ports for address in addresses):
            # Both ends are on this machine, and each counts what it sends.
            messages += sum(map(int, _SENT.findall(line)))
            size_bytes += sum(map(int, _BYTES.findall(line)))
    return Traffic(messages, size_bytes)


def topics_of(count: int) -> dict[str, int]:
    """Return topics that have `count` partitions together."""
    topics = {}
    for number in range(0, count, TOPIC_PARTITIONS_MAX):
        topics[f"many-{number // TOPIC_PARTITIONS_MAX}"] = min(TOPIC_PARTITIONS_MAX, count - number)
    return topics


def create(cluster: Kafkaesque, topics: dict[str, int]) -> None:
    """Create them, one after another."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for topic, partitions in topics.items():
        made = admin.create_topics(
            [NewTopic(topic, partitions, BROKERS)], operation_timeout=60, request_timeout=60
        )
        made[topic].result()


def wait_until_led(brokers: Sequence[BrokerProcess], topics: dict[str, int]) -> float:
    """Wait until each broker names a leader that runs for each partition; return the seconds."""
    start = time.monotonic()
    running = {broker.address for broker in brokers}
    for broker in brokers:
        while not _is_led(broker, topics, running):
            if time.monotonic() - start > WAIT_S_MAX:
                raise TimeoutError(f"{broker.address}: not all led after {WAIT_S_MAX:g} s")
            time.sleep(LOOK_INTERVAL_S)
    return time.monotonic() - start


def _is_led(broker: BrokerProcess, topics: dict[str, int], running: set[str]) -> bool:
    try:
        for topic, count in topics.items():
            view = ask_metadata(broker.port, [topic], timeout_s=10.0)
            led = [view.brokers.get(leader) in running for leader in view.leaders.values()]
            if len(led) < count or not all(led):
                return False
    except OSError:
        return False
    return True


def measure_idle(cluster: Kafkaesque, seconds: float) -> Idle:
    """Watch a cluster that has nothing to do."""
    time.sleep(SETTLE_S)
    before, start = traffic(cluster.peer_ports), time.monotonic()
    used = [broker.cpu_seconds() for broker in cluster.brokers]
    time.sleep(seconds)
    after, passed_s = traffic(cluster.peer_ports), time.monotonic() - start
    used_s = sum(broker.cpu_seconds() for broker in cluster.brokers) - sum(used)
    resident = sum(broker.rss_bytes() for broker in cluster.brokers)
    return Idle(
        (after.messages - before.messages) / passed_s,
        (after.size_bytes - before.size_bytes) / passed_s,
        used_s / passed_s / BROKERS * 100,
        resident / BROKERS / MIB,
    )


def measure(count: int, seconds: float) -> Row:
    """Measure everything with so many partitions."""
    topics = topics_of(count)
    with Kafkaesque(BROKERS) as cluster:
        start = time.monotonic()
        create(cluster, topics)
        wait_until_led(cluster.brokers, topics)
        created_s = time.monotonic() - start
        idle = measure_idle(cluster, seconds)
        for broker in cluster.brokers:
            broker.stop()
        start = time.monotonic()
        for broker in cluster.brokers:
            broker.start()
        wait_until_led(cluster.brokers, topics)
        started_s = time.monotonic() - start
        time.sleep(SETTLE_S)
        victim, *others = cluster.brokers
        victim.kill()
        failover_s = wait_until_led(others, topics)
        return Row(count, idle, created_s, started_s, failover_s)


def plot(rows: Sequence[Row]) -> str:
    """Return what idle brokers send, and what a broker takes, as an SVG document."""

    def panel(title: str, y_name: str, points: list[tuple[float, float]]) -> Panel:
        line = Line(name=y_name, points=points)
        return Panel(
            title=title, x_name="partitions", y_name=y_name, lines=[line], x_is_logarithmic=True
        )

    sent = [(float(row.partitions), row.idle.messages_per_s) for row in rows]
    held = [(float(row.partitions), row.idle.resident_mib) for row in rows]
    return draw(
        [
            panel("Messages between idle brokers", "messages/s", sent),
            panel("Memory of a broker", "MiB", held),
        ]
    )


def main(arguments: Sequence[str]) -> int:
    """Measure each count and print the rows as they come."""
    parser = argparse.ArgumentParser(prog="bench.partitions", description=__doc__)
    parser.add_argument("--counts", default=",".join(map(str, COUNTS)))
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--plot", type=Path, help="draw it into this SVG file")
    options = parser.parse_args(arguments)
    if shutil.which("ss") is None:
        print("bench.partitions needs ss (Debian package iproute2)", file=sys.stderr)
        return 2
    print(f"| {' | '.join(COLUMNS)} |")
    print("|---" * len(COLUMNS) + "|", flush=True)
    rows = []
    for count in map(int, options.counts.split(",")):
        rows.append(measure(count, options.seconds))
        print(f"| {' | '.join(rows[-1].cells())} |", flush=True)
    if options.plot is not None:
        options.plot.write_text(plot(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
