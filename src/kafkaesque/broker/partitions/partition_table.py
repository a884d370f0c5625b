"""The partitions on this broker, kept in step with the metadata."""

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple, Protocol

from kafkaesque.broker.activity import Activity
from kafkaesque.broker.controller.metadata_view import MetadataView
from kafkaesque.broker.life import Life
from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY
from kafkaesque.broker.metadata.topic_names import is_internal
from kafkaesque.broker.options.topic_config import TopicConfig, make_topic_config
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_sealing import PartitionSealing
from kafkaesque.broker.partitions.partition_tables import PartitionTableKinds, PartitionTables
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.broker.partitions.topic_keys import TopicKeys
from kafkaesque.broker.replication.leaders_table import LeadersTable
from kafkaesque.broker.replication.raft_driver import RaftDriver
from kafkaesque.broker.reports import Reports
from kafkaesque.env.clock import Clock
from kafkaesque.env.dice import Dice
from kafkaesque.env.disk import Disk
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import (
    DiskFailed,
    LeaderNotAvailable,
    NotLeader,
    RequestRefused,
    UnknownTopicOrPartition,
)
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId, NodeId, Offset, TopicId, TopicPartition
from kafkaesque.model.log_line import LogLine
from kafkaesque.model.options import INT64_MAX
from kafkaesque.raft.configuration import Configuration
from kafkaesque.storage.config import SegmentOptions
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore
from kafkaesque.transactions.producer_state import ProducerStateConfig

#: Partitions opened or closed in one turn, so that a topic of thousands does not stall the others.
OPENED_PER_TURN_MAX = 50
#: No other is opened in a turn that has taken so long. A table is fed with its log before it
#: serves, and the broker has to answer others meanwhile.
OPENING_MS_MAX = 20
#: A partition whose disk could not be read is tried again after this long.
OPEN_AGAIN_MS = 1_000
#: So long it may take to find out whether a log that is elsewhere now surely is; then again.
LEAVE_MS_MAX = 10_000
#: Partitions that one report names.
LOST_NAMED_MAX = 5
#: Partitions whose leadership is handed back in one sweep.
HANDED_BACK_PER_SWEEP_MAX = 20


class RecoveryState(NamedTuple):
    """Partitions by name, and what keeps them from serving on this broker."""

    unopened: list[str]
    #: Being copied from other replicas.
    copied: list[str]
    #: With what is wrong, where, and what helps.
    damaged: dict[str, str]


class PartitionEvents(Protocol):
    """What a table of partitions tells the rest of its broker, and asks it."""

    def on_opened(self, group: GroupId) -> None:
        """A partition is open."""

    def on_leadership(self, partition: Partition) -> None:
        """A partition has another leader: what is coordinated from it may have to move."""

    def on_removed(self, partition: Partition) -> None:
        """A partition is here no more."""

    def on_start_wanted(self, group: GroupId, start: Offset) -> None:
        """What lies before an offset is to be given up, here and on the other replicas."""

    def is_given_up(self, group: GroupId, log: GroupLog) -> bool:
        """Return whether the group was recovered without what this log has."""

    def on_given_up(self, state: PartitionState, log: GroupLog) -> None:
        """Such a log is deleted: its copy is got again from the leader."""


