"""What coordinators and leaders do when asked to end something: groups and transactions.

The parts `delete-group`, `abort-transaction`, `open-transactions` and `abort-open-transaction`.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from kafkaesque.admin.api.changes import CHANGE_MS_MAX
from kafkaesque.admin.api.context import Context
from kafkaesque.admin.api.fan_out import OnAnswer, PartPage, PartServer
from kafkaesque.admin.turns import walk
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.requests.commands import ProduceResult
from kafkaesque.groups import events as group_events
from kafkaesque.groups.errors import GroupError
from kafkaesque.groups.results import DeleteGroupsResult
from kafkaesque.model.batch_encoder import EndMarker, MarkerType
from kafkaesque.model.errors import (
    LeaderNotAvailable,
    NotEnoughReplicasAfterAppend,
    RequestRefused,
)
from kafkaesque.model.ids import TopicPartition
from kafkaesque.transactions import events
from kafkaesque.transactions.errors import TransactionError
from kafkaesque.transactions.results import ForceAbortResult

#: Open transactions that a broker tells.
OPEN_MAX: Final = 5_000
#: The error of an abort of what its producer has written to since it was looked at.
WRITTEN_MEANWHILE: Final = "WRITTEN_MEANWHILE"


class ById(msgspec.Struct, frozen=True, kw_only=True):
    """A group, or a transactional id."""

    id: str


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How it went: `NONE`, or the name of the coordinator's error."""

    error: str
    #: Whether it may be done all the same: who was to do it has lost its leadership meanwhile.
    is_unsure: bool = False

    @property
    def because(self) -> str:
        """Why it is not done, in words."""
        return f"the broker says {self.error}"


