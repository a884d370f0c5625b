"""What the core is told."""

import msgspec

from kafkaesque.env.network import Address
from kafkaesque.membership.entries import Value
from kafkaesque.model.ids import NodeId


class Received(msgspec.Struct, frozen=True):
    """A datagram has come."""

    source: Address
    data: bytes


class Refused(msgspec.Struct, frozen=True):
    """The machine at a member's address has refused a connection: no process listens there.

    The answer to a `Knock`; it may come unasked as well, for the life that is known at the time.
    """

    node: NodeId
    life: int
    address: Address


class SetFact(msgspec.Struct, frozen=True):
    """This node makes something known; None withdraws it."""

    name: str
    value: Value


class Readdress(msgspec.Struct, frozen=True):
    """This node is reached at another address from now on."""

    address: Address


class Leave(msgspec.Struct, frozen=True):
    """This node is about to be stopped."""


Event = Received | Refused | SetFact | Readdress | Leave
