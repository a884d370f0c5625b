"""Reads what is written once and then lies on the disk, before anybody needs it.

Theory of operation. A disk may give other bytes than were written, and nobody notices until they
are read: maybe by a follower that is to be made anew, when the other copies are gone. So all closed
segments here are read again and again, one log after the other, slowly, and each batch is compared
with its checksum. Followers do it as leaders do: each answers for its own disk.

A copy that is found damaged is told of by the log, `/health/ready`, `/offline-replicas` and metrics
until a later look finds it whole, whoever has found it: this one, a follower that was to get what
is not there, or compaction. Its replica goes on voting, because what is appended from now on is as
good here as anywhere; but it does not go on leading if another one can, and heartbeats tell the
other brokers, which hand it no leadership meanwhile. It is made anew when an operator says so.

What is found damaged, or cannot be read, is read once more before it is believed: files may be
replaced meanwhile. A disk that cannot read is reported, and led from no more than a damaged one.
"""

from kafkaesque.broker.life import Life
from kafkaesque.broker.metadata.live_options import LiveOptions
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.replication.stored_batches import check_stored
from kafkaesque.broker.upkeep.pace import Pace
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.env.disk import Disk, FileRange
from kafkaesque.model.errors import DiskFailed
from kafkaesque.model.ids import GroupId, Offset
from kafkaesque.storage.errors import StorageCorrupt

#: Bytes that are read, and compared in one turn.
PIECE_BYTES = 256 * 1024
#: A broker that has just started has other things to do.
FIRST_PASS_MS = 60_000
#: Who waits for the next piece looks again after this, because the speed may have changed.
WAIT_MS_MAX = 1_000
#: Logs that have nothing to be read are passed over, so many in one sweep.
LOOKED_AT_MAX = 200
#: Groups that other brokers are told of as damaged here.
DAMAGED_TOLD_MAX = 1_000


class LogScrubber:
    """See the module."""

    def __init__(
        self,
        *,
        clock: Clock,
        partitions: PartitionTable,
        options: LiveOptions,
        life: Life,
        disk: Disk,
    ) -> None:
        self._clock = clock
        self._partitions = partitions
        self._options = options
        self._life = life
        self._disk = disk
        #: Bytes that were compared.
        self.bytes_read = 0
        #: Passes over all logs that were done to their end.
        self.passes = 0
        self._damaged: dict[GroupId, str] = {}
        #: Logs that this pass has not looked at yet.
        self._left: list[GroupId] = []
        self._is_passing = False
        self._first_due_ms = self._clock.now_ms() + FIRST_PASS_MS
        #: When the last pass began, if there was one.
        self._begun_ms: int | None = None
        self._look: _Look | None = None

    @property
    def damaged(self) -> dict[str, str]:
        """Copies that serve, and of which a part is damaged: what is wrong, by their names."""
        partitions = self._partitions
        named = ((partitions.get(group), why) for group, why in self._damaged.items())
        return {partition.name: why for partition, why in named if partition is not None}

    def damaged_groups(self) -> tuple[int, ...]:
        """Return the groups of such copies, not all if there are very many."""
        return tuple(self._damaged)[:DAMAGED_TOLD_MAX]

    def note(self, group: GroupId, error: Exception) -> None:
        """Something in the log of a group is not what was written."""
        self._damaged[group] = str(error)

    def on_sweep(self, now_ms: int) -> None:
        """Go on, or begin anew when it is time."""
        for group in list(self._damaged):
            partition = self._partitions.get(group)
            if partition is None:
                del self._damaged[group]
            elif partition.replica is not None:
                partition.replica.hand_over_for_disk()
        interval_ms = int(self._options.get("log.scrub.interval.ms"))
        if self._life.is_stopping or self._life.failure is not None or interval_ms == 0:
            self.stop()
        elif self._look is None:
            self._begin_next(now_ms, interval_ms)

    def _begin_next(self, now_ms: int, interval_ms: int) -> None:
        if not self._is_passing:
            if now_ms < self._due_ms(interval_ms):
                return
            self._is_passing, self._begun_ms = True, now_ms
            self._left = sorted(each.state.group for each in self._partitions)
        for _ in range(LOOKED_AT_MAX):
            if not self._left:
                self._is_passing = False
                self.passes += 1
                return
            if self._begin(self._left.pop()):
                return

    def _due_ms(self, interval_ms: int) -> int:
        """Return when a pass is to begin, with the interval of now."""
        return self._first_due_ms if self._begun_ms is None else self._begun_ms + interval_ms

    def stop(self) -> None:
        """Read no more."""
        if self._look is not None:
            self._look.cancel()
            self._look = None

    def _begin(self, group: GroupId) -> bool:
        partition = self._partitions.get(group)
        if partition is None or partition.replica is None or partition.failure is not None:
            return False
        end = min(Offset(partition.log.segments.last_base), partition.high_watermark)
        if partition.log_start_offset >= end:
            return False
        self._look = _Look(
            self,
            partition,
            end,
            clock=self._clock,
            disk=self._disk,
            options=self._options,
            partitions=self._partitions,
        )
        self._look.go_on()
        return True

    def on_looked(
        self, partition: Partition, error: StorageCorrupt | DiskFailed | None = None
    ) -> None:
        """A log was read to its end, or to where it is damaged or cannot be read."""
        self._look = None
        if error is None:
            self._damaged.pop(partition.state.group, None)
        elif partition.replica is not None:
            partition.replica.on_unreadable(error)

    def on_left(self) -> None:
        """A log was not read to its end: it has changed."""
        self._look = None


