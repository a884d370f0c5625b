"""A cursor over a topic's partition: a queue whose messages stand in another log.

The table lives on the cursor's own log. Messages are read from the source, wherever that is led, a
little ahead of those who ask for them, and are brought to the engine as `Arrived`; only committed
records are. So a topic with a long past costs nothing until somebody reads it.

A consumer of NATS may want few of the topic's names. Records of others are passed over here, and
the engine never hears of them. How far that has come is committed now and then, while nothing
lives: so the next leader does not begin far behind, and streams know what nobody needs any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from kafkaesque.broker.metadata.cluster_state import PartitionState, QueueState
from kafkaesque.broker.metadata.queue_names import share_group_of
from kafkaesque.broker.options.groups import ShareSettings, share_settings
from kafkaesque.broker.options.nats import CONSUMER, filters_of
from kafkaesque.broker.options.queues import SOURCE_START, SOURCE_TOPIC, make_policy, topic_target
from kafkaesque.broker.partitions.partition_tables import PartitionTables
from kafkaesque.broker.queues.bodies import DECOMPRESSED_BYTES_MAX, Bodies, OnRead
from kafkaesque.broker.queues.host import HostParts, QueueHost
from kafkaesque.broker.replication.raft_replica import Replica
from kafkaesque.broker.requests.commands import EARLIEST, LATEST, FetchResult, WantedNames
from kafkaesque.env.clock import Timer
from kafkaesque.model.batch import BatchHeader, scan_batches
from kafkaesque.model.errors import (
    InvalidRequest,
    OffsetOutOfRange,
    RequestRefused,
    UnknownTopicId,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.model.records import decode_batch
from kafkaesque.queues import requests as r
from kafkaesque.queues.arrival import Arrival, Details, group_of
from kafkaesque.queues.policy import Policy, Undeliverable
from kafkaesque.queues.runs import Run
from kafkaesque.queues.table import QueueTable
from kafkaesque.routing.subject_filters import SubjectFilters, write_filters
from kafkaesque.transactions.committed_filter import CommittedFilter

#: So many messages are known ahead of those who ask.
AHEAD_MAX: Final = 2_000
#: What is read at a time to know of messages.
READ_BYTES: Final = 1024 * 1024
#: What is read at a time of messages that were given out. A read of another log costs more than one
#: of its own.
PIECE_BYTES: Final = 256 * 1024
#: A question waits for so long at the source's leader for something to come.
WAIT_MS: Final = 5_000
AGAIN_MS: Final = 100
TIMEOUT_MS: Final = 10_000
#: What is passed over is committed so often at most.
PASSED_MS: Final = 1_000
_NO_CONFIGS: Final[Mapping[str, str]] = {}


class CursorHost(QueueHost):
    """See the module."""

    def __init__(self, state: PartitionState, parts: HostParts) -> None:
        super().__init__(state, parts)
        #: Counts leaderships and seeks: answers to earlier questions are dropped.
        self._round = 0
        #: Where reading goes on: behind what is no message.
        self._position = 0
        #: Somebody has asked for messages since the last question.
        self._is_wanted = False
        self._is_asking = False
        self._again: Timer | None = None
        #: Where it begins, if it belongs to no share group.
        self._start = "latest"
        #: Of the share group that the cursor belongs to.
        self._settings: ShareSettings | None = None
        #: What tells which records are wanted; None: all are. And the filters that it is made of.
        self._wanted: SubjectFilters | None = None
        #: The same for the source's leader, which may leave out what is not wanted.
        self._names: WantedNames | None = None
        self._filters: tuple[str, ...] = ()
        #: When it was last committed what was passed over.
        self._passed_ms = 0
        #: Of what the table was told: so much it may not have decided about yet.
        self._arriving = self._seeking = 0

    def _make_table(self, number: int) -> QueueTable:
        found = self._found()
        is_shared = found is not None and share_group_of(found.queue) is not None
        # Share groups are not counted among the queues that clients have made.
        tally = None if is_shared else self._parts.tally
        self.queue = QueueTable(number, has_own_log=False, tally=tally)
        return self.queue

    def _make_bodies(self) -> Bodies:
        # A topic's records are its producers': what they say of other topics means nothing.
        return Bodies(self._locate, self._on_damaged)

    def _on_damaged(self, offset: int) -> bool:
        found, state = self._found(), self._parts.metadata.state
        source = None if found is None or found.source is None else found.source
        topic = None if source is None else state.topics_by_id.get(source)
        if topic is None:
            return False
        return self._parts.damages.note(topic.partitions[self.state.partition], offset)

    @property
    def admits_all(self) -> bool:
        raise InvalidRequest("messages of a cursor are put into its topic")

    @property
    def readable_end(self) -> int:
        self.partition()
        return self.queue.state.end

    def _read_policy(self) -> None:
        found = self._found()
        if found is None:
            return
        group = share_group_of(found.queue)
        state = self._parts.metadata.state
        options = found.options if group is None else state.group_configs.get(group, _NO_CONFIGS)
        if options is self._options:
            return
        self._options, self._configured = options, None
        self._settings = None if group is None else share_settings(options)
        self._start = options.get(SOURCE_START, "latest")
        self._want(filters_of(options.get(CONSUMER, "")), options.get(SOURCE_TOPIC, ""))
        self._policy = (
            make_policy(options) if self._settings is None else _policy_of(self._settings)
        )

    def _want(self, filters: tuple[str, ...], stream: str) -> None:
        """Want other subjects from here on, also of what was passed over since the last message."""
        if filters != self._filters:
            self._filters = filters
            self._wanted = SubjectFilters(filters, stream) if filters else None
            self._names = write_filters(filters, stream) if filters else None
            self._is_wanted = self._is_wanted or self._is_asking
            self.seek(0)
            # Nobody hears what was asked for before.
            self._parts.clock.call_soon(self._go_on)

    def _found(self) -> QueueState | None:
        return self._parts.metadata.state.queues_by_log.get(self.state.topic_id)

    def _source(self) -> TopicPartition:
        found = self._found()
        if found is None or found.source is None:
            raise UnknownTopicId("the topic of the cursor does not exist any more")
        topic = self._parts.metadata.state.topic_by_id(found.source)
        return TopicPartition(topic.name, self.state.partition)

    def _locate(self, offset: int, on_read: OnRead) -> None:
        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            on_read(outcome.records if isinstance(outcome, FetchResult) else outcome)

        self.note_begun()
        try:
            source = self._source()
        except RequestRefused as refusal:
            on_read(refusal)
        else:
            fetch = self._parts.forwarder.fetch
            fetch(source, offset, PIECE_BYTES, TIMEOUT_MS, on_fetched)

    def read_to(self) -> int | None:
        if self._settings is not None and not self._position and self.queue.state.seek_count:
            # A new leader has read nothing yet: whoever asks again hears how far it came.
            self._is_wanted = True
            self._go_on()
        return self._position if self._position > self.queue.state.end else None

    # -- reading ahead

    def read_on(self) -> None:
        """See `QueueHost`."""
        self._is_wanted = True
        self._go_on()

    def on_wanted(self) -> None:
        super().on_wanted()
        self.read_on()

    def _begin_to_lead(self, replica: Replica, partition: PartitionTables) -> None:
        super()._begin_to_lead(replica, partition)
        # What comes to the topic from now on is the queue's, though nobody asks yet. A share group
        # begins with its first member.
        self._read_policy()
        is_late = self._settings is None and self._start == "latest"
        if is_late and not self.queue.state.seek_count:
            self._is_wanted = True
            self._later()

    def on_following(self) -> None:
        super().on_following()
        self._round += 1
        self._is_asking = False
        # What was read ahead may not have come into the table.
        self._position = 0
        if self._again is not None:
            self._again.cancel()
            self._again = None

    def ask(
        self,
        request: r.Request,
        on_result: Callable[[r.Answer], None],
        *,
        is_patient: bool = False,
    ) -> None:
        """See `PartitionTableHost`. Where the cursor is set elsewhere, reading goes on there."""
        if not isinstance(request, r.Seek):
            super().ask(request, on_result, is_patient=is_patient)
            return

        def on_answer(answer: r.Answer) -> None:
            self._seeking -= 1
            on_result(answer)
            self._go_on()

        self._seeking += 1
        super().ask(request, on_answer)

    def _go_on(self) -> None:
        """Ask the source for more, if there is anybody for it and not enough is known."""
        is_busy = self._is_asking or self._seeking or self._again is not None
        if is_busy or not self.queue.is_leading:
            return
        if not self.queue.is_based or not self._is_configured():
            self._later()
            return
        state = self.queue.state
        is_wanted = self._is_wanted or self.queue.is_waited_for
        if not is_wanted or state.ready_count >= AHEAD_MAX:
            return
        self._is_asking = True
        self._is_wanted = False
        asked_in = self._round
        try:
            source = self._source()
        except RequestRefused:
            self._is_asking = False
            return
        if not state.seek_count:
            self._begin(source, asked_in)
            return
        self._position = max(self._position, state.end)

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            if asked_in == self._round:
                self._is_asking = False
                self._on_fetched(outcome)

        self._parts.forwarder.fetch(
            source,
            self._position,
            READ_BYTES,
            WAIT_MS + TIMEOUT_MS,
            on_fetched,
            wait_ms=WAIT_MS,
            names=self._names,
        )

    def _later(self) -> None:
        def go_on() -> None:
            self._again = None
            self._go_on()

        if self._again is None:
            self._again = self._parts.clock.call_later(AGAIN_MS, go_on)

    def _begin(self, source: TopicPartition, asked_in: int) -> None:
        """Find out where the cursor begins, and have that committed."""
        reset = self._start if self._settings is None else self._settings.reset

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            if asked_in != self._round:
                return
            if not isinstance(outcome, FetchResult):
                self._is_asking = False
                self._is_wanted = True
                self._later()
            elif reset == "latest":
                self._seek(outcome.last_stable_offset)
            elif isinstance(reset, int):
                self._seek_time(source, self._parts.clock.wall_ms() - reset, outcome)
            else:
                self._seek(outcome.log_start_offset)

        where = LATEST if reset == "latest" else EARLIEST
        self._parts.forwarder.fetch(source, where, 1, TIMEOUT_MS, on_fetched)

    def _seek_time(self, source: TopicPartition, time_ms: int, known: FetchResult) -> None:
        """Begin at the first record that is not older, as this broker's copy of the source says."""
        topic = self._parts.metadata.state.topics.get(source.topic)
        state = None if topic is None else topic.partitions[source.partition]
        partition = None if state is None else self._parts.partitions.get(state.group)
        if partition is None or partition.replica is None:
            self._is_asking = False
            self._is_wanted = True
            self._later()
            return
        asked_in = self._round

        def on_found(found: tuple[int, int] | Exception | None) -> None:
            if asked_in != self._round:
                return
            if isinstance(found, Exception):
                self._is_asking = False
                self._is_wanted = True
                self._later()
            else:
                self._seek(known.last_stable_offset if found is None else found[1])

        partition.log.offset_for_timestamp(time_ms, on_found)

    def _seek(self, offset: int) -> None:
        def on_answer(answer: r.Answer) -> None:
            self._is_asking = False
            if isinstance(answer, r.Refused):
                self._read_again()
                return
            self._is_wanted = True
            self._go_on()

        self._position = offset
        self.ask(r.Seek(token=self.new_token(), offset=offset), on_answer)

    def _read_again(self) -> None:
        """The table has not taken what was read: go on where it ends."""
        self._position = 0
        self._is_wanted = True
        self._later()

    def seek(self, offset: int) -> None:
        """Forget where the feed is: the cursor goes on elsewhere."""
        self._round += 1
        self._is_asking = False
        self._position = offset

    def _on_fetched(self, outcome: FetchResult | RequestRefused) -> None:
        asked_in = self._round
        self._read_policy()
        if asked_in != self._round:
            self._is_wanted = True  # and that other subjects, meanwhile
            self._go_on()
            return
        if isinstance(outcome, OffsetOutOfRange):
            self._skip_gone()
            return
        if isinstance(outcome, RequestRefused):
            self._is_wanted = True
            self._later()
            return
        floor = self.queue.state.floor
        if floor < outcome.log_start_offset and self.queue.state.live.first() is not None:
            drop = r.Drop(token=self.new_token(), before=outcome.log_start_offset)
            self.ask(drop, lambda _: None)
        has_groups = self.queue.state.policy.reads_groups
        arrival, next_offset = _arrival_of(
            outcome, self._position, self._wanted, has_groups=has_groups
        )
        has_passed = next_offset > self._position
        if outcome.records and not has_passed:
            # At once it would be the same.
            self._on_damaged(self._position)
            self._is_wanted = True
            self._later()
            return
        self._position = max(self._position, next_offset)
        if arrival is None:
            self._pass_over(has_passed=has_passed)
            return

        def on_answer(answer: r.Answer) -> None:
            self._arriving -= 1
            if isinstance(answer, r.Refused):
                self._read_again()
            else:
                self._go_on()

        self._arriving += 1
        self.ask(r.Arrived(token=self.new_token(), arrival=arrival), on_answer)

    def _pass_over(self, *, has_passed: bool) -> None:
        """Nothing of what was read is wanted: go on, up to the end."""
        state, clock = self.queue.state, self._parts.clock
        now_ms = clock.now_ms()
        is_ahead = self._wanted is not None and self._position > state.end
        # A cursor that is set elsewhere forgets what lives, and what is about to.
        is_idle = not self._arriving and state.live.first() is None
        if is_ahead and is_idle and now_ms >= self._passed_ms + PASSED_MS:
            self._passed_ms = now_ms
            self._is_asking = True
            self._seek(self._position)
            return
        self._is_wanted = self._is_wanted or (is_ahead and has_passed)
        # Not at once: a log that is cached would be read to its end in one turn.
        asked_in = self._round
        clock.call_soon(lambda: self._go_on() if asked_in == self._round else None)

    def _skip_gone(self) -> None:
        """The source has nothing any more where the cursor was to go on."""
        try:
            source = self._source()
        except RequestRefused:
            return  # the topic was deleted meanwhile
        self._is_asking = True
        asked_in = self._round

        def on_fetched(outcome: FetchResult | RequestRefused) -> None:
            if asked_in != self._round:
                return
            if isinstance(outcome, FetchResult):
                # A topic that has lost its tail ends before the cursor: what is not settled of what
                # it has is read again, as a cursor that goes elsewhere forgets all that lives.
                kept = min(self.queue.state.floor, outcome.last_stable_offset)
                self._seek(max(outcome.log_start_offset, kept))
            else:
                self._is_asking = False
                self._is_wanted = True
                self._later()

        self._parts.forwarder.fetch(source, EARLIEST, 1, TIMEOUT_MS, on_fetched)


