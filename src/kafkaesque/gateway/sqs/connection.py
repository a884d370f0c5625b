"""One client of the port for SQS."""

from collections.abc import Mapping
from typing import ClassVar, Final, Protocol

from kafkaesque.chassis.http_connection import HttpConnection
from kafkaesque.chassis.http_requests import RequestHead
from kafkaesque.chassis.link import Shared
from kafkaesque.protocols.sqs.calls import HttpAnswer, HttpRequest, is_json, write_error
from kafkaesque.protocols.sqs.errors import SqsError

#: The longest request. A message of 1 MiB has up to six times that as JSON, where every character
#: may be escaped.
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
REQUEST_ID_BYTES: Final = 16
#: What a client is told, by the status of HTTP.
_ERRORS: Final = {413: "RequestEntityTooLarge", 503: "ServiceUnavailable"}


class Desk(Protocol):
    """Where requests are brought."""

    def body_bytes_max(self, caller: "SqsConnection", head: HttpRequest) -> int:
        """Return how long a request's body may be, by its head."""

    def handle(self, caller: "SqsConnection", request: HttpRequest) -> None:
        """Have a request answered, once."""

    def new_request_id(self) -> str:
        """Return what one request is called."""


class SqsConnection(HttpConnection):
    """See the module."""

    __slots__ = ("_desk", "_head")

    watches_for_its_end: ClassVar[bool] = True
    #: A request waits up to 20 s for a message, and up to 15 s for the leader.
    answer_ms_max: ClassVar[int] = 60_000
    read_ms_max: ClassVar[int] = 60_000

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(shared)
        self._desk = desk
        self._head = _NO_REQUEST

    @property
    def may_take(self) -> bool:
        """See `HttpConnection`."""
        return self.may_begin

    @property
    def base_url(self) -> str:
        """Where the client has sent the request that is under way."""
        scheme = "https" if self.is_encrypted else "http"
        return f"{scheme}://{self._head.headers.get('host', 'localhost')}"

    def take_head(self, head: RequestHead) -> int:
        """See `HttpConnection`."""
        headers: dict[str, str] = {}
        for name_bytes, value_bytes in head.headers:
            name, value = name_bytes.decode("ascii"), value_bytes.decode("latin-1")
            headers[name] = f"{headers[name]},{value}" if name in headers else value
        self._head = HttpRequest(
            method=head.method.decode("ascii"),
            target=head.target.decode("ascii"),
            headers=headers,
            body=b"",
        )
        return self._desk.body_bytes_max(self, self._head)

    def begin(self, body: bytes) -> None:
        """See `HttpConnection`."""
        head = self._head
        request = HttpRequest(
            method=head.method, target=head.target, headers=head.headers, body=body
        )
        self._desk.handle(self, request)

    def answer(self, answer: HttpAnswer) -> None:
        """Answer the request that is under way; harmless when the client is gone."""
        self.send_answer(answer.status, answer.headers, answer.body)

    def refusal(self, status: int, reason: str) -> tuple[Mapping[str, str], bytes]:
        """See `HttpConnection`."""
        error = SqsError(_ERRORS.get(status, "MalformedQueryString"), reason)
        request_id = self._desk.new_request_id()
        answer = write_error(error, request_id, as_json=is_json(self._head.headers))
        return answer.headers, answer.body


_NO_REQUEST: Final = HttpRequest(method="", target="", headers={}, body=b"")
