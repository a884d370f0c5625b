"""How many files and sockets this process may have open, what share of them is for peers, and which
of them are closed first when it dies.
"""

import fcntl
import resource
import socket
from typing import Final

#: Of all descriptors, this many hundredths may be connections that others have opened. The rest is
#: for files: whoever opens connections must never bring a broker to where it cannot open its log.
CONNECTIONS_PERCENT: Final = 75
#: The kernel's table of a process's descriptors is as long as the highest of them.
LIFTED_BELOW_MAX: Final = 16_384


def raise_limit() -> int:
    """Raise the process's limit of open files as far as it may go; return it, -1 for none."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return soft
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):  # Some systems take no "unlimited": then it stays as it is.
        return soft
    return hard


def connections_max() -> int:
    """Return how many connections may be open that others have opened."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        soft = 1 << 31
    return soft * CONNECTIONS_PERCENT // 100


def lift(sock: socket.socket, eighths: int) -> socket.socket:
    """Return the socket under a descriptor so far up among those that may be, or as it is.

    Linux closes what a dead process had open from the highest descriptor down to the lowest.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft > LIFTED_BELOW_MAX:
        soft = LIFTED_BELOW_MAX
    try:
        fd = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, soft * eighths // 8)
    except OSError:  # There are none left up there.
        return sock
    lifted = socket.socket(sock.family, sock.type, sock.proto, fileno=fd)
    lifted.settimeout(sock.gettimeout())
    sock.close()
    return lifted
