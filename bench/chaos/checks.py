"""The checkers: pure functions from what clients did and saw, and what is there, to anomalies.

Each anomaly begins with its name. `Log` is what is there in the end: by partition, the records in
the order of their offsets, as a reader was given them from the beginning to the end.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise

from bench.chaos.history import NOBODY, Entry, History, Outcome, Send, Where


@dataclass(slots=True, kw_only=True)
class Partition:
    """The records of one partition, by offset; numbers are those of the history."""

    offsets: array[int] = field(default_factory=lambda: array("q"))
    numbers: array[int] = field(default_factory=lambda: array("q"))

    def add(self, offset: int, number: int) -> None:
        """Add the next record."""
        self.offsets.append(offset)
        self.numbers.append(number)

    def between(self, after: int, before: int) -> array[int]:
        """Return the offsets between two."""
        return self.offsets[bisect_right(self.offsets, after) : bisect_left(self.offsets, before)]


Log = Mapping[Where, Partition]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that is judged."""

    history: History
    #: As a reader of everything sees it, and one of what is committed.
    log: Log
    committed: Log
    #: Topics of which only the newest record of each key need be there.
    compacted: frozenset[str] = frozenset()
    #: Topics that are written in transactions: their ends have offsets that no client is given.
    transactional: frozenset[str] = frozenset()
    lock: Sequence[Entry] = ()


def check_everything(evidence: Evidence) -> list[str]:
    """Return all anomalies."""
    return [
        anomaly
        for check in (
            check_lost_writes,
            check_unseen,
            check_duplicates,
            check_offsets,
            check_unsent,
            check_transactions,
            check_precommitted_reads,
            check_polls,
            check_sends,
            check_send_skips,
            check_lock,
        )
        for anomaly in check(evidence)
    ]


def _name(where: Where) -> str:
    return f"{where[0]}-{where[1]}"


def _when(at: float | None) -> str:
    """Return a time as the brokers' logs write it."""
    if at is None:
        return "never"
    wall = datetime.fromtimestamp(time.time() - time.monotonic() + at, UTC)
    return wall.strftime("%H:%M:%S.%f")[:-3]


def _is_kept(send: Send) -> bool:
    """Return whether a record was promised to be there."""
    if send.transaction is not None:
        return send.transaction.outcome is Outcome.COMMITTED
    return send.acknowledged_at is not None


def _visible(evidence: Evidence, where: Where) -> Partition:
    """Return what a reader of committed records sees; without transactions that is all."""
    log = evidence.committed if where[0] in evidence.transactional else evidence.log
    return log.get(where, Partition())


def _newest_of_keys(evidence: Evidence) -> dict[tuple[Where, bytes], int]:
    """Return the greatest offset of each key in the compacted topics."""
    newest: dict[tuple[Where, bytes], int] = {}
    for where, partition in evidence.log.items():
        if where[0] not in evidence.compacted:
            continue
        for offset, number in zip(partition.offsets, partition.numbers, strict=True):
            key = b"" if number == NOBODY else evidence.history.sends[number].key
            newest[where, key or b""] = offset
    return newest


def _unsaid_offsets(evidence: Evidence) -> dict[int, int]:
    """Return at which offsets records of compacted topics are that were acknowledged without one.

    librdkafka names none where it hears that a batch is there already. It is what a reader was
    given, or else before the producer's next record.
    """
    found: dict[int, int] = {}
    after: dict[tuple[str, Where], int] = {}
    sends = evidence.history.sends
    for number in range(len(sends) - 1, -1, -1):
        send = sends[number]
        if send.where[0] not in evidence.compacted or send.acknowledged_at is None:
            continue
        who = send.producer, send.where
        if send.offset >= 0:
            after[who] = send.offset
        elif who in after:
            found[number] = after[who] - 1
    for reading in evidence.history.readings.values():
        if reading.where[0] in evidence.compacted:
            given = zip(reading.offsets, reading.numbers, strict=True)
            found |= {
                number: offset
                for offset, number in given
                if number != NOBODY and sends[number].offset < 0
            }
    return found


def check_lost_writes(evidence: Evidence) -> Iterator[str]:
    """*Lost write*: acknowledged, or of a committed transaction, and not in the log."""
    found: dict[Where, set[int]] = {
        where: set(_visible(evidence, where).numbers) for where in evidence.log
    }
    newest, unsaid = _newest_of_keys(evidence), _unsaid_offsets(evidence)
    for number, send in enumerate(evidence.history.sends):
        if not _is_kept(send) or number in found.get(send.where, ()):
            continue
        offset = unsaid.get(number, send.offset)
        if newest.get((send.where, send.key or b""), -1) > offset >= 0:
            continue  # compacted away: there is a newer record of its key
        yield (
            f"lost write: record {number} of {send.producer}, acknowledged at "
            f"{_name(send.where)}@{send.offset} at "
            f"{_when(send.acknowledged_at)}, is not in the log"
        )


