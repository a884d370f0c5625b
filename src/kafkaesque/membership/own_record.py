"""What a member says of itself: nobody else can, and it refutes who tries."""

from dataclasses import replace
from typing import Final

from kafkaesque.membership.config import Identity
from kafkaesque.membership.entries import INCARNATION_MAX, VERSION_MAX, Member, MemberState
from kafkaesque.membership.errors import MembershipInvariantBroken

#: Once is a restart with a clock that was put back; more than that is another process.
USURPATIONS_TOLERATED: Final = 1


class OwnRecord:
    """A node's own standing, in its newest incarnation."""

    __slots__ = ("_usurpations", "_version", "member")

    def __init__(self, identity: Identity) -> None:
        self.member = Member(identity.node, identity.address, identity.life, identity.life)
        self._version = identity.life
        self._usurpations = 0

    @property
    def life(self) -> int:
        """This run's number."""
        return self.member.life

    @property
    def is_contested(self) -> bool:
        """Whether others claim this id again and again, in lives of their own."""
        return self._usurpations > USURPATIONS_TOLERATED

    def next_version(self) -> int:
        """Return a version for one of this node's facts."""
        self._version = max(self._version, self.member.life) + 1
        return self._version

    def outbid(self, version: int) -> None:
        """Somebody has a fact of this node in this version: the next ones are greater."""
        self._version = min(max(self._version, version), VERSION_MAX - 1)

    def change(self, **changes: object) -> Member:
        """Begin an incarnation; return it."""
        self.member = replace(
            self.member,
            incarnation=_after(self.member.incarnation),
            **changes,  # type: ignore[arg-type]
        )
        return self.member

    def leave(self) -> Member:
        """Say that this node leaves; return it."""
        self.member = replace(self.member, state=MemberState.LEFT)
        return self.member

    def is_usurped(self, word: Member) -> bool:
        """Tell whether this is about another life, which outdates this one."""
        own = self.member
        return (
            word.life != own.life
            and word.incarnation >= own.incarnation
            and own.state is not MemberState.LEFT
        )

    def refute(self, word: Member) -> Member | None:
        """Answer what is said of this life; return the new incarnation if there has to be one."""
        own = self.member
        if (
            word.incarnation < own.incarnation
            or word.version <= own.version
            or own.state is MemberState.LEFT
        ):
            return None
        self.member = replace(own, incarnation=_after(word.incarnation))
        return self.member

    def outlive(self, incarnation: int) -> Member:
        """Begin a life after this incarnation, which belongs to another one; return it."""
        self._usurpations += 1
        life = _after(max(incarnation, self.member.incarnation))
        self.member = replace(self.member, life=life, incarnation=life)
        return self.member


def _after(incarnation: int) -> int:
    if incarnation >= INCARNATION_MAX:
        raise MembershipInvariantBroken(f"there is no incarnation after {incarnation}")
    return incarnation + 1
