"""What the core is told."""

from dataclasses import dataclass

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Value
from kafkaesque.model.ids import NodeId


@dataclass(frozen=True, slots=True)
class Received:
    """A datagram has come."""

    source: Address
    data: bytes


@dataclass(frozen=True, slots=True)
class Refused:
    """The machine at a member's address has refused a connection: no process listens there.

    The answer to a `Knock`; it may come unasked as well, for the life that is known at the time.
    """

    node: NodeId
    life: int
    address: Address


@dataclass(frozen=True, slots=True)
class SetFact:
    """This node makes something known; None withdraws it."""

    name: str
    value: Value


@dataclass(frozen=True, slots=True)
class Readdress:
    """This node is reached at another address from now on."""

    address: Address


@dataclass(frozen=True, slots=True)
class Leave:
    """This node is about to be stopped."""


Event = Received | Refused | SetFact | Readdress | Leave
