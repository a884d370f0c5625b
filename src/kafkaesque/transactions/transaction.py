"""One transactional id, and what its value becomes with each change.

What is known is what is committed to the log. A change that is on its way is only its `target`, and
while there is one nothing else can begin.
"""

from collections.abc import Iterable
from dataclasses import replace

from kafkaesque.model.errors import InvariantBroken
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.events import NO_CONNECTION, MarkersToken
from kafkaesque.transactions.producer_entries import EPOCH_MAX, NO_PRODUCER_ID
from kafkaesque.transactions.records import NO_TIME, TransactionValue
from kafkaesque.transactions.states import PREPARED, TransactionState, check_transitions

#: The highest epoch that a client gets; the one above it is left for shutting that client out.
CLIENT_EPOCH_MAX = EPOCH_MAX - 1

#: A client of this version takes its next epoch from the answer to EndTxn (KIP-890 part 2).
EPOCH_BUMP_VERSION = 2


class Transaction:
    """A transactional id and its transaction, if one is open."""

    __slots__ = (
        "connection",
        "markers_left",
        "markers_token",
        "target",
        "transactional_id",
        "value",
    )

    def __init__(self, transactional_id: str, value: TransactionValue | None = None) -> None:
        self.transactional_id = transactional_id
        #: None until the first record is committed.
        self.value = value
        #: The state that is on its way to the log, or waits for a producer id.
        self.target: TransactionState | None = None
        #: The newest connection over which this incarnation of the producer has spoken.
        self.connection = NO_CONNECTION
        #: Names the markers that are being written.
        self.markers_token: MarkersToken | None = None
        #: Partitions that have not taken theirs.
        self.markers_left: set[TopicPartition] = set()

    @property
    def state(self) -> TransactionState:
        """The state that is committed to the log."""
        return TransactionState.EMPTY if self.value is None else self.value.state

    @property
    def is_changing(self) -> bool:
        """Whether a change is under way."""
        return self.target is not None

    @property
    def is_concurrent(self) -> bool:
        """Whether a request has to come again: a change or markers are under way."""
        return self.is_changing or self.state in PREPARED

    def begin(self, *path: TransactionState) -> None:
        """Begin a change to the last of these states, by way of the others.

        Raises:
            InvariantBroken: another change is under way, or the path is not one.
        """
        if self.target is not None:
            raise InvariantBroken(f"{self.transactional_id!r} goes to {self.target.title} already")
        check_transitions(self.state, *path)
        self.target = path[-1]

    def settle(self, value: TransactionValue) -> None:
        """Take note that the change is committed.

        Raises:
            InvariantBroken: it is not the one that was begun.
        """
        if value.state is not self.target:
            raise InvariantBroken(f"{self.transactional_id!r} goes to {value.state.title} unbegun")
        self.value = value
        self.target = None

    def cancel(self) -> None:
        """Take note that the change will not be."""
        self.target = None

    def hears(self, connection: int) -> bool:
        """Take note of a connection; return False if a newer one has spoken already (ADR 6)."""
        if connection == NO_CONNECTION:
            return True
        if connection < self.connection:
            return False
        self.connection = connection
        return True

    def check_producer(
        self,
        producer_id: int,
        producer_epoch: int,
        connection: int,
        value: TransactionValue | None = None,
    ) -> TransactionError:
        """Return whether this is the present incarnation, speaking for itself.

        Present is the one of the `value` that is to come, if there is one.
        """
        value = value or self.value
        if value is None or value.producer_id != producer_id:
            return TransactionError.INVALID_PRODUCER_ID_MAPPING
        if value.producer_epoch != producer_epoch or producer_epoch > CLIENT_EPOCH_MAX:
            return TransactionError.PRODUCER_FENCED
        if not self.hears(connection):
            return TransactionError.INVALID_PRODUCER_EPOCH
        return TransactionError.NONE


# --- what a value becomes ---