def check_unseen(evidence: Evidence) -> Iterator[str]:
    """*Unseen*: in the log, and never given to a reader, or to no member of a group."""
    seen: dict[tuple[str, Where], set[int]] = defaultdict(set)
    for reading in evidence.history.readings.values():
        who = reading.reader.partition("/")[0]
        seen[who, reading.where].update(reading.offsets)
    for (who, where), offsets in seen.items():
        if where[0] in evidence.compacted:
            continue
        missing = [each for each in _visible(evidence, where).offsets if each not in offsets]
        if missing:
            yield (
                f"unseen: {who} was never given {len(missing)} records of {_name(where)}, the "
                f"first at {missing[0]}, the last at {missing[-1]}"
            )


def check_duplicates(evidence: Evidence) -> Iterator[str]:
    """*Duplicate*: one record at two offsets."""
    for where, partition in evidence.log.items():
        places: dict[int, int] = {}
        for offset, number in zip(partition.offsets, partition.numbers, strict=True):
            if number != NOBODY and number in places:
                yield (
                    f"duplicate: record {number} of {evidence.history.sends[number].producer} is "
                    f"at {_name(where)}@{places[number]} and @{offset}"
                )
            places[number] = offset


def check_offsets(evidence: Evidence) -> Iterator[str]:
    """*Inconsistent offsets*: two records at one offset; *spurious zero offset*: one of the two."""
    sightings: list[tuple[str, Where, int, int]] = [
        ("acknowledged", send.where, send.offset, number)
        for number, send in enumerate(evidence.history.sends)
        if send.acknowledged_at is not None and send.offset >= 0
    ]
    for reading in evidence.history.readings.values():
        sightings += [
            (f"given to {reading.reader}", reading.where, offset, number)
            for offset, number in zip(reading.offsets, reading.numbers, strict=True)
        ]
    known: dict[tuple[Where, int], int] = {}
    for where, partition in evidence.log.items():
        known.update(
            ((where, offset), number)
            for offset, number in zip(partition.offsets, partition.numbers, strict=True)
        )
    for how, where, offset, number in sightings:
        there = known.setdefault((where, offset), number)
        if there != number:
            name = "spurious zero offset" if offset == 0 else "inconsistent offsets"
            yield f"{name}: record {number} was {how} at {_name(where)}@{offset}, which is {there}"


def check_unsent(evidence: Evidence) -> Iterator[str]:
    """*Unsent*: nobody sent what stands there, or sent it elsewhere."""
    sends = evidence.history.sends
    for where, partition in evidence.log.items():
        for offset, number in zip(partition.offsets, partition.numbers, strict=True):
            if number == NOBODY or sends[number].where != where:
                yield f"unsent: nobody sent what is at {_name(where)}@{offset}"


def check_transactions(evidence: Evidence) -> Iterator[str]:
    """*Aborted read* (G1a), and *torn transaction*: some records are visible, others are not."""
    visible = {
        where: set(_visible(evidence, where).numbers)
        for where in evidence.log
        if where[0] in evidence.transactional
    }
    given: set[int] = set()
    for reading in evidence.history.readings.values():
        if reading.is_committed:
            given.update(reading.numbers)
    for transaction in evidence.history.transactions:
        sends = [(number, evidence.history.sends[number]) for number in transaction.numbers]
        there = [n for n, send in sends if n in visible.get(send.where, ()) or n in given]
        if transaction.outcome is Outcome.ABORTED and there:
            yield (
                f"aborted read: record {there[0]} and {len(there) - 1} more of {transaction.name}, "
                f"which was aborted"
            )
        elif there and len(there) < len(sends):
            gone = [n for n, _ in sends if n not in set(there)]
            yield (
                f"torn transaction: of {transaction.name} ({transaction.outcome.name}) record "
                f"{there[0]} is there, and {gone[0]} is not ({len(gone)} of {len(sends)})"
            )


def check_precommitted_reads(evidence: Evidence) -> Iterator[str]:
    """*Precommitted read*: a committed reader got a record before its commit was asked for."""
    for reading in evidence.history.readings.values():
        if not reading.is_committed:
            continue
        for offset, number, at in zip(reading.offsets, reading.numbers, reading.times, strict=True):
            transaction = None if number == NOBODY else evidence.history.sends[number].transaction
            if transaction is None:
                continue
            asked_at = transaction.commit_asked_at
            if asked_at is None or at < asked_at:
                yield (
                    f"precommitted read: {reading.reader} was given record {number} at "
                    f"{_name(reading.where)}@{offset} at {_when(at)}; the commit was asked "
                    f"for at {_when(asked_at)}"
                )


