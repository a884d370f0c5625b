"""The partitions on this broker, kept in step with the metadata."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kafkaesque.broker.metadata.cluster_state import PartitionState
from kafkaesque.broker.metadata.recovery_state import NO_RECOVERY
from kafkaesque.broker.metadata.topic_names import INTERNAL_TOPICS
from kafkaesque.broker.options.topic_config import TopicConfig, make_topic_config
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.producers import PartitionProducers
from kafkaesque.model.checksum import crc32c
from kafkaesque.model.errors import DiskFailed, RequestRefused
from kafkaesque.model.ids import CONTROLLER_GROUP, GroupId, Offset
from kafkaesque.model.log_line import LogLine
from kafkaesque.model.options import INT64_MAX
from kafkaesque.raft.configuration import Configuration
from kafkaesque.storage.config import SegmentOptions
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.transactions.producer_state import ProducerStateConfig

if TYPE_CHECKING:
    from kafkaesque.broker.broker import Broker

#: Partitions opened or closed in one turn, so that a topic of thousands does not stall the others.
OPENED_PER_TURN_MAX = 50
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
    #: Made anew from other replicas.
    copied: list[str]
    #: With what is wrong, where, and what helps.
    damaged: dict[str, str]


class PartitionTable:
    """Opens what the metadata places here and closes what it no longer does."""

    def __init__(self, broker: "Broker") -> None:
        self._broker = broker
        self._partitions: dict[GroupId, Partition] = {}
        self._asked = False
        #: Partitions whose copies here are made anew, to be reported.
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
        self._rebalanced_ms = broker.env.clock.now_ms()

    def get(self, group: GroupId) -> Partition | None:
        """Return the partition of a group."""
        return self._partitions.get(group)

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def recovery_state(self) -> RecoveryState:
        """Return which partitions that are placed here do not serve yet, or not at all.

        A copy that a move brings here counts when the move is over: until then it is the others'.
        """
        found = RecoveryState([], [], {})
        node = self._broker.node
        for group, state in self._broker.state.partitions_by_group.items():
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
        if not self._asked:
            self._asked = True
            self._broker.env.clock.call_soon(self.reconcile)

    def reconcile(self) -> None:
        """Open and close what has changed, a bounded number at a time."""
        self._asked = False
        broker = self._broker
        if broker.is_stopping or broker.failure is not None:
            return
        placed = broker.state.partitions_by_group
        changed = 0
        for group in list(self._partitions):
            if group not in placed or broker.node not in placed[group].replicas:
                self._remove(group)
                changed += 1
            elif self._partitions[group].state is not placed[group]:
                self._partitions[group].state = placed[group]  # from a snapshot
                self.on_replicas_changed(group)
        changed += self._delete_strays()
        # A log that is not there may have been deleted already: until all is applied again that
        # this broker has known, nobody can tell, and a replica that has forgotten its votes must
        # not take part.
        may_make = broker.controller.is_caught_up
        for group, state in placed.items():
            if changed >= OPENED_PER_TURN_MAX:
                self.reconcile_soon()
                return
            if group in self._damaged:
                continue
            if group not in self._partitions and broker.node in state.replicas:
                if self._is_there_or_may_be_made(group, may_make=may_make):
                    self._open_or_report(state)
                    changed += 1

    def _is_there_or_may_be_made(self, group: GroupId, *, may_make: bool) -> bool:
        store = self._broker.store
        if store.get(group) is not None or group in store.damaged:
            return True
        if may_make and not store.may_be_made(group):
            # It was here before, and comes back.
            self._make_later()
            return False
        return may_make

    def _make_later(self) -> None:
        """Make a log that was deleted here when a restart would not find the deletion any more."""
        self._broker.store.request_checkpoint()
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
            self._broker.driver.set_offline(state.group)
            name = str(state.topic_partition)
            sentence = f"{name} stays offline on this broker: {error}"
            self._broker.report_error(
                LogLine("replica.offline", sentence, partition=name, reason=str(error))
            )
        except DiskFailed as error:
            self._broker.driver.set_offline(state.group)
            self._broker.report_error(
                f"{state.topic_partition} cannot be opened, trying again: {error}"
            )
            self._retry_later()

    def _note_lost(self, state: PartitionState) -> None:
        if len(state.replicas) == 1:
            self._broker.report_error(
                f"{state.topic_partition} is lost: its only replica was on this broker, whose "
                "directory does not have it; delete the topic to create it anew"
            )
            return
        if not self._lost:
            self._broker.env.clock.call_soon(self._report_lost)
        self._lost.append(str(state.topic_partition))

    def _report_lost(self) -> None:
        names, self._lost = self._lost, []
        more = len(names) - LOST_NAMED_MAX
        named = ", ".join(names[:LOST_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
        self._broker.report_error(
            f"broker {self._broker.node} does not have its copies of {named}: they are made anew "
            "from other replicas, and have no vote until then; with a majority of a partition's "
            "replicas lost or down it has no leader"
        )

    def _retry_later(self) -> None:
        if not self._is_retry_asked:
            self._is_retry_asked = True
            self._broker.env.clock.call_later(OPEN_AGAIN_MS, self._retry)

    def _retry(self) -> None:
        self._is_retry_asked = False
        self.reconcile_soon()

    def _delete_strays(self) -> int:
        """Delete logs of topics that were deleted while this broker was away, and damaged ones.

        Group ids grow: one below the next that is not there now never will be again, and one above
        it is of a record that this broker has yet to apply again. One that is elsewhere now may
        have been moved here since: that is found out first.
        """
        broker, store = self._broker, self._broker.store
        if not broker.controller.is_caught_up:
            return 0
        placed, next_group = broker.state.partitions_by_group, broker.state.next_group
        count = 0
        elsewhere: list[GroupId] = []
        for number in [*(log.group for log in store.logs), *store.damaged]:
            group = GroupId(number)
            if group == CONTROLLER_GROUP or group in self._partitions or group >= next_group:
                continue
            if group not in placed:
                self._delete_stray(group)
                count += 1
            elif broker.node not in placed[group].replicas:
                elsewhere.append(group)
        self._leave(elsewhere)
        return count

    def _delete_stray(self, group: GroupId) -> None:
        broker, store = self._broker, self._broker.store
        log = store.get(group)
        if log is not None:
            store.delete_log(log)
        else:
            store.delete_damaged(group)
        if self._damaged.pop(group, None) is not None:
            broker.driver.close_group(group)

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
        self._broker.when_metadata_current(LEAVE_MS_MAX, self._on_metadata_current)

    def _on_metadata_current(self, is_current: bool) -> None:
        broker = self._broker
        leaving, self._leaving, self._is_leaving = self._leaving, {}, False
        if broker.is_stopping or broker.failure is not None:
            return
        if not is_current:
            self._retry_later()
            return
        placed = broker.state.partitions_by_group
        for group in leaving:
            is_there = broker.store.get(group) is not None or group in broker.store.damaged
            if is_there and (group not in placed or broker.node not in placed[group].replicas):
                self._delete_stray(group)
        self.reconcile_soon()

    def _config(self, state: PartitionState) -> TopicConfig:
        topic = self._broker.state.topics_by_id[state.topic_id]
        config = make_topic_config(topic.configs, self._broker.options)
        if topic.name in INTERNAL_TOPICS:
            # Coordinators write at once, and know by the order of their calls what is where.
            return replace(
                config,
                compression=None,
                timestamp_before_max_ms=INT64_MAX,
                timestamp_after_max_ms=INT64_MAX,
            )
        return config

    def _open_log(self, state: PartitionState, config: TopicConfig) -> GroupLog:
        broker = self._broker
        recovery = broker.state.recoveries.get(state.group, NO_RECOVERY)
        return broker.store.open_log(
            group=state.group,
            topic=state.topic,
            partition=state.partition,
            topic_id=state.topic_id,
            options=_segment_options(config, state),
            write_caching=config.write_caching,
            # One that was moved here begins like one that has lost what it had: it may have been
            # here before, and have voted (ADR 17). So does one that is made anew after an unclean
            # election (ADR 16): empty, it is nobody to go on with.
            may_be_lost=broker.node in state.late
            or recovery.is_without(broker.node)
            or broker.state.may_have_lost(broker.node, broker.store.directory_id, state.group),
        )

    def _open(self, state: PartitionState) -> None:
        broker = self._broker
        config = self._config(state)
        log = self._open_log(state, config)
        self._leaving.pop(state.group, None)
        if broker.group_recovery.is_given_up(state.group, log):
            broker.group_recovery.tell_given_up(state, log)
            broker.store.delete_log(log)
            self._make_later()
            return
        if log.amnesia and broker.node not in state.adding:
            self._note_lost(state)
        expiration_ms = int(broker.option("producer.id.expiration.ms"))
        producers = PartitionProducers(
            ProducerStateConfig(producer_expiration_ms=expiration_ms),
            broker.env.clock.wall_ms,
            broker.env.disk,
        )
        partition = Partition(
            state=state,
            config=config,
            clock=broker.env.clock,
            producers=producers,
            on_leadership=self._on_leadership,
            activity=broker.activity,
        )
        partition.restore(log)
        self._partitions[state.group] = partition
        is_new = log.last_index == 0
        partition.replica = broker.driver.open(
            group=state.group,
            log=log,
            configuration=Configuration(voters=state.first_voters),
            wanted_voters=state.remaining,
            min_insync=config.min_insync_replicas,
            write_caching=config.write_caching,
            listener=partition,
            campaign=is_new and state.first_voters[0] == broker.node,
        )
        report = broker.leaders.get(state.group)
        if report is not None:
            broker.driver.on_leader_report(report)
        broker.group_recovery.follow(state.group)

    def make_anew(self, partition: Partition) -> None:
        """Give up a replica's copy; it is got again from the leader."""
        self._broker.group_recovery.tell_given_up(partition.state, partition.log)
        self._delete(partition.state.group)
        self.reconcile_soon()

    def _remove(self, group: GroupId) -> None:
        leaders = self._broker.leaders
        if group not in self._broker.state.partitions_by_group:
            self._delete(group)
            leaders.forget(group)
            return
        # It is elsewhere now (see `_leave`); who leads it there is still to be told to clients.
        self._close(group)
        report = leaders.get(group)
        if report is not None and report.leader == self._broker.node:
            leaders.retire(group, report.term)

    def _delete(self, group: GroupId) -> None:
        self._broker.store.delete_log(self._close(group).log)

    def _close(self, group: GroupId) -> Partition:
        """Take part in a group no more; its log stays."""
        partition = self._partitions.pop(group)
        broker = self._broker
        broker.driver.close_group(group)
        broker.group_coordinators.on_removed(partition)
        broker.transaction_coordinators.on_removed(partition)
        return partition

    def _on_leadership(self, partition: Partition) -> None:
        """A partition here has another leader: what is coordinated from it may have to move."""
        self._broker.group_coordinators.on_leadership(partition)
        self._broker.transaction_coordinators.on_leadership(partition)

    def refresh_configs(self) -> None:
        """Options have changed: pass them on to the partitions."""
        topics = self._broker.state.topics_by_id
        for partition in self._partitions.values():
            if partition.state.topic_id not in topics:
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

    # -- every now and then

    def on_sweep(self, now_ms: int) -> None:
        """Expire waiting requests; apply retention when its time has come."""
        for partition in self._partitions.values():
            if partition.has_waiting:
                partition.expire_waiting(now_ms)
        self._rebalance(now_ms)
        # The interval counts as it is now, not as it was at the last time: it may be long.
        interval_ms = int(self._broker.option("log.retention.check.interval.ms"))
        if self._retained_ms is None or now_ms >= self._retained_ms + interval_ms:
            self._retained_ms = now_ms
            wall_ms = self._broker.env.clock.wall_ms()
            for partition in self._partitions.values():
                partition.producers.expire(wall_ms)
                self._retain(partition, wall_ms)
                if partition.replica is not None:
                    partition.producers.maybe_save(partition.log, partition.high_watermark)

    def _rebalance(self, now_ms: int) -> None:
        """Hand leadership back to preferred replicas that are in sync again, a few at a time."""
        broker = self._broker
        interval_ms = 1000 * int(broker.option("leader.imbalance.check.interval.seconds"))
        if now_ms < self._rebalanced_ms + interval_ms:
            return
        handed = 0
        if broker.option("auto.leader.rebalance.enable"):
            for partition in self._partitions.values():
                if handed >= HANDED_BACK_PER_SWEEP_MAX:
                    return  # the next sweep goes on
                handed += self._hand_back(partition)
        self._rebalanced_ms = now_ms

    def _hand_back(self, partition: Partition) -> bool:
        preferred = partition.state.replicas[0]
        replica = partition.replica
        if replica is None or not partition.is_leader or preferred == self._broker.node:
            return False
        if preferred not in replica.in_sync():
            return False
        try:
            self._broker.driver.transfer_leadership(partition.state.group, preferred)
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
            self._broker.log_starts.want(partition.state.group, start)

    def close(self) -> None:
        """Save what makes the next start quick; without it that start is a slow one."""
        if self._broker.store.failure is not None:
            return
        for partition in self._partitions.values():
            try:
                partition.save()
            except (DiskFailed, FileNotFoundError) as error:
                self._broker.report(f"{partition.name}: its next start reads more: {error}")


def _segment_options(config: TopicConfig, state: PartitionState) -> SegmentOptions:
    # Anything does that is spread evenly, and the same at the next start.
    seed = crc32c(str(state.topic_partition).encode())
    return SegmentOptions(
        segment_bytes_max=config.segment_bytes,
        segment_ms_max=config.segment_ms_max(seed),
        # Kafka's 0 is an entry for each batch, as 1 is.
        index_interval_bytes=max(1, config.index_interval_bytes),
    )
