"""Appends to a queue's log, or to a topic's, in a transaction that another broker may run.

Theory of operation. Messages come as a batch of the transaction's producer, and so does what it
settles (`queues.joined`). Whether claims are good, and whether there is room, is asked in the same
call that appends: nothing comes between. The log's rules for transactions hold: the coordinator has
to confirm the first batch, so a request that comes late, after the end, opens nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from kafkaesque.broker.partitions.batch_checks import BatchChecks, LongCheck
from kafkaesque.broker.partitions.partition import Partition
from kafkaesque.broker.partitions.partition_table import PartitionTable
from kafkaesque.broker.queues.host import QueueHost
from kafkaesque.broker.queues.put_batches import identity_of_record
from kafkaesque.broker.queues.putting import FULL, filled, places, stripped
from kafkaesque.broker.requests.commands import AddToTransaction, ProduceResult
from kafkaesque.broker.requests.transaction_requests import JoinedTransaction, JoinTransaction
from kafkaesque.env.clock import Clock
from kafkaesque.model.batch import read_batch_header
from kafkaesque.model.batch_encoder import BatchOptions, encode_batch
from kafkaesque.model.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    RequestRefused,
    TransactionUnverified,
)
from kafkaesque.model.ids import TopicId
from kafkaesque.model.record_errors import InvalidRecord
from kafkaesque.model.records import Record, decode_batch
from kafkaesque.queues.claims import is_over_bound
from kafkaesque.queues.joined import staging_record
from kafkaesque.transactions.errors import TransactionError

#: A marker that comes between makes a confirmation void; then it is asked for again, so often.
CONFIRMATIONS_MAX: Final = 3
_BYTES_MAX: Final = 64 * 1024 * 1024

OnProduced = Callable[[ProduceResult | RequestRefused], None]
OnJoined = Callable[[JoinedTransaction | RequestRefused], None]
Confirm = Callable[[AddToTransaction, Callable[[TransactionError], None]], None]
FindHost = Callable[[TopicId, int], QueueHost | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class JoiningParts:
    """What all who join need of the broker."""

    clock: Clock
    partitions: PartitionTable
    checks: BatchChecks
    find_host: FindHost
    confirm: Confirm


class Joining:
    """One request; see the module. A refusal says that nothing of it will be committed."""

    __slots__ = (
        "_checked",
        "_confirmations",
        "_offsets",
        "_on_done",
        "_parts",
        "_records",
        "_request",
        "_waits",
    )

    def __init__(self, parts: JoiningParts, request: JoinTransaction, on_done: OnJoined) -> None:
        self._parts = parts
        self._request = request
        self._on_done = on_done
        self._confirmations = 0
        self._records: list[Record] = []
        #: Where each record is; None: where the appended batch will say.
        self._offsets: list[int | None] = []
        #: Appends that are not committed yet.
        self._waits = 0
        #: The batch that was checked last.
        self._checked = b""

    def begin(self) -> None:
        """Append; the answer follows at the commit."""
        try:
            self._records = _records_of(self._request.part.records)
            if is_over_bound(tuple(self._request.part.claims)):
                raise InvalidRequest("too many messages are settled at once")
            self._append(None)
        except RequestRefused as refusal:
            self._refuse(refusal)

    def _try(self, checked: LongCheck | None) -> None:
        try:
            self._append(checked)
        except RequestRefused as refusal:
            self._refuse(refusal)

    def _append(self, checked: LongCheck | None) -> None:
        part = self._request.part
        partition = self._parts.partitions.find_log(TopicId(part.log_id), part.partition)
        partition.check_leader()
        host = self._parts.find_host(TopicId(part.log_id), part.partition)
        kept: Sequence[Record] = self._records
        staged: list[Record] = []
        if host is None:
            if part.claims:
                raise InvalidRequest("only messages of queues can be settled")
            self._offsets = [None] * len(kept)
        else:
            host.partition()
            if host.queue.is_staged(tuple(part.claims)):
                # By one that has failed, perhaps, and of which the end is under way.
                raise LeaderNotAvailable("another transaction settles a message, and is open")
            good, stale = host.queue.staging_of(tuple(part.claims))
            if stale:
                self._on_done(JoinedTransaction([], list(stale)))
                return
            kept = self._admit(host)
            if FULL in self._offsets:
                self._answer(0)
                return
            staged = [staging_record(good)] if good else []
        try:
            check = self._produce(partition, kept, staged, checked)
        except TransactionUnverified as unverified:
            self._confirm(partition, unverified)
            return
        if check is not None:
            self._parts.checks.run(check, lambda: self._try(check))

    def _admit(self, host: QueueHost) -> list[Record]:
        """Return the messages for which there is room and that are no duplicates."""
        if not self._records:
            return []
        if not host.queue.has_own_log:
            raise InvalidRequest("messages of a cursor are put into its topic")
        if host.admits_all:
            self._offsets = [None] * len(self._records)
            return self._records
        identities = [identity_of_record(record) for record in self._records]
        sizes = [len(record.key or b"") + len(record.value or b"") for record in self._records]
        self._offsets = places(host.admit(identities, sizes))
        wanted = zip(self._records, self._offsets, strict=True)
        return [record for record, place in wanted if place is None]

    def _produce(
        self,
        partition: Partition,
        records: Sequence[Record],
        staged: Sequence[Record],
        checked: LongCheck | None,
    ) -> LongCheck | None:
        """Append both batches, the long one first; return its check if that has to be run."""
        request, number = self._request, 0
        batches = [each for each in (records, staged) if each]
        self._waits = len(batches)
        for each in batches:
            options = BatchOptions(
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                base_sequence=number,
                transactional=True,
            )
            batch = encode_batch([one._replace(offset=at) for at, one in enumerate(each)], options)
            # Another batch than the one that was checked, if there is less room now.
            is_checked = checked is not None and bytes(batch) == self._checked
            self._checked = bytes(batch) if checked is None else self._checked
            check = partition.produce(
                batch,
                acks=-1,
                timeout_ms=request.timeout_ms,
                on_done=self._waiting_for(is_messages=each is records),
                checked=checked if is_checked else None,
                transactional_id=request.transactional_id,
            )
            if check is not None:
                return check
            number += len(each)
        if not batches:
            self._answer(0)
        return None

    def _waiting_for(
        self, *, is_messages: bool
    ) -> Callable[[ProduceResult | RequestRefused], None]:
        def on_produced(outcome: ProduceResult | RequestRefused) -> None:
            if isinstance(outcome, RequestRefused):
                self._refuse(outcome)
                return
            if is_messages:
                self._offsets = list(filled(self._offsets, outcome.base_offset))
            self._waits -= 1
            if not self._waits:
                self._answer(0)

        return on_produced

    def _answer(self, base_offset: int) -> None:
        if FULL in self._offsets:
            offsets = [FULL if each is None or each < FULL else each for each in self._offsets]
        else:
            offsets = filled(self._offsets, base_offset)
        on_done, self._on_done = self._on_done, _nothing
        on_done(JoinedTransaction(offsets, []))

    def _refuse(self, refusal: RequestRefused) -> None:
        on_done, self._on_done = self._on_done, _nothing
        on_done(refusal)

    def _confirm(self, partition: Partition, unverified: TransactionUnverified) -> None:
        """Have the coordinator say that the transaction is open, and has this log."""
        self._confirmations += 1
        request = self._request
        asked = AddToTransaction(
            transactional_id=request.transactional_id,
            producer_id=request.producer_id,
            producer_epoch=request.producer_epoch,
            topic=partition.state.topic,
            topic_id=partition.state.topic_id,
            partition=partition.state.partition,
            verify_only=True,
        )

        def on_error(error: TransactionError) -> None:
            if error is not TransactionError.NONE or self._confirmations > CONFIRMATIONS_MAX:
                why = f"the coordinator does not confirm the transaction: {error.name}"
                self._refuse(LeaderNotAvailable(why))
                return
            partition.producers.verified(unverified.guard)
            # Not within the coordinator's turn.
            self._parts.clock.call_soon(lambda: self._try(None))

        self._parts.confirm(asked, on_error)


def _records_of(batch: bytes) -> list[Record]:
    if not batch:
        return []
    header = read_batch_header(batch)
    if header.is_compressed or header.is_control or header.producer_id >= 0:
        raise InvalidRecord("messages of a transaction come in a plain batch without compression")
    return [stripped(record) for record in decode_batch(batch, _BYTES_MAX)]


def _nothing(_: JoinedTransaction | RequestRefused) -> None:
    """It is answered already."""
