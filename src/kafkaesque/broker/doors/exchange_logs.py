"""Keeps a message once for many queues: in a topic, to which the queues' records refer.

References follow when the topic has the message, in the order in which messages were published:
those may have gone to several of its partitions, of which one is slower than another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from kafkaesque.broker.doors.cluster import Cluster
from kafkaesque.broker.doors.publish_lanes import LoggedTicket, OnKept, PublishLanes, size_of
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState, TopicState
from kafkaesque.broker.metadata.queue_sealing import may_go
from kafkaesque.broker.options.queues import KAFKA_TOPIC
from kafkaesque.broker.options.topic_config import resolve_option
from kafkaesque.model.errors import RequestRefused, UnknownTopicOrPartition
from kafkaesque.model.ids import TopicId
from kafkaesque.model.log_reference import LogReference, checksum_of
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.options import OptionValue


class ForQueues(NamedTuple):
    """A message for queues that get a reference each."""

    message: NewMessage
    #: Logs of the queues that may give it out at once.
    at_once: Sequence[TopicId]
    #: Those that may not, and until when: Unix time in milliseconds.
    later: Sequence[TopicId] = ()
    not_before_ms: int = 0

    @property
    def places(self) -> int:
        """How many queues there are."""
        return len(self.at_once) + len(self.later)


class _Logged(LoggedTicket):
    """One message that is on its way."""

    __slots__ = ("in_log", "queues", "topic_id")

    def __init__(
        self,
        topic: TopicState,
        in_log: NewMessage,
        queues: ForQueues,
        others: int,
        on_kept: OnKept,
        logs: ExchangeLogs,
    ) -> None:
        total = 1 + queues.places + others
        # Bound to the topic and not to this ticket: who refers to himself is left to the collector.
        on_logged = partial(logs.release, topic.topic_id)
        super().__init__(total, size_of(in_log), on_kept, topic.name, on_logged)
        self.topic_id = topic.topic_id
        self.in_log = in_log
        self.queues = queues


class ExchangeLogs:
    """See the module."""

    __slots__ = ("_cluster", "_lanes", "_waiting")

    def __init__(self, cluster: Cluster, lanes: PublishLanes) -> None:
        self._cluster = cluster
        self._lanes = lanes
        #: By the topic, in the order in which they were published. `PublishLanes` bounds it.
        self._waiting: Final[dict[TopicId, deque[_Logged]]] = {}

    def keep(
        self,
        topic: TopicState,
        in_log: NewMessage,
        queues: ForQueues,
        others: int,
        on_kept: OnKept,
    ) -> LoggedTicket | None:
        """Append a message to a topic, and then put references to it into queues.

        Whoever calls this brings the ticket to so many `others`. None: there is no room, and
        `on_kept` was told so.
        """
        ticket = _Logged(topic, in_log, queues, others, on_kept, self)
        if not self._lanes.admit(ticket):
            return None
        self._waiting.setdefault(topic.topic_id, deque()).append(ticket)
        self._lanes.to_topic(topic.name, in_log, ticket)
        return ticket

    def release(self, topic_id: TopicId) -> None:
        """Send what nothing waits before."""
        waiting = self._waiting[topic_id]
        while waiting and (place := waiting[0].place) is not None:
            self._send(waiting.popleft(), place)
        if not waiting:
            del self._waiting[topic_id]

    def _send(self, ticket: _Logged, place: tuple[int, int] | RequestRefused) -> None:
        queues = ticket.queues
        if ticket.topic_id not in self._cluster.state.topics_by_id:
            # Of its name there may be another one, which has the message: nothing can refer to it.
            place = UnknownTopicOrPartition(f"topic {ticket.log!r} was deleted meanwhile")
        if isinstance(place, RequestRefused):
            self._lanes.fail(ticket, queues.places, place)
            return
        reference = [_reference(ticket, place)]
        for log_id in queues.at_once:
            self._lanes.to_queue(log_id, reference, ticket)
        if queues.later:
            reference = [reference[0]._replace(not_before_ms=queues.not_before_ms)]
            for log_id in queues.later:
                self._lanes.to_queue(log_id, reference, ticket)


def keeps_all(topic: TopicState, broker_option: Mapping[str, OptionValue]) -> bool:
    """Tell whether a topic keeps what is in it for its time; else queues get copies.

    A compacted one gives up a message as soon as another one has its key. And what only brokers
    write is no place for messages: a policy may name it.
    """
    if topic.is_internal:
        return False
    cleanup, _ = resolve_option("cleanup.policy", topic.configs, broker_option)
    return "compact" not in str(cleanup)


def takes_references(state: ClusterState, queue: QueueState, log: TopicState) -> bool:
    """Tell whether a queue refers to a topic for its messages; else it gets copies.

    One in a broker's memory does not go to other brokers to read. One that Kafka's clients see is
    read by them as it stands. And what an encrypted queue has is nowhere in the clear for it.
    """
    is_shown = KAFKA_TOPIC in queue.options
    return queue.home is None and not is_shown and may_go(state, queue, log)


def _reference(ticket: _Logged, place: tuple[int, int]) -> NewMessage:
    """Return a message as queues get it that have it in a topic."""
    message = ticket.queues.message
    has_headers = message.headers is ticket.in_log.headers
    headers = message.headers
    if has_headers:
        # What brokers say is read in the queue's record, and only there.
        headers = tuple(each for each in headers if each[0].startswith(PREFIX))
    return message._replace(
        value=None,
        headers=headers,
        reference=LogReference(
            ticket.topic_id,
            *place,
            size_bytes=len(message.key or b"") + len(message.value or b""),
            checksum=checksum_of(message.value),
            has_headers=has_headers,
        ),
    )
