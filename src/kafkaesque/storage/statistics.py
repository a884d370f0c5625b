"""What storage has done, in numbers."""

from dataclasses import dataclass, field

from kafkaesque.model.histogram import Histogram

#: Commits of 1, 2-3, 4-7, ... records; the last bucket takes all larger ones.
BATCH_BUCKETS = 16


@dataclass(slots=True)
class StorageStatistics:
    """Counters since the start; read only for everybody but storage."""

    commits: int = 0
    commit_syncs: int = 0
    #: How long each of them took, the write not counted.
    sync_latency: Histogram = field(default_factory=Histogram)
    wal_bytes: int = 0
    wal_records: int = 0
    wal_files: int = 0
    segment_bytes: int = 0
    #: Records per commit, by power of two.
    commit_sizes: list[int] = field(default_factory=lambda: [0] * BATCH_BUCKETS)
    checkpoints: int = 0
    #: How often a write-ahead file was full while a checkpoint was still being made.
    checkpoints_late: int = 0
    cold_reads: int = 0
    indexes_rebuilt: int = 0
    #: Indexes of segments' keys that were made.
    key_indexes_built: int = 0
    #: Records that readers of few keys did not have to read because of them.
    records_passed_over: int = 0
    recovery_ms: int = 0
    recovery_records: int = 0
    #: Bytes at the end of the write-ahead log or of segments that were cut off.
    recovery_cut_bytes: int = 0

    def count_commit(self, records: int) -> None:
        """Note a commit."""
        self.commits += 1
        bucket = max(records.bit_length() - 1, 0)
        self.commit_sizes[min(bucket, BATCH_BUCKETS - 1)] += 1