class OpenRow(msgspec.Struct, frozen=True, array_like=True):
    """A transaction that is open in a partition, as the partition's leader knows it."""

    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    start_offset: int
    written_ms: int
    #: Where the producer's last batch in the partition ends; -1: an earlier release does not say.
    last_offset: int = -1

    @property
    def where(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


class OpenQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What is open in which partitions, by topic; None: in all that the broker leads."""

    partitions: dict[str, list[int]] | None = None


class OpenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """All that is open there, up to a bound."""

    rows: list[OpenRow]
    #: Where partitions are named: those that are led here. The answer tells nothing of the others.
    led: list[tuple[str, int]] = []

    @property
    def is_whole(self) -> bool:
        """Whether nothing was left out."""
        return len(self.rows) < OPEN_MAX


class AbortOpen(msgspec.Struct, frozen=True, kw_only=True):
    """Abort what is open in a partition, if it is still this."""

    row: OpenRow


DELETE_GROUP: Final = PartPage(name="delete-group", question=ById, answer=Ended)
ABORT_ID: Final = PartPage(name="abort-transaction", question=ById, answer=Ended)
OPEN: Final = PartPage(name="open-transactions", question=OpenQuestion, answer=OpenAnswer)
ABORT_OPEN: Final = PartPage(name="abort-open-transaction", question=AbortOpen, answer=Ended)


def register(context: Context, server: PartServer) -> None:
    """Have these parts served."""
    server.register(DELETE_GROUP, lambda question, done: _delete_group(context, question, done))
    server.register(ABORT_ID, lambda question, done: _abort_id(context, question, done))
    server.register(OPEN, lambda question, done: _tell_open(context, question, done))
    server.register(ABORT_OPEN, lambda question, done: _abort_open(context, question, done))


def _delete_group(context: Context, question: ById, on_done: OnAnswer) -> None:
    groups = context.doors.groups
    was_here = groups.coordinators.error_of(question.id) is None

    def finish(error: GroupError) -> None:
        # It may be in the log of a coordinator that is none any more.
        is_unsure = was_here and error is GroupError.NOT_COORDINATOR
        on_done(Ended(error=error.name, is_unsure=is_unsure))

    def on_shared(error: GroupError) -> None:
        # Cursors are the controller's to delete: whether it has, is not always known.
        is_unsure = was_here and error is GroupError.COORDINATOR_NOT_AVAILABLE
        on_done(Ended(error=error.name, is_unsure=is_unsure))

    def on_result(result: object) -> None:
        error = result
        if isinstance(result, DeleteGroupsResult):
            ((_, error),) = result.groups
        if error is GroupError.GROUP_ID_NOT_FOUND:
            groups.share.delete(question.id, on_shared)
        elif isinstance(error, GroupError):
            finish(error)

    event = group_events.DeleteGroups(token=groups.next_token(), group_ids=(question.id,))
    groups.step(question.id, event, on_result)


def _abort_id(context: Context, question: ById, on_done: OnAnswer) -> None:
    transactions = context.doors.transactions
    was_here = transactions.coordinators.error_of(question.id) is None

    def on_result(result: object) -> None:
        error = result.error if isinstance(result, ForceAbortResult) else result
        if isinstance(error, TransactionError):
            # The decision may be in the log of a coordinator that is none any more.
            is_unsure = was_here and error is TransactionError.NOT_COORDINATOR
            on_done(Ended(error=error.name, is_unsure=is_unsure))

    event = events.ForceAbort(token=transactions.next_token(), transactional_id=question.id)
    transactions.step(question.id, event, on_result)


def _tell_open(context: Context, question: OpenQuestion, on_done: OnAnswer) -> None:
    rows: list[OpenRow] = []
    led: list[tuple[str, int]] = []
    named = question.partitions

    def look() -> Iterator[None]:
        for partition in list(context.doors.reading.all_here()):
            yield
            topic, number = partition.state.topic, partition.state.partition
            if named is not None and number not in named.get(topic, ()):
                continue
            if partition.replica is None or not partition.is_leader:
                continue
            if named is not None:
                led.append((topic, number))
            if len(rows) < OPEN_MAX:
                rows.extend(_open_in(partition)[: OPEN_MAX - len(rows)])

    walk(context.doors.clock, look(), lambda: on_done(OpenAnswer(rows=rows, led=led)))


def _open_in(partition: Partition) -> list[OpenRow]:
    # Nothing is open where readers of what is committed see all.
    if partition.last_stable_offset >= partition.high_watermark:
        return []
    return [
        OpenRow(
            partition.state.topic,
            partition.state.partition,
            each.producer_id,
            each.epoch,
            each.coordinator_epoch,
            each.transaction_start_offset,
            each.last_timestamp_ms,
            each.last_offset,
        )
        for each in partition.producers.describe()
        if each.transaction_start_offset >= 0
    ]


def _abort_open(context: Context, question: AbortOpen, on_done: OnAnswer) -> None:
    """Write an abort that no coordinator has decided, if it is still what was looked at.

    What the producer has written since may be of a transaction that a coordinator knows by now.
    """
    row = question.row
    partition = context.doors.reading.partition(row.where)
    if not partition.is_leader:
        raise LeaderNotAvailable(f"{row.where} is led elsewhere by now")
    wanted = (row.producer_id, row.producer_epoch, row.start_offset)
    found = next(
        (
            each
            for each in _open_in(partition)
            if (each.producer_id, each.producer_epoch, each.start_offset) == wanted
        ),
        None,
    )
    if found is None:
        on_done(Ended(error=TransactionError.INVALID_TXN_STATE.name))
        return
    if found.last_offset != row.last_offset:
        on_done(Ended(error=WRITTEN_MEANWHILE))
        return

    def on_outcome(outcome: ProduceResult | RequestRefused) -> None:
        is_refused = isinstance(outcome, RequestRefused)
        if is_refused and not isinstance(outcome, NotEnoughReplicasAfterAppend):
            # The marker is in the log, and nobody knows whether it stays there.
            on_done(Ended(error=type(outcome).__name__, is_unsure=True))
        else:
            on_done(Ended(error="NONE"))

    partition.append_marker(
        EndMarker(type=MarkerType.ABORT, coordinator_epoch=max(0, row.coordinator_epoch)),
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        is_epoch_bumped=False,
        timeout_ms=CHANGE_MS_MAX,
        on_done=on_outcome,
    )
