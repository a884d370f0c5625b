"""What consumers of a share group said, and what is wrong about it.

Attempts are ordered by their delivery counts, so that it does not matter in which order lines of
several processes are read.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

ABORTED: Final = "aborted "
SLOW: Final = "slow"
#: Acknowledgements after which nobody is given a record again.
FINAL: Final = ("ACCEPT", "REJECT")


class Place(NamedTuple):
    """Where a record is."""

    partition: int
    offset: int


@dataclass(slots=True)
class Attempt:
    """One time that a record was given to somebody."""

    count: int
    consumer: str
    value: str
    #: What the broker has confirmed, and what it has not.
    done: set[str] = field(default_factory=set)
    in_doubt: set[str] = field(default_factory=set)
    is_renewed: bool = False


class ShareLedger:
    """Lines of `bench/java/Shares.java` from several consumers, each read by its own thread."""

    def __init__(self) -> None:
        self._lock: Final = threading.Lock()
        self._attempts: Final[dict[Place, list[Attempt]]] = defaultdict(list)
        #: Who was killed may have settled what he never told of.
        self._killed: Final[set[str]] = set()
        self._wrong: Final[list[str]] = []
        self._last_at = time.monotonic()

    def note(self, consumer: str, line: str) -> None:
        """Note what a consumer has printed."""
        what, partition, offset, count, more = line.split("\t")
        place = Place(int(partition), int(offset))
        with self._lock:
            attempts = self._attempts[place]
            self._last_at = time.monotonic()
            if what == "given":
                attempts.append(Attempt(int(count), consumer, more))
                return
            found = [
                each for each in attempts if each.count == int(count) and each.consumer == consumer
            ]
            if not found:
                self._wrong.append(f"{consumer} settled what it was not given: {line!r}")
                return
            match what:
                case "done":
                    found[-1].done.add(more)
                case "renewed":
                    found[-1].is_renewed = True
                case "doubt":
                    found[-1].in_doubt.add(more)
                case _:
                    self._wrong.append(f"{consumer} said {line!r}")

    def note_killed(self, consumer: str) -> None:
        """A consumer is about to be killed."""
        with self._lock:
            self._killed.add(consumer)

    def count_given(self) -> int:
        """Return how many records were given at least once."""
        with self._lock:
            return sum(bool(attempts) for attempts in self._attempts.values())

    def is_over(self, seconds: float) -> bool:
        """Return whether nothing is under way, and nobody has said anything for so long."""
        with self._lock:
            last = [attempts[-1] for attempts in self._attempts.values() if attempts]
            is_quiet = time.monotonic() - self._last_at > seconds
            return is_quiet and all(self._is_ended(each) for each in last)

    def _is_ended(self, attempt: Attempt) -> bool:
        is_ended = attempt.done.intersection(FINAL) or attempt.in_doubt
        return bool(is_ended) or attempt.consumer in self._killed

    def has_given(self, consumer: str) -> bool:
        """Return whether a consumer was given something."""
        with self._lock:
            return any(
                each.consumer == consumer for all_ in self._attempts.values() for each in all_
            )

    def tally(self) -> str:
        """Return what went on, in words."""
        attempts = [each for all_ in self._attempts.values() for each in all_]
        names = ("ACCEPT", "RELEASE", "REJECT")
        kinds = [f"{sum(kind in each.done for each in attempts):,} {kind}" for kind in names]
        renewed = sum(each.is_renewed for each in attempts)
        doubts = sum(bool(each.in_doubt) for each in attempts)
        said = ", ".join(kinds)
        return f"{len(attempts):,} given, {said}, {renewed:,} renewed, {doubts:,} in doubt"

    def check(self, wanted: Sequence[str]) -> list[str]:
        """Return what is wrong, once the group has nothing left; each value is there once."""
        found = [*self._wrong]
        for place, attempts in self._attempts.items():
            attempts.sort(key=lambda each: each.count)
            found += self._check_record(place, attempts)
        given = {attempts[0].value for attempts in self._attempts.values() if attempts}
        found += [f"lost: {value!r} was never given" for value in wanted if value not in given]
        more = sorted(given - set(wanted))
        found += [f"aborted read: {value!r}" for value in more if value.startswith(ABORTED)]
        found += [f"unsent: {value!r}" for value in more if not value.startswith(ABORTED)]
        return found

    def _check_record(self, place: Place, attempts: Sequence[Attempt]) -> Iterator[str]:
        where = f"{attempts[0].value!r} at {place.offset} of {place.partition}" if attempts else ""
        for number, each in enumerate(attempts):
            later = attempts[number + 1 :]
            if later and later[0].count == each.count:
                yield (
                    f"attempt given twice: number {each.count} of {where}, to {each.consumer} and "
                    f"to {later[0].consumer}"
                )
            if each.done.intersection(FINAL) and later:
                yield f"given again: {where} was ended in attempt {each.count}: {each.done}"
            elif "RELEASE" in each.done and not later:
                yield f"lost: {where} was released in attempt {each.count}, and did not come again"
            elif later and not (each.done or each.in_doubt or each.consumer in self._killed):
                yield f"lock ended early: {where} was taken from {each.consumer}"
        last = attempts[-1] if attempts else None
        if last and not last.done and not last.in_doubt and last.consumer not in self._killed:
            yield f"forgotten: {where} is gone after attempt {last.count}, which nobody ended"
