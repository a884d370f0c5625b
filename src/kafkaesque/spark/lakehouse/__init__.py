"""Delta Lake tables: topics are archived in them exactly once and read back, as of any time."""