def _policy_of(settings: ShareSettings) -> Policy:
    topic = settings.dead_letter_topic
    return Policy(
        dead_letters_to=topic_target(topic) if topic else "",
        lock_ms=settings.lock_ms,
        attempts_max=settings.delivery_limit,
        in_flight_max=settings.locks_max,
        undeliverable=Undeliverable.DROP,
    )


def _arrival_of(
    result: FetchResult,
    position: int,
    wanted: SubjectFilters | None = None,
    *,
    has_groups: bool,
) -> tuple[Arrival | None, int]:
    """Return the messages that a read has brought, and the offset after all that it has.

    Where groups matter to a queue over a topic, records of one key are a group.
    """
    committed = CommittedFilter(result.aborted)
    runs: list[Run] = []
    details: list[Details] = []
    wall_ms, size, count, next_offset = 0, 0, 0, position
    for batch in scan_batches(memoryview(result.records)).batches:
        is_shown = committed.is_shown(batch)
        next_offset = batch.next_offset
        if not is_shown or batch.next_offset <= position or not batch.record_count:
            continue
        if wanted is not None:
            _extend_by_names(runs, result.records, batch, position, wanted)
        elif batch.record_count <= batch.last_offset_delta:
            # Compaction has left holes, in which there is nothing to give out.
            _extend_by_records(runs, result.records, batch, position)
        else:
            _extend(runs, batch.base_offset, batch.next_offset, position)
        if has_groups:
            details += _groups_of(result.records, batch, position)
        wall_ms = max(wall_ms, batch.max_timestamp_ms)
        size, count = size + batch.size_bytes, count + batch.record_count
    if isinstance(result.next_offset, int):
        next_offset = max(next_offset, result.next_offset)
    if not runs:
        return None, next_offset
    mean = (size + count - 1) // max(1, count)
    arrival = Arrival(runs=tuple(runs), wall_ms=wall_ms, sizes=(mean,), details=tuple(details))
    return arrival, next_offset


def _groups_of(records: bytes, batch: BatchHeader, position: int) -> list[Details]:
    return [
        Details(record.offset, group=group_of(record.key))
        for record in decode_batch(records, DECOMPRESSED_BYTES_MAX, at=batch.at)
        if record.key and record.offset >= position
    ]


def _extend_by_records(runs: list[Run], records: bytes, batch: BatchHeader, position: int) -> None:
    for record in decode_batch(records, DECOMPRESSED_BYTES_MAX, at=batch.at):
        if record.offset >= position:
            _extend(runs, record.offset, record.offset + 1, position)


def _extend_by_names(
    runs: list[Run], records: bytes, batch: BatchHeader, position: int, wanted: SubjectFilters
) -> None:
    may_want = wanted.may_want
    for record in decode_batch(records, DECOMPRESSED_BYTES_MAX, at=batch.at):
        if may_want(record.key) and record.offset >= position:
            _extend(runs, record.offset, record.offset + 1, position)


def _extend(runs: list[Run], first: int, end: int, position: int) -> None:
    first = max(first, position)
    if runs and runs[-1].end == first:
        runs[-1] = Run(runs[-1].first, end)
    else:
        runs.append(Run(first, end))
