"""Sends dead letters through an exchange: into each queue and topic that they are routed to.

Theory of operation. One step takes the first messages that go the same way, and sends each queue
what it is to have, in the messages' order. The step is over when all queues have committed all of
it; else it is tried again as a whole. A queue's log knows by producer id and number what it has, so
trying again brings nothing twice. Numbers of messages that went to other queues are missing there,
and are passed over. A message's route is found once and kept, with the transformations on it: where
bindings or rules change, or a lot is drawn, a second try goes the same way. Only if a queue for
failures is gone meanwhile, or not encrypted where it has to be, the message is routed again.

If a place refuses a step for good, its messages are tried one by one; the one that is refused alone
stays where it is.

What is promised: each message comes into each queue that it is routed to, once. It may come into
more queues than one way has, if the source's leader dies within a step and bindings change before
the next leader tries, or if it has to be routed again. If one place refuses it for good, others may
have it. A topic may get it twice, if the answer of a first try was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.metadata.cluster_state import PartitionState, QueueState, TopicState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.queue_sealing import may_go
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.queues.bodies import size_of
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.routed_records import routed_of
from kafkaesque.broker.queues.takers import KnownTakers
from kafkaesque.broker.queues.transforming import Content, Place, failure_queues, places_of
from kafkaesque.broker.queues.whole_numbers import partition_for
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.broker.requests.queue_requests import MovedResult, MoveMessages
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.dead_letters import key_of_last_way
from kafkaesque.model.errors import InvalidTopic, MessageTooLarge, RequestRefused, UnknownQueue
from kafkaesque.model.ids import TopicId, TopicPartition
from kafkaesque.model.murmur2 import partition_for_key
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record
from kafkaesque.routing.exchanges.route import Route
from kafkaesque.routing.exchanges.router import Router
from kafkaesque.routing.transformations.transformation import Transformation

#: Bytes of messages that are moved at once, as they arrive; a larger one goes alone.
MOVED_BYTES_MAX: Final = 4 * 1024 * 1024
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


#: Returns the batch of a letter for a queue's log and partition; the last number is when it may be
#: had, or 0.
MakeBatch = Callable[[Letter, TopicId, int, int], bytes]
#: Whether all is committed.
OnSent = Callable[[bool], None]


class _Path(NamedTuple):
    """Where a letter goes, until it is there."""

    route: Route
    #: The transformations on the route, as they were when it was found.
    rules: Mapping[str, Transformation]


class _Parcel(NamedTuple):
    """A letter that is ready to be sent."""

    letter: Letter
    route: Route
    places: list[Place]


class ExchangeMoves:
    """The ways of one queue's dead letters through one exchange, under one leadership."""

    __slots__ = (
        "_alone",
        "_arrived",
        "_calls",
        "_forwarder",
        "_log",
        "_metadata",
        "_options",
        "_parcels",
        "_paths",
        "_refused",
        "_source",
        "_way",
    )

    def __init__(
        self,
        way: ExchangeWay,
        source: QueueState,
        log: PartitionState,
        metadata: MetadataView,
        calls: QueueCalls,
        forwarder: Forwarder,
        options: LiveOptions,
    ) -> None:
        self._way = way
        self._source = source
        self._log = log
        self._metadata = metadata
        self._calls = calls
        self._forwarder = forwarder
        self._options = options
        #: By offset, of messages that are on their way.
        self._paths: dict[int, _Path] = {}
        #: The step that was found in this turn.
        self._parcels: list[_Parcel] = []
        #: Topics that have a message already.
        self._arrived: dict[int, set[str]] = {}
        #: So many messages go alone: one of them was refused for good.
        self._alone = 0
        #: The message that was refused alone; -1: none.
        self._refused = -1

    def first_step(self, letters: Sequence[Letter]) -> list[Letter]:
        """Return the first messages that go the same way; none if the first has no way to go.

        They are to be sent in the same turn.
        """
        parcels: list[_Parcel] = []
        self._parcels = parcels
        size = 0
        for letter in letters:
            parcel = self._parcel(letter)
            if parcel is None or (parcels and (self._alone or parcel.route != parcels[0].route)):
                break
            size += _size_of(parcel)
            if parcels and size > MOVED_BYTES_MAX:
                break
            parcels.append(parcel)
        return [parcel.letter for parcel in parcels]

    def _parcel(self, letter: Letter) -> _Parcel | None:
        """Return a letter as its places get it; None if there is no way to go."""
        if letter.offset == self._refused:
            self._refused = -1
            self.forget(letter.offset)
            return None
        path = self._paths.get(letter.offset)
        found = None if path is None else self._by(path, letter)
        if found is None:
            # The first time; or what it needs is gone.
            self._paths.pop(letter.offset, None)
            path = self._path(letter)
            found = None if path is None else self._by(path, letter)
            if path is not None and found is not None:
                self._paths[letter.offset] = path
        return found

    def _path(self, letter: Letter) -> _Path | None:
        vhost, exchange, key = self._way
        routing = self._metadata.state.routing
        if key is None:
            key = key_of_last_way(letter.record.headers, self._source.queue.name)
        try:
            route = Router(routing).route_for_broker(vhost, exchange, routed_of(letter.record, key))
        except RequestRefused:
            return None
        if route.is_unroutable:
            return None
        rules = routing.vhost(vhost).transformations
        names = {name for _, name in route.transformed}
        return _Path(route, {name: rules[name] for name in names if name in rules})

    def _by(self, path: _Path, letter: Letter) -> _Parcel | None:
        """Return a letter as its places get it by this path; None if it may not go there."""
        state, vhost = self._metadata.state, self._way.vhost
        if not self._may_take(path):
            return None
        content = Content(letter.record.key, letter.record.value, letter.record.headers)
        takers = KnownTakers(state, vhost, self._options.values)
        try:
            host = state.routing.vhost(vhost)
            places = places_of(path.route, host, content, takers, path.rules)
        except RequestRefused:
            return None
        return _Parcel(letter, path.route, places)

    def _may_take(self, path: _Path) -> bool:
        """Tell whether an encrypted queue's message would be in the clear nowhere."""
        state, route = self._metadata.state, path.route
        queues = state.queues_by_vhost.get(self._way.vhost, {})
        names = [*route.queues, *route.delayed_queues, *failure_queues(route, path.rules)]
        takers: list[TopicState | None] = [queues.get(name) for name in names]
        takers += [state.topics.get(name) for name in route.topics]
        return all(each is None or may_go(state, self._source, each) for each in takers)

    def forget(self, offset: int) -> None:
        """A message has gone its way, or stays where it is."""
        self._paths.pop(offset, None)
        self._arrived.pop(offset, None)

    def send(self, now_ms: int, make: MakeBatch, on_sent: OnSent) -> None:
        """Send the step that was found in this turn; `on_sent` may be called at once."""
        parcels, self._parcels = self._parcels, []
        offsets = [parcel.letter.offset for parcel in parcels]
        sending = _Sending(lambda end: on_sent(self._on_end(offsets, end)))
        queues = self._metadata.state.queues_by_vhost.get(self._way.vhost, {})
        # A queue's log passes over numbers below one that it has: so one request, in their order.
        batches: dict[tuple[TopicId, int], list[bytes]] = {}
        for letter, route, places in parcels:
            for (name, _, is_topic), content, is_delayed in places:
                changed = letter._replace(record=_with(letter.record, content))
                if is_topic:
                    self._append(name, changed, sending)
                elif name in queues:
                    # One that was deleted since needs nothing.
                    log_id = queues[name].topic_id
                    number = partition_in(queues[name], changed.record, self._log)
                    not_before_ms = now_ms + route.delay_ms if is_delayed else 0
                    batch = make(changed, log_id, number, not_before_ms)
                    batches.setdefault((log_id, number), []).append(batch)
        for (log_id, number), its in batches.items():
            self._send(log_id, number, its, sending)
        sending.settle(_End.DONE)

    def _on_end(self, offsets: Sequence[int], end: _End) -> bool:
        """Tell whether a step is done, and note how to go on."""
        if end is _End.DONE:
            self._alone = max(0, self._alone - len(offsets))
        elif end is _End.REFUSED and len(offsets) > 1:
            self._alone = len(offsets)
        elif end is _End.REFUSED:
            self._alone = max(0, self._alone - 1)
            self._refused = offsets[0]
        return end is _End.DONE

    def _send(
        self, log_id: TopicId, partition: int, batches: list[bytes], sending: _Sending
    ) -> None:
        request = MoveMessages(
            log_id=log_id,
            partition=partition,
            batches=batches,
            timeout_ms=TIMEOUT_MS,
            may_skip=True,
        )

        def on_moved(outcome: MovedResult | RequestRefused) -> None:
            if isinstance(outcome, MovedResult):
                # Which one was refused, and why, is found out when they go one by one.
                is_whole = outcome.count == len(batches)
                sending.settle(_End.DONE if is_whole else _End.REFUSED)
            elif isinstance(outcome, UnknownQueue):
                is_gone = log_id not in self._metadata.state.queues_by_log
                sending.settle(_End.DONE if is_gone else _End.AGAIN)
            else:
                sending.settle(_end_of(outcome))

        sending.begin()
        self._calls.ask(request, MovedResult, TIMEOUT_MS, on_moved)

    def _append(self, name: str, letter: Letter, sending: _Sending) -> None:
        topic = self._metadata.state.topics.get(name)
        arrived = self._arrived.setdefault(letter.offset, set())
        if topic is None or name in arrived:
            return
        key = letter.record.key
        number = 0 if key is None else partition_for_key(key, len(topic.partitions))
        sending.begin()

        def on_produced(outcome: ProduceResult | RequestRefused) -> None:
            if isinstance(outcome, ProduceResult):
                arrived.add(name)
                sending.settle(_End.DONE)
            else:
                sending.settle(_end_of(outcome))

        self._forwarder.produce(
            TopicPartition(name, number),
            bytes(encode_batch([letter.record])),
            -1,
            TIMEOUT_MS,
            on_produced,
            lambda: True,
        )


