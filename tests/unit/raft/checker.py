"""What must hold at every moment of every run, whatever the network and the disks do.

It sees the cluster from outside: what members write, sync, send and report as committed.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.entries import EntryKind, EntryMeta
from kafkaesque.raft.messages import AnyMessage, AppendResponse, VoteResponse
from tests.unit.raft.disk_image import DiskImage

Place = tuple[int, Term]


class Violation(AssertionError):
    """One of Raft's claims does not hold."""


class Checker:
    """Remembers everything that any member ever claimed."""

    def __init__(self) -> None:
        self.leaders: dict[Term, NodeId] = {}
        self.votes: dict[tuple[NodeId, Term], NodeId] = {}
        #: Every entry that was ever in any log, by its name, with what stood before it.
        self.entries: dict[Place, tuple[int, EntryKind, bytes]] = {}
        self.before: dict[Place, Place] = {}
        self.committed: dict[int, tuple[Term, bytes]] = {}
        self.commit: Place = (0, Term(0))
        #: The newest term in which anybody led when a leader asked for a round.
        self.asked: dict[tuple[NodeId, Term, int], Term] = {}

    def on_leader(self, node: NodeId, term: Term, image: DiskImage) -> None:
        """Election safety (§5.2) and leader completeness (§5.4)."""
        other = self.leaders.setdefault(term, node)
        if other != node:
            raise Violation(f"election safety: nodes {other} and {node} lead in term {term}")
        if not image.has(*self.commit):
            raise Violation(f"leader completeness: node {node}, term {term} lacks {self.commit}")

    def on_asked(self, node: NodeId, term: Term, number: int) -> None:
        """A leader wants to know whether it leads still; who asks last counts for a round."""
        self.asked[node, term, number] = max(self.leaders)

    def on_confirmed(self, node: NodeId, term: Term, number: int) -> None:
        """Reads see all that was committed when they were asked for (dissertation 6.4)."""
        newest = max(self.asked.get((node, term, at), Term(0)) for at in range(1, number + 1))
        if newest > term:
            raise Violation(f"node {node} leads still in term {term}, and there was {newest}")

    def forget(self, node: NodeId) -> None:
        """Forget what a member has promised: its disk is gone."""
        self.votes = {key: to for key, to in self.votes.items() if key[0] != node}

    def on_sent(self, message: AnyMessage, live: DiskImage, durable: DiskImage) -> None:
        """One vote per term (§5.2); nothing is acknowledged that a crash could take back."""
        if isinstance(message, VoteResponse) and message.granted and not message.pre:
            key = (message.sender, message.term)
            other = self.votes.setdefault(key, message.to)
            if other != message.to:
                raise Violation(f"node {message.sender} votes twice in term {message.term}")
            if durable.hard_state != (message.term, message.to):
                raise Violation(f"node {message.sender} gives a vote that is not durable")
        if isinstance(message, AppendResponse) and not message.rejected:
            index = message.synced_index
            if not durable.has(index, live.term_at(index)):
                raise Violation(f"node {message.sender} acknowledges {index}, which is not durable")

    def on_appended(self, before: Place, entries: Sequence[EntryMeta]) -> None:
        """Log matching (§5.3), by induction: the same name means the same entry and predecessor."""
        for entry in entries:
            name = (entry.last_index, entry.term)
            content = (entry.first_index, entry.kind, bytes(entry.data))  # type: ignore[arg-type]
            if self.entries.setdefault(name, content) != content:
                raise Violation(f"log matching: {name} is {self.entries[name]} and {content}")
            if before[0] + 1 == entry.first_index:
                if self.before.setdefault(name, before) != before:
                    raise Violation(
                        f"log matching: before {name} stand {self.before[name]} and {before}"
                    )
            elif before[0] >= entry.first_index:
                raise Violation(f"entry {name} from {entry.first_index} after {before}")
            before = name

    def on_committed(self, node: NodeId, before_index: int, index: int, live: DiskImage) -> None:
        """State machine safety (§5.4): at one index all members apply the same entry."""
        if index < before_index:
            raise Violation(f"node {node}: commit index {before_index} -> {index}")
        if index > live.last_index:
            raise Violation(f"node {node}: commit index {index} after the end {live.last_index}")
        for entry in live.entries_after(before_index):
            if entry.last_index > index:
                break
            applied = (entry.term, bytes(entry.data))  # type: ignore[arg-type]
            if self.committed.setdefault(entry.last_index, applied) != applied:
                raise Violation(
                    f"state machine safety: at {entry.last_index} node {node} applies {applied},"
                    f" another applied {self.committed[entry.last_index]}"
                )
        if index > self.commit[0]:
            self.commit = (index, live.term_at(index))

    def on_everywhere(self, place: Place, disks: Sequence[Sequence[DiskImage]]) -> None:
        """Where a leader says that all members have an entry, each has it, or had it once."""
        if not all(any(image.has(*place) for image in images) for images in disks):
            raise Violation(f"{place} is not everywhere")

    def is_on_quorum(
        self,
        place: Place,
        configuration: Configuration,
        min_insync: int,
        durable: dict[NodeId, list[DiskImage]],
    ) -> bool:
        """Tell whether enough voters of each half have an entry on their disks, or once had."""
        for half in configuration.halves:
            sound = sum(not durable[node][0].amnesia for node in half)
            quorum = max(len(half) // 2 + 1, min(sound, min_insync))
            held = [any(image.has(*place) for image in durable[node]) for node in half]
            if sum(held) < quorum:
                return False
        return True