class PartitionTable:
    """Opens what the metadata places here and closes what it no longer does."""

    def __init__(
        self,
        *,
        clock: Clock,
        metadata: MetadataView,
        node: NodeId,
        life: Life,
        store: LogStore,
        reports: Reports,
        driver: RaftDriver,
        options: LiveOptions,
        disk: Disk,
        leaders: LeadersTable,
        activity: Activity,
        events: PartitionEvents,
        keys: TopicKeys,
        dice: Dice,
    ) -> None:
        self._clock = clock
        self._metadata = metadata
        self._node = node
        self._life = life
        self._store = store
        self._reports = reports
        self._driver = driver
        self._options = options
        self._disk = disk
        self._leaders = leaders
        self._activity = activity
        self._events = events
        self._keys = keys
        self._dice = dice
        keys.on_changed = self._on_keys_changed
        self._partitions: dict[GroupId, Partition] = {}
        #: Those in which a produce request has begun to wait; no other has one.
        self._waiting: dict[Partition, None] = {}
        #: Kinds of tables that live on partitions; complete before the first is opened.
        self.table_kinds: list[PartitionTableKinds] = []
        self._asked = False
        #: Whether all of the metadata is to be compared then, and not the new groups alone.
        self._is_whole_asked = False
        #: Groups that the metadata have got since, in the order of their making.
        self._new_groups: deque[GroupId] = deque()
        #: Partitions whose copies here are being replaced, to be reported.
        self._lost: list[str] = []
        #: Something could not be opened, and a timer runs.
        self._is_retry_asked = False
        #: Groups whose logs here cannot be used, and why.
        self._damaged: dict[GroupId, str] = {}
        #: Closed groups that are elsewhere, as far as this broker has heard: their logs go when it
        #: has heard all that was decided before it was asked for, and they were not opened again.
        self._leaving: dict[GroupId, None] = {}
        self._is_leaving = False
        #: When retention was applied last.
        self._retained_ms: int | None = None
        self._rebalanced_ms = self._clock.now_ms()

    def get(self, group: GroupId) -> Partition | None:
        """Return the partition of a group."""
        return self._partitions.get(group)

    def find(self, where: TopicPartition) -> Partition:
        """Return a partition's replica on this broker, leading or not.

        Raises:
            UnknownTopicOrPartition: not in this cluster.
            NotLeader: it exists and is elsewhere.
            LeaderNotAvailable: it is to be here and is being opened.
        """
        return self._found(self._metadata.state.partition(where))

    def find_log(self, log_id: TopicId, number: int) -> Partition:
        """Return the replica of a topic's partition, or of a queue's log, by its id.

        Raises:
            UnknownTopicOrPartition, NotLeader, LeaderNotAvailable: see `find`.
        """
        owner = self._metadata.state.owner(log_id)
        if owner is None or not 0 <= number < len(owner.partitions):
            raise UnknownTopicOrPartition("the topic or queue does not exist any more")
        return self._found(owner.partitions[number])

    def _found(self, state: PartitionState) -> Partition:
        partition = self._partitions.get(state.group)
        if partition is not None and partition.replica is not None:
            return partition
        where = state.topic_partition
        if self._node in state.replicas:
            raise LeaderNotAvailable(f"{where} is being opened")
        raise NotLeader(f"{where} is not on this broker", self._leaders.leader(state.group))

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def recovery_state(self) -> RecoveryState:
        """Return which partitions that are placed here do not serve yet, or not at all.

        A copy that a move brings here counts when the move is over: until then it is the others'.
        """
        found = RecoveryState([], [], {})
        node = self._node
        for group, state in self._metadata.state.partitions_by_group.items():
            if node not in state.replicas:
                continue
            partition = self._partitions.get(group)
            if group in self._damaged:
                found.damaged[str(state.topic_partition)] = self._damaged[group]
            elif node in state.adding:
                continue
            elif partition is None or partition.replica is None:
                found.unopened.append(str(state.topic_partition))
            elif partition.log.amnesia:
                found.copied.append(partition.name)
        return found

    # -- following the metadata

    def reconcile_soon(self) -> None:
        """Compare with the metadata in the next turn."""
        self._is_whole_asked = True
        self._ask()

    def open_soon(self, groups: Iterable[GroupId]) -> None:
        """Open those of new groups that are placed here in the next turn.

        Nothing else is looked at: ten thousand queues that are made one after the other would each
        have the others compared.
        """
        self._new_groups.extend(groups)
        self._ask()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._clock.call_soon(self._on_asked)

    def _on_asked(self) -> None:
        self._asked = False
        if self._is_whole_asked:
            self.reconcile()
        elif not self._life.is_stopping and self._life.failure is None:
            self._open_new()

    def _open_new(self) -> None:
        """Open new groups; what cannot be opened now is asked for as a whole when it can be."""
        placed, may_make = self._metadata.state.partitions_by_group, self._metadata.is_caught_up
        opened, begun_ms = 0, self._clock.now_ms()
        while self._new_groups:
            if self._is_turn_over(opened, begun_ms):
                self._ask()
                return
            state = placed.get(self._new_groups.popleft())
            if state is not None:
                opened += self._maybe_open(state, may_make=may_make)

    def _is_turn_over(self, changed: int, begun_ms: int) -> bool:
        """Whether the loop is to do something else before more is opened."""
        is_late = changed > 0 and self._clock.now_ms() - begun_ms >= OPENING_MS_MAX
        return is_late or changed >= OPENED_PER_TURN_MAX

    def reconcile(self) -> None:
        """Open and close what has changed, a bounded number at a time."""
        self._is_whole_asked = False
        self._new_groups.clear()
        if self._life.is_stopping or self._life.failure is not None:
            return
        placed = self._metadata.state.partitions_by_group
        changed, begun_ms = 0, self._clock.now_ms()
        for group in list(self._partitions):
            if group not in placed or self._node not in placed[group].replicas:
                self._remove(group)
                changed += 1
            elif self._partitions[group].state is not placed[group]:
                self._partitions[group].state = placed[group]  # from a snapshot
                self.on_replicas_changed(group)
        changed += self._delete_strays()
        # A log that is not there may have been deleted already: until all is applied again that
        # this broker has known, nobody can tell, and a replica that has forgotten its votes must
        # not take part.
        may_make = self._metadata.is_caught_up
        for state in placed.values():
            if self._is_turn_over(changed, begun_ms):
                self.reconcile_soon()
                return
            changed += self._maybe_open(state, may_make=may_make)

    def _maybe_open(self, state: PartitionState, *, may_make: bool) -> bool:
        """Open a partition that is placed here, not open, and may be; tell whether it was tried."""
        group = state.group
        if group in self._partitions or group in self._damaged or self._node not in state.replicas:
            return False
        if not self._is_there_or_may_be_made(group, may_make=may_make):
            return False
        self._open_or_report(state)
        return True

    def _is_there_or_may_be_made(self, group: GroupId, *, may_make: bool) -> bool:
        store = self._store
        if store.get(group) is not None or group in store.damaged:
            return True
        if may_make and not store.may_be_made(group):
            # It was here before, and comes back.
            self._make_later()
            return False
        return may_make

    def _make_later(self) -> None:
        """Make a log that was deleted here when a restart would not find the deletion any more."""
        self._store.request_checkpoint()
        self._retry_later()

    def on_replicas_changed(self, group: GroupId) -> None:
        """Replicas of a partition are to move, or have moved."""
        partition = self._partitions.get(group)
        if partition is not None and partition.replica is not None:
            partition.replica.set_wanted_voters(partition.state.remaining)
        self.reconcile_soon()

    def _open_or_report(self, state: PartitionState) -> None:
        """Open a partition; one whose log is damaged stays closed here, and others serve it."""
        try:
            self._open(state)
        except StorageCorrupt as error:
            self._damaged[state.group] = str(error)
            self._driver.set_offline(state.group)
            name = str(state.topic_partition)
            sentence = f"{name} stays offline on this broker: {error}"
            self._reports.error(
                LogLine("replica.offline", sentence, partition=name, reason=str(error))
            )
        except DiskFailed as error:
            self._driver.set_offline(state.group)
            self._reports.error(f"{state.topic_partition} cannot be opened, trying again: {error}")
            self._retry_later()

    def _note_lost(self, state: PartitionState) -> None:
        if len(state.replicas) == 1:
            self._reports.error(
                f"{state.topic_partition} is lost: its only replica was on this broker, whose "
                "directory does not have it; delete the topic and create it again"
            )
            return
        if not self._lost:
            self._clock.call_soon(self._report_lost)
        self._lost.append(str(state.topic_partition))

    def _report_lost(self) -> None:
        names, self._lost = self._lost, []
        more = len(names) - LOST_NAMED_MAX
        named = ", ".join(names[:LOST_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        self._reports.error(
            f"broker {self._node} does not have its copies of {named}: they are being copied "
            "from other replicas, and have no vote until then; a partition has no leader while a "
            "majority of its replicas is lost or down"
        )

    def _retry_later(self) -> None:
        if not self._is_retry_asked:
            self._is_retry_asked = True
            self._clock.call_later(OPEN_AGAIN_MS, self._retry)

    def _retry(self) -> None:
        self._is_retry_asked = False
        self.reconcile_soon()

    def _delete_strays(self) -> int:
        """Delete logs of topics that were deleted while this broker was away, and damaged ones.

        Group ids grow: one below the next that is not there now never will be again, and one above
        it is of a record that this broker has yet to apply again. One that is elsewhere now may
        have been moved here since: that is found out first.
        """
        store = self._store
        if not self._metadata.is_caught_up:
            return 0
        placed, next_group = (
            self._metadata.state.partitions_by_group,
            self._metadata.state.next_group,
        )
        count = 0
        elsewhere: list[GroupId] = []
        for number in [*(log.group for log in store.logs), *store.damaged]:
            group = GroupId(number)
            if group == CONTROLLER_GROUP or group in self._partitions or group >= next_group:
                continue
            if group not in placed:
                self._delete_stray(group)
                count += 1
            elif self._node not in placed[group].replicas:
                elsewhere.append(group)
        self._leave(elsewhere)
        return count

    def _delete_stray(self, group: GroupId) -> None:
        store = self._store
        log = store.get(group)
        if log is not None:
            store.delete_log(log)
        else:
            store.delete_damaged(group)
        if self._damaged.pop(group, None) is not None:
            self._driver.close_group(group)

    def _leave(self, elsewhere: list[GroupId]) -> None:
        """Delete the logs of groups that are elsewhere, when they surely are.

        A broker that hears late of what was decided may be in a group by a move that it has not
        heard of yet, and hear of the one before, by which it was to leave: the group may have no
        other copy any more. From here on it acknowledges nothing there; what it has acknowledged
        was for a move that was decided before, and is heard of until the answer comes (ADR 17).
        """
        if self._is_leaving or not elsewhere:
            return
        self._is_leaving = True
        self._leaving = dict.fromkeys(elsewhere)
        self._metadata.when_current(LEAVE_MS_MAX, self._on_metadata_current)

    def _on_metadata_current(self, is_current: bool) -> None:
        leaving, self._leaving, self._is_leaving = self._leaving, {}, False
        if self._life.is_stopping or self._life.failure is not None:
            return
        if not is_current:
            self._retry_later()
            return
        placed = self._metadata.state.partitions_by_group
        for group in leaving:
            is_there = self._store.get(group) is not None or group in self._store.damaged
            if is_there and (group not in placed or self._node not in placed[group].replicas):
                self._delete_stray(group)
        self.reconcile_soon()

    def _config(self, state: PartitionState) -> TopicConfig:
        configs = self._metadata.state.configs_of(state)
        config = make_topic_config(configs, self._options.values)
        if is_internal(state.topic):
            # Coordinators write at once, and know by the order of their calls what is where.
            return replace(
                config,
                compression=None,
                timestamp_before_max_ms=INT64_MAX,
                timestamp_after_max_ms=INT64_MAX,
            )
        return config

    def _open_log(self, state: PartitionState, config: TopicConfig) -> GroupLog:
        recovery = self._metadata.state.recoveries.get(state.group, NO_RECOVERY)
        return self._store.open_log(
            group=state.group,
            topic=state.topic,
            partition=state.partition,
            topic_id=state.topic_id,
            options=_segment_options(config, state),
            write_caching=config.write_caching,
            # One that was moved here begins like one that has lost what it had: it may have been
            # here before, and have voted (ADR 17). So does one that is copied again after an
            # unclean election (ADR 16): as long as it is empty, it cannot lead.
            may_be_lost=self._node in state.late
            or recovery.is_without(self._node)
            or self._metadata.state.may_have_lost(
                self._node, self._store.directory_id, state.group
            ),
        )

    def _open(self, state: PartitionState) -> None:
        config = self._config(state)
        log = self._open_log(state, config)
        self._leaving.pop(state.group, None)
        if self._events.is_given_up(state.group, log):
            self._events.on_given_up(state, log)
            self._store.delete_log(log)
            self._make_later()
            return
        if log.amnesia and self._node not in state.adding:
            self._note_lost(state)
        expiration_ms = int(self._options.get("producer.id.expiration.ms"))
        producers = PartitionProducers(
            ProducerStateConfig(producer_expiration_ms=expiration_ms),
            self._clock.wall_ms,
            self._disk,
        )
        partition = Partition(
            state=state,
            config=config,
            clock=self._clock,
            producers=producers,
            sealing=PartitionSealing(
                state.topic_id,
                state.partition,
                keys=self._keys,
                disk=self._disk,
                dice=self._dice,
            ),
            on_leadership=self._events.on_leadership,
            on_waiting=self._note_waiting,
            activity=self._activity,
        )
        kinds = [kind for kind in self.table_kinds if kind.is_for(state)]
        tables = [kind.make_host(self._clock, state) for kind in kinds]
        if tables:
            partition.tables = PartitionTables(tables, producers.note_control)
        log.open_sealed = partition.sealing.open_one
        partition.restore(log)
        self._partitions[state.group] = partition
        is_new = log.last_index == 0
        partition.replica = self._driver.open(
            group=state.group,
            log=log,
            configuration=Configuration(voters=state.first_voters),
            wanted_voters=state.remaining,
            min_insync=config.min_insync_replicas,
            write_caching=config.write_caching,
            listener=partition,
            campaign=is_new and state.first_voters[0] == self._node,
        )
        report = self._leaders.get(state.group)
        if report is not None:
            self._driver.on_leader_report(report)
        self._events.on_opened(state.group)

    def make_anew(self, partition: Partition) -> None:
        """Give up a replica's copy; it is copied again from the leader."""
        self._events.on_given_up(partition.state, partition.log)
        self._delete(partition.state.group)
        self.reconcile_soon()

    def _remove(self, group: GroupId) -> None:
        leaders = self._leaders
        if group not in self._metadata.state.partitions_by_group:
            self._delete(group)
            leaders.forget(group)
            return
        # It is elsewhere now (see `_leave`); who leads it there is still to be told to clients.
        self._close(group)
        report = leaders.get(group)
        if report is not None and report.leader == self._node:
            leaders.retire(group, report.term)

    def _delete(self, group: GroupId) -> None:
        self._store.delete_log(self._close(group).log)

    def _close(self, group: GroupId) -> Partition:
        """Take part in a group no more; its log stays."""
        partition = self._partitions.pop(group)
        self._driver.close_group(group)
        self._waiting.pop(partition, None)
        self._events.on_removed(partition)
        return partition

    def refresh_configs(self) -> None:
        """Options have changed: pass them on to the partitions."""
        for partition in self._partitions.values():
            if self._metadata.state.owner(partition.state.topic_id) is None:
                continue
            config = self._config(partition.state)
            if config == partition.config:
                continue
            partition.set_config(config)
            if partition.replica is not None:
                partition.log.set_options(
                    _segment_options(config, partition.state), write_caching=config.write_caching
                )
                partition.replica.set_min_insync(config.min_insync_replicas)
                partition.replica.set_write_caching(config.write_caching)

    def _on_keys_changed(self) -> None:
        for partition in self._partitions.values():
            partition.on_keys_changed()

    # -- every now and then

    def on_sweep(self, now_ms: int) -> None:
        """Expire waiting requests; apply retention when its time has come."""
        self._expire_waiting(now_ms)
        self._rebalance(now_ms)
        # The interval counts as it is now, not as it was at the last time: it may be long.
        interval_ms = int(self._options.get("log.retention.check.interval.ms"))
        if self._retained_ms is None or now_ms >= self._retained_ms + interval_ms:
            self._retained_ms = now_ms
            wall_ms = self._clock.wall_ms()
            for partition in self._partitions.values():
                partition.producers.expire(wall_ms)
                self._retain(partition, wall_ms)
                if partition.replica is not None:
                    partition.producers.maybe_save(partition.log, partition.high_watermark)

    def _note_waiting(self, partition: Partition) -> None:
        self._waiting[partition] = None

    def _expire_waiting(self, now_ms: int) -> None:
        for partition in list(self._waiting):
            partition.expire_waiting(now_ms)
            if not partition.has_waiting:
                self._waiting.pop(partition, None)

    def _rebalance(self, now_ms: int) -> None:
        """Hand leadership back to preferred replicas that are in sync again, a few at a time."""
        interval_ms = 1000 * int(self._options.get("leader.imbalance.check.interval.seconds"))
        if now_ms < self._rebalanced_ms + interval_ms:
            return
        handed = 0
        if self._options.get("auto.leader.rebalance.enable"):
            for partition in self._partitions.values():
                if handed >= HANDED_BACK_PER_SWEEP_MAX:
                    return  # the next sweep goes on
                handed += self._hand_back(partition)
        self._rebalanced_ms = now_ms

    def _hand_back(self, partition: Partition) -> bool:
        preferred = partition.state.replicas[0]
        replica = partition.replica
        if replica is None or not partition.is_leader or preferred == self._node:
            return False
        if preferred not in replica.in_sync():
            return False
        try:
            self._driver.transfer_leadership(partition.state.group, preferred)
        except RequestRefused:
            return False  # it has just gone, has a damaged copy, or a transfer is under way
        return True

    def _retain(self, partition: Partition, wall_ms: int) -> None:
        """Delete old segments; the leader decides, followers go by its start offset."""
        config = partition.config
        if not partition.is_leader or "delete" not in config.cleanup_policy:
            return
        start = partition.log.retention_candidate(
            wall_ms, config.retention_ms, config.retention_bytes, partition.settled_offset
        )
        if start is not None:
            self.advance_start(partition, start)

    def advance_start(self, partition: Partition, start: Offset) -> None:
        """Give up what is before an offset, here and, by the next leader report, on followers."""
        if partition.replica is not None:
            self._events.on_start_wanted(partition.state.group, start)

    def close(self) -> None:
        """Save what makes the next start quick; without it that start is a slow one."""
        if self._store.failure is not None:
            return
        for partition in self._partitions.values():
            try:
                partition.save()
            except (DiskFailed, FileNotFoundError) as error:
                self._reports.info(f"{partition.name}: its next start reads more: {error}")


def _segment_options(config: TopicConfig, state: PartitionState) -> SegmentOptions:
    # Anything does that is spread evenly, and the same at the next start.
    seed = crc32c(str(state.topic_partition).encode())
    return SegmentOptions(
        segment_bytes_max=config.segment_bytes,
        segment_ms_max=config.segment_ms_max(seed),
        # Kafka's 0 is an entry for each batch, as 1 is.
        index_interval_bytes=max(1, config.index_interval_bytes),
    )
