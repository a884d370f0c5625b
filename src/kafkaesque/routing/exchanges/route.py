"""What routing finds for a message."""

from collections.abc import Collection
from typing import NamedTuple

from kafkaesque.routing.exchanges.records import Destination


class Route(NamedTuple):
    """Where a message goes, each queue and each topic once; nowhere, if it is unroutable."""

    queues: tuple[str, ...]
    #: Queues that are to have it only after `delay_ms`.
    delayed_queues: tuple[str, ...] = ()
    delay_ms: int = 0
    #: Topics delay nothing.
    topics: tuple[str, ...] = ()
    #: Whether it comes, without delay, to the exchange whose names MQTT, STOMP and NATS share.
    has_names: bool = False
    #: For each topic: how many levels of the name choose its partition; 0: all. Empty: all of all.
    key_levels: tuple[int, ...] = ()
    #: Queues and topics that get it changed, each with the name of the transformation.
    transformed: tuple[tuple[Destination, str], ...] = ()
    #: The topic that keeps the message once for all its queues; empty: each has its own.
    log: str = ""

    @property
    def is_unroutable(self) -> bool:
        """Whether no queue and no topic is to have it."""
        return not self.queues and not self.delayed_queues and not self.topics


def without(route: Route, queues: Collection[str]) -> Route:
    """Return a route that leads to all that it led to but some queues."""
    return route._replace(
        queues=tuple(each for each in route.queues if each not in queues),
        delayed_queues=tuple(each for each in route.delayed_queues if each not in queues),
        transformed=tuple(
            (place, name)
            for place, name in route.transformed
            if place.is_topic or place.name not in queues
        ),
    )
