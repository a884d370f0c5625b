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
from kafkaesque.broker.doors.publish_lanes import PublishLanes, size_of
from kafkaesque.broker.doors.queues import NewMessage
from kafkaesque.broker.doors.session_messages import SessionMessages
from kafkaesque.broker.doors.tickets import LoggedTicket, OnRunKept, Ticket
from kafkaesque.broker.metadata.cluster_state import ClusterState, QueueState, TopicState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.queue_sealing import may_go
from kafkaesque.broker.options.mqtt_sessions import is_session
from kafkaesque.broker.options.queues import KAFKA_TOPIC
from kafkaesque.broker.options.topic_config import resolve_option
from kafkaesque.model.errors import UnknownTopicOrPartition
from kafkaesque.model.ids import TopicId
from kafkaesque.model.log_reference import LogReference, checksum_of
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.options import OptionValue
from kafkaesque.routing.exchanges.route import Route


class ForQueues(NamedTuple):
    """Messages for queues that get a reference to each."""

    messages: list[NewMessage]
    #: Logs of the queues that may give them out at once.
    at_once: Sequence[TopicId]
    #: Those that may not, and until when: Unix time in milliseconds.
    later: Sequence[TopicId] = ()
    not_before_ms: int = 0

    @property
    def places(self) -> int:
        """How many queues there are."""
        return len(self.at_once) + len(self.later)


class KeptOnce(NamedTuple):
    """Where messages stand for several queues."""

    topic: TopicState
    #: The queues that refer to them, and their logs.
    queues: Mapping[str, TopicId]


#: A copy of a message, and the queue that gets it.
Copy = tuple[QueueState, list[NewMessage]]


class _Behind(NamedTuple):
    """Copies for sessions: they may not overtake references to what was published before them."""

    copies: Sequence[Copy]
    ticket: Ticket


class _Logged(LoggedTicket):
    """Messages that are on their way."""

    __slots__ = ("in_log", "queues", "topic_id")

    def __init__(
        self,
        topic: TopicState,
        in_log: list[NewMessage],
        queues: ForQueues,
        others: int,
        on_run_kept: OnRunKept,
        logs: ExchangeLogs,
    ) -> None:
        sizes = [size_of(each) for each in in_log]
        # Bound to the topic and not to this ticket: who refers to himself is left to the collector.
        on_logged = partial(logs.release, topic.topic_id)
        super().__init__(
            1 + queues.places + others,
            len(in_log),
            max(sizes),
            sum(sizes),
            on_run_kept,
            topic.name,
            on_logged,
        )
        self.topic_id = topic.topic_id
        self.in_log = in_log
        self.queues = queues


