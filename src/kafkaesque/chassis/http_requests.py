"""Reads HTTP/1.1 requests, strictly, from the bytes of one client.

Theory of operation. llhttp, Node.js' parser, reads the protocol's grammar; httptools brings it to
Python. What a grammar does not say is checked here, once for each head: its length, that it names
one host, and that its body's length is said in one way that everybody reads alike (RFC 9112,
section 6.3). What llhttp finds becomes events, which are asked for one at a time.

llhttp reads all that it is given, also the next requests. So it is given slices, and none while
there are events, or from the end of a request until `start_next`: what waits here as events is what
one slice held, whatever a client sends ahead.
"""

from dataclasses import dataclass
from typing import Final

import httptools

#: So much is read at a time.
SLICE_BYTES: Final = 16 * 1024
#: Headers of a request: a short one takes twenty times its length in memory.
HEADERS_MAX: Final = 256
_VERSIONS: Final = ("1.0", "1.1")
#: Of a body's length: 2^64 has as many. llhttp reads any number of zeros, and Python does not.
_LENGTH_DIGITS_MAX: Final = 20
_TOO_LONG: Final = "a request's line and headers are too long"
_TOO_MANY: Final = f"a request has at most {HEADERS_MAX} headers"


class NotUnderstood(Exception):
    """What a client has sent is no request, or none that is served; nothing after it is read."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status: Final = status


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What stands before a request's body."""

    method: bytes
    target: bytes
    #: In their order; names are in lower case.
    headers: list[tuple[bytes, bytes]]
    is_http_1_0: bool
    #: How long the body is; None: it comes in chunks.
    length_bytes: int | None
    #: Whether the client wants to send more over this connection.
    keeps_alive: bool
    #: Whether the client waits to be asked for the body.
    expects_continue: bool


@dataclass(frozen=True, slots=True)
class BodyPiece:
    """A piece of a body."""

    data: bytes
    #: Whether it begins one of the client's chunks.
    begins_chunk: bool


class EndOfRequest:
    """All of a request has come."""

    __slots__ = ()


END_OF_REQUEST: Final = EndOfRequest()

Event = RequestHead | BodyPiece | EndOfRequest


