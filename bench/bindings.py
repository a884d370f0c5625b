"""How long a topic exchange with many bindings takes to route, and what a binding takes in memory.

    .venv/bin/python -m bench.bindings [bindings]

Nine of ten bindings have a literal key, the others wildcards of six shapes, some with `#` between
levels; each queue has ten. A first publish is one whose key was not asked for before, a second one
comes from the cache of routes. A first one is tried three times, and the shortest counts. Each
time has one reading of the clock in it, which is told. What binding takes is processor time.
"""

from __future__ import annotations

import gc
import random
import sys
import time
from pathlib import Path

from kafkaesque.routing.exchanges.records import Bound, Destination, QueueAdded, Unbound, VhostAdded
from kafkaesque.routing.exchanges.router import Router
from kafkaesque.routing.exchanges.topology import NAMES_EXCHANGE, Topology
from kafkaesque.routing.message import RoutedMessage

BINDINGS = 100_000
BINDINGS_PER_QUEUE = 10
PUBLISHES = 20_000
TRIES = 3
WILD = ("{}.*.{}", "*.{}.{}", "{}.{}.#", "{}.#.{}", "#.{}.{}", "*.{}.*.{}")


class NoDice:
    """Nothing here is left to chance."""

    def below(self, bound: int) -> int:
        raise AssertionError

    def unique_bytes(self, count: int) -> bytes:
        raise AssertionError


def resident_bytes() -> int:
    """Return what the process has in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def bind(topology: Topology, count: int, chance: random.Random) -> None:
    """Bind queues to the exchange."""
    topology.apply(VhostAdded(vhost="/"))
    for number in range(count // BINDINGS_PER_QUEUE):
        topology.apply(QueueAdded(vhost="/", name=f"queue-{number}"))
    for number in range(count):
        site, device = f"s{chance.randrange(1000)}", f"d{number}"
        pattern = WILD[number // 10 % len(WILD)] if number % 10 == 0 else "a.{}.{}"
        topology.apply(
            Bound(
                vhost="/",
                source=NAMES_EXCHANGE,
                destination=Destination(f"queue-{number // BINDINGS_PER_QUEUE}"),
                key=pattern.format(site, device),
            )
        )


def forget(topology: Topology) -> None:
    """Empty the caches, as each change does."""
    queue = Destination("queue-0")
    topology.apply(Bound(vhost="/", source=NAMES_EXCHANGE, destination=queue, key="extra"))
    topology.apply(Unbound(vhost="/", source=NAMES_EXCHANGE, destination=queue, key="extra"))


def clock_ns() -> int:
    """Return what a reading of the clock takes, in the median."""
    found = []
    for _ in range(PUBLISHES):
        begun_ns = time.perf_counter_ns()
        found.append(time.perf_counter_ns() - begun_ns)
    return sorted(found)[PUBLISHES // 2]


def main(arguments: list[str]) -> None:
    """Measure, and print what was found."""
    count = int(arguments[0]) if arguments else BINDINGS
    chance = random.Random(1)
    topology = Topology(NoDice())
    before = resident_bytes()
    begun = time.process_time()
    bind(topology, count, chance)
    bound_s = time.process_time() - begun
    used = resident_bytes() - before
    router = Router(topology)
    first, second = [], []
    for _ in range(PUBLISHES):
        key = f"a.s{chance.randrange(1000)}.d{chance.randrange(count)}"
        message = RoutedMessage(key=key)
        tries = []
        for _ in range(TRIES):
            forget(topology)
            begun_ns = time.perf_counter_ns()
            router.route("/", NAMES_EXCHANGE, message)
            tries.append(time.perf_counter_ns() - begun_ns)
        first.append(min(tries))
        begun_ns = time.perf_counter_ns()
        router.route("/", NAMES_EXCHANGE, message)
        second.append(time.perf_counter_ns() - begun_ns)
    for title, times in (("first", first), ("second", second)):
        times.sort()
        p50, p99 = (times[int(len(times) * part)] / 1000 for part in (0.5, 0.99))
        print(f"{title:6} publish  p50 {p50:6.2f} us  p99 {p99:6.2f} us")
    print(f"of which  {clock_ns() / 1000:6.2f} us are the clock's")
    print(f"{count:,} bindings: {used / count:.0f} B each, bound in {bound_s / count * 1e6:.1f} us")


if __name__ == "__main__":
    main(sys.argv[1:])
