"""AMQP 0-9-1 side by side with RabbitMQ: `python -m bench.amqp`.

One broker of ours and one node of RabbitMQ (Debian's), or three and three, each started afresh for
a row and a round, by turns, on the same disk. Both are driven by RabbitMQ's own PerfTest and by a
client in C on librabbitmq (`bench/amqp_load.c`). Queues are durable quorum queues; messages of
1,000 bytes are persistent, confirmed (window 100) and acknowledged one by one. Both brokers sync
before they confirm.

    python -m bench.amqp [--seconds 20] [--rounds 1] [--only one,ten] [--client perf-test]
    python -m bench.amqp --brokers 3
    python -m bench.amqp --only connections [--connections 10000]
    python -m bench.amqp --only backlog [--messages 1000000]

Rows: `one` (one producer, one consumer, prefetch 100), `ten` (ten of each, one queue),
`prefetch-1`, `fanout` (one producer, ten queues with a consumer each), `paced` (as `one`, at 1,000
messages/s: what latency is where no queue grows). "Delivered" is from the publish to the consumer;
where producers are faster than consumers the queue grows, and with it that time. `connections`
opens connections with a channel each and measures memory. `backlog` publishes a million messages
while nobody consumes: the rate of each tenth, and memory.

With three brokers each queue has three replicas, and all clients connect to its leader; of ten
queues, to the leader of the first. RabbitMQ's other nine have theirs there, too: it is where they
are declared. Ours are spread. Memory and processor time are sums of the three. `connections` and
`backlog` are only measured with one.

A ratio of rates above 1, and one of times or memory below 1, is better for ours. What cannot be had
here (RabbitMQ, PerfTest, librabbitmq) is left out, and that is said.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

from bench.amqp_clients import (
    Client,
    ClientError,
    Figures,
    Shape,
    c_client,
    perf_test,
    queue_name,
)
from bench.amqp_sides import OURS, RABBITMQ, Side, sides
from bench.amqp_standing import measure_backlog, measure_connections
from bench.maven import PeerUnavailableError
from bench.processes import cpu_seconds, rss_peak_bytes

EXIT_FAILED: Final = 1
EXIT_SKIPPED: Final = 3
MIB: Final = 1024 * 1024
PACE: Final = 1_000
SHAPES: Final = (
    Shape(name="one"),
    Shape(name="ten", producers=10, consumers=10),
    Shape(name="prefetch-1", prefetch=1),
    Shape(name="fanout", consumers=10, queues=10),
    Shape(name="paced", rate=PACE),
)
CONNECTIONS, BACKLOG = "connections", "backlog"
LOADS: Final = tuple(each.name for each in SHAPES)
NAMES: Final = (*LOADS, CONNECTIONS, BACKLOG)
_QUEUE: Final = "load"
CLIENTS: Final = {"perf-test": perf_test, "c": c_client}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One run: the client's figures, and what all brokers together needed."""

    figures: Figures
    rss_peak: int
    #: Microseconds of the brokers' processor for a message that was confirmed.
    cpu_us: float


def measure(side: Side, client: Client, shape: Shape, seconds: float) -> Measured:
    """Start as many brokers as the queues have replicas, and put one load on them.

    Raises:
        ClientError: the load failed.
    """
    marks: list[float] = []
    with (
        tempfile.TemporaryDirectory(prefix="bench-amqp-") as directory,
        side.run(Path(directory), shape.replicas) as brokers,
    ):
        pids = [each.pid for each in brokers.nodes]
        port = brokers.port_for(queue_name(_QUEUE))
        figures = client.run(
            port, shape, _QUEUE, seconds, lambda: marks.append(sum(map(cpu_seconds, pids)))
        )
        peak = sum(map(rss_peak_bytes, pids))
    used_s = marks[1] - marks[0]
    cpu_us = 1e6 * used_s / max(1.0, figures.confirmed * seconds)
    return Measured(figures=figures, rss_peak=peak, cpu_us=cpu_us)


