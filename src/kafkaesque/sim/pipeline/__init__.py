"""Workers that consume, transform and produce in transactions, as a group; exactly once."""