class _Look:
    """One look at one log."""

    __slots__ = (
        "_clock",
        "_disk",
        "_end",
        "_is_cancelled",
        "_located_in",
        "_options",
        "_pace",
        "_partition",
        "_partitions",
        "_pieces",
        "_position",
        "_scrubber",
        "_suspected",
        "_timer",
    )

    def __init__(
        self,
        scrubber: LogScrubber,
        partition: Partition,
        end: Offset,
        *,
        clock: Clock,
        disk: Disk,
        options: LiveOptions,
        partitions: PartitionTable,
    ) -> None:
        self._scrubber = scrubber
        self._clock = clock
        self._disk = disk
        self._options = options
        self._partitions = partitions
        self._partition = partition
        self._end = end
        self._position = partition.log_start_offset
        self._pieces: list[FileRange] = []
        #: What of the log's changes the last search had begun with.
        self._located_in = (0, Offset(0))
        self._pace = Pace(self._clock.now_ms())
        #: Where something was wrong the first time.
        self._suspected: Offset | None = None
        self._timer: Timer | None = None
        self._is_cancelled = False

    def cancel(self) -> None:
        """Call nobody any more."""
        self._is_cancelled = True
        if self._timer is not None:
            self._timer.cancel()

    def go_on(self) -> None:
        """Read the next piece when as many bytes are due."""
        self._timer = None
        if not self._is_open():
            self._scrubber.on_left()
            return
        clock = self._clock
        rate = float(self._options.get("log.scrub.io.max.bytes.per.second"))
        wait_ms = self._pace.wait_ms(clock.now_ms(), rate)
        if wait_ms >= 1:
            self._timer = clock.call_later(min(wait_ms, WAIT_MS_MAX), self.go_on)
        elif self._pieces:
            piece = self._pieces.pop(0)
            self._disk.read(
                piece.file, piece.position, piece.length, lambda data: self._on_read(piece, data)
            )
        else:
            # Retention may have been there.
            self._position = max(self._position, self._partition.log_start_offset)
            if self._position >= self._end:
                self._scrubber.on_looked(self._partition)
                return
            log = self._partition.log
            self._located_in = log.generation, log.start_offset
            log.locate_async(self._position, PIECE_BYTES, self._end, self._on_located)

    def _is_open(self) -> bool:
        partition = self._partition
        return (
            self._partitions.get(partition.state.group) is partition
            and partition.replica is not None
            and partition.failure is None
        )

    def _on_located(self, found: list[FileRange] | Exception) -> None:
        if self._is_cancelled:
            return
        if isinstance(found, StorageCorrupt | DiskFailed):
            self._suspect(found)
        elif isinstance(found, Exception):
            self._scrubber.on_left()
        elif found:
            self._pieces = list(found)
            self.go_on()
        elif self._located_in != (self._partition.log.generation, self._partition.log.start_offset):
            # Nothing was found because the log has changed, and there may be more.
            self.go_on()
        else:
            # Compaction has left nothing up to the end.
            self._scrubber.on_looked(self._partition)

    def _on_read(self, piece: FileRange, data: bytes | DiskFailed) -> None:
        if self._is_cancelled:
            return
        if isinstance(data, DiskFailed):
            self._suspect(data)
            return
        self._pace.take(len(data))
        self._scrubber.bytes_read += len(data)
        try:
            batches = check_stored(piece, data, self._position, self._partition.log.end_offset)
        except StorageCorrupt as error:
            self._suspect(error)
            return
        if batches:
            self._position = Offset(batches[-1].next_offset)
        self.go_on()

    def _suspect(self, error: StorageCorrupt | DiskFailed) -> None:
        if self._is_open() and self._suspected == self._position:
            self._scrubber.on_looked(self._partition, error)
            return
        self._suspected = self._position
        self._pieces = []
        self.go_on()
