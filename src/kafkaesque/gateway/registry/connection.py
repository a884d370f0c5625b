"""One client of the registry's port."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol
from urllib.parse import parse_qs, unquote

import msgspec

from kafkaesque.chassis.http_connection import BadHead, HttpConnection, split_target
from kafkaesque.chassis.http_requests import RequestHead
from kafkaesque.chassis.link import Shared
from kafkaesque.gateway.registry.errors import ErrorBody

#: A schema of 512 KiB as text in JSON, where each character may be escaped.
BODY_BYTES_MAX: Final = 4 * 1024 * 1024
QUERY_FIELDS_MAX: Final = 32
CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """One request, without its body."""

    method: str
    #: Decoded one by one, so that a subject may have slashes.
    path: tuple[str, ...]
    query: Mapping[str, str]
    headers: Mapping[str, str]


class Desk(Protocol):
    """Where requests are brought."""

    def body_bytes_max(self, caller: "RegistryConnection", head: HttpRequest) -> int:
        """Return how long a request's body may be, by its head."""

    def handle(self, caller: "RegistryConnection", request: HttpRequest, body: bytes) -> None:
        """Have a request answered, once."""


class RegistryConnection(HttpConnection):
    """See the module."""

    __slots__ = ("_desk", "_head")

    answer_ms_max: ClassVar[int] = 60_000

    def __init__(self, desk: Desk, shared: Shared) -> None:
        super().__init__(shared)
        self._desk = desk
        self._head = _NO_REQUEST

    @property
    def may_take(self) -> bool:
        """See `HttpConnection`."""
        return self.may_begin

    def take_head(self, head: RequestHead) -> int:
        """See `HttpConnection`."""
        try:
            self._head = _read_head(head)
        except ValueError as error:
            raise BadHead(400, str(error)) from None
        return self._desk.body_bytes_max(self, self._head)

    def begin(self, body: bytes) -> None:
        """See `HttpConnection`."""
        self._desk.handle(self, self._head, body)

    def refusal(self, status: int, reason: str) -> tuple[Mapping[str, str], bytes]:
        """See `HttpConnection`."""
        body = ErrorBody(error_code=status, message=reason)
        return headers_of(CONTENT_TYPE), msgspec.json.encode(body)


def headers_of(content_type: str) -> dict[str, str]:
    """Return the headers of every answer."""
    return {
        "Content-Type": content_type,
        "Cache-Control": "no-store",
        "X-Content-Type-Options": "nosniff",
    }


def _read_head(head: RequestHead) -> HttpRequest:
    target_path, target_query = split_target(head.target)
    query = parse_qs(target_query, max_num_fields=QUERY_FIELDS_MAX, keep_blank_values=True)
    return HttpRequest(
        method=head.method.decode("ascii"),
        path=tuple(unquote(each, errors="strict") for each in target_path.split("/") if each),
        query={name: values[-1] for name, values in query.items()},
        headers={name.decode("ascii"): value.decode("latin-1") for name, value in head.headers},
    )


_NO_REQUEST: Final = HttpRequest(method="", path=(), query={}, headers={})
"""Before the first request."""
