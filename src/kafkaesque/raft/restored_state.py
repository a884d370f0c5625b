"""What a member of a group starts from."""

from collections.abc import Sequence
from dataclasses import dataclass

from kafkaesque.model.ids import Term
from kafkaesque.raft.configuration import PlacedConfiguration
from kafkaesque.raft.entries import HardState, TermStart


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoredState:
    """What a member finds on its disk when it starts; all of it is durable."""

    hard_state: HardState = HardState(Term(0), None)
    #: Everything up to this (index, term) is gone: a snapshot, or the partition's log start.
    log_start: tuple[int, Term] = (0, Term(0))
    term_starts: Sequence[TermStart] = ()
    last_index: int = 0
    #: 0 if unknown.
    commit_index: int = 0
    #: The number of the loss after which this member has not been readmitted; 0: none.
    amnesia: int = 0
    #: At least the last committed one, and every one in the log after it.
    configurations: Sequence[PlacedConfiguration]
