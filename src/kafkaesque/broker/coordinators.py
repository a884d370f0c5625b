"""The group coordinators on this broker: one for each partition of `__consumer_offsets` it leads.

Theory of operation. A coordinator is the core `kafkaesque.groups.table.GroupTable` and this driver
around it. When the partition's leadership comes here, the driver waits until the leader's own term
is committed, reads the partition from its start and restores the table from it; until then requests
are told that it is loading. The table's writes are proposed to the partition and reported back when
they are committed. When leadership is lost, the table is unloaded and whoever waits is told to look
for the coordinator again.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkaesque.broker.cluster_state import OFFSETS_TOPIC
from kafkaesque.broker.commands import CreateTopic
from kafkaesque.broker.log_reader import LogReader
from kafkaesque.broker.partition import Partition
from kafkaesque.env.clock import Timer
from kafkaesque.groups.config import GroupConfig
from kafkaesque.groups.errors import GroupError, WriteFailure
from kafkaesque.groups.events import (
    DeletedTopic,
    Event,
    Instant,
    ListGroups,
    RequestToken,
    TopicsDeleted,
)
from kafkaesque.groups.partition import coordinator_partition
from kafkaesque.groups.results import Append, ListedGroup, ListResult, Respond, Result
from kafkaesque.groups.table import GroupTable
from kafkaesque.model.batch_encoder import encode_batch
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    MessageTooLarge,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    RequestRefused,
    StorageFailed,
)
from kafkaesque.model.ids import GroupId, TopicPartition
from kafkaesque.model.records import Record

if TYPE_CHECKING:
    from kafkaesque.broker.broker import Broker

#: A write waits for its commit as long as the partition is led here; its asker does not.
WRITE_TIMEOUT_MS = 24 * 60 * 60 * 1000
CREATE_TIMEOUT_MS = 5_000
RELOAD_MS = 500
#: Topics deleted while a table is loaded; offsets of any more wait for their retention to end.
MISSED_EVENTS_MAX = 10_000

OnResult = Callable[[Result | GroupError], None]


class Coordinator:
    """The table of one partition, and what connects it to the log."""

    def __init__(self, owner: "Coordinators", partition: Partition, config: GroupConfig) -> None:
        self._owner = owner
        self._partition = partition
        self._clock = owner.broker.env.clock
        self._config = config
        self._table = GroupTable(config)
        self._waiting: dict[RequestToken, OnResult] = {}
        self._reader: LogReader | None = None
        self._timer: Timer | None = None
        self._timer_ms: int | None = None
        self._watch: int | None = None
        #: What happened while the table was being loaded.
        self._missed: list[TopicsDeleted] = []
        self.is_loaded = False
        self._is_closed = False

    # -- loading

    def load(self) -> None:
        """Restore the table from the log, once this leader's term is committed."""
        if self._is_closed:
            return
        replica = self._partition.replica
        if replica is None or not replica.term_committed:
            # Not within the group's turn: loading asks the log for its ends.
            self._watch = self._partition.watch(lambda: self._clock.call_soon(self.load))
            return
        self._table = GroupTable(self._config)
        self._reader = LogReader(
            partition=self._partition,
            disk=self._owner.broker.env.disk,
            end=self._partition.high_watermark,
            on_records=self._on_records,
            on_done=self._on_loaded,
        )
        self._reader.start()

    def _on_records(self, records: list[Record]) -> None:
        self._table.restore((record.key, record.value) for record in records)

    def _on_loaded(self, error: Exception | None) -> None:
        where = self._partition.state.topic_partition
        if error is not None:
            self._owner.broker.report(f"loading groups from {where} failed, trying again: {error}")
            self._clock.call_later(RELOAD_MS, self.load)
            return
        if self._table.records_skipped:
            self._owner.broker.report(
                f"{self._table.records_skipped} records of {where} could not be read"
            )
        self._table.activate(self._instant())
        self.is_loaded = True
        missed, self._missed = self._missed, []
        for event in missed:
            self._table.step(event, self._instant())
        self._after_event()

    # -- events

    def _instant(self) -> Instant:
        return Instant(self._clock.now_ms(), self._clock.wall_ms())

    def step(self, event: Event, on_result: OnResult | None) -> None:
        """Take an event; `on_result` gets the answer of a request, exactly once."""
        if not isinstance(event, TopicsDeleted) and on_result is not None:
            self._waiting[event.token] = on_result
        self._table.step(event, self._instant())
        self._after_event()

    def on_topic_deleted(self, event: TopicsDeleted) -> None:
        """Forget what was committed for a topic, at once or when the table is loaded."""
        if self.is_loaded:
            self.step(event, None)
        elif len(self._missed) < MISSED_EVENTS_MAX:
            self._missed.append(event)

    def _after_event(self) -> None:
        while work := self._table.take_ready():
            for item in work:
                if isinstance(item, Respond):
                    waiting = self._waiting.pop(item.token, None)
                    if waiting is not None:
                        waiting(item.result)
                else:
                    self._append(item)
        self._set_timer()

    def _append(self, append: Append) -> None:
        timestamp_ms = self._clock.wall_ms()
        batch = encode_batch(
            [
                Record(number, timestamp_ms, record.key, record.value, ())
                for number, record in enumerate(append.records)
            ]
        )

        def on_done(outcome: object) -> None:
            if self._is_closed:
                return
            written = not isinstance(outcome, RequestRefused)
            if written or isinstance(outcome, NotEnoughReplicasAfterAppend):
                self._table.on_appended(append.token, self._instant())
                self._after_event()
            # Else leadership is lost, or the disk: `close` follows and tells everybody.

        try:
            self._partition.produce(batch, acks=-1, timeout_ms=WRITE_TIMEOUT_MS, on_done=on_done)
        except RequestRefused as refusal:
            # Not within the call: the table is in the middle of handing out its work.
            failure = _failure_of(refusal)
            self._clock.call_soon(lambda: self._on_refused(append, failure))

    def _on_refused(self, append: Append, failure: WriteFailure) -> None:
        if not self._is_closed:
            self._table.on_append_failed(append.token, failure, self._instant())
            self._after_event()

    def _set_timer(self) -> None:
        due_ms = self._table.next_deadline_ms()
        if due_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = due_ms
        if due_ms is not None:
            delay_ms = max(0, due_ms - self._clock.now_ms())
            self._timer = self._clock.call_later(delay_ms, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ms = None
        if not self._is_closed:
            self._table.tick(self._instant())
            self._after_event()

    def close(self) -> None:
        """Leadership is gone: whoever waits has to look for the coordinator again."""
        self._is_closed = True
        self.is_loaded = False
        if self._reader is not None:
            self._reader.cancel()
        if self._timer is not None:
            self._timer.cancel()
        if self._watch is not None:
            self._partition.unwatch(self._watch)
        self._table.unload()
        self._respond_all()
        waiting, self._waiting = self._waiting, {}
        for on_result in waiting.values():
            on_result(GroupError.NOT_COORDINATOR)

    def _respond_all(self) -> None:
        for item in self._table.take_ready():
            waiting = self._waiting.pop(item.token, None) if isinstance(item, Respond) else None
            if waiting is not None and isinstance(item, Respond):
                waiting(item.result)


def _failure_of(refusal: RequestRefused) -> WriteFailure:
    match refusal:
        case NotEnoughReplicas():
            return WriteFailure.NOT_ENOUGH_REPLICAS
        case MessageTooLarge():
            return WriteFailure.TOO_LARGE
        case StorageFailed():
            return WriteFailure.STORAGE_FAILED
        case _:
            return WriteFailure.NOT_LEADER


class Coordinators:
    """All coordinators of a broker."""

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self._by_group: dict[GroupId, Coordinator] = {}
        self._last_token = 0
        self._creating = False

    def next_token(self) -> RequestToken:
        """Return a name for the next request."""
        self._last_token += 1
        return RequestToken(self._last_token)

    # -- where groups are

    def find(self, group_id: str) -> TopicPartition:
        """Return the partition whose leader coordinates a group.

        Raises:
            LeaderNotAvailable: the topic does not exist yet; it is being created.
        """
        topic = self.broker.state.topics.get(OFFSETS_TOPIC)
        if topic is None:
            self._create_topic()
            raise LeaderNotAvailable(f"{OFFSETS_TOPIC} is being created")
        return TopicPartition(OFFSETS_TOPIC, coordinator_partition(group_id, len(topic.partitions)))

    def _create_topic(self) -> None:
        if self._creating:
            return
        self._creating = True
        broker = self.broker
        expected = max(len(broker.state.brokers), len(broker.config.controllers))
        factor = min(int(broker.option("offsets.topic.replication.factor")), expected)
        command = CreateTopic(
            name=OFFSETS_TOPIC,
            partition_count=int(broker.option("offsets.topic.num.partitions")),
            replication_factor=factor,
            configs={"cleanup.policy": "compact", "segment.bytes": str(100 * 1024 * 1024)},
        )

        def on_done(_: object) -> None:
            self._creating = False

        broker.submit(command, CREATE_TIMEOUT_MS, on_done)

    # -- requests

    def step(self, group_id: str, event: Event, on_result: OnResult) -> None:
        """Bring a request to the group's coordinator on this broker.

        `on_result` gets the table's answer, or a `GroupError` where there is no table to ask:
        NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE or COORDINATOR_LOAD_IN_PROGRESS.
        """
        try:
            where = self.find(group_id)
        except LeaderNotAvailable:
            on_result(GroupError.COORDINATOR_NOT_AVAILABLE)
            return
        coordinator = self._by_group.get(self.broker.state.partition(where).group)
        if coordinator is None:
            on_result(GroupError.NOT_COORDINATOR)
        elif not coordinator.is_loaded:
            on_result(GroupError.COORDINATOR_LOAD_IN_PROGRESS)
        else:
            coordinator.step(event, on_result)

    def list_groups(
        self, states: tuple[str, ...], types: tuple[str, ...], on_done: Callable[[ListResult], None]
    ) -> None:
        """List the groups that this broker coordinates."""
        loading = [c for c in self._by_group.values() if not c.is_loaded]
        if loading:
            on_done(ListResult(error=GroupError.COORDINATOR_LOAD_IN_PROGRESS))
            return
        found: list[ListedGroup] = []
        left = len(self._by_group)
        if left == 0:
            on_done(ListResult(error=GroupError.NONE))
            return

        def on_result(result: Result | GroupError) -> None:
            nonlocal left
            left -= 1
            if isinstance(result, ListResult):
                found.extend(result.groups)
            if left == 0:
                on_done(ListResult(error=GroupError.NONE, groups=tuple(found)))

        for coordinator in list(self._by_group.values()):
            event = ListGroups(token=self.next_token(), states=states, types=types)
            coordinator.step(event, on_result)

    def on_topic_deleted(self, name: str, topic_id: bytes) -> None:
        """A topic is gone: forget what was committed for it."""
        event = TopicsDeleted(topics=(DeletedTopic(name, topic_id),))

        def forget() -> None:
            for coordinator in list(self._by_group.values()):
                coordinator.on_topic_deleted(event)

        # Not within the controller's turn: forgetting appends to other groups' logs.
        self.broker.env.clock.call_soon(forget)

    # -- following leadership

    def on_leadership(self, partition: Partition) -> None:
        """A partition on this broker has a new leader, perhaps this broker."""
        if partition.state.topic != OFFSETS_TOPIC:
            return
        group = partition.state.group
        old = self._by_group.pop(group, None)
        if old is not None:
            old.close()
        if partition.is_leader:
            coordinator = Coordinator(self, partition, self._config())
            self._by_group[group] = coordinator
            # Not within the group's turn: loading asks the log for its ends.
            self.broker.env.clock.call_soon(coordinator.load)

    def on_removed(self, partition: Partition) -> None:
        """A partition is no longer on this broker."""
        old = self._by_group.pop(partition.state.group, None)
        if old is not None:
            old.close()

    def close(self) -> None:
        """Coordinate nothing any more."""
        for coordinator in self._by_group.values():
            coordinator.close()
        self._by_group.clear()

    def _config(self) -> GroupConfig:
        option = self.broker.option
        return GroupConfig(
            session_timeout_ms_min=int(option("group.min.session.timeout.ms")),
            session_timeout_ms_max=int(option("group.max.session.timeout.ms")),
            group_members_max=int(option("group.max.size")),
            initial_rebalance_delay_ms=int(option("group.initial.rebalance.delay.ms")),
            offset_metadata_length_max=int(option("offset.metadata.max.bytes")),
            offsets_retention_ms=int(option("offsets.retention.minutes")) * 60_000,
        )
