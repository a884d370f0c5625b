"""Kafkaesque: one replicated log behind every messaging protocol."""

__version__ = "0.1.0.dev0"
