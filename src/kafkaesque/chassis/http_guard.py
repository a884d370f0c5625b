"""Tells HTTP from a protocol of lines by the first bytes of a stream.

Any web page may have a browser send a request to a port of this machine, with a body of its
choice: a port that passed over the request's head as so many bad lines would carry out the body.
"""

from typing import Final

#: Those that a browser sends without having asked first, and the others of RFC 9110. GET and PUT
#: are commands for queues, too: in HTTP a path or an address follows (RFC 9112, section 3.2).
_METHODS: Final = (
    b"GET /",
    b"GET http:",
    b"GET https:",
    b"PUT /",
    b"PUT http:",
    b"PUT https:",
    b"HEAD ",
    b"POST ",
    b"PATCH ",
    b"DELETE ",
    b"OPTIONS ",
    b"TRACE ",
    b"CONNECT ",
)
#: So many bytes are enough to know.
BEGINNING_BYTES: Final = max(map(len, _METHODS))


def is_http_request(beginning: bytes) -> bool | None:
    """Return whether a stream that begins so is an HTTP request; None if it is too early to say."""
    if beginning.startswith(_METHODS):
        return True
    if any(method.startswith(beginning) for method in _METHODS):
        return None
    return False
