"""The states of a transaction, and which may follow which.

Source: KIP-98 for the states, KIP-890 for the abort of a transaction that has no partitions yet.
The numbers are those of Apache Kafka's records, the names those that DescribeTransactions shows.
"""

from enum import Enum
from itertools import pairwise

from kafkaesque.model.errors import InvariantBroken


class TransactionState(Enum):
    """Where a transactional id stands: (number in a record, name for people)."""

    #: It has a producer, and that one has done nothing yet.
    EMPTY = (0, "Empty")
    #: Partitions have been added.
    ONGOING = (1, "Ongoing")
    #: It is decided that the transaction commits; the markers are being written.
    PREPARE_COMMIT = (2, "PrepareCommit")
    #: It is decided that the transaction aborts; the markers are being written.
    PREPARE_ABORT = (3, "PrepareAbort")
    #: All markers of the commit are written.
    COMPLETE_COMMIT = (4, "CompleteCommit")
    #: All markers of the abort are written.
    COMPLETE_ABORT = (5, "CompleteAbort")
    #: The id is being forgotten. Never in a record: a record without a value says it.
    DEAD = (6, "Dead")
    #: The coordinator itself aborts, and shuts the producer out by a higher epoch. It is passed
    #: through on the way to PREPARE_ABORT, and never in a record.
    PREPARE_EPOCH_FENCE = (7, "PrepareEpochFence")

    @property
    def number(self) -> int:
        """The state as a record has it."""
        number: int = self.value[0]
        return number

    @property
    def title(self) -> str:
        """The state as people read it."""
        title: str = self.value[1]
        return title


_S = TransactionState

#: What may follow; anything else is a defect of ours.
TRANSITIONS: dict[TransactionState, frozenset[TransactionState]] = {
    _S.EMPTY: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD)),
    _S.ONGOING: frozenset(
        (_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE)
    ),
    _S.PREPARE_EPOCH_FENCE: frozenset((_S.PREPARE_ABORT,)),
    _S.PREPARE_COMMIT: frozenset((_S.COMPLETE_COMMIT,)),
    _S.PREPARE_ABORT: frozenset((_S.COMPLETE_ABORT,)),
    _S.COMPLETE_COMMIT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD)),
    _S.COMPLETE_ABORT: frozenset((_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD)),
    _S.DEAD: frozenset(),
}

#: The outcome is decided, and not everywhere written.
PREPARED = frozenset((_S.PREPARE_COMMIT, _S.PREPARE_ABORT))
#: Nothing is open.
AT_REST = frozenset((_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT))
#: May stand in a record.
STORED = {state.number: state for state in (*PREPARED, *AT_REST, _S.ONGOING)}


def check_transitions(*path: TransactionState) -> None:
    """Make sure that each state of a path may follow the one before.

    Raises:
        InvariantBroken: one may not.
    """
    for before, after in pairwise(path):
        if after not in TRANSITIONS[before]:
            raise InvariantBroken(f"a transaction goes from {before.title} to {after.title}")
