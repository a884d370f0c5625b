"""What a broker does unasked: compaction, scrubbing, log starts, moves, recovery of groups."""
