"""One client that speaks HTTP/1.1, strictly and within bounds, whatever it asks for.

Theory of operation. h11 reads and writes the protocol; this brings it bytes, and a gateway its
requests, one at a time. Of a request its head and its body are kept, each up to a maximal length,
and the bodies of all requests within what there is for them (`body_room`). A
timer runs whenever the client owes something: its first request, the rest of one, the next one, or
reading what it was sent; a client that is late is hung up on.

While a request is answered, a connection that `watches_for_its_end` is read on, so that a client
that has hung up is noticed; what it sends ahead is bounded.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final
from urllib.parse import urlsplit

import h11

from kafkaesque.access.authentication import Success
from kafkaesque.access.principals import user_name
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.body_room import BodyRoom
from kafkaesque.chassis.link import ClientConnection, Shared

#: A request's line and headers together.
HEAD_BYTES_MAX: Final = 16 * 1024
#: So long a client may take for a request, and for reading an answer.
REQUEST_MS_MAX: Final = 10_000
#: So long a connection stays open between requests.
IDLE_MS_MAX: Final = 60_000
#: Chunks of one body: each costs as much as a small request, however short it is.
CHUNKS_MAX: Final = 4_096
#: What is read of one client before others have their turn.
EVENTS_PER_TURN: Final = 64
#: What a client may send ahead while its request is answered.
AHEAD_BYTES_MAX: Final = 64 * 1024


class BadHead(Exception):
    """A request is refused for its head; nothing after it is looked at."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status
        self.reason: Final = reason


