"""Requests and answers of the admin port, as its handlers see them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

TEXT = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request without a body."""

    path: str
    #: Of the query, each name with all its values.
    query: Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What goes back."""

    status: int
    body: bytes
    content_type: str = TEXT


Respond = Callable[[Answer], None]
#: Answers once, now or in a later turn.
Handler = Callable[[Request, Respond], None]


def text_answer(status: int, *sentences: str) -> Answer:
    """Return an answer of lines."""
    return Answer(status=status, body="".join(f"{each}\n" for each in sentences).encode())