def initialized(
    before: TransactionValue | None,
    *,
    producer_id: int,
    producer_epoch: int,
    last_epoch: int,
    timeout_ms: int,
    wall_ms: int,
) -> TransactionValue:
    """Return the value of a producer that begins with this id and epoch."""
    previous_producer_id = NO_PRODUCER_ID
    if before is not None:
        is_same = (before.producer_id, before.producer_epoch) == (producer_id, producer_epoch)
        previous_producer_id = before.previous_producer_id if is_same else before.producer_id
    return TransactionValue(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        update_wall_ms=wall_ms,
        previous_producer_id=previous_producer_id,
        last_epoch=last_epoch,
    )


def with_partitions(
    before: TransactionValue, partitions: Iterable[TopicPartition], wall_ms: int
) -> TransactionValue:
    """Return the value with these partitions in an open transaction."""
    is_open = before.state is TransactionState.ONGOING
    return replace(
        before,
        state=TransactionState.ONGOING,
        partitions=before.partitions.union(partitions),
        update_wall_ms=wall_ms,
        start_wall_ms=before.start_wall_ms if is_open else wall_ms,
        previous_producer_id=before.producer_id,
    )


def decided(
    before: TransactionValue,
    *,
    is_commit: bool,
    learns_epoch: bool,
    next_producer_id: int,
    wall_ms: int,
) -> TransactionValue:
    """Return the value of a transaction that its producer ends.

    A client that learns its next epoch gets a higher one, which the markers carry already: no
    request from before can be taken for one of the next transaction (KIP-890 part 2).
    """
    is_open = before.state is TransactionState.ONGOING
    after = replace(
        before,
        state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
        update_wall_ms=wall_ms,
        start_wall_ms=before.start_wall_ms if is_open else wall_ms,
        previous_producer_id=before.producer_id,
        client_version=0,
    )
    if not learns_epoch:
        return after
    return replace(
        after,
        producer_epoch=before.producer_epoch + 1,
        last_epoch=before.producer_epoch,
        next_producer_id=next_producer_id,
        client_version=EPOCH_BUMP_VERSION,
    )


def fenced(
    before: TransactionValue, *, last_epoch: int, is_learned: bool, wall_ms: int
) -> TransactionValue:
    """Return the value of a transaction that the coordinator aborts, with a higher epoch.

    `last_epoch` is that of a producer that may go on from there; `is_learned` lets a client that
    takes its epoch from the answer to EndTxn do so.
    """
    return replace(
        before,
        state=TransactionState.PREPARE_ABORT,
        producer_epoch=min(before.producer_epoch + 1, EPOCH_MAX),
        last_epoch=last_epoch,
        update_wall_ms=wall_ms,
        previous_producer_id=before.producer_id,
        client_version=EPOCH_BUMP_VERSION if is_learned else 0,
    )


def completed(before: TransactionValue, wall_ms: int) -> TransactionValue:
    """Return the value of a transaction whose markers are all written."""
    is_commit = before.state is TransactionState.PREPARE_COMMIT
    after = replace(
        before,
        state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        update_wall_ms=wall_ms,
        previous_producer_id=before.producer_id,
        next_producer_id=NO_PRODUCER_ID,
    )
    if before.next_producer_id == NO_PRODUCER_ID:
        return after
    return replace(after, producer_id=before.next_producer_id, producer_epoch=0)


def heir(value: TransactionValue) -> tuple[int, int]:
    """Return the producer id and epoch that count once the markers are written."""
    if value.next_producer_id != NO_PRODUCER_ID:
        return value.next_producer_id, 0
    return value.producer_id, value.producer_epoch


def open_ms(value: TransactionValue, wall_ms: int) -> int:
    """Return for how long the transaction has been open; calendars may be set back."""
    return max(wall_ms - value.start_wall_ms, 0) if value.start_wall_ms != NO_TIME else 0
