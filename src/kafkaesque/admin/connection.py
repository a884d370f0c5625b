"""One client of the admin port: HTTP/1.1, strictly and within bounds.

Theory of operation. h11 reads and writes the protocol; this brings it bytes, and handlers their
requests, one at a time. Nothing of a request is kept but its head, which has a maximal length; a
body is refused. A timer runs whenever the client owes something: its first request, the rest of
one, the next one, or reading what it was sent; whoever is late is hung up on.
"""

from collections.abc import Callable
from typing import Final
from urllib.parse import parse_qs, urlsplit

import h11

from kafkaesque.admin.http import Answer, Request, Respond, text_answer
from kafkaesque.chassis.link import ClientConnection, Shared

#: A request's line and headers together.
HEAD_BYTES_MAX: Final = 16 * 1024
#: A query with more names than this is refused.
QUERY_FIELDS_MAX: Final = 100
#: So long a client may take for a request, and for reading an answer.
REQUEST_MS_MAX: Final = 10_000
#: So long a connection stays open between requests.
IDLE_MS_MAX: Final = 60_000
#: An answer that takes longer than this is none.
ANSWER_MS_MAX: Final = 30_000

_METHODS: Final = (b"GET", b"HEAD")


class AdminConnection(ClientConnection):
    """See the module."""

    __slots__ = ("_handle", "_http", "_is_busy", "_is_head")

    def __init__(self, handle: Callable[[Request, Respond], None], shared: Shared) -> None:
        super().__init__(shared)
        self._handle = handle
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES_MAX)
        #: Whether a handler has a request that is not answered.
        self._is_busy = False
        #: Whether only the head of the answer is wanted.
        self._is_head = False

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
        return self._is_busy

    def _on_read(self) -> None:
        """The time to read an answer is up."""
        if self.connection is not None and self.connection.unsent_bytes():
            self.abort()
        else:
            self.expect(IDLE_MS_MAX)

    # -- requests

    def _advance(self) -> None:
        """Take what h11 has understood, up to a whole request."""
        head: h11.Request | None = None
        while self.connection is not None:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint, str(error))
                return
            if isinstance(event, h11.Request):
                head = event
                if _has_body(event):
                    self._refuse(413, "this port takes no bodies")
                    return
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                self._begin(head)
                return
            elif isinstance(event, h11.ConnectionClosed):
                self.connection.close()
                return
            else:
                # NEED_DATA, or PAUSED: what is there already waits for its turn.
                return

    def _begin(self, head: h11.Request) -> None:
        self._is_busy = True
        self._is_head = head.method == b"HEAD"
        self.expect(ANSWER_MS_MAX)
        self.shared.meter.requests += 1
        self.hold()
        if head.method not in _METHODS:
            self._answer(text_answer(405, "only GET and HEAD are understood here"))
            return
        target = urlsplit(head.target.decode("ascii"))
        try:
            query = parse_qs(target.query, max_num_fields=QUERY_FIELDS_MAX)
        except ValueError:
            self._answer(text_answer(400, f"a query has at most {QUERY_FIELDS_MAX} fields"))
            return
        self._handle(Request(path=target.path, query=query), self._answer)

    def _answer(self, answer: Answer) -> None:
        connection = self.connection
        if connection is None or not self._is_busy:
            return
        self._is_busy = False
        self._send(answer)
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
            self._send(text_answer(status, reason), is_last=True)
        self.expect(REQUEST_MS_MAX)
        self.connection.close()

    def _send(self, answer: Answer, *, is_last: bool = False) -> None:
        if self.connection is None:
            return
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if is_last:
            headers.append(("Connection", "close"))
        if answer.status == 405:
            headers.append(("Allow", "GET, HEAD"))
        parts = [
            self._http.send(h11.Response(status_code=answer.status, headers=headers)),
            None if self._is_head else self._http.send(h11.Data(data=answer.body)),
            self._http.send(h11.EndOfMessage()),
        ]
        self.connection.write([part for part in parts if part])


def _has_body(head: h11.Request) -> bool:
    for name, value in head.headers:
        if name == b"transfer-encoding" or (name == b"content-length" and value != b"0"):
            return True
    return False
