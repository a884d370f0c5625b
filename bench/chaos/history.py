"""What clients did and saw, operation by operation: the ledger that the checkers judge.

All of it is in memory for the checkers, and on disk, one line of JSON for each operation, as the
evidence. Fed from several threads.
"""

from __future__ import annotations

import io
import json
import threading
import time
from array import array
from collections import defaultdict
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

from bench.kills.ledger import Where, make_value, read_value

__all__ = [
    "NOBODY",
    "Entry",
    "History",
    "Outcome",
    "Reading",
    "Send",
    "Transaction",
    "Where",
    "make_value",
    "read_value",
]

#: The number of a record that nobody sent.
NOBODY = -2


@dataclass(slots=True, kw_only=True)
class Send:
    """One record that a producer sent; its number is its place in the history."""

    producer: str
    where: Where
    at: float
    key: bytes | None = None
    transaction: Transaction | None = None
    acknowledged_at: float | None = None
    offset: int = -1
    #: Why it was given up, if it was.
    error: str = ""


class Outcome(Enum):
    """What a producer knows of its transaction."""

    OPEN = auto()
    COMMITTED = auto()
    ABORTED = auto()
    #: It has asked for the end, and was never answered.
    UNKNOWN = auto()


@dataclass(slots=True, kw_only=True, eq=False)
class Transaction:
    """One transaction, as its producer knows it."""

    name: str
    begun_at: float
    #: Numbers of the records.
    numbers: list[int] = field(default_factory=list)
    commit_asked_at: float | None = None
    outcome: Outcome = Outcome.OPEN


@dataclass(slots=True, kw_only=True)
class Reading:
    """What one reader was given of one partition, in its order."""

    reader: str
    where: Where
    #: Whether it reads what is committed, only.
    is_committed: bool
    #: A member of a group; else the partition is assigned by hand and never given up.
    is_member: bool = False
    offsets: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))
    #: Of each record: which poll gave it, and since which assignment.
    polls: array[int] = field(default_factory=lambda: array("l"))
    assignments: array[int] = field(default_factory=lambda: array("l"))
    times: array[float] = field(default_factory=lambda: array("d"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A record of the lock's topic: who wrote it, and under which announcement."""

    offset: int
    holder: str
    #: The holder's own announcement, which is a record itself; None: this is one.
    token: int | None


class Journal:
    """The history as lines on disk."""

    def __init__(self, path: Path) -> None:
        self._file: io.TextIOWrapper | None = path.open("w", encoding="utf-8")
        self._lock = threading.Lock()

    def write(self, what: str, **values: Any) -> None:
        """Add a line."""
        line = json.dumps({"at": round(time.time(), 4), "what": what, **values}, default=str)
        with self._lock:
            if self._file is not None:
                self._file.write(line + "\n")

    def close(self) -> None:
        """Write what is buffered, and no more."""
        with self._lock:
            if self._file is not None:
                self._file.close()
                self._file = None


class History:
    """Everything that clients did and saw in one run."""

    def __init__(self, journal: Journal | None = None) -> None:
        self.sends: list[Send] = []
        self.transactions: list[Transaction] = []
        self.readings: dict[tuple[str, Where], Reading] = {}
        #: What went wrong at a client that must not.
        self.anomalies: list[str] = []
        #: What the clients were told of, by name: for the report.
        self.errors: dict[str, int] = defaultdict(int)
        self.acknowledged = 0
        self.last_acknowledged_at = time.monotonic()
        self.longest_silence_s = 0.0
        self.longest_silence_began_at = self.last_acknowledged_at
        #: By group: the newest commits that were acknowledged.
        self.commits: dict[str, dict[Where, int]] = defaultdict(dict)
        self._journal = journal
        self._lock = threading.Lock()

    def note(self, what: str, **values: Any) -> None:
        """Write a line of evidence."""
        if self._journal is not None:
            self._journal.write(what, **values)

    def anomaly(self, what: str) -> None:
        """Something that must never be was seen."""
        self.note("anomaly", text=what)
        with self._lock:
            self.anomalies.append(what)

    def error(self, who: str, name: str) -> None:
        """A client was told of something that may be."""
        self.note("error", who=who, error=name)
        with self._lock:
            self.errors[f"{who.rstrip('0123456789')}: {name}"] += 1

    # -- producers

    def send(
        self,
        producer: str,
        where: Where,
        *,
        key: bytes | None = None,
        transaction: Transaction | None = None,
    ) -> int:
        """A record is on its way; return its number."""
        send = Send(
            producer=producer, where=where, at=time.monotonic(), key=key, transaction=transaction
        )
        with self._lock:
            self.sends.append(send)
            number = len(self.sends) - 1
        if transaction is not None:
            transaction.numbers.append(number)
        self.note("send", producer=producer, where=where, number=number)
        return number

    def acknowledge(self, number: int, offset: int | None) -> None:
        """A record was acknowledged; without an offset where its batch was there already."""
        now = time.monotonic()
        send = self.sends[number]
        if send.acknowledged_at is not None:
            self.anomaly(f"record {number} was acknowledged at {send.offset} and at {offset}")
        with self._lock:
            send.acknowledged_at, send.offset = now, -1 if offset is None else offset
            self.acknowledged += 1
            silence_s = now - self.last_acknowledged_at
            if silence_s > self.longest_silence_s:
                self.longest_silence_s = silence_s
                self.longest_silence_began_at = self.last_acknowledged_at
            self.last_acknowledged_at = now
        self.note("acknowledged", number=number, offset=offset)

    def give_up(self, number: int, error: str) -> None:
        """A producer was told that a record is not written, or that nobody knows."""
        self.sends[number].error = error
        self.note("given up", number=number, error=error)

    def begin(self, name: str) -> Transaction:
        """A transaction begins."""
        transaction = Transaction(name=name, begun_at=time.monotonic())
        with self._lock:
            self.transactions.append(transaction)
        return transaction

    def ask_commit(self, transaction: Transaction) -> None:
        """The producer is about to ask for the commit."""
        transaction.commit_asked_at = time.monotonic()

    def end(self, transaction: Transaction, outcome: Outcome) -> None:
        """The producer knows how the transaction has ended, or that it will never know."""
        transaction.outcome = outcome
        self.note(
            "transaction",
            name=transaction.name,
            outcome=outcome.name,
            numbers=transaction.numbers,
        )

    # -- readers

    def read(
        self,
        reading: Reading,
        offset: int,
        value: bytes | None,
        *,
        poll: int,
        assignment: int = 0,
    ) -> int:
        """A reader was given a record; return its number."""
        number = read_value(value)
        number = NOBODY if number is None or number >= len(self.sends) else number
        reading.offsets.append(offset)
        reading.numbers.append(number)
        reading.polls.append(poll)
        reading.assignments.append(assignment)
        reading.times.append(time.monotonic())
        self.note("read", reader=reading.reader, where=reading.where, offset=offset, number=number)
        return number

    def reading(
        self, reader: str, where: Where, *, is_committed: bool, is_member: bool = False
    ) -> Reading:
        """Return where a reader's records of a partition are noted."""
        with self._lock:
            return self.readings.setdefault(
                (reader, where),
                Reading(reader=reader, where=where, is_committed=is_committed, is_member=is_member),
            )
