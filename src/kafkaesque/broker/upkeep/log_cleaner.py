"""Compacts the logs on this broker, one at a time, the dirtiest first.

Theory of operation. Every now and then all logs of compacted topics are looked at, on leaders and
followers alike: each replica compacts by itself. So are those with a table that says which records
live (a queue's): all else goes that is before a snapshot of the table that all replicas have. Of
the logs that are due the dirtiest is cleaned: the passes run elsewhere (`Disk.run_steps`), step by
step, and here is decided when the next step is made, so that no more bytes are read and written per
second than the operator wants, and so that a run ends at a step when it has become void. Each
cleaned group of segments is swapped in before the next one is read; the next begins when that is
durable, so the disk holds little twice.

Only what a durable checkpoint knows as closed can be cleaned, so one is asked for whenever a
compacted log has closed a segment since the last, and after each run. When it is there, all logs
are looked at once more, so that the first run need not wait for the next look; that one asks for
nothing, or logs that are written all the time would bring one checkpoint after the other. A log
that was passed over counts as a little dirtier each time, or one that is written much would keep
all others waiting. One whose run has failed is put aside for a while, and so is compaction as a
whole while the disk has little space, because a run needs some.

What was aborted is gone when its group is swapped in, so readers need not be told of it any more,
and must not: once its marker is gone, too, they would skip all that follows.

A run that is dropped at any point leaves the log as it was, or with some of its groups swapped in,
which is as good: nothing is noted as clean until the end.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from kafkaesque.broker.life import Life
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.reports import Reports
from kafkaesque.broker.upkeep.pace import Pace
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.env.disk import Disk, StepRun
from kafkaesque.model.errors import DiskFailed, DiskFull
from kafkaesque.model.ids import GroupId, Offset
from kafkaesque.model.live_offsets import LiveRecords
from kafkaesque.model.log_line import LogLine
from kafkaesque.storage.compaction_plan import CompactionOptions, CompactionPlan
from kafkaesque.storage.compactor import CleanedGroup, CompactionResult, compact
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_store import LogStore
from kafkaesque.storage.segment_swap import discard_cleaned

#: What being passed over once adds to how dirty a log is, from 0 to 1.
PASSED_OVER_RATIO = 0.1
#: A log whose run has failed is left alone for this long, and for twice as long each time it fails
#: again, up to ...
PUT_ASIDE_MS = 60_000
#: ... this.
PUT_ASIDE_MS_MAX = 3_600_000
#: Beyond what the store keeps free, a run leaves this much.
FREE_MARGIN_BYTES = 4 * 1024 * 1024
#: A run that waits for its next step looks again after this, because the speed may have changed.
WAIT_MS_MAX = 1_000
#: A run that has freed as much is worth a line.
REPORTED_BYTES_MIN = 1024 * 1024


class LogCleaner:
    """See the module."""

    def __init__(
        self,
        *,
        options: LiveOptions,
        life: Life,
        partitions: PartitionTable,
        store: LogStore,
        clock: Clock,
        disk: Disk,
        free_bytes_min: int,
        reports: Reports,
    ) -> None:
        self._options = options
        self._life = life
        self._partitions = partitions
        self._store = store
        self._clock = clock
        self._disk = disk
        self._free_bytes_min = free_bytes_min
        self._reports = reports
        #: Runs that were done to their end.
        self.count = 0
        self._run: _Run | None = None
        self._due_ms = 0
        #: Logs that wait for a checkpoint, with what the last one knew as closed.
        self._awaiting: dict[GroupLog, int] = {}
        #: How many checkpoints there had been when it was seen last whether these are covered.
        self._checkpoints_seen = 0
        #: How many runs each log has waited for that is due.
        self._passed_over: dict[GroupId, int] = {}
        #: Until when logs are left alone, and how long that was.
        self._put_aside: dict[GroupId, tuple[int, int]] = {}
        self._on_stopped: Callable[[], None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a log is being cleaned."""
        return self._run is not None

    def on_sweep(self, now_ms: int) -> None:
        """End the run that is under way if it is void; look for the next log when it is time."""
        if self._run is not None:
            self._run.maybe_drop()
        if self._run is not None or self._life.is_over:
            return
        is_due = now_ms >= self._due_ms
        if is_due:
            self._due_ms = now_ms + int(self._options.get("log.cleaner.backoff.ms"))
        elif not self._is_checkpoint_there():
            return
        if self._options.get("log.cleaner.enable"):
            self._look(now_ms, may_ask=is_due)

    def _is_checkpoint_there(self) -> bool:
        """Tell whether one that was asked for covers what one of the logs has closed."""
        if not self._awaiting:
            return False
        count = self._store.statistics.checkpoints
        if count == self._checkpoints_seen:
            return False
        self._checkpoints_seen = count
        return any(log.closed_end > before for log, before in self._awaiting.items())

    def stop(self, on_stopped: Callable[[], None]) -> None:
        """End the run that is under way, if there is one; nothing touches the disk then."""
        if self._run is None:
            on_stopped()
        else:
            self._on_stopped = on_stopped
            self._run.drop()

    # -- which log is next

    def _look(self, now_ms: int, *, may_ask: bool) -> None:
        due: list[tuple[float, Partition, CompactionPlan]] = []
        self._awaiting = {}
        for partition in self._partitions:
            # Most logs of idle queues are one segment: nothing else is asked of them.
            if not _may_be_due(partition) or not partition.log.has_closed:
                continue
            if may_ask and self._needs_checkpoint(partition):
                self._awaiting[partition.log] = partition.log.closed_end
            group = partition.state.group
            if now_ms < self._put_aside.get(group, (0, 0))[0]:
                continue
            plan = self._plan(partition)
            if plan is not None:
                waited = self._passed_over.get(group, 0)
                due.append((plan.dirty_ratio + waited * PASSED_OVER_RATIO, partition, plan))
        if self._awaiting:
            self._checkpoints_seen = self._store.statistics.checkpoints
            self._store.request_checkpoint()
        here = self._partitions
        self._put_aside = {g: put for g, put in self._put_aside.items() if here.get(g) is not None}
        self._begin_one(due)

    def _begin_one(self, due: list[tuple[float, Partition, CompactionPlan]]) -> None:
        if not due or not self.has_space():
            return
        due.sort(key=lambda each: each[0], reverse=True)
        waited, self._passed_over = self._passed_over, {}
        is_begun = False
        for _, partition, plan in due:
            group = partition.state.group
            if not is_begun and self._begin(partition, plan):
                is_begun = True
            else:
                self._passed_over[group] = waited.get(group, 0) + 1

    def _needs_checkpoint(self, partition: Partition) -> bool:
        """Mark a log of which more can be cleaned after the next checkpoint."""
        if partition.config.is_compacted:
            return partition.log.mark_for_checkpoint()
        # Most queues' logs give up whole segments in time: a checkpoint would be for nothing.
        is_worth_it = self._plan(partition, is_forecast=True) is not None
        return is_worth_it and partition.log.mark_for_checkpoint()

    def _plan(self, partition: Partition, *, is_forecast: bool = False) -> CompactionPlan | None:
        config = partition.config
        options = CompactionOptions(
            dirty_ratio_min=config.min_cleanable_dirty_ratio,
            lag_ms_min=config.min_compaction_lag_ms,
            lag_ms_max=config.max_compaction_lag_ms,
            delete_retention_ms=config.delete_retention_ms,
            segment_bytes_max=config.segment_bytes,
            index_interval_bytes=config.index_interval_bytes,
            key_bytes_max=int(self._options.get("log.cleaner.dedupe.buffer.size")),
        )
        if not config.is_compacted:
            live = _live_records(partition, is_forecast=is_forecast)
            return (
                None
                if live is None
                else partition.log.live_plan(
                    live,
                    now_wall_ms=self._clock.wall_ms(),
                    limit_offset=partition.last_stable_offset,
                    everywhere_offset=partition.everywhere_offset,
                    options=options,
                    is_forecast=is_forecast,
                )
            )
        return partition.log.compaction_plan(
            now_wall_ms=self._clock.wall_ms(),
            limit_offset=_limit(partition),
            everywhere_offset=partition.everywhere_offset,
            options=options,
        )

    def _begin(self, partition: Partition, plan: CompactionPlan) -> bool:
        known = partition.producers.before_compaction(plan.end_offset)
        if known is None:
            return False
        sealing = partition.sealing
        if sealing.has_keys:
            found = sealing.for_compaction(is_encrypted=partition.config.is_encrypted)
            if found is None:
                return False  # a key that it needs is still being unwrapped, or cannot be
            plan = replace(plan, sealing=found)
        plan = replace(plan, aborted=known.aborted, producers=known.last_offsets)
        self._run = _Run(
            self,
            partition,
            plan,
            clock=self._clock,
            disk=self._disk,
            store=self._store,
            options=self._options,
            reports=self._reports,
        )
        return True

    # -- what a run asks, and how it ends

    def has_space(self) -> bool:
        """Tell whether the disk has the space that a run may need for its next step."""
        least = self._free_bytes_min + FREE_MARGIN_BYTES
        try:
            return self._disk.free_bytes() >= least
        except DiskFailed:
            return False

    def may_go_on(self, partition: Partition, plan: CompactionPlan) -> bool:
        """Tell whether a run is still worth its next step, and right."""
        return (
            not self._life.is_stopping
            and self._life.failure is None
            and self._partitions.get(partition.state.group) is partition
            and _may_be_due(partition)
            and _is_right(partition, plan)
            and bool(self._options.get("log.cleaner.enable"))
        )

    def on_cleaned(self, partition: Partition) -> None:
        """A run is done: look for the next log at once."""
        self.count += 1
        self._put_aside.pop(partition.state.group, None)
        self._due_ms = self._clock.now_ms()
        self._store.request_checkpoint()

    def on_failed(self, partition: Partition, error: Exception) -> None:
        """A run has failed; the log is as it was, but for what was swapped in."""
        group = partition.state.group
        before_ms = self._put_aside.get(group, (0, 0))[1]
        wait_ms = min(max(2 * before_ms, PUT_ASIDE_MS), PUT_ASIDE_MS_MAX)
        self._put_aside[group] = self._clock.now_ms() + wait_ms, wait_ms
        sentence = (
            f"{partition.name} was not compacted, trying again in {wait_ms // 60_000} min: {error}"
        )
        self._reports.error(
            LogLine("compaction.failed", sentence, partition=partition.name, reason=str(error))
        )
        if isinstance(error, StorageCorrupt) and partition.replica is not None:
            partition.replica.on_unreadable(error)

    def on_ended(self) -> None:
        """Nothing of a run touches the disk any more."""
        self._run = None
        on_stopped, self._on_stopped = self._on_stopped, None
        if on_stopped is not None:
            on_stopped()


