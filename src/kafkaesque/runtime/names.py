"""From names of machines to their addresses."""

import socket

from kafkaesque.env.network import Address, NameUnknown

#: An address family, and what a socket of that family takes for an address.
Target = tuple[int, tuple[str, int]]


def literal_family(host: str) -> int | None:
    """Return the address family if the host is a number, None if it is a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):  # Or it holds a character that no address has.
            continue
        return family
    return None


def resolve(address: Address) -> list[Target]:
    """Return the addresses of a name, IPv4 first; waits, so it is called in a worker.

    Raises:
        NameUnknown: the name has no address, or nobody can say now.
    """
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be a name"
        raise NameUnknown(f"the name of {address} does not resolve: {reason}") from None
    targets = [(int(entry[0]), (str(entry[4][0]), int(entry[4][1]))) for entry in found]
    return sorted(targets, key=lambda target: target[0] != socket.AF_INET)
