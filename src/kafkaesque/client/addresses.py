"""Addresses of brokers, as people write them."""

from typing import Final, NamedTuple

from kafkaesque.client.errors import InvalidArgument

PORT_MAX: Final = 65_535
#: More addresses than this are not looked at.
ADDRESSES_MAX: Final = 100


class Address(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


class PortMissing(InvalidArgument):
    """An address names no port."""

    def __init__(self, host: str) -> None:
        super().__init__(f"{host!r} has no port")
        self.host = host


def parse_addresses(bootstrap: str) -> list[Address]:
    """Return hosts and ports of `host:port,...`.

    No port is assumed: with another one in mind, somebody would talk to another cluster.

    Raises:
        PortMissing: an address without a port.
        InvalidArgument: another mistake.
    """
    found = []
    for word in bootstrap.split(",")[:ADDRESSES_MAX]:
        host, colon, port = word.strip().rpartition(":")
        if (port and not colon) or port.endswith("]"):
            raise PortMissing(word.strip())
        if not host or not port.isdigit() or not 0 < int(port) <= PORT_MAX:
            raise InvalidArgument(f"{word.strip()!r} is not the address of a broker")
        found.append(Address(host.strip("[]"), int(port)))
    return found
