"""Queues that are in one broker's memory alone: where one is, and when it is gone (ADR 45).

Such a queue is as old as a process of its broker at most. When the broker registers as another
process, or is removed, the controller ends what the last process had, in the same step: nobody
takes an empty queue for the one that was.
"""

from collections.abc import Callable

import msgspec

from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState
from kafkaesque.broker.metadata.exchange_planner import exchanges_that_end_with_queue
from kafkaesque.broker.metadata.records import AnyMetadataRecord, Home, TopicDeleted
from kafkaesque.broker.requests.queue_commands import CreateQueue
from kafkaesque.model.errors import InvalidRequest
from kafkaesque.model.ids import NodeId

#: Which process of a broker is alive, as far as is heard.
Incarnation = Callable[[NodeId], int | None]


def home_for(state: ClusterState, command: CreateQueue) -> Home:
    """Return the process that is to have a new queue in its memory.

    Raises:
        InvalidRequest: the command names none, or one that has not registered; or it wants copies.
    """
    if command.home is msgspec.UNSET or NodeId(command.home) not in state.brokers:
        raise InvalidRequest("a transient queue is in the memory of a broker, which is not known")
    if command.replication_factor not in (-1, 1):
        raise InvalidRequest("a transient queue is in one broker's memory, and has no replicas")
    return Home(command.home, state.brokers[NodeId(command.home)].incarnation)


def is_lost(queue: QueueState, incarnation: Incarnation) -> bool:
    """Tell whether what a queue had is gone with its broker, or the broker is not heard of."""
    home = queue.home
    return home is not None and incarnation(NodeId(home.node)) != home.incarnation


def end_of_queue(state: ClusterState, queue: QueueState, wall_ms: int) -> list[AnyMetadataRecord]:
    """Return the records that end a queue, and the exchanges that go with it."""
    deleted = TopicDeleted(topic_id=queue.topic_id, name=queue.name, at_ms=wall_ms)
    return [*exchanges_that_end_with_queue(state, queue.queue), deleted]


def ends_with_broker(
    state: ClusterState, node: NodeId, wall_ms: int, *, but: int | None = None
) -> list[AnyMetadataRecord]:
    """Return the records that end the queues of a broker's processes, `but` those of this one."""
    return [
        record
        for queue in state.queues.values()
        if queue.home is not None and queue.home.node == node and queue.home.incarnation != but
        for record in end_of_queue(state, queue, wall_ms)
    ]
