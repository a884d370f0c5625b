"""Exchanges and bindings: which queues a message goes to."""
