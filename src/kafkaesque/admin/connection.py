"""One client of the admin port: HTTP/1.1, strictly and within bounds.

Theory of operation. h11 reads and writes the protocol; this brings it bytes, and handlers their
requests, one at a time. Of a request its head and its body are kept, each up to a maximal length. A
timer runs whenever the client owes something: its first request, the rest of one, the next one, or
reading what it was sent; a client that is late is hung up on.

An answer is sent as a whole, or piece by piece by a `Source`. That is told when the client has read
enough for more, so no more than one piece beyond the network's low water mark waits here.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol
from urllib.parse import parse_qs, urlsplit

import h11

from kafkaesque.admin.http import Answer, Request, Respond, Source, text_answer
from kafkaesque.admin.visitors import Caller
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.link import ClientConnection, Shared
from kafkaesque.env.network import LOW_WATER_BYTES

#: A request's line and headers together.
HEAD_BYTES_MAX: Final = 16 * 1024
BODY_BYTES_MAX: Final = 1024 * 1024
#: A query with more names than this is refused.
QUERY_FIELDS_MAX: Final = 100
#: So long a client may take for a request, and for reading an answer.
REQUEST_MS_MAX: Final = 10_000
#: So long a connection stays open between requests.
IDLE_MS_MAX: Final = 60_000
#: An answer that takes longer than this is none.
ANSWER_MS_MAX: Final = 30_000
#: A client that takes nothing of a stream for so long is hung up on.
STALL_MS_MAX: Final = 30_000


class Desk(Protocol):
    """Where requests are brought."""

    def body_bytes_max(self, caller: Caller, head: Request) -> int:
        """Return how long a request's body may be; 0: it may have none."""

    def handle(self, caller: "AdminConnection", request: Request, respond: Respond) -> None:
        """Have a request answered, once."""


