"""What can go wrong in the room of membership, by whose fault it is."""

from enum import Enum

from kafkaesque.model.errors import InvariantBroken, RequestRefused


class MembershipInvariantBroken(InvariantBroken):
    """Something that this room guarantees does not hold: a defect of ours."""


class MalformedPacket(RequestRefused):
    """Bytes that no correct member sends."""


class FactRefused(RequestRefused):
    """A fact that cannot be told: its name or its value is out of bounds, or there are too many."""


class Refusal(Enum):
    """Why a frame was not believed."""

    MALFORMED = "it is no frame of this protocol"
    OTHER_VERSION = "it speaks another version of the protocol"
    OTHER_CLUSTER = "it belongs to another cluster"
    UNKNOWN_KEY = "it is signed with a secret that is not known here"
    FORGED = "its signature is wrong"
    REPLAYED = "it has been seen before"
    OUTDATED = "it comes from an earlier life of its sender"
    NOT_FOR_US = "it is for another node"
    OWN = "it says that it comes from this very node"
    UNREADABLE = "its signature is right, but it cannot be read"


class FrameRefused(RequestRefused):
    """A frame is not believed; nothing of it has been taken in."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.value)
        self.refusal = refusal
