"""Who belongs to a group, and how that changes.

Theory of operation (Raft dissertation, section 4.3). A configuration entry is in force from the
moment it is in the log, committed or not. A change of voters passes through a joint configuration,
in which every decision needs a quorum of the old voters and one of the new; when that entry is
committed the leader appends the final one by itself. A change of learners alone moves no quorum and
takes one step. Entries can be truncated again, so the table keeps the last committed configuration
and whatever came after it.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafkaesque.env.disk import Buffer
from kafkaesque.model.ids import NodeId
from kafkaesque.raft.errors import MalformedRaftMessage, RaftInvariantBroken

#: More members than this are refused, in memory and on the wire.
MEMBERS_MAX = 255
_NODE_MAX = 2**32 - 1
_COUNTS = struct.Struct(">BBBB")
_FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """The members of a group; joint while `voters_outgoing` is not empty."""

    voters: tuple[NodeId, ...]
    voters_outgoing: tuple[NodeId, ...] = ()
    learners: tuple[NodeId, ...] = ()

    @property
    def is_joint(self) -> bool:
        """Whether two sets of voters decide together."""
        return bool(self.voters_outgoing)

    @property
    def halves(self) -> tuple[tuple[NodeId, ...], ...]:
        """The sets of voters of which each needs its own quorum."""
        return (self.voters, self.voters_outgoing) if self.voters_outgoing else (self.voters,)

    @property
    def members(self) -> tuple[NodeId, ...]:
        """Everybody that gets the log, each once, in a fixed order."""
        return tuple(dict.fromkeys((*self.voters, *self.voters_outgoing, *self.learners)))

    def is_voter(self, node: NodeId) -> bool:
        """Tell whether a node has a say in either half."""
        return node in self.voters or node in self.voters_outgoing

    def joined_with(self, target: "Configuration") -> "Configuration":
        """Return the next step from here to `target`: joint, unless the voters stay the same."""
        if sorted(self.voters) == sorted(target.voters):
            return target
        return Configuration(
            voters=target.voters, voters_outgoing=self.voters, learners=target.learners
        )

    def left(self) -> "Configuration":
        """Return the final configuration that follows a joint one."""
        return Configuration(voters=self.voters, learners=self.learners)


def check_configuration(configuration: Configuration) -> str | None:
    """Return what is wrong with a configuration, or None."""
    for name in ("voters", "voters_outgoing", "learners"):
        nodes: tuple[NodeId, ...] = getattr(configuration, name)
        if len(set(nodes)) != len(nodes):
            return f"{name} names a node twice: {nodes}"
        if len(nodes) > MEMBERS_MAX:
            return f"{name} has {len(nodes)} nodes, at most {MEMBERS_MAX} are possible"
        if any(not 0 <= node <= _NODE_MAX for node in nodes):
            return f"{name} has a node id out of range: {nodes}"
    if not configuration.voters:
        return "voters is empty"
    if set(configuration.voters) & set(configuration.learners):
        return "a node is voter and learner at once"
    return None


def write_configuration(configuration: Configuration) -> bytes:
    """Return the payload of a CONFIG entry."""
    parts = (configuration.voters, configuration.voters_outgoing, configuration.learners)
    counts = _COUNTS.pack(_FORMAT_VERSION, *(len(part) for part in parts))
    nodes = [node for part in parts for node in part]
    return counts + struct.pack(f">{len(nodes)}I", *nodes)


def read_configuration(data: Buffer) -> Configuration:
    """Return what `write_configuration` wrote.

    Raises:
        MalformedRaftMessage: anything else.
    """
    if len(data) < _COUNTS.size:
        raise MalformedRaftMessage(f"a configuration of {len(data)} bytes is too short")
    version, *counts = _COUNTS.unpack_from(data)
    if version != _FORMAT_VERSION or len(data) != _COUNTS.size + 4 * sum(counts):
        raise MalformedRaftMessage(f"a configuration with version {version}, counts {counts}")
    nodes = [NodeId(node) for node in struct.unpack_from(f">{sum(counts)}I", data, _COUNTS.size)]
    voters, outgoing = counts[0], counts[0] + counts[1]
    configuration = Configuration(
        voters=tuple(nodes[:voters]),
        voters_outgoing=tuple(nodes[voters:outgoing]),
        learners=tuple(nodes[outgoing:]),
    )
    wrong = check_configuration(configuration)
    if wrong is not None:
        raise MalformedRaftMessage(wrong)
    return configuration


@dataclass(frozen=True, slots=True)
class PlacedConfiguration:
    """A configuration and the index of the entry that brought it (0: from before the log)."""

    index: int
    configuration: Configuration


class ConfigurationTable:
    """The last committed configuration, and those after it that may still be taken back."""

    __slots__ = ("_placed", "effective", "is_settled")

    def __init__(self, placed: Iterable[PlacedConfiguration]) -> None:
        #: Set once a commit has had its consequences for the one in force; spares every later
        #: commit the question.
        self.is_settled = False
        self._placed: list[PlacedConfiguration] = list(placed)
        if not self._placed:
            raise RaftInvariantBroken("a group without any configuration")
        for before, after in zip(self._placed, self._placed[1:], strict=False):
            if before.index >= after.index:
                raise RaftInvariantBroken(f"configurations out of order: {self._placed}")
        #: The one in force: the last in the log.
        self.effective: Configuration = self._placed[-1].configuration

    @property
    def effective_index(self) -> int:
        """Where the one in force stands."""
        return self._placed[-1].index

    def may_be_voter(self, node: NodeId) -> bool:
        """Tell whether a node is a voter in one that is, or may turn out to be, in force."""
        return any(placed.configuration.is_voter(node) for placed in self._placed)

    def committed_at(self, commit_index: int) -> PlacedConfiguration:
        """Return the last one at or before an index; the oldest known if there is none."""
        for placed in reversed(self._placed):
            if placed.index <= commit_index:
                return placed
        return self._placed[0]

    def add(self, index: int, configuration: Configuration) -> None:
        """Put one in force; one that came with a snapshot before its entry is not added again."""
        if index > self.effective_index:
            self._placed.append(PlacedConfiguration(index, configuration))
            self.effective = configuration
            self.is_settled = False

    def truncate(self, last_index: int) -> bool:
        """Take back what stood after an index; tell whether another one is now in force.

        The oldest is committed and stays, even if it came with a snapshot from further on.
        """
        before = len(self._placed)
        self.is_settled = False
        while len(self._placed) > 1 and self._placed[-1].index > last_index:
            self._placed.pop()
        self.effective = self._placed[-1].configuration
        return len(self._placed) != before

    def forget_before(self, commit_index: int) -> None:
        """Drop those that can never be in force again."""
        while len(self._placed) > 1 and self._placed[1].index <= commit_index:
            del self._placed[0]

    def replace(self, index: int, configuration: Configuration) -> None:
        """Start anew from a snapshot's configuration."""
        self._placed = [PlacedConfiguration(index, configuration)]
        self.effective = configuration
        self.is_settled = False


class Ballot:
    """The answers of one round of (pre-)votes."""

    __slots__ = ("_answers", "_halves")

    def __init__(self, configuration: Configuration) -> None:
        self._halves: Sequence[Sequence[NodeId]] = configuration.halves
        self._answers: dict[NodeId, bool] = {}

    def record(self, node: NodeId, granted: bool) -> None:
        """Take a node's first answer; later ones change nothing."""
        self._answers.setdefault(node, granted)

    def awaits(self, node: NodeId) -> bool:
        """Tell whether a voter's answer is still to come."""
        return node not in self._answers and any(node in half for half in self._halves)

    @property
    def is_won(self) -> bool:
        """Whether a majority of each half said yes."""
        return all(
            sum(self._answers.get(node, False) for node in half) > len(half) // 2
            for half in self._halves
        )

    @property
    def is_lost(self) -> bool:
        """Whether a majority of some half can no longer be reached."""
        return any(
            sum(self._answers.get(node, True) for node in half) <= len(half) // 2
            for half in self._halves
        )