class ExchangeLogs:
    """See the module."""

    __slots__ = ("_cluster", "_lanes", "_options", "_session_messages", "_waiting")

    def __init__(
        self,
        cluster: Cluster,
        lanes: PublishLanes,
        options: LiveOptions,
        session_messages: SessionMessages,
    ) -> None:
        self._cluster = cluster
        self._lanes = lanes
        self._options = options
        self._session_messages = session_messages
        #: By the topic, in the order in which they were published. `PublishLanes` bounds it.
        self._waiting: Final[dict[TopicId, deque[_Logged | _Behind]]] = {}

    def find(
        self, route: Route, named: Mapping[str, QueueState], size_bytes: int, stored_in: str = ""
    ) -> KeptOnce | None:
        """Return the topic that keeps messages for several queues; None: all get copies.

        So it is where the topic does not exist any more, does not keep all, or is the one that they
        are from. `size_bytes` are those of the largest message.
        """
        state = self._cluster.state
        if route.log:
            log = state.topics.get(route.log)
            if log is None or not keeps_all(log, self._options.values):
                return None
            queues = [named[name] for name in (*route.queues, *route.delayed_queues)]
        elif route.has_names and len(route.queues) > 1:
            queues = [each for name in route.queues if is_session((each := named[name]).options)]
            log = self._session_messages.topic_for(queues, size_bytes)
        else:
            return None
        if log is None or stored_in == log.name:
            return None
        referring = {
            each.queue.name: each.topic_id for each in queues if takes_references(state, each, log)
        }
        return KeptOnce(log, referring) if referring else None

    def copy(self, copies: Sequence[Copy], ticket: Ticket) -> None:
        """Put copies into queues, behind what was published before.

        Of the messages that a session wants some are kept once, and others are not: those that no
        other session wants, and all that an encrypted session gets. Other queues have no references
        to what sessions have together, and never wait for them: else what they get next could
        overtake what waits.
        """
        topic = self._session_messages.topic if self._waiting else None
        waiting = None if topic is None else self._waiting.get(topic.topic_id)
        if waiting is not None:
            late = [each for each in copies if is_session(each[0].options)]
            if late:
                waiting.append(_Behind(late, ticket))
                copies = [each for each in copies if not is_session(each[0].options)]
        self._put(copies, ticket)

    def _put(self, copies: Sequence[Copy], ticket: Ticket) -> None:
        for queue, messages in copies:
            self._lanes.to_queue(queue.topic_id, messages, ticket)

    def keep(
        self,
        topic: TopicState,
        in_log: list[NewMessage],
        queues: ForQueues,
        others: int,
        on_run_kept: OnRunKept,
    ) -> LoggedTicket | None:
        """Append messages of one key to a topic, and then put references to them into queues.

        Whoever calls this brings the ticket to so many `others`. None: there is no room for all,
        and nothing is done. If the topic refuses one of them, no queue gets any.
        """
        ticket = _Logged(topic, in_log, queues, others, on_run_kept, self)
        if not self._lanes.admit(ticket):
            return None
        self._waiting.setdefault(topic.topic_id, deque()).append(ticket)
        self._lanes.run_to_topic(topic.name, in_log, ticket)
        return ticket

    def release(self, topic_id: TopicId) -> None:
        """Send what nothing waits before."""
        waiting = self._waiting[topic_id]
        while waiting:
            first = waiting[0]
            if isinstance(first, _Behind):
                waiting.popleft()
                self._put(*first)
            elif first.missing:
                return
            else:
                waiting.popleft()
                self._send(first)
        # Whoever was told of a refusal may have published, and brought this about already.
        if self._waiting.get(topic_id) is waiting:
            del self._waiting[topic_id]

    def _send(self, ticket: _Logged) -> None:
        queues, refusal = ticket.queues, ticket.refusal
        if ticket.topic_id not in self._cluster.state.topics_by_id:
            # Of its name there may be another one, which has the message: nothing can refer to it.
            refusal = UnknownTopicOrPartition(f"topic {ticket.log!r} was deleted meanwhile")
        if refusal is not None:
            self._lanes.fail(ticket, queues.places, refusal)
            return
        references = [
            _reference(ticket.topic_id, *each)
            for each in zip(queues.messages, ticket.in_log, ticket.places, strict=True)
        ]
        for log_id in queues.at_once:
            self._lanes.to_queue(log_id, references, ticket)
        if queues.later:
            not_before_ms = queues.not_before_ms
            references = [each._replace(not_before_ms=not_before_ms) for each in references]
            for log_id in queues.later:
                self._lanes.to_queue(log_id, references, ticket)


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


def _reference(
    topic_id: TopicId, message: NewMessage, in_log: NewMessage, place: tuple[int, int]
) -> NewMessage:
    """Return a message as queues get it that have it in a topic."""
    has_headers = message.headers is in_log.headers
    headers = message.headers
    if has_headers:
        # What brokers say is read in the queue's record, and only there.
        headers = tuple(each for each in headers if each[0].startswith(PREFIX))
    return message._replace(
        value=None,
        headers=headers,
        reference=LogReference(
            topic_id,
            *place,
            size_bytes=len(message.key or b"") + len(message.value or b""),
            checksum=checksum_of(message.value),
            has_headers=has_headers,
        ),
    )
