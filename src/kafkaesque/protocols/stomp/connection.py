"""One connection at the broker's side: bytes to events.

Theory of operation. `receive` takes bytes as they come and returns events; how they were cut does
not matter. The client's mistake is an event, too: `ConnectionFailed`, after which nothing is read.
The caller sends what `fail` returns, which is always an ERROR frame, and closes.

After CONNECT reading pauses until the caller has said `accept`, and then calls `receive(b"", now)`
for what has come in the meantime.

What is open on a connection is known here as far as frames are refused for it: subscriptions by id,
and transactions by name, each with how many frames it holds. What is in them is the caller's.

There is no clock in here: the caller passes its own, tells by `note_sent` when it has written, and
asks `deadline_ms` for the time at which it has to call `tick`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.protocols.stomp.alike import Alike
from kafkaesque.protocols.stomp.errors import StompError
from kafkaesque.protocols.stomp.events import (
    AckMode,
    Acknowledged,
    AcknowledgedRun,
    ConnectionFailed,
    ConnectReceived,
    Disconnected,
    Event,
    HeartbeatDue,
    Sent,
    SentRun,
    Subscribed,
    TransactionBegun,
    TransactionEnded,
    Unsubscribed,
)
from kafkaesque.protocols.stomp.frames import Frame, FrameReader, write_frame
from kafkaesque.protocols.stomp.versions import Version, choose_version

#: A client may be late by as much as it may be silent: clocks and networks are not exact.
_PATIENCE: Final = 2
#: What may differ in SENDs that are one run.
_SENDS_DIFFER: Final = ("receipt", "content-length")
_CONNECTS: Final = ("CONNECT", "STOMP")
_BEAT_DIGITS_MAX: Final = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one connection may take up."""

    command_bytes_max: int = 32
    headers_max: int = 100
    #: All headers of a frame.
    head_bytes_max: int = 100 * 1024
    body_bytes_max: int = 4 * 1024 * 1024
    #: Headers of a client that is not let in.
    connect_bytes_max: int = 16 * 1024
    connect_ms_max: int = 10_000
    #: How often we can send, and want to receive, a heart-beat; 0: never.
    heart_beat_ms: int = 10_000
    subscriptions_max: int = 100
    transactions_max: int = 16
    transaction_frames_max: int = 1_000


class ConnectionState(Enum):
    """How far a connection is."""

    AWAITS_CONNECT = "awaits CONNECT"
    #: The caller is to accept or to refuse.
    CONNECTS = "is to be accepted"
    OPEN = "is open"
    #: The client has said that it closes, or was wrong.
    ENDED = "has ended"