def partition_in(queue: QueueState, record: Record, source: PartitionState) -> int:
    """Return the partition that a moved message goes to: always the same one."""
    count = len(queue.partitions)
    return partition_for(record.headers, count, source.partition % count) if count > 1 else 0


def _with(record: Record, content: Content) -> Record:
    return record._replace(value=content.value, headers=content.headers)


def _size_of(parcel: _Parcel) -> int:
    """Return how many bytes a letter counts for: places that get the same share them."""
    record = parcel.letter.record
    different = {id(place.content): place.content for place in parcel.places}
    return sum(size_of(_with(record, content)) for content in different.values())


class _End(IntEnum):
    """What became of a step: the greatest of its places' counts."""

    DONE = 0
    #: One place does not take it, whenever it is asked.
    REFUSED = 1
    #: Nobody knows, or not yet.
    AGAIN = 2


def _end_of(refusal: RequestRefused) -> _End:
    is_lasting = isinstance(refusal, RecordError | MessageTooLarge | InvalidTopic)
    return _End.REFUSED if is_lasting else _End.AGAIN


class _Sending:
    """Counts the answers of one step."""

    __slots__ = ("_end", "_left", "_on_end")

    def __init__(self, on_end: Callable[[_End], None]) -> None:
        self._on_end = on_end
        self._left = 1
        self._end = _End.DONE

    def begin(self) -> None:
        self._left += 1

    def settle(self, end: _End) -> None:
        self._end = max(self._end, end)
        self._left -= 1
        if not self._left:
            self._on_end(self._end)
