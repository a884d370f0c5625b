"""One client that speaks HTTP/1.1, strictly and within bounds, whatever it asks for.

Theory of operation. `http_requests` reads the protocol and `http_answers` writes it; this brings
bytes to the one, and a gateway the requests, one at a time. Of a request its head and its body are
kept, each up to a maximal length, and the bodies of all requests within what there is for them
(`body_room`). A timer runs whenever the client owes something: its first request, the rest of one,
the next one, or reading what it was sent; a client that is late is hung up on.

While a request is answered, a connection that `watches_for_its_end` is read on, so that a client
that has hung up is noticed; what it sends ahead is bounded.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final
from urllib.parse import urlsplit

from kafkaesque.access.authentication import Success
from kafkaesque.access.principals import user_name
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.body_room import BodyRoom
from kafkaesque.chassis.http_answers import CONTINUE, LAST_CHUNK, write_chunk, write_head
from kafkaesque.chassis.http_requests import (
    BodyPiece,
    HttpRequests,
    NotUnderstood,
    RequestHead,
)
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
#: Statuses of answers that have no body.
_BODILESS: Final = (204, 304)
#: What a client may send ahead of what is read: while its request is answered, or may not begin.
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
        "_body",
        "_body_bytes_max",
        "_body_room",
        "_chunks",
        "_has_begun",
        "_is_answering",
        "_is_chunked",
        "_is_old",
        "_keeps_alive",
        "_requests",
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
        self._requests = HttpRequests(HEAD_BYTES_MAX)
        #: Of the request that is read or answered.
        self._is_old = False
        self._keeps_alive = True
        #: Whether its answer was begun, and whether that goes in chunks.
        self._has_begun = False
        self._is_chunked = False
        self._body = bytearray()
        self._body_bytes_max = 0
        self._chunks = 0
        #: Where the body of the request under way is counted.
        self._body_room: BodyRoom | None = None
        #: Whether a request is not answered.
        self._is_answering = False
        #: Whether only the head of the answer is wanted.
        self.is_head_only = False

    # -- what a gateway brings

    @abstractmethod
    def take_head(self, head: RequestHead) -> int:
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
        """Whether the next request may be begun; if not, `go_on` comes when it may.

        Here: whether its client reads what it was sent.
        """
        connection = self.connection
        return (
            connection is not None
            and connection.unsent_bytes() <= self.shared.options.unsent_bytes_max
        )

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
        self._requests.close()

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
        self._requests.receive(data)
        if not self._is_answering:
            self._advance()
        if self._is_answering or self.is_full():
            self.maybe_pause()

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return self._is_answering

    def is_full(self) -> bool:
        """See `ClientConnection`."""
        return self._requests.waiting_bytes > AHEAD_BYTES_MAX

    def has_room(self) -> bool:
        """See `ClientConnection`."""
        return self._requests.waiting_bytes <= AHEAD_BYTES_MAX // 2

    def go_on(self) -> None:
        """See `ClientConnection`."""
        if not self._is_answering:
            self._advance()
        self.maybe_resume()

    def _on_read(self) -> None:
        """The time to read an answer is up."""
        if self.connection is not None and self.connection.unsent_bytes():
            self.abort()
        else:
            self.expect(IDLE_MS_MAX)

    # -- requests

    def _advance(self) -> None:
        """Take what was understood, up to a whole request."""
        events = 0
        while self.connection is not None and not self._is_answering and self.may_take:
            events += 1
            if events > EVENTS_PER_TURN:
                self.shared.clock.call_soon(self.go_on)
                return
            try:
                event = self._requests.next_event()
            except NotUnderstood as refusal:
                self._refuse(refusal.status, str(refusal))
                return
            if event is None:
                return
            if isinstance(event, RequestHead):
                if not self._take_head(event):
                    return
            elif isinstance(event, BodyPiece):
                if not self._take_body(event):
                    return
            else:
                self._begin()
                return

    def _take_head(self, head: RequestHead) -> bool:
        """Take a request's head; False if what follows it is not wanted."""
        self.is_head_only = False
        self._is_old, self._keeps_alive = head.is_http_1_0, head.keeps_alive
        try:
            self._body_bytes_max = most = self.take_head(head)
        except BadHead as refusal:
            self._refuse(refusal.status, refusal.reason)
            return False
        self.is_head_only = head.method == b"HEAD"
        if not self.client_id:
            self.client_id = _agent_of(head)
        self._body.clear()
        self._chunks = 0
        length_bytes = head.length_bytes
        if (length_bytes is None and not most) or (
            length_bytes is not None and length_bytes > most
        ):
            self._refuse_body()
            return False
        self.expect(REQUEST_MS_MAX)
        if head.expects_continue:
            self._write(CONTINUE)
        return True

    def _take_body(self, piece: BodyPiece) -> bool:
        """Take a piece of a request's body; False if it is not wanted."""
        data = piece.data
        self._chunks += piece.begins_chunk
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
        has_body = status not in _BODILESS
        self.send_head(status, headers, len(body) if has_body else None)
        if has_body and not self.is_head_only:
            self.send_body(body)
        self.finish()

    def send_head(self, status: int, headers: Mapping[str, str], length: int | None) -> None:
        """Begin an answer; without a length it goes in chunks, or up to the connection's end.

        One that cannot have a body has no length (RFC 9110, section 8.6).
        """
        whole = {**headers}
        if length is not None:
            whole["Content-Length"] = str(length)
        self._is_chunked = False
        if length is None and status not in _BODILESS and not self.is_head_only:
            if self._is_old:
                self._keeps_alive = False
            else:
                self._is_chunked = True
                whole["Transfer-Encoding"] = "chunked"
        if not self._keeps_alive:
            whole["Connection"] = "close"
        self._has_begun = True
        self._write(write_head(status, whole))

    def send_body(self, data: bytes) -> None:
        """Send a body, or a piece of one."""
        if data:
            self._write(write_chunk(data) if self._is_chunked else data)

    def finish(self) -> None:
        """The answer is written: go on to the next request."""
        connection = self.connection
        if connection is None:
            return
        if self._is_chunked:
            self._write(LAST_CHUNK)
        self._is_answering = self._has_begun = False
        self._leave_body_room()
        if not self._keeps_alive:
            self.expect(self.read_ms_max)
            connection.close()
            return
        self.expect(self.read_ms_max, self._on_read)
        self._requests.start_next()
        self._is_held = False
        # In a later turn: an answer may be given within the call that has begun the request.
        self.shared.clock.call_soon(self.go_on)

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what was not understood, and hang up: nothing after it can be understood."""
        if self.connection is None:
            return
        if not self._has_begun:
            headers, body = self.refusal(status, reason)
            self.is_head_only = self._keeps_alive = False
            self.send_head(status, headers, len(body))
            self.send_body(body)
        self._requests.close()
        self.expect(self.read_ms_max)
        self.connection.close()

    def _write(self, data: bytes) -> None:
        if self.connection is not None:
            self.connection.write((data,))


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


def _agent_of(head: RequestHead) -> str:
    """Return what a client calls itself."""
    agents = (value for name, value in head.headers if name == b"user-agent")
    return next(agents, b"").decode("latin-1")
