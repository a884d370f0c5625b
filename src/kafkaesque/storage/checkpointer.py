"""Makes checkpoints in the background, so that old files of the write-ahead log can go.

Theory of operation. At the boundary between two files of the write-ahead log, what is known of each
changed log is noted. When the last block before it is durable (the file after it is since before),
off the loop and in this order: segments written before are synced; names are synced; the checkpoint
is written, synced and renamed; the rename is synced; only then are the files of the write-ahead log
before the boundary reused. A crash anywhere in between leaves the old checkpoint with all that
followed it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from kafkaesque.env.disk import File
from kafkaesque.model.errors import DiskFailed
from kafkaesque.storage.checkpoint import (
    CHECKPOINT,
    CHECKPOINT_NEW,
    ROOT,
    put_new_checkpoint,
    write_checkpoint,
)
from kafkaesque.storage.log_snapshot import FrozenLog, thaw, write_snapshot
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.workbench import SharedLog, Workbench

#: Syncs that are under way at once for the last checkpoint; every other one has the disk beside
#: producers, and one sync at a time.
CLOSING_SYNCS_MAX: Final = 8
_NO_FAILURE: DiskFailed | None = None


class Checkpointer:
    """One checkpoint at a time: `note` at the boundary, `start` when the next file has begun."""

    def __init__(self, bench: Workbench, on_done: Callable[[], None]) -> None:
        self._bench = bench
        self._on_done = on_done
        #: What the last checkpoint says of each log.
        self._lines: dict[int, bytes] = {}
        self._snapshots: list[FrozenLog] = []
        self._covered: list[tuple[SharedLog, int]] = []
        self._segments: list[Segment] = []
        self._directories: list[str] = []
        self._synced_too: dict[SharedLog, int] = {}
        self._deleted: list[int] = []
        #: Those of them that the checkpoint under way leaves out.
        self._leaving: list[int] = []
        self._wal_first = 0
        self._is_clean = False
        self.is_noted = False
        self.is_running = False
        #: The last checkpoint was the one that `close` makes.
        self.was_clean = False

    @property
    def is_idle(self) -> bool:
        """Whether another checkpoint may be noted."""
        return not self.is_noted and not self.is_running

    def set_lines(self, lines: dict[int, bytes]) -> None:
        """Take what the checkpoint on disk says, after recovery."""
        self._lines = lines

    def forget(self, group: int) -> None:
        """A log was deleted; from the next boundary on it is not known any more."""
        self._deleted.append(group)

    def remembers(self, group: int) -> bool:
        """Tell whether a restart would still find that a log of this group was deleted."""
        return group in self._deleted or group in self._leaving

    # -- the boundary

    def note(self, wal_first: int, *, is_clean: bool = False) -> None:
        """Remember how things are; all queued records are in files before `wal_first`."""
        bench = self._bench
        for group in self._deleted:
            self._lines.pop(group, None)
        self._leaving, self._deleted = self._deleted, []
        changed = [log for log in bench.dirty_logs if not log.is_deleted]
        self._snapshots = [log.freeze() for log in changed]
        self._covered = [(log, log.generation) for log in changed]
        self._segments = [segment for log in changed for segment in log.on_noted()]
        self._directories = [ROOT, *bench.dirty_directories]
        self._synced_too = dict(bench.sync_too)
        bench.dirty_logs = {}
        bench.dirty_directories = {}
        bench.gone_directories = {}
        self._wal_first = wal_first
        self._is_clean = is_clean
        self.is_noted = True

    # -- the work

    def start(self) -> None:
        """What is before the boundary is durable, and so is the file after it: begin."""
        self.is_noted = False
        self.is_running = True
        self._sync_segments()

    def _sync_segments(self) -> None:
        pool = self._bench.pool
        chunk = self._segments[: self._bench.config.sync_files_max]
        if not chunk:
            self._sync_directories()
            return
        del self._segments[: len(chunk)]
        files: list[File] = []
        paths: list[str] = []
        for segment in chunk:
            try:
                file = pool.get(segment.path)
            except FileNotFoundError:
                if not segment.is_removed:
                    self._bench.fail(DiskFailed(f"{segment.path} is missing"))
                    return
                continue
            pool.pin(segment.path)
            files.append(file)
            paths.append(segment.path)

        def done(error: DiskFailed | None) -> None:
            for path in paths:
                pool.unpin(path)
            if not self._has_failed(error):
                self._sync_segments()

        self._sync_parts(files, (), done)

    def _sync_parts(
        self,
        files: Sequence[File],
        directories: Sequence[str],
        on_done: Callable[[DiskFailed | None], None],
    ) -> None:
        """Sync some; in several parts at once where nobody else waits for the disk any more.

        A file system writes down together what is synced at the same time, so that a broker with
        hundreds of logs stops many times as fast.
        """
        count = len(files) + len(directories)
        size = max(1, -(-count // CLOSING_SYNCS_MAX)) if self._is_clean else max(1, count)
        parts: list[tuple[Sequence[File], Sequence[str]]] = [
            (files[at : at + size], ()) for at in range(0, len(files), size)
        ]
        parts += [((), directories[at : at + size]) for at in range(0, len(directories), size)]
        parts = parts or [((), ())]
        left, failed = len(parts), _NO_FAILURE

        def done(error: DiskFailed | None) -> None:
            nonlocal left, failed
            left, failed = left - 1, failed or error
            if not left:
                on_done(failed)

        for some_files, some_names in parts:
            self._bench.disk.sync(some_files, done, some_names)

    def _sync_directories(self) -> None:
        names_max = self._bench.config.sync_files_max
        names = [name for name in self._directories[:names_max] if not self._is_gone(name)]
        del self._directories[:names_max]

        def done(error: DiskFailed | None) -> None:
            left = [name for name in names if not self._is_gone(name)]
            if error is not None and len(left) < len(names):
                # One of them was taken away meanwhile: that is no failure of the others.
                self._directories += left
                error = None
            if not self._has_failed(error):
                self._sync_directories()

        if names:
            self._sync_parts((), names, done)
        elif self._directories:
            self._sync_directories()
        else:
            self._encode()

    def _is_gone(self, directory: str) -> bool:
        bench = self._bench
        return directory in bench.gone_directories or not bench.disk.exists(directory)

    def _encode(self) -> None:
        snapshots, self._snapshots = self._snapshots, []
        lines = dict(self._lines)
        wal_first, is_clean = self._wal_first, self._is_clean

        def work() -> tuple[dict[int, bytes], bytes]:
            for frozen in snapshots:
                lines[frozen.identity.group] = write_snapshot(thaw(frozen))
            content = write_checkpoint(
                wal_first=wal_first,
                is_clean=is_clean,
                has_wal=not is_clean,
                lines=list(lines.values()),
            )
            return lines, content

        self._bench.disk.run(work, self._on_encoded)

    def _on_encoded(self, result: object, error: Exception | None) -> None:
        if error is not None:
            self._bench.fail(DiskFailed(f"the checkpoint could not be made: {error!r}"))
            return
        self._lines, content = cast(tuple[dict[int, bytes], bytes], result)
        self._write(content)

    def _write(self, content: bytes) -> None:
        disk = self._bench.disk
        try:
            file = put_new_checkpoint(disk, content)
        except DiskFailed as error:
            self._bench.fail(error)
            return

        def on_synced(error: DiskFailed | None) -> None:
            file.close()
            if self._has_failed(error):
                return
            try:
                disk.rename(CHECKPOINT_NEW, CHECKPOINT)
            except DiskFailed as failure:
                self._bench.fail(failure)
                return
            disk.sync([], on_renamed, [ROOT])

        def on_renamed(error: DiskFailed | None) -> None:
            if not self._has_failed(error):
                self._finish()

        disk.sync([file], on_synced)

    def _finish(self) -> None:
        bench = self._bench
        covered, self._covered = self._covered, []
        for log, generation in covered:
            log.on_checkpointed(generation)
        for log, since in self._synced_too.items():
            if bench.sync_too.get(log) == since:
                del bench.sync_too[log]
        self._synced_too = {}
        try:
            bench.wal.release_before(self._wal_first)
        except DiskFailed as error:
            bench.fail(error)
            return
        bench.statistics.checkpoints += 1
        self._leaving = []
        self.is_running = False
        self.was_clean = self._is_clean
        self._on_done()

    def _has_failed(self, error: DiskFailed | None) -> bool:
        if error is not None:
            self._bench.fail(error)
        return error is not None or self._bench.has_failed