class HttpConnection(ClientConnection):
    """See the module; a gateway brings `take_head`, `begin` and `refusal`."""

    __slots__ = (
        "_ahead_bytes",
        "_body",
        "_body_bytes_max",
        "_body_room",
        "_chunks",
        "_has_head",
        "_http",
        "_is_answering",
        "is_head_only",
    )

    #: Whether it is read while a request is answered.
    watches_for_its_end: ClassVar[bool] = False
    #: An answer that takes longer than this is none.
    answer_ms_max: ClassVar[int] = 30_000
    #: A client has so long to read an answer.
    read_ms_max: ClassVar[int] = REQUEST_MS_MAX

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        # Each request says who asks, and is judged by itself.
        self.needs_login = False
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        self._has_head = False
        self._body = bytearray()
        self._body_bytes_max = 0
        self._chunks = 0
        #: Where the body of the request under way is counted.
        self._body_room: BodyRoom | None = None
        #: Whether a request is not answered.
        self._is_answering = False
        self._ahead_bytes = 0
        #: Whether only the head of the answer is wanted.
        self.is_head_only = False

    # -- what a gateway brings

    @abstractmethod
    def take_head(self, head: h11.Request) -> int:
        """Take a request's head; return how long its body may be; 0: it may have none.

        Raises:
            BadHead: it is refused.
        """

    @abstractmethod
    def begin(self, body: bytes) -> None:
        """Have the request answered whose head was taken; now or later, once."""

    @abstractmethod
    def refusal(self, status: int, reason: str) -> tuple[Mapping[str, str], bytes]:
        """Return headers and body by which a client is told that it was not understood."""

    @property
    def may_take(self) -> bool:
        """Whether the next request may be begun; if not, `go_on` comes when it may."""
        return True

    # -- from the chassis

    def on_opened(self) -> None:
        """See `ClientConnection`."""
        self.expect(REQUEST_MS_MAX)
        if self._is_stranger:
            self.shared.strangers.add(self)

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        self.shared.strangers.remove(self)
        self._leave_body_room()

    def let_in(self, success: Success, mechanism: str) -> bool:
        """See `ClientConnection`; where operators come, nobody has all connections."""
        shared, user = self.shared, user_name(success.principal)
        if shared.options.is_protected:
            others = [each for each in shared.connections.values() if each is not self]
            count = sum(each.identity is not None and each.identity.user == user for each in others)
            if count >= shared.options.connections_max // 3:
                return False
        if not super().let_in(success, mechanism):
            return False
        shared.strangers.remove(self)
        if self._body_room is not None:
            self._body_room = shared.chassis.body_rooms.let_in(self)
        return True

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self.connection is None:
            return
        self._http.receive_data(bytes(data))
        if self._is_answering:
            self._ahead_bytes += len(data)
            self.maybe_pause()
        else:
            self._advance()

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return self._is_answering

    def is_full(self) -> bool:
        """See `ClientConnection`."""
        return self._ahead_bytes > AHEAD_BYTES_MAX

    def has_room(self) -> bool:
        """See `ClientConnection`."""
        return self._ahead_bytes <= AHEAD_BYTES_MAX

    def go_on(self) -> None:
        """See `ClientConnection`."""
        self.maybe_resume()
        if not self._is_answering:
            self._advance()

    def _on_read(self) -> None:
        """The time to read an answer is up."""
        if self.connection is not None and self.connection.unsent_bytes():
            self.abort()
        else:
            self.expect(IDLE_MS_MAX)

    # -- requests

    def _advance(self) -> None:
        """Take what h11 has understood, up to a whole request."""
        events = 0
        while self.connection is not None and not self._is_answering and self.may_take:
            events += 1
            if events > EVENTS_PER_TURN:
                self.shared.clock.call_soon(self.go_on)
                return
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint, str(error))
                return
            if isinstance(event, h11.Request):
                if not self._take_head(event):
                    return
            elif isinstance(event, h11.Data):
                if not self._take_body(event):
                    return
            elif isinstance(event, h11.EndOfMessage) and self._has_head:
                self._has_head = False
                self._begin()
                return
            elif isinstance(event, h11.ConnectionClosed):
                self.connection.close()
                return
            else:
                # NEED_DATA, or PAUSED: what is there already waits for its turn.
                return

    def _take_head(self, head: h11.Request) -> bool:
        """Take a request's head; False if what follows it is not wanted."""
        self.is_head_only = False
        try:
            self._body_bytes_max = most = self.take_head(head)
        except BadHead as refusal:
            self._refuse(refusal.status, refusal.reason)
            return False
        self.is_head_only = head.method == b"HEAD"
        if not self.client_id:
            self.client_id = _agent_of(head)
        self._has_head = True
        self._body.clear()
        self._chunks = 0
        if _has_two_lengths(head):
            # Somebody in front of this broker may go by the other one (RFC 9112, section 11.2).
            self._refuse(400, "a request has Content-Length or Transfer-Encoding, not both")
            return False
        length_bytes = _body_length(head)
        if (length_bytes is None and not most) or (
            length_bytes is not None and length_bytes > most
        ):
            self._refuse_body()
            return False
        self.expect(REQUEST_MS_MAX)
        if self._http.they_are_waiting_for_100_continue:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            self._write(self._http.send(go_on))
        return True

    def _take_body(self, piece: h11.Data) -> bool:
        """Take a piece of a request's body; False if it is not wanted."""
        data = piece.data
        self._chunks += piece.chunk_start
        if self._chunks > CHUNKS_MAX:
            self._refuse(400, f"a body comes in at most {CHUNKS_MAX} chunks")
            return False
        if len(self._body) + len(data) > self._body_bytes_max:
            self._refuse_body()
            return False
        if self._body_room is None:
            rooms = self.shared.chassis.body_rooms
            self._body_room = rooms.strangers if self._is_stranger else rooms.known
        if not self._body_room.take(self, len(data)):
            self._refuse(503, "too many long requests come at once: try again")
            return False
        self._body += data
        return True

    @property
    def _is_stranger(self) -> bool:
        """Whether its client has to say who it is, and has not by a request before."""
        return self.shared.options.access is AccessMode.REQUIRED and self.login is None

    def _leave_body_room(self) -> None:
        if self._body_room is not None:
            self._body_room.release(self)
            self._body_room = None

    def _refuse_body(self) -> None:
        most = f"a body has at most {self._body_bytes_max} bytes here"
        self._refuse(413, most if self._body_bytes_max else "no body is taken here")

    def _begin(self) -> None:
        self._is_answering = True
        self._ahead_bytes = 0
        self.expect(self.answer_ms_max)
        self.note_activity()
        self.shared.meter.requests += 1
        body = bytes(self._body)
        self._body.clear()
        if self._body_room is not None and not self._is_stranger:
            self._body_room.keep(self)
        if not self.watches_for_its_end:
            self.hold()
        self.begin(body)

    # -- answers

    def send_answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        """Answer the request that was begun; harmless when the client is gone."""
        if self.connection is None or not self._is_answering:
            return
        self.send_head(status, headers, None if status == 304 else len(body))
        if not self.is_head_only:
            self.send_body(body)
        self.finish()

    def send_head(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        """Begin an answer; without a length h11 sends chunks."""
        more = {} if length is None else {"Content-Length": str(length)}
        pairs = list({**headers, **more}.items())
        self._write(self._http.send(h11.Response(status_code=status, headers=pairs)))

    def send_body(self, data: bytes) -> None:
        """Send a body, or a piece of one."""
        if data:
            self._write(self._http.send(h11.Data(data=data)))

    def finish(self) -> None:
        """The answer is written: go on to the next request."""
        connection = self.connection
        if connection is None:
            return
        self._write(self._http.send(h11.EndOfMessage()))
        self._is_answering = False
        self._ahead_bytes = 0
        self._leave_body_room()
        if self._http.our_state is h11.MUST_CLOSE:
            self.expect(self.read_ms_max)
            connection.close()
            return
        self.expect(self.read_ms_max, self._on_read)
        self._http.start_next_cycle()
        if not self.watches_for_its_end:
            self.release()
        # In a later turn: an answer may be given within the call that has begun the request.
        self.shared.clock.call_soon(self.go_on)

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what was not understood, and hang up: nothing after it can be understood."""
        if self.connection is None:
            return
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            headers, body = self.refusal(status, reason)
            self.is_head_only = False
            self.send_head(status, {**headers, "Connection": "close"}, len(body))
            self.send_body(body)
            self._write(self._http.send(h11.EndOfMessage()))
        self.expect(self.read_ms_max)
        self.connection.close()

    def _write(self, data: bytes | None) -> None:
        if data and self.connection is not None:
            self.connection.write([data])


def split_target(target: bytes) -> tuple[str, str]:
    """Return path and query of what is asked for, read as whoever stands in front reads it.

    What begins with a slash is a path, also with two of them: no host stands there.

    Raises:
        ValueError: it is no target.
    """
    text = target.decode("ascii")
    if not text.startswith("/"):
        parts = urlsplit(text)
        return parts.path, parts.query
    path, _, query = text.partition("?")
    return path, query


def _has_two_lengths(head: h11.Request) -> bool:
    names = {name for name, _ in head.headers}
    return b"transfer-encoding" in names and b"content-length" in names


def _body_length(head: h11.Request) -> int | None:
    """Return how long a body is said to be; None: that will be seen."""
    for name, value in head.headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            return int(value)
    return 0


def _agent_of(head: h11.Request) -> str:
    """Return what a client calls itself."""
    agents = (value for name, value in head.headers if name == b"user-agent")
    return next(agents, b"").decode("latin-1")
