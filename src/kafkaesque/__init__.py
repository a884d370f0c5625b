"""Kafkaesque: one replicated log behind every messaging protocol."""

__version__ = "0.2.0.dev0"
