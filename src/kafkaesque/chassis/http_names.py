"""Which names in a `Host` header are a broker's own: no page on the web can have them.

A page's own name may be made to point here (DNS rebinding). A number, `localhost`, and what a
listener is advertised as cannot be a stranger's name.
"""

from collections.abc import Collection
from ipaddress import ip_address
from typing import Final

_LOCAL: Final = frozenset({"localhost"})


def is_own_host(host: str, names: Collection[str]) -> bool:
    """Tell whether a `Host` header, with its port or without, is this broker."""
    folded = _without_port(host).lower().removesuffix(".")
    if folded in _LOCAL or folded in names:
        return True
    try:
        ip_address(folded)
    except ValueError:
        return False
    return True


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
