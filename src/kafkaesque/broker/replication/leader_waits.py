"""Waiting until a new topic can be used: until all its partitions are known to have a leader.

Kafka's controller names leaders when it creates a topic, so its clients describe and use one right
after the answer. Here groups elect by themselves, a few milliseconds later.
"""

from collections.abc import Callable

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.env.clock import Clock, Timer

#: A topic that has no leaders after this long is answered all the same: it exists.
WAIT_MS_MAX = 2_000
#: Topics that are waited for; more are answered at once.
WAITS_MAX = 10_000


class LeaderWaits:
    """Those who wait, by topic."""

    def __init__(
        self, clock: Clock, leaders: LeadersTable, state: Callable[[], ClusterState]
    ) -> None:
        self._clock = clock
        self._leaders = leaders
        self._state = state
        self._waits: list[tuple[str, Callable[[], None], Timer]] = []

    def wait(self, topic: str, timeout_ms: int, on_done: Callable[[], None]) -> None:
        """Call once: when all partitions of a topic have known leaders, or the time is up."""
        if len(self._waits) >= WAITS_MAX:
            on_done()
            return

        def on_time_up() -> None:
            self._waits = [wait for wait in self._waits if wait[2] is not timer]
            on_done()

        timer = self._clock.call_later(min(timeout_ms, WAIT_MS_MAX), on_time_up)
        self._waits.append((topic, on_done, timer))
        self.check()

    def check(self) -> None:
        """Leaders or topics have changed: see who need wait no longer."""
        if not self._waits:
            return
        state = self._state()
        waits, self._waits = self._waits, []
        for wait in waits:
            topic, on_done, timer = wait
            if _is_led(state, self._leaders, topic):
                timer.cancel()
                on_done()
            else:
                self._waits.append(wait)


def _is_led(state: ClusterState, leaders: LeadersTable, name: str) -> bool:
    topic = state.topics.get(name)
    if topic is None:
        return False
    return all(leaders.leader(partition.group) is not None for partition in topic.partitions)
