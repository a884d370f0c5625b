"""Where a broker listens for clients, and what it tells them to connect to."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafkaesque.env.network import Address

KAFKA: Final = "kafka"
TEXT: Final = "text"
ADMIN: Final = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """One address at which a broker speaks one protocol."""

    protocol: str
    #: Unique within a broker. A client that connects to one broker's listener is sent to the
    #: listeners of the same name at the others.
    name: str
    #: What clients are told to connect to.
    advertised: Address
    #: Where it listens, if that is another address.
    bind: Address | None = None
    #: What in the broker's file moves it, for people to read.
    setting: str = ""

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self.bind or self.advertised


def default_listener(
    protocol: str, advertised: Address, bind: Address | None = None, setting: str = ""
) -> Listener:
    """Return a protocol's listener where nobody has named one: it has the protocol's name."""
    return Listener(
        protocol=protocol, name=protocol, advertised=advertised, bind=bind, setting=setting
    )


def first_of(listeners: Iterable[Listener], protocol: str) -> Listener | None:
    """Return the first listener of a protocol, if there is one."""
    return next((each for each in listeners if each.protocol == protocol), None)