class Connection:
    """The broker's side of one connection."""

    __slots__ = (
        "_frames",
        "_heard_ms",
        "_in_ms",
        "_limits",
        "_out_ms",
        "_sent_ms",
        "_subscriptions",
        "_transactions",
        "state",
        "version",
    )

    def __init__(self, now_ms: int, limits: Limits | None = None) -> None:
        self._limits: Final = limits or Limits()
        self._frames = FrameReader(
            command_bytes_max=self._limits.command_bytes_max,
            headers_max=self._limits.headers_max,
            head_bytes_max=self._limits.connect_bytes_max,
            body_bytes_max=0,
        )
        self.state = ConnectionState.AWAITS_CONNECT
        #: Before CONNECT, what can be read by all.
        self.version = Version.V1_0
        self._heard_ms = self._sent_ms = now_ms
        #: What was agreed upon; 0: nothing.
        self._in_ms = self._out_ms = 0
        self._subscriptions: set[str] = set()
        #: How many frames each holds.
        self._transactions: dict[str, int] = {}

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read until the caller has accepted the client, or ever again."""
        return self.state in (ConnectionState.CONNECTS, ConnectionState.ENDED)

    @property
    def kept_bytes(self) -> int:
        """How much has come and is not consumed."""
        return self._frames.kept_bytes

    @property
    def open_transactions(self) -> tuple[str, ...]:
        """Those that were begun and not ended."""
        return tuple(self._transactions)

    # -- receiving

    def receive(self, data: bytes | bytearray | memoryview, now_ms: int) -> list[Event]:
        """Return what has come with these bytes and those before, in its order."""
        events: list[Event] = []
        for event in self.receive_runs(data, now_ms):
            if isinstance(event, SentRun | AcknowledgedRun):
                events += event.singles()
            else:
                events.append(event)
        return events

    def receive_runs(self, data: bytes | bytearray | memoryview, now_ms: int) -> list[Event]:
        """Return the same; SENDs, and ACKs, that come together and say the same are one event."""
        events: list[Event] = []
        if self.state is ConnectionState.ENDED:
            return events
        if data:
            self._heard_ms = now_ms
            self._frames.feed(data)
        receipt_id: str | None = None
        try:
            while not self.is_paused:
                receipt_id = None
                frame = self._frames.next_frame()
                if frame is None:
                    break
                receipt_id = frame.get("receipt")
                events.append(self._with_those_alike(self._take(frame)))
        except StompError as error:
            error.receipt_id = receipt_id or self._frames.receipt_id
            self.state = ConnectionState.ENDED
            events.append(ConnectionFailed(error=error))
        return events

    def _with_those_alike(self, event: Event) -> Event:
        """Return a frame's event, or that of a run that begins with it."""
        match event:
            case Sent(transaction=None):
                found = self._frames.take_alike(_SENDS_DIFFER, has_bodies=True)
                if found is None:
                    return event
                receipts = _receipts_of(event, found)
                return SentRun(first=event, bodies=[event.body, *found.bodies], receipts=receipts)
            case Acknowledged(transaction=None, is_positive=True):
                name = "id" if self.version is Version.V1_2 else "message-id"
                found = self._frames.take_alike((name, *_SENDS_DIFFER), has_bodies=False)
                if found is None:
                    return event
                return AcknowledgedRun(
                    subscription_id=event.subscription_id,
                    is_requeued=event.is_requeued,
                    ack_ids=[event.ack_id, *found.values[name]],
                    receipts=_receipts_of(event, found),
                )
        return event

    def _take(self, frame: Frame) -> Event:
        if self.state is ConnectionState.AWAITS_CONNECT:
            if frame.command not in _CONNECTS:
                raise StompError("the first frame is not CONNECT")
            return self._take_connect(frame)
        take = _FRAMES.get(frame.command)
        if take is None or (frame.command == "NACK" and self.version is Version.V1_0):
            raise StompError("there is no such command")
        if frame.body and frame.command != "SEND" and self.version is Version.V1_2:
            raise StompError(f"{frame.command} has a body")
        return take(self, frame)

    def _take_connect(self, frame: Frame) -> ConnectReceived:
        accepted = frame.get("accept-version")
        headers = frame.headers
        if accepted is None:
            # As in 1.0, where blanks mean nothing.
            headers = tuple((name.strip(" "), value.strip(" ")) for name, value in headers)
            frame = Frame(frame.command, headers, frame.body)
        self.version = choose_version(accepted)
        self._agree_on_heart_beats(frame.get("heart-beat"))
        self.state = ConnectionState.CONNECTS
        return ConnectReceived(
            version=self.version,
            host=frame.get("host") or "",
            login=frame.get("login"),
            passcode=frame.get("passcode"),
            headers=headers,
        )

    def _agree_on_heart_beats(self, text: str | None) -> None:
        if text is None or self.version is Version.V1_0:
            return
        sends_ms, wants_ms = _read_beats(text)
        ours = self._limits.heart_beat_ms
        self._in_ms = max(sends_ms, ours) if sends_ms and ours else 0
        self._out_ms = max(wants_ms, ours) if wants_ms and ours else 0

    def _take_send(self, frame: Frame) -> Sent:
        return Sent(
            destination=_need(frame, "destination"),
            headers=frame.headers,
            body=frame.body,
            transaction=self._count_in(frame),
            receipt=frame.get("receipt"),
        )

    def _take_subscribe(self, frame: Frame) -> Subscribed:
        destination = _need(frame, "destination")
        subscription_id = self._subscription_id(frame, destination)
        if subscription_id in self._subscriptions:
            raise StompError("a subscription of this id is open")
        if len(self._subscriptions) == self._limits.subscriptions_max:
            what = f"a connection has at most {self._limits.subscriptions_max} subscriptions"
            raise StompError(what)
        mode = frame.get("ack") or AckMode.AUTO.value
        if mode not in _ACK_MODES:
            raise StompError("ack is none of auto, client and client-individual")
        self._subscriptions.add(subscription_id)
        return Subscribed(
            subscription_id=subscription_id,
            destination=destination,
            ack_mode=AckMode(mode),
            headers=frame.headers,
            receipt=frame.get("receipt"),
        )

    def _subscription_id(self, frame: Frame, destination: str | None) -> str:
        """Return a subscription's id; in 1.0 its destination may stand for it."""
        found = frame.get("id")
        if found is not None:
            return found
        if self.version is not Version.V1_0 or destination is None:
            raise StompError(f"{frame.command} needs the header id")
        return destination

    def _take_unsubscribe(self, frame: Frame) -> Unsubscribed:
        subscription_id = self._subscription_id(frame, frame.get("destination"))
        if subscription_id not in self._subscriptions:
            raise StompError("no subscription of this id is open")
        self._subscriptions.remove(subscription_id)
        return Unsubscribed(
            subscription_id=subscription_id,
            headers=frame.headers,
            receipt=frame.get("receipt"),
        )

    def _take_ack(self, frame: Frame) -> Acknowledged:
        subscription_id = None
        if self.version is Version.V1_2:
            ack_id = _need(frame, "id")
        else:
            ack_id = _need(frame, "message-id")
            is_needed = self.version is Version.V1_1
            get = _need if is_needed else Frame.get
            subscription_id = get(frame, "subscription")
        return Acknowledged(
            ack_id=ack_id,
            subscription_id=subscription_id,
            is_positive=frame.command == "ACK",
            is_requeued=frame.get("requeue") != "false",
            transaction=self._count_in(frame),
            receipt=frame.get("receipt"),
        )

    # -- transactions

    def _count_in(self, frame: Frame) -> str | None:
        """Return the transaction that a frame is part of."""
        name = frame.get("transaction")
        if name is None:
            return None
        count = self._transactions.get(name)
        if count is None:
            raise StompError("there is no such transaction")
        if count == self._limits.transaction_frames_max:
            what = f"a transaction has at most {self._limits.transaction_frames_max} frames"
            raise StompError(what)
        self._transactions[name] = count + 1
        return name

    def _take_begin(self, frame: Frame) -> TransactionBegun:
        name = _need(frame, "transaction")
        if name in self._transactions:
            raise StompError("the transaction is open")
        if len(self._transactions) == self._limits.transactions_max:
            raise StompError(
                f"a connection has at most {self._limits.transactions_max} open transactions"
            )
        self._transactions[name] = 0
        return TransactionBegun(transaction=name, receipt=frame.get("receipt"))

    def _take_end(self, frame: Frame) -> TransactionEnded:
        name = _need(frame, "transaction")
        if self._transactions.pop(name, None) is None:
            raise StompError("there is no such transaction")
        return TransactionEnded(
            transaction=name,
            is_committed=frame.command == "COMMIT",
            receipt=frame.get("receipt"),
        )

    def _take_disconnect(self, frame: Frame) -> Disconnected:
        self.state = ConnectionState.ENDED
        return Disconnected(receipt=frame.get("receipt"))

    def _take_second_connect(self, frame: Frame) -> Event:
        raise StompError("the client has connected before")

    # -- time

    @property
    def deadline_ms(self) -> int | None:
        """When `tick` has to be called; None: never."""
        if self.state is ConnectionState.AWAITS_CONNECT:
            # Until then nothing is sent: this is when the connection was opened.
            return self._sent_ms + self._limits.connect_ms_max
        if self.state is not ConnectionState.OPEN:
            return None
        due = []
        if self._in_ms:
            due.append(self._heard_ms + self._in_ms * _PATIENCE)
        if self._out_ms:
            due.append(self._sent_ms + self._out_ms)
        return min(due, default=None)

    def tick(self, now_ms: int) -> list[Event]:
        """Return what follows from silence, the client's or ours."""
        deadline_ms = self.deadline_ms
        if deadline_ms is None or now_ms < deadline_ms:
            return []
        is_open = self.state is ConnectionState.OPEN
        if is_open and not (self._in_ms and now_ms >= self._heard_ms + self._in_ms * _PATIENCE):
            self._sent_ms = now_ms
            return [HeartbeatDue()]
        self.state = ConnectionState.ENDED
        what = "heart-beats do not come" if is_open else "no CONNECT has come"
        return [ConnectionFailed(error=StompError(what))]

    def note_sent(self, now_ms: int) -> None:
        """Something was written: a heart-beat is not due for a while."""
        self._sent_ms = now_ms

    def excuse(self, now_ms: int) -> None:
        """The client could not be heard until now: nothing was read from it."""
        self._heard_ms = now_ms

    # -- the caller's turn

    def accept(self, session_id: str, server: str, now_ms: int) -> bytes:
        """Let the client in; return CONNECTED, which is to be sent before all else.

        Raises:
            InvariantBroken: nobody has sent CONNECT.
        """
        if self.state is not ConnectionState.CONNECTS:
            raise InvariantBroken(f"nobody is to be accepted: the connection {self.state.value}")
        limits = self._limits
        self.state = ConnectionState.OPEN
        self._heard_ms = self._sent_ms = now_ms
        self._frames.version = self.version
        self._frames.head_bytes_max = limits.head_bytes_max
        self._frames.body_bytes_max = limits.body_bytes_max
        headers = [("session", session_id)]
        if self.version is not Version.V1_0:
            beats = f"{limits.heart_beat_ms},{limits.heart_beat_ms}"
            headers = [("version", self.version.value), ("heart-beat", beats), *headers]
            headers.append(("server", server))
        return write_frame(Frame("CONNECTED", tuple(headers)), self.version)

    def fail(self, error: StompError) -> bytes:
        """Return the ERROR that the client is to be sent before the connection is closed."""
        self.state = ConnectionState.ENDED
        headers = [("message", str(error))]
        if error.receipt_id is not None:
            headers.append(("receipt-id", error.receipt_id))
        if error.versions:
            headers.append(("version", error.versions))
        headers.append(("content-type", "text/plain"))
        return write_frame(Frame("ERROR", tuple(headers), str(error).encode()), self.version)


