"""One consumer of a stream: reads its topic from a place on, and removes nothing.

Theory of operation. A feed brings committed batches of the topic's only partition, from whatever
broker leads it, against credit in bytes. What has come waits here until the client may have it: its
prefetch is how far it may be behind with its acknowledgements, which say nothing else. Where the
place that was asked for is not there any more, or not yet, reading goes on at the end that is
nearest to it.

A filter is asked only when the client may have another message, and for a bounded part of what
waits in one turn of the loop: a consumer that wants one message of a million holds up nobody.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kafkaesque.broker.metadata.client_quotas import CONSUMER_BYTE_RATE
from kafkaesque.broker.metadata.cluster_state import QueueState
from kafkaesque.broker.options.queue_arguments import read_age_ms
from kafkaesque.broker.options.queues import STREAM_TOPIC
from kafkaesque.broker.requests.commands import EARLIEST, LATEST, FetchResult
from kafkaesque.chassis.meanings import properties_of
from kafkaesque.gateway.amqp.authorization import check_delivery
from kafkaesque.gateway.amqp.consumer import Owner
from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.amqp.ports import ChannelPort
from kafkaesque.gateway.amqp.settling import Settling
from kafkaesque.gateway.queueing.settlements import Delivery
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.errors import OffsetOutOfRange, RequestRefused
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.records import decode_columns
from kafkaesque.protocols.amqp import methods as m
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.properties import Properties, write_properties
from kafkaesque.protocols.amqp.wire import SHORT_STRING_BYTES_MAX, Timestamp
from kafkaesque.routing.exchanges.errors import BadArgument
from kafkaesque.routing.exchanges.kinds import check_filter
from kafkaesque.routing.message import RoutedMessage
from kafkaesque.routing.selectors.selector import Selector
from kafkaesque.transactions.committed_filter import CommittedFilter

OFFSET: Final = "x-stream-offset"
FIRST, LAST, NEXT = "first", "last", "next"
#: Bytes of batches that may wait here, or be on their way.
AHEAD_BYTES_MAX: Final = 1024 * 1024
#: What one batch may be when it is not compressed.
DECOMPRESSED_BYTES_MAX: Final = 64 * 1024 * 1024
#: So long the ends of the topic are asked for.
ENDS_MS_MAX: Final = 10_000
#: Of what a filter looks at in one turn of the loop: messages, and bytes of their bodies.
FILTERED_MAX: Final = 256
FILTERED_BYTES_MAX: Final = 256 * 1024


class Place(NamedTuple):
    """Where a consumer begins: at an offset, or with the first message of a time."""

    offset: int
    at_ms: int = 0
    is_last: bool = False


class _Message(NamedTuple):
    offset: int
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def read_place(arguments: Mapping[str, object], now_ms: int, method: m.BasicConsume) -> Place:
    """Return where a consumer wants to begin; without a word, behind all that there is.

    Raises:
        AmqpError: it is no place.
    """
    match arguments.get(OFFSET, NEXT):
        case "first":
            return Place(EARLIEST)
        case "last":
            return Place(LATEST, is_last=True)
        case "next":
            return Place(LATEST)
        case Timestamp() as time:
            return Place(EARLIEST, at_ms=1000 * time)
        case bool():
            pass
        case int() as offset if 0 <= offset < 2**63:
            return Place(offset)
        case str() as text if (age_ms := read_age_ms(text)) is not None:
            return Place(EARLIEST, at_ms=now_ms - age_ms)
        case _:
            pass
    what = (
        f"invalid arg '{OFFSET}': first, last, next, an offset, a timestamp, or an age such as 1h "
        "is expected"
    )
    raise failed(ReplyCode.PRECONDITION_FAILED, what, method)


def read_wanted(arguments: Mapping[str, object], method: m.BasicConsume) -> Selector | None:
    """Return the filter of a consumer; None: it wants all messages.

    Raises:
        AmqpError: it is none.
    """
    try:
        return check_filter(arguments)
    except BadArgument as error:
        raise failed(ReplyCode.PRECONDITION_FAILED, f"invalid arg: {error}", method) from None


class StreamConsumer:
    """See the module; as `Consumer`, for streams."""

    __slots__ = (
        "_at_ms",
        "_channel",
        "_feed",
        "_granted_bytes",
        "_is_going_on",
        "_owner",
        "_place",
        "_settling",
        "_start",
        "_topic",
        "_waiting",
        "_wanted",
        "_writer",
        "is_over",
        "is_settled_when_sent",
        "prefetch",
        "queue",
        "tag",
        "unacked",
    )

    #: A stream is everybody's, and has no order of consumers.
    is_exclusive: Final = False
    priority: Final = 0

    def __init__(
        self,
        owner: Owner,
        channel: ChannelPort,
        settling: Settling,
        queue: QueueState,
        method: m.BasicConsume,
        tag: str,
        *,
        prefetch: int,
    ) -> None:
        """Begin nowhere yet: see `attach`.

        Raises:
            AmqpError: it is not said where to begin, but something else, or the filter is none.
        """
        desk = channel.connection.desk
        self._owner = owner
        self._channel = channel
        self._settling = settling
        self._place: Final = read_place(method.arguments, desk.doors.clock.wall_ms(), method)
        self._wanted: Final = read_wanted(method.arguments, method)
        self._topic: Final = queue.options[STREAM_TOPIC]
        self.is_settled_when_sent: Final = method.no_ack
        self.prefetch = 0 if method.no_ack else prefetch
        self._writer = channel.connection.codec.deliver_writer(channel.number, tag)
        self._feed = desk.doors.reading.feed(TopicPartition(self._topic, 0), self)
        self._granted_bytes = 0
        #: What comes before is passed over.
        self._start = 0
        self._at_ms = self._place.at_ms
        self._waiting: deque[_Message] = deque()
        #: The filter has more to look at, in the next turn.
        self._is_going_on = False
        self.queue: Final = queue
        self.tag: Final = tag
        self.is_over = False
        #: Messages that the client has.
        self.unacked = 0

    # -- as `Consumer`

    def attach(self, on_done: Callable[[RequestRefused | None], None]) -> None:
        """Find out where to begin, and read from there on."""

        def on_ends(result: FetchResult | RequestRefused) -> None:
            if isinstance(result, FetchResult):
                self._begin(self._offset_of(result))
                on_done(None)
            else:
                on_done(result)

        self._ask_ends(on_ends)

    def go_on(self) -> None:
        """Send what the client may have, and let more come."""
        channel = self._channel
        if self.is_over or channel.is_over or (self._waiting and not self._may_deliver()):
            return
        frames: list[bytes] = []
        size = seen = seen_bytes = 0
        while self._waiting and self._credit > 0 and not channel.connection.is_slow:
            if seen >= FILTERED_MAX or seen_bytes >= FILTERED_BYTES_MAX:
                self._go_on_soon()
                break
            message = self._waiting.popleft()
            found = properties_of(message.headers, message.at_ms)
            if self._wanted is not None:
                seen += 1
                seen_bytes += len(message.value or b"")
                if not self._wanted.matches(_routed(message, found)):
                    continue
            frames.append(self._frame(message, found))
            size += len(message.value or b"")
        if frames:
            channel.connection.write(b"".join(frames))
            channel.connection.charge(CONSUMER_BYTE_RATE, size)
        if not self._waiting and self._granted_bytes <= 0:
            self._granted_bytes += AHEAD_BYTES_MAX
            self._feed.grant(AHEAD_BYTES_MAX)

    def _go_on_soon(self) -> None:
        """Look at the rest of what waits in another turn of the loop."""

        def go_on() -> None:
            self._is_going_on = False
            self.go_on()

        if not self._is_going_on:
            self._is_going_on = True
            self._channel.connection.shared.clock.call_soon(go_on)

    def _may_deliver(self) -> bool:
        """Tell whether the client may still read the queue; if not, it is told."""
        try:
            check_delivery(self._channel, self.queue.queue.name)
        except AmqpError as error:
            self._close()
            self._channel.fail(error)
            return False
        return True

    def on_settled(self, count: int = 1) -> None:
        """The client has said that it has had more messages."""
        self.unacked -= count

    def cancel(self, then: Callable[[], None]) -> None:
        """The client wants no more."""
        self._close()
        then()

    def end(self, *, is_failed: bool) -> None:
        """The channel ends: nobody else gets what the client has had."""
        self.unacked = 0
        self._close()

    def _close(self) -> None:
        self.is_over = True
        self._waiting.clear()
        self._feed.close()

    # -- where to begin

    def _ask_ends(self, on_done: Callable[[FetchResult | RequestRefused], None]) -> None:
        where = TopicPartition(self._topic, 0)
        fetch = self._channel.connection.desk.doors.reading.fetch
        fetch(where, LATEST, 0, ENDS_MS_MAX, on_done)

    def _offset_of(self, ends: FetchResult) -> int:
        first, end = ends.log_start_offset, ends.last_stable_offset
        place = self._place
        if place.is_last:
            return max(first, end - 1)
        if place.offset == EARLIEST:
            return first
        return end if place.offset == LATEST else min(max(first, place.offset), end)

    def _begin(self, offset: int) -> None:
        self._start = offset
        self._feed.seek(offset)

    # -- from the feed

    def on_batches(self, result: FetchResult) -> None:
        """See `FeedHandler`."""
        self._granted_bytes -= len(result.records)
        view = memoryview(result.records)
        committed = CommittedFilter(result.aborted)
        for header in scan_batches(view).batches:
            if committed.is_shown(header) and header.next_offset > self._start:
                columns = decode_columns(view, DECOMPRESSED_BYTES_MAX, at=header.at)
                for row in range(bisect_left(columns.offsets, self._start), len(columns.offsets)):
                    at_ms = columns.timestamps_ms[row]
                    if at_ms >= self._at_ms:
                        # Later ones count, whatever times their publishers gave them.
                        self._at_ms = 0
                        self._waiting.append(
                            _Message(
                                columns.offsets[row],
                                at_ms,
                                columns.key(row),
                                columns.value(row),
                                columns.headers(row),
                            )
                        )
            self._start = max(self._start, header.next_offset)
        self._channel.connection.shared.clock.call_soon(self.go_on)

    def on_refused(self, refusal: RequestRefused) -> None:
        """See `FeedHandler`."""
        if isinstance(refusal, OffsetOutOfRange):
            # What was to come next was removed by the topic's retention.
            self._ask_ends(self._on_ends_again)
        elif not self.is_over:
            self._close()
            self._owner.on_deleted(self.tag)

    def _on_ends_again(self, ends: FetchResult | RequestRefused) -> None:
        if self.is_over:
            return
        if isinstance(ends, FetchResult):
            self._begin(min(max(self._start, ends.log_start_offset), ends.last_stable_offset))
        else:
            self.on_refused(ends)

    # -- sending

    @property
    def _credit(self) -> int:
        left = self._owner.credit
        return min(left, self.prefetch - self.unacked) if self.prefetch else left

    def _frame(self, message: _Message, found: Properties) -> bytes:
        settling = self._settling
        if self.is_settled_when_sent:
            tag = settling.next_tag()
        else:
            self.unacked += 1
            tag = settling.add(Delivery(self.queue.topic_id, message.offset, 1, self, is_kept=True))
        key = (message.key or b"").decode("utf-8", "surrogateescape")
        fits = len(key.encode("utf-8", "surrogateescape")) <= SHORT_STRING_BYTES_MAX
        return self._writer.write(
            tag,
            "",
            key if key and fits else self.queue.queue.name,
            _written(found, message.offset),
            message.value or b"",
            redelivered=False,
        )


def _routed(message: _Message, found: Properties) -> RoutedMessage:
    """Return a message as filters see it: headers are texts, as topics keep them."""
    named = {name: getattr(found, name) for name in Properties.__struct_fields__}
    headers = named.pop("headers")
    return RoutedMessage(headers=headers, properties=named, body=message.value or b"")


def _written(found: Properties, offset: int) -> bytes:
    """Return a message's properties, with the header that says where it stands."""
    values = {name: getattr(found, name) for name in Properties.__struct_fields__}
    values["headers"] = {**(found.headers or {}), OFFSET: offset}
    try:
        return write_properties(Properties(**values))
    except (AmqpError, ValueError):
        # A header that AMQP cannot write down, of a client that speaks something else.
        return write_properties(Properties(headers={OFFSET: offset}))
