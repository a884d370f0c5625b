"""WebSocket (RFC 6455) in front of any protocol whose connections are streams of bytes.

Theory of operation. A `WebSocketLink` stands between the network and a protocol's connection: to
the network it is a handler, to the protocol a connection. Which protocol it is, the path of the
handshake says. The payloads of data frames are the stream, as they come: where a message ends means
nothing to the protocols that are spoken here, so nothing is gathered, and a message may be of any
length. What the protocol writes at once is one message. wsproto reads the handshake and the frames;
extensions are not agreed upon, so that nothing has to be unpacked.

Web pages may open a WebSocket to any port of the machine that shows them. So a browser, which
always says by which page it was asked (`Origin`), is let in for pages of this broker and of origins
that are allowed by name. Programs say nothing, and are let in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.frame_protocol import CloseReason
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from kafkaesque.chassis.http_names import is_own_host
from kafkaesque.env.certificate import PeerCertificate
from kafkaesque.env.clock import Clock, Timer
from kafkaesque.env.disk import Buffer, FileRange
from kafkaesque.env.network import LOW_WATER_BYTES, Connection, ConnectionHandler
from kafkaesque.model.errors import InvariantBroken

#: The request's line and headers together.
HEAD_BYTES_MAX: Final = 16 * 1024
#: So long a client may take for them.
HANDSHAKE_MS_MAX: Final = 10_000

_HEAD_END: Final = b"\r\n\r\n"


class Payload(Enum):
    """What a protocol's messages are."""

    #: Clients that send texts are refused (MQTT 6.0.0-1).
    BINARY = "binary"
    #: Texts where they are UTF-8, and binary otherwise; clients may send both.
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One protocol, by the path at which it is spoken."""

    make: Callable[[], ConnectionHandler]
    payload: Payload
    #: Names of `Sec-WebSocket-Protocol`, the best one first.
    subprotocols: tuple[str, ...] = ()
    #: Whether a client has to offer one of them (MQTT 6.0.0-3).
    needs_subprotocol: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginRule:
    """Pages of which origins may connect; without a rule of their own these are a broker's own."""

    #: What the listener is called, beside numbers and localhost.
    host_names: frozenset[str] = frozenset()
    #: As browsers write them: `https://example.org`.
    origins: frozenset[str] = frozenset()

    def allows(self, origin: str | None, host: str) -> bool:
        """Tell whether a request with these headers is served."""
        if origin is None or origin in self.origins:
            return True
        # No `urlsplit`: it raises where a browser would not, and an origin has nothing but these.
        is_same = origin.partition("://")[2].lower() == host.lower()
        return is_same and is_own_host(host, self.host_names)


