"""Kafka's wire protocol: bytes to messages and back, without sockets and without state."""