_ACK_MODES: Final = frozenset(each.value for each in AckMode)

_FRAMES: Final[dict[str, Callable[[Connection, Frame], Event]]] = {
    "SEND": Connection._take_send,
    "SUBSCRIBE": Connection._take_subscribe,
    "UNSUBSCRIBE": Connection._take_unsubscribe,
    "ACK": Connection._take_ack,
    "NACK": Connection._take_ack,
    "BEGIN": Connection._take_begin,
    "COMMIT": Connection._take_end,
    "ABORT": Connection._take_end,
    "DISCONNECT": Connection._take_disconnect,
    "CONNECT": Connection._take_second_connect,
    "STOMP": Connection._take_second_connect,
}


def _receipts_of(first: Event, others: Alike) -> list[str | None]:
    """Return what is to be named when each frame of a run is done."""
    found = others.values.get("receipt")
    return [first.receipt, *([None] * len(others.bodies) if found is None else found)]


def _need(frame: Frame, name: str) -> str:
    found = frame.get(name)
    if found is None:
        raise StompError(f"{frame.command} needs the header {name}")
    return found


def _read_beats(text: str) -> tuple[int, int]:
    """Return how often a client can send a heart-beat, and how often it wants one, in ms."""
    first, comma, second = (part.strip(" ") for part in text.partition(","))
    for each in (first, second):
        if not comma or not (each.isascii() and each.isdigit() and len(each) <= _BEAT_DIGITS_MAX):
            raise StompError("heart-beat is not two numbers")
    return int(first), int(second)
