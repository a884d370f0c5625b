"""The work that the core hands to its driver."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kafkaesque.model.ids import NodeId, Term
from kafkaesque.raft.configuration import Configuration
from kafkaesque.raft.entries import EntryMeta, HardState
from kafkaesque.raft.messages import AnyMessage, SnapshotRequest


class Role(Enum):
    """What a member is at the moment; a learner is a follower that never asks for votes."""

    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


class RoleChange(NamedTuple):
    """The new role, its term, and the leader as far as known."""

    role: Role
    term: Term
    leader: NodeId | None


@dataclass(slots=True)
class Replicate:
    """Read entries for a peer and hand them to `RaftCore.fill`.

    Wanted: the entries whose last index is at least `first_index`, in order, at most `bytes_max`
    bytes of them, but at least one.
    """

    to: NodeId
    term: Term
    first_index: int
    bytes_max: int


@dataclass(slots=True)
class SendSnapshot:
    """A peer needs what is before the log's start: make a snapshot, then `fill_snapshot`."""

    to: NodeId
    term: Term


@dataclass(slots=True)
class Ready:
    """What has come up since the last one.

    Write, in this order: `hard_state`, the cut to `truncate_to`, `entries`. Once they are synced
    report `on_hard_state_synced(*hard_state)` and `on_synced(last index, generation)`; durability
    is reported in the order of writing. `messages` may leave at once: whatever must wait for the
    disk is still with the core and comes after the report.
    """

    hard_state: HardState | None
    #: Everything after this index is void.
    truncate_to: int | None
    entries: list[EntryMeta]
    #: To be handed back with `on_synced`; truncations since then make the report void.
    generation: int
    messages: list[AnyMessage]
    replicate: list[Replicate]
    send_snapshots: list[SendSnapshot]
    #: Put this in the place of the log, durably and in one step, then `on_snapshot_installed`.
    install_snapshot: SnapshotRequest | None
    #: The new commit index, if it has changed; local durability may be behind it. It goes back only
    #: in a volatile log.
    commit_index: int | None
    role_change: RoleChange | None
    #: The configuration now in force, if it is another.
    configuration: Configuration | None
    #: The leader's view of who is in sync, if it has changed.
    in_sync: tuple[NodeId, ...] | None
    #: This member is readmitted: write that it has lost nothing, in any order with the rest.
    is_readmitted: bool
    #: The newest round in which this leader was confirmed, if it is another.
    confirmed_round: int | None


class Outbox:
    """Collects a `Ready` while events come in."""

    __slots__ = (
        "commit_index",
        "configuration",
        "confirmed_round",
        "entries",
        "hard_state",
        "has_marks",
        "has_work",
        "in_sync",
        "install_snapshot",
        "is_readmitted",
        "messages",
        "replicate",
        "role_change",
        "send_snapshots",
        "truncate_to",
    )

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        #: Whether `take` would return anything but an empty one; to be read only.
        self.has_work = False
        #: Whether there is an entry without a record among them; to be read only.
        self.has_marks = False
        self.hard_state: HardState | None = None
        self.truncate_to: int | None = None
        self.entries: list[EntryMeta] = []
        self.messages: list[AnyMessage] = []
        self.replicate: list[Replicate] = []
        self.send_snapshots: list[SendSnapshot] = []
        self.install_snapshot: SnapshotRequest | None = None
        self.commit_index: int | None = None
        self.role_change: RoleChange | None = None
        self.configuration: Configuration | None = None
        self.in_sync: tuple[NodeId, ...] | None = None
        self.is_readmitted = False
        self.confirmed_round: int | None = None

    def touch(self) -> None:
        """Note that a field was set."""
        self.has_work = True

    def send(self, message: AnyMessage) -> None:
        """Add a message that may leave at once."""
        self.messages.append(message)
        self.has_work = True

    def append(self, entries: Sequence[EntryMeta]) -> None:
        """Add entries to be written."""
        self.entries.extend(entries)
        self.has_work = True

    def append_mark(self, entry: EntryMeta) -> None:
        """Add an entry that has no record: it moves the offsets of those after it."""
        self.append((entry,))
        self.has_marks = True

    def truncate(self, last_index: int) -> None:
        """Add a cut; entries of this Ready that it makes void are dropped."""
        while self.entries and self.entries[-1].last_index > last_index:
            self.entries.pop()
        if self.truncate_to is None or last_index < self.truncate_to:
            self.truncate_to = last_index
        self.has_work = True

    def commit(self, commit_index: int) -> None:
        """Announce a commit index."""
        self.commit_index = commit_index
        self.has_work = True

    def confirm(self, number: int) -> None:
        """Announce that this leader was confirmed in a round."""
        self.confirmed_round = number
        self.has_work = True

    def abandon_leadership(self) -> None:
        """Drop the work that only a leader can hand out."""
        self.replicate.clear()
        self.send_snapshots.clear()
        self.in_sync = None
        self.confirmed_round = None

    def take(self, generation: int) -> Ready:
        """Return what was collected and start anew."""
        ready = Ready(
            self.hard_state,
            self.truncate_to,
            self.entries,
            generation,
            self.messages,
            self.replicate,
            self.send_snapshots,
            self.install_snapshot,
            self.commit_index,
            self.role_change,
            self.configuration,
            self.in_sync,
            self.is_readmitted,
            self.confirmed_round,
        )
        self._clear()
        return ready
