"""What was written in transactions to a topic that passes and to one that stays, and what was read.

What holds though the topic passes: nothing of a transaction that was aborted is read as committed,
in no topic of the name, and nothing before its producer has asked for the commit. What was written
by id is read from that topic alone. Of a transaction that was committed all that was acknowledged
is there, in the topic that stays, and in the last topic of the name if it was written to by id, or
when there was no other one any more.

What does not: what was acknowledged by a topic that was deleted later is gone with it, be the
transaction committed before or after. A batch that names its topic by name goes to whichever its
broker takes the name for, also one that is deleted already, and a repetition to the next one. Where
a request is late its copy may come to the next topic, within the next transaction of a producer
that keeps its epoch: no broker can tell it from that one's first batch (ADR 6).
"""

from typing import Final

from kafkaesque.sim.clients.findings import Findings
from kafkaesque.sim.clients.transaction_history import Outcome

#: In place of a topic's number: the topic that stays.
STAYING: Final = 0


class SentBatch:
    """One batch, as its producer knows it."""

    __slots__ = (
        "is_acknowledged",
        "is_stray",
        "known",
        "partition",
        "place",
        "transaction",
        "values",
    )

    def __init__(
        self, transaction: "Transaction", place: int | None, partition: int, values: list[bytes]
    ) -> None:
        """`place` is the number of the topic that the batch is for, None for whichever there is."""
        self.transaction: Final = transaction
        self.place = place
        self.partition: Final = partition
        self.values: Final = values
        self.is_acknowledged = False
        #: Whether a request with it was not answered: it may still be on its way.
        self.is_stray = False
        #: The number of the last topic that was asked for before it was acknowledged.
        self.known = -1


class Transaction:
    """One transaction, as its producer knows it."""

    __slots__ = ("batches", "is_commit_asked", "keeps_epoch", "name", "outcome")

    def __init__(self, name: str, *, keeps_epoch: bool) -> None:
        self.name: Final = name
        self.keeps_epoch: Final = keeps_epoch
        self.batches: Final[list[SentBatch]] = []
        self.is_commit_asked = False
        self.outcome = Outcome.OPEN

    def __str__(self) -> str:
        return self.name

    def refuse(self, *, is_unsure: bool) -> None:
        """The producer gives up; `is_unsure` if an earlier request to commit may have been done."""
        is_unsure = is_unsure and self.is_commit_asked
        self.outcome = Outcome.UNKNOWN if is_unsure else Outcome.ABORTED


class NamesakeHistory:
    """All transactions, and what committed readers got from each topic."""

    def __init__(self, findings: Findings) -> None:
        self._findings: Final = findings
        self._transactions: Final[list[Transaction]] = []
        self._owners: Final[dict[bytes, SentBatch]] = {}
        #: Topic's number, partition and offset -> value
        self._seen: Final[dict[tuple[int, int, int], bytes]] = {}
        self._places: Final[dict[tuple[int, bytes], tuple[int, int]]] = {}
        #: Values by whether they were read from anywhere, in the order in which they were.
        self._read: Final[dict[bytes, int]] = {}
        #: The number of the topic that stays in the end.
        self.last = -1

    @property
    def committed_count(self) -> int:
        """How many commits were answered."""
        return sum(each.outcome is Outcome.COMMITTED for each in self._transactions)

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""
        self._findings.note(f"namesakes: {what}")

    # -- what producers do

    def begin(self, name: str, *, keeps_epoch: bool) -> Transaction:
        """A producer begins a transaction."""
        transaction = Transaction(name, keeps_epoch=keeps_epoch)
        self._transactions.append(transaction)
        return transaction

    def note_sent(self, batch: SentBatch) -> None:
        """A batch is on its way."""
        batch.transaction.batches.append(batch)
        for value in batch.values:
            self._owners[value] = batch

    # -- what committed readers see

    def note_read(self, topic: int, partition: int, offset: int, value: bytes) -> None:
        """A committed reader of the topic of this number got a record."""
        where = f"{_name(topic)}/{partition}@{offset}"
        known = self._seen.setdefault((topic, partition, offset), value)
        place = self._places.setdefault((topic, value), (partition, offset))
        batch = self._owners.get(value)
        if known != value:
            self.note_anomaly(f"{where} is {value!r}, and was {known!r} before")
        elif batch is None or batch.partition != partition:
            self.note_anomaly(f"nobody sent {value!r} to {where}")
        elif place != (partition, offset):
            self.note_anomaly(f"twice: {value!r} is at {where} and {place}")
        elif not self._belongs(batch, topic):
            self.note_anomaly(
                f"namesake's record: {value!r} of {batch.transaction}, sent to "
                f"{_name(batch.place)} and acknowledged before {_name(batch.known + 1)} was asked "
                f"for, is at {where}"
            )
        elif not batch.transaction.is_commit_asked and not _may_be_late(batch):
            self.note_anomaly(f"precommitted read: {value!r} at {where}")
        self._read.setdefault(value, topic)

    def _belongs(self, batch: SentBatch, topic: int) -> bool:
        if batch.place is not None:
            return batch.place == topic
        is_over = batch.is_acknowledged and not batch.is_stray
        return topic != STAYING and not (is_over and topic > batch.known)

    # -- the end

    def check(self) -> None:
        """Compare, once everything has been read to the end."""
        for transaction in self._transactions:
            self._check_aborted(transaction)
            self._check_whole(transaction)

    def _check_aborted(self, transaction: Transaction) -> None:
        if transaction.outcome is not Outcome.ABORTED:
            return
        for batch in transaction.batches:
            found = [value for value in batch.values if value in self._read]
            if found and not _may_be_late(batch):
                where = _name(self._read[found[0]])
                self.note_anomaly(f"aborted read: {found[0]!r} of {transaction} from {where}")

    def _check_whole(self, transaction: Transaction) -> None:
        if transaction.outcome not in (Outcome.COMMITTED, Outcome.UNKNOWN):
            return
        lasting = [
            (batch.place, value)
            for batch in transaction.batches
            if batch.is_acknowledged and batch.place in (STAYING, self.last)
            for value in batch.values
        ]
        missing = [each for each in lasting if each not in self._places]
        if not missing:
            return
        place, value = missing[0]
        if transaction.outcome is Outcome.COMMITTED:
            self.note_anomaly(
                f"lost commit: {value!r} of {transaction} is not in {_name(place)}, with "
                f"{len(missing)} of {len(lasting)} records"
            )
        elif len(missing) < len(lasting):
            self.note_anomaly(f"torn: {value!r} of {transaction} is not in {_name(place)}")


def _may_be_late(batch: SentBatch) -> bool:
    """Return whether a copy of the batch may be in another transaction than its own."""
    return batch.place is None and batch.is_stray and batch.transaction.keeps_epoch


def _name(topic: int | None) -> str:
    if topic is None:
        return "whichever there is"
    return "the topic that stays" if topic == STAYING else f"passing topic {topic}"
