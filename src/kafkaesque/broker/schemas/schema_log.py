"""The registry's state on this broker, and how it is changed: by appends to `__schemas`.

Theory of operation. The topic has one partition. A broker reads it when somebody asks it for a
schema, up to the end that the leader names, so what was committed before a question is in the
answer. Nobody reads it in vain: a broker that is asked nothing reads nothing.

To change something, a broker reads to the end, decides on the state as it is there, and has the
leader append its entries at that very end. If another broker was faster, the leader refuses
(`LogEndMoved`): nothing was appended, and it reads on and decides anew. So ids and versions are
given once, in one order, and no broker is asked more than the others.

The first change makes the topic.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from kafkaesque.broker.controller.internal_topic import KnownMetadata, TopicMaker
from kafkaesque.broker.metadata.internal_topics import sealing_of_internal_topics
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.topic_names import SCHEMAS_TOPIC
from kafkaesque.broker.options.encryption import INTERNAL_ENCRYPTION
from kafkaesque.broker.requests.commands import EARLIEST, CreateTopic, FetchResult, ProduceResult
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch import scan_batches
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    LogEndMoved,
    OffsetOutOfRange,
    OverBound,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.record_errors import RecordError
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.registry.records import Entry, read_entry, write_entry
from kafkaesque.registry.state import RegistryState

SCHEMAS_PARTITION: Final = TopicPartition(SCHEMAS_TOPIC, 0)
REPLICATION_FACTOR: Final = 3
#: Of one question to the leader; the rest comes in later turns.
READ_BYTES_MAX: Final = 256 * 1024
READ_MS_MAX: Final = 5_000
APPEND_MS_MAX: Final = 10_000
CREATE_MS_MAX: Final = 10_000
#: A topic that was just made is looked for again after this, so often.
SEEN_AGAIN_MS: Final = 50
SEEN_AGAIN_MAX: Final = 100
#: Of a batch of entries; one entry may be longer.
BATCH_BYTES_MAX: Final = 1024 * 1024
MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
#: Changes that wait for those before them.
WAITING_MAX: Final = 256
#: Others may be faster so often, one after the other.
ATTEMPTS_MAX: Final = 50

ResultT = TypeVar("ResultT")
OnRead = Callable[[bool], None]


class Log(Protocol):
    """What is needed of `Forwarder`."""

    def fetch(
        self,
        where: TopicPartition,
        offset: int,
        bytes_max: int,
        timeout_ms: int,
        on_done: Callable[[FetchResult | RequestRefused], None],
    ) -> None:
        """Read at the leader."""

    def append_at(
        self,
        where: TopicPartition,
        end_offset: int,
        records: bytes,
        timeout_ms: int,
        on_done: Callable[[ProduceResult | RequestRefused], None],
    ) -> None:
        """Append at the leader if its log ends there."""


class Change(Generic[ResultT]):
    """What somebody wants to be changed."""

    __slots__ = ("attempts", "has_begun", "on_done", "plan", "result")

    def __init__(
        self,
        plan: Callable[[RegistryState], tuple[ResultT, Sequence[Entry]]],
        on_done: Callable[[ResultT | RequestRefused], None],
    ) -> None:
        self.plan: Final = plan
        self.on_done: Final = on_done
        self.attempts = 0
        #: Whether some of its entries are appended, and others are not.
        self.has_begun = False
        #: Of the plan that was made first, or before the first of its entries was appended.
        self.result: ResultT | None = None


class SchemaLog:
    """See the module."""

    __slots__ = (
        "_changes",
        "_clock",
        "_controller",
        "_end_offset",
        "_is_reading",
        "_log",
        "_metadata",
        "_options",
        "_position",
        "_read_next",
        "_read_now",
        "_topic_id",
        "_trouble",
        "conflicts",
        "state",
    )

    def __init__(
        self,
        clock: Clock,
        metadata: KnownMetadata,
        controller: TopicMaker,
        log: Log,
        options: LiveOptions,
    ) -> None:
        self._clock: Final = clock
        self._metadata: Final = metadata
        self._controller: Final = controller
        self._log: Final = log
        self._options: Final = options
        self.state = RegistryState()
        #: Of which topic the state is; made again it is another.
        self._topic_id: bytes | None = None
        self._position = EARLIEST
        #: Where the log ended when it was read last; -1: that is not known.
        self._end_offset = -1
        self._is_reading = False
        #: Why the last round of reading failed; empty: it did not.
        self._trouble = ""
        #: Who waits for the round of reading that goes on, and for one that begins after it.
        self._read_now: list[OnRead] = []
        self._read_next: list[OnRead] = []
        #: The first of them is under way.
        self._changes: Final[deque[Change[object]]] = deque()
        #: Since the start: changes that were decided anew because another broker was faster.
        self.conflicts = 0

    def ids_of(self, subject: str) -> frozenset[int]:
        """Return the ids of a subject's schemas, as far as they are known here."""
        return self.state.ids_of(subject)

    # -- reading

    def catch_up(self, on_read: OnRead) -> None:
        """Call with True once the state has all that was committed before this call.

        False says that the leader could not be asked: the state is as old as it is.
        """
        topic = self._metadata.state.topics.get(SCHEMAS_TOPIC)
        if topic is None:
            self._forget(None)
            on_read(True)
            return
        if topic.topic_id != self._topic_id:
            self._forget(topic.topic_id)
        self._read_next.append(on_read)
        if not self._is_reading:
            self._begin_round()

    def _forget(self, topic_id: bytes | None) -> None:
        if topic_id != self._topic_id or topic_id is None:
            self.state = RegistryState()
            self._topic_id = topic_id
            self._position = EARLIEST
            self._end_offset = -1

    def _begin_round(self) -> None:
        self._is_reading = True
        self._read_now, self._read_next = self._read_next, []
        self._read()

    def _read(self) -> None:
        topic_id = self._topic_id

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            if topic_id != self._topic_id:
                self._clock.call_soon(self._read)
            elif isinstance(outcome, FetchResult):
                self._take(outcome)
            elif isinstance(outcome, OffsetOutOfRange) and self._position != EARLIEST:
                self._topic_id = None
                self._forget(topic_id)
                self._clock.call_soon(self._read)
            else:
                self._end_round(str(outcome))

        self._log.fetch(SCHEMAS_PARTITION, self._position, READ_BYTES_MAX, READ_MS_MAX, on_fetched)

    def _take(self, result: FetchResult) -> None:
        view = memoryview(result.records)
        headers = scan_batches(view).batches
        for header in headers:
            try:
                records = decode_batch(view, MESSAGE_BYTES_MAX, at=header.at)
            except RecordError as error:
                self._end_round(f"what stands there is damaged: {error}")
                return
            for record in records:
                if record.offset >= self._position and record.key is not None:
                    entry = read_entry(record.key, record.value)
                    if entry is not None:
                        self.state.apply(entry)
            self._position = header.next_offset
        if headers and self._position < result.last_stable_offset:
            self._clock.call_soon(self._read)
            return
        # Compaction may have removed what stood at the end.
        self._position = self._end_offset = result.last_stable_offset
        self._end_round()

    def _end_round(self, trouble: str = "") -> None:
        self._trouble = trouble
        waiting, self._read_now = self._read_now, []
        self._is_reading = False
        if self._read_next:
            self._begin_round()
        for each in waiting:
            each(not trouble)

    # -- changing

    def change(
        self,
        plan: Callable[[RegistryState], tuple[ResultT, Sequence[Entry]]],
        on_done: Callable[[ResultT | RequestRefused], None],
    ) -> None:
        """Do what a plan decides on the newest state; it may be asked more than once.

        `on_done` gets the plan's result once its entries are committed and in the state. A refusal
        says that nothing was changed, `RequestTimedOut` that nobody knows.
        """
        if len(self._changes) >= WAITING_MAX:
            on_done(OverBound(f"{WAITING_MAX} changes of schemas wait already"))
            return
        # The plan and who waits for it belong together: the type of its result is theirs alone.
        self._changes.append(Change(plan, on_done))  # type: ignore[arg-type]
        if len(self._changes) == 1:
            # Whoever asks for one change after the other comes back to the loop in between.
            self._clock.call_soon(self._attempt)

    def _attempt(self) -> None:
        change = self._changes[0]
        change.attempts += 1
        if change.attempts > ATTEMPTS_MAX:
            self._finish(OverBound("other brokers change schemas all the time"))
            return
        self.catch_up(self._on_current)

    def _on_current(self, is_current: bool) -> None:
        change = self._changes[0]
        if not is_current:
            self._finish(LeaderNotAvailable(f"{SCHEMAS_PARTITION} cannot be read: {self._trouble}"))
            return
        try:
            result, entries = change.plan(self.state)
        except RequestRefused as refusal:
            self._finish(refusal)
            return
        if not change.has_begun:
            change.result = result
        if not entries:
            self._finish(change.result)
        elif SCHEMAS_TOPIC not in self._metadata.state.topics:
            self._create_topic()
        else:
            self._append(entries)

    def _append(self, entries: Sequence[Entry]) -> None:
        now_ms = self._clock.wall_ms()
        records: list[Record] = []
        size = 0
        for entry in entries:
            key, value = write_entry(entry)
            size += len(key) + len(value or b"")
            if records and size > BATCH_BYTES_MAX:
                # The rest comes when the plan is made again.
                break
            records.append(Record(len(records), now_ms, key, value))
        is_all = len(records) == len(entries)

        def on_appended(outcome: ProduceResult | RequestRefused) -> None:
            change = self._changes[0]
            if isinstance(outcome, LogEndMoved):
                self.conflicts += 1
                self._clock.call_later(min(change.attempts, 20), self._attempt)
            elif isinstance(outcome, RequestRefused):
                self._finish(outcome)
            elif is_all:
                # Whoever asks next sees it, here too.
                result = change.result
                self.catch_up(lambda _: self._finish(result))
            else:
                change.has_begun = True
                self._clock.call_soon(self._attempt)

        self._log.append_at(
            SCHEMAS_PARTITION,
            self._end_offset,
            bytes(encode_batch(records)),
            APPEND_MS_MAX,
            on_appended,
        )

    def _finish(self, outcome: object) -> None:
        change = self._changes.popleft()
        if self._changes:
            self._clock.call_soon(self._attempt)
        change.on_done(outcome)

    # -- the topic

    def _create_topic(self) -> None:
        expected = self._controller.expected_brokers(self._metadata.state)
        command = CreateTopic(
            name=SCHEMAS_TOPIC,
            partition_count=1,
            replication_factor=min(REPLICATION_FACTOR, expected),
            configs={
                "cleanup.policy": "compact",
                "max.message.bytes": str(MESSAGE_BYTES_MAX),
                **sealing_of_internal_topics(
                    self._options.get(INTERNAL_ENCRYPTION), self._metadata.state
                ),
            },
        )
        self._controller.submit(command, CREATE_MS_MAX, lambda _: self._look_for_topic(0))

    def _look_for_topic(self, times: int) -> None:
        """Go on when the topic is seen in the metadata, whoever has made it."""
        if SCHEMAS_TOPIC in self._metadata.state.topics:
            self._attempt()
        elif times >= SEEN_AGAIN_MAX:
            self._finish(RequestTimedOut(f"{SCHEMAS_TOPIC} could not be made"))
        else:
            self._clock.call_later(SEEN_AGAIN_MS, lambda: self._look_for_topic(times + 1))
