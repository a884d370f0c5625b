"""Brings requests to the leader of a queue's log, from any broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.peers.link import PeerNotAsked, PeerUnreachable
from kafkaesque.broker.queues.hosts import QueueHosts
from kafkaesque.broker.queues.putting import OnPut
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.caller import RemoteCaller
from kafkaesque.broker.requests.commands import Done
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    ConsumerName,
    ExtendWaits,
    MoveMessages,
    PutMessages,
    PutResult,
    TakeMessages,
    TakeOverConsumer,
)
from kafkaesque.broker.requests.retries import LEADERLESS, OnOutcome, retry
from kafkaesque.env.clock import Clock
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    RequestRefused,
    RequestTimedOut,
    UnknownQueue,
)
from kafkaesque.model.ids import NodeId, TopicId

ResultT = TypeVar("ResultT")

#: Doing them twice is not doing them once.
_ONCE: Final = (PutMessages, TakeMessages)


class QueueCalls:
    """This broker's way to queues."""

    __slots__ = ("_caller", "_clock", "_hosts", "_leaders", "_metadata", "_node")

    def __init__(
        self,
        *,
        node: NodeId,
        clock: Clock,
        caller: RemoteCaller,
        metadata: MetadataView,
        leaders: LeadersTable,
        hosts: QueueHosts,
    ) -> None:
        self._node = node
        self._clock = clock
        self._caller = caller
        self._metadata = metadata
        self._leaders = leaders
        self._hosts = hosts

    def ask(
        self,
        request: AnyQueueRequest,
        result_type: type[ResultT],
        timeout_ms: int,
        on_done: OnOutcome[ResultT],
        on_asked: Callable[[NodeId], None] | None = None,
        answer_ms: int | None = None,
    ) -> None:
        """Ask the leader, and again while there is none; `on_done` may be called at once.

        `on_asked` is told who is asked, each time. With `answer_ms`, who is asked in time may take
        so long to answer, else until time is up.

        `RequestTimedOut` says of messages to be put or taken that it may have been done. Whatever
        else is asked is asked again then, until there is an answer or time is up.
        """

        def attempt(left_ms: int, on_outcome: OnOutcome[ResultT]) -> None:
            leader = self._leader(TopicId(request.log_id), request.partition)
            if on_asked is not None:
                on_asked(leader)
            if leader == self._node:
                self._hosts.serve_here(request, result_type, on_outcome)
            else:
                settle = _settled(on_outcome, is_once=isinstance(request, _ONCE))
                allowed_ms = left_ms if answer_ms is None else answer_ms
                self._caller.ask(leader, request, result_type, allowed_ms, settle)

        def too_late(last: RequestRefused | None) -> RequestRefused:
            if isinstance(request, (*_ONCE, MoveMessages)) or last is None:
                return LeaderNotAvailable(f"the queue's leader could not be reached: {last}")
            return RequestTimedOut(f"the queue's leader has not answered: {last}")

        retry(self._clock, timeout_ms, attempt, on_done, too_late, passing=LEADERLESS)

    def put(self, request: PutMessages, on_done: OnPut) -> bool:
        """Put messages as `ask` does, which asks again while there is no leader.

        True says that the order is certain, though nothing may be committed yet: what is put
        after this comes behind it.
        """

        def on_outcome(outcome: PutResult | RequestRefused) -> None:
            if isinstance(outcome, LEADERLESS):
                # Nothing was done.
                self.ask(request, PutResult, request.timeout_ms, on_done)
            else:
                on_done(outcome)

        try:
            if self._leader(TopicId(request.log_id), request.partition) == self._node:
                return self._hosts.put_here(request, on_outcome)
        except LEADERLESS:
            pass
        except RequestRefused as refusal:
            on_done(refusal)
            return True
        self.ask(request, PutResult, request.timeout_ms, on_done)
        return False

    def leads(self, node: NodeId, log_id: TopicId) -> bool:
        """Tell whether a broker leads a queue of one partition, as far as this one knows."""
        queue = self._metadata.state.queues_by_log.get(log_id)
        return queue is not None and self._leaders.leader(queue.partitions[0].group) == node

    def extend_waits(self, leader: NodeId, request: ExtendWaits, timeout_ms: int) -> None:
        """Have waits at a leader last longer; those that it does not hear of end."""
        if leader == self._node:
            self._hosts.extend_waits(request)
        else:
            self._caller.ask(leader, request, Done, timeout_ms, lambda _: None)

    def take_over(
        self, consumer: ConsumerName, timeout_ms: int, on_done: Callable[[], None]
    ) -> None:
        """Tell a consumer, wherever it is connected; `on_done` is called once, maybe at once."""
        node = NodeId(consumer.node)
        if node == self._node:
            self._hosts.take_over(consumer)
            on_done()
        else:
            request = TakeOverConsumer(consumer=consumer)
            self._caller.ask(node, request, Done, timeout_ms, lambda _: on_done())

    def _leader(self, log_id: TopicId, partition: int) -> NodeId:
        queue = self._metadata.state.queues_by_log.get(log_id)
        if queue is None or not 0 <= partition < len(queue.partitions):
            raise UnknownQueue("the queue does not exist any more")
        leader = self._leaders.leader(queue.partitions[partition].group)
        if leader is None and self._hosts.is_lost(queue):
            raise UnknownQueue(f"queue {queue.queue} was in the memory of a broker that is gone")
        if leader is None:
            raise LeaderNotAvailable(f"queue {queue.queue} has no leader at the moment")
        return leader


def _settled(
    on_outcome: OnOutcome[ResultT], *, is_once: bool
) -> Callable[[ResultT | RequestRefused | PeerUnreachable], None]:
    def settle(outcome: ResultT | RequestRefused | PeerUnreachable) -> None:
        if isinstance(outcome, PeerNotAsked):
            on_outcome(LeaderNotAvailable(str(outcome)))
        elif isinstance(outcome, PeerUnreachable | RequestTimedOut):
            kind = RequestTimedOut if is_once else LeaderNotAvailable
            on_outcome(kind(f"{outcome}; it may or may not be done"))
        else:
            on_outcome(outcome)

    return settle
