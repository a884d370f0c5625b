"""A connection as its parts see it: what is sent, and who waits for whom."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Final

from kafkaesque.broker.doors.live import Origin
from kafkaesque.chassis.deliveries import DeliveringConnection
from kafkaesque.chassis.link import Shared
from kafkaesque.gateway.mqtt.desk import Desk
from kafkaesque.gateway.mqtt.sessions import Session
from kafkaesque.gateway.mqtt.subscriptions import Subscriptions
from kafkaesque.protocols.mqtt.connection import Connection as Codec
from kafkaesque.protocols.mqtt.errors import MqttError
from kafkaesque.protocols.mqtt.packets import Connect, Packet, Version

#: What the protocol's listeners are called, and the origins of what comes by them.
PROTOCOL: Final = "mqtt"


class MqttLink(DeliveringConnection):
    """A connection; `MqttConnection` is the whole of it."""

    __slots__ = (
        "codec",
        "desk",
        "is_over",
        "origin_of",
        "session",
        "subscriptions",
        "user",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(shared, desk.outbox)
        self.desk: Final = desk
        self.codec: Final = Codec(shared.clock.now_ms())
        #: Who has logged in; empty: nobody in particular.
        self.user = ""
        #: Whether nothing more is to be said.
        self.is_over = False
        #: What outlives this connection; None: nothing does.
        self.session: Session | None = None
        self.subscriptions: Final = Subscriptions()
        #: As whose its messages reach subscribers.
        self.origin_of: Final[Origin] = desk.doors.live.new_origin(PROTOCOL)
        #: Events that wait, and messages on their way to queues, and their bytes.
        self.waiting = 0
        self.waiting_bytes = 0

    @property
    def login_name(self) -> str:
        """See `Claimant`."""
        return self.user

    @property
    def is_v5(self) -> bool:
        """Whether the client can be told reasons."""
        return self.codec.version is Version.V5

    @property
    def is_slow(self) -> bool:
        """Whether the client does not read what it was sent."""
        connection = self.connection
        return (
            connection is None
            or self.waiting_to_leave() > self.shared.options.unsent_bytes_max // 2
        )

    @property
    def room_bytes(self) -> int:
        """How much more the client may be sent until it is slow; less than 0: it is slow."""
        if self.connection is None:
            return -1
        return self.shared.options.unsent_bytes_max // 2 - self.waiting_to_leave()

    def send(self, packet: Packet) -> None:
        """Send a packet, if somebody is there who reads it."""
        if self.connection is not None and not self.is_over:
            self.write(self.codec.send(packet))

    @abstractmethod
    def begin(self) -> None:
        """What comes next has to wait for something."""

    @abstractmethod
    def done(self, then: Callable[[], None] = lambda: None) -> None:
        """It has happened: do what follows, and go on with what has waited."""

    @abstractmethod
    def opened(self, connect: Connect) -> None:
        """It is known which session the client has: CONNACK is about to be sent."""

    @abstractmethod
    def begun(self) -> None:
        """CONNACK was sent."""

    @abstractmethod
    def add_waiting(self, count: int, size: int) -> None:
        """Count what is on its way; negative: it has arrived."""

    @abstractmethod
    def fail(self, error: MqttError) -> None:
        """Tell the client why the connection ends, as far as its version can, and end it."""

    @abstractmethod
    def take_over(self) -> None:
        """See `Claimant`."""
