"""How many syncs a broker makes per second, as the same load goes to more and more partitions.

    .venv/bin/python -m bench.syncs

One broker of ours, syncing before it acknowledges (the default), gets a fixed rate of small
messages, spread over 1, 10, 100 and 1,000 partitions. The broker counts its group commits and says
so in its log when it stops.
"""

from __future__ import annotations

import os
import re
import sys

from bench.contest import topic_of
from bench.load import run_load
from bench.ours import Kafkaesque

RATE = 5_000
SECONDS = 5.0
PARTITIONS = (1, 10, 100, 1_000)

_COUNTED = re.compile(r"stops: (\d+) records in (\d+) synced group commits")


def count_syncs(partitions: int) -> tuple[int, int]:
    """Return (records in the write-ahead log, syncs) of one run."""
    with Kafkaesque(brokers=1) as side:
        (broker,) = side.brokers
        with topic_of(side, partitions=partitions, sync=True) as topic:
            run_load(
                "latency",
                side.bootstrap_servers,
                topic,
                size=100,
                rate=RATE,
                seconds=SECONDS,
                warmup=0,
                producer_acks="all",
                producer_linger_ms=0,
            )
        broker.stop()
        found = _COUNTED.search(broker.log_tail())
        if found is None:
            raise RuntimeError(f"the broker did not say what it did:\n{broker.log_tail()}")
    return int(found[1]), int(found[2])


def main() -> None:
    """Measure and print a table."""
    os.environ["KAFKAESQUE_LOG_LEVEL"] = "info"
    sys.stdout.write(f"{RATE:,} messages/s of 100 B for {SECONDS:g} s, acks=all, one broker\n\n")
    sys.stdout.write("| partitions | records written | syncs | syncs/s |\n|---|---|---|---|\n")
    for partitions in PARTITIONS:
        records, syncs = count_syncs(partitions)
        sys.stdout.write(f"| {partitions:,} | {records:,} | {syncs:,} | {syncs / SECONDS:,.0f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
