"""What the query makes of each record, for the query itself and for whoever checks its results."""

from __future__ import annotations

import hashlib
from collections import Counter


def transform(value: bytes) -> list[bytes]:
    """Return what becomes of one record: nothing of each tenth, two of each seventh, else one."""
    number = int(value)
    if number % 10 == 0:
        return []
    digest = hashlib.sha256(value).hexdigest()[:16].encode()
    return [b"%d %d %s" % (number, part, digest) for part in range(2 if number % 7 == 0 else 1)]


def compare(expected: Counter[bytes], found: Counter[bytes]) -> tuple[int, int, int]:
    """Return how many results are lost, there too often, and there that nobody expects."""
    too_many = found - expected
    doubled = sum(count for each, count in too_many.items() if each in expected)
    return (expected - found).total(), doubled, too_many.total() - doubled
