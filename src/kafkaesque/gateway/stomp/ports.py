"""A connection as its parts see it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Final

from kafkaesque.access.operations import Operation, ResourceType
from kafkaesque.chassis.link import Shared
from kafkaesque.chassis.routing_keys import refusal_of_keys
from kafkaesque.gateway.queueing.desk import Desk
from kafkaesque.gateway.queueing.link import QueueingLink
from kafkaesque.gateway.queueing.needs import Need, has, refusal_of
from kafkaesque.protocols.stomp.connection import Connection as Codec
from kafkaesque.protocols.stomp.connection import ConnectionState
from kafkaesque.protocols.stomp.errors import StompError

_O, _QUEUE, _EXCHANGE = Operation, ResourceType.QUEUE, ResourceType.EXCHANGE


def to_queue(operation: Operation, name: str) -> Need:
    """Return the need for an operation on a queue."""
    return Need(operation, _QUEUE, name)


def to_exchange(operation: Operation, name: str) -> Need:
    """Return the need for an operation on an exchange."""
    return Need(operation, _EXCHANGE, name)


class StompLink(QueueingLink):
    """A connection; `StompConnection` is the whole of it."""

    __slots__ = ("codec",)

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(desk, shared)
        self.codec: Final = Codec(shared.clock.now_ms())

    @property
    def is_closed(self) -> bool:
        """Whether nobody hears what is sent."""
        return (
            self.is_over or self.connection is None or self.codec.state is not ConnectionState.OPEN
        )

    def write(self, data: bytes) -> None:
        """See `QueueingLink`."""
        super().write(data)
        self.codec.note_sent(self.shared.clock.now_ms())

    def check(self, need: Need) -> None:
        """Check that the client may do something; without rights it may.

        Raises:
            StompError: no rule allows it.
        """
        if not has(self, need):
            raise StompError(refusal_of(self.user, self.vhost, need))

    def check_key(self, operation: Operation, exchange: str, key: str) -> None:
        """Check that the client may publish (Write) or bind (Read) with a routing key.

        Raises:
            StompError: a topic permission of the user does not fit it.
        """
        exchanges = self.desk.doors.exchanges
        refusal = refusal_of_keys(self.rights, exchanges, operation, self.vhost, exchange, (key,))
        if refusal is not None:
            raise StompError(refusal)

    @abstractmethod
    def begin(self) -> None:
        """What is carried out has to wait for an answer."""

    @abstractmethod
    def go_on_with(self, act: Callable[[], None]) -> None:
        """Go on with what had to wait; what is raised then is the client's mistake, too."""

    @abstractmethod
    def fail(self, error: StompError) -> None:
        """Tell the client its mistake, and close."""
