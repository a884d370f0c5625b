"""Which queues this broker passes on: those with `forward.exchange` whose logs it leads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState
from kafkaesque.broker.options.queues import FORWARD_EXCHANGE
from kafkaesque.model.ids import TopicId

if TYPE_CHECKING:
    from kafkaesque.gateway.forwarding.relay import Relay

#: So often a broker looks which queues it is to pass on.
SWEEP_MS: Final = 1_000


class Forwarding:
    """See the module."""

    __slots__ = ("_doors", "_is_over", "_known", "_relays", "_say")

    def __init__(self, doors: Doors, say: Callable[[str], None]) -> None:
        """`say` is told what operators should know."""
        self._doors: Final = doors
        self._say: Final = say
        #: By log and partition: a queue over a topic has several.
        self._relays: Final[dict[tuple[TopicId, int], Relay]] = {}
        #: The metadata, their version, and that of what is known of leaders, when it was looked.
        self._known: tuple[ClusterState, int, int] | None = None
        self._is_over = False

    def begin(self) -> None:
        """Look from now on."""
        self._doors.clock.call_later(SWEEP_MS, self._sweep)

    def end(self) -> None:
        """Pass nothing on any more; what is on its way may still arrive."""
        self._is_over = True
        for each in self._relays.values():
            each.end()
        self._relays.clear()

    def _sweep(self) -> None:
        if self._is_over:
            return
        if self._is_news():
            self._follow()
        self.begin()

    def _is_news(self) -> bool:
        """Tell whether queues, their options or their leaders may be others than at the last look.

        Ten thousand queues need not be asked each second.
        """
        cluster, known = self._doors.cluster, self._known
        state = cluster.state
        self._known = now = state, state.version, cluster.leaders.version
        return known is None or known[0] is not state or known[1:] != now[1:]

    def _follow(self) -> None:
        wanted: dict[tuple[TopicId, int], QueueState] = {}
        for queue in self._doors.cluster.state.queues_by_log.values():
            if queue.options.get(FORWARD_EXCHANGE):
                for number in self._led(queue):
                    wanted[queue.topic_id, number] = queue
        for key in [each for each in self._relays if each not in wanted]:
            self._relays.pop(key).end()
        for key, queue in wanted.items():
            if key not in self._relays:
                self._relays[key] = self._new_relay(queue, key[1])

    def _new_relay(self, queue: QueueState, partition: int) -> Relay:
        # Most brokers pass nothing on.
        from kafkaesque.gateway.forwarding.relay import Relay

        relay = Relay(self._doors, queue, partition, self._say)
        relay.begin()
        return relay

    def _led(self, queue: QueueState) -> list[int]:
        cluster = self._doors.cluster
        return [
            each.partition
            for each in queue.partitions
            if cluster.leaders.leader(each.group) == cluster.node
        ]
