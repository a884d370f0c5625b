"""Queues of the cluster, from any broker: messages for one worker each."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from msgspec import UNSET

from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.doors.held_takes import HeldTakes
from kafkaesque.broker.doors.parted_queues import PartedQueues
from kafkaesque.broker.doors.parted_takes import OnTaken
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.metadata.queue_names import OWN_VHOST_MARK, QueueName
from kafkaesque.broker.queues.calls import QueueCalls
from kafkaesque.broker.queues.hosts import QueueHosts
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.requests.queue_requests import (
    AnyQueueRequest,
    ConsumerName,
    PutMessages,
    PutResult,
    QueueCounts,
    TakeMessages,
    TakenMessages,
)
from kafkaesque.env.clock import Clock
from kafkaesque.model import message_headers as names
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import RequestRefused, UnknownQueue
from kafkaesque.model.ids import NodeId, Offset, TopicId
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.log_reference import LogReference
from kafkaesque.model.records import Record
from kafkaesque.queues import arrival
from kafkaesque.queues.tally import Tally

ResultT = TypeVar("ResultT")


class NewMessage(NamedTuple):
    """A message to be put; what is not plain stands in its headers."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    #: 0 to `max.priority` of the queue; higher ones come first.
    priority: int = 0
    #: Messages of a group are given out one after the other, if the queue has `ordered.groups`;
    #: groups get messages in turn, if it has `fair.groups`.
    group: bytes = b""
    #: Unix time in milliseconds from which on it may be taken; 0: as the queue has it.
    not_before_ms: int = 0
    #: Unix time in milliseconds at which its life ends; 0: as the queue has it.
    not_after_ms: int = 0
    #: 16 bytes by which duplicates are known, if the queue has `deduplication.ms`.
    identity: bytes = b""
    #: Milliseconds after it is in the log; at most one of this and `not_before_ms`.
    delay_ms: int = 0
    #: Milliseconds that it lives in the log; at most one of this and `not_after_ms`.
    time_to_live_ms: int = 0
    #: How often a queue has passed it on to an exchange.
    forwarded: int = 0
    #: Where its body stands, which is not here then.
    reference: LogReference | None = None


#: Where the fields begin of which the queue is to know, and what they are in a plain message.
_FIRST_SAID: Final = NewMessage._fields.index("priority")
_NOTHING_SAID: Final = tuple(NewMessage._field_defaults.values())[_FIRST_SAID - 1 :]


class LedQueue(NamedTuple):
    """A part of a queue that this broker leads; a queue over a topic has several."""

    queue: QueueState
    partition: int
    counts: QueueCounts


