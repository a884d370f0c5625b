"""Refuses what comes late: over an older connection than the one that its producer speaks over now.

A client speaks with one broker over one connection at a time, and within a connection nothing is
overtaken. So a request over an older connection than another one of the same incarnation is one
that its client has given up long ago (ADR 6). Clients that get a new epoch for each transaction do
not need it; others have nothing else that tells a late request from one of the next transaction.
"""

from typing import Final


class ConnectionFence:
    """The newest connection of each of some producers, those that spoke last."""

    __slots__ = ("_heard", "_producers_max")

    def __init__(self, producers_max: int) -> None:
        self._producers_max: Final = producers_max
        #: By producer id, the one that spoke last at the end: epoch and connection.
        self._heard: Final[dict[int, tuple[int, int]]] = {}

    def is_late(self, producer_id: int, epoch: int, connection: int) -> bool:
        """Return whether this incarnation, or a later one, has spoken over a newer connection."""
        return (epoch, connection) < self._heard.get(producer_id, (epoch, connection))

    def note(self, producer_id: int, epoch: int, connection: int) -> None:
        """Take note of who has spoken; of an epoch that was found to be right."""
        speaker = epoch, connection
        self._heard[producer_id] = max(self._heard.pop(producer_id, speaker), speaker)
        if len(self._heard) > self._producers_max:
            del self._heard[next(iter(self._heard))]
