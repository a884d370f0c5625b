"""Why somebody could not be reached or did not answer, in the same words everywhere."""

import socket

NO_ANSWER = "no answer"
CLOSED = "closed the connection"


def why(error: Exception) -> str:
    """Return the reason for people: `connection refused`, without numbers of the system."""
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, EOFError):
        return CLOSED
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower() or CLOSED
    return str(error)
