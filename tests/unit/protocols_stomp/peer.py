"""A broker for tests that lets everybody in, and gives each receipt that is asked for."""

from __future__ import annotations

from kafkaesque.protocols.stomp.connection import Connection, Limits
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import (
    ConnectionFailed,
    ConnectReceived,
    Event,
    HeartbeatDue,
)
from kafkaesque.protocols.stomp.frames import Frame, FrameReader
from kafkaesque.protocols.stomp.versions import Version
from kafkaesque.protocols.stomp.writing import HEARTBEAT, write_receipt

#: Few, so that a test can reach them.
LIMITS = Limits(
    headers_max=6,
    head_bytes_max=200,
    body_bytes_max=50,
    connect_bytes_max=150,
    subscriptions_max=2,
    transactions_max=2,
    transaction_frames_max=2,
)
CONNECTS = {
    Version.V1_0: b"CONNECT\n\n\0",
    Version.V1_1: b"CONNECT\naccept-version:1.1\nhost:h\n\n\0",
    Version.V1_2: b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
}


class Broker:
    """Answers what has come at once, and keeps what it has seen."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.connection = Connection(0, limits)
        self.events: list[Event] = []
        self.sent: list[bytes] = []
        self.error: StompError | None = None

    def receive(self, data: bytes, now_ms: int = 0) -> bytes:
        """Return what is answered to these bytes."""
        return self._answer_all(self.connection.receive(data, now_ms), now_ms)

    def tick(self, now_ms: int) -> bytes:
        """Return what is said when so much time has passed."""
        return self._answer_all(self.connection.tick(now_ms), now_ms)

    def _answer_all(self, events: list[Event], now_ms: int) -> bytes:
        before = len(self.sent)
        while events:
            self.events += events
            for event in events:
                self._answer(event, now_ms)
            events = self.connection.receive(b"", now_ms)
        return b"".join(self.sent[before:])

    def _answer(self, event: Event, now_ms: int) -> None:
        match event:
            case ConnectionFailed():
                self.error = event.error
                self.sent.append(self.connection.fail(event.error))
            case ConnectReceived():
                self.sent.append(self.connection.accept("s", "kafkaesque/0", now_ms))
            case HeartbeatDue():
                self.sent.append(HEARTBEAT)
            case _ if event.receipt is not None:
                self.sent.append(write_receipt(event.receipt, self.connection.version))


def opened(version: Version, limits: Limits = LIMITS) -> Broker:
    """Return a broker whose client is let in, with nothing said since."""
    broker = Broker(limits)
    broker.receive(CONNECTS[version])
    assert broker.connection.version is version
    broker.events.clear()
    broker.sent.clear()
    return broker


def read_frames(raw: bytes, version: Version) -> list[Frame]:
    """Read what a broker has sent."""
    reader = FrameReader(
        command_bytes_max=99, headers_max=99, head_bytes_max=9_999, body_bytes_max=9_999
    )
    reader.version = version
    reader.feed(raw)
    found = []
    while (frame := reader.next_frame()) is not None:
        found.append(frame)
    assert reader.kept_bytes == 0
    return found