class AdminConnection(ClientConnection):
    """See the module."""

    __slots__ = (
        "_body",
        "_body_bytes_max",
        "_desk",
        "_head",
        "_http",
        "_is_busy",
        "_is_head",
        "_may_go_on",
        "_sent_bytes_seen",
        "_source",
    )

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(shared)
        # Each request says who asks, and is judged by itself.
        self.needs_login = False
        self._desk = desk
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        #: Of the request that is being read.
        self._head: Request | None = None
        self._body = bytearray()
        self._body_bytes_max = 0
        #: Whether a handler has a request that is not answered.
        self._is_busy = False
        #: Whether only the head of the answer is wanted.
        self._is_head = False
        #: What sends the answer that is under way, piece by piece.
        self._source: Source | None = None
        #: Asked whether that may go on.
        self._may_go_on: Callable[[], bool] = lambda: True
        self._sent_bytes_seen = 0

    # -- from the chassis

    def on_opened(self) -> None:
        """See `ClientConnection`."""
        self.expect(REQUEST_MS_MAX)

    def on_bytes(self, data: bytearray | memoryview | bytes) -> None:
        """See `ConnectionHandler`."""
        if self.connection is None:
            return
        self._http.receive_data(bytes(data))
        if not self._is_busy:
            self._advance()

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return self._is_busy and self._source is None

    def go_on(self) -> None:
        """See `ClientConnection`."""
        self.maybe_resume()
        if self._source is not None and self.takes_more:
            self._source.on_room()

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        source, self._source = self._source, None
        if source is not None:
            source.on_gone()

    def leave_unless_valid(self) -> None:
        """See `ClientConnection`; a long answer ends also if a rule has changed."""
        super().leave_unless_valid()
        if self._source is not None and not self._may_go_on():
            self.refuse("its user may not read any more what it is being sent")

    @property
    def access(self) -> AccessMode:
        """See `Caller`."""
        return self.shared.options.access

    def _on_read(self) -> None:
        """The time to read an answer is up."""
        if self.connection is not None and self.connection.unsent_bytes():
            self.abort()
        else:
            self.expect(IDLE_MS_MAX)

    # -- requests

    def _advance(self) -> None:
        """Take what h11 has understood, up to a whole request."""
        while self.connection is not None:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint, str(error))
                return
            if isinstance(event, h11.Request):
                if not self._take_head(event):
                    return
            elif isinstance(event, h11.Data):
                self._body += event.data
                if len(self._body) > self._body_bytes_max:
                    self._refuse_body()
                    return
            elif isinstance(event, h11.EndOfMessage) and self._head is not None:
                head, self._head = self._head, None
                self._begin(replace(head, body=bytes(self._body)))
                return
            elif isinstance(event, h11.ConnectionClosed):
                self.connection.close()
                return
            else:
                # NEED_DATA, or PAUSED: what is there already waits for its turn.
                return

    def _take_head(self, head: h11.Request) -> bool:
        """Take a request's head; False if what follows it is not wanted."""
        try:
            request = self._head = _read_head(head)
        except ValueError:
            self._refuse(400, f"a query has at most {QUERY_FIELDS_MAX} fields")
            return False
        self._body.clear()
        self._body_bytes_max = self._desk.body_bytes_max(self, request)
        length_bytes = _body_length(head)
        most = self._body_bytes_max
        if (length_bytes is None and not most) or (
            length_bytes is not None and length_bytes > most
        ):
            self._refuse_body()
            return False
        if self._http.they_are_waiting_for_100_continue and self.connection is not None:
            go_on = h11.InformationalResponse(status_code=100, headers=[])
            self._write(self._http.send(go_on))
        return True

    def _refuse_body(self) -> None:
        most = f"a body has at most {self._body_bytes_max} bytes here"
        self._refuse(413, most if self._body_bytes_max else "no body is taken here")

    def _begin(self, request: Request) -> None:
        self._is_busy = True
        self._is_head = request.method == "HEAD"
        self.expect(ANSWER_MS_MAX)
        self.shared.meter.requests += 1
        self.hold()
        self._body.clear()
        self._desk.handle(self, request, self._answer)

    def _answer(self, answer: Answer) -> None:
        if self.connection is None or not self._is_busy:
            return
        if self._source is not None:
            # It has failed in the middle: what was sent is not all.
            self.abort()
            return
        is_stream = answer.open is not None and not self._is_head
        self._send_head(answer, is_stream=is_stream)
        if is_stream and answer.open is not None:
            self._sent_bytes_seen = self.connection.sent_bytes()
            self.expect(STALL_MS_MAX, self._on_stall)
            self._may_go_on = answer.may_go_on
            self._source = source = answer.open(_Outlet(self))
            source.on_room()
            return
        if answer.body and not self._is_head:
            self._write(self._http.send(h11.Data(data=answer.body)))
        self._finish()

    def _finish(self) -> None:
        """The answer is written: go on to the next request."""
        connection = self.connection
        if connection is None:
            return
        self._write(self._http.send(h11.EndOfMessage()))
        self._is_busy = False
        if self._http.our_state is h11.MUST_CLOSE:
            self.expect(REQUEST_MS_MAX)
            connection.close()
            return
        self.expect(REQUEST_MS_MAX, self._on_read)
        self._http.start_next_cycle()
        self.release()
        self.shared.clock.call_soon(self._next)

    def _next(self) -> None:
        if not self._is_busy:
            self._advance()

    def _refuse(self, status: int, reason: str) -> None:
        """Answer what was not understood, and hang up: nothing after it can be understood."""
        if self.connection is None:
            return
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            answer = text_answer(status, reason)
            self._is_head = False
            self._send_head(answer, is_last=True)
            self._write(self._http.send(h11.Data(data=answer.body)))
            self._write(self._http.send(h11.EndOfMessage()))
        self.expect(REQUEST_MS_MAX)
        self.connection.close()

    def _send_head(self, answer: Answer, *, is_last: bool = False, is_stream: bool = False) -> None:
        headers = {
            "Content-Type": answer.content_type,
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **answer.headers,
        }
        # Without a length h11 sends chunks.
        if not is_stream and answer.status != 304:
            headers["Content-Length"] = str(len(answer.body))
        if is_last:
            headers["Connection"] = "close"
        head = h11.Response(status_code=answer.status, headers=list(headers.items()))
        self._write(self._http.send(head))

    def _write(self, data: bytes | None) -> None:
        if data and self.connection is not None:
            self.connection.write([data])

    # -- streams

    @property
    def takes_more(self) -> bool:
        """Whether the client has read nearly all that it was sent."""
        connection = self.connection
        return connection is not None and connection.unsent_bytes() <= LOW_WATER_BYTES

    def write_piece(self, data: bytes) -> None:
        """Send a piece of a stream."""
        if self._source is not None and data:
            self._write(self._http.send(h11.Data(data=data)))

    def end_stream(self) -> None:
        """Nothing more comes in this stream."""
        if self._source is not None:
            self._source = None
            self._finish()

    def _on_stall(self) -> None:
        """Look whether the client of a stream has taken anything lately."""
        connection = self.connection
        if connection is None:
            return
        sent_bytes = connection.sent_bytes()
        if connection.unsent_bytes() and sent_bytes == self._sent_bytes_seen:
            self.abort()
            return
        self._sent_bytes_seen = sent_bytes
        self.expect(STALL_MS_MAX, self._on_stall)


class _Outlet:
    """See `Outlet`."""

    __slots__ = ("_connection",)

    def __init__(self, connection: AdminConnection) -> None:
        self._connection = connection

    @property
    def has_room(self) -> bool:
        """See `Outlet`."""
        return self._connection.takes_more

    def write(self, data: bytes) -> None:
        """See `Outlet`."""
        self._connection.write_piece(data)

    def end(self) -> None:
        """See `Outlet`."""
        self._connection.end_stream()


def _read_head(head: h11.Request) -> Request:
    """Return a request without its body.

    Raises:
        ValueError: its query has too many fields.
    """
    target = urlsplit(head.target.decode("ascii"))
    return Request(
        method=head.method.decode("ascii"),
        path=target.path,
        query=parse_qs(target.query, max_num_fields=QUERY_FIELDS_MAX, keep_blank_values=True),
        headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
    )


def _body_length(head: h11.Request) -> int | None:
    """Return how long a body is said to be; None: that will be seen."""
    for name, value in head.headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            return int(value)
    return 0
