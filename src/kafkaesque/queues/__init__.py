"""The queue engine: who has which message until when, decided in memory and kept in a log."""
