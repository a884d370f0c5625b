"""Finds queues, also those of which this broker has not heard yet."""

from collections.abc import Callable
from typing import Final

from kafkaesque.broker.doors import Doors
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.gateway.sqs.call import NO_QUEUE, Call, OnQueue, RequestT, queue_name
from kafkaesque.protocols.sqs.errors import SqsError

#: So long a broker may take to find out whether it has heard of all queues.
CURRENT_MS_MAX: Final = 5_000


def is_served(queue: QueueState) -> bool:
    """Tell whether clients of SQS see a queue: not one over a topic."""
    return queue.source is None


class QueueFinder:
    """See the module."""

    __slots__ = ("_doors",)

    def __init__(self, doors: Doors) -> None:
        self._doors = doors

    def look(self, name: str) -> QueueState | None:
        """Return a queue, as far as this broker has heard."""
        found = self._doors.cluster.state.queues.get(queue_name(name))
        return found if found is not None and is_served(found) else None

    def find(self, call: Call[RequestT], name: str, then: OnQueue) -> None:
        """Go on with a queue, now or later; or answer that there is none.

        A client may have made it a moment ago, at another broker.
        """
        self.find_or(call, name, then, lambda: call.fail(SqsError("QueueDoesNotExist", NO_QUEUE)))

    def find_or(
        self, call: Call[RequestT], name: str, then: OnQueue, otherwise: Callable[[], None]
    ) -> None:
        """Go on with a queue, or without one."""
        found = self.look(name)
        if found is not None:
            then(found)
            return

        def on_current(_: bool) -> None:
            again = self.look(name)
            call.try_to(otherwise if again is None else lambda: then(again))

        self._doors.cluster.when_current(CURRENT_MS_MAX, on_current)
