"""One client of the admin port.

An answer is sent as a whole, or piece by piece by a `Source`. That is told when the client has read
enough for more, so no more than one piece beyond the network's low water mark waits here.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, Protocol
from urllib.parse import parse_qs

from kafkaesque.admin.http import Answer, Request, Respond, Source, text_answer
from kafkaesque.admin.visitors import Caller
from kafkaesque.broker.listeners import AccessMode
from kafkaesque.chassis.http_connection import BadHead, HttpConnection, split_target
from kafkaesque.chassis.http_requests import RequestHead
from kafkaesque.chassis.link import Shared
from kafkaesque.env.network import LOW_WATER_BYTES

BODY_BYTES_MAX: Final = 1024 * 1024
#: A query with more names than this is refused.
QUERY_FIELDS_MAX: Final = 100
#: A client that takes nothing of a stream for so long is hung up on.
STALL_MS_MAX: Final = 30_000


class Desk(Protocol):
    """Where requests are brought."""

    def body_bytes_max(self, caller: Caller, head: Request) -> int:
        """Return how long a request's body may be; 0: it may have none."""

    def handle(self, caller: "AdminConnection", request: Request, respond: Respond) -> None:
        """Have a request answered, once."""


class AdminConnection(HttpConnection):
    """See the module."""

    __slots__ = ("_desk", "_head", "_may_go_on", "_sent_bytes_seen", "_source")

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(shared)
        self._desk = desk
        #: Of the request that is being read.
        self._head = _NO_REQUEST
        #: What sends the answer that is under way, piece by piece.
        self._source: Source | None = None
        #: Asked whether that may go on.
        self._may_go_on: Callable[[], bool] = lambda: True
        self._sent_bytes_seen = 0

    # -- from the chassis

    def is_busy(self) -> bool:
        """See `ClientConnection`."""
        return super().is_busy() and self._source is None

    def go_on(self) -> None:
        """See `ClientConnection`."""
        super().go_on()
        if self._source is not None and self.takes_more:
            self._source.on_room()

    def on_gone(self) -> None:
        """See `ClientConnection`."""
        super().on_gone()
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

    # -- requests

    def take_head(self, head: RequestHead) -> int:
        """See `HttpConnection`."""
        try:
            self._head = _read_head(head)
        except ValueError:
            raise BadHead(400, f"a query has at most {QUERY_FIELDS_MAX} fields") from None
        return self._desk.body_bytes_max(self, self._head)

    def begin(self, body: bytes) -> None:
        """See `HttpConnection`."""
        head, self._head = self._head, _NO_REQUEST
        self._desk.handle(self, replace(head, body=body), self._answer)

    def refusal(self, status: int, reason: str) -> tuple[Mapping[str, str], bytes]:
        """See `HttpConnection`."""
        answer = text_answer(status, reason)
        return _headers_of(answer), answer.body

    def _answer(self, answer: Answer) -> None:
        connection = self.connection
        if connection is None or not super().is_busy():
            return
        if self._source is not None:
            # It has failed in the middle: what was sent is not all.
            self.abort()
            return
        if answer.open is None or self.is_head_only:
            self.send_answer(answer.status, _headers_of(answer), answer.body)
            return
        self.send_head(answer.status, _headers_of(answer), None)
        self._sent_bytes_seen = connection.sent_bytes()
        self.expect(STALL_MS_MAX, self._on_stall)
        self._may_go_on = answer.may_go_on
        self._source = source = answer.open(_Outlet(self))
        source.on_room()

    # -- streams

    @property
    def takes_more(self) -> bool:
        """Whether the client has read nearly all that it was sent."""
        connection = self.connection
        return connection is not None and connection.unsent_bytes() <= LOW_WATER_BYTES

    def write_piece(self, data: bytes) -> None:
        """Send a piece of a stream."""
        if self._source is not None:
            self.send_body(data)

    def end_stream(self) -> None:
        """Nothing more comes in this stream."""
        if self._source is not None:
            self._source = None
            self.finish()

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


def _read_head(head: RequestHead) -> Request:
    """Return a request without its body.

    Raises:
        ValueError: its query has too many fields.
    """
    path, query = split_target(head.target)
    return Request(
        method=head.method.decode("ascii"),
        path=path,
        query=parse_qs(query, max_num_fields=QUERY_FIELDS_MAX, keep_blank_values=True),
        headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
    )


def _headers_of(answer: Answer) -> dict[str, str]:
    return {
        "Content-Type": answer.content_type,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
        **answer.headers,
    }


_NO_REQUEST: Final = Request(path="", query={})
