"""The last retained message of each name in the cluster: the compacted topic `__retained`.

Theory of operation. A record's key is the name's key, its value the body; what else the message
says are headers as in any topic (`routing/live_message.py`). A record without a value clears the
name. Messages are appended by the brokers that they are published to, each batch when the one
before it has its outcome, so that a publisher's messages of one name keep their order. The log
decides between brokers.

A broker that is asked for retained messages reads the topic up to its end, and answers from all
that it has read: so what was retained before the question is in the answer. A broker that has not
read for long may have missed what compaction has deleted since; it reads all anew.

A message that is to be retained is published to those who want it now before it is committed here.
Who subscribes in between would get it in neither way. So a question waits until what waits here is
settled, and so does the confirmation that other brokers' interest is known (`live/hub.py`).
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from kafkaesque.broker.controller.internal_topic import InternalTopic, KnownMetadata, TopicMaker
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.topic_names import RETAINED_TOPIC
from kafkaesque.broker.partitions.forwarder import Forwarder
from kafkaesque.broker.partitions.topic_reader import TopicReader
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    MessageTooLarge,
    OverBound,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.kernel_types import Headers
from kafkaesque.model.message_headers import PREFIX
from kafkaesque.model.records import Record
from kafkaesque.routing.live_message import LiveMessage, live_message, record_headers
from kafkaesque.routing.names import NameFilter, NameKey
from kafkaesque.routing.retained_names import RetainedNames

RETAINED_PARTITION: Final = TopicPartition(RETAINED_TOPIC, 0)
#: Names with a retained message in the cluster; a broker that knows of so many refuses new ones.
NAMES_MAX: Final = 10_000_000
#: A retained message with its name and headers.
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024
BATCH_BYTES_MAX: Final = 1024 * 1024
BATCH_MAX: Final = 512
#: Messages that wait to be appended, and their bytes.
WAITING_MAX: Final = 100_000
WAITING_BYTES_MAX: Final = 64 * 1024 * 1024
APPEND_MS_MAX: Final = 30_000
#: So long others wait for what waits to be appended: subscribers do without a topic's leader.
SETTLE_MS_MAX: Final = 1_500
#: Of one page of an answer.
PAGE_MAX: Final = 256
#: So long it is certain that what was deleted can still be read to be so.
CLEARED_KEPT_MS: Final = 7 * 86_400_000
#: A state that is older is read anew.
STALE_MS: Final = 86_400_000
#: Headers of ours: quality of service, and whether the body is a text.
QOS: Final = PREFIX + "qos"
TEXT: Final = PREFIX + "text"

#: None: it is committed; or why it may not be.
OnRetained = Callable[[RequestRefused | None], None]


class RetainedPage(NamedTuple):
    """Some of the retained messages that a filter matches."""

    messages: list[LiveMessage]
    #: What to ask with for the next page, which may be empty; None: that was all.
    after: NameKey | None


#: Gets a page, or why there is none; called once.
OnFound = Callable[[RetainedPage | RequestRefused], None]


class _Item(NamedTuple):
    record: Record
    size: int
    on_done: OnRetained


class _Waiter(NamedTuple):
    """Somebody who waits until messages are settled."""

    #: The last one of them, counted since the start.
    number: int
    timer: Timer
    on_settled: Callable[[], None]


class RetainedLog:
    """See the module."""

    __slots__ = (
        "_accepted",
        "_bytes",
        "_clock",
        "_is_appending",
        "_log",
        "_names",
        "_read_ms",
        "_reader",
        "_settled",
        "_topic",
        "_waiters",
        "_waiting",
    )

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: KnownMetadata,
        controller: TopicMaker,
        log: Forwarder,
        options: LiveOptions,
    ) -> None:
        self._clock: Final = clock
        self._log: Final = log
        self._names: RetainedNames[LiveMessage] = RetainedNames()
        self._topic: Final = InternalTopic(
            RETAINED_TOPIC,
            {
                "max.message.bytes": str(MESSAGE_BYTES_MAX + BATCH_BYTES_MAX),
                "delete.retention.ms": str(CLEARED_KEPT_MS),
            },
            clock=clock,
            metadata=metadata,
            controller=controller,
            options=options,
        )
        self._reader: Final = TopicReader(
            RETAINED_TOPIC,
            clock=clock,
            metadata=metadata,
            log=log,
            message_bytes_max=MESSAGE_BYTES_MAX + BATCH_BYTES_MAX,
            clear=self._clear,
            apply=self._apply,
        )
        #: When the topic was last read to its end.
        self._read_ms = clock.now_ms()
        self._waiting: Final[deque[_Item]] = deque()
        self._bytes = 0
        self._is_appending = False
        #: Messages that were taken and that have their outcome, since the start.
        self._accepted = 0
        self._settled = 0
        #: By number; outcomes come in the order of the messages.
        self._waiters: Final[deque[_Waiter]] = deque()

    def __len__(self) -> int:
        """How many names have a retained message, as far as this broker has read."""
        return len(self._names)

    # -- what is retained

    def retain(self, message: LiveMessage, on_done: OnRetained) -> None:
        """See `Live.retain`."""
        size = message.size
        if size > MESSAGE_BYTES_MAX:
            on_done(MessageTooLarge(f"a retained message has at most {MESSAGE_BYTES_MAX} bytes"))
        elif len(self._waiting) >= WAITING_MAX or self._bytes + size > WAITING_BYTES_MAX:
            on_done(OverBound("too many retained messages wait to be written on this broker"))
        elif message.body and len(self._names) >= NAMES_MAX and not self._names.has(message.key):
            on_done(OverBound(f"{NAMES_MAX} names have a retained message already"))
        else:
            self._waiting.append(_Item(self._record(message), size, on_done))
            self._bytes += size
            self._accepted += 1
            if not self._is_appending:
                self._is_appending = True
                # More of the same turn may follow.
                self._clock.call_soon(self._append)

    def _record(self, message: LiveMessage) -> Record:
        key = message.key.encode("utf-8", "surrogateescape")
        if not message.body:
            return Record(0, self._clock.wall_ms(), key, None)
        own: list[tuple[str, bytes]] = []
        if message.qos:
            own.append((QOS, b"%d" % message.qos))
        if message.is_text:
            own.append((TEXT, b"1"))
        headers = (*record_headers(message), *own)
        return Record(0, self._clock.wall_ms(), key, message.body, headers)

    def _append(self) -> None:
        if not self._topic.is_there:
            self._topic.make(self._on_made)
            return
        sent: list[_Item] = []
        size = 0
        while self._waiting and len(sent) < BATCH_MAX:
            size += self._waiting[0].size
            if sent and size > BATCH_BYTES_MAX:
                break
            sent.append(self._waiting.popleft())
        records = [each.record._replace(offset=number) for number, each in enumerate(sent)]
        self._log.produce(
            RETAINED_PARTITION,
            bytes(encode_batch(records)),
            acks=-1,
            timeout_ms=APPEND_MS_MAX,
            on_done=lambda outcome: self._on_appended(sent, outcome),
            is_wanted=lambda: True,
        )

    def _on_made(self, is_there: bool) -> None:
        if is_there:
            self._append()
            return
        failed = list(self._waiting)
        self._waiting.clear()
        self._settle(failed, RequestTimedOut(f"{RETAINED_TOPIC} could not be made"))

    def _on_appended(self, sent: list[_Item], outcome: ProduceResult | RequestRefused) -> None:
        self._settle(sent, outcome if isinstance(outcome, RequestRefused) else None)

    def _settle(self, items: list[_Item], refusal: RequestRefused | None) -> None:
        self._is_appending = bool(self._waiting)
        if self._waiting:
            self._clock.call_soon(self._append)
        for each in items:
            self._bytes -= each.size
            each.on_done(refusal)
        self._settled += len(items)
        while self._waiters and self._waiters[0].number <= self._settled:
            self._end_first()

    def when_settled(self, on_settled: Callable[[], None]) -> None:
        """Call when all messages that wait here now are committed or refused, maybe at once.

        After `SETTLE_MS_MAX` it is called all the same.
        """
        if self._settled == self._accepted:
            on_settled()
            return
        # All waiters wait for the same time: the one whose time is over is the first one.
        timer = self._clock.call_later(SETTLE_MS_MAX, self._end_first)
        self._waiters.append(_Waiter(self._accepted, timer, on_settled))

    def _end_first(self) -> None:
        waiter = self._waiters.popleft()
        waiter.timer.cancel()
        waiter.on_settled()

    # -- what is found

    def retained(self, name_filter: NameFilter, after: NameKey | None, on_found: OnFound) -> None:
        """See `Live.retained`."""
        if after is not None:
            on_found(self._page(name_filter, after))
            return
        now_ms = self._clock.now_ms()
        if now_ms - self._read_ms > STALE_MS:
            self._reader.forget()

        def on_read(is_current: bool) -> None:
            if is_current:
                self._read_ms = self._clock.now_ms()
                on_found(self._page(name_filter, None))
            else:
                trouble = self._reader.trouble
                on_found(LeaderNotAvailable(f"{RETAINED_TOPIC} cannot be read: {trouble}"))

        self.when_settled(lambda: self._reader.catch_up(on_read))

    def _page(self, name_filter: NameFilter, after: NameKey | None) -> RetainedPage:
        page = self._names.page(name_filter, after, PAGE_MAX)
        now_ms = self._clock.wall_ms()
        living = [each for _, each in page.found if not each.expires_ms or each.expires_ms > now_ms]
        return RetainedPage(living, page.after)

    def _clear(self) -> None:
        self._names = RetainedNames()

    def _apply(self, record: Record) -> None:
        if record.key is None:
            return
        key = NameKey(record.key.decode("utf-8", "surrogateescape"))
        if record.value is None:
            self._names.discard(key)
        else:
            self._names.set(key, _read(key, record.value, record.headers))


def _read(key: NameKey, body: bytes, headers: Headers) -> LiveMessage:
    qos, is_text = 0, False
    shown: list[tuple[str, bytes | None]] = []
    for each in headers:
        name, value = each
        if name == QOS:
            qos = int(value) if value in (b"1", b"2") else 0
        elif name == TEXT:
            is_text = True
        else:
            shown.append(each)
    return live_message(key, body, tuple(shown), qos=qos, is_text=is_text, is_retained=True)
