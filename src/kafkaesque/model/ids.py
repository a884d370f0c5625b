"""Names for the numbers that must never be mixed up."""

from typing import NamedTuple, NewType

#: Position of a record in a partition, as clients see it: 0, 1, 2, ... without gaps.
Offset = NewType("Offset", int)

#: Position in a group's Raft log, which counts records and marks: 1, 2, 3, ...; 0 is "nothing".
Index = NewType("Index", int)

#: Raft term; for a partition it is also the leader epoch that clients see.
Term = NewType("Term", int)

#: Broker id, from 0.
NodeId = NewType("NodeId", int)

#: Number of a Raft group, given by the controller; uint32.
GroupId = NewType("GroupId", int)

#: Sixteen bytes that name a topic for its whole life, across deletion and re-creation of its name.
TopicId = NewType("TopicId", bytes)

#: The controller's own Raft group.
CONTROLLER_GROUP = GroupId(0)

#: "No such broker", as Kafka writes it on the wire.
NO_NODE = NodeId(-1)
#: Broker 0 where 0 is "no such broker", as it was when ids began with 1; no id is as large.
_ZERO_WRITTEN = 2**32 - 1

ZERO_TOPIC_ID = TopicId(bytes(16))


def write_node(node: NodeId) -> int:
    """Return what is written for a broker, or for `NO_NODE`, where 0 says that there is none."""
    if node == 0:
        return _ZERO_WRITTEN
    return 0 if node == NO_NODE else node


def read_node(number: int) -> NodeId:
    """Return what `write_node` was given."""
    if number == 0:
        return NO_NODE
    return NodeId(0 if number == _ZERO_WRITTEN else number)


def group_at(node: NodeId) -> GroupId:
    """Return what stands for a group where one broker alone has something in its memory.

    There is no Raft group of the number: the broker "leads" it as long as it lives.
    """
    return GroupId(-1 - node)


def home_of(group: GroupId) -> NodeId | None:
    """Return the broker of which `group_at` was asked; None: it is a Raft group."""
    return NodeId(-1 - group) if group < 0 else None


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"
