"""What was sent, what was acknowledged and where, and how to know a record again."""

from __future__ import annotations

import random
import threading
import time
from array import array
from dataclasses import dataclass

_POOL_BYTES = 1 << 16
_POOL = random.Random(20).randbytes(_POOL_BYTES // 2) + b"kafkaesque " * (_POOL_BYTES // 22 + 1)
VALUE_BYTES_MAX = 20_000

Where = tuple[str, int]


def make_value(number: int, size: int) -> bytes:
    """Return the value of a record: its number, and bytes that follow from it."""
    head = b"%d:%d:" % (number, size)
    at = (number * 7919) % (_POOL_BYTES - VALUE_BYTES_MAX)
    return head + _POOL[at : at + size]


def read_value(value: bytes | None) -> int | None:
    """Return the number of the record with this value; None if nobody ever sent it."""
    if value is None:
        return None
    first, _, rest = value.partition(b":")
    size = rest.partition(b":")[0]
    if not first.isdigit() or not size.isdigit():
        return None
    number = int(first)
    return number if value == make_value(number, int(size)) else None


@dataclass(slots=True)
class Resumed:
    """Since when a partition's acknowledgements are waited for, and when one came."""

    since: float
    at: float | None = None


class Ledger:
    """All records of a run by their number; fed from several threads."""

    def __init__(self) -> None:
        self.places: list[Where] = []
        self.place_numbers: dict[Where, int] = {}
        #: By record: producer, place, time sent, offset acknowledged (-1: not).
        self.producers = array("b")
        self.placed = array("h")
        self.sent_at = array("d")
        self.offsets = array("q")
        self.acknowledged = 0
        self.failures: list[str] = []
        self._resumes: dict[Where, list[Resumed]] = {}
        self._lock = threading.Lock()

    def add(self, producer: int, where: Where) -> int:
        """Count a record as sent; return its number."""
        with self._lock:
            place = self.place_numbers.setdefault(where, len(self.places))
            if place == len(self.places):
                self.places.append(where)
            self.producers.append(producer)
            self.placed.append(place)
            self.sent_at.append(time.monotonic())
            self.offsets.append(-1)
            return len(self.offsets) - 1

    def acknowledge(self, number: int, where: Where, offset: int) -> None:
        """Count a record as acknowledged at an offset."""
        now = time.monotonic()
        with self._lock:
            if self.offsets[number] >= 0:
                self.failures.append(f"record {number} was acknowledged twice")
            if self.places[self.placed[number]] != where or offset < 0:
                self.failures.append(f"record {number} was acknowledged at {where}, {offset}")
            self.offsets[number] = offset
            self.acknowledged += 1
            resumes = self._resumes.get(where)
            if resumes:
                sent_at = self.sent_at[number]
                waiting = [each for each in resumes if each.since > sent_at]
                for each in resumes:
                    if each.since <= sent_at:
                        each.at = now
                self._resumes[where] = waiting

    def fail(self, problem: str) -> None:
        """Note what must not happen."""
        with self._lock:
            self.failures.append(problem)

    def watch(self, where: Where, since: float) -> Resumed:
        """Note when a record that is sent from now on is acknowledged."""
        resumed = Resumed(since)
        with self._lock:
            self._resumes.setdefault(where, []).append(resumed)
        return resumed

    @property
    def sent(self) -> int:
        """How many records were sent."""
        return len(self.offsets)

    @property
    def outstanding(self) -> int:
        """How many records wait for their acknowledgement."""
        return len(self.offsets) - self.acknowledged
