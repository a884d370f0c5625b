"""How soon the others know of a kill -9: `python -m bench.gossip_kill [KILLS]`.

Three brokers and a fourth one that is killed and started again; each time is from before the kill
until the last of the others has logged that it declares the fourth one dead.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from bench.gossip_cluster import GossipCluster

KILLS = 20
VICTIM = 4


def measure(directory: Path, kills: int) -> list[float]:
    """Return the milliseconds of each kill."""
    cluster = GossipCluster(directory)
    try:
        cluster.start(1, [3])
        cluster.start(2, [3])
        cluster.start(3, [1])
        cluster.start(VICTIM, [3])
        cluster.wait_until_ready()
        found = []
        for _ in range(kills):
            time.sleep(1.3)
            since = cluster.places()
            begun = time.monotonic()
            cluster.brokers[VICTIM].kill()
            cluster.wait_for((1, 2, 3), f"declares broker {VICTIM} at", since, 10)
            found.append((time.monotonic() - begun) * 1000)
            cluster.start(VICTIM, [3])
            cluster.wait_until_ready()
        return found
    finally:
        cluster.close()


def main() -> None:
    """Measure, and print."""
    kills = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS
    with tempfile.TemporaryDirectory(prefix="kafkaesque-") as directory:
        found = measure(Path(directory), kills)
    print(f"kill -9 known to all others, of {len(found)}, in milliseconds:")
    print(
        f"median {statistics.median(found):.0f}, longest {max(found):.0f}, "
        f"shortest {min(found):.0f}"
    )


if __name__ == "__main__":
    main()
