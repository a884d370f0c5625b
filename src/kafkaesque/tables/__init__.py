"""The kit for replicated tables: life cycle, writes under way, timers, waits, refusals."""
