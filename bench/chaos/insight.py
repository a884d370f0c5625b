"""What librdkafka says of itself: it tells a client that stands still from a cluster that does."""

import json
import time
from collections.abc import Iterable
from typing import Any, Final

from bench.chaos.history import Where

#: Statistics are told this often, while a client polls.
INTERVAL_MS: Final = 5_000


class Insight:
    """The newest statistics of one client (librdkafka's STATISTICS.md)."""

    def __init__(self) -> None:
        self._statistics: dict[str, Any] = {}
        self._told_at = time.monotonic()
        self.settings: Final[dict[str, Any]] = {
            "statistics.interval.ms": INTERVAL_MS,
            "stats_cb": self.take,
        }

    def take(self, text: str) -> None:
        """Keep what the library told."""
        self._statistics = json.loads(text)
        self._told_at = time.monotonic()

    def describe(self, places: Iterable[Where]) -> str:
        """Say what the library is at: for these partitions, and on each connection."""
        if not self._statistics:
            return "its library has told nothing yet"
        age_s = time.monotonic() - self._told_at
        partitions = "; ".join(self._describe_partition(where) for where in places)
        brokers = "; ".join(map(_describe_broker, self._statistics.get("brokers", {}).values()))
        return f"its library, {age_s:.0f} s ago: {partitions}; {brokers}"

    def _describe_partition(self, where: Where) -> str:
        topic = self._statistics.get("topics", {}).get(where[0], {})
        told = topic.get("partitions", {}).get(str(where[1]))
        if told is None:
            return f"{where[0]}-{where[1]} is not known"
        return (
            f"{where[0]}-{where[1]} is {told.get('fetch_state')} at {told.get('next_offset')} "
            f"of {told.get('ls_offset')}, from {told.get('broker')}, led by {told.get('leader')}, "
            f"{told.get('fetchq_cnt')} queued"
        )


def _describe_broker(told: dict[str, Any]) -> str:
    idle_s = max(told.get("txidle", 0), 0) / 1e6
    return (
        f"{told.get('name')} is {told.get('state')}, {told.get('waitresp_cnt')} answers due, "
        f"{told.get('outbuf_cnt')} to send, sent nothing for {idle_s:.0f} s"
    )
