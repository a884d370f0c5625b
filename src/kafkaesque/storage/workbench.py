"""What all logs of a broker share: the disk, the queue of the write-ahead log, caches, lists."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator

from kafkaesque.env.clock import Clock
from kafkaesque.env.disk import Disk
from kafkaesque.model.errors import DiskFailed
from kafkaesque.storage.config import StorageConfig
from kafkaesque.storage.entries import LogIdentity
from kafkaesque.storage.file_pool import FilePool
from kafkaesque.storage.log_snapshot import FrozenLog
from kafkaesque.storage.segment import Segment
from kafkaesque.storage.statistics import StorageStatistics
from kafkaesque.storage.tail_cache import TailCache
from kafkaesque.storage.wal import WriteAheadLog


class SharedLog(ABC):
    """A log, as far as the store and its checkpoints know it while it changes."""

    __slots__ = ("generation", "identity", "is_deleted")

    def __init__(self, identity: LogIdentity) -> None:
        self.identity = identity
        #: Counts what makes positions that were read before void.
        self.generation = 0
        self.is_deleted = False

    @property
    @abstractmethod
    def is_held(self) -> bool:
        """Whether the files do not have what the log has, because a group commit is waited for."""

    @property
    @abstractmethod
    def is_replacing(self) -> bool:
        """Whether segments wait for others that take their place."""

    @abstractmethod
    def unsynced_segments(self) -> Iterator[Segment]:
        """Return the segments with bytes that no sync is known to have covered."""

    @abstractmethod
    def freeze(self) -> FrozenLog:
        """Return what a checkpoint keeps of this log, as it is now."""

    @abstractmethod
    def on_noted(self) -> list[Segment]:
        """A checkpoint is being made of the log as it is now: return the segments that it syncs."""

    @abstractmethod
    def on_checkpointed(self, generation: int) -> None:
        """A checkpoint that covers the log as of a generation is durable."""

    @abstractmethod
    def on_committed(self, commit: int) -> None:
        """A group commit is durable: do to the files what waited for it."""


class IndexCache:
    """Bounds what the indexes of closed segments take; they can always be read again."""

    __slots__ = ("_bytes_max", "_loaded", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._loaded: dict[Segment, int] = {}
        self.size_bytes = 0

    def touch(self, segment: Segment) -> None:
        """A closed segment's index was loaded or used."""
        self.forget(segment)
        if segment.index is None or segment.is_removed:
            return
        size = segment.index.size_bytes
        self._loaded[segment] = size
        self.size_bytes += size
        while self.size_bytes > self._bytes_max and len(self._loaded) > 1:
            oldest = next(iter(self._loaded))
            oldest.index = None
            self.forget(oldest)

    def forget(self, segment: Segment) -> None:
        """The segment is written again, or gone."""
        self.size_bytes -= self._loaded.pop(segment, 0)


class Workbench:
    """Shared, and changed by logs and store alike; the store makes it and empties the lists."""

    __slots__ = (
        "ask_submit",
        "blocked",
        "cache",
        "clock",
        "config",
        "dirty_directories",
        "dirty_logs",
        "disk",
        "durable_commit",
        "fail",
        "gone_directories",
        "has_failed",
        "indexes",
        "is_closing",
        "is_recovering",
        "names_to_sync",
        "next_commit",
        "pool",
        "statistics",
        "sync_too",
        "unsettled",
        "wal",
    )

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: StorageConfig,
        *,
        fail: Callable[[DiskFailed], None],
        ask_submit: Callable[[], None],
    ) -> None:
        self.disk = disk
        self.clock = clock
        self.config = config
        self.statistics = StorageStatistics()
        self.pool = FilePool(disk, config.open_files_max)
        self.wal = WriteAheadLog(disk, config, self.statistics)
        self.cache = TailCache(config.cache_bytes_max)
        self.indexes = IndexCache(config.index_cache_bytes_max)
        #: Fences the store.
        self.fail = fail
        #: Asks for a group commit although nobody waits for one.
        self.ask_submit = ask_submit
        #: Why nothing may be appended now.
        self.blocked: DiskFailed | None = None
        #: That is for good; otherwise the disk is only too full.
        self.has_failed = False
        #: The last checkpoint has noted how things are: nothing may change any more.
        self.is_closing = False
        #: What is written now is in the write-ahead log already.
        self.is_recovering = False
        #: Number of the group commit that takes what is queued now.
        self.next_commit = 1
        #: Number of the last one that is durable.
        self.durable_commit = 0
        #: Logs that have changed since the last checkpoint began.
        self.dirty_logs: dict[SharedLog, None] = {}
        #: Directories with new names in them since then, and those that were taken away.
        self.dirty_directories: dict[str, None] = {}
        self.gone_directories: dict[str, None] = {}
        #: Logs that wait for a group commit before they touch their files.
        self.unsettled: dict[SharedLog, None] = {}
        #: Directories whose names the next group commit has to sync, too.
        self.names_to_sync: dict[str, None] = {}
        #: Logs whose segments each group commit has to sync, with the commit since which they do.
        self.sync_too: dict[SharedLog, int] = {}
