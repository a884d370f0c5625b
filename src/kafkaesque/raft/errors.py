"""What can go wrong in a consensus group, by whose fault it is."""

from kafkaesque.model.errors import InvariantBroken, RequestRefused


class RaftInvariantBroken(InvariantBroken):
    """A property that Raft guarantees does not hold here: the broker must stop with this report."""


class MalformedRaftMessage(RequestRefused):
    """A peer sent bytes or fields that no correct peer sends; the state is as it was before."""


class ConfigurationChangeRefused(RequestRefused):
    """The membership cannot be changed now, or not to this."""


class TransferRefused(RequestRefused):
    """Leadership cannot be handed to this node."""
