"""How many files and sockets this process may have open, and what share of them is for peers."""

import resource
from typing import Final

#: Of all descriptors, this many hundredths may be connections that others have opened. The rest is
#: for files: whoever opens connections must never bring a broker to where it cannot open its log.
CONNECTIONS_PERCENT: Final = 75


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
