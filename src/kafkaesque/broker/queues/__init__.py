"""Queues on this broker: the engine at the leader of each queue's log, and the way to it."""
