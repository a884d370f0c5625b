"""From names of machines to their addresses."""

import socket

from kafkaesque.env.network import Address

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
        OSError: the name is unknown.
    """
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    targets = [(int(entry[0]), (str(entry[4][0]), int(entry[4][1]))) for entry in found]
    return sorted(targets, key=lambda target: target[0] != socket.AF_INET)