class Queues:
    """Outcomes: a result says that what was asked is committed, a refusal that nothing was done.

    `RequestTimedOut` says that nobody knows. Callbacks come once, maybe at once.
    """

    __slots__ = (
        "_calls",
        "_clock",
        "_held",
        "_hosts",
        "_incarnation",
        "_metadata",
        "_node",
        "_number",
        "_parted",
    )

    def __init__(
        self,
        *,
        node: NodeId,
        incarnation: int,
        clock: Clock,
        metadata: MetadataView,
        leaders: LeadersTable,
        calls: QueueCalls,
        hosts: QueueHosts,
    ) -> None:
        self._node = node
        self._incarnation = incarnation
        self._clock = clock
        self._metadata = metadata
        self._calls = calls
        self._hosts = hosts
        self._number = 0
        self._parted = PartedQueues(clock=clock, metadata=metadata, leaders=leaders, calls=calls)
        self._held = HeldTakes(
            clock=clock, metadata=metadata, calls=calls, new_name=self.new_consumer
        )

    def find(self, name: QueueName) -> QueueState:
        """Return a queue, as far as this broker has heard.

        Raises:
            UnknownQueue: there is none of the name.
        """
        if _is_own(name.vhost):
            raise UnknownQueue(f"queue {name} does not exist")
        return self._metadata.state.queue(name)

    def all(self) -> list[QueueState]:
        """Return all queues that clients have made, by virtual host and name."""
        queues = self._metadata.state.queues
        own = [name for name in queues if not _is_own(name.vhost)]
        return [queues[name] for name in sorted(own)]

    def led_here(self) -> Iterator[LedQueue | None]:
        """Return the parts of queues that this broker leads, with what they have, one by one.

        None: one that begins to be served here. Share groups are no queues here.
        """
        for found, partition, counts in self._hosts.led():
            yield None if counts is None else LedQueue(found, partition, counts)

    def led_of(self, name: QueueName) -> list[LedQueue]:
        """Return the parts of one queue that this broker leads; none if there is no such queue."""
        queue = self._metadata.state.queues.get(name)
        if queue is None or _is_own(name.vhost):
            return []
        parts = self._hosts.led_of(queue)
        return [LedQueue(found, number, counts) for found, number, counts in parts if counts]

    @property
    def count(self) -> int:
        """How many queues clients have made in the whole cluster, as far as this broker knows."""
        hosts = self._metadata.state.queues_by_vhost
        return sum(len(each) for vhost, each in hosts.items() if not _is_own(vhost))

    @property
    def tally(self) -> Tally:
        """What queues have done since this broker's start, while it led them."""
        return self._hosts.tally

    @property
    def memory_bytes(self) -> int:
        """What transient queues hold in this broker's memory."""
        return self._hosts.memory.used

    def messages_end(self, log_id: TopicId, number: int) -> Offset | None:
        """Return the offset after the last message that has come to a part of a queue led here.

        It may not be committed yet. None where that is not known.
        """
        return self._hosts.messages_end(log_id, number)

    def new_consumer(self) -> ConsumerName:
        """Return a name for a consumer that is connected with this broker."""
        self._number += 1
        return ConsumerName(self._node, self._incarnation, self._number)

    def when_taken_over(self, consumer: ConsumerName, then: Callable[[], None]) -> None:
        """Call once when another consumer says that it takes the place of one of this broker's.

        Whoever asks for this has to `forget_consumer` in the end.
        """
        self._hosts.taken_over[consumer] = then

    def forget_consumer(self, consumer: ConsumerName) -> None:
        """A consumer of this broker's is gone: nobody is told any more."""
        self._hosts.taken_over.pop(consumer, None)

    def take_over(
        self, consumer: ConsumerName, timeout_ms: int, on_done: Callable[[], None]
    ) -> None:
        """Tell a consumer, of any broker's, that another one takes its place.

        `on_done` is called once, maybe at once: it knows by then, or is gone, or its broker has
        not answered in time.
        """
        self._calls.take_over(consumer, timeout_ms, on_done)

    def is_lost(self, queue: QueueState) -> bool:
        """Tell whether a queue was in the memory of a broker that is gone, or not heard of."""
        return self._hosts.is_lost(queue)

    def when_consumers_are_lost(self, tell: Callable[[QueueState], None]) -> None:
        """Call with each queue that this broker leads when a consumer is gone with its broker.

        The queue may have others. One that was lost with the queue's leader is not told of, unless
        it had messages.
        """
        self._hosts.on_consumer_lost = tell

    def put(
        self,
        log_id: TopicId,
        messages: Sequence[NewMessage],
        timeout_ms: int,
        on_done: Callable[[PutResult | RequestRefused], None],
        *,
        is_strict: bool = False,
    ) -> None:
        """Put messages into a queue, in order; no consumer has to be there.

        The result has their numbers in the whole queue, see `ask_whole`.

        With `is_strict`, a message that has a priority, a group or an identity is refused where the
        queue has no option for that.
        """
        self.put_encoded(log_id, self.encode(messages), timeout_ms, on_done, is_strict=is_strict)

    def encode(self, messages: Sequence[NewMessage]) -> bytes:
        """Return messages as `put_encoded` takes them, for as many queues as there are."""
        now_ms = self._clock.wall_ms()
        records = [
            Record(number, now_ms, each.key, each.value, _headers_of(each))
            for number, each in enumerate(messages)
        ]
        return bytes(encode_batch(records))

    def put_encoded(
        self,
        log_id: TopicId,
        records: bytes,
        timeout_ms: int,
        on_done: Callable[[PutResult | RequestRefused], None],
        *,
        is_strict: bool = False,
        has_references: bool = False,
    ) -> bool:
        """Put messages into a queue as `put` does, encoded in this turn by `encode`.

        With `has_references` some of them may have one: else they would be taken off.

        True says that they have their place, though they may not be committed yet: what is put
        after them comes behind them.
        """
        request = PutMessages(
            log_id=log_id,
            records=records,
            timeout_ms=timeout_ms,
            is_strict=True if is_strict else UNSET,
            has_references=True if has_references else UNSET,
        )
        queue = self._metadata.state.queues_by_log.get(log_id)
        if queue is None or len(queue.partitions) == 1:
            return self._calls.put(request, on_done)
        self._parted.ask(queue, request, PutResult, timeout_ms, on_done)
        return False

    def ask(
        self,
        request: AnyQueueRequest,
        result_type: type[ResultT],
        timeout_ms: int,
        on_done: Callable[[ResultT | RequestRefused], None],
        *,
        may_stay: bool = True,
    ) -> None:
        """Ask the leader of one partition of a queue; see `queue_requests` for what there is.

        A long wait for messages may stay at the leader after its end (`held_takes`). What comes
        then is given back as not attempted, but counts as given out: whoever tells clients the
        number of an attempt says no to `may_stay`.
        """
        if may_stay and isinstance(request, TakeMessages) and self._held.may_hold(request):
            self._hold(request, result_type, timeout_ms, on_done)
        else:
            self._calls.ask(request, result_type, timeout_ms, on_done)

    def ask_whole(
        self,
        request: AnyQueueRequest,
        result_type: type[ResultT],
        timeout_ms: int,
        on_done: Callable[[ResultT | RequestRefused], None],
    ) -> None:
        """Ask a queue, however many partitions it has: each message has a number in the whole.

        Offsets and claims of request and result are such numbers (`whole_numbers`). In a queue of
        one partition they are its offsets.
        """
        queue = self._metadata.state.queues_by_log.get(TopicId(request.log_id))
        if queue is None or len(queue.partitions) == 1:
            self.ask(request, result_type, timeout_ms, on_done)
        else:
            self._parted.ask(queue, request, result_type, timeout_ms, on_done)

    def _hold(
        self,
        request: TakeMessages,
        result_type: type[ResultT],
        timeout_ms: int,
        on_done: Callable[[ResultT | RequestRefused], None],
    ) -> None:
        def on_taken(outcome: TakenMessages | RequestRefused) -> None:
            if isinstance(outcome, result_type | RequestRefused):
                on_done(outcome)

        self._held.take(request, timeout_ms, on_taken)

    def take_any(self, queue: QueueState, take: TakeMessages, on_taken: OnTaken) -> None:
        """Take messages of any partition; told with the partition, in which they have offsets."""
        self._parted.take(queue, take, on_taken)


def _is_own(vhost: str) -> bool:
    return vhost.startswith(OWN_VHOST_MARK)


def _headers_of(message: NewMessage) -> Headers:
    """Return a message's headers, with what the queue is to know of it."""
    own = message.headers
    for name, _ in own:
        if name.startswith(names.PREFIX):
            own = tuple(each for each in own if not each[0].startswith(names.PREFIX))
            break
    if message[_FIRST_SAID:] == _NOTHING_SAID:
        return own
    said = arrival.headers_of(
        priority=message.priority,
        group=message.group,
        not_before_ms=message.not_before_ms,
        not_after_ms=message.not_after_ms,
        identity=message.identity,
        delay_ms=message.delay_ms,
        time_to_live_ms=message.time_to_live_ms,
    )
    passed = ((names.FORWARDED, b"%d" % message.forwarded),) if message.forwarded else ()
    if message.reference is not None:
        passed = (*passed, (names.LOG_REFERENCE, message.reference.packed()))
    return (*own, *said, *passed)
