"""What members tell one another about: each node's standing, and the facts that it makes known.

An entry has a key and a version, and of two entries with one key the greater version is true. So
they may arrive in any order, and any number of times. Only a node itself makes new incarnations of
its member entry and new versions of its facts; others only say of an incarnation that it is
suspected or dead.

A *life* is one run of a node's process. Its number is greater than those of the lives before it, as
a rule (the driver takes the wall clock), and it is the life's first incarnation and the lower bound
of its facts' versions. So a restart outdates all that was told of the life before.
"""

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import NamedTuple

from kafkaesque.env.network import Address
from kafkaesque.model.ids import NodeId

#: Node ids are from 0 to this.
NODE_MAX = 2**31 - 1
#: Lives and incarnations, so that a version has room for a state, too.
INCARNATION_MAX = 2**56 - 1
VERSION_MAX = 2**64 - 1
HOST_BYTES_MAX = 255
PORT_MAX = 2**16 - 1
NAME_BYTES_MAX = 48
VALUE_BYTES_MAX = 255
#: Accusers that are told of a suspect; more would only repeat it.
ACCUSERS_MAX = 4
AGE_S_MAX = 2**32 - 1

#: A member entry has an empty name, a fact has its own.
Key = tuple[NodeId, str]
Value = int | float | str | bytes | None


class MemberState(IntEnum):
    """What is said of an incarnation; a greater one outdates a lesser one."""

    ALIVE = 1
    SUSPECT = 2
    DEAD = 3
    #: It said so itself.
    LEFT = 4


class Accusation(NamedTuple):
    """Who has had no answer; `refused`: the place refused the connection, so nobody listens."""

    node: NodeId
    refused: bool


@dataclass(frozen=True, slots=True)
class Member:
    """A node's standing."""

    node: NodeId
    address: Address
    life: int
    incarnation: int
    state: MemberState = MemberState.ALIVE
    #: By node, of a suspect only: at least one.
    accusers: tuple[Accusation, ...] = ()
    #: How long ago it died or left, when this was written.
    age_s: int = 0

    @property
    def key(self) -> Key:
        """What it is stored under."""
        return (self.node, "")

    @property
    def version(self) -> int:
        """Of two entries the greater one is true."""
        return self.incarnation << 3 | self.state

    @property
    def is_live(self) -> bool:
        """Whether it takes part: it is alive, or nobody has proved the contrary."""
        return self.state <= MemberState.SUSPECT

    @property
    def is_tombstone(self) -> bool:
        """Whether it is kept only so that older words about it are known for what they are."""
        return self.state >= MemberState.DEAD


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that a node makes known of itself; without a value it is withdrawn."""

    node: NodeId
    name: str
    version: int
    value: Value
    #: How long ago it was withdrawn, when this was written.
    age_s: int = 0

    @property
    def key(self) -> Key:
        """What it is stored under."""
        return (self.node, self.name)

    @property
    def is_tombstone(self) -> bool:
        """Whether it is kept only so that older words about it are known for what they are."""
        return self.value is None


Entry = Member | Fact


def accused(member: Member, accusations: tuple[Accusation, ...]) -> Member:
    """Return the member as a suspect whose accusers are those it has and these.

    Above `ACCUSERS_MAX`, those who were refused stay before those who heard nothing.
    """
    merged = {each.node: each.refused for each in member.accusers}
    for node, refused in accusations:
        merged[node] = merged.get(node, False) or refused
    kept = sorted(merged.items(), key=lambda item: (not item[1], item[0]))[:ACCUSERS_MAX]
    accusers = tuple(Accusation(node, refused) for node, refused in sorted(kept))
    return replace(member, state=MemberState.SUSPECT, accusers=accusers, age_s=0)
