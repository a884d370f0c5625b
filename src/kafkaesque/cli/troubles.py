"""Why somebody could not be reached or did not answer, in the same words everywhere."""

import socket
import ssl

NO_ANSWER = "no answer"
CLOSED = "closed the connection"


def why(error: Exception) -> str:
    """Return the reason for people: `connection refused`, without numbers of the system."""
    if isinstance(error, TimeoutError):
        return NO_ANSWER
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return CLOSED
    if isinstance(error, ssl.SSLError):
        return f"no TLS with it: {(error.reason or str(error)).replace('_', ' ').lower()}"
    if isinstance(error, EOFError):
        return CLOSED
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower() or CLOSED
    return str(error)
