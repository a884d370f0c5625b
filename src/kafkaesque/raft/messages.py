"""What members of a group say to one another.

Plain slotted classes of plain numbers; `raft.wire` turns them into bytes. Every message names its
group, its sender, its receiver and the sender's term (a pre-vote: the term that is aimed at).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaesque.model.ids import GroupId, NodeId, Term
from kafkaesque.raft.configuration import PlacedConfiguration
from kafkaesque.raft.entries import EntryMeta, Payload, TermStart


@dataclass(slots=True)
class Message:
    """What all have in common."""

    group: GroupId
    sender: NodeId
    to: NodeId
    term: Term


@dataclass(slots=True)
class VoteRequest(Message):
    """Asks for a vote (`pre`: whether one would be given), with the end of the sender's log.

    With `is_transfer` the leader itself asked for this election: nobody refuses for its sake.
    """

    last_index: int
    last_term: Term
    pre: bool
    is_transfer: bool


@dataclass(slots=True)
class VoteResponse(Message):
    """Answers a `VoteRequest`; a granted pre-vote has the aimed-at term, else the sender's own."""

    pre: bool
    granted: bool


@dataclass(slots=True)
class AppendRequest(Message):
    """Entries that follow (prev_index, prev_term) in the leader's log; also a probe, if empty.

    `term_starts` are the leader's term starts after `prev_index` and up to the last entry's end. Up
    to `everywhere_index` all replicas have the log, synced.
    """

    prev_index: int
    prev_term: Term
    commit_index: int
    term_starts: Sequence[TermStart]
    entries: Sequence[EntryMeta]
    everywhere_index: int = 0


@dataclass(slots=True)
class AppendResponse(Message):
    """How far the sender's log agrees with the leader's, and how far that is durable.

    `matched_index` agrees, `synced_index` agrees and is synced. If `rejected`, they say nothing,
    `prev_index` repeats the request's, and the hint is the last place where agreement is possible.
    A sender that has lost its log and its votes gives its loss a number, until it is readmitted.
    """

    rejected: bool
    prev_index: int
    matched_index: int
    synced_index: int
    commit_index: int
    hint_index: int
    hint_term: Term
    amnesia: int = 0


@dataclass(slots=True)
class SnapshotRequest(Message):
    """Replaces everything up to (last_index, last_term), which is committed; `data` is opaque."""

    last_index: int
    last_term: Term
    configuration: PlacedConfiguration
    data: Payload


@dataclass(slots=True)
class TimeoutNow(Message):
    """The leader asks the receiver to take over at once."""


@dataclass(slots=True)
class NotHere(Message):
    """The sender cannot take part in the group, or not take what is new; the term is repeated.

    Its log is damaged, say, or its disk full.
    """


@dataclass(slots=True)
class Readmit(Message):
    """Nothing counts any more that the receiver promised before the loss of this number.

    True of a receiver that has the sender's log up to `index`, synced.
    """

    amnesia: int
    index: int


@dataclass(slots=True)
class ConfirmRequest(Message):
    """Asks whether the receiver knows of no later term; the sender leads in this one."""

    round: int


@dataclass(slots=True)
class ConfirmResponse(Message):
    """The sender knew of no later term when this round came."""

    round: int


AnyMessage = (
    VoteRequest
    | VoteResponse
    | AppendRequest
    | AppendResponse
    | SnapshotRequest
    | TimeoutNow
    | NotHere
    | Readmit
    | ConfirmRequest
    | ConfirmResponse
)
