"""A connection through which a client publishes to queues and consumes from them.

Nothing is read while too much waits, or while the broker takes no records.
"""

from __future__ import annotations

from typing import Final

from kafkaesque.broker.metadata.queue_names import QueueName
from kafkaesque.chassis.amqp.arguments import declaration_of
from kafkaesque.chassis.link import ClientConnection, Shared
from kafkaesque.gateway.queueing.desk import Desk

#: Events, and bytes of messages, of one connection that wait: with more nothing is read.
WAITING_MAX: Final = 2_000
WAITING_BYTES_MAX: Final = 8 * 1024 * 1024
#: So often it is looked whether a broker that takes no records does again.
UNBLOCK_MS: Final = 200


class QueueingLink(ClientConnection):
    """What connections inherit from; each brings `on_bytes`, and says that it is blocked."""

    __slots__ = (
        "_blocked",
        "desk",
        "exclusive",
        "has_written",
        "is_over",
        "is_receiving",
        "owner",
        "user",
        "vhost",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(shared)
        self.desk: Final = desk
        self.vhost = ""
        #: What the client says to be called.
        self.user = ""
        self.is_over = False
        #: Names this connection for ever, as the owner of exclusive queues.
        self.owner: Final = ".".join(map(str, desk.doors.queues.new_consumer()))
        #: Exclusive queues that it has asked for.
        self.exclusive: Final[set[QueueName]] = set()
        #: Events that wait to be carried out, and messages on their way to queues.
        self.waiting = 0
        self.waiting_bytes = 0
        #: Since this was set to False.
        self.has_written = False
        self._blocked = False
        #: Whether more of what has come together may follow.
        self.is_receiving = False

    @property
    def is_slow(self) -> bool:
        """Whether the client does not read what it was sent."""
        connection = self.connection
        return (
            connection is None
            or connection.unsent_bytes() > self.shared.options.unsent_bytes_max // 2
        )

    def write(self, data: bytes) -> None:
        """Send bytes of the codec."""
        if self.connection is not None and data:
            self.has_written = True
            self.connection.write((data,))

    # -- waiting

    def add_waiting(self, count: int, size: int) -> None:
        """Count what waits; negative: it has been done."""
        self.waiting += count
        self.waiting_bytes += size
        if count < 0 and not self.is_receiving:
            self.maybe_resume()

    def is_full(self) -> bool:
        """See `ClientConnection`."""
        return self.waiting >= WAITING_MAX or self.waiting_bytes >= WAITING_BYTES_MAX

    def has_room(self) -> bool:
        """See `ClientConnection`."""
        return self.waiting <= WAITING_MAX // 2 and self.waiting_bytes <= WAITING_BYTES_MAX // 2

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return self.waiting > 0

    def maybe_block(self) -> None:
        """Read no more while messages wait that this broker cannot take."""
        if not self.waiting_bytes or self._blocked or self.is_over or not self._is_out_of_space:
            return
        self._blocked = True
        self.on_blocked()
        self.hold()
        self.shared.clock.call_later(UNBLOCK_MS, self._maybe_unblock)

    @property
    def _is_out_of_space(self) -> bool:
        return self.desk.doors.condition.space.reason is not None

    def _maybe_unblock(self) -> None:
        if self.connection is None:
            return
        if self._is_out_of_space:
            self.shared.clock.call_later(UNBLOCK_MS, self._maybe_unblock)
            return
        self._blocked = False
        self.on_unblocked()
        self.release()

    def on_blocked(self) -> None:
        """The broker is low on disk, and it is not read from: tell a client that can be told."""

    def on_unblocked(self) -> None:
        """It is read from again."""

    # -- the end

    def delete_own_queues(self) -> None:
        """Delete the queues that go with the connection."""
        for name in self.exclusive:
            queue = self.desk.look(name)
            said = None if queue is None else declaration_of(queue)
            if queue is not None and said is not None and said.owner == self.owner:
                self.desk.delete_queue(queue)
