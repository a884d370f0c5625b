"""What lies on disk: segments, their indexes, the write-ahead log, retention, compaction."""