class _Refused(Exception):
    """A handshake that is answered by an error."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class WebSocketLink:
    """One client's connection: a handler for the network."""

    __slots__ = (
        "_clock",
        "_connection",
        "_expected",
        "_handler",
        "_head",
        "_is_over",
        "_payload",
        "_routes",
        "_rule",
        "_socket",
    )

    def __init__(self, routes: Mapping[str, Route], rule: OriginRule, clock: Clock) -> None:
        self._routes: Final = routes
        self._rule: Final = rule
        self._clock: Final = clock
        self._connection: Connection | None = None
        self._expected: Timer | None = None
        self._socket: Final = WSConnection(ConnectionType.SERVER)
        #: The handshake, as far as it has come.
        self._head = b""
        #: The protocol's connection, from the handshake on.
        self._handler: ConnectionHandler | None = None
        self._payload = Payload.BINARY
        #: Whether nothing more is taken from the client.
        self._is_over = False

    # -- from the network

    def on_open(self, connection: Connection) -> None:
        """See `ConnectionHandler`."""
        self._connection = connection
        self._expected = self._clock.call_later(HANDSHAKE_MS_MAX, connection.abort)

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self._is_over:
            return
        if self._handler is not None:
            self._receive(bytes(data))
            return
        self._head += bytes(data)
        head, end, rest = self._head.partition(_HEAD_END)
        if len(head) > HEAD_BYTES_MAX:
            self._abort()
        elif end:
            self._head = b""
            self._shake_hands(head + end, rest)

    def on_writable(self) -> None:
        """See `ConnectionHandler`."""
        if self._handler is not None:
            self._handler.on_writable()

    def on_close(self, error: Exception | None) -> None:
        """See `ConnectionHandler`."""
        self._is_over = True
        self._expect_nothing()
        self._connection = None
        if self._handler is not None:
            self._handler.on_close(error)

    # -- the handshake

    def _shake_hands(self, head: bytes, rest: bytes) -> None:
        try:
            request = self._read_request(head)
            route = self._choose_route(request)
            subprotocol = _choose_subprotocol(route, request.subprotocols)
        except _Refused as refused:
            self._refuse(refused.status)
            return
        connection = self._connection
        if connection is None:
            return
        self._expect_nothing()
        connection.write((self._socket.send(AcceptConnection(subprotocol=subprotocol)),))
        self._payload = route.payload
        self._handler = route.make()
        self._handler.on_open(_Stream(self, connection))
        if rest and not self._is_over:
            self._receive(rest)

    def _read_request(self, head: bytes) -> Request:
        try:
            self._socket.receive_data(head)
            for event in self._socket.events():
                if isinstance(event, Request):
                    return event
        except RemoteProtocolError as error:
            hint = error.event_hint
            status = hint.status_code if isinstance(hint, RejectConnection) else 400
            raise _Refused(status) from None
        except (UnicodeError, ValueError):
            # A header or a path that is not ASCII.
            pass
        raise _Refused(400)

    def _choose_route(self, request: Request) -> Route:
        origin = next((value for name, value in request.extra_headers if name == b"origin"), None)
        text = None if origin is None else origin.decode("latin-1")
        if not self._rule.allows(text, request.host):
            raise _Refused(403)
        route = self._routes.get(request.target.partition("?")[0])
        if route is None:
            raise _Refused(404)
        return route

    def _refuse(self, status: int) -> None:
        self._is_over = True
        reason = f"HTTP/1.1 {status} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
        if self._connection is not None:
            self._connection.write((reason.encode(),))
            self._connection.close()

    def _expect_nothing(self) -> None:
        if self._expected is not None:
            self._expected.cancel()
            self._expected = None

    # -- frames

    def _receive(self, data: bytes) -> None:
        try:
            self._socket.receive_data(data)
            for event in self._socket.events():
                self._take(event)
                if self._is_over:
                    return
        except RemoteProtocolError as error:
            hint = error.event_hint
            code = hint.code if isinstance(hint, CloseConnection) else CloseReason.PROTOCOL_ERROR
            self._end(code)

    def _take(self, event: Event) -> None:
        handler = self._handler
        if handler is None:
            raise InvariantBroken("frames before the handshake")
        match event:
            case BytesMessage():
                if event.data:
                    handler.on_bytes(event.data)
            case TextMessage():
                if self._payload is Payload.BINARY:
                    self._end(CloseReason.UNSUPPORTED_DATA)
                elif event.data:
                    handler.on_bytes(event.data.encode())
            case Ping():
                self._answer_ping(event)
            case CloseConnection():
                self._write(event.response())
                self._close()

    def _write(self, event: Event) -> None:
        if self._connection is None:
            return
        try:
            self._connection.write((self._socket.send(event),))
        except LocalProtocolError:
            # It has been closed: as with any connection, what is written is dropped.
            return

    def _answer_ping(self, ping: Ping) -> None:
        """Answer, unless the client does not read: what it is not sent takes no memory.

        Not every ping has an answer of its own (RFC 6455, section 5.5.3), and the protocol's own
        bounds do not count these.
        """
        if self._connection is not None and self._connection.unsent_bytes() <= LOW_WATER_BYTES:
            self._write(ping.response())

    def _end(self, code: int) -> None:
        """Say why, and hang up."""
        self._write(CloseConnection(code=code))
        self._close()

    def _close(self) -> None:
        self._is_over = True
        if self._connection is not None:
            self._connection.close()

    def _abort(self) -> None:
        self._is_over = True
        if self._connection is not None:
            self._connection.abort()

    # -- from the protocol

    def send(self, parts: Sequence[Buffer | FileRange]) -> None:
        """Send all parts as one message."""
        raw = b"".join(map(_read_part, parts))
        if self._payload is Payload.TEXT:
            try:
                self._write(TextMessage(data=raw.decode()))
                return
            except UnicodeDecodeError:
                pass
        self._write(BytesMessage(data=raw))

    def finish(self) -> None:
        """The protocol is done: send what was written, and close."""
        if not self._is_over:
            self._end(CloseReason.NORMAL_CLOSURE)

    def give_up(self) -> None:
        """The protocol hangs up."""
        self._abort()


class _Stream:
    """The connection that a protocol sees."""

    __slots__ = ("_below", "_link")

    def __init__(self, link: WebSocketLink, below: Connection) -> None:
        self._link: Final = link
        self._below: Final = below

    @property
    def peer(self) -> str:
        return self._below.peer

    def peer_certificate(self) -> PeerCertificate | None:
        return self._below.peer_certificate()

    def write(self, parts: Sequence[Buffer | FileRange]) -> None:
        self._link.send(parts)

    def unsent_bytes(self) -> int:
        return self._below.unsent_bytes()

    def received_bytes(self) -> int:
        return self._below.received_bytes()

    def sent_bytes(self) -> int:
        return self._below.sent_bytes()

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()

    def limit_frames(self, frame_bytes_max: int) -> None:
        """A stream has no frames."""

    def close(self) -> None:
        self._link.finish()

    def abort(self) -> None:
        self._link.give_up()


def _choose_subprotocol(route: Route, offered: Sequence[str]) -> str | None:
    found = next((each for each in route.subprotocols if each in offered), None)
    if found is None and route.needs_subprotocol:
        raise _Refused(400)
    return found


def _read_part(part: Buffer | FileRange) -> bytes:
    if isinstance(part, FileRange):
        raise InvariantBroken("a WebSocket's messages are not sent from files")
    return bytes(part)
