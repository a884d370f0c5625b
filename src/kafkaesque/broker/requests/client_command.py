"""Commands that a client may have asked for, and who that is."""

import msgspec

from kafkaesque.access.principals import Principal
from kafkaesque.broker.peers.messages import PeerRequest


class OnBehalfOf(msgspec.Struct, frozen=True, array_like=True):
    """A client that has logged in, and where it has come from."""

    principal: str
    host: str
    #: The name of the listener that it came by, for the audit log.
    listener: str = ""

    @property
    def who(self) -> Principal:
        """The client's name in rules."""
        return Principal(self.principal)


class ClientCommand(PeerRequest, frozen=True, kw_only=True):
    """Base of the controller's commands behind which there may be a client.

    The broker that the client is connected with has asked its rules already, which may be old: the
    controller asks its own.
    """

    #: None: the broker itself, or a client of an open listener.
    on_behalf_of: OnBehalfOf | None = None
