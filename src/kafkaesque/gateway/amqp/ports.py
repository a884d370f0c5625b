"""A connection and a channel as their parts see them: what is sent, and who waits for whom."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from kafkaesque.chassis.link import Shared
from kafkaesque.gateway.amqp.errors import failed
from kafkaesque.gateway.queueing.desk import Desk
from kafkaesque.gateway.queueing.link import QueueingLink
from kafkaesque.protocols.amqp.connection import Connection as Codec
from kafkaesque.protocols.amqp.errors import AmqpError, ReplyCode
from kafkaesque.protocols.amqp.methods import Method, QueueBind, QueueUnbind
from kafkaesque.protocols.amqp.states import ConnectionState


class AmqpLink(QueueingLink):
    """A connection; `AmqpConnection` is the whole of it."""

    __slots__ = ("codec", "knows_blocked", "knows_cancel")

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(desk, shared)
        self.codec: Final = Codec()
        #: What the client can be told.
        self.knows_blocked = False
        self.knows_cancel = False

    @property
    def is_closing(self) -> bool:
        """Whether nothing more is sent, because it was told to end."""
        return self.codec.state in (ConnectionState.AWAITS_CLOSE_OK, ConnectionState.CLOSED)

    def send(self, channel: int, method: Method) -> None:
        """Send a method without content, if that is still of use."""
        if self.connection is None or self.is_over:
            return
        if self.is_closing or (channel and not self.codec.can_deliver(channel)):
            return
        self.write(self.codec.send(channel, method))

    @abstractmethod
    def receive(self, data: bytearray | memoryview | bytes = b"") -> None:
        """Take what has come, and what has waited until it was our turn."""

    @abstractmethod
    def begin_heartbeats(self) -> None:
        """Send them, and expect them, if the client wants any."""

    @abstractmethod
    def forget_channel(self, number: int) -> None:
        """A channel is closed."""

    @abstractmethod
    def fail(self, error: AmqpError) -> None:
        """Tell the client its mistake, and end the connection when it has answered."""


class ChannelPort(ABC):
    """A channel; `Channel` is the whole of it."""

    __slots__ = ("connection", "is_ended", "last_queue", "number")

    def __init__(self, connection: AmqpLink, number: int) -> None:
        self.connection: Final = connection
        self.number: Final = number
        #: What an empty name of a queue stands for.
        self.last_queue = ""
        #: Whether one side has closed it.
        self.is_ended = False

    @property
    def is_over(self) -> bool:
        """Whether nobody hears what is sent on it."""
        return self.is_ended or self.connection.connection is None

    def send(self, method: Method) -> None:
        """Send a method without content, if that is still of use."""
        if not self.is_ended:
            self.connection.send(self.number, method)

    def queue_name(self, name: str, method: Method) -> str:
        """Return which queue is meant: an empty name is that of the last one declared.

        Raises:
            AmqpError: none was.
        """
        if name:
            return name
        if not self.last_queue:
            raise failed(ReplyCode.NOT_FOUND, "no previously declared queue", method)
        return self.last_queue

    def bound_key(self, method: QueueBind | QueueUnbind) -> str:
        """Return which key is meant: where neither queue nor key is said, the queue's name."""
        return method.routing_key or ("" if method.queue else self.last_queue)

    @abstractmethod
    def fail(self, error: AmqpError) -> None:
        """Tell the client its mistake: it ends the channel, or the connection."""

    @abstractmethod
    def begin(self) -> None:
        """What is carried out has to wait for an answer."""

    @abstractmethod
    def done(self) -> None:
        """It has its answer."""

    @abstractmethod
    def go_on_with(self, act: Callable[[], None], method: Method | None = None) -> None:
        """Go on with what had to wait, which may have to wait again; then with what is behind it.

        What is raised then is the client's mistake, too.
        """

    @abstractmethod
    def when_published(self, on_done: Callable[[], None]) -> None:
        """Call when all that was published is in its queues, or is known not to be."""
