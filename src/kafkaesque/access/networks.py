"""Where a connection comes from: addresses, and the networks that rules and credentials name.

An IPv4 address that came in over an IPv6 socket (`::ffff:10.0.0.1`) is the IPv4 address: otherwise
a rule for 10.0.0.0/8 would hold or not depending on how a broker listens.
"""

import ipaddress
from typing import Final, NamedTuple

from kafkaesque.model.errors import InvalidRequest

#: In a rule: from everywhere.
ANY_HOST: Final = "*"


class HostAddress(NamedTuple):
    """An IP address as two numbers, quick to compare."""

    version: int
    number: int


class Network(NamedTuple):
    """A network, or a single address as a network of one."""

    version: int
    base: int
    mask: int

    def holds(self, address: HostAddress | None) -> bool:
        """Tell whether an address lies in it; what is no address lies in none."""
        if address is None or address.version != self.version:
            return False
        return address.number & self.mask == self.base


def read_address(host: str) -> HostAddress | None:
    """Return the address, or None if the host is known by something else."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    address = mapped or address
    return HostAddress(address.version, int(address))


def read_network(text: str) -> Network:
    """Return a network that is written as an address or in CIDR notation.

    Raises:
        InvalidRequest: neither of them, or the address has bits beside the network's.
    """
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise InvalidRequest(f"{text!r} is no address and no network: {error}") from None
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96:
        mapped = network.network_address.ipv4_mapped
        if mapped is not None:
            network = ipaddress.ip_network((mapped, network.prefixlen - 96))
    return Network(network.version, int(network.network_address), int(network.netmask))


def common_hosts(one: str, other: str) -> str | None:
    """Return which of two hosts of rules lies within the other; None: they have none in common.

    Raises:
        InvalidRequest: one is no address, no network, and not `ANY_HOST`.
    """
    if one == other or other == ANY_HOST:
        return one
    if one == ANY_HOST:
        return other
    for inner, outer in ((one, other), (other, one)):
        network, around = read_network(inner), read_network(outer)
        is_narrower = network.mask >= around.mask
        if is_narrower and around.holds(HostAddress(network.version, network.base)):
            return inner
    return None


def is_within(host: str, networks: tuple[str, ...]) -> bool:
    """Tell whether a host lies in one of the networks; none named means everywhere."""
    if not networks:
        return True
    address = read_address(host)
    return any(read_network(each).holds(address) for each in networks)
