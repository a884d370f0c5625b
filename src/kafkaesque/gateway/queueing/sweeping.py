"""Deletes queues that go by themselves where no connection sees to it.

Theory of operation. Each broker looks, every few seconds, at all queues.

- An exclusive queue whose connection's broker is gone goes (`is_orphan`). One broker does that: the
  first of those that live.
- A queue with `expires.ms`, its own or a policy's, goes when nobody has consumed, fetched or
  declared it for so long. The broker that leads its log asks it; `broker/queues/disuse` says how
  the time goes on under another leader. Queues over topics of several partitions stay. One whose
  time is over before the next sweep is asked again then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec import UNSET

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState
from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.metadata.queue_names import is_own_vhost
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.amqp.arguments import declaration_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId

SWEEP_MS: Final = 5_000
#: A queue that may go before the next sweep is asked then, but not more often than this.
SOON_MS_MIN: Final = 1_000
#: A broker that was not heard of for so long, and with it its connections, is gone.
LOST_MS: Final = 10_000
#: Queues that one sweep asks about, so that none keeps the loop for long.
ASKED_MAX: Final = 1_000
_TIMEOUT_MS: Final = 5_000


class Sweeping:
    """See the module."""

    __slots__ = (
        "_begin",
        "_delete",
        "_doors",
        "_has_begun",
        "_is_over",
        "_known",
        "_soon",
        "_watched",
    )

    def __init__(self, doors: Doors, delete: Callable[[QueueState], None]) -> None:
        self._doors = doors
        self._delete = delete
        #: Queues that were looked at so far.
        self._begin = 0
        self._has_begun = False
        self._is_over = False
        #: The queues that may go by themselves, and of which metadata, in which version.
        self._watched: list[QueueState] = []
        self._known: tuple[ClusterState, int] | None = None
        #: Logs of queues that are asked between two sweeps.
        self._soon: set[bytes] = set()

    def begin(self) -> None:
        """Look from now on; harmless if that was said before."""
        if not self._has_begun:
            self._has_begun = True
            self._later(self._sweep)

    def end(self) -> None:
        """Look no more."""
        self._is_over = True

    def use(self, queue: QueueState) -> q.AskQueue:
        """Return what asks for a queue's counts, and is a use of it: a client has declared it."""
        self.watch(queue)
        is_use = True if self._expires_ms(queue) else UNSET
        return q.AskQueue(log_id=queue.topic_id, is_use=is_use)

    def watch(self, queue: QueueState) -> None:
        """Look at a queue in time that may go before the next sweep."""
        expires_ms = self._expires_ms(queue)
        if expires_ms:
            self._maybe_ask_in(queue, expires_ms)

    def _later(self, act: Callable[[], None]) -> None:
        self._doors.clock.call_later(SWEEP_MS, act)

    def _sweep(self) -> None:
        if self._is_over:
            return
        is_first = self._is_first()
        left = ASKED_MAX
        every = self._find_watched()
        # Where the last sweep had enough, this one begins.
        begin = self._begin % max(1, len(every))
        for queue in (*every[begin:], *every[:begin]):
            if not left:
                break
            self._begin += 1
            if is_first and is_orphan(self._doors.cluster, queue):
                self._delete(queue)
                left -= 1
            elif self._expires_ms(queue) and self._is_led_here(queue):
                self._ask(queue)
                left -= 1
        self._later(self._sweep)

    def _find_watched(self) -> list[QueueState]:
        """Return the queues that may go by themselves; looked for when the metadata have changed.

        Ten thousand others need not be asked each time.
        """
        state, known = self._doors.cluster.state, self._known
        if known is None or known[0] is not state or known[1] != state.version:
            self._known = state, state.version
            self._watched = [
                each
                for each in state.queues_by_log.values()
                if not is_own_vhost(each.queue.vhost)
                and (self._expires_ms(each) or _owner_of(each))
            ]
        return self._watched

    def _is_first(self) -> bool:
        cluster = self._doors.cluster
        return min((each.node for each in cluster.alive_brokers()), default=-1) == cluster.node

    def _is_led_here(self, queue: QueueState) -> bool:
        cluster = self._doors.cluster
        return cluster.leaders.leader(queue.partitions[0].group) == cluster.node

    def _expires_ms(self, queue: QueueState) -> int:
        if queue.source is not None and len(queue.partitions) > 1:
            return 0
        return int(effective_options(self._doors.cluster.state, queue).get("expires.ms", 0))

    def _ask(self, queue: QueueState) -> None:
        request = q.AskQueue(log_id=queue.topic_id, expiry_ms=self._expires_ms(queue))
        on_counted = partial(self._on_counted, queue)
        self._doors.queues.ask_whole(request, q.QueueCounts, _TIMEOUT_MS, on_counted)

    def _maybe_ask_in(self, queue: QueueState, ms: int) -> None:
        """Ask a queue after so long, or soon, unless a sweep or another question comes first."""
        key = queue.topic_id
        if ms >= SWEEP_MS or key in self._soon or len(self._soon) >= ASKED_MAX:
            return
        self._soon.add(key)

        def ask() -> None:
            self._soon.discard(key)
            now = self._current(queue)
            if not self._is_over and now is not None and self._expires_ms(now):
                self._ask(now)

        self._doors.clock.call_later(max(ms, SOON_MS_MIN), ask)

    def _on_counted(self, queue: QueueState, counts: q.QueueCounts | RequestRefused) -> None:
        if isinstance(counts, RequestRefused):
            return
        if counts.is_disused is not True:
            if counts.disused_in_ms is not UNSET:
                self._maybe_ask_in(queue, counts.disused_in_ms)
            return
        now = self._current(queue)
        # Its options may have changed while it was asked.
        if now is not None and self._expires_ms(now):
            self._delete(now)

    def _current(self, queue: QueueState) -> QueueState | None:
        """Return a queue as it is now; None: it is gone.

        Where the metadata came as a snapshot, the one of before hears of no change any more.
        """
        return self._doors.cluster.state.queues_by_log.get(queue.topic_id)


def _owner_of(queue: QueueState) -> str:
    """Return whose connection an exclusive queue belongs to; empty: nobody's."""
    said = declaration_of(queue)
    return "" if said is None else said.owner


def is_orphan(cluster: Cluster, queue: QueueState) -> bool:
    """Tell whether a queue belonged to a connection that is gone with its broker.

    The broker is another process by now, does not run, or was not heard of for long.
    """
    owner = _owner_of(queue)
    if not owner:
        return False
    number, _, rest = owner.partition(".")
    node = NodeId(int(number))
    broker = cluster.state.brokers.get(node)
    is_other = broker is None or str(broker.incarnation) != rest.partition(".")[0]
    return is_other or cluster.is_gone(node, LOST_MS)
