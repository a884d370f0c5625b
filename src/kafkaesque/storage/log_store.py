"""The engine: all logs of a broker, their group commit, and the life of the data directory.

Theory of operation. Logs queue records for the write-ahead log; `submit`, called at the end of a
turn of the loop, writes all that is queued as one block and syncs it, one sync at a time. What is
queued while a sync is on its way gathers for the next one. So the number of syncs depends on how
long one takes, and not on how many logs are written. When a file of the write-ahead log is full,
another one is made with that commit, the next commit says that it follows, and what comes after
goes there; a checkpoint of what is before it is made in the background.

With less than `free_bytes_min` free on the disk records are refused, until there is half as much
again. That is asked for (`refusal`) before anything is written: what is left serves what a broker
has to write to become free of old records, votes and metadata among it. It may begin in that state.

A write or sync that fails fences the store for good: nothing is reported as durable any more and
nothing is appended; what is there can be read.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk, File
from kafkaesque.model.errors import DiskFailed, DiskFull, InvariantBroken
from kafkaesque.model.ids import NodeId, TopicId
from kafkaesque.storage.checkpoint import ROOT
from kafkaesque.storage.checkpointer import Checkpointer
from kafkaesque.storage.config import SegmentOptions, StorageConfig
from kafkaesque.storage.directory import grave_of, make_partition_directory, move_aside
from kafkaesque.storage.entries import LogIdentity
from kafkaesque.storage.errors import StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_snapshot import write_identity
from kafkaesque.storage.recovery import Recovery, RecoveryReport
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.statistics import StorageStatistics
from kafkaesque.storage.wal_format import RecordKind
from kafkaesque.storage.workbench import Workbench

#: Free space is looked at after this many written bytes, or a quarter of what is kept free if that
#: is less, and not more often than in ...
SPACE_CHECK_BYTES_MAX = 1024 * 1024
#: ... this time while appends are refused.
SPACE_CHECK_MS = 500

_FAILED_ADVICE = (
    "this broker accepts and acknowledges nothing more, because its last writes may be lost; its"
    " replicas on other brokers take over. Check the disk and its free space, then restart the"
    " broker"
)


def _nothing(_: DiskFailed) -> None:
    """Nobody has asked to be told."""


class LogStore:
    """See the module."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        config: StorageConfig,
        cluster_id: str,
        node: NodeId,
        draw: Callable[[], int],
    ) -> None:
        """`draw` gives a number of 63 bits that nobody gets twice, and never 0."""
        self._bench = Workbench(disk, clock, config, fail=self._fail, ask_submit=self._ask_submit)
        self._cluster_id = cluster_id
        self._node = node
        self._draw = draw
        #: Another one wherever the directory was made anew.
        self.directory_id = ""
        self._logs: dict[int, GroupLog] = {}
        #: Of the logs that are open.
        self._directories: dict[str, None] = {}
        self._damaged: dict[int, str] = {}
        self._damaged_identities: dict[int, LogIdentity] = {}
        self._checkpointer = Checkpointer(self._bench, self._on_checkpointed)
        #: Told once, in a later turn, when a write or sync has failed.
        self.on_failed: Callable[[DiskFailed], None] = _nothing
        self._waiting: list[Callable[[], None]] = []
        self._in_flight: list[Callable[[], None]] = []
        self._is_syncing = False
        self._is_reporting = False
        self._is_submit_asked = False
        self._is_checkpoint_wanted = False
        self._graves: list[tuple[int, str]] = []
        #: Directories that got another name while a group commit was on its way.
        self._renamed: dict[str, None] = {}
        self._on_closed: Callable[[], None] | None = None
        self._space_checked_bytes = 0
        self._space_checked_ms = 0

    # -- life

    def open(self) -> RecoveryReport:
        """Recover the data directory; waits for the disk.

        Raises:
            WrongDirectory: it is another broker's.
            StorageCorrupt: it is damaged; single damaged logs are listed in the report instead.
            DiskFailed: the device refused.
        """
        recovery = Recovery(self._bench, self._cluster_id, self._node, self._draw)
        recovery.run()
        self.directory_id = recovery.directory_id
        self._logs = recovery.logs
        self._directories = {log.identity.directory: None for log in self._logs.values()}
        self._damaged = dict(recovery.report.damaged)
        self._damaged_identities = recovery.damaged_identities()
        self._checkpointer.set_lines(recovery.lines)
        self._check_space()
        return recovery.report

    def close(self, on_done: Callable[[], None]) -> None:
        """Commit what is queued, sync everything, note that nothing has to be recovered.

        Nothing may be changed once that is noted: what the checkpoint does not say is lost.
        """
        self._on_closed = on_done
        if self._bench.has_failed:
            self._close_now()
        else:
            self._maybe_close()

    def _maybe_close(self) -> None:
        """Go on with closing, if that was asked for and nothing is on its way."""
        bench = self._bench
        if self._on_closed is None or self._is_syncing or not self._checkpointer.is_idle:
            return
        if bench.wal.has_queued or self._waiting:
            self._start_commit()
        elif not bench.unsettled:
            self._write_indexes()
            bench.is_closing = True
            self._checkpointer.note(bench.wal.unused_number, is_clean=True)
            self._checkpointer.start()

    def _write_indexes(self) -> None:
        try:
            for log in self._logs.values():
                if log.segments.segments:
                    log.segments.close_segment(log.segments.segments[-1])
        except DiskFailed as error:
            self._fail(error)
        except FileNotFoundError as error:
            self._fail(DiskFailed(f"a directory is missing: {error}"))

    def _close_now(self) -> None:
        on_done, self._on_closed = self._on_closed, None
        self._bench.wal.close()
        self._bench.pool.close()
        if on_done is not None:
            on_done()

    # -- logs

    @property
    def logs(self) -> list[GroupLog]:
        """All logs, in the order of their making."""
        return list(self._logs.values())

    @property
    def damaged(self) -> dict[int, str]:
        """Groups whose logs cannot be used, and why; left as they are until they are deleted."""
        return dict(self._damaged)

    @property
    def statistics(self) -> StorageStatistics:
        """Counters."""
        return self._bench.statistics

    def get(self, group: int) -> GroupLog | None:
        """Return a group's log, if there is one."""
        return self._logs.get(group)

    def open_log(
        self,
        *,
        group: int,
        topic: str,
        partition: int,
        topic_id: TopicId,
        options: SegmentOptions | None = None,
        write_caching: bool = False,
        may_be_lost: bool = False,
    ) -> GroupLog:
        """Return a group's log, made if it is missing; a new one is durable with its first data.

        A directory of that name that is not this log's is moved aside, never used. With
        `may_be_lost` a log that is made remembers that another one may have been here: `amnesia`.

        Raises:
            StorageCorrupt: the log is damaged.
            InvariantBroken: group and identity do not fit to what is open.
            DiskFailed: the device refused.
        """
        identity = LogIdentity(group, topic, partition, bytes(topic_id))
        if group in self._damaged:
            raise StorageCorrupt(self._damaged[group])
        log = self._logs.get(group)
        if log is None:
            log = self._make_log(identity)
            if may_be_lost:
                self.note_loss(log)
        elif log.identity != identity:
            raise InvariantBroken(f"group {group} is {log.identity}, not {identity}")
        log.set_options(options or SegmentOptions(), write_caching=write_caching)
        return log

    def note_loss(self, log: GroupLog) -> None:
        """Remember that an earlier log and its votes are lost; durable with what comes next."""
        log.save_amnesia(self._draw())

    def _make_log(self, identity: LogIdentity) -> GroupLog:
        bench = self._bench
        self._refuse_if_closing(identity)
        if bench.has_failed and bench.blocked is not None:
            raise bench.blocked
        directory = identity.directory
        if directory in self._directories:
            raise InvariantBroken(f"{directory} is open for another group: delete that one first")
        try:
            if bench.disk.exists(directory):
                self._renamed[directory] = None
                bench.pool.drop_directory(directory)
                move_aside(bench.disk, directory)
            make_partition_directory(bench.disk, identity)
        except DiskFailed as error:
            self._fail(error)
            raise
        log = GroupLog(bench, identity)
        self._logs[identity.group] = log
        self._directories[directory] = None
        bench.wal.queue(identity.group, RecordKind.CREATE, payload=write_identity(identity))
        bench.dirty_logs[log] = None
        bench.dirty_directories[directory] = None
        # Or the directory that had this name could come back, with batches that look like ours.
        bench.names_to_sync[ROOT] = None
        self._ask_submit()
        return log

    def delete_log(self, log: GroupLog) -> None:
        """Give up a log and its files; durable with the next group commit."""
        bench, identity = self._bench, log.identity
        self._refuse_if_closing(identity)
        if self._logs.pop(identity.group, None) is not log:
            raise InvariantBroken(f"{log!r} is not open")
        del self._directories[identity.directory]
        log.is_deleted = True
        log.segments.take_from(0)
        log.segments.tail.clear()
        for table in (bench.dirty_logs, bench.unsettled, bench.sync_too):
            table.pop(log, None)
        self._note_deletion(identity.group)
        self._bury(identity)

    def delete_damaged(self, group: int) -> None:
        """Give up a log that cannot be used, and its files; durable with the next group commit."""
        self._refuse_if_closing(self._damaged_identities[group])
        del self._damaged[group]
        identity = self._damaged_identities.pop(group)
        self._note_deletion(group)
        is_anothers = identity.directory in self._directories or any(
            other.directory == identity.directory and other.group > group
            for other in self._damaged_identities.values()
        )
        if not is_anothers:
            self._bury(identity)

    def _refuse_if_closing(self, identity: LogIdentity) -> None:
        if self._bench.is_closing:
            what = f"{identity.directory} is made or deleted"
            raise InvariantBroken(f"{what} after the store was closed")

    def _note_deletion(self, group: int) -> None:
        self._checkpointer.forget(group)
        if not self._bench.has_failed:
            self._bench.wal.queue(group, RecordKind.DELETE)
            self._ask_submit()

    def _bury(self, identity: LogIdentity) -> None:
        """Take a deleted log's directory away: it is removed when that is durable."""
        bench = self._bench
        bench.pool.drop_directory(identity.directory)
        bench.dirty_directories.pop(identity.directory, None)
        bench.names_to_sync.pop(identity.directory, None)
        bench.gone_directories[identity.directory] = None
        self._renamed[identity.directory] = None
        if bench.has_failed:
            return
        try:
            bench.disk.rename(identity.directory, grave_of(identity))
        except FileNotFoundError:
            pass
        except DiskFailed as error:
            self._fail(error)
            return
        bench.dirty_directories[ROOT] = None
        self._graves.append((bench.next_commit, grave_of(identity)))

    def may_be_made(self, group: int) -> bool:
        """Tell whether a group's log can be made, though one was deleted here before.

        Not as long as a restart would find the deletion: it would take the new log for that one.
        Then `request_checkpoint` brings it about.
        """
        return not self._checkpointer.remembers(group)

    # -- the group commit

    @property
    def over_bound(self) -> bool:
        """Whether more is queued than should be: gateways read no more until it is not."""
        return self._bench.wal.is_over_bound

    @property
    def refusal(self) -> DiskFailed | None:
        """Why records are refused, if they are: look before anything is proposed or taken."""
        bench = self._bench
        if bench.blocked is not None and not bench.has_failed:
            if bench.clock.now_ms() >= self._space_checked_ms + SPACE_CHECK_MS:
                self._check_space()
        return bench.blocked

    @property
    def failure(self) -> DiskFailed | None:
        """Why everything is refused, for good, if it is."""
        return self._bench.blocked if self._bench.has_failed else None

    def look_for_space(self) -> None:
        """Let free space that is there again count at once: for who cannot refuse an append."""
        if self._bench.blocked is not None and not self._bench.has_failed:
            self._check_space()

    def look_at_disk(self) -> None:
        """Notice, though nobody writes, that the disk is gone, is full, or has space again."""
        self._check_space()

    def submit(self, on_durable: Callable[[], None] | None = None) -> None:
        """Make everything queued so far durable; `on_durable` then, in the order of asking.

        Raises:
            DiskFailed: the store is fenced; nothing more becomes durable.
        """
        bench = self._bench
        if bench.has_failed and bench.blocked is not None:
            raise bench.blocked
        if on_durable is not None:
            self._waiting.append(on_durable)
        if not self._is_syncing and not self._is_reporting:
            self._start_commit()
            if bench.has_failed and bench.blocked is not None:
                raise bench.blocked

    def _ask_submit(self) -> None:
        if not self._is_submit_asked:
            self._is_submit_asked = True
            self._bench.clock.call_soon(self._on_submit_asked)

    def _on_submit_asked(self) -> None:
        self._is_submit_asked = False
        if not self._is_syncing and not self._is_reporting and not self._bench.has_failed:
            self._start_commit()
            self._maybe_close()

    def _start_commit(self) -> None:
        try:
            self._commit_queued()
        except DiskFailed as error:
            self._fail(error)

    def _commit_queued(self) -> None:
        bench = self._bench
        can_checkpoint = self._can_checkpoint_now()
        if not bench.wal.has_queued and not can_checkpoint:
            if self._waiting and not self._is_syncing:
                self._is_syncing = True
                self._in_flight, self._waiting = self._waiting, []
                bench.clock.call_soon(lambda: self._on_synced(None, 0))
            return
        commit = bench.next_commit
        bench.next_commit += 1
        self._is_syncing = True
        self._in_flight, self._waiting = self._waiting, []
        # Without a checkpoint only if there is a file for the one to come, which gives files back.
        is_rolling = bench.wal.has_next and (
            can_checkpoint or (bench.wal.is_full and bench.wal.has_room_for_another)
        )
        if is_rolling:
            bench.wal.roll()
        bench.statistics.count_commit(bench.wal.queued_records)
        file, directories = bench.wal.write(commit)
        files, names = self._what_else_to_sync()
        if is_rolling:
            self._on_rolled(can_checkpoint=can_checkpoint)
        elif self._should_prepare():
            following, directories = bench.wal.prepare()
            files.append(following)
        self._maybe_check_space()

        def sync_files() -> None:
            begun_ns = bench.clock.now_ns()

            def on_synced(error: DiskFailed | None) -> None:
                bench.statistics.sync_latency.observe_ns(bench.clock.now_ns() - begun_ns)
                self._on_synced(error, commit)

            bench.statistics.commit_syncs += 1
            bench.disk.sync([file, *files], on_synced, directories)

        if names:
            self._renamed = {}
            self._sync_names(names, sync_files)
        else:
            sync_files()

    def _what_else_to_sync(self) -> tuple[list[File], list[str]]:
        """Return what has to be synced because the write-ahead log stands on it."""
        bench = self._bench
        names, bench.names_to_sync = bench.names_to_sync, {}
        segments: dict[Segment, None] = {}
        for log in bench.sync_too:
            names[log.identity.directory] = None
            segments.update(dict.fromkeys(log.unsynced_segments()))
        files = [bench.pool.get(s.path) for s in segments if not s.is_removed]
        return files, list(names)

    def _sync_names(self, names: list[str], then: Callable[[], None]) -> None:
        """Sync directories; one that was given another name meanwhile does not matter any more."""

        def done(error: DiskFailed | None) -> None:
            left = [name for name in names if name not in self._renamed]
            if error is not None and len(left) < len(names):
                self._sync_names(left, then)
            elif error is not None:
                self._fail(error)
            elif not self._bench.has_failed:
                then()

        self._bench.disk.sync([], done, names)

    def _on_synced(self, error: DiskFailed | None, commit: int) -> None:
        bench = self._bench
        self._is_syncing = False
        if error is not None:
            self._fail(error)
            return
        if bench.has_failed:
            return
        if commit:
            bench.durable_commit = commit
            bench.wal.on_synced()
            self._after_commit(commit)
        done, self._in_flight = self._in_flight, []
        self._is_reporting = True
        try:
            for callback in done:
                callback()
        finally:
            self._is_reporting = False
        if not bench.has_failed:
            self._start_commit()
            self._maybe_close()

    def _after_commit(self, commit: int) -> None:
        bench = self._bench
        try:
            for log in list(bench.unsettled):
                log.on_committed(commit)
            while self._graves and self._graves[0][0] <= commit:
                bench.disk.remove_tree(self._graves.pop(0)[1])
        except DiskFailed as error:
            self._fail(error)
            return
        # The next file, which it names, is durable since the commit before, and is said to follow.
        if self._checkpointer.is_noted:
            self._checkpointer.start()

    # -- checkpoints

    def _can_checkpoint_now(self) -> bool:
        return (
            self._is_checkpoint_wanted
            and not self._bench.is_closing
            and self._checkpointer.is_idle
            and not any(log.is_held or log.is_replacing for log in self._bench.unsettled)
            and self._bench.wal.has_room_for_checkpoint
        )

    def _should_prepare(self) -> bool:
        """Tell whether the current file of the write-ahead log is to end with the next commit."""
        wal = self._bench.wal
        if wal.is_full:
            self._is_checkpoint_wanted = True
        if wal.has_next:
            return False
        return self._can_checkpoint_now() or (wal.is_full and wal.has_room_to_roll)

    def _on_rolled(self, *, can_checkpoint: bool) -> None:
        """The last block of a file is written: note how things are, if nothing is against it."""
        bench = self._bench
        if can_checkpoint:
            self._is_checkpoint_wanted = False
            self._checkpointer.note(bench.wal.number)
        else:
            bench.statistics.checkpoints_late += 1

    def request_checkpoint(self) -> None:
        """Have a checkpoint made soon, though the write-ahead log is not full."""
        self._is_checkpoint_wanted = True
        self._ask_submit()

    def _on_checkpointed(self) -> None:
        if self._on_closed is not None and self._checkpointer.was_clean:
            self._close_now()
        elif self._is_checkpoint_wanted or self._on_closed is not None:
            self._ask_submit()

    # -- what goes wrong

    def _fail(self, error: DiskFailed) -> None:
        bench = self._bench
        if bench.has_failed:
            return
        kind = DiskFull if isinstance(error, DiskFull) else DiskFailed
        failure = kind(f"{error}: {_FAILED_ADVICE}")
        failure.__cause__ = error
        bench.blocked = failure
        bench.has_failed = True
        self._waiting = []
        self._in_flight = []
        bench.clock.call_soon(lambda: self.on_failed(failure))
        if self._on_closed is not None:
            bench.clock.call_soon(self._close_now)

    def _maybe_check_space(self) -> None:
        statistics = self._bench.statistics
        written = statistics.wal_bytes + statistics.segment_bytes
        most = min(SPACE_CHECK_BYTES_MAX, self._bench.config.free_bytes_min // 4)
        if written - self._space_checked_bytes >= most:
            self._space_checked_bytes = written
            self._check_space()

    def _check_space(self) -> None:
        bench = self._bench
        if bench.has_failed:
            return
        self._space_checked_ms = bench.clock.now_ms()
        least = bench.config.free_bytes_min
        enough = least + least // 2
        try:
            free = bench.disk.free_bytes()
            if free < 2 * least:
                bench.wal.give_up_spares()
                free = bench.disk.free_bytes()
        except DiskFailed as error:
            self._fail(error)
            return
        if free >= enough or (free >= least and bench.blocked is None):
            bench.blocked = None
            return
        bench.blocked = DiskFull(
            f"only {free} bytes are free on the disk, and the broker keeps {least} for its own"
            f" needs; it accepts records again with {enough} free, so free {enough - free} or more"
        )
