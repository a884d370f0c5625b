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

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from kafkaesque.broker.controller.internal_topic import InternalTopic, KnownMetadata, TopicMaker
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.topic_names import SCHEMAS_TOPIC
from kafkaesque.broker.partitions.topic_reader import FetchLog, OnRead, TopicReader
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    LogEndMoved,
    OverBound,
    RequestRefused,
    RequestTimedOut,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import Record
from kafkaesque.registry.records import Entry, read_entry, write_entry
from kafkaesque.registry.state import RegistryState

SCHEMAS_PARTITION: Final = TopicPartition(SCHEMAS_TOPIC, 0)
APPEND_MS_MAX: Final = 10_000
#: Of a batch of entries; one entry may be longer.
BATCH_BYTES_MAX: Final = 1024 * 1024
MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
#: Changes that wait for those before them.
WAITING_MAX: Final = 256
#: Others may be faster so often, one after the other.
ATTEMPTS_MAX: Final = 50

ResultT = TypeVar("ResultT")


class Log(FetchLog, Protocol):
    """What is needed of `Forwarder`."""

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
        "_log",
        "_reader",
        "_topic",
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
        self._log: Final = log
        self._topic: Final = InternalTopic(
            SCHEMAS_TOPIC,
            {"max.message.bytes": str(MESSAGE_BYTES_MAX)},
            clock=clock,
            metadata=metadata,
            controller=controller,
            options=options,
        )
        self.state = RegistryState()
        self._reader: Final = TopicReader(
            SCHEMAS_TOPIC,
            clock=clock,
            metadata=metadata,
            log=log,
            message_bytes_max=MESSAGE_BYTES_MAX,
            clear=self._clear,
            apply=self._apply,
        )
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
        self._reader.catch_up(on_read)

    def _clear(self) -> None:
        self.state = RegistryState()

    def _apply(self, record: Record) -> None:
        if record.key is not None:
            entry = read_entry(record.key, record.value)
            if entry is not None:
                self.state.apply(entry)

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
            self._finish(
                LeaderNotAvailable(f"{SCHEMAS_PARTITION} cannot be read: {self._reader.trouble}")
            )
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
        elif not self._topic.is_there:
            self._topic.make(self._on_made)
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
            self._reader.end_offset,
            bytes(encode_batch(records)),
            APPEND_MS_MAX,
            on_appended,
        )

    def _finish(self, outcome: object) -> None:
        change = self._changes.popleft()
        if self._changes:
            self._clock.call_soon(self._attempt)
        change.on_done(outcome)

    def _on_made(self, is_there: bool) -> None:
        if is_there:
            self._attempt()
        else:
            self._finish(RequestTimedOut(f"{SCHEMAS_TOPIC} could not be made"))
