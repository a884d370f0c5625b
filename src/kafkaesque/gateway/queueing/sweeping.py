"""Deletes queues that go by themselves where no connection sees to it.

Theory of operation. Each broker looks, every few seconds, at all queues.

- An exclusive queue whose connection's broker is another process by now, or was not heard of for
  long, goes. One broker does that: the first of those that live.
- A queue with `expires.ms`, its own or a policy's, goes when nobody has consumed, fetched or
  declared it for so long. The leader of its log looks, and takes the counts for what was done with
  it: as long as there is a consumer, or something was removed or is in flight, it is in use. A new
  leader counts anew. Queues over topics of several partitions stay.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState
from kafkaesque.broker.metadata.effective_options import effective_options
from kafkaesque.broker.metadata.queue_names import is_own_vhost
from kafkaesque.broker.requests import queue_requests as q
from kafkaesque.chassis.amqp.arguments import declaration_of
from kafkaesque.model.errors import RequestRefused
from kafkaesque.model.ids import NodeId, TopicId

SWEEP_MS: Final = 5_000
#: A broker that was not heard of for so long, and with it its connections, is gone.
LOST_MS: Final = 60_000
#: Queues that one sweep asks about, so that none keeps the loop for long.
ASKED_MAX: Final = 1_000
_TIMEOUT_MS: Final = 5_000


class _Use(NamedTuple):
    """What was done with a queue by when."""

    removed: int
    at_ms: int


class Sweeping:
    """See the module."""

    __slots__ = (
        "_begin",
        "_delete",
        "_doors",
        "_has_begun",
        "_is_over",
        "_known",
        "_uses",
        "_watched",
    )

    def __init__(self, doors: Doors, delete: Callable[[QueueState], None]) -> None:
        self._doors = doors
        self._delete = delete
        self._uses: Final[dict[TopicId, _Use]] = {}
        #: Queues that were looked at so far.
        self._begin = 0
        self._has_begun = False
        self._is_over = False
        #: The queues that may go by themselves, and of which metadata, in which version.
        self._watched: list[QueueState] = []
        self._known: tuple[ClusterState, int] | None = None

    def begin(self) -> None:
        """Look from now on; harmless if that was said before."""
        if not self._has_begun:
            self._has_begun = True
            self._later(self._sweep)

    def end(self) -> None:
        """Look no more."""
        self._is_over = True

    def note_use(self, queue: QueueState) -> None:
        """A client of this broker has declared a queue, or asked it for a message."""
        use = self._uses.get(queue.topic_id)
        if use is not None:
            self._uses[queue.topic_id] = use._replace(at_ms=self._doors.clock.now_ms())

    def _later(self, act: Callable[[], None]) -> None:
        self._doors.clock.call_later(SWEEP_MS, act)

    def _sweep(self) -> None:
        if self._is_over:
            return
        queues = self._doors.cluster.state.queues_by_log
        for log_id in [each for each in self._uses if each not in queues]:
            del self._uses[log_id]
        is_first = self._is_first()
        left = ASKED_MAX
        every = self._find_watched()
        # Where the last sweep had enough, this one begins.
        begin = self._begin % max(1, len(every))
        for queue in (*every[begin:], *every[:begin]):
            if not left:
                break
            self._begin += 1
            if is_first and self._has_lost_its_owner(queue):
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

    def _has_lost_its_owner(self, queue: QueueState) -> bool:
        owner = _owner_of(queue)
        if not owner:
            return False
        if is_orphan(self._doors.cluster.state, queue):
            return True
        cluster = self._doors.cluster
        node = NodeId(int(owner.partition(".")[0]))
        return node != cluster.node and not cluster.was_alive(node, LOST_MS)

    def _expires_ms(self, queue: QueueState) -> int:
        if queue.source is not None and len(queue.partitions) > 1:
            return 0
        return int(effective_options(self._doors.cluster.state, queue).get("expires.ms", 0))

    def _ask(self, queue: QueueState) -> None:
        request = q.AskQueue(log_id=queue.topic_id)
        on_counted = partial(self._on_counted, queue)
        self._doors.queues.ask_whole(request, q.QueueCounts, _TIMEOUT_MS, on_counted)

    def _on_counted(self, queue: QueueState, counts: q.QueueCounts | RequestRefused) -> None:
        expires_ms = self._expires_ms(queue)
        if isinstance(counts, RequestRefused) or not expires_ms:
            return
        now_ms = self._doors.clock.now_ms()
        removed = sum(counts.removed.values())
        use = self._uses.get(queue.topic_id)
        if use is None or counts.consumers or counts.in_flight or use.removed != removed:
            self._uses[queue.topic_id] = _Use(removed, now_ms)
        elif now_ms - use.at_ms >= expires_ms:
            del self._uses[queue.topic_id]
            self._delete(queue)


def _owner_of(queue: QueueState) -> str:
    """Return whose connection an exclusive queue belongs to; empty: nobody's."""
    said = declaration_of(queue)
    return "" if said is None else said.owner


def is_orphan(state: ClusterState, queue: QueueState) -> bool:
    """Tell whether a queue belonged to a connection that is gone with its broker's process."""
    owner = _owner_of(queue)
    if not owner:
        return False
    node, _, rest = owner.partition(".")
    broker = state.brokers.get(NodeId(int(node)))
    return broker is None or str(broker.incarnation) != rest.partition(".")[0]
