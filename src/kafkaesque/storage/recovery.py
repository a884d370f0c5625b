"""Opens a data directory: finds out what was promised, and brings every log back to at least that.

Theory of operation. The checkpoint says how each log was at one moment of the write-ahead log; the
records after that moment are first looked through (is the chain of files whole, where does it end,
which logs are deleted later on), then made durable, then done again, in order. What comes out is
synced and becomes the new checkpoint before anything else happens, so the old write-ahead log is
not needed again.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kafkaesque.env.disk import File
from kafkaesque.model.errors import InvariantBroken, ReadFailed
from kafkaesque.model.ids import NodeId
from kafkaesque.storage.checkpoint import (
    ROOT,
    Checkpoint,
    load_checkpoint,
    save_checkpoint_blocking,
    write_checkpoint,
)
from kafkaesque.storage.directory import (
    DELETED_SUFFIX,
    PARTITION_METADATA,
    check_owner,
    find_grave,
    make_partition_directory,
    move_aside,
    read_partition_metadata,
    write_owner,
)
from kafkaesque.storage.entries import LogIdentity
from kafkaesque.storage.errors import ADVICE, StorageCorrupt
from kafkaesque.storage.group_log import GroupLog
from kafkaesque.storage.log_recovery import FATEFUL, LogFate, LogRecovery
from kafkaesque.storage.log_snapshot import read_identity, thaw, write_snapshot
from kafkaesque.storage.wal import WAL_DIRECTORY, list_wal_numbers, wal_path
from kafkaesque.storage.wal_format import FILE_KINDS, Block, RecordKind, WalReader, WalRecord
from kafkaesque.storage.workbench import Workbench

#: What stands in one log's way and in no other's: the rest is opened. A failed write or sync is
#: everybody's.
DAMAGES = (StorageCorrupt, InvariantBroken, FileNotFoundError, ReadFailed)


@dataclass(slots=True, kw_only=True)
class RecoveryReport:
    """What was found at the start."""

    logs: int = 0
    was_clean: bool = True
    duration_ms: int = 0
    wal_files: int = 0
    wal_records: int = 0
    wal_bytes: int = 0
    #: Bytes behind the last good ones in segments, and whether the write-ahead log ended torn.
    cut_bytes: int = 0
    #: Directories that were not ours and were moved aside: their new names.
    strays: list[str] = field(default_factory=list)
    #: Directories that are gone with their logs, which begin anew with nothing.
    missing: list[str] = field(default_factory=list)
    #: Logs that cannot be used, by group, and why.
    damaged: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class _WalOutline:
    """What the first look at the write-ahead log has found."""

    numbers: list[int]
    #: Blocks in each file.
    blocks: list[int] = field(default_factory=list)
    fates: dict[int, LogFate] = field(default_factory=dict)
    #: Those that it has records of.
    groups: dict[int, None] = field(default_factory=dict)
    records: int = 0
    size_bytes: int = 0

    def is_deleted(self, group: int) -> bool:
        """Tell whether the log does not outlast the write-ahead log."""
        return group in self.fates and self.fates[group].is_deleted


@dataclass(slots=True)
class _Chain:
    """Where the files that were looked through lead."""

    #: The last of them.
    number: int | None = None
    #: Up to where that one can be read.
    ended: int = 0
    #: Its last block says that the next file is there.
    says_next_follows: bool = False
    #: Number of the next block, if there was one before it.
    expected: int | None = None


def _is_anothers(found: LogIdentity, identity: LogIdentity) -> bool:
    """Tell whether a directory is that of an earlier topic of the name.

    Otherwise what says whose it is was damaged: with its name all else is another topic's, too.
    """
    return (
        found.directory == identity.directory
        and found.group != identity.group
        and found.topic_id != identity.topic_id
    )


def _says_next_follows(block: Block) -> bool:
    return bool(block.records) and block.records[-1].kind == RecordKind.NEXT


class Recovery:
    """One start."""

    def __init__(
        self, bench: Workbench, cluster_id: str, node: NodeId, draw: Callable[[], int]
    ) -> None:
        self._bench = bench
        self._draw = draw
        self.directory_id = ""
        self._cluster_id = cluster_id
        self._node = node
        self.logs: dict[int, GroupLog] = {}
        #: For the checkpointer.
        self.lines: dict[int, bytes] = {}
        self.report = RecoveryReport()
        self._parts: dict[int, LogRecovery] = {}
        #: Logs of the checkpoint whose directory is not there, or was but made by another start.
        self._bare: dict[int, None] = {}
        #: Those of them that need one: they are gone, and begin anew.
        self._anew: dict[int, None] = {}

    def run(self) -> None:
        """Open the directory; waits.

        Raises:
            WrongDirectory: it is another broker's.
            StorageCorrupt: what all logs depend on is damaged.
            DiskFailed: the device refused, other than to read what is one log's.
        """
        bench = self._bench
        begun_ms = bench.clock.now_ms()
        bench.is_recovering = True
        owner = check_owner(bench.disk, self._cluster_id, self._node)
        self.directory_id = f"{self._draw():016x}" if owner is None else owner.directory_id
        if owner is None:
            self._make_new()
        elif not owner.directory_id:
            self.directory_id = f"{self._draw():016x}"
            write_owner(bench.disk, self._cluster_id, self._node, self.directory_id)
        checkpoint = load_checkpoint(bench.disk)
        outline = self._outline(checkpoint)
        self.report.was_clean = checkpoint.header.is_clean and not outline.numbers
        self._make_durable(outline)
        self._restore(checkpoint, outline)
        self._replay(outline)
        self._finish()
        self._persist(checkpoint, outline)
        for log in self.logs.values():
            log.on_noted()
            log.on_checkpointed(log.generation)
        bench.is_recovering = False
        self.report.logs = len(self.logs)
        self.report.duration_ms = bench.clock.now_ms() - begun_ms
        statistics = bench.statistics
        statistics.recovery_ms = self.report.duration_ms
        statistics.recovery_records = outline.records
        statistics.recovery_cut_bytes = self.report.cut_bytes

    def _make_new(self) -> None:
        disk = self._bench.disk
        disk.make_dir(WAL_DIRECTORY)
        content = write_checkpoint(wal_first=1, is_clean=True, lines=[])
        save_checkpoint_blocking(disk, content)
        write_owner(disk, self._cluster_id, self._node, self.directory_id)

    # -- the write-ahead log, first look

    def _outline(self, checkpoint: Checkpoint) -> _WalOutline:
        disk = self._bench.disk
        first = checkpoint.header.wal_first
        numbers = [number for number in list_wal_numbers(disk) if number >= first]
        outline = _WalOutline(numbers)
        has_wal = checkpoint.header.has_wal
        if numbers != list(range(first, first + max(len(numbers), has_wal))):
            raise StorageCorrupt(
                "files of the write-ahead log are missing: there are"
                f" {numbers or 'none'}, and the checkpoint needs all from {first} on; {ADVICE}"
            )
        chain = _Chain()
        for number in numbers:
            # The beginning of a file is durable before another one is made, a checkpoint names it,
            # or the file before says that it follows.
            has_begun = (
                number != numbers[-1] or (number == first and has_wal) or chain.says_next_follows
            )
            file = disk.open(wal_path(number))
            reader = WalReader(file, number)
            self._follow(outline, chain, reader, number, has_begun=has_begun)
            outline.size_bytes += chain.ended
            file.close()
        if chain.says_next_follows:
            raise StorageCorrupt(
                f"files of the write-ahead log are missing: there are {numbers}, and the last one"
                f" says that another one follows; {ADVICE}"
            )
        self.report.wal_files = len(numbers)
        self.report.wal_records = outline.records
        self.report.wal_bytes = outline.size_bytes
        return outline

    def _follow(
        self,
        outline: _WalOutline,
        chain: _Chain,
        reader: WalReader,
        number: int,
        *,
        has_begun: bool,
    ) -> None:
        """Look through one file, and see that it follows on the one before."""
        is_last = number == outline.numbers[-1]
        reserved = self._check_link(chain, reader, number, is_last=is_last)
        chain.number, chain.says_next_follows = number, False
        count = 0
        for block in reader.blocks(chain.expected):
            self._note_block(outline, block)
            count += 1
            chain.expected = block.number + 1
            chain.says_next_follows = _says_next_follows(block)
        outline.blocks.append(count)
        self._check_begun(reader, number, count, reserved, has_begun=has_begun)
        self._check_end(reader, number, chain.expected)
        chain.ended = reader.position

    @staticmethod
    def _check_link(chain: _Chain, reader: WalReader, number: int, *, is_last: bool) -> int:
        """See that a file follows on the one before; return the bytes that it was given."""
        prepared, first = reader.prepared, reader.block_at(reader.position)
        link = prepared
        if first is not None:
            link = first.records[0] if first.records else None
            if link is None or link.kind != RecordKind.FILE:
                raise StorageCorrupt(f"{wal_path(number)} does not begin as it should; {ADVICE}")
        if link is None:
            return 0
        if chain.number is None:
            return link.prev_index
        is_right = link.first_index == chain.number
        if first is not None:
            is_right = is_right and link.last_index == chain.ended
        if prepared is not None:
            # Nothing is written to it, and none made behind it, before the one before says that it
            # follows.
            may_be_used = chain.says_next_follows or (first is None and is_last)
            is_right = is_right and prepared.last_index <= chain.ended and may_be_used
        if not is_right:
            raise StorageCorrupt(
                f"{wal_path(chain.number)} can be read up to byte {chain.ended} only, but"
                f" {wal_path(number)} says that there was more; {ADVICE}"
            )
        return link.prev_index

    @staticmethod
    def _check_begun(
        reader: WalReader, number: int, count: int, reserved: int, *, has_begun: bool
    ) -> None:
        """See that what was durable of a file before more was written to it is there.

        With `has_begun` its beginning was; if there are more blocks, it was in any case.
        """
        if has_begun and not count and reader.prepared is None:
            raise StorageCorrupt(f"{wal_path(number)} cannot be read; {ADVICE}")
        if (has_begun or count > 1) and reader.size < reserved:
            raise StorageCorrupt(
                f"{wal_path(number)} has been cut: of {reserved} bytes it has"
                f" {reader.size}; {ADVICE}"
            )

    @staticmethod
    def _check_end(reader: WalReader, number: int, expected: int | None) -> None:
        newer = reader.newer_block_after(reader.position, expected if expected is not None else 0)
        if newer is not None:
            raise StorageCorrupt(
                f"{wal_path(number)} is damaged at byte {reader.position}: what was written later,"
                f" at byte {newer.position}, is whole; {ADVICE}"
            )

    @staticmethod
    def _note_block(outline: _WalOutline, block: Block) -> None:
        outline.records += len(block.records)
        for record in block.records:
            if record.kind not in FILE_KINDS:
                outline.groups[record.group] = None
            if record.kind in FATEFUL:
                outline.fates.setdefault(record.group, LogFate()).note(record)

    def _make_durable(self, outline: _WalOutline) -> None:
        """See that the records that were found stay, before anything is done that they say.

        What was read may be in the page cache only, for the process may have died while a sync was
        on its way. What a record cuts off or gives up must not be gone without the record.
        """
        disk = self._bench.disk
        for number in outline.numbers:
            file = disk.open(wal_path(number))
            disk.sync_blocking([file])
            file.close()
        if outline.numbers:
            disk.sync_blocking([], [WAL_DIRECTORY])

    # -- the logs

    def _restore(self, checkpoint: Checkpoint, outline: _WalOutline) -> None:
        owners: dict[str, int] = {}
        for identity in (snapshot.identity for snapshot in checkpoint.logs):
            if not outline.is_deleted(identity.group):
                owners[identity.directory] = max(identity.group, owners.get(identity.directory, 0))
        for snapshot, line in zip(checkpoint.logs, checkpoint.lines, strict=True):
            group = snapshot.identity.group
            if outline.is_deleted(group):
                continue
            part = self._add(snapshot.identity, outline)
            self.lines[group] = line
            try:
                if owners[snapshot.identity.directory] != group or not self._check_directory(part):
                    self._dispossess(part.log.identity)
                    continue
                if self._is_bare_directory(snapshot.identity.directory):
                    self._bare[group] = None
                part.restore(snapshot)
            except DAMAGES as error:
                self._give_up(group, error)

    def _add(self, identity: LogIdentity, outline: _WalOutline) -> LogRecovery:
        log = GroupLog(self._bench, identity)
        part = LogRecovery(self._bench, log, outline.fates.get(identity.group, LogFate()))
        self._parts[identity.group] = part
        return part

    def _check_directory(self, part: LogRecovery) -> bool:
        """See that the directory is there, and ours; False if it is that of a later topic."""
        disk, identity = self._bench.disk, part.log.identity
        directory = identity.directory
        if disk.exists(directory):
            found = read_partition_metadata(disk, directory)
            if found == identity:
                return True
            if found is not None and _is_anothers(found, identity):
                if found.group > identity.group and find_grave(disk, identity) is None:
                    return False
                self._move_aside(directory)
                if found.group in self._parts:
                    self._dispossess(found)
        grave = find_grave(disk, identity)
        if grave is not None:
            if disk.exists(directory):
                # It was made again at once, but what says for whom was not written.
                self._move_aside(directory)
            # It was to be deleted, but that was not durable: so it was not.
            disk.rename(grave, directory)
        make_partition_directory(disk, identity)
        self._bench.dirty_directories[directory] = None
        self._bench.dirty_directories[ROOT] = None
        return True

    def _move_aside(self, directory: str) -> None:
        self._bench.pool.drop_directory(directory)
        self.report.strays.append(move_aside(self._bench.disk, directory))

    def _dispossess(self, identity: LogIdentity) -> None:
        """Leave a log alone whose topic was deleted and made again while it could not be used."""
        self.report.damaged[identity.group] = (
            f"{identity.directory} is the directory of a later topic of that name; this one was"
            " deleted while its log here was damaged"
        )

    def _replay(self, outline: _WalOutline) -> None:
        for number, count in zip(outline.numbers, outline.blocks, strict=True):
            file = self._bench.disk.open(wal_path(number))
            reader = WalReader(file, number)
            blocks = reader.blocks(None)
            for _ in range(count):
                for record in next(blocks).records:
                    self._replay_record(record, outline)
            file.close()

    def _replay_record(self, record: WalRecord, outline: _WalOutline) -> None:
        group = record.group
        if record.kind in FILE_KINDS or outline.is_deleted(group):
            return
        if record.kind == RecordKind.CREATE:
            part = self._add(read_identity(record.payload), outline)
            try:
                if not self._check_directory(part):
                    self._dispossess(part.log.identity)
            except ReadFailed as error:
                self._give_up(group, error)
            return
        if group in self.report.damaged or group in self._anew:
            return
        found = self._parts.get(group)
        if found is None:
            raise StorageCorrupt(
                f"the write-ahead log has records of group {group}, which the checkpoint does not"
                f" know; {ADVICE}"
            )
        try:
            found.replay(record)
        except DAMAGES as error:
            self._give_up(group, error)

    def _finish(self) -> None:
        bench = self._bench
        for group, part in list(self._parts.items()):
            if group in self.report.damaged or group in self._anew:
                continue
            try:
                if not self.report.was_clean:
                    part.finish()
            except DAMAGES as error:
                self._give_up(group, error)
            self.report.cut_bytes += part.cut_bytes
        for group, part in self._parts.items():
            if group not in self.report.damaged:
                self.logs[group] = part.log
        for name in bench.disk.list_dir(ROOT):
            if name.endswith(DELETED_SUFFIX):
                bench.disk.remove_tree(name)

    def damaged_identities(self) -> dict[int, LogIdentity]:
        """Return whose the logs are that cannot be used, by group."""
        return {group: self._parts[group].log.identity for group in self.report.damaged}

    def _is_bare_directory(self, directory: str) -> bool:
        return not set(self._bench.disk.list_dir(directory)) - {PARTITION_METADATA}

    def _give_up(self, group: int, error: Exception) -> None:
        if group in self._bare:
            self._begin_anew(group)
        else:
            self.report.damaged[group] = str(error)

    def _begin_anew(self, group: int) -> None:
        """Let a log that somebody has removed be empty, and remember that it was not."""
        bench, identity = self._bench, self._parts[group].log.identity
        bench.pool.drop_directory(identity.directory)
        log = GroupLog(bench, identity)
        log.amnesia = self._draw()
        part = self._parts[group] = LogRecovery(bench, log, LogFate())
        part.finish()
        bench.dirty_directories[identity.directory] = None
        self._anew[group] = None
        self.report.missing.append(identity.directory)

    # -- the new beginning

    def _persist(self, checkpoint: Checkpoint, outline: _WalOutline) -> None:
        """Make the outcome durable, and begin a new write-ahead log."""
        bench = self._bench
        number = checkpoint.header.wal_first
        old = list_wal_numbers(bench.disk)
        self._note_forgotten(checkpoint, outline)
        if outline.numbers or self._anew:
            self._sync_all()
            if outline.numbers:
                number = outline.numbers[-1] + 1
            lines = {
                group: line for group, line in self.lines.items() if group in self.report.damaged
            }
            for group, log in self.logs.items():
                log.segments.dirty.clear()
                lines[group] = write_snapshot(thaw(log.freeze()))
            self.lines = lines
            content = write_checkpoint(wal_first=number, lines=list(lines.values()))
            save_checkpoint_blocking(bench.disk, content)
        else:
            # The process may have died after the rename of the checkpoint and before its sync.
            # Files before `wal_first` are reused from here on: there must be no way back.
            bench.disk.sync_blocking([], [ROOT])
        bench.dirty_logs.clear()
        if not bench.disk.exists(WAL_DIRECTORY):
            bench.disk.make_dir(WAL_DIRECTORY)
        bench.wal.start(number, [n for n in old if n < number])
        file, directories = bench.wal.write(0)
        bench.disk.sync_blocking([file], directories)
        bench.wal.on_synced()
        # From here on a write-ahead log that is not there was taken away.
        content = write_checkpoint(wal_first=number, has_wal=True, lines=list(self.lines.values()))
        save_checkpoint_blocking(bench.disk, content)

    def _note_forgotten(self, checkpoint: Checkpoint, outline: _WalOutline) -> None:
        """Let damaged logs remember that they have forgotten what came after their checkpoint.

        Their records of the write-ahead log are given up, a vote maybe among them. What is missing
        may come back, with a disk that is mounted late for example: then they have no vote. Of
        those that no checkpoint knows yet nothing else is kept.
        """
        for snapshot in checkpoint.logs:
            group = snapshot.identity.group
            if group in self.report.damaged and group in outline.groups:
                self.lines[group] = write_snapshot(replace(snapshot, amnesia=self._draw()))
        for group in self.report.damaged:
            if group not in self.lines:
                log = GroupLog(self._bench, self._parts[group].log.identity)
                log.amnesia = self._draw()
                self.lines[group] = write_snapshot(thaw(log.freeze()))

    def _sync_all(self) -> None:
        bench = self._bench
        chunk_max = bench.config.sync_files_max
        dirty = [segment for log in self.logs.values() for segment in log.segments.dirty]
        for begin in range(0, len(dirty), chunk_max):
            files: list[File] = [bench.pool.get(s.path) for s in dirty[begin : begin + chunk_max]]
            bench.disk.sync_blocking(files)
        # Files that were found may have been made just before the process died.
        names = bench.dirty_directories | dict.fromkeys(segment.directory for segment in dirty)
        bench.disk.sync_blocking([], [name for name in names if bench.disk.exists(name)])
        bench.dirty_directories.clear()
