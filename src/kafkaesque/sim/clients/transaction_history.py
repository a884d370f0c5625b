"""What transactional producers did, what committed readers saw; and what is wrong with it.

The checker knows: *precommitted read* (a record was given to a committed reader before its producer
had asked to commit it), *aborted read* (a committed reader got a record of a transaction that was
aborted, or whose commit was refused), *torn* (some of a transaction's records are seen, others
not), *lost commit* (a commit was answered, and records are missing), *twice* (a record is in a log
twice), *reordered* (a transactional id's records not in the order of its epochs and transactions),
*internal send skip* (the records of one batch are not next to each other), *zombie* (a producer
that was shut out before it asked wrote or ended something), *changed id* (a transactional id got
another producer id).
"""

from collections import defaultdict
from enum import Enum, auto
from typing import Final, NamedTuple

from kafkaesque.sim.clients.findings import Findings


class Identity(NamedTuple):
    """What a producer calls itself."""

    producer_id: int
    epoch: int


class Outcome(Enum):
    """What a producer knows of its transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()
    #: It has asked to commit, nobody answered, and it was shut out.
    UNKNOWN = auto()


class SimTransaction:
    """One transaction, as its producer knows it."""

    __slots__ = ("batches", "epoch", "is_commit_asked", "number", "outcome", "producer", "values")

    def __init__(self, producer: "Who", number: int, epoch: int) -> None:
        self.producer: Final = producer
        self.number: Final = number
        self.epoch: Final = epoch
        #: Partition and value of all that was sent.
        self.values: Final[list[tuple[int, bytes]]] = []
        #: The same, batch by batch.
        self.batches: Final[list[tuple[int, list[bytes]]]] = []
        self.is_commit_asked = False
        self.outcome = Outcome.OPEN

    def __str__(self) -> str:
        return f"{self.producer.name}/{self.number}"


class Who(NamedTuple):
    """A producer; rivals have the same transactional id."""

    name: str
    transactional_id: str


class TransactionHistory:
    """The clients' side of one topic's transactions."""

    def __init__(
        self, findings: Findings, topic: str = "transactions", *, is_lock: bool = False
    ) -> None:
        """With `is_lock` a producer that is not shut out holds a lock, and no two may."""
        self._findings: Final = findings
        self._topic: Final = topic
        self._is_lock: Final = is_lock
        self._transactions: Final[list[SimTransaction]] = []
        self._owners: Final[dict[tuple[int, bytes], SimTransaction]] = {}
        #: By transactional id: the newest identity that anybody was given, and who.
        self._newest: Final[dict[str, tuple[Identity, str]]] = {}
        #: partition -> offset -> value
        self._seen: Final[dict[int, dict[int, bytes]]] = defaultdict(dict)
        self._places: Final[dict[tuple[int, bytes], int]] = {}

    @property
    def committed_count(self) -> int:
        """How many commits were answered."""
        return sum(each.outcome is Outcome.COMMITTED for each in self._transactions)

    @property
    def aborted_count(self) -> int:
        """How many transactions were aborted, or given up without being committed."""
        return sum(each.outcome is Outcome.ABORTED for each in self._transactions)

    @property
    def undecided_count(self) -> int:
        """Of how many transactions nobody was told how they have ended."""
        return len(self._transactions) - self.committed_count - self.aborted_count

    def note_anomaly(self, what: str) -> None:
        """Something that must never be was seen."""
        self._findings.note(f"{self._topic}: {what}")

    @property
    def _zombie(self) -> str:
        return "double lock holder" if self._is_lock else "zombie"

    # -- what producers do

    def note_identity(self, who: Who, identity: Identity) -> None:
        """A producer was told what to call itself from now on."""
        newest, _ = self._newest.get(who.transactional_id, (identity, who.name))
        if newest.producer_id != identity.producer_id:
            self.note_anomaly(f"changed id: {who.transactional_id} was {newest}, is {identity}")
        if identity >= newest:
            self._newest[who.transactional_id] = identity, who.name

    def is_shut_out(self, who: Who, identity: Identity) -> bool:
        """Return whether a rival was given a newer identity already."""
        newest, name = self._newest[who.transactional_id]
        return name != who.name and newest > identity

    def begin(self, who: Who, number: int, epoch: int) -> SimTransaction:
        """A producer begins a transaction."""
        transaction = SimTransaction(who, number, epoch)
        self._transactions.append(transaction)
        return transaction

    def note_sent(self, transaction: SimTransaction, partition: int, values: list[bytes]) -> None:
        """A batch is on its way."""
        transaction.batches.append((partition, values))
        for value in values:
            transaction.values.append((partition, value))
            self._owners[partition, value] = transaction

    def note_written(self, transaction: SimTransaction, *, was_shut_out: bool) -> None:
        """A batch was acknowledged that was sent by somebody who was shut out already, or not."""
        self._note_done(f"a batch of {transaction} was acknowledged", was_shut_out=was_shut_out)

    def note_accepted(self, what: str, *, was_shut_out: bool) -> None:
        """The coordinator has done as it was asked."""
        self._note_done(f"{what} was accepted", was_shut_out=was_shut_out)

    def _note_done(self, what: str, *, was_shut_out: bool) -> None:
        if was_shut_out:
            self.note_anomaly(f"{self._zombie}: {what}")

    def note_commit_asked(self, transaction: SimTransaction) -> None:
        """The producer asks for the commit."""
        transaction.is_commit_asked = True

    def note_ended(
        self, transaction: SimTransaction, *, is_commit: bool, was_shut_out: bool
    ) -> None:
        """The coordinator says that it is so."""
        transaction.outcome = Outcome.COMMITTED if is_commit else Outcome.ABORTED
        self.note_accepted(f"the end of {transaction}", was_shut_out=was_shut_out)

    def note_refused(self, transaction: SimTransaction, *, is_unsure: bool) -> None:
        """The producer gives up; `is_unsure` if an earlier request to commit may have been done."""
        is_unsure = is_unsure and transaction.is_commit_asked
        transaction.outcome = Outcome.UNKNOWN if is_unsure else Outcome.ABORTED

    # -- what committed readers see

    def note_read(self, partition: int, offset: int, value: bytes) -> None:
        """A committed reader got a record."""
        known = self._seen[partition].setdefault(offset, value)
        transaction = self._owners.get((partition, value))
        place = self._places.setdefault((partition, value), offset)
        if known != value:
            self.note_anomaly(f"{partition}@{offset} is {value!r}, and was {known!r} before")
        elif transaction is None:
            self.note_anomaly(f"nobody sent {value!r}, at {partition}@{offset}")
        elif not transaction.is_commit_asked:
            self.note_anomaly(f"precommitted read: {value!r} at {partition}@{offset}")
        elif place != offset:
            self.note_anomaly(f"twice: {value!r} is at {partition}@{place} and @{offset}")

    def read(self) -> list[tuple[int, bytes]]:
        """Return partition and value of all that committed readers got."""
        return [
            (partition, value)
            for partition, records in self._seen.items()
            for value in records.values()
        ]

    # -- the end

    def check(self) -> None:
        """Compare, once everything has been read to the end."""
        for transaction in self._transactions:
            self._check_transaction(transaction)
        for partition, records in self._seen.items():
            self._check_order(partition, records)

    def _check_transaction(self, transaction: SimTransaction) -> None:
        missing = [each for each in transaction.values if each not in self._places]
        seen = len(transaction.values) - len(missing)
        if seen and transaction.outcome is Outcome.ABORTED:
            self.note_anomaly(f"aborted read: {seen} records of {transaction}")
        elif seen and missing:
            self.note_anomaly(
                f"torn: {seen} records of {transaction} are there, not {missing[0][1]!r}"
            )
        elif missing and transaction.outcome is Outcome.COMMITTED:
            self.note_anomaly(f"lost commit: {transaction} is gone")
        for partition, values in transaction.batches:
            found = [self._places[partition, v] for v in values if (partition, v) in self._places]
            if found and found[-1] - found[0] != len(found) - 1:
                self.note_anomaly(
                    f"internal send skip: a batch of {transaction} is at {partition}@{found}"
                )

    def _check_order(self, partition: int, records: dict[int, bytes]) -> None:
        newest: dict[str, tuple[int, int, int]] = {}
        for offset in sorted(records):
            value = records[offset]
            transaction = self._owners.get((partition, value))
            if transaction is None:
                continue
            number = int(value.rpartition(b"/")[2])
            place = (transaction.epoch, transaction.number, number)
            transactional_id = transaction.producer.transactional_id
            if place <= newest.get(transactional_id, (-1, -1, -1)):
                what = self._zombie if self._is_lock else "reordered"
                self.note_anomaly(f"{what}: {value!r} at {partition}@{offset} is too late")
            newest[transactional_id] = place