class HttpRequests:
    """The requests of one client."""

    __slots__ = (
        "_begins_chunk",
        "_events",
        "_head_bytes",
        "_head_bytes_max",
        "_headers",
        "_is_body",
        "_left",
        "_parser",
        "_refusal",
        "_target",
        "_unheard_bytes",
        "is_done",
    )

    def __init__(self, head_bytes_max: int) -> None:
        self._head_bytes_max: Final = head_bytes_max
        self._parser = httptools.HttpRequestParser(self)
        #: What was not given to the parser yet.
        self._left = bytearray()
        #: A list, as most are empty: an empty deque takes 0.6 KB for each client.
        self._events: Final[list[Event]] = []
        #: What follows the events, where that is not understood.
        self._refusal: NotUnderstood | None = None
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0
        self._begins_chunk = False
        #: Given to the parser since anything came of it but parts of a head or of trailers.
        self._unheard_bytes = 0
        #: Whether the head has ended: headers that come now are a body's trailers.
        self._is_body = False
        #: Whether the request that was given out last has ended, and the next is not wanted yet.
        self.is_done = False

    @property
    def waiting_bytes(self) -> int:
        """How much has come that was not read yet."""
        return len(self._left)

    def receive(self, data: bytearray | memoryview | bytes) -> None:
        """Take what has come; it is read when somebody asks for events."""
        self._left += data

    def next_event(self) -> Event | None:
        """Return what comes next; None: more has to come, or `start_next` first.

        Raises:
            NotUnderstood: nothing that comes is understood.
        """
        if self.is_done:
            return None
        events = self._events
        while not events:
            if self._refusal is not None:
                raise self._refusal
            if not self._left:
                return None
            self._read()
        event = events.pop(0)
        self.is_done = event is END_OF_REQUEST
        return event

    def start_next(self) -> None:
        """The request that was given out last is answered."""
        self.is_done = False

    def close(self) -> None:
        """Read nothing any more; the parser, which knows this object, is let go."""
        self._left.clear()
        self._events.clear()
        # It knows this object, too: by where it was raised.
        self._refusal = None
        self._parser = httptools.HttpRequestParser(None)

    # -- reading

    def _read(self) -> None:
        """Have a slice read."""
        left = self._left
        piece = bytes(left[:SLICE_BYTES]) if len(left) > SLICE_BYTES else bytes(left)
        del left[: len(piece)]
        self._unheard_bytes += len(piece)
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            # Nobody here speaks anything else: what follows is the next request.
            self._left = bytearray(piece[upgrade.args[0] :]) + left
            self._parser = httptools.HttpRequestParser(self)
        except httptools.HttpParserError as error:
            if isinstance(error, httptools.HttpParserCallbackError) and self._refusal is None:
                raise error.__context__ or error  # noqa: B904 (a defect of ours)
            self._refusal = self._refusal or NotUnderstood(400, str(error))
        if self._unheard_bytes > self._head_bytes_max and self._refusal is None:
            self._refusal = NotUnderstood(431, _TOO_LONG)

    # -- called by httptools, within `_read`

    def on_message_begin(self) -> None:
        self._target, self._headers, self._head_bytes = b"", [], 0
        self._is_body = False

    def on_url(self, data: bytes) -> None:
        self._target += data
        self._count(len(data))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value) + 4)
        if self._is_body:
            return
        if len(self._headers) == HEADERS_MAX:
            self._refusal = NotUnderstood(431, _TOO_MANY)
            raise self._refusal
        self._headers.append((name.lower(), value.strip(b" \t")))

    def _count(self, length: int) -> None:
        self._head_bytes += length
        if self._head_bytes > self._head_bytes_max:
            self._refusal = NotUnderstood(431, _TOO_LONG)
            raise self._refusal

    def on_headers_complete(self) -> None:
        parser = self._parser
        self._is_body = True
        self._unheard_bytes = 0
        try:
            head = _head_of(
                parser.get_method(),
                self._target,
                self._headers,
                parser.get_http_version(),
                is_upgrade=parser.should_upgrade(),
                keeps_alive=parser.should_keep_alive(),
            )
        except NotUnderstood as refusal:
            self._refusal = refusal
            raise
        self._events.append(head)
        self._headers = []

    def on_chunk_header(self) -> None:
        self._begins_chunk = True

    def on_body(self, data: bytes) -> None:
        self._unheard_bytes = 0
        self._events.append(BodyPiece(data, self._begins_chunk))
        self._begins_chunk = False

    def on_message_complete(self) -> None:
        self._unheard_bytes = 0
        self._begins_chunk = False
        self._events.append(END_OF_REQUEST)


def _head_of(
    method: bytes,
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    version: str,
    *,
    is_upgrade: bool,
    keeps_alive: bool,
) -> RequestHead:
    """Return a request's head.

    Raises:
        NotUnderstood: it breaks a rule.
    """
    if version not in _VERSIONS:
        raise NotUnderstood(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")
    is_http_1_0 = version == "1.0"
    hosts = encodings = 0
    length_bytes: int | None = 0
    expects = False
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            if len(value) > _LENGTH_DIGITS_MAX:
                raise NotUnderstood(400, "a Content-Length has too many digits")
            length_bytes = int(value)
        elif name == b"transfer-encoding":
            encodings += 1
            if value.lower() != b"chunked":
                raise NotUnderstood(501, "of transfer encodings only chunked is understood")
        elif name == b"expect":
            expects = not is_http_1_0 and b"100-continue" in value.lower()
    if hosts > 1 or (not hosts and not is_http_1_0):
        raise NotUnderstood(400, "a request names one Host")
    if encodings > 1:
        raise NotUnderstood(501, "a body is encoded once")
    if encodings:
        length_bytes = None
    if is_upgrade and length_bytes != 0:
        # llhttp takes such a body for what is spoken after the upgrade.
        raise NotUnderstood(400, "a request for another protocol has no body")
    return RequestHead(
        method=method,
        target=target,
        headers=headers,
        is_http_1_0=is_http_1_0,
        length_bytes=length_bytes,
        # What follows CONNECT is for somebody else.
        keeps_alive=keeps_alive and not is_http_1_0 and method != b"CONNECT",
        expects_continue=expects,
    )