def _limit(partition: Partition) -> Offset:
    """Return up to where a log may be compacted: what its tables need stays as it is."""
    kept_from, stable = partition.kept_from_offset, partition.last_stable_offset
    return stable if kept_from is None else min(stable, kept_from)


def _live_records(partition: Partition, *, is_forecast: bool = False) -> LiveRecords | None:
    """Return what a table says is needed of a log; None: all of it.

    Without the snapshot that it goes by nobody can lead, so all replicas have to have it. With
    `write.caching` a power cut may take it, also from this one, until a checkpoint has synced it.
    """
    if partition.tables is None:
        return None
    known, log = partition.everywhere_offset, partition.log
    if log.was_cached and not is_forecast:
        known = min(known, Offset(log.closed_end))
    return partition.tables.live_before(known, is_forecast=is_forecast)


def _is_right(partition: Partition, plan: CompactionPlan) -> bool:
    """Tell whether what a plan goes by still holds."""
    if plan.live is None:
        return partition.config.is_compacted
    live = _live_records(partition)
    return live is not None and live.end_offset >= plan.live.end_offset


def _may_be_due(partition: Partition) -> bool:
    return _is_open(partition) and (partition.config.is_compacted or partition.tables is not None)


class _Run:
    """One run over one log."""

    __slots__ = (
        "_begun_ms",
        "_cleaner",
        "_clock",
        "_disk",
        "_is_void",
        "_log",
        "_options",
        "_pace",
        "_partition",
        "_plan",
        "_reports",
        "_start_offset",
        "_steps",
        "_store",
        "_timer",
    )

    def __init__(
        self,
        cleaner: LogCleaner,
        partition: Partition,
        plan: CompactionPlan,
        *,
        clock: Clock,
        disk: Disk,
        store: LogStore,
        options: LiveOptions,
        reports: Reports,
    ) -> None:
        self._cleaner = cleaner
        self._clock = clock
        self._disk = disk
        self._store = store
        self._options = options
        self._reports = reports
        self._partition = partition
        self._plan = plan
        self._log = partition.log
        self._start_offset = self._log.start_offset
        self._is_void = False
        self._begun_ms = self._clock.now_ms()
        self._pace = Pace(self._begun_ms)
        #: Makes the next step.
        self._timer: Timer | None = None
        self._steps: StepRun = self._disk.run_steps(compact, plan, self._on_step, self._on_done)

    def drop(self) -> None:
        """End it where it is."""
        self._is_void = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._steps.stop()

    def maybe_drop(self) -> None:
        """End it if it is not worth its next step, also while it waits for that."""
        if not self._is_void and not self._cleaner.may_go_on(self._partition, self._plan):
            self.drop()

    def _on_step(self, step: int | CleanedGroup) -> None:
        if self._is_void or not self._cleaner.may_go_on(self._partition, self._plan):
            self._drop_at(step)
        elif not self._cleaner.has_space():
            error = DiskFull("the disk has too little free space")
            self._cleaner.on_failed(self._partition, error)
            self._drop_at(step)
        elif isinstance(step, CleanedGroup):
            self._replace(step)
        else:
            self._go_on(step)

    def _drop_at(self, step: int | CleanedGroup) -> None:
        self.drop()
        if isinstance(step, CleanedGroup):
            # It is whole, and nobody wants it: the run itself leaves such files to the log.
            with suppress(DiskFailed):
                base_offset = step.replacement.new.base_offset
                discard_cleaned(self._disk, self._log.identity.directory, base_offset)

    def _replace(self, cleaned: CleanedGroup) -> None:
        try:
            if not self._log.replace_segments(cleaned):
                self.drop()
                return
            self._store.submit(lambda: self._on_replaced(cleaned))
        except DiskFailed:
            self.drop()  # The store has told whom it concerns.

    def _on_replaced(self, cleaned: CleanedGroup) -> None:
        if not self._log.is_deleted:
            self._partition.producers.forget_aborted(cleaned.end_offset)
        self._go_on(cleaned.replacement.new.size_bytes)

    def _go_on(self, size_bytes: int) -> None:
        """Make the next step when as many bytes are due."""
        self._pace.take(size_bytes)
        self._go_on_when_due()

    def _go_on_when_due(self) -> None:
        self._timer = None
        if self._is_void:
            return
        clock = self._clock
        rate = float(self._options.get("log.cleaner.io.max.bytes.per.second"))
        wait_ms = self._pace.wait_ms(clock.now_ms(), rate)
        if wait_ms < 1:
            self._steps.go_on()
        else:
            self._timer = clock.call_later(min(wait_ms, WAIT_MS_MAX), self._go_on_when_due)

    def _on_done(self, result: CompactionResult | None, error: Exception | None) -> None:
        if error is not None:
            if not self._is_void and not self._is_overtaken(error):
                self._cleaner.on_failed(self._partition, error)
        elif result is not None and not self._is_void and not self._log.is_deleted:
            self._log.note_cleaned(result)
            self._cleaner.on_cleaned(self._partition)
            self._tell(result)
        self._cleaner.on_ended()

    def _is_overtaken(self, error: Exception) -> bool:
        """Tell whether a segment was missed because it was given up meanwhile."""
        log = self._log
        is_moved = log.is_deleted or log.start_offset != self._start_offset
        return isinstance(error, FileNotFoundError) and is_moved

    def _tell(self, result: CompactionResult) -> None:
        if result.old_bytes - result.new_bytes >= REPORTED_BYTES_MIN:
            seconds = (self._clock.now_ms() - self._begun_ms) / 1000
            sentence = (
                f"{self._partition.name}: compacted, {result.old_bytes / 1e6:,.1f} MB have become "
                f"{result.new_bytes / 1e6:,.1f} MB in {seconds:.1f} s"
            )
            self._reports.info(
                LogLine(
                    "compaction.done",
                    sentence,
                    partition=self._partition.name,
                    old_bytes=result.old_bytes,
                    new_bytes=result.new_bytes,
                )
            )


def _is_open(partition: Partition) -> bool:
    return partition.replica is not None and partition.failure is None
