"""Requests and answers of the admin port, as its handlers see them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from kafkaesque.admin.visitor import Visitor

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a client asks."""

    path: str
    #: Of the query, each name with all its values.
    query: Mapping[str, Sequence[str]]
    method: str = "GET"
    #: By names in lower case; of those that come more than once, the last.
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    #: Who asks, and what they may do.
    visitor: Visitor = Visitor()


class Outlet(Protocol):
    """Where the body of an answer goes that is made piece by piece."""

    @property
    def has_room(self) -> bool:
        """Whether the client takes what it is sent; if not, `Source.on_room` says when it does."""

    def write(self, data: bytes) -> None:
        """Send a piece; harmless when the client is gone."""

    def end(self) -> None:
        """That was all."""


class Source(Protocol):
    """What makes a body piece by piece."""

    def on_room(self) -> None:
        """The client may be sent something: at the beginning, and when it has read enough."""

    def on_gone(self) -> None:
        """Nobody reads any more; called at most once, and not after `Outlet.end`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back."""

    status: int
    body: bytes = b""
    content_type: str = TEXT
    #: Beside those that every answer has; these win.
    headers: Mapping[str, str] = field(default_factory=dict)
    #: Makes what sends the body, in place of `body`.
    open: Callable[[Outlet], Source] | None = None
    #: Of a body that takes long: asked when users or rules have changed; if not, it is cut off.
    may_go_on: Callable[[], bool] = lambda: True


def write_json(value: object) -> bytes:
    """Return a value as JSON, whatever its texts hold.

    Texts of AMQP need not be UTF-8; what cannot be written is shown as an escape.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_writable(msgspec.to_builtins(value)))


def _writable(value: object) -> object:
    match value:
        case str():
            return value.encode(errors="backslashreplace").decode()
        case dict():
            return {_writable(name): _writable(each) for name, each in value.items()}
        case list():
            return [_writable(each) for each in value]
    return value


Respond = Callable[[Answer], None]
#: Answers once, now or in a later turn.
Handler = Callable[[Request, Respond], None]


class Pages(Protocol):
    """Files for browsers, which the admin port serves and knows nothing about."""

    def find(self, request: Request) -> Answer | None:
        """Return the file that is asked for, if there is one."""


def text_answer(status: int, *sentences: str) -> Answer:
    """Return an answer of lines."""
    return Answer(status=status, body="".join(f"{each}\n" for each in sentences).encode())
