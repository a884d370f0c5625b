"""What a member of a group may consume, and as whom it commits."""

from typing import Final, NamedTuple, Protocol

#: A member that was not heard of for so long has left; shorter than workers are paused.
SESSION_TIMEOUT_MS: Final = 1_500
REBALANCE_TIMEOUT_MS: Final = 2_000
HEARTBEAT_INTERVAL_MS: Final = 250


class Ownership(NamedTuple):
    """What a member was given, and the words that its commits are judged by (KIP-447)."""

    member_id: str
    #: The generation; of a member whose partitions the broker assigns, its epoch.
    generation: int
    partitions: frozenset[int]


NOTHING: Final = Ownership("", -1, frozenset())


class GroupMember(Protocol):
    """Keeps a place in a group, whatever its owner is doing meanwhile."""

    @property
    def ownership(self) -> Ownership:
        """What it owns now."""
