"""Sends dead letters through an exchange: into each queue and topic that they are routed to.

Theory of operation. One step takes the first messages that go the same way, and sends each queue
what it is to have. The step is over when all queues have committed all of it; else it is tried
again as a whole. A queue's log knows by producer id and number what it has, so trying again brings
nothing twice. Numbers of messages that went to other queues are missing there, and are passed over.
A message's way is found once and kept: where bindings change, or a lot is drawn, a second try goes
the same way.

What is promised: each message comes into each queue that it is routed to, once. It may come into
more queues than one way has, if the source's leader dies within a step and bindings change before
the next leader tries. A topic may get it twice, if the answer of a first try was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import QueueState, TopicState
from kafkaesque.broker.metadata.queue_sealing import may_go
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.routed_records import routed_of
from kafkaesque.broker.queues.transforming import (
    Content,
    Place,
    failure_queues,
    may_stand_in,
    places_of,
)
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.broker.requests.queue_requests import MovedResult, MoveMessages
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused, UnknownQueue
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.records import Record
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.router import Router

TIMEOUT_MS: Final = 10_000


class Letter(NamedTuple):
    """A dead letter, as it is to arrive."""

    offset: int
    record: Record


class ExchangeWay(NamedTuple):
    """Where dead letters of a queue go."""

    vhost: str
    exchange: str
    #: None: each message's own.
    key: str | None


#: Returns the batch of a letter for a queue's log; `not_before_ms` is when it may be had, or 0.
MakeBatch = Callable[[Letter, TopicId, int], bytes]
#: Whether all is committed.
OnSent = Callable[[bool], None]


class ExchangeMoves:
    """The ways of one queue's dead letters through one exchange, under one leadership."""

    __slots__ = ("_calls", "_forwarder", "_metadata", "_routes", "_source", "_way")

    def __init__(
        self,
        way: ExchangeWay,
        source: QueueState,
        metadata: MetadataView,
        calls: QueueCalls,
        forwarder: Forwarder,
    ) -> None:
        self._way = way
        self._source = source
        self._metadata = metadata
        self._calls = calls
        self._forwarder = forwarder
        #: By offset, of messages that are on their way.
        self._routes: dict[int, Route] = {}

    def first_step(self, letters: Sequence[Letter]) -> list[Letter]:
        """Return the first messages that go the same way; none if the first has no way to go."""
        step: list[Letter] = []
        for letter in letters:
            route = self._route(letter)
            if route.is_unroutable or (step and route != self._routes[step[0].offset]):
                break
            step.append(letter)
        return step

    def _route(self, letter: Letter) -> Route:
        known = self._routes.get(letter.offset)
        if known is not None:
            return known
        vhost, exchange, key = self._way
        router = Router(self._metadata.state.routing)
        try:
            route = router.route_for_broker(vhost, exchange, routed_of(letter.record, key))
            if route.transformed:
                self._places(letter, route)
        except RequestRefused:
            return Route(())
        if not self._may_take(route):
            return Route(())
        if not route.is_unroutable:
            self._routes[letter.offset] = route
        return route

    def _may_take(self, route: Route) -> bool:
        """Tell whether an encrypted queue's message would be in the clear nowhere."""
        state = self._metadata.state
        queues = state.queues_by_vhost.get(self._way.vhost, {})
        names = [*route.queues, *route.delayed_queues]
        if route.transformed:
            names += failure_queues(route, state.routing.vhost(self._way.vhost))
        takers: list[TopicState | None] = [queues.get(name) for name in names]
        takers += [state.topics.get(name) for name in route.topics]
        return all(each is None or may_go(state, self._source, each) for each in takers)

    def forget(self, offset: int) -> None:
        """A message has gone its way, or stays where it is."""
        self._routes.pop(offset, None)

    def send(self, step: Sequence[Letter], now_ms: int, make: MakeBatch, on_sent: OnSent) -> None:
        """Send a step; `on_sent` may be called at once."""
        route = self._routes[step[0].offset]
        sending = _Sending(on_sent)
        if route.transformed:
            self._send_changed(step, now_ms, make, sending)
            return
        queues = self._metadata.state.queues_by_vhost.get(self._way.vhost, {})
        later_ms = now_ms + route.delay_ms
        ways = [(name, 0) for name in route.queues]
        ways += [(name, later_ms) for name in route.delayed_queues]
        for name, not_before_ms in ways:
            # One that was deleted since needs nothing.
            if name in queues:
                log_id = queues[name].topic_id
                batches = [make(letter, log_id, not_before_ms) for letter in step]
                self._send(log_id, batches, sending)
        for name in route.topics:
            for letter in step:
                self._append(name, letter.record, sending)
        sending.settle(is_done=True)

    def _send_changed(
        self, step: Sequence[Letter], now_ms: int, make: MakeBatch, sending: _Sending
    ) -> None:
        """Send a step of letters that transformations change on their way."""
        route = self._routes[step[0].offset]
        try:
            changed = [
                (letter._replace(record=_with(letter.record, place.content)), place)
                for letter in step
                for place in self._places(letter, route)
            ]
        except RequestRefused:
            # They are routed anew, and stay where they are if there is no way.
            for letter in step:
                self.forget(letter.offset)
            sending.settle(is_done=False)
            return
        by_queue: dict[tuple[str, bool], list[Letter]] = {}
        for letter, place in changed:
            if place.destination.is_topic:
                self._append(place.destination.name, letter.record, sending)
            else:
                way = (place.destination.name, place.is_delayed)
                by_queue.setdefault(way, []).append(letter)
        queues = self._metadata.state.queues_by_vhost.get(self._way.vhost, {})
        for (name, is_delayed), letters in by_queue.items():
            if name in queues:
                not_before_ms = now_ms + route.delay_ms if is_delayed else 0
                log_id = queues[name].topic_id
                batches = [make(letter, log_id, not_before_ms) for letter in letters]
                self._send(log_id, batches, sending)
        sending.settle(is_done=True)

    def _places(self, letter: Letter, route: Route) -> list[Place]:
        state, name = self._metadata.state, self._way.vhost
        content = Content(letter.record.key, letter.record.value, letter.record.headers)
        return places_of(route, state.routing.vhost(name), content, may_stand_in(state, name))

    def _send(self, log_id: TopicId, batches: list[bytes], sending: _Sending) -> None:
        request = MoveMessages(log_id=log_id, batches=batches, timeout_ms=TIMEOUT_MS, may_skip=True)

        def on_moved(outcome: MovedResult | RequestRefused) -> None:
            if isinstance(outcome, MovedResult):
                sending.settle(is_done=outcome.count == len(batches))
            else:
                is_gone = isinstance(outcome, UnknownQueue)
                sending.settle(is_done=is_gone and log_id not in self._metadata.state.queues_by_log)

        sending.begin()
        self._calls.ask(request, MovedResult, TIMEOUT_MS, on_moved)

    def _append(self, name: str, record: Record, sending: _Sending) -> None:
        topic = self._metadata.state.topics.get(name)
        if topic is None:
            return
        key = record.key
        number = 0 if key is None else partition_for_key(key, len(topic.partitions))
        sending.begin()

        def on_produced(outcome: ProduceResult | RequestRefused) -> None:
            sending.settle(is_done=isinstance(outcome, ProduceResult))

        self._forwarder.produce(
            TopicPartition(name, number),
            bytes(encode_batch([record])),
            -1,
            TIMEOUT_MS,
            on_produced,
            lambda: True,
        )


def _with(record: Record, content: Content) -> Record:
    return record._replace(value=content.value, headers=content.headers)


class _Sending:
    """Counts the answers of one step."""

    __slots__ = ("_is_done", "_left", "_on_sent")

    def __init__(self, on_sent: OnSent) -> None:
        self._on_sent = on_sent
        self._left = 1
        self._is_done = True

    def begin(self) -> None:
        self._left += 1

    def settle(self, *, is_done: bool) -> None:
        self._is_done = self._is_done and is_done
        self._left -= 1
        if not self._left:
            self._on_sent(self._is_done)