def check_polls(evidence: Evidence) -> Iterator[str]:
    """*Poll skip* and *non-monotonic poll*, within one poll (internal) or from one to the next.

    What a member of a group is given anew after a rebalance may go back to what was committed, or
    on from there: that is what `subscribe` promises. Within one assignment it may not.
    """
    for reading in evidence.history.readings.values():
        log = evidence.committed if reading.is_committed else evidence.log
        there = log.get(reading.where, Partition())
        is_compacted = reading.where[0] in evidence.compacted
        for place, (before, offset) in enumerate(pairwise(reading.offsets)):
            if reading.assignments[place] != reading.assignments[place + 1]:
                continue
            is_internal = reading.polls[place] == reading.polls[place + 1]
            kind = "internal " if is_internal else ""
            text = (
                f"{reading.reader} was given {_name(reading.where)}@{offset} after @{before} at "
                f"{_when(reading.times[place + 1])}"
            )
            if offset <= before:
                yield f"{kind}non-monotonic poll: {text}"
            elif offset > before + 1 and not is_compacted:
                skipped = there.between(before, offset)
                if skipped:
                    yield f"{kind}poll skip: {text}; {len(skipped)} records are between"


def check_sends(evidence: Evidence) -> Iterator[str]:
    """*Non-monotonic send*: a producer's records of a partition are not in its order."""
    newest: dict[tuple[str, Where], tuple[int, int]] = {}
    for number, send in enumerate(evidence.history.sends):
        if send.acknowledged_at is None or send.offset < 0:
            continue
        before, offset = newest.get((send.producer, send.where), (-1, -1))
        if send.offset <= offset:
            same = evidence.history.sends[before].transaction is send.transaction
            kind = "internal " if same and send.transaction is not None else ""
            yield (
                f"{kind}non-monotonic send: {send.producer} sent {before} to {_name(send.where)}, "
                f"acknowledged @{offset}, and then {number}, acknowledged @{send.offset} at "
                f"{_when(send.acknowledged_at)}"
            )
        newest[send.producer, send.where] = (number, send.offset)
    for where, partition in evidence.log.items():
        last: dict[str, int] = {}
        for offset, number in zip(partition.offsets, partition.numbers, strict=True):
            if number == NOBODY:
                continue
            producer = evidence.history.sends[number].producer
            if last.get(producer, -1) > number:
                yield (
                    f"non-monotonic send: {_name(where)} has record {number} of {producer} at "
                    f"@{offset}, after {last[producer]}"
                )
            last[producer] = number


def check_send_skips(evidence: Evidence) -> Iterator[str]:
    """*Send skip*: offsets between a log's records that nobody has.

    *Internal* if they are between records of one producer. In topics with transactions the ends of
    transactions have offsets of their own, and what was aborted is given to a reader of everything;
    there no more than one offset for each transaction may be missing.
    """
    sends = evidence.history.sends
    for where, partition in evidence.log.items():
        if where[0] in evidence.compacted:
            continue
        missing = 0
        first: tuple[int, int] | None = None
        for place, (before, offset) in enumerate(pairwise(partition.offsets)):
            if offset > before + 1:
                missing += offset - before - 1
                first = first or (place, before + 1)
        if partition.offsets and partition.offsets[0] > 0:
            yield f"send skip: {_name(where)} begins at {partition.offsets[0]}"
        ends = sum(
            any(sends[number].where == where for number in each.numbers)
            for each in evidence.history.transactions
        )
        # A producer that was shut out while nobody knew what it had sent has an end there, too.
        allowed = 2 * ends if where[0] in evidence.transactional else 0
        if first is not None and missing > allowed:
            place, offset = first
            left, right = partition.numbers[place], partition.numbers[place + 1]
            same = NOBODY not in (left, right) and sends[left].producer == sends[right].producer
            yield (
                f"{'internal ' if same else ''}send skip: {missing} offsets of {_name(where)} are "
                f"nobody's, the first is {offset}; {allowed} may be"
            )


def check_lock(evidence: Evidence) -> Iterator[str]:
    """*Double lock holder*: somebody acted after somebody else had announced that it holds."""
    holder, token = "", -1
    for entry in evidence.lock:
        if entry.token is None:
            holder, token = entry.holder, entry.offset
        elif (entry.holder, entry.token) != (holder, token):
            yield (
                f"double lock holder: {entry.holder} (token {entry.token}) acted at "
                f"{entry.offset}, and {holder} holds the lock since {token}"
            )