#: What is printed: title, its value, and whether more is better.
LINES: Final[Sequence[tuple[str, Callable[[Measured], float], bool]]] = (
    ("confirmed/s", lambda each: each.figures.confirmed, True),
    ("received/s", lambda each: each.figures.received, True),
    ("confirm p50 ms", lambda each: each.figures.confirm_p50, False),
    ("confirm p99 ms", lambda each: each.figures.confirm_p99, False),
    ("delivered p50 ms", lambda each: each.figures.delivery_p50, False),
    ("delivered p99 ms", lambda each: each.figures.delivery_p99, False),
    ("resident MiB, most", lambda each: each.rss_peak / MIB, False),
    ("broker us/message", lambda each: each.cpu_us, False),
)


def compare(at: Sequence[Side], client: Client, shape: Shape, seconds: float, rounds: int) -> None:
    """Measure a row in turns, and print it."""
    found: dict[str, list[Measured]] = {each.name: [] for each in at}
    for number in range(rounds):
        # Who comes first has no advantage on average.
        for side in at if number % 2 else at[::-1]:
            found[side.name].append(measure(side, client, shape, seconds))
    print(f"{shape.name}, {client.name}, {shape.replicas} and {shape.replicas}:")
    for title, value_of, is_more_better in LINES:
        values = {name: [value_of(each) for each in runs] for name, runs in found.items()}
        shown = "  ".join(f"{name} {median(each):>10,.2f}" for name, each in values.items())
        print(f"  {title:18}  {shown}{_ratio(values, is_more_better)}", flush=True)


def _ratio(values: dict[str, list[float]], is_more_better: bool) -> str:
    if len(values) < 2:
        return ""
    pairs = list(zip(values[OURS], values[RABBITMQ], strict=True))
    ratios = [ours / theirs for ours, theirs in pairs if theirs]
    if not ratios:
        return ""
    word = "higher" if is_more_better else "lower"
    return f"  ratio {median(ratios):6.2f} ({word} is better)"


def available(wanted: Sequence[str]) -> tuple[list[Client], bool]:
    """Return the clients that can be had, and whether one is left out."""
    clients = []
    for name in wanted:
        try:
            clients.append(CLIENTS[name]())
        except PeerUnavailableError as error:
            print(f"skipped: {error}", file=sys.stderr)
    return clients, len(clients) < len(wanted)


def arguments_of(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=20.0, help="of a row")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", help="rows, of " + ", ".join(NAMES))
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1, help="of each side")
    parser.add_argument("--client", choices=CLIENTS, action="append")
    parser.add_argument("--side", choices=(OURS, RABBITMQ), help="only this broker")
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1_000_000, help="of the backlog")
    given = parser.parse_args(words)
    rows = NAMES if given.brokers == 1 else LOADS
    given.only = given.only.split(",") if given.only else rows
    unknown = sorted(set(given.only) - set(rows))
    if unknown:
        parser.error(f"no such row with {given.brokers}: {', '.join(unknown)}")
    return given


def main(words: Sequence[str] | None = None) -> int:
    """Run it."""
    given = arguments_of(words)
    # A plain kill ends it in order, too: RabbitMQ's nodes are processes of their own.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    at = [each for each in sides() if given.side in (None, each.name)]
    clients, is_skipped = available(given.client or list(CLIENTS))
    is_skipped = is_skipped or (given.side is None and len(at) < 2)
    try:
        for shape in (replace(each, replicas=given.brokers) for each in SHAPES):
            for client in clients if shape.name in given.only else ():
                compare(at, client, shape, given.seconds, given.rounds)
        if CONNECTIONS in given.only:
            measure_connections(at, given.connections)
        if BACKLOG in given.only:
            measure_backlog(at, given.messages)
    except PeerUnavailableError as error:
        print(f"skipped: {error}", file=sys.stderr)
        is_skipped = True
    except ClientError as error:
        print(f"failed: {error}", file=sys.stderr)
        return EXIT_FAILED
    return EXIT_SKIPPED if is_skipped else 0


if __name__ == "__main__":
    sys.exit(main())
