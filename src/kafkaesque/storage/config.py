"""How a broker's storage behaves, fixed when it starts, and how one log differs from another."""

from dataclasses import dataclass

from kafkaesque.model.errors import ConfigError

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
DAY_MS = 24 * 60 * 60 * 1000

#: Field, least and greatest value.
_RANGES = (
    ("segment_bytes_max", 1 * KIB, 2 * GIB - 1),
    ("segment_ms_max", 1, 2**63 - 1),
    ("index_interval_bytes", 1, 1 * GIB),
    ("wal_bytes", 4 * KIB, 16 * GIB),
    ("wal_files_max", 2, 1024),
    ("wal_pending_bytes_max", 1 * KIB, 16 * GIB),
    ("open_files_max", 8, 1_000_000),
    ("cache_bytes_max", 0, 64 * GIB),
    ("index_cache_bytes_max", 0, 64 * GIB),
    ("free_bytes_min", 0, 2**63 - 1),
    ("sync_files_max", 1, 4096),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageConfig:
    """One broker's storage.

    Raises:
        ConfigError: a value is out of range, or two contradict each other.
    """

    #: Kafka: `log.segment.bytes`; a batch larger than this gets a segment of its own.
    segment_bytes_max: int = 1 * GIB
    #: Kafka: `log.roll.ms`.
    segment_ms_max: int = 7 * DAY_MS
    #: Kafka: `log.index.interval.bytes`; also the longest walk over headers on a read.
    index_interval_bytes: int = 4 * KIB
    #: Size at which the write-ahead log goes on in another file and a checkpoint is made.
    wal_bytes: int = 64 * MIB
    #: With more files than this waiting for a checkpoint, `LogStore.over_bound` holds.
    wal_files_max: int = 4
    #: Bytes queued for the write-ahead log and not yet durable above which `over_bound` holds.
    wal_pending_bytes_max: int = 64 * MIB
    #: Segments and indexes that are open at the same time.
    open_files_max: int = 1024
    #: Recent entries that are kept in memory, over all logs.
    cache_bytes_max: int = 32 * MIB
    #: Indexes of closed segments that are kept in memory, over all logs.
    index_cache_bytes_max: int = 32 * MIB
    #: With less free space than this, appends are refused, so that a checkpoint still fits.
    free_bytes_min: int = 64 * MIB
    #: Files that one background sync covers.
    sync_files_max: int = 64

    def __post_init__(self) -> None:
        for name, least, greatest in _RANGES:
            value = getattr(self, name)
            if not least <= value <= greatest:
                raise ConfigError(f"{name} = {value} is not from {least} to {greatest}")
        if self.sync_files_max * 2 > self.open_files_max:
            raise ConfigError(
                f"sync_files_max = {self.sync_files_max} needs open_files_max of at least twice"
                f" that, not {self.open_files_max}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOptions:
    """What a topic's options change in its logs; None takes the broker's value."""

    segment_bytes_max: int | None = None
    segment_ms_max: int | None = None
    index_interval_bytes: int | None = None
