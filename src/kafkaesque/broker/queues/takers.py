"""What queues and topics of a virtual host take of messages that transformations change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from kafkaesque.broker.metadata.cluster_state import ClusterState
from kafkaesque.broker.metadata.queue_sealing import may_go
from kafkaesque.broker.options.topic_config import resolve_option
from kafkaesque.model.options import OptionValue
from kafkaesque.routing.exchanges.records import Destination

#: Bytes for a batch around a message, and for what brokers say of it in headers of their own.
_AROUND_BYTES: Final = 1024


class Takers(Protocol):
    """Tells what a place takes; one that is gone takes everything."""

    def may_stand_in(self, meant: Destination, failures: str) -> bool:
        """Tell whether a queue may have, for failures, what was meant for a place.

        It may not have in the clear what an encrypted one was to have.
        """

    def takes(self, place: Destination, size_bytes: int) -> bool:
        """Tell whether a place certainly takes a message of this size."""


class KnownTakers:
    """They are told by the metadata of now."""

    __slots__ = ("_options", "_queues", "_state")

    def __init__(self, state: ClusterState, vhost: str, options: Mapping[str, OptionValue]) -> None:
        """`options` are the broker's, which hold for topics without their own."""
        self._state = state
        self._queues = state.queues_by_vhost.get(vhost, {})
        self._options = options

    def may_stand_in(self, meant: Destination, failures: str) -> bool:
        """See `Takers`."""
        there = (self._state.topics if meant.is_topic else self._queues).get(meant.name)
        stand_in = self._queues.get(failures)
        return there is None or stand_in is None or may_go(self._state, there, stand_in)

    def takes(self, place: Destination, size_bytes: int) -> bool:
        """See `Takers`."""
        there = (self._state.topics if place.is_topic else self._queues).get(place.name)
        if there is None:
            return True
        bytes_max, _ = resolve_option("max.message.bytes", there.configs, self._options)
        return size_bytes + _AROUND_BYTES <= int(bytes_max)
